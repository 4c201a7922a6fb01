package server

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ossian/internal/limits"
	memory "ossian/internal/plan"
	"ossian/internal/soak"
)

// connect opens a connection; small ones take a few KiB before somebody has to read.
func (g *rig) connect(small bool) *net.TCPConn {
	d := net.Dialer{Timeout: time.Minute}
	if small { // before the handshake: what was promised cannot be taken back
		d.Control = func(_, _ string, c syscall.RawConn) (err error) {
			_ = c.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, 4096) })
			return err
		}
	}
	c, err := d.Dial("tcp", g.addr)
	if err != nil {
		g.t.Error(err)
		return nil
	}
	return c.(*net.TCPConn)
}

// request is what a client writes.
func request(path, id, body string) string {
	return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", path, id, len(body), body)
}

// A toll is what an idle server holds of the process.
type toll struct{ goroutines, descriptors int }

// toll is taken of a server that is at rest.
func (g *rig) toll() toll {
	g.t.Helper()
	g.do("GET", "/health", "") // all of it has begun
	g.client.CloseIdleConnections()
	last, now := toll{}, tollNow(g.t)
	for now != last {
		time.Sleep(30 * time.Millisecond)
		last, now = now, tollNow(g.t)
	}
	return now
}

func tollNow(t testing.TB) toll {
	t.Helper()
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return toll{runtime.NumGoroutine(), len(files)}
}

