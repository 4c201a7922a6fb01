package server

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ossian/internal/engine"
	"ossian/internal/limits"
	"ossian/internal/runner"
	"ossian/internal/sched"
	"ossian/internal/soak"
)

// clientEnv makes the test binary the client of TestCON1: the address, and the numbers
// of streams, of steps and of tokens of each stream.
const clientEnv = "OSSIAN_TEST_CON1"

// TestCON1 has many streams at once, read by a second process, whose steps all end at
// the same time: at 10,000 events per second, then at 50,000.
func TestCON1(t *testing.T) {
	if to := os.Getenv(clientEnv); to != "" {
		readStreams(to)
		return
	}
	streams := soak.Cases(t, 1000, 10_000)
	lockstep(t, streams, soak.Cases(t, 20, 120), 10_000, 250*time.Millisecond)
	lockstep(t, streams, soak.Cases(t, 20, 250), 50_000, 500*time.Millisecond)
}

// lockstep runs so many streams for so many steps, and holds memory and delay to what
// is wanted.
func lockstep(t *testing.T, streams, steps, perSecond int, delay time.Duration) {
	var step atomic.Int64
	var steady gate
	tokens := steps + 1000              // of each stream; before all have begun some are far on
	ended := make([]int64, tokens+2000) // [step]: when
	u := setup{cost: time.Second * time.Duration(streams) / time.Duration(perSecond), limits: map[limits.ID]int64{limits.Connections: 1 << 17},
		engine: engine.Config{Sched: sched.Config{MaxQueue: streams, NoPrefixCache: true}}}
	u.next = func([]int32, uint64) int32 { return 100_000 + int32(step.Load()) }
	u.launch = func(k int, _ *runner.Batch) { // its tokens name it, and are there when its time is over
		steady.launch(k, nil)
		step.Store(int64(k))
		ended[k%len(ended)] = time.Now().Add(u.cost).UnixNano()
	}
	u.info.MaxSeqs, u.info.MaxTokens, u.info.MaxLen = streams, 4*streams, tokens+16
	u.info.Groups = []runner.Group{{Blocks: (tokens/16 + 2) * streams}}
	g := start(t, u)
	before := g.toll()
	idle := heap()
	cmd := exec.Command(os.Args[0], "-test.run=^TestCON1$")
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s %d %d %d", clientEnv, g.addr, streams, steps, tokens))
	cmd.Stderr = os.Stderr
	leave, err := cmd.StdinPipe() // the client stays until it is closed
	if err != nil {
		t.Fatal(err)
	}
	pairs, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	out, err := io.ReadAll(pairs)
	running := g.model.Engine.Stats().Running
	full := steady.heap()
	leave.Close()
	if err := errors.Join(err, cmd.Wait()); err != nil || running < streams {
		t.Fatalf("%d of %d streams are running; client: %v", running, streams, err)
	}
	// The client has sent pairs: the step that a chunk's token names, when it came.
	var late []time.Duration
	for data := out; len(data) >= 16; data = data[16:] {
		k, at := int64(binary.LittleEndian.Uint64(data)), int64(binary.LittleEndian.Uint64(data[8:]))
		late = append(late, time.Duration(at-ended[k%int64(len(ended))]))
	}
	if len(late) < streams*steps {
		t.Fatalf("%d chunks, %d wanted", len(late), streams*steps)
	}
	per, at := (full-idle)/int64(streams), p99(late)
	t.Logf("CON-1: %d streams, %d events, %d per second: %d bytes per stream (runner and engine included); delay p50 %v, p99 %v, most %v; 0 errors",
		streams, len(late), perSecond, per, late[len(late)/2], at, late[len(late)-1])
	within(t, "delay", at, delay, time.Minute)
	bound := int64(40 << 10)
	if streams < 10_000 {
		bound *= 2 // what does not grow with their number counts, too
	}
	if per > bound {
		t.Errorf("%d bytes per stream, at most %d wanted", per, bound)
	}
	g.repaid(before)
}

// heap returns the bytes that live objects and stacks take.
func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}

// A gate keeps steps from beginning while memory is measured; launch is that of a setup.
type gate struct{ sync.Mutex }

func (g *gate) launch(int, *runner.Batch) {
	g.Lock()
	defer g.Unlock()
}

// heap is heap while nothing is produced: what is allocated while the collector marks
// counts as live, and that is most of it on a busy machine.
func (g *gate) heap() int64 {
	g.Lock()
	defer g.Unlock()
	least := int64(math.MaxInt64)
	for range 5 { // until what is under way has been sent
		time.Sleep(50 * time.Millisecond)
		least = min(least, heap())
	}
	return least
}

