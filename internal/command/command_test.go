package command

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"testing"
)

// An interrupt hides no other error that came with it.
func TestBeyondInterrupt(t *testing.T) {
	full, cut := errors.New("disk full"), fmt.Errorf("request 3: %w", context.Canceled)
	for _, c := range []struct {
		err  error
		want string
	}{
		{cut, ""},
		{errors.Join(cut, context.Canceled), ""},
		{errors.Join(cut, full), "disk full"},
		{fmt.Errorf("run 2: %w", errors.Join(full, cut)), "disk full"},
		{fmt.Errorf("%w; %w", cut, errors.New("--resume goes on")), "--resume goes on"},
	} {
		got := ""
		if err := beyondInterrupt(c.err); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%v: %q remains, want %q", c.err, got, c.want)
		}
	}
}

// A recursion without end takes 64 MiB of stack, not all memory.
func TestHLT5Stack(t *testing.T) {
	Root()
	if was := debug.SetMaxStack(maxStack); was != 64<<20 {
		t.Errorf("stacks may have %d bytes", was)
	}
}
