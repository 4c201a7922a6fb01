package server

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"ossian/internal/soak"
)

// abused are pieces of requests, right, wrong and between, that abuse puts together.
var abused = struct{ methods, targets, protocols, ends, headers, bodies []string }{
	methods: []string{"GET", "HEAD", "PUT", "OPTIONS", "TRACE", "CONNECT", "PRI", "get", "G T", "", "GET\t", "\x00", strings.Repeat("M", 9000)},
	targets: []string{"/v1/chat/completions", "*", "", "/\x00", "/ ", "//", "localhost:80", "http://localhost/health",
		"http://[::1", "/%zz", "/" + strings.Repeat("a", 5000), "/" + strings.Repeat("%41", 20_000), "\xff\xfe", "/health HTTP/1.1\r\nX: y"},
	protocols: []string{"HTTP/1.0", "HTTP/0.9", "HTTP/1.2", "HTTP/2.0", "HTTP/3", "HTTP/1.10", "HTTP/01.1", "http/1.1", "HTTP/", "HTTP/-1.1", "ICY", ""},
	ends:      []string{"\n", "\r", "\n\r", "\r\r\n", "\x00\r\n", " \r\n", ""},
	headers: []string{"Host: a\r\nHost: b", "Host:", "Host: [::1", "Host: a b", "Content-Type: text/plain",
		"Content-Length: 14", "Content-Length: 14\r\nContent-Length: 14", "Content-Length: 14\r\nContent-Length: 15", "Content-Length: 14, 14", "Content-Length: -1", "Content-Length: +14",
		"Content-Length: 0x0e", "Content-Length: 14 ", "Content-Length:\t14", "Content-Length: 1e1", "Content-Length: 99999999999999999999", "Content-Length: 9223372036854775807", "Content-Length:",
		"Transfer-Encoding: chunked", "Transfer-Encoding: chunked, chunked", "Transfer-Encoding: identity", "Transfer-Encoding: gzip, chunked", "Transfer-Encoding: xchunked",
		"Transfer-Encoding:\x0bchunked", "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity", "Transfer-Encoding : chunked", "Transfer_Encoding: chunked", "Transfer-Encoding: \"chunked\"",
		"Transfer-Encoding: chunked\r\nContent-Length: 14", "Expect: 100-continue", "Expect: 101-upgrade", "Upgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\nConnection: Upgrade, HTTP2-Settings",
		"Upgrade: websocket\r\nConnection: Upgrade", "Connection: close", "Connection: keep-alive, close, Host, x", "Trailer: Content-Length", "TE: trailers, deflate;q=0.5", "Content-Encoding: gzip",
		": no name", "no colon", " folded: x", "X: a\r\n b\r\n\tc", "X: \x00", "X: \x7f\xff", "\x00: x", "X\r: y", "X: a\rY: b", "X: a\nContent-Length: 3", "(x): y", "Authorization: " + strings.Repeat("k", 8000),
		"X: " + strings.Repeat("y", 40_000), strings.Repeat("A: b\r\n", 500) + "A: b", strings.Repeat("n", 40_000) + ": x", "X-Request-Id: \x1b[31m", "Origin: null", "Range: bytes=0-18446744073709551615"},
	bodies: []string{`{"prompt":"a"}`, "", "{", "e\r\n{\"prompt\":\"a\"}\r\n0\r\n\r\n", "e\n{\"prompt\":\"a\"}\n0\n\n", "FFFFFFFFFFFFFFFF\r\n", "10000000000000000\r\nx", "-1\r\nx\r\n", "+1\r\nx\r\n",
		"0x1\r\nx\r\n0\r\n\r\n", "1 \r\nx\r\n0\r\n\r\n", " 1\r\nx\r\n0\r\n\r\n", "1;a=b;c=\"d\r\ne\"\r\nx\r\n0\r\n\r\n", "1;" + strings.Repeat("e", 9000) + "\r\nx\r\n0\r\n\r\n", "2\r\nx\r\n0\r\n\r\n", "1\r\nxy\r\n0\r\n\r\n",
		"1\r\nx0\r\n\r\n", "0\r\nContent-Length: 5\r\nX: y\r\n\r\n", "0\r\n" + strings.Repeat("T: v\r\n", 5000) + "\r\n", "0\r\n\r\nGET /health HTTP/1.1\r\nHost: localhost\r\n\r\n", "\r\n0\r\n\r\n", "00000000000000000000000000000000e\r\n",
		strings.Repeat("1\r\n{\r\n", 5000), "g\r\n", strings.Repeat("0", 5000) + "\r\n\r\n", "1\r\nx\r\n0\r\n: t\r\n\r\n", "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n", "\x00\x00\x00\x00"},
}

