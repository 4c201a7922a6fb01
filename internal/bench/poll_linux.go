package bench

import (
	"errors"
	"io"
	"net"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// pollers share the sockets of one target.
type pollers struct {
	once sync.Once
	all  []poller
	next atomic.Uint32
}

// link takes tcp from the runtime's poller.
func (p *pollers) link(tcp net.Conn) (link, error) {
	fd, err := detach(tcp)
	if err != nil {
		return nil, err
	}
	p.once.Do(func() { p.all = make([]poller, max(1, min(runtime.GOMAXPROCS(0), runtime.NumCPU())/2)) })
	stamp(fd)
	return &socket{fd: fd, poller: &p.all[int(p.next.Add(1))%len(p.all)]}, nil
}

// detach returns a descriptor of the connection that the runtime does not know, and
// closes tcp. It does not block, as that of tcp.
func detach(tcp net.Conn) (fd int, err error) {
	sc, ok := tcp.(syscall.Conn)
	if !ok {
		return 0, errors.New("a connection without a descriptor")
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return 0, err
	}
	var failed error
	err = raw.Control(func(old uintptr) {
		fd, failed = unix.FcntlInt(old, unix.F_DUPFD_CLOEXEC, 0)
	})
	if err = errors.Join(err, os.NewSyscallError("fcntl", failed)); err != nil {
		return 0, err
	}
	return fd, tcp.Close()
}

// A socket is a link whose bytes a poller reads.
type socket struct {
	fd     int
	poller *poller
	cut    atomic.Bool // its deadline has passed

	mu     sync.Mutex
	limit  time.Time // the deadline
	closed bool
}

func (s *socket) Write(b []byte) (int, error) {
	done := 0
	for done < len(b) {
		n, err := unix.SendmsgN(s.fd, b[done:], nil, nil, unix.MSG_NOSIGNAL)
		switch {
		case err == unix.EAGAIN:
			if err := s.poller.wait(&wait{s: s, over: func([]byte) (bool, error) { return true, nil }}, unix.EPOLLOUT); err != nil {
				return done, err
			}
		case err == unix.EINTR:
		case err != nil && s.cut.Load():
			return done, os.ErrDeadlineExceeded
		case err != nil:
			return done, os.NewSyscallError("sendmsg", err)
		default:
			done += n
		}
	}
	return done, nil
}

// SetDeadline sets a deadline, which is looked at about once a second, or at once if it
// has passed.
func (s *socket) SetDeadline(t time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.limit = t
	s.expire(time.Now())
	return nil
}

// expire ends what waits for the socket if its deadline has passed. s.mu is held.
func (s *socket) expire(now time.Time) {
	if !s.closed && !s.limit.IsZero() && now.After(s.limit) && !s.cut.Swap(true) {
		_ = unix.Shutdown(s.fd, unix.SHUT_RDWR) // fails only if nothing is connected any more
	}
}

func (s *socket) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	return os.NewSyscallError("close", unix.Close(s.fd))
}

func (s *socket) alive() bool {
	_, err := peek(s.fd)
	return err == unix.EAGAIN
}

func (s *socket) receive(x *exchange) error {
	return s.poller.wait(&wait{s: s, over: func(b []byte) (bool, error) {
		n, lag, err := recv(s.fd, b)
		switch {
		case err == unix.EAGAIN || err == unix.EINTR:
			return false, nil
		case s.cut.Load():
			return true, os.ErrDeadlineExceeded
		case err != nil:
			return true, x.ended(os.NewSyscallError("recvmsg", err))
		case n == 0:
			return true, x.ended(io.EOF)
		}
		done, err := x.received(b[:n], lag)
		return done || err != nil, err
	}}, unix.EPOLLIN)
}

// peek looks at one byte that has come.
func peek(fd int) (n int, err error) {
	var b [1]byte
	n, _, err = unix.Recvfrom(fd, b[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
	return n, err
}

// alive: TLS may have sent tickets of its own accord.
func (o *ordinary) alive() bool {
	ok := false
	if sc, is := o.tcp.(syscall.Conn); is {
		if raw, err := sc.SyscallConn(); err == nil {
			err = raw.Control(func(fd uintptr) {
				n, err := peek(int(fd))
				ok = err == unix.EAGAIN || n > 0
			})
			return ok && err == nil
		}
	}
	return false
}

// A poller reads the sockets of many exchanges on one goroutine. So an event costs one
// system call; the runtime's own poller makes a second one, which finds nothing, and
// switches goroutines. A stream that waits holds no buffer. The zero value is ready.
type poller struct {
	mu      sync.Mutex
	running bool
	epoll   int // while running
	waits   map[int32]*wait
}

// A wait is for a socket.
type wait struct {
	s    *socket
	over func(b []byte) (bool, error) // called when the socket is ready, with room to read into; reports whether that was all
	done chan error
}

// wait waits for w, whose socket no other wait has.
func (p *poller) wait(w *wait, events uint32) error {
	w.done = make(chan error, 1)
	if err := p.add(w, events); err != nil {
		return err
	}
	return <-w.done
}

func (p *poller) add(w *wait, events uint32) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.running {
		fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
		if err != nil {
			return os.NewSyscallError("epoll_create1", err)
		}
		p.running, p.epoll, p.waits = true, fd, map[int32]*wait{}
		go p.run(fd)
	}
	fd := int32(w.s.fd)
	if err := unix.EpollCtl(p.epoll, unix.EPOLL_CTL_ADD, w.s.fd, &unix.EpollEvent{Events: events, Fd: fd}); err != nil {
		return os.NewSyscallError("epoll_ctl", err)
	}
	p.waits[fd] = w
	return nil
}

// run serves waits until there are none.
func (p *poller) run(epoll int) {
	var events [128]unix.EpollEvent
	b := make([]byte, readBuffer)
	looked := time.Now()
	for p.goesOn() {
		n, err := unix.EpollWait(epoll, events[:], 1000)
		if err != nil && err != unix.EINTR {
			p.fail(os.NewSyscallError("epoll_wait", err))
		}
		for _, e := range events[:max(n, 0)] {
			p.mu.Lock()
			w := p.waits[e.Fd]
			p.mu.Unlock()
			if over, err := w.over(b); over {
				p.end(w, err)
			}
		}
		if now := time.Now(); now.Sub(looked) >= time.Second {
			p.expire(now)
			looked = now
		}
	}
}

// goesOn reports whether there are waits; else the poller has ended.
func (p *poller) goesOn() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.waits) > 0 {
		return true
	}
	p.running = false
	_ = unix.Close(p.epoll) // nothing is in it
	return false
}

func (p *poller) end(w *wait, result error) {
	p.mu.Lock()
	_ = unix.EpollCtl(p.epoll, unix.EPOLL_CTL_DEL, w.s.fd, nil) // it is in it
	delete(p.waits, int32(w.s.fd))
	p.mu.Unlock()
	w.done <- result
}

// expire cuts the sockets whose deadline has passed: the kernel reports them then.
func (p *poller) expire(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, w := range p.waits {
		w.s.mu.Lock()
		w.s.expire(now)
		w.s.mu.Unlock()
	}
}

// fail ends all waits.
func (p *poller) fail(err error) {
	p.mu.Lock()
	var all []*wait
	for _, w := range p.waits {
		all = append(all, w)
	}
	p.mu.Unlock()
	for _, w := range all {
		p.end(w, err)
	}
}