// repaid waits until the server has given back everything that it took since then.
func (g *rig) repaid(before toll) {
	g.t.Helper()
	g.idle()
	g.client.CloseIdleConnections()
	now := tollNow(g.t)
	for deadline := time.Now().Add(2 * time.Minute); now.goroutines > before.goroutines || now.descriptors > before.descriptors; now = tollNow(g.t) {
		if time.Now().After(deadline) {
			g.t.Errorf("left behind: %+v, before %+v", now, before)
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// TestLIF2AndLIF3Sockets ends requests in every way that a client can, in every state,
// streamed or not. The server notices in time and takes everything back.
func TestLIF2AndLIF3Sockets(t *testing.T) {
	const ping, stall, margin = 300 * time.Millisecond, 500 * time.Millisecond, 100 * time.Millisecond
	n := soak.Cases(t, 24, 2000)
	pause := func() { time.Sleep(5 * time.Millisecond) } // so that the byte is read before the end
	for _, way := range []struct {
		name            string
		leave           func(*net.TCPConn)
		streamed, whole time.Duration // after which the server has to know, at the latest; 0 = this is no end
	}{
		{"FIN", func(c *net.TCPConn) { c.Close() }, margin, margin},
		{"RST", func(c *net.TCPConn) { _ = c.SetLinger(0); c.Close() }, margin, margin},
		{"half-close", func(c *net.TCPConn) { _ = c.CloseWrite() }, margin, margin},
		{"stray byte", func(c *net.TCPConn) { io.WriteString(c, "x"); pause(); c.Close() }, ping + margin, 2 * time.Second},
		{"pipelined request", func(c *net.TCPConn) {
			io.WriteString(c, "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
			pause()
			c.Close()
		}, ping + margin, 2 * time.Second},
		{"silence", nil, ping + stall + time.Second, 0}, // the system's own timers are coarse
	} {
		for _, stream := range []bool{true, false} {
			notice := way.whole
			if stream {
				notice = way.streamed
			}
			if notice == 0 {
				continue
			}
			log := new(ledger)
			u := setup{reply: strings.Repeat("x", 64), cost: 5 * time.Millisecond, cfg: Config{AccessLog: true}, log: log,
				limits: map[limits.ID]int64{limits.PingInterval: ping.Milliseconds(), limits.WriteStall: stall.Milliseconds()}}
			u.info.MaxSeqs, u.info.MaxTokens = 48, 512 // some wait, some prompts take a few steps, most leave while they read
			if way.leave == nil {
				u.info.MaxSeqs = 96 // silence begins with output
			}
			g := start(t, u)
			before := g.toll()
			took := g.depart(log, n, stream, way.leave)
			at := p99(took)
			t.Logf("LIF-2, LIF-3: %s, streamed %v: %d cycles, noticed after p50 %v, p99 %v, most %v", way.name, stream, n, took[n/2], at, took[n-1])
			within(t, way.name+": noticed after", at, notice, notice+12*time.Second)
			g.repaid(before)
		}
	}
}

// depart has n clients that send a request each, wait for a moment and leave, 32 at a
// time. It returns how long it took the server to notice.
func (g *rig) depart(log *ledger, n int, stream bool, leave func(*net.TCPConn)) []time.Duration {
	var mu sync.Mutex
	var took []time.Duration
	var wg sync.WaitGroup
	next := make(chan int)
	for range 32 {
		wg.Go(func() {
			for i := range next {
				d := g.departure(log, i, stream, leave)
				mu.Lock()
				took = append(took, d)
				mu.Unlock()
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	wg.Wait()
	return took
}

// departure is one of them; leave nil = the client neither reads nor leaves.
func (g *rig) departure(log *ledger, i int, stream bool, leave func(*net.TCPConn)) time.Duration {
	rng := rand.New(rand.NewPCG(uint64(i), 2))
	c := g.connect(leave == nil)
	if c == nil {
		return 0
	}
	defer c.Close()
	id := fmt.Sprintf("departure-%d", i)
	body := fmt.Sprintf(`{"prompt":[%s],"max_tokens":3000,"n":%d,"stream":%v}`, numbers(i, 1+rng.IntN(300)), 1+i%3, stream)
	io.WriteString(c, request("/v1/completions", id, body))
	stay := time.Now().Add(time.Duration(rng.IntN(80)) * time.Millisecond)
	if leave != nil {
		_ = c.SetReadDeadline(stay)
		_, _ = io.Copy(io.Discard, c) // what is unread would make a reset of the end
		leave(c)
	}
	left := time.Now()
	s := log.settled(g.t, id)
	if s.status == 499 && s.cut == "" {
		g.t.Errorf("%s: no reason in the log", id)
	}
	return max(s.at.Sub(left), 0)
}

// TestADM1Connections compares what a connection takes with what the memory plan counts
// for it: idle, in the middle of large headers, and with a stream that nobody reads.
func TestADM1Connections(t *testing.T) {
	for _, secure := range []bool{false, true} {
		n := soak.Cases(t, 200, 2000)
		u := setup{reply: strings.Repeat("x", 64), cost: 20 * time.Millisecond, limits: map[limits.ID]int64{limits.HeaderRead: 60_000, limits.WriteStall: 60_000}}
		u.info.MaxSeqs, u.info.MaxTokens = n, 2*n
		u.engine.Sched.MaxQueue = n
		var steady gate
		u.launch = steady.launch
		planned := memory.ConnectionBytes(limits.Defaults()[limits.HeaderBytes])
		if secure {
			u.cfg.TLS = certified(t)
			planned += memory.TLSBytes
		}
		g := start(t, u)
		large := "\r\nX-Large: " + strings.Repeat("x", 30<<10)
		stream := request("/v1/completions", "large", `{"prompt":[1],"max_tokens":3000,"ignore_eos":true,"stream":true}`)
		var each []int64
		for _, c := range []struct {
			name, text string
			there      func() bool // all of them are
		}{
			{"idle", askHealth, func() bool { return true }},
			{"in its headers", "GET /health HTTP/1.1\r\nHost: localhost" + large, func() bool { return true }},
			{"streaming", strings.Replace(stream, "\r\n", large+"\r\n", 1), func() bool { return g.model.Engine.Stats().Running == n }},
		} {
			per := g.occupy(n, c.text, c.name, c.there, &steady)
			each = append(each, per)
			bound := planned
			if !soaking() {
				bound *= 2 // what does not grow with their number counts, too
			}
			if per > bound {
				t.Errorf("%s, HTTPS %v: %d bytes of heap and stack for a connection, %d planned", c.name, secure, per, planned)
			}
		}
		t.Logf("ADM-1: %d connections, HTTPS %v: %d bytes for one that is idle, %d in headers of 30 KiB, %d with such headers and a stream that nobody reads; %d planned",
			n, secure, each[0], each[1], each[2], planned)
		g.stop()
	}
}

// occupy opens n connections that say text, and returns what each takes once all of them
// are there and nothing is produced. A stream's has little room for what is sent.
func (g *rig) occupy(n int, text, what string, there func() bool, steady *gate) (per int64) {
	before := g.toll()
	idle := heap()
	var open []*net.TCPConn
	for range n {
		conn := g.connect(what == "streaming")
		if conn == nil {
			g.t.FailNow()
		}
		open = append(open, conn)
		var w io.Writer = conn
		if c := g.s.cfg.TLS; c != nil {
			w = tls.Client(conn, trusting(c)) // forgotten: what it takes is the client's
		}
		io.WriteString(w, text)
	}
	eventually(g.t, time.Minute, "all are "+what, func() bool { return g.metric("ossian_connections") > float64(n) && there() })
	time.Sleep(300 * time.Millisecond) // the last bytes are read
	per = (steady.heap() - idle) / int64(n)
	for _, conn := range open {
		conn.Close()
	}
	g.repaid(before)
	return per
}

// TestCON2 has readers that read a byte per second, or nothing, next to one that
// reads: they are cut, cost little, and the one hardly notices.
func TestCON2(t *testing.T) {
	n := soak.Cases(t, 40, 1000)
	stall := 500 * time.Millisecond
	if soaking() {
		stall = time.Duration(limits.Defaults()[limits.WriteStall]) * time.Millisecond
	}
	const step = 100 * time.Millisecond
	u := setup{reply: strings.Repeat("x", 64), cost: step, limits: map[limits.ID]int64{limits.WriteStall: stall.Milliseconds()}}
	u.info.MaxSeqs, u.info.MaxTokens = n+1, 2*n+2
	var steady gate
	u.launch = steady.launch
	g := start(t, u)
	before := g.toll()
	idle := heap()
	body := `{"prompt":[1],"max_tokens":1000,"ignore_eos":true,"stream":true}`
	crowd := func(small bool) (readers []*net.TCPConn) {
		before := g.model.Engine.Stats().Accepted
		for range n {
			c := g.connect(small)
			if c == nil {
				t.FailNow()
			}
			io.WriteString(c, request("/v1/completions", "reader", body))
			readers = append(readers, c)
		}
		eventually(t, time.Minute, "all have come", func() bool { return g.model.Engine.Stats().Accepted == before+uint64(n) })
		return readers
	}
	leave := func(readers []*net.TCPConn) {
		for _, c := range readers {
			c.Close()
		}
		eventually(t, time.Minute, "all are gone", func() bool { return g.s.load.Load() == 0 })
	}

	others := crowd(false)
	for _, c := range others {
		go io.Copy(io.Discard, c)
	}
	usual := g.gaps(20)
	leave(others)

	began := time.Now()
	slow := crowd(true)
	stop := make(chan struct{})
	go func() {
		for each := time.NewTicker(time.Second); ; {
			select {
			case <-each.C:
			case <-stop:
				return
			}
			for _, c := range slow[:n/2] {
				_ = c.SetReadDeadline(time.Now().Add(time.Millisecond))
				_, _ = c.Read(make([]byte, 1))
			}
		}
	}()
	beside := g.gaps(min(20, int(stall/step)))
	per := (steady.heap() - idle) / int64(n)
	eventually(t, stall+time.Minute, "all are cut", func() bool { return g.s.load.Load() == 0 })
	cut := time.Since(began)
	close(stop)
	leave(slow)
	g.repaid(before)
	t.Logf("CON-2: %d readers that do not read, all cut after %v with a limit of %v; %d bytes of heap each; time between tokens of another, p99: %v, %v beside as many that read",
		n, cut, stall, per, beside, usual)
	within(t, "all cut after", cut, stall+8*time.Second, stall+time.Minute) // the buffers fill first, and the system looks now and then
	within(t, "time between tokens of another", beside, usual*11/10, usual+time.Minute)
	if per > 64<<10 {
		t.Errorf("%d bytes per reader, at most %d wanted", per, 64<<10)
	}
}

// gaps reads a stream of n+1 tokens and returns the p99 of the time between two.
func (g *rig) gaps(n int) time.Duration {
	var times []time.Duration
	var last time.Time
	err := tokens(g.client, g.url, "", fmt.Sprintf(`{"prompt":[2],"max_tokens":%d,"ignore_eos":true,"stream":true}`, n+1), func() {
		now := time.Now()
		if !last.IsZero() {
			times = append(times, now.Sub(last))
		}
		last = now
	})
	if err != nil || len(times) < n {
		g.t.Errorf("%d gaps of %d: %v", len(times), n, err)
	}
	return p99(times)
}

// TestCON3 has clients that send a byte now and then: whatever they send, and whether
// it is wanted or not, they are closed in time, and nobody else notices.
func TestCON3(t *testing.T) {
	n := soak.Cases(t, 90, 5000)
	header, body, lim := 2*time.Second, 4*time.Second, map[limits.ID]int64{limits.HeaderRead: 2000, limits.BodyRead: 4000} // a normal client has as little
	if soaking() {
		header, body, lim = 5*time.Second, 30*time.Second, nil // the defaults
	}
	const post = " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n\r\n"
	kinds := []struct {
		name, first, drip string
		most              time.Duration
		told              string
	}{
		{"nothing", "", "", header, ""},
		{"headers", "GET /health HTTP/1.1\r\nHost: localhost\r\nX-Slow: ", "x", header, ""},
		{"body", "POST /tokenize" + post, " ", body, "did not arrive"},
		{"body in chunks", "POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n", "1\r\n \r\n", body, "did not arrive"},
		{"body of a refused request", "POST /nowhere" + post, " ", body, "no such route"},
		{"body that nobody wants", "GET /health" + post, " ", body, "200 OK"},
	}
	g := start(t, setup{reply: hello, limits: lim})
	before := g.toll()
	slow := make([]*net.TCPConn, n)
	closed := make([]time.Duration, n)
	var open sync.WaitGroup
	for i := range slow {
		k := kinds[i%len(kinds)]
		if slow[i] = g.connect(false); slow[i] == nil {
			t.FailNow()
		}
		began := time.Now()
		io.WriteString(slow[i], k.first)
		open.Go(func() {
			_ = slow[i].SetReadDeadline(time.Now().Add(2 * time.Minute))
			reply, _ := io.ReadAll(slow[i])
			closed[i] = time.Since(began)
			if !strings.Contains(string(reply), k.told) {
				t.Errorf("%s: %q, want %q", k.name, reply, k.told)
			}
		})
	}
	stop := make(chan struct{})
	var helpers sync.WaitGroup
	helpers.Go(func() {
		for each := time.NewTicker(header / 5); ; {
			select {
			case <-each.C:
			case <-stop:
				return
			}
			for i, c := range slow {
				_, _ = io.WriteString(c, kinds[i%len(kinds)].drip) // those that are closed fail
			}
		}
	})
	var normal []time.Duration
	helpers.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(20 * time.Millisecond):
			}
			if a := send(g.client, g.url+"/v1/completions", `{"prompt":"a","max_tokens":2}`); a.status != 200 {
				t.Errorf("a normal client: %+v", a)
			} else {
				normal = append(normal, a.took)
			}
		}
	})
	open.Wait()
	close(stop)
	helpers.Wait()
	for _, c := range slow {
		c.Close()
	}
	most := make([]time.Duration, len(kinds))
	for i, d := range closed {
		most[i%len(kinds)] = max(most[i%len(kinds)], d)
	}
	for i, k := range kinds {
		within(t, k.name+": closed after", most[i], k.most+5*time.Second, k.most+time.Minute)
	}
	if n := g.s.bodies.Load(); n != 0 {
		t.Errorf("%d bytes of bodies are held", n)
	}
	g.repaid(before)
	t.Logf("CON-3: %d slow senders; the last closed after, by kind %v with limits of %v and %v; %d normal requests beside them, 0 failures, p99 %v",
		n, most, header, body, len(normal), p99(normal))
}

// ask writes a request to a connection and reads the reply.
func ask(c net.Conn, r *bufio.Reader, text string) (*http.Response, error) {
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	if _, err := io.WriteString(c, text); err != nil {
		return nil, err
	}
	res, err := http.ReadResponse(r, nil)
	if err == nil {
		_, _ = io.Copy(io.Discard, res.Body)
		res.Body.Close()
	}
	return res, err
}

const (
	askHealth = "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
	askTokens = "POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 14\r\n\r\n{\"prompt\":\"a\"}"
)

// TestCON4 refuses connections beyond the limit, tells them so, and fails none of
// those that are there.
func TestCON4(t *testing.T) {
	u := lengthy()
	u.limits = map[limits.ID]int64{limits.Connections: 2}
	t.Run("HTTP", func(t *testing.T) { oneTooMany(start(t, u)) })
	u.cfg.TLS = certified(t)
	t.Run("HTTPS", func(t *testing.T) { oneTooMany(start(t, u)) })
}

// oneTooMany connects to a server that has room for two, both of which are answered.
func oneTooMany(g *rig) {
	t := g.t
	t.Helper()
	dial := func() (net.Conn, *bufio.Reader) {
		var c net.Conn = g.connect(false)
		if c == (*net.TCPConn)(nil) {
			t.FailNow()
		}
		t.Cleanup(func() { c.Close() })
		if g.s.cfg.TLS != nil {
			c = tls.Client(c, trusting(g.s.cfg.TLS))
		}
		return c, bufio.NewReader(c)
	}
	first, r1 := dial()
	second, r2 := dial()
	for i, r := range []*bufio.Reader{r1, r2} {
		c := second
		if i == 0 {
			c = first
		}
		if res, err := ask(c, r, askTokens); err != nil || res.StatusCode != 200 || res.Close {
			t.Errorf("%v %v, want 200 on a connection that stays", res, err)
		}
		_, _ = io.WriteString(c, request("/v1/chat/completions", fmt.Sprint(i), `{`+hi+`,"stream":true}`))
	}
	eventually(t, time.Minute, "both stream", func() bool { return g.s.load.Load() == 2 })
	for text, want := range map[string]int{askTokens: 503, askHealth: 200} {
		eventually(t, time.Minute, "one too many is told so", func() bool { // a busy machine may take too long for it
			c, r := dial()
			res, err := ask(c, r, text)
			return err == nil && res.StatusCode == want && res.Close && (want == 503) == (res.Header.Get("Retry-After") != "")
		})
	}
	silent := g.connect(false)
	defer silent.Close()
	_ = silent.SetDeadline(time.Now().Add(time.Minute))
	if _, err := silent.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("one too many that says nothing: %v, want the end", err)
	}
	_ = first.SetDeadline(time.Now().Add(time.Minute))
	if n, err := io.ReadFull(r1, make([]byte, 500)); err != nil {
		t.Errorf("the first stream ends after %d bytes: %v", n, err)
	}
	second.Close()
	eventually(t, time.Minute, "there is room again", func() bool {
		c, r := dial()
		res, err := ask(c, r, askTokens)
		return err == nil && res.StatusCode == 200 && !res.Close
	})
}

// fewEnv makes the test binary the server of TestCON4Descriptors: how many files it
// may have.
const fewEnv = "OSSIAN_TEST_DESCRIPTORS"

// TestCON4Descriptors holds more connections than a process with 256 descriptors can
// have, and asks for its health behind those that have just come and say nothing, or
// half of a header.
func TestCON4Descriptors(t *testing.T) {
	if few, err := strconv.Atoi(os.Getenv(fewEnv)); err == nil {
		serveWith(t, few)
		return
	}
	n := soak.Cases(t, 700, 1000)
	cmd := exec.Command(os.Args[0], "-test.run=^TestCON4Descriptors$")
	cmd.Env = append(os.Environ(), fewEnv+"=256")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(out)
	addr, err := lines.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	g := &rig{t: t, addr: strings.TrimSpace(addr)}
	first := g.connect(false)
	defer first.Close()
	r := bufio.NewReader(first)
	if res, err := ask(first, r, askTokens); err != nil || res.StatusCode != 200 {
		t.Fatal(res, err)
	}
	var crowd []*net.TCPConn
	for i := range n {
		if c := g.connect(false); c != nil {
			crowd = append(crowd, c)
			io.WriteString(c, []string{"", "GET /health HTTP/1.1\r\nX-Slow: "}[i%2])
		}
	}
	asked := time.Now()
	tries := 0
	eventually(t, time.Minute, "health is told", func() bool { // a busy machine may take too long for it
		tries++
		probe := g.connect(false)
		if probe == nil {
			return false
		}
		defer probe.Close()
		res, err := ask(probe, bufio.NewReader(probe), askHealth)
		return err == nil && res.StatusCode == 200
	})
	health := time.Since(asked)
	share := 1.0
	for began := time.Now(); share > 0.05 && time.Since(began) < 20*time.Second; { // until those that came last are done with
		used, from := processor(t, cmd.Process.Pid), time.Now()
		time.Sleep(2 * time.Second)
		share = float64(processor(t, cmd.Process.Pid)-used) / float64(time.Since(from))
	}
	if res, err := ask(first, r, askTokens); err != nil || res.StatusCode != 200 {
		t.Errorf("a connection that was there before: %v %v", res, err)
	}
	for _, c := range crowd {
		c.Close()
	}
	gone := time.Now()
	eventually(t, time.Minute, "requests are served again", func() bool {
		c := g.connect(false)
		if c == nil {
			return false
		}
		defer c.Close()
		res, err := ask(c, bufio.NewReader(c), askTokens)
		return err == nil && res.StatusCode == 200
	})
	recovery := time.Since(gone)
	in.Close()
	_, _ = io.Copy(io.Discard, lines)
	if err := cmd.Wait(); err != nil {
		t.Errorf("the server: %v", err)
	}
	t.Logf("CON-4: %d connections for 256 descriptors: %.1f %% of a core while refusing, health after %v behind those that say nothing or half, served again %v after they left", n, 100*share, health, recovery)
	within(t, "health after", health, 300*time.Millisecond, time.Minute)
	if soaking() && tries > 1 {
		t.Errorf("health: told at the %d. try", tries)
	}
	within(t, "served again after", recovery, time.Second, time.Minute)
	if share > 0.05 {
		t.Errorf("%.1f %% of a core while refusing, at most 5 %% wanted", 100*share)
	}
}

// serveWith is a server that may have so many files, until its input ends.
func serveWith(t *testing.T, few int) {
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: uint64(few), Max: uint64(few)}); err != nil {
		t.Fatal(err)
	}
	g := start(t, setup{reply: hello})
	fmt.Println(g.addr)
	_, _ = io.Copy(io.Discard, os.Stdin)
}

// processor returns the processor time that a process has used.
func processor(t *testing.T, pid int) time.Duration {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	fields := strings.Fields(rest) // from the third on
	user, err1 := strconv.Atoi(fields[11])
	system, err2 := strconv.Atoi(fields[12])
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	return time.Duration(user+system) * 10 * time.Millisecond // ticks of USER_HZ, 100 on every architecture that Go knows
}
