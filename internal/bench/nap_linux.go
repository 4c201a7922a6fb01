package bench

import (
	"time"

	"golang.org/x/sys/unix"
)

// nap sleeps for less than a few milliseconds. The Go runtime waits for its timers in
// whole milliseconds when nothing else runs; the kernel is late by some 50 microseconds.
func nap(d time.Duration) {
	t := unix.NsecToTimespec(int64(d))
	_ = unix.Nanosleep(&t, nil) // a signal ends it early: the caller looks at the clock anyway
}
