package server

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"ossian/internal/limits"
)

// A framed request is one whose end a proxy and a server may see in different places.
type framed struct {
	name, head, body string
	inside           bool // the body has a second request, which nobody is to answer
}

// inner is what an attacker hides in the body of a request.
const inner = "GET /version HTTP/1.1\r\nHost: localhost\r\n\r\n"

func smuggled() []framed {
	const line = "POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
	chunk := "0\r\n\r\n" + inner
	length := fmt.Sprintf("Content-Length: %d\r\n", len(chunk))
	var all []framed
	for name, headers := range map[string]string{
		"length, then chunked":          length + "Transfer-Encoding: chunked\r\n",
		"chunked, then length":          "Transfer-Encoding: chunked\r\n" + length,
		"another case":                  strings.ToLower(length) + "TRANSFER-ENCODING: Chunked\r\n",
		"chunked and a length of zero":  "Content-Length: 0\r\nTransfer-Encoding: chunked\r\n",
		"chunked with a tab":            length + "Transfer-Encoding:\tchunked\r\n",
		"chunked over two lines":        length + "Transfer-Encoding:\r\n chunked\r\n",
		"chunked over two lines, alone": "Transfer-Encoding:\r\n chunked\r\n",
		"a folded header":               "X-Note: a\r\n b\r\nContent-Length: 2\r\n",
		"a folded header that looks":    "X-Note: a\r\n Content-Length: 9\r\nContent-Length: 2\r\n",
		"two lengths":                   "Content-Length: 5\r\nContent-Length: 6\r\n",
		"one length twice":              "Content-Length: 5\r\nContent-Length: 5\r\n",
		"a list of lengths":             "Content-Length: 5, 5\r\n",
		"a length with a sign":          "Content-Length: +5\r\n",
		"a length in hexadecimal":       "Content-Length: 0x5\r\n",
		"an empty length":               "Content-Length: \r\n",
		"a negative length":             "Content-Length: -1\r\n",
		"a space before the colon":      "Content-Length : 5\r\n",
		"chunked twice":                 "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
		"chunked in a list":             "Transfer-Encoding: chunked, chunked\r\n",
		"identity":                      length + "Transfer-Encoding: identity\r\n",
		"gzip and chunked":              length + "Transfer-Encoding: gzip, chunked\r\n",
		"xchunked":                      length + "Transfer-Encoding: xchunked\r\n",
		"quoted":                        length + "Transfer-Encoding: \"chunked\"\r\n",
		"with a parameter":              length + "Transfer-Encoding: chunked;a=b\r\n",
		"an empty coding":               length + "Transfer-Encoding: \r\n",
		"a vertical tab":                length + "Transfer-Encoding: \vchunked\r\n",
		"an underscore":                 length + "Transfer_Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
	} {
		all = append(all, framed{name, line + headers, chunk, true})
	}
	old := strings.Replace(line, "HTTP/1.1", "HTTP/1.0", 1) + "Connection: keep-alive\r\n"
	return append(all, framed{"chunked in HTTP/1.0", old + length + "Transfer-Encoding: chunked\r\n", chunk, true},
		framed{"chunked alone in HTTP/1.0", old + "Transfer-Encoding: chunked\r\n", chunk, true})
}

var statusLine = regexp.MustCompile(`HTTP/1\.[01] (\d+)`)

// speak writes text, in one piece or byte by byte, and returns the statuses of the replies
// and whether the server has closed the connection.
func (g *rig) speak(text string, slow bool) (statuses []string, closed bool) {
	g.t.Helper()
	c, err := net.Dial("tcp", g.addr)
	if err != nil {
		g.t.Fatal(err)
	}
	defer c.Close()
	go func() {
		for i := 0; slow && i < len(text); i++ {
			_, _ = io.WriteString(c, text[i:i+1])
		}
		if !slow {
			_, _ = io.WriteString(c, text)
		}
	}()
	_ = c.SetReadDeadline(time.Now().Add(time.Second))
	all, err := io.ReadAll(c)
	for _, m := range statusLine.FindAllStringSubmatch(string(all), -1) {
		statuses = append(statuses, m[1])
	}
	netErr, ok := err.(net.Error)
	return statuses, !(ok && netErr.Timeout())
}

