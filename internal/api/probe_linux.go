package api

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// hungUp reports whether the peer has closed its side or is gone. It sees that
// behind unread bytes too, where net/http's own watch has stopped looking (LIF-3).
func hungUp(c syscall.Conn) bool {
	raw, err := c.SyscallConn()
	if err != nil {
		return false
	}
	gone := false
	err = raw.Control(func(fd uintptr) {
		p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}
		n, err := unix.Poll(p, 0)
		gone = err == nil && n > 0 && p[0].Revents&(unix.POLLRDHUP|unix.POLLHUP|unix.POLLERR) != 0
	})
	return gone || err != nil
}
