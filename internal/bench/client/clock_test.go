package client

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// The clock of a server is known to the pause between two questions, although it tells seconds.
func TestClock(t *testing.T) {
	for _, ahead := range []time.Duration{0, 300 * time.Millisecond, -2500 * time.Millisecond, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			got := clock(t.Context(), func(context.Context) time.Time {
				time.Sleep(3 * time.Millisecond) // on its way
				return time.Now().Add(ahead).Truncate(time.Second)
			})
			if got == nil || (*got-ahead).Abs() > clockEvery {
				t.Errorf("a clock that is %v ahead: %v", ahead, got)
			}
		})
	}
	if got := clock(t.Context(), func(context.Context) time.Time { return time.Time{} }); got != nil {
		t.Errorf("a server that tells no time: %v", got)
	}
	stopped, end := context.WithCancel(t.Context())
	end()
	if got := clock(stopped, func(context.Context) time.Time { return time.Unix(1e9, 0) }); got != nil {
		t.Errorf("after the end: %v", got)
	}
}