// TestCON5Framing: a request whose end is not clear is refused, and nothing behind it on the
// connection is answered (RFC 9112, 5.2, 6.1 and 6.3).
func TestCON5Framing(t *testing.T) {
	g := start(t, setup{reply: hello})
	for _, f := range smuggled() {
		for _, slow := range []bool{false, true} {
			statuses, closed := g.speak(f.head+"\r\n"+f.body, slow)
			if len(statuses) != 1 || (statuses[0] != "400" && statuses[0] != "501") || !closed {
				t.Errorf("%s, slow %v: statuses %q, closed %v", f.name, slow, statuses, closed)
			}
		}
		// The same behind a request that is fine.
		statuses, closed := g.speak(inner+f.head+"\r\n"+f.body, false)
		if len(statuses) != 2 || statuses[0] != "200" || (statuses[1] != "400" && statuses[1] != "501") || !closed {
			t.Errorf("%s behind another: statuses %q, closed %v", f.name, statuses, closed)
		}
	}
}

// What is clear stays as it is: bodies of every form, one behind the other on a connection.
func TestCON5Proper(t *testing.T) {
	t.Parallel() // it waits
	g := start(t, setup{reply: hello})
	const line = "POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
	ask := `{"prompt":"a"}`
	all := strings.Repeat(inner, 2) +
		line + fmt.Sprintf("content-length:  %d \r\n\r\n%s", len(ask), ask) +
		line + fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n%x;ext=\"1\"\r\n%s\r\n%X\r\n%s\r\n0\r\nX-Sum: 1\r\n\r\n", 4, ask[:4], len(ask)-4, ask[4:]) +
		line + "X-Long: " + strings.Repeat("x", 3000) + fmt.Sprintf("\r\nContent-Length: %d\r\n\r\n%s\r\n", len(ask), ask) + // old clients send a line more
		"GET /health HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n" + inner
	for _, slow := range []bool{false, true} {
		if statuses, closed := g.speak(all, slow); strings.Join(statuses, " ") != "200 200 200 200 200 200 200" || closed {
			t.Errorf("slow %v: statuses %q, closed %v", slow, statuses, closed)
		}
	}
}

// Below TLS nobody looks at the bytes: there a chunked request is the last on its connection.
func TestCON5Secure(t *testing.T) {
	g := start(t, setup{reply: hello, cfg: Config{TLS: certified(t)}})
	for _, chunked := range []bool{false, true} {
		var body io.Reader = strings.NewReader(`{"prompt":"a"}`)
		if chunked {
			body = io.MultiReader(body) // of unknown length
		}
		r, err := g.client.Post(g.url+"/tokenize", "application/json", body)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, r.Body)
		r.Body.Close()
		if r.StatusCode != 200 || r.Close != chunked {
			t.Errorf("chunked %v: %s, the connection is closed: %v", chunked, r.Status, r.Close)
		}
	}
}

// FuzzFraming: how the bytes of a connection are divided changes nothing, and nothing
// panics.
func FuzzFraming(f *testing.F) {
	for _, s := range smuggled() {
		f.Add([]byte(inner+s.head+"\r\n"+s.body), uint8(3))
	}
	f.Add([]byte("GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n0\r\n\r\nGET / HTTP/1.0\n\n"), uint8(1))
	f.Fuzz(func(t *testing.T, data []byte, step uint8) {
		var whole, parts framing
		whole.begin()
		parts.begin()
		whole.read(data)
		for at := 0; at < len(data); at += int(step)%7 + 1 {
			parts.read(data[at:min(len(data), at+int(step)%7+1)])
		}
		if whole.heads.Load() != parts.heads.Load() || whole.firstBad.Load() != parts.firstBad.Load() || whole.state != parts.state || whole.skip != parts.skip {
			t.Errorf("whole %+v\nparts %+v", &whole, &parts)
		}
		if first := whole.firstBad.Load(); first > whole.heads.Load()+1 || cap(whole.line) > 2*mostLine {
			t.Errorf("%+v", &whole)
		}
	})
}

