package bench

import (
	"encoding/binary"
	"io"
	"os"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// stamp asks the kernel to say when bytes arrive at c, and reports whether it will. The
// form with 64-bit times is the same on every architecture (Linux 5.1).
func (c *conn) stamp() bool {
	if c.raw == nil {
		return false
	}
	ok := false
	err := c.raw.Control(func(fd uintptr) {
		ok = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_TIMESTAMPING_NEW,
			unix.SOF_TIMESTAMPING_RX_SOFTWARE|unix.SOF_TIMESTAMPING_SOFTWARE) == nil
	})
	return ok && err == nil
}

// alive reports whether an idle c is still open and the server has sent nothing on it
// that would be taken for the next response. TLS sends tickets of its own accord.
func (c *conn) alive(secure bool) bool {
	if c.raw == nil {
		return true
	}
	ok := false
	err := c.raw.Control(func(fd uintptr) {
		var b [1]byte
		n, _, err := unix.Recvfrom(int(fd), b[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
		ok = err == unix.EAGAIN || secure && n > 0
	})
	return ok && err == nil
}

// receive hands to x what the connection brings, with the time at which the kernel got
// it, until the response is complete. The reading happens within one call of Read, so
// an event costs a wake-up and little else, and a stream that waits holds no buffer.
func (c *conn) receive(x *exchange) error {
	if !c.kernel {
		return c.readPlain(x)
	}
	var result error
	err := c.raw.Read(func(fd uintptr) bool {
		b := x.h.buffers.Get().(*[readBuffer]byte)
		defer x.h.buffers.Put(b)
		for {
			n, lag, err := recv(int(fd), b[:])
			switch {
			case err == unix.EAGAIN:
				return false
			case err == unix.EINTR:
				continue
			case err != nil:
				result = x.ended(os.NewSyscallError("recvmsg", err))
				return true
			case n == 0:
				result = x.ended(io.EOF)
				return true
			}
			var done bool
			if done, result = x.received(b[:n], lag); done || result != nil {
				return true
			}
		}
	})
	if err != nil {
		return x.ended(err)
	}
	return result
}

// recv reads from a socket and returns how long before its return the kernel had the
// last of the bytes; -1 = it does not say. The package's own Recvmsg would allocate an
// address for every event.
func recv(fd int, b []byte) (n int, lag time.Duration, err error) {
	var control [128]byte
	part := unix.Iovec{Base: &b[0]}
	part.SetLen(len(b))
	message := unix.Msghdr{Iov: &part, Control: &control[0]}
	message.SetIovlen(1)
	message.SetControllen(len(control))
	r, _, errno := unix.RawSyscall(unix.SYS_RECVMSG, uintptr(fd), uintptr(unsafe.Pointer(&message)), 0)
	if errno != 0 {
		return 0, -1, errno
	}
	return int(r), since(control[:message.Controllen]), nil
}

// since returns how long ago the time in a control message is; -1 = there is none.
func since(control []byte) time.Duration {
	for len(control) > 0 {
		header, data, rest, err := unix.ParseOneSocketControlMessage(control)
		if err != nil {
			break
		}
		// Three pairs of seconds and nanoseconds; the first is the software time.
		if header.Level == unix.SOL_SOCKET && header.Type == unix.SO_TIMESTAMPING_NEW && len(data) >= 16 {
			s := int64(binary.NativeEndian.Uint64(data))
			ns := int64(binary.NativeEndian.Uint64(data[8:]))
			if lag := time.Since(time.Unix(s, ns)); s > 0 && lag > -time.Millisecond {
				return max(lag, 0)
			}
		}
		control = rest
	}
	return -1
}
