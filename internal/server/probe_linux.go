package server

import (
	"syscall"
	"time"

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

// giveUpAfter ends a connection whose peer confirms nothing, or has no room, for so
// long. What is written then waits in the system's buffers, megabytes of them, and no
// write deadline passes (LIF-3). Where the option is refused the deadline has to do.
func giveUpAfter(c syscall.Conn, d time.Duration) {
	raw, err := c.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) {
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(d.Milliseconds()))
	})
}

// silence returns for how long a connection has been there without a byte from its
// peer, the time before it was accepted included; 0 once there was one.
func silence(c syscall.Conn) (d time.Duration) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0
	}
	_ = raw.Control(func(fd uintptr) {
		info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
		if err == nil && info.Bytes_received == 0 { // then Last_data_recv counts from the handshake
			d = time.Duration(info.Last_data_recv) * time.Millisecond
		}
	})
	return d
}

// descriptorLimit is how many files and connections the process may have; 0 = unknown.
func descriptorLimit() int64 {
	var lim unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &lim); err != nil || lim.Cur > 1<<30 {
		return 0
	}
	return int64(lim.Cur)
}