// TestCON3IdleMakeRoom: connections that one peer opens and leaves idle, before their first
// request or behind it, keep nobody out, and no request that is being answered is cut.
func TestCON3IdleMakeRoom(t *testing.T) {
	u := lengthy()
	u.limits = map[limits.ID]int64{limits.Connections: 8}
	g := start(t, u)
	busy := g.dial("/v1/chat/completions", `{`+hi+`,"stream":true}`)
	defer busy.Close()
	var held []net.Conn
	for i := range 24 {
		c, err := net.Dial("tcp", g.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		held = append(held, c)
		switch i % 3 {
		case 0: // says nothing
		case 1:
			_, _ = io.WriteString(c, "GET /health HTTP/1.1\r\nHost: a\r\n")
		default:
			_, _ = io.WriteString(c, "GET /health HTTP/1.1\r\nHost: a\r\n\r\n")
		}
	}
	fresh := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for range 5 {
		r, err := fresh.Post(g.url+"/tokenize", "application/json", strings.NewReader(`{"prompt":"a"}`))
		if err != nil {
			t.Fatal(err)
		}
		r.Body.Close()
		if r.StatusCode != 200 {
			t.Errorf("beside %d idle connections: %s", len(held), r.Status)
		}
	}
	_ = busy.SetReadDeadline(time.Now().Add(time.Minute))
	if n, err := io.ReadAtLeast(busy, make([]byte, 4096), 2000); err != nil {
		t.Errorf("the stream beside them ends after %d bytes: %v", n, err)
	}
	if text := g.do("GET", "/metrics", "").body; !strings.Contains(text, "ossian_idle_connections_closed_total ") || strings.Contains(text, "ossian_idle_connections_closed_total 0\n") {
		t.Errorf("metrics: %s", grep(text, "idle_connections"))
	}
}

// TestCON3SlowMakeRoom: nor do connections whose bodies do not come.
func TestCON3SlowMakeRoom(t *testing.T) {
	t.Parallel() // it waits
	g := start(t, setup{reply: hello, limits: map[limits.ID]int64{limits.Connections: 6}})
	for range 12 {
		c, err := net.Dial("tcp", g.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_, _ = io.WriteString(c, "POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{")
	}
	fresh := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	ask := func() bool {
		r, err := fresh.Post(g.url+"/tokenize", "application/json", strings.NewReader(`{"prompt":"a"}`))
		if err != nil {
			return false
		}
		r.Body.Close()
		return r.StatusCode == 200
	}
	began := time.Now()
	eventually(t, time.Minute, "others are let in", ask)
	if took := time.Since(began); took > limits.Defaults().Time(limits.BodyRead)-5*time.Second {
		t.Errorf("others are let in after %v", took)
	}
}

// TestEvict: the peer with most connections makes room, with the one that has been idle
// longest.
func TestEvict(t *testing.T) {
	r := newRoster()
	l := &limited{metrics: nil}
	conns := map[string]*counted{}
	open := func(name, address string) {
		addr, err := net.ResolveTCPAddr("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		near, far := net.Pipe()
		t.Cleanup(func() { near.Close(); far.Close() })
		c := &counted{Conn: near, l: l, peer: peerOf(addr)}
		c.once.Do(func() {}) // it has no place
		conns[name] = c
		r.watch(c, http.StateNew)
	}
	open("a1", "10.0.0.1:1")
	open("b1", "[2001:db8::1]:1")
	open("b2", "[2001:db8::2]:1") // the same subscriber
	open("b3", "[2001:db8::3]:1")
	open("c1", "10.0.0.2:1")
	open("d1", "10.0.0.3:1")
	conns["d1"].frames.heads.Add(1) // its request is read, and about to be answered
	r.watch(conns["b1"], http.StateActive)
	r.watch(conns["b1"], http.StateIdle)
	r.watch(conns["b3"], http.StateActive)
	closed := func(name string) bool {
		_ = conns[name].Conn.SetDeadline(time.Now())
		_, err := conns[name].Conn.Read(make([]byte, 1))
		return err == io.ErrClosedPipe
	}
	for i, want := range []string{"b1", "b2", "a1", "c1"} { // of b, with one of each, first what had a request
		if evicted, _ := r.evict(); !evicted || !closed(want) {
			t.Fatalf("eviction %d does not close %s", i, want)
		}
		r.watch(conns[want], http.StateClosed)
	}
	if evicted, soon := r.evict(); evicted || !soon || closed("b3") || closed("d1") {
		t.Errorf("a connection with a request was closed, or is not said to be there: %v, %v", evicted, soon)
	}
	r.watch(conns["d1"], http.StateClosed)
	r.watch(conns["b3"], http.StateClosed)
	if len(r.peers) > 0 || len(r.at) > 0 {
		t.Errorf("left: %v %v", r.peers, r.at)
	}
}