// strangers are whole conversations in other protocols, and what is no conversation.
func strangers(rng *rand.Rand) string {
	noise := make([]byte, rng.IntN(2000))
	for i := range noise {
		noise[i] = byte(rng.IntN(256))
	}
	const health = "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
	all := []string{string(noise), "", "\r\n\r\n\r\n" + health, "\n", "GET /health\r\n", "GET / HTTP/1.1", strings.Repeat("\r\n", 10_000), strings.Repeat("A", 100_000), strings.Repeat(health, 60),
		"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + string(noise), "\x05\x01\x00", "\x00\x00\x00\x08\x04\xd2\x16\x2f", "SSH-2.0-x\r\n", "EHLO x\r\n", "*1\r\n$4\r\nPING\r\n", "PROXY TCP4 127.0.0.1 127.0.0.1 1 2\r\n" + health,
		strings.ReplaceAll(health, "", "\x00"), "\xef\xbb\xbf" + health, "GET /health HTTP/1.1\r\n" + strings.Repeat("X: y\r\n", 20_000) + "\r\n", "GET /health HTTP/1.1\r\nHost: localhost\r\n" + strings.Repeat("X", 100_000)}
	return all[rng.IntN(len(all))]
}

const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

// flood is HTTP/2 with prior knowledge: the preface, then many frames that are cheap to
// send and dear to answer.
func flood(rng *rand.Rand) string {
	frame := func(kind, flags byte, stream uint32, payload string) string {
		head := binary.BigEndian.AppendUint32(nil, uint32(len(payload))<<8|uint32(kind))
		head = append(head, flags)
		return string(binary.BigEndian.AppendUint32(head, stream)) + payload
	}
	var b strings.Builder
	b.WriteString(preface)
	b.WriteString(frame(4, 0, 0, "")) // SETTINGS
	n := rng.IntN(500)
	for i := range n {
		stream := uint32(2*i + 1)
		switch rng.IntN(6) {
		case 0:
			b.WriteString(frame(4, 0, 0, "\x00\x03\xff\xff\xff\xff"))
		case 1:
			b.WriteString(frame(6, 0, 0, "12345678")) // PING
		case 2:
			b.WriteString(frame(1, 4, stream, "\x82\x84\x86")) // HEADERS, then RST_STREAM
			b.WriteString(frame(3, 0, stream, "\x00\x00\x00\x08"))
		case 3:
			b.WriteString(frame(1, 0, 1, "\x82") + strings.Repeat(frame(9, 0, 1, "\x40\x01a\x01b"), 20)) // CONTINUATION without end
		case 4:
			b.WriteString(frame(8, 0, 0, "\x7f\xff\xff\xff")) // WINDOW_UPDATE
		case 5:
			b.WriteString(frame(0, 8, stream, "")) // DATA, empty
		}
	}
	return b.String()
}

// abuse returns a conversation and whether it is to be broken off: a stranger, a flood, or
// a request with some parts changed.
func abuse(rng *rand.Rand) (text string, cut bool) {
	pick := func(from []string) string { return from[rng.IntN(len(from))] }
	switch rng.IntN(10) {
	case 0:
		return strangers(rng), false
	case 1:
		return flood(rng), rng.IntN(2) == 0
	}
	method, target, protocol, end, body := "POST", pick([]string{"/v1/completions", "/tokenize", "/health"}), "HTTP/1.1", "\r\n", `{"prompt":"a"}`
	headers := []string{"Host: localhost", "Content-Type: application/json", "Content-Length: 14"}
	if rng.IntN(3) == 0 {
		headers[2], body = "Transfer-Encoding: chunked", "e\r\n"+body+"\r\n0\r\n\r\n"
	}
	for range 1 + rng.IntN(3) {
		switch rng.IntN(9) {
		case 0:
			method = pick(abused.methods)
		case 1:
			target = pick(abused.targets)
		case 2:
			protocol = pick(abused.protocols)
		case 3:
			end = pick(abused.ends)
		case 4, 5:
			headers[rng.IntN(len(headers))] = pick(abused.headers)
		case 6:
			headers = append(headers, pick(abused.headers))
		case 7:
			body = pick(abused.bodies)
		case 8:
			body += pick(abused.bodies)
		}
	}
	text = method + " " + target + " " + protocol + end + strings.Join(headers, end) + end + end + body
	if rng.IntN(10) == 0 {
		text = text[:rng.IntN(len(text)+1)]
	}
	return text, rng.IntN(10) == 0
}

