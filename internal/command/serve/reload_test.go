package serve

import (
	"context"
	"log/slog"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"ossian/internal/command/commandtest"
	"ossian/internal/config"
)

// Who lets everyone in is told every hour.
func TestSEC1Reminder(t *testing.T) {
	for args, want := range map[string]int{"--host 0.0.0.0 --insecure": 3, "--host 0.0.0.0 --api-key k": 0, "--insecure": 0} {
		synctest.Test(t, func(t *testing.T) {
			cfg, err := config.Load(config.Source{Args: strings.Fields(args)})
			if err != nil {
				t.Fatal(err)
			}
			log := &commandtest.Console{}
			a := &reloader{cfg: cfg, log: slog.New(slog.NewTextHandler(log, nil))}
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				a.run(ctx, make(chan os.Signal), cancel)
			}()
			time.Sleep(3*time.Hour + time.Minute)
			cancel()
			<-ended
			if n := strings.Count(log.String(), "everyone who reaches this server may use it"); n != want {
				t.Errorf("%s: %d reminders in three hours, want %d", args, n, want)
			}
		})
	}
}

// Bodies that the memory plan has no room for are refused with the reason, and nothing
// else of the new settings counts.
func TestReloadOfLargerBodies(t *testing.T) {
	src := config.Source{Args: []string{"--limit", "request-body=8Mi"}}
	cfg, err := config.Load(src)
	if err != nil {
		t.Fatal(err)
	}
	log := &commandtest.Console{}
	a := &reloader{cfg: cfg, src: config.Source{Args: []string{"--limit", "request-body=64Mi", "--log-level", "debug"}}, log: slog.New(slog.NewTextHandler(log, nil)), bodies: 32 << 20}
	a.reload() // there is no server to change
	if a.cfg != cfg || !strings.Contains(log.String(), "need a new memory plan") {
		t.Errorf("settings %+v, log %s", a.cfg.Settings, log)
	}
}
