//go:build unix

package bench

import (
	"syscall"
	"time"
)

// cpuTime is the user and system time of this process; 0 = the system does not say.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
