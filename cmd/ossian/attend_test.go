package main

import (
	"context"
	"log/slog"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

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
			log := &console{}
			a := &attendant{cfg: cfg, log: slog.New(slog.NewTextHandler(log, nil))}
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				a.attend(ctx, make(chan os.Signal), cancel)
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
