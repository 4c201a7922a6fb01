package bench

import (
	"errors"
	"fmt"
	"math"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ossian/internal/bench/scripted"
	"ossian/internal/soak"
)

// A floor reads streams and looks at nothing: what it costs is the kernel's share of what
// the client costs.
type floor struct {
	name    string
	times   bool   // ask for the times of receipt
	edge    uint32 // EPOLLET, or 0
	receive func(fd int, b []byte) (n int, err error)
}

var floors = []floor{
	{"epoll_wait and recvmsg with times, as the client", true, 0, recvmsg},
	{"the same, edge-triggered", true, unix.EPOLLET, recvmsg},
	{"epoll_wait and read without times, edge-triggered", false, unix.EPOLLET, unix.Read},
}

func recvmsg(fd int, b []byte) (n int, err error) {
	n, _, err = recv(fd, b)
	return n, err
}

// A cost is what reading took.
type cost struct {
	cpu                 time.Duration
	reads, waits, bytes int
}

// run opens streams, sends a request on each and reads until the server has closed them.
func (f *floor) run(url string, streams, tokens int) (c cost, err error) {
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return c, err
	}
	defer unix.Close(epoll)
	before := cpuTime()
	body := fmt.Sprintf(`{"model":"m","prompt":"a short prompt","max_tokens":%d,"stream":true,"stream_options":{"include_usage":true}}`, tokens)
	request := fmt.Sprintf("POST /v1/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	for range streams {
		tcp, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
		if err != nil {
			return c, err
		}
		fd, err := detach(tcp)
		if err != nil {
			return c, err
		}
		defer unix.Close(fd)
		if f.times {
			enableTimestamps(fd)
		}
		if _, err := unix.Write(fd, []byte(request)); err != nil {
			return c, err
		}
		if err := unix.EpollCtl(epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLRDHUP | f.edge, Fd: int32(fd)}); err != nil {
			return c, err
		}
	}
	err = f.drain(epoll, streams, &c)
	c.cpu = cpuTime() - before
	return c, err
}

// drain reads until every stream has ended.
func (f *floor) drain(epoll, streams int, c *cost) error {
	var events [128]unix.EpollEvent
	b := make([]byte, readBuffer)
	for streams > 0 {
		n, err := unix.EpollWait(epoll, events[:], 60_000)
		if c.waits++; n == 0 || (err != nil && err != unix.EINTR) {
			return errors.Join(errors.New("nothing for a minute"), err)
		}
		for _, e := range events[:max(n, 0)] {
			fd := int(e.Fd)
			for more := true; more; {
				n, err := f.receive(fd, b)
				c.reads++
				switch {
				case err == unix.EAGAIN:
					more = false
				case err != nil:
					return err
				case n == 0:
					if err := unix.EpollCtl(epoll, unix.EPOLL_CTL_DEL, fd, nil); err != nil {
						return err
					}
					streams--
					more = false
				default:
					c.bytes += n
					more = f.edge != 0 && (n == len(b) || e.Events&unix.EPOLLRDHUP != 0) // nothing will tell of the rest
				}
			}
		}
	}
	return nil
}

// TestLoadFloor: how much of what an event costs the client is the kernel's, on the machine
// at hand. Floors and client take turns; figures are medians, and say something on a quiet
// machine, with OSSIAN_SOAK=1.
func TestLoadFloor(t *testing.T) {
	streams, tokens, rounds := soak.Cases(t, 5, 1000), soak.Cases(t, 5, 500), soak.Cases(t, 1, 3)
	events := streams * (tokens + 2)
	script := scripted.Script{TTFT: 200 * time.Millisecond, Gap: 10 * time.Millisecond}
	cpu := map[string][]float64{}
	for range rounds {
		for _, f := range floors {
			c, err := f.run(playing(t, script), streams, tokens)
			if err != nil {
				t.Fatalf("%s: %v", f.name, err)
			}
			if c.bytes < 100*events || c.reads < streams || c.waits > c.reads+streams { // the last wait of a stream may be for its end
				t.Errorf("%s: %+v for %d events", f.name, c, events)
			}
			cpu[f.name] = append(cpu[f.name], c.cpu.Seconds()*1e6/float64(events))
			t.Logf("%s: %d events, %d reads, %d waits, %v of CPU", f.name, events, c.reads, c.waits, c.cpu)
		}
		rec := load(t, playing(t, script), Arrivals{Rate: math.Inf(1), Burstiness: 1}, streams, tokens)
		cpu["the client"] = append(cpu["the client"], rec.Client.CPU.Seconds()*1e6/float64(events))
	}
	for name, us := range cpu {
		slices.Sort(us)
		t.Logf("%d streams, %d events: %.2f µs of CPU per event: %s", streams, events, us[len(us)/2], name)
	}
}
