package bench

import (
	"encoding/binary"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// enableTimestamps asks the kernel to say when bytes arrive at a socket. Where it does not, their
// times are those of the client. The form with 64-bit times is the same on every
// architecture (Linux 5.1).
func enableTimestamps(fd int) {
	_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPING_NEW, unix.SOF_TIMESTAMPING_RX_SOFTWARE|unix.SOF_TIMESTAMPING_SOFTWARE)
}

// recv reads from a socket and returns how long before its return the kernel had the
// last of the bytes; -1 = it does not say. The package's own Recvmsg would allocate an
// address for every event.
func recv(fd int, buffer []byte) (n int, lag time.Duration, err error) {
	var control [128]byte
	part := unix.Iovec{Base: &buffer[0]}
	part.SetLen(len(buffer))
	message := unix.Msghdr{Iov: &part, Control: &control[0]}
	message.SetIovlen(1)
	message.SetControllen(len(control))
	size, _, errno := unix.RawSyscall(unix.SYS_RECVMSG, uintptr(fd), uintptr(unsafe.Pointer(&message)), 0)
	if errno != 0 {
		return 0, -1, errno
	}
	return int(size), kernelLag(control[:message.Controllen]), nil
}

// kernelLag returns how long ago the time in a control message is; -1 = there is none.
func kernelLag(control []byte) time.Duration {
	for len(control) > 0 {
		header, data, rest, err := unix.ParseOneSocketControlMessage(control)
		if err != nil {
			break
		}
		// Three pairs of seconds and nanoseconds; the first is the software time.
		if header.Level == unix.SOL_SOCKET && header.Type == unix.SO_TIMESTAMPING_NEW && len(data) >= 16 {
			seconds := int64(binary.NativeEndian.Uint64(data))
			nanoseconds := int64(binary.NativeEndian.Uint64(data[8:]))
			if lag := time.Since(time.Unix(seconds, nanoseconds)); seconds > 0 && lag > -time.Millisecond {
				return max(lag, 0)
			}
		}
		control = rest
	}
	return -1
}
