package mcp

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"ossian/internal/limits"
	"ossian/internal/tools"
)

// count calls the tool that counts the calls of a connection.
func count(t *testing.T, session tools.Session) string {
	t.Helper()
	return session.Call(t.Context(), tools.Call{Tool: "count"}).Text
}

// TestConversationsAreApart: what a server keeps for a connection is one conversation's, and goes on
// with the next answer of it where there may be one. The server is told of the end.
func TestConversationsAreApart(t *testing.T) {
	for _, how := range []string{"sse", "stream"} {
		t.Run(how, func(t *testing.T) {
			p := newPeer("2025-11-25")
			s := start(t, Options{Address: p.serve(t, how), Authorization: "token", Header: http.Header{"X-Team": {"blue"}}})
			listedBy(t, s)
			mine, other := s.Open(tools.Chain{Owner: "a", ID: "1", Kept: true}), s.Open(tools.Chain{Owner: "b", ID: "1"})
			for _, want := range []string{"1", "2"} {
				if got := count(t, mine); got != want {
					t.Errorf("mine: %s, want %s", got, want)
				}
			}
			if got := count(t, other); got != "1" {
				t.Errorf("another's: %s, want 1", got)
			}
			other.Close()
			mine.Close()
			eventually(t, "the server is told of the end", p.saw(&p.cleaned))
			thief := s.Open(tools.Chain{Owner: "b", ID: "1"})
			if got := count(t, thief); got != "1" {
				t.Errorf("another's with the same name: %s, want 1", got)
			}
			thief.Close()
			again := s.Open(tools.Chain{Owner: "a", ID: "1", Kept: true})
			if got := count(t, again); got != "3" {
				t.Errorf("mine again: %s, want 3", got)
			}
			again.Close()
			p.mu.Lock()
			defer p.mu.Unlock()
			chains := map[string]bool{}
			for _, header := range p.headers {
				chains[header.Get("X-Session-Id")] = true
				if header.Get("Authorization") != "Bearer token" || header.Get("X-Team") != "blue" {
					t.Errorf("headers %v", header)
				}
			}
			if !chains["1"] {
				t.Errorf("x-session-id: %v", chains)
			}
		})
	}
}

// TestKeptConnectionsAreBounded: the oldest one makes room.
func TestKeptConnectionsAreBounded(t *testing.T) {
	p := newPeer("2025-11-25")
	s := start(t, Options{Address: p.serve(t, "stream")})
	listedBy(t, s)
	for i := range maxKept + 2 {
		session := s.Open(tools.Chain{ID: strings.Repeat("c", i+1), Kept: true})
		count(t, session)
		session.Close()
	}
	s.mu.Lock()
	kept, first := len(s.kept.byChain), s.kept.byChain[chainKey{"", "c"}]
	s.mu.Unlock()
	if kept != maxKept || first != nil {
		t.Errorf("%d are kept, the first: %v", kept, first != nil)
	}
}

// TestKeptProcessesAreBounded: of those no more wait than the limit allows.
func TestKeptProcessesAreBounded(t *testing.T) {
	set := limits.Defaults()
	set[limits.PythonProcesses] = 2
	s := start(t, Options{Stdio: true, Address: "stdio:" + os.Args[0] + " " + asServer + " speaks 2025-11-25", Limits: func() *limits.Set { return set }})
	listedBy(t, s)
	for i := range 3 {
		session := s.Open(tools.Chain{ID: strings.Repeat("c", i+1), Kept: true})
		count(t, session)
		session.Close()
	}
	s.mu.Lock()
	kept, first := len(s.kept.byChain), s.kept.byChain[chainKey{"", "c"}]
	s.mu.Unlock()
	if kept != 2 || first != nil {
		t.Errorf("%d are kept, the first: %v", kept, first != nil)
	}
}

// A street is an address at which one server stands behind another.
type street struct {
	mu      sync.Mutex
	handler http.Handler
	server  *httptest.Server
}

func (s *street) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	s.mu.Lock()
	handler := s.handler
	s.mu.Unlock()
	handler.ServeHTTP(w, req)
}

// move puts another server at the address and breaks the connections of the one before.
func (s *street) move(handler http.Handler) {
	s.mu.Lock()
	s.handler = handler
	s.mu.Unlock()
	if s.server != nil {
		s.server.CloseClientConnections()
	}
}

