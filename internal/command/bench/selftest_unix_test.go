//go:build unix

package bench

import (
	"bytes"
	"context"
	"os/exec"
	"strings"
	"testing"
	"time"

	"ossian/internal/command/commandtest"
)

// The whole self test, with its servers in processes of their own.
func TestSelfTest(t *testing.T) {
	t.Parallel() // it waits
	var out bytes.Buffer
	s := selfTest{streams: []int{1, 2}, rate: 200, most: 1000, length: 100 * time.Millisecond, arrive: 50,
		server: func(ctx context.Context, args ...string) *exec.Cmd {
			p := commandtest.Program(t, args...)
			c := exec.CommandContext(ctx, p.Path, p.Args[1:]...)
			c.Env, c.Dir = p.Env, p.Dir
			return c
		}}
	if err := s.run(t.Context(), &out); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 6 {
		t.Fatalf("%d lines, expected two of a head, two of streams, a gap and the arrivals:\n%s", len(lines), out.String())
	}
	for i, want := range []string{"1 200 20 0", "2 400 40 0"} {
		if got := strings.Join(strings.Fields(lines[2+i])[:4], " "); got != want {
			t.Errorf("line %q, want %s", lines[2+i], want)
		}
	}
	if !strings.HasPrefix(lines[5], "50 requests per second, one token each: 5 sent, 0 lost;") {
		t.Errorf("arrivals: %s", lines[5])
	}
}
