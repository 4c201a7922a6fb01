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
	secure *certificates
	level  *slog.LevelVar
	log    *slog.Logger
	bodies int64 // bytes in flight that the memory plan has room for

	outlives bool // its terminal, as nohup has it
}

// run returns when ctx ends. end is called for the SIGHUP of a terminal that has
// been closed, unless the server is to outlive it: who began it there is gone.
func (a *reloader) run(ctx context.Context, hup <-chan os.Signal, end func()) {
	interactive := !a.outlives && hasTerminal()
	hourly := time.NewTicker(time.Hour)
	defer hourly.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-hourly.C:
			if a.cfg.Open() {
				a.log.Warn("everyone who reaches this server may use it: there is no key", "host", a.cfg.Host)
			}
		case <-hup:
			if interactive && !hasTerminal() {
				end()
				return
			}
			a.reload()
		}
	}
}

// reload puts the settings in force that can change while requests are served, or
// says why it does not.
func (a *reloader) reload() {
	next, waiting, err := a.cfg.Reload(a.src)
	if err != nil {
		a.log.Error("settings stay as they are: the new ones are refused", "error", err)
		return
	}
	if body := next.Limits[limits.RequestBody]; body >= a.bodies {
		a.log.Error("settings stay as they are: bodies of that size need a new memory plan, and so a restart", "request_body", body, "planned_for_all_bodies", a.bodies)
		return
	}
	if err := a.secure.renew(next); err != nil {
		a.log.Error("settings stay as they are: the certificate is refused", "error", err)
		return
	}
	next.Limits[limits.BodiesInFlight] = min(next.Limits[limits.BodiesInFlight], a.bodies)
	a.cfg = next
	setLevel(a.level, next)
	a.server.Reload(next.APIKeys, next.Limits)
	a.log.Info("settings reloaded", "keys", len(next.APIKeys), "log_level", next.LogLevel, "changed_but_need_a_restart", waiting)
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