func handler(p *peer, how string) http.Handler {
	get := func(*http.Request) *sdk.Server { return p.server }
	if how == "sse" {
		return sdk.NewSSEHandler(get, nil)
	}
	return sdk.NewStreamableHTTPHandler(get, &sdk.StreamableHTTPOptions{PropagateRequestCancellation: true, Stateless: how == "stateless"})
}

// TestServerRestarts: a call in the middle of a conversation finds the server again, whatever it
// has forgotten; one server may even be replaced by one with another transport.
func TestServerRestarts(t *testing.T) {
	for _, c := range []struct{ before, after string }{
		{"sse", "sse"}, {"stream", "stream"}, {"stateless", "stateless"}, {"stream", "stateless"}, {"stream", "sse"}, {"sse", "stream"},
	} {
		t.Run(c.before+" "+c.after, func(t *testing.T) {
			place := &street{}
			first, second := newPeer(""), newPeer("")
			place.move(handler(first, c.before))
			place.server = httptest.NewServer(place)
			t.Cleanup(func() {
				for _, p := range []*peer{first, second} {
					for session := range p.server.Sessions() {
						session.Close()
					}
				}
				place.server.CloseClientConnections()
				place.server.Close()
			})
			s := start(t, Options{Address: place.server.URL})
			listedBy(t, s)
			session := s.Open(tools.Chain{ID: "c"})
			defer session.Close()
			if got := session.Call(t.Context(), tools.Call{Tool: "echo"}); got.Text != "{}" {
				t.Fatalf("%+v", got)
			}
			place.move(handler(second, c.after))
			eventually(t, "the server is found again", func() bool {
				return session.Call(t.Context(), tools.Call{Tool: "echo"}).Text == "{}"
			})
			eventually(t, "it is listed again", func() bool { return s.Status().Works })
		})
	}
}

// TestServerGoesAndComes: while it is down requests are told at once, and when it is there again
// the first request finds it.
func TestServerGoesAndComes(t *testing.T) {
	p := newPeer("2025-11-25")
	web := httptest.NewServer(handler(p, "sse"))
	s := start(t, Options{Address: web.URL})
	listedBy(t, s)
	address := web.Listener.Addr().String()
	web.CloseClientConnections()
	web.Close()
	eventually(t, "it is missed", func() bool {
		_, err := s.Namespace(t.Context())
		return err != nil && err.Error() == "it cannot be reached: connection refused"
	})
	if got := do(t, s, "echo", "{}"); got.Outcome != tools.Broken || got.Text != "Error calling tool echo: it cannot be reached: connection refused" {
		t.Errorf("%+v", got)
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		t.Skip("the port was taken meanwhile")
	}
	web = &httptest.Server{Listener: listener, Config: &http.Server{Handler: handler(p, "sse")}}
	web.Start()
	t.Cleanup(func() {
		web.CloseClientConnections()
		web.Close()
	})
	listedBy(t, s)
}

// TestToolsChange: what a server says of changes is heard where it can be; a tool that is gone
// gets the server's own error.
func TestToolsChange(t *testing.T) {
	for _, c := range []struct{ how, version string }{{"sse", "2024-11-05"}, {"stateless", stateless}} {
		t.Run(c.how, func(t *testing.T) {
			p := newPeer(c.version)
			s := start(t, Options{Address: p.serve(t, c.how)})
			before := listedBy(t, s)
			session := s.Open(tools.Chain{ID: "c"})
			defer session.Close()
			p.add("new", "", func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) { return said("new"), nil })
			p.server.RemoveTools("echo")
			eventually(t, "the list changes", func() bool {
				space, err := s.Namespace(t.Context())
				return err == nil && space.Tools[5].Name == "new" && len(space.Tools) == len(before.Tools)
			})
			if before.Tools[2].Name != "echo" {
				t.Error("the list of before was changed")
			}
			if got := session.Call(t.Context(), tools.Call{Tool: "echo"}); got.Text != `Error calling tool echo: unknown tool "echo"` {
				t.Errorf("%+v", got)
			}
		})
	}
}

