package serve

import (
	"cmp"
	"context"
	"log/slog"
	"strings"
	"sync/atomic"

	"ossian/internal/api"
	"ossian/internal/config"
	"ossian/internal/limits"
	"ossian/internal/metrics"
	"ossian/internal/tools/registry"
)

// A toolshed is what a server runs for models.
type toolshed struct {
	all    *registry.Registry // nil = nothing
	limits atomic.Pointer[limits.Set]
	log    *slog.Logger
}

// openTools begins to use the tools that the settings name.
func openTools(cfg *config.Config, version string, log *slog.Logger, counters *metrics.Server) (shed *toolshed, err error) {
	shed = &toolshed{log: log}
	shed.limits.Store(cfg.Limits)
	if shed.all, err = registry.Open(cfg, version, shed.limits.Load, log); err != nil || shed.all == nil {
		return shed, err
	}
	counters.ToolServers(func() (servers []metrics.ToolServer) {
		for _, status := range shed.all.Status() {
			servers = append(servers, metrics.ToolServer{Name: strings.ToValidUTF8(cmp.Or(status.Name, status.Address), "\uFFFD"), Kind: status.Kind, Works: status.Works})
		}
		return servers
	})
	return shed, nil
}

// toolbox returns what handlers ask; nil = there is nothing.
func (s *toolshed) toolbox() api.Toolbox {
	if s.all == nil {
		return nil
	}
	return s.all
}

// tell logs of each tool whether it works, once that is known.
func (s *toolshed) tell(ctx context.Context) {
	if s.all == nil {
		return
	}
	for _, status := range s.all.Tried(ctx) {
		switch {
		case ctx.Err() != nil:
			return
		case status.Works:
			s.log.Info("tool works", "tool", status.Name, "kind", status.Kind, "backend", status.Backend, "address", status.Address)
		default:
			s.log.Warn("tool is off", "tool", status.Name, "kind", status.Kind, "address", status.Address, "reason", status.Problem)
		}
	}
}

// close ends the tools: no process of theirs is left, and no connection.
func (s *toolshed) close() {
	if s.all != nil {
		s.all.Close()
	}
}