// converse sends text and returns the statuses of all replies. A client that does not
// cut the connection closes its half and reads to the end.
func (g *rig) converse(text string, cut bool) (statuses []int, err error) {
	c, err := net.Dial("tcp", g.addr)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	_, _ = io.WriteString(c, text) // what is not taken has been answered
	if cut {
		return nil, c.(*net.TCPConn).SetLinger(0)
	}
	_ = c.(*net.TCPConn).CloseWrite()
	r := bufio.NewReader(c)
	for {
		res, err := http.ReadResponse(r, nil)
		if err == nil {
			statuses = append(statuses, res.StatusCode)
			if res.StatusCode < 200 {
				continue
			}
			_, err = io.Copy(io.Discard, res.Body)
		}
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			return statuses, fmt.Errorf("the connection stays open after %d replies", len(statuses))
		case err != nil:
			return statuses, nil // the end, or what a HEAD leaves out
		}
	}
}

// TestCON5Abuse sends what no client should to a server, which has to answer 4xx, or 501
// and 505 where HTTP wants these, to lose nothing and to go on.
func TestCON5Abuse(t *testing.T) {
	var log logBuffer
	g := start(t, setup{reply: hello, log: &log})
	if r := g.post("/v1/completions", `{"prompt":"a"}`); r.status != 200 {
		t.Fatalf("%d %s", r.status, r.body)
	}
	g.client.CloseIdleConnections()
	g.idle()
	before := runtime.NumGoroutine()
	n := soak.Cases(t, 600, 5000)
	var (
		talking sync.WaitGroup
		mu      sync.Mutex
		seen    = map[int]int{}
		next    atomic.Int64
	)
	for range 16 {
		talking.Go(func() {
			for i := next.Add(1); i <= int64(n); i = next.Add(1) {
				text, cut := abuse(rand.New(rand.NewPCG(5, uint64(i))))
				statuses, err := g.converse(text, cut)
				if err != nil {
					t.Errorf("case %d: %.300q: %v", i, text, err)
				}
				mu.Lock()
				for _, status := range statuses {
					seen[status]++
					if status >= 500 && status != http.StatusNotImplemented && status != http.StatusHTTPVersionNotSupported {
						t.Errorf("case %d: %.300q: status %d", i, text, status)
					}
				}
				mu.Unlock()
			}
		})
	}
	talking.Wait()
	g.idle()
	eventually(t, 30*time.Second, fmt.Sprintf("%d goroutines as before", before), func() bool { return runtime.NumGoroutine() <= before })
	if n := g.s.bodies.Load(); n != 0 {
		t.Errorf("%d bytes of bodies are held", n)
	}
	if text := log.String(); strings.Contains(text, "panic") || strings.Contains(text, "level=ERROR") {
		t.Errorf("log: %.2000s", text)
	}
	if r := g.post("/v1/completions", `{"prompt":"a"}`); r.status != 200 {
		t.Errorf("afterwards: %d %s", r.status, r.body)
	}
	if seen[200] == 0 || seen[400] == 0 || seen[501] == 0 || seen[505] == 0 {
		t.Errorf("statuses %v: some of 200, 400, 501 and 505 wanted", seen)
	}
	t.Logf("CON-5: %d conversations, statuses %v, 0 panics, 0 other 5xx, 0 goroutines left", n, seen)
}

// TestCON5HTTP2 speaks HTTP/2 without asking: the answer is a refusal in HTTP/1.1.
func TestCON5HTTP2(t *testing.T) {
	g := start(t, setup{reply: hello})
	for _, text := range []string{preface, preface + "\x00\x00\x00\x04\x00\x00\x00\x00\x00"} {
		if status, reply := g.raw(text); status != 505 || !strings.Contains(reply, "Connection: close") || strings.Count(reply, "HTTP/1.1 ") != 1 {
			t.Errorf("%q: %d %q", text, status, reply)
		}
	}
	if status, reply := g.raw("GET /version HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade, HTTP2-Settings, close\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n"); status != 200 || !strings.Contains(reply, "1.2.3") {
		t.Errorf("an upgrade that need not be taken: %d %q", status, reply)
	}
}
