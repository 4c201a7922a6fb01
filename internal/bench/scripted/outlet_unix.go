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
	raw   syscall.RawConn
	try   func(fd uintptr) bool // writes in; made once, as a closure for each write would allocate
	in    []byte                // of try
	wrote int                   // by try
	err   error
}

func newOutlet(conn net.Conn) (*outlet, error) {
	sc, ok := conn.(syscall.Conn)
	if !ok {
		return nil, fmt.Errorf("scripted: connection of type %T has no descriptor; expected TCP", conn)
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return nil, err
	}
	out := &outlet{raw: raw}
	out.try = func(fd uintptr) bool {
		out.wrote, out.err = syscall.Write(int(fd), out.in)
		return true // whatever came of it: do not wait
	}
	return out, nil
}

// write hands the kernel as much of data as it takes at once.
func (o *outlet) write(data []byte) (int, error) {
	for {
		o.in = data
		if err := o.raw.Write(o.try); err != nil {
			return 0, err
		}
		switch {
		case o.err == nil:
			return o.wrote, nil
		case errors.Is(o.err, syscall.EAGAIN):
			return 0, nil
		case !errors.Is(o.err, syscall.EINTR):
			return 0, o.err
		}
	}
}
