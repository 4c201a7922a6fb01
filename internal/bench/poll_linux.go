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

// pollers share the sockets of one target: there is one for each two processors.
type pollers struct {
	once sync.Once // makes all
	all  []poller
	next atomic.Uint32 // sockets so far; they go to the pollers in turn
}

// transport takes tcp from the runtime's poller.
func (p *pollers) transport(tcp net.Conn) (transport, error) {
	fd, err := detach(tcp)
	if err != nil {
		return nil, err
	}
	p.once.Do(func() { p.all = make([]poller, max(1, min(runtime.GOMAXPROCS(0), runtime.NumCPU())/2)) })
	enableTimestamps(fd)
	return &socket{fd: fd, poller: &p.all[int(p.next.Add(1))%len(p.all)]}, nil
}

// detach returns a descriptor of the connection that the runtime does not know, and
// closes tcp. It does not block, as that of tcp. A duplicate is needed because the runtime
// takes its own descriptor out of its poller only when it closes it.
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

// A socket is a transport whose bytes a poller reads. One goroutine writes and receives;
// any may set a deadline, also after the socket was closed.
type socket struct {
	fd      int
	poller  *poller
	expired atomic.Bool // its deadline has passed: it is shut down

	mu       sync.Mutex // guards the fields below, and fd against a shutdown after it was closed
	deadline time.Time  // zero = none
	closed   bool
}

// Write waits for the kernel to take all of data, or for the deadline.
func (s *socket) Write(data []byte) (int, error) {
	done := 0
	for done < len(data) {
		sent, err := unix.SendmsgN(s.fd, data[done:], nil, nil, unix.MSG_NOSIGNAL)
		switch {
		// The handler says that it is done when the socket can be written to, and reads nothing.
		case err == unix.EAGAIN:
			if err := s.poller.wait(&waiter{socket: s, handle: func([]byte) (bool, error) { return true, nil }}, unix.EPOLLOUT); err != nil {
				return done, err
			}
		case err == unix.EINTR:
		case err != nil && s.expired.Load():
			return done, os.ErrDeadlineExceeded
		case err != nil:
			return done, os.NewSyscallError("sendmsg", err)
		default:
			done += sent
		}
	}
	return done, nil
}

// SetDeadline sets a deadline, which is looked at about once a second, or at once if it
// has passed.
func (s *socket) SetDeadline(t time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deadline = t
	s.expire(time.Now())
	return nil
}

// expire ends what waits for the socket if its deadline has passed. s.mu is held.
func (s *socket) expire(now time.Time) {
	if !s.closed && !s.deadline.IsZero() && now.After(s.deadline) && !s.expired.Swap(true) {
		_ = unix.Shutdown(s.fd, unix.SHUT_RDWR) // fails only if nothing is connected any more
	}
}

// Close closes the socket. Nothing may wait for it.
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

func (s *socket) receive(exchange *exchange) error {
	return s.poller.wait(&waiter{socket: s, handle: func(buffer []byte) (bool, error) {
		count, lag, err := recv(s.fd, buffer)
		// A deadline shuts the socket down, which looks like an end of the stream: it comes first.
		switch {
		case err == unix.EAGAIN || err == unix.EINTR:
			return false, nil
		case s.expired.Load():
			return true, os.ErrDeadlineExceeded
		case err != nil:
			return true, exchange.ended(os.NewSyscallError("recvmsg", err))
		case count == 0:
			return true, exchange.ended(io.EOF)
		}
		done, err := exchange.received(buffer[:count], lag)
		return done || err != nil, err
	}}, unix.EPOLLIN)
}

// peek looks at one byte that has come.
func peek(fd int) (n int, err error) {
	var first [1]byte
	n, _, err = unix.Recvfrom(fd, first[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
	return n, err
}

// alive: TLS may have sent tickets of its own accord.
func (o *runtimeTransport) alive() bool {
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
//
// Its goroutine begins with the first waiter and ends with the last one, so that a target
// need not be closed: idle → running → idle.
type poller struct {
	mu      sync.Mutex // guards the fields below; locked before the mutex of a socket
	running bool
	epoll   int               // a descriptor while running
	waiters map[int32]*waiter // by the descriptor of their socket
}

// A waiter is an exchange that waits for its socket to be ready.
type waiter struct {
	socket *socket
	handle func(b []byte) (bool, error) // the poller calls it when the socket is ready, with room to read into; reports whether that was all
	done   chan error                   // what handle, or the poller, ended with
}

// wait waits for a waiter, whose socket no other waits for.
func (p *poller) wait(waiting *waiter, events uint32) error {
	waiting.done = make(chan error, 1)
	if err := p.add(waiting, events); err != nil {
		return err
	}
	return <-waiting.done
}

// add hands a waiter to the poller's goroutine, which it starts if it does not run.
func (p *poller) add(waiting *waiter, events uint32) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.running {
		fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
		if err != nil {
			return os.NewSyscallError("epoll_create1", err)
		}
		p.running, p.epoll, p.waiters = true, fd, map[int32]*waiter{}
		go p.run(fd)
	}
	fd := int32(waiting.socket.fd)
	if err := unix.EpollCtl(p.epoll, unix.EPOLL_CTL_ADD, waiting.socket.fd, &unix.EpollEvent{Events: events, Fd: fd}); err != nil {
		return os.NewSyscallError("epoll_ctl", err)
	}
	p.waiters[fd] = waiting
	return nil
}

// run serves waiters until there are none.
func (p *poller) run(epoll int) {
	var events [128]unix.EpollEvent
	buffer := make([]byte, readBuffer)
	looked := time.Now()
	for p.busy() {
		ready, err := unix.EpollWait(epoll, events[:], 1000)
		if err != nil && err != unix.EINTR {
			p.fail(os.NewSyscallError("epoll_wait", err))
		}
		for _, event := range events[:max(ready, 0)] {
			// It is there: only this goroutine takes waiters away, each at its last event.
			p.mu.Lock()
			waiting := p.waiters[event.Fd]
			p.mu.Unlock()
			if over, err := waiting.handle(buffer); over {
				p.end(waiting, err)
			}
		}
		// Deadlines need no precision here: one that has passed when it is set acts at once.
		if now := time.Now(); now.Sub(looked) >= time.Second {
			p.expire(now)
			looked = now
		}
	}
}

// busy reports whether there are waiters; else the poller has ended.
func (p *poller) busy() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.waiters) > 0 {
		return true
	}
	p.running = false
	_ = unix.Close(p.epoll) // nothing is in it
	return false
}

// end takes a waiter away and lets it go on with a result.
func (p *poller) end(waiting *waiter, result error) {
	p.mu.Lock()
	_ = unix.EpollCtl(p.epoll, unix.EPOLL_CTL_DEL, waiting.socket.fd, nil) // it is in there
	delete(p.waiters, int32(waiting.socket.fd))
	p.mu.Unlock()
	waiting.done <- result
}

// expire cuts the sockets whose deadline has passed: the kernel reports them then.
func (p *poller) expire(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, waiting := range p.waiters {
		waiting.socket.mu.Lock()
		waiting.socket.expire(now)
		waiting.socket.mu.Unlock()
	}
}

// fail ends all waiters. They are collected first, because end needs the mutex.
func (p *poller) fail(err error) {
	p.mu.Lock()
	var all []*waiter
	for _, waiting := range p.waiters {
		all = append(all, waiting)
	}
	p.mu.Unlock()
	for _, waiting := range all {
		p.end(waiting, err)
	}
}
