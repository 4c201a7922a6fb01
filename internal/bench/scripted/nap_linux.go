package scripted

import (
	"syscall"
	"time"
)

// nap sleeps for less than a millisecond. The runtime's timers wait in whole
// milliseconds when nothing else runs; the kernel's are late by 50 microseconds.
func nap(d time.Duration) {
	t := syscall.NsecToTimespec(int64(d))
	_ = syscall.Nanosleep(&t, nil) // a signal ends it early: the caller looks at the clock anyway
}
