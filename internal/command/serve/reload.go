package serve

import (
	"context"
	"log/slog"
	"os"
	"time"

	"ossian/internal/config"
	"ossian/internal/limits"
	"ossian/internal/server"
)

// A reloader keeps a running server as its operator wants it: SIGHUP makes it read
// the settings again (reliability.md OPS-4), and who lets everyone in hears of it
// every hour (SEC-1). It is used by one goroutine.
type reloader struct {
	cfg    *config.Config // in force
	src    config.Source
	server *server.Server
	tools  *toolshed
	secure *certificates
	level  *slog.LevelVar
	log    *slog.Logger
	bodies int64 // bytes in flight that the memory plan has room for

	outlives bool // the server outlives its terminal, as nohup has it
}

// run returns when ctx ends. end is called for the SIGHUP of a terminal that has
// been closed, unless the server is to outlive it: who began it there is gone.
func (r *reloader) run(ctx context.Context, hup <-chan os.Signal, end func()) {
	interactive := !r.outlives && hasTerminal()
	hourly := time.NewTicker(time.Hour)
	defer hourly.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-hourly.C:
			if r.cfg.Open() {
				r.log.Warn("everyone who reaches this server may use it: there is no key", "host", r.cfg.Host)
			}
		case <-hup: // from an operator, or because the terminal has closed
			if interactive && !hasTerminal() {
				end()
				return
			}
			r.reload()
		}
	}
}

// reload puts the settings in force that can change while requests are served, or
// says why it does not.
func (r *reloader) reload() {
	// Everything is checked before anything changes: new settings count as a whole or not.
	next, waiting, err := r.cfg.Reload(r.src)
	if err != nil {
		r.log.Error("settings stay as they are: the new ones are refused", "error", err)
		return
	}
	if body := next.Limits[limits.RequestBody]; body >= r.bodies {
		r.log.Error("settings stay as they are: bodies of that size need a new memory plan, and so a restart", "request_body", body, "planned_for_all_bodies", r.bodies)
		return
	}
	if err := r.secure.renew(next); err != nil {
		r.log.Error("settings stay as they are: the certificate is refused", "error", err)
		return
	}
	next.Limits[limits.BodiesInFlight] = min(next.Limits[limits.BodiesInFlight], r.bodies)
	r.cfg = next
	setLevel(r.level, next)
	r.server.Reload(next.APIKeys, next.Limits)
	r.tools.limits.Store(next.Limits)
	r.log.Info("settings reloaded", "keys", len(next.APIKeys), "log_level", next.LogLevel, "changed_but_need_a_restart", waiting)
}

// hasTerminal reports whether a terminal controls this process.
func hasTerminal() bool {
	f, err := os.Open("/dev/tty")
	if err != nil {
		return false
	}
	_ = f.Close()
	return true
}
