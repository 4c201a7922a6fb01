package engine

import (
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"ossian/internal/sched"
	"ossian/internal/sim"
)

// shift moves the wall clock of a time but not its monotonic reading, as somebody does
// who sets the clock. It knows how a time.Time with both is made: 33 bits of seconds
// above 30 of nanoseconds.
func shift(at time.Time, by time.Duration) time.Time {
	*(*uint64)(unsafe.Pointer(&at)) += uint64(by/time.Second) << 30
	return at
}

// TestLIF6WallClock: the wall clock goes an hour forth with every look at it, and then
// and now two days back, and nothing comes sooner or later. It takes real time, as
// virtual time has one clock only.
func TestLIF6WallClock(t *testing.T) {
	now := time.Now()
	if later := shift(now, time.Hour); later.Round(0).Sub(now.Round(0)) != time.Hour || later.Sub(now) != 0 {
		t.Fatalf("an hour after %v is %v", now, later)
	}
	var looks atomic.Int64
	clock := func() time.Time { return shift(time.Now(), time.Duration(looks.Add(1)%48)*time.Hour) }
	g := start(t, script(t, sim.Config{Cost: each(time.Millisecond)}), Config{Clock: clock, Stall: 10 * time.Minute})
	late := g.submit(Request{Tokens: ids(1, 5), MaxTokens: 1000, Deadline: clock().Add(50 * time.Millisecond)})
	inTime := g.submit(Request{Tokens: ids(2, 5), MaxTokens: 500, Deadline: clock().Add(30 * time.Minute), StartBy: clock().Add(30 * time.Minute)})
	finished(t, late, sched.FinishDeadline)
	finished(t, inTime, sched.FinishLength)
	if err := g.Ready(t.Context()); err != nil {
		t.Error(err)
	}
	if h, st := g.Health(), g.Stats(); h.Restarts != 0 || st.Stalls != 0 || looks.Load() < 500 {
		t.Errorf("%+v, %d stalls, %d looks at the clock", h, st.Stalls, looks.Load())
	}
}
