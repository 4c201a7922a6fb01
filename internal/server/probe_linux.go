package server

import (
	"bytes"
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

// silence returns for how long nothing has come from the peer of a connection, the time
// before it was accepted included; 0 if a whole header block has come, or any of a TLS
// handshake.
func silence(c syscall.Conn, secure bool) (d time.Duration) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0
	}
	_ = raw.Control(func(fd uintptr) {
		head := make([]byte, 4<<10)
		n, _, _ := unix.Recvfrom(int(fd), head, unix.MSG_PEEK|unix.MSG_DONTWAIT)
		head = head[:max(n, 0)]
		if n == cap(head) || bytes.Contains(head, []byte("\n\r\n")) || bytes.Contains(head, []byte("\n\n")) || (secure && n > 0) {
			return
		}
		if info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO); err == nil {
			d = time.Duration(info.Last_data_recv) * time.Millisecond // or since the handshake
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
