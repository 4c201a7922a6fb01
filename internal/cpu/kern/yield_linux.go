package kern

import "golang.org/x/sys/unix"

// yield lets whatever else waits for this processor have it: another worker of the pool, whom this one
// may be waiting for, or who is to answer a request. Where nobody waits it takes 0.2 µs.
func yield() { _, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0) }
