package serve

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"ossian/internal/config"
)

// Whoever reads the log may end or stall: who writes neither waits nor fails, and what is
// lost is counted.
func TestLogWriter(t *testing.T) {
	var lost atomic.Int64
	dropped := func() { lost.Add(1) }
	var all bytes.Buffer
	w := newLogWriter(&all, dropped)
	for i := range 1000 {
		fmt.Fprintf(w, "line %d\n", i)
	}
	w.close()
	<-w.done // close gives up after a while
	if lines := strings.Split(all.String(), "\n"); len(lines) != 1001 || lines[999] != "line 999" || lost.Load() != 0 {
		t.Errorf("%d lines, the last %q, %d lost", len(lines), lines[len(lines)-2], lost.Load())
	}
	if n, err := w.Write([]byte("behind the end\n")); n != 15 || err != nil || lost.Load() != 1 {
		t.Errorf("behind the end: %d, %v, %d lost", n, err, lost.Load())
	}

	// The reader has ended.
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	reader.Close()
	lost.Store(0)
	w = newLogWriter(writer, dropped)
	for range 10 {
		if _, err := io.WriteString(w, "x\n"); err != nil {
			t.Error(err)
		}
	}
	w.close()
	<-w.done
	writer.Close()
	if lost.Load() != 10 {
		t.Errorf("%d lines are counted, 10 were lost", lost.Load())
	}
}

// stalled does not return until it is closed.
type stalled chan struct{}

func (s stalled) Write([]byte) (int, error) {
	<-s
	return 0, errors.New("nobody has read this")
}

// A reader that reads nothing keeps no writer waiting, and the end for lastLogs.
func TestLogWriterStalled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lost atomic.Int64
		reader := make(stalled)
		w := newLogWriter(reader, func() { lost.Add(1) })
		began := time.Now()
		line := bytes.Repeat([]byte("x"), 1<<10)
		for range mostLog>>10 + 100 {
			if _, err := w.Write(line); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(began); took > 0 || lost.Load() != 100 {
			t.Errorf("waited for %v, %d lines are counted, 100 did not fit", took, lost.Load())
		}
		w.close()
		if took := time.Since(began); took != lastLogs {
			t.Errorf("the end took %v, want %v", took, lastLogs)
		}
		close(reader)
		<-w.done
		if lost.Load() != mostLog>>10+100 {
			t.Errorf("%d lines are counted, all were lost", lost.Load())
		}
	})
}

// What others wrote cannot steer a terminal through the log, and does not fill it.
func TestLogClean(t *testing.T) {
	const hostile = "a\x1b]52;c;AAAA\x07b\u009b2Jc\u0085d"
	for _, people := range []bool{false, true} {
		var out strings.Builder
		cfg := &config.Config{}
		cfg.LogFormat = "auto"
		log := logger(cfg, new(slog.LevelVar), &out, people)
		log.Error(hostile, "text", hostile, "error", fmt.Errorf("wrong: %w", errors.New(hostile)), "long", strings.Repeat("x", 3<<20))
		text := out.String()
		if strings.ContainsAny(strings.TrimSuffix(text, "\n"), "\x1b\x07\u009b\u0085\n") || !strings.Contains(text, "wrong: a]52") || len(text) > mostText+4096 {
			t.Errorf("people %v: %d bytes, %.300q", people, len(text), text)
		}
	}
}
