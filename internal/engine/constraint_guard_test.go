package engine

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"ossian/internal/sched"
)

// A slow constraint allows every guess and takes its time for each.
type slow struct {
	sched.Constraint
	clock *time.Time
	each  time.Duration
	asked int // guesses of the last call
	fails bool
}

func (s *slow) Ahead(guesses []int32, _ [][]uint64) int {
	if s.asked = len(guesses); s.fails {
		panic("ahead")
	}
	*s.clock = s.clock.Add(s.each * time.Duration(len(guesses)))
	return len(guesses)
}

// Masks behind guesses take no longer than a step has for them, but for those that turn out to be
// hard, and these are seldom tried again.
func TestGuardAhead(t *testing.T) {
	now := time.Unix(0, 0)
	step := &maskTime{clock: func() time.Time { return now }}
	slow := &slow{clock: &now, each: 10 * time.Microsecond}
	var log strings.Builder
	guard := &guard{constraint: slow, log: slog.New(slog.NewTextHandler(&log, nil)), masks: step}
	guesses, masks := make([]int32, 31), make([][]uint64, 31)
	step.begin()
	total := 0
	for range 20 {
		total += guard.Ahead(guesses, masks)
	}
	if spent := now.Sub(time.Unix(0, 0)); total < 150 || spent > masksPerStep {
		t.Errorf("easy masks: %d in %v", total, spent)
	}
	// Ten thousand steps with a mask that takes 10 ms.
	slow.each, now = 10*time.Millisecond, time.Unix(0, 0)
	tried := 0
	for range 10_000 {
		step.begin()
		if guard.Ahead(guesses[:1], masks) > 0 {
			tried++
		}
	}
	if tried < 10 || tried > 200 {
		t.Errorf("hard masks were tried in %d of 10,000 steps", tried)
	}
	slow.each, slow.fails, guard.lately = 0, true, 0
	step.begin()
	if n := guard.Ahead(guesses, masks); n != 0 || slow.asked != 31 {
		t.Errorf("a panic: %d of %d guesses allowed", n, slow.asked)
	}
	step.left, slow.fails = -time.Second, false
	if n := guard.Ahead(guesses, masks); n != 0 || strings.Count(log.String(), "panic=ahead") != 1 || strings.Count(log.String(), "panic=") != 1 {
		t.Errorf("%d guesses allowed when no time is left; log %s", n, log.String())
	}
}