// TestChangesAreNotTold: a connection whose stream of changes ends is of no use for watching.
func TestChangesAreNotTold(t *testing.T) {
	for _, old := range []bool{false, true} {
		p := newPeer(stateless)
		s := start(t, Options{Address: p.serve(t, "stateless")})
		listedBy(t, s)
		conn, err := dialer{server: s, watch: true}.dial(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if old {
			conn.mu.Lock()
			conn.born = conn.born.Add(-time.Hour)
			conn.mu.Unlock()
		}
		p.web.CloseClientConnections()
		if old {
			eventually(t, "the connection ends", func() bool { return !conn.alive() })
		} else {
			eventually(t, "a new connection is still of use", func() bool {
				_, err := conn.list(t.Context(), "")
				return err == nil
			})
		}
		conn.close()
	}
}

// TestPython: a server python with one tool of code is a namespace that is called itself.
func TestPython(t *testing.T) {
	code := `{"type":"object","properties":{"code":{"type":"string"}},"required":["code"]}`
	for _, c := range []struct {
		name, list string
		itself     bool
		unshown    int
	}{
		{"python", `[{"name":"python","inputSchema":` + code + `}]`, true, 1},
		{"python", `[{"name":"python","inputSchema":` + code + `},{"name":"cleanup_session","inputSchema":{"type":"object"}}]`, true, 1},
		{"python", `[{"name":"python","inputSchema":{"type":"object"},"annotations":{"include_in_prompt":false}}]`, true, 1},
		{"python", `[{"name":"python","inputSchema":{"type":"object"}}]`, false, 0},
		{"python", `[{"name":"run","inputSchema":` + code + `}]`, false, 0},
		{"python", `[{"name":"python","inputSchema":` + code + `},{"name":"reset","inputSchema":{"type":"object"}}]`, false, 0},
		{"snake", `[{"name":"python","inputSchema":` + code + `}]`, false, 0},
		{"snake", `[{"name":"a","inputSchema":` + code + `,"annotations":{"include_in_prompt":false,"readOnlyHint":true}}]`, false, 1},
	} {
		var got atomic.Value
		s := start(t, Options{Name: c.name, Address: web(t, recording(&script{list: `{"tools":` + c.list + `}`, call: func(w http.ResponseWriter, id json.RawMessage) {
			writeResult(w, id, `{"content":[]}`)
		}}, &got))})
		space := listedBy(t, s)
		unshown := 0
		for _, tool := range s.Listed() {
			if tool.Unshown {
				unshown++
			}
		}
		if (len(space.Tools) == 0) != c.itself || unshown != c.unshown || space.Name != c.name {
			t.Errorf("%s %s: %+v", c.name, c.list, space)
		}
		if c.itself {
			do(t, s, "", "print(\"ä\")\n")
			if sent, _ := got.Load().(string); !strings.Contains(sent, `"name":"python","arguments":{"code":"print(\"ä\")\n"}`) {
				t.Errorf("sent %s", sent)
			}
		}
	}
}

// recording keeps the last call that a server got.
func recording(next *script, last *atomic.Value) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		var body strings.Builder
		if req.Method == http.MethodPost {
			raw := json.RawMessage{}
			_ = json.NewDecoder(req.Body).Decode(&raw)
			body.Write(raw)
		}
		if strings.Contains(body.String(), "tools/call") {
			last.Store(body.String())
		}
		again := req.Clone(req.Context())
		again.Body = http.NoBody
		if body.Len() > 0 {
			again.Body = readCloser{strings.NewReader(body.String())}
		}
		next.ServeHTTP(w, again)
	})
}

type readCloser struct{ *strings.Reader }

func (readCloser) Close() error { return nil }

// TestClosed: what is closed offers nothing, and its sessions' calls fail.
func TestClosed(t *testing.T) {
	p := newPeer("2025-11-25")
	s := start(t, Options{Address: p.serve(t, "stream")})
	listedBy(t, s)
	session := s.Open(tools.Chain{ID: "c", Kept: true})
	count(t, session)
	s.Close()
	if _, err := s.Namespace(t.Context()); err == nil {
		t.Error("it still offers something")
	}
	if got := session.Call(t.Context(), tools.Call{Tool: "count"}); got.Outcome == tools.Done {
		t.Errorf("%+v", got)
	}
	session.Close()
	s.Close()
}
