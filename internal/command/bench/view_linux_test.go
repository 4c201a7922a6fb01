package bench

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ossian/internal/bench"
	"ossian/internal/command/commandtest"
)

// The view must appear, must leave the terminal's modes alone while it runs, must end
// when the run is broken off, and must leave empty lines and a visible cursor.
func TestBenchViewOnPTY(t *testing.T) {
	t.Setenv("TERM", "xterm")
	master, slave := commandtest.PTY(t)
	before, err := unix.IoctlGetTermios(int(slave.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	seen := make(chan string, 1)
	shown := make(chan bool, 1)
	go func() {
		var all bytes.Buffer
		buf := make([]byte, 4096)
		for {
			n, err := master.Read(buf)
			all.Write(buf[:n])
			if bytes.Contains(all.Bytes(), []byte("7 in flight")) {
				select {
				case shown <- true:
				default:
				}
			}
			if err != nil || bytes.Contains(all.Bytes(), []byte("THE END")) {
				seen <- all.String()
				return
			}
		}
	}()
	live := &bench.Live{}
	live.Total.Store(20)
	live.Released.Store(10)
	live.Sent.Store(10)
	live.Done.Store(3)
	ctx, cancel := context.WithCancel(t.Context())
	stop := watch(ctx, live, slave, true)
	defer stop()
	select {
	case <-shown:
	case <-time.After(2 * time.Minute):
		t.Fatal("no view appeared")
	}
	during, err := unix.IoctlGetTermios(int(slave.Fd()), unix.TCGETS)
	if err != nil || *during != *before {
		t.Errorf("terminal modes changed while the view is shown: %v, %v", during, err)
	}
	cancel() // as Ctrl-C does
	stop()
	fmt.Fprint(slave, "THE END")
	out := <-seen
	if !strings.Contains(out, "█") || !strings.Contains(out, "3 of 20 done (15%)") {
		t.Errorf("no bar in %q", out)
	}
	if strings.LastIndex(out, "\x1b[?25l") > strings.LastIndex(out, "\x1b[?25h") {
		t.Errorf("cursor left hidden: %q", out)
	}
	tail := out[strings.LastIndex(out, "in flight"):]
	if !strings.Contains(tail, "\x1b[J") && !strings.Contains(tail, "\x1b[K") && !strings.Contains(tail, "\x1b[2K") {
		t.Errorf("view not erased: %q", tail)
	}
}
