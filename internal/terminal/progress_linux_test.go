package terminal

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"ossian/internal/command/commandtest"

	"golang.org/x/sys/unix"
)

// A bar must appear, must ask the terminal nothing, must leave its modes alone
// while it runs (a killed process restores nothing) and must leave an empty line.
func TestProgressBarOnTerminal(t *testing.T) {
	t.Setenv("TERM", "xterm-kitty")
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
			if bytes.Contains(all.Bytes(), []byte("50%")) {
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
	p := NewProgress(slave, "Loading", Bytes, 1000)
	p.Set(500)
	select {
	case <-shown:
	case <-time.After(2 * time.Minute):
		t.Fatal("no bar appeared")
	}
	during, err := unix.IoctlGetTermios(int(slave.Fd()), unix.TCGETS)
	if err != nil || *during != *before {
		t.Errorf("terminal modes changed while the bar is shown: %v, %v", during, err)
	}
	p.Done()
	fmt.Fprint(slave, "THE END")
	out := <-seen
	for name, seq := range map[string]string{
		"mode query": "$p", "device query": "[c", "cursor style": " q", "bracketed paste": "?2004", "alternate screen": "?1049", "key protocol": "[>",
	} {
		if strings.Contains(out, seq) {
			t.Errorf("%s sent: %q", name, out)
		}
	}
	if !strings.Contains(out, "█") || !strings.Contains(out, "░") {
		t.Errorf("no bar in %q", out)
	}
	if strings.LastIndex(out, "\x1b[?25l") > strings.LastIndex(out, "\x1b[?25h") {
		t.Errorf("cursor left hidden: %q", out)
	}
	tail := out[strings.LastIndex(out, "500 B"):]
	if !strings.Contains(tail, "\x1b[J") && !strings.Contains(tail, "\x1b[K") && !strings.Contains(tail, "\x1b[2K") {
		t.Errorf("bar not erased: %q", tail)
	}
}

func TestProgressDrawable(t *testing.T) {
	_, slave := commandtest.PTY(t)
	t.Setenv("TERM", "xterm")
	if !drawable(slave) {
		t.Error("a terminal of 100 columns is not drawable")
	}
	t.Setenv("TERM", "dumb")
	if drawable(slave) {
		t.Error("a dumb terminal is drawable")
	}
	t.Setenv("TERM", "xterm")
	if err := unix.IoctlSetWinsize(int(slave.Fd()), unix.TIOCSWINSZ, &unix.Winsize{}); err != nil {
		t.Fatal(err)
	}
	if drawable(slave) {
		t.Error("a terminal without a size is drawable")
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	if drawable(null) {
		t.Error("the null device is drawable")
	}
}
