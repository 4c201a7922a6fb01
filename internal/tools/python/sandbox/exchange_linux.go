//go:build amd64 || arm64

package sandbox

import (
	"context"
	"errors"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// An exchange is one request and what becomes of it: one loop that writes it, reads the reply and
// both outputs as they come, and looks at the clock. The program cannot make it wait: descriptors
// of this end do not block, and whatever is read is bounded by who takes it.

// tick is how often the loop looks whether somebody wants it to end, and at what the process uses.
const tick = 50 * time.Millisecond

// clockTicks is the unit of processor time in /proc, which Linux tells programs in 1/100 s.
const clockTicks = 100

// portion is how much is read at once.
const portion = 64 << 10

// Exchange writes a request, copies what the program prints to output and complaints, and gives
// what it replies to take, in pieces, until take says that this was all. The program does nothing
// before and after: it is stopped. The error is that of ctx, one of this package's, or of take; the
// process is ended then. Time of processors is bounded by the deadline of ctx too: as many seconds
// as are left when it begins.
func (p *Process) Exchange(ctx context.Context, request []byte, output, complaints io.Writer, take func([]byte) (bool, error)) error {
	running := &exchange{process: p, request: request, output: output, complaints: complaints, take: take, buffer: make([]byte, portion)}
	if deadline, ok := ctx.Deadline(); ok {
		running.processor = p.processorTime() + time.Until(deadline)
	}
	_ = p.command.Process.Signal(syscall.SIGCONT)
	err := running.run(ctx)
	if err != nil {
		p.Kill()
	} else {
		_ = p.command.Process.Signal(syscall.SIGSTOP)
	}
	running.drain()
	return err
}

type exchange struct {
	process            *Process
	request            []byte
	output, complaints io.Writer
	take               func([]byte) (bool, error)
	buffer             []byte
	processor          time.Duration // of the process since it began, at most; 0 = any
	done               bool
}

// run goes on until the reply is complete.
func (e *exchange) run(ctx context.Context) error {
	process := e.process
	next := time.Now().Add(tick)
	for !e.done {
		if err := ctx.Err(); err != nil {
			return err
		}
		if began := time.Now(); began.After(next) {
			if err := e.look(); err != nil {
				return err
			}
			next = time.Now().Add(max(tick, 10*time.Since(began))) // many files take a while
		}
		ends := []unix.PollFd{{Fd: int32(process.reply), Events: unix.POLLIN}, {Fd: int32(process.output), Events: unix.POLLIN}, {Fd: int32(process.errors), Events: unix.POLLIN}, {Fd: -1}}
		if len(e.request) > 0 {
			ends[3] = unix.PollFd{Fd: int32(process.request), Events: unix.POLLOUT}
		}
		if _, err := unix.Poll(ends, int(tick/time.Millisecond)); err != nil && !errors.Is(err, unix.EINTR) {
			return os.NewSyscallError("poll", err)
		}
		if err := e.move(ends); err != nil {
			return err
		}
	}
	return nil
}

// move reads and writes what poll said can be. Output comes first: what was printed before a reply
// is there before it.
func (e *exchange) move(ends []unix.PollFd) error {
	process := e.process
	closed := 0
	for i, fd := range []int{process.output, process.errors} {
		if ends[i+1].Revents != 0 {
			if n := e.read(fd, e.sink(i)); n == 0 {
				closed++
			}
		}
	}
	if ends[3].Revents != 0 {
		n, err := unix.Write(process.request, e.request)
		if n > 0 {
			e.request = e.request[n:]
		}
		if err != nil && !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR) {
			return e.gone()
		}
	}
	if ends[0].Revents == 0 {
		if closed > 0 { // nothing to wait for in poll: do not spin
			time.Sleep(tick / 10)
		}
		return nil
	}
	n, err := unix.Read(process.reply, e.buffer)
	switch {
	case n > 0:
		e.done, err = e.take(e.buffer[:n])
		return err
	case err == nil:
		return e.gone()
	}
	return nil
}

func (e *exchange) sink(i int) io.Writer { return []io.Writer{e.output, e.complaints}[i] }

// read copies a portion, and returns its length: 0 = there will be no more, -1 = none now.
func (e *exchange) read(fd int, to io.Writer) int {
	n, err := unix.Read(fd, e.buffer)
	if err != nil {
		return -1
	}
	_, _ = to.Write(e.buffer[:n])
	return n
}

// gone says how the process ended. One that has only closed its end is ended.
func (e *exchange) gone() error {
	select {
	case <-e.process.ended:
	case <-time.After(time.Second):
		return &EndedError{"it closed its connection to the server"}
	}
	return &EndedError{e.process.state}
}

// drain copies what is left of the outputs when the process is stopped or gone: no more than pipes
// hold.
func (e *exchange) drain() {
	for i, fd := range []int{e.process.output, e.process.errors} {
		for range 16 {
			if e.read(fd, e.sink(i)) <= 0 {
				break
			}
		}
	}
}

// look returns an error when the process has used too much.
func (e *exchange) look() error {
	p := e.process
	if e.processor > 0 && p.processorTime() > e.processor {
		return ErrProcessor
	}
	// A single file may be as large as all may be; folders and the ends of blocks come on top.
	if p.folder != nil && p.folder.size(p.command.Process.Pid) > p.disk+p.disk/8 {
		return ErrDisk
	}
	return nil
}

// processorTime returns what all threads of the process have used since it began.
func (p *Process) processorTime() time.Duration {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(p.command.Process.Pid) + "/stat")
	if err != nil {
		return 0
	}
	// The name of the program stands in brackets and may hold anything; what follows are numbers.
	_, rest, _ := strings.Cut(string(text[max(0, strings.LastIndexByte(string(text), ')')):]), ") ")
	words := strings.Fields(rest)
	if len(words) < 13 {
		return 0
	}
	user, _ := strconv.ParseInt(words[11], 10, 64)
	system, _ := strconv.ParseInt(words[12], 10, 64)
	return time.Duration(user+system) * time.Second / clockTicks
}
