package server

import (
	"bytes"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// giveUpAfter ends a connection whose peer confirms nothing, or has no room, for so
// long. What is written then waits in the system's buffers, megabytes of them, and no
// write deadline passes (LIF-3). Where the option is refused the deadline has to do.
func giveUpAfter(c syscall.Conn, stall time.Duration) {
	raw, err := c.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) {
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(stall.Milliseconds()))
	})
}

// quietFor returns for how long nothing has come from the peer of a connection, the time
// before it was accepted included; 0 if a whole header block has come, or any of a TLS
// handshake.
func quietFor(c syscall.Conn, secure bool) (quiet time.Duration) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0
	}
	_ = raw.Control(func(fd uintptr) {
		head := make([]byte, 4<<10)
		n, _, _ := unix.Recvfrom(int(fd), head, unix.MSG_PEEK|unix.MSG_DONTWAIT)
		head = head[:max(n, 0)]
		complete := bytes.Contains(head, []byte("\n\r\n")) || bytes.Contains(head, []byte("\n\n"))
		if n == cap(head) || complete || (secure && n > 0) {
			return
		}
		if info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO); err == nil {
			quiet = time.Duration(info.Last_data_recv) * time.Millisecond // or since the handshake
		}
	})
	return quiet
}

// unread reports whether something has come from the peer of a connection that nobody here has
// read yet.
func unread(c syscall.Conn) (waits bool) {
	raw, err := c.SyscallConn()
	if err != nil {
		return false
	}
	_ = raw.Control(func(fd uintptr) {
		n, _, err := unix.Recvfrom(int(fd), make([]byte, 1), unix.MSG_PEEK|unix.MSG_DONTWAIT)
		waits = err == nil && n > 0
	})
	return waits
}

// descriptorLimit is how many files and connections the process may have; 0 = unknown.
func descriptorLimit() int64 {
	var lim unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &lim); err != nil || lim.Cur > 1<<30 {
		return 0
	}
	return int64(lim.Cur)
}