// A reader is one stream of the client.
type reader struct {
	rest []byte // of a line that has not ended
	last int64  // step of the latest token; 0 = none
}

// readStreams reads as many streams as the text says. From when all have begun it
// notes the steps of tokens and when they came, for so many steps, and writes that to
// its output; then it stays until its input ends. One thread does it all: two cores are for the server, too.
func readStreams(to string) {
	var addr string
	var streams, steps, tokens int
	_, err := fmt.Sscan(to, &addr, &streams, &steps, &tokens)
	var out []byte
	if err == nil {
		out, err = observe(addr, streams, int64(steps), tokens)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "client:", err)
		os.Exit(1)
	}
	os.Stdout.Write(out)
	os.Stdout.Close()
	io.Copy(io.Discard, os.Stdin) // the server measures its memory while the streams are open
	os.Exit(0)                    // the test framework's own words are no part of the output
}

func observe(addr string, streams int, steps int64, tokens int) (out []byte, err error) {
	runtime.LockOSThread()
	poll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, err
	}
	body := fmt.Sprintf(`{"prompt":[1],"max_tokens":%d,"ignore_eos":true,"stream":true,"return_token_ids":true}`, tokens)
	text := []byte(request("/v1/completions", "", body))
	open := make(map[int32]*reader, streams)
	for range streams {
		fd, err := connectTo(addr, text)
		if err != nil {
			return nil, err
		}
		open[int32(fd)] = new(reader)
		if err := unix.EpollCtl(poll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)}); err != nil {
			return nil, err
		}
	}
	begun, newest, from, noted := 0, int64(0), int64(0), int64(0)
	events, buf := make([]unix.EpollEvent, 2048), make([]byte, 64<<10)
	for want := int64(streams) * steps; noted < want; {
		time.Sleep(2 * time.Millisecond) // or each write of the server has to wake this thread, as no client elsewhere does
		n, err := unix.EpollWait(poll, events, 120_000)
		if n == 0 && err == nil {
			return nil, errors.New("nothing came for two minutes")
		}
		for _, e := range events[:max(n, 0)] {
			n, err := unix.Read(int(e.Fd), buf)
			now := time.Now().UnixNano()
			if n <= 0 {
				return nil, fmt.Errorf("a stream ended after step %d: %d, %w", open[e.Fd].last, n, err)
			}
			r := open[e.Fd]
			first := r.last == 0
			err = r.read(buf[:n], func(step int64) {
				newest = max(newest, step)
				if from > 0 && step >= from && step < from+steps {
					out = binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(out, uint64(step)), uint64(now))
					noted++
				}
			})
			if err != nil {
				return nil, err
			}
			if first && r.last > 0 {
				if begun++; begun == streams {
					from = newest + 1
				}
			}
		}
	}
	return out, nil
}

// connectTo opens a connection and writes text to it.
func connectTo(addr string, text []byte) (fd int, err error) {
	to, err := netip.ParseAddrPort(addr)
	if err != nil {
		return 0, err
	}
	if fd, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0); err != nil {
		return 0, err
	}
	if err := unix.Connect(fd, &unix.SockaddrInet4{Port: int(to.Port()), Addr: to.Addr().As4()}); err != nil {
		return 0, err
	}
	if _, err := unix.Write(fd, text); err != nil {
		return 0, err
	}
	return fd, unix.SetNonblock(fd, true)
}

// read calls note with the step of each token in data. Steps follow one another: each
// token of a stream names its own.
func (r *reader) read(data []byte, note func(step int64)) error {
	if len(r.rest) > 0 {
		data = append(r.rest, data...)
	}
	for {
		end := bytes.IndexByte(data, '\n')
		if end < 0 {
			r.rest = append(r.rest[:0], data...)
			return nil
		}
		line := data[:end]
		data = data[end+1:]
		_, ids, ok := bytes.Cut(line, []byte(`"token_ids":[`))
		if !ok {
			if bytes.Contains(line, []byte(`"error"`)) {
				return fmt.Errorf("the server says %s", line)
			}
			continue
		}
		for text := range bytes.SplitSeq(ids[:max(bytes.IndexByte(ids, ']'), 0)], []byte(",")) {
			id, err := strconv.ParseInt(string(text), 10, 64)
			step := id - 100_000
			if err != nil || (r.last > 0 && step != r.last+1) {
				return fmt.Errorf("step %d follows %d: %w", step, r.last, err)
			}
			r.last = step
			note(step)
		}
	}
}
