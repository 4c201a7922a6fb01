//go:build unix

package scripted

import (
	"errors"
	"fmt"
	"net"
	"syscall"
)

// An outlet writes to a connection without waiting for the client, so that one sender can
// serve many.
type outlet struct {
	raw syscall.RawConn
	try func(fd uintptr) bool
	in  []byte
	n   int
	err error
}

func newOutlet(c net.Conn) (*outlet, error) {
	sc, ok := c.(syscall.Conn)
	if !ok {
		return nil, fmt.Errorf("scripted: connection of type %T has no descriptor; expected TCP", c)
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return nil, err
	}
	o := &outlet{raw: raw}
	o.try = func(fd uintptr) bool {
		o.n, o.err = syscall.Write(int(fd), o.in)
		return true // whatever came of it: do not wait
	}
	return o, nil
}

// write hands the kernel as much of b as it takes at once.
func (o *outlet) write(b []byte) (int, error) {
	for {
		o.in = b
		if err := o.raw.Write(o.try); err != nil {
			return 0, err
		}
		switch {
		case o.err == nil:
			return o.n, nil
		case errors.Is(o.err, syscall.EAGAIN):
			return 0, nil
		case !errors.Is(o.err, syscall.EINTR):
			return 0, o.err
		}
	}
}
