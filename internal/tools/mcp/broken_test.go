package mcp

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"ossian/internal/tools"
)

// A script is a server of streamable HTTP by hand, of 2025-06-18, that does one thing wrong.
type script struct {
	version string                                          // of the protocol; "" = 2025-06-18
	list    string                                          // the result of tools/list; "" = one tool, t
	call    func(w http.ResponseWriter, id json.RawMessage) // instead of an answer
}

// result writes a result.
func writeResult(w http.ResponseWriter, id json.RawMessage, result string) {
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, id, result)
}

// ServeHTTP implements http.Handler.
func (s *script) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	var message struct {
		ID     json.RawMessage
		Method string
	}
	if req.Method != http.MethodPost || json.NewDecoder(req.Body).Decode(&message) != nil {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	switch message.Method {
	case "initialize":
		version := s.version
		if version == "" {
			version = "2025-06-18"
		}
		writeResult(w, message.ID, `{"protocolVersion":"`+version+`","capabilities":{"tools":{}},"serverInfo":{"name":"script","version":"1"}}`)
	case "tools/list":
		list := s.list
		if list == "" {
			list = `{"tools":[{"name":"t","inputSchema":{"type":"object"}}]}`
		}
		writeResult(w, message.ID, list)
	case "tools/call":
		if s.call == nil {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		s.call(w, message.ID)
	case "server/discover":
		w.WriteHeader(http.StatusBadRequest)
	default:
		w.WriteHeader(http.StatusAccepted)
	}
}

// web serves a handler and returns its URL.
func web(t *testing.T, handler http.Handler) string {
	server := httptest.NewServer(handler)
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return server.URL
}

// TestServersThatCannotBeUsed: each says in one line why, and that line has no address in it.
func TestServersThatCannotBeUsed(t *testing.T) {
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	down := free.Addr().String()
	free.Close()
	status := func(code int) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) })
	}
	says := func(kind, text string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			_, _ = io.WriteString(w, text)
		})
	}
	secure := httptest.NewTLSServer(status(200))
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	t.Cleanup(secure.Close)
	elsewhere := web(t, status(200))
	for _, c := range []struct{ name, address, want string }{
		{"down", down, "it cannot be reached: connection refused"},
		{"no name", "nowhere.invalid:80", "its host name is not known"},
		{"nothing there", web(t, status(404)), "HTTP 404 Not Found: no MCP server is at this address"},
		{"credentials", web(t, status(401)), "HTTP 401 Unauthorized: it wants other credentials"},
		{"broken", web(t, status(500)), "HTTP 500 Internal Server Error"},
		{"a web page", web(t, says("text/html", "<p>Hello")), "what it sent is no message of the protocol"},
		{"no JSON", web(t, says("application/json", "{")), "what it sent is no message of the protocol"},
		{"of nothing", web(t, says("application/json", "null")), "what it sent is no message of the protocol"},
		{"events of nothing", web(t, says("text/event-stream", "data: x\n\n")), "what it sent is no message of the protocol"},
		{"certificate", secure.URL, "its certificate is not from an authority that is trusted here"},
		{"no TLS", "https" + strings.TrimPrefix(elsewhere, "http"), "it does not speak TLS"},
		{"redirect", web(t, http.RedirectHandler(elsewhere, http.StatusTemporaryRedirect)), "it refers to another host"},
		{"another version", web(t, &script{version: "1999-01-01"}), "it speaks a version of the protocol that is not known here"},
		{"no tools", web(t, &script{list: `{"tools":[]}`}), "it lists no tools"},
		{"tools of no kind", web(t, &script{list: `{"tools":7}`}), "what it sent is no message of the protocol"},
		{"tools without end", web(t, &script{list: `{"tools":[],"nextCursor":"x"}`}), "its list of tools has no end"},
		{"tools that collide", web(t, &script{list: `{"tools":[{"name":"a.b","inputSchema":{"type":"object"}},{"name":"a-b","inputSchema":{"type":"object"}}]}`}),
			`its tools "a.b" and "a-b" have the same name for models, "a_b"`},
		{"a long name", web(t, &script{list: `{"tools":[{"name":"` + strings.Repeat("x", 2000) + `","inputSchema":{"type":"object"}}]}`}),
			`the name of its tool "` + strings.Repeat("x", 40) + `"… has more than 1024 bytes`},
		{"too many tools", web(t, &script{list: `{"tools":[{"name":"a","description":"` + strings.Repeat("x", 1<<20) + `","inputSchema":{"type":"object"}}]}`}),
			"it lists more than 1Mi of tools: the limit is tool-bytes"},
		{"far too many tools", web(t, &script{list: `{"tools":[{"name":"a","description":"` + strings.Repeat("x", 9<<20) + `","inputSchema":{"type":"object"}}]}`}),
			"it sent more than 1Mi at once"},
		{"no command", "stdio:/nonexistent/program", "its command cannot be started: fork/exec /nonexistent/program: no such file or directory"},
		{"a dead command", "stdio:" + os.Args[0] + " " + asServer + " dies", "the connection broke"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := start(t, Options{Address: c.address, Stdio: true, Header: http.Header{"X-Key": {"secret"}}, Authorization: "secret"})
			var err error
			for range 50 { // of 2 s: machines may be busy
				if _, err = s.Namespace(t.Context()); err != nil && !strings.Contains(err.Error(), "within") {
					break
				}
			}
			if err == nil || err.Error() != c.want {
				t.Errorf("%v, want %s", err, c.want)
			}
			if c.name == "a dead command" { // what it said comes by another way than its end
				eventually(t, "its last words", func() bool { return strings.HasSuffix(s.Status().Problem, ": the key file is missing") })
			}
			if status := s.Status(); status.Works || !strings.HasPrefix(status.Problem, c.want) {
				t.Errorf("status %+v", status)
			}
			got := do(t, s, "t", "{}")
			if got.Outcome == tools.Done || got.Failure == nil || strings.Contains(got.Text, "127.0.0.1") || strings.Contains(got.Text, "secret") {
				t.Errorf("a call: %+v", got)
			}
		})
	}
}

// TestSlowList: a request waits for two seconds at most; a later one gets the list.
func TestSlowList(t *testing.T) {
	release := make(chan struct{})
	peer := &script{}
	s := start(t, Options{Address: web(t, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		<-release
		peer.ServeHTTP(w, req)
	}))})
	began := time.Now()
	if _, err := s.Namespace(t.Context()); err == nil || err.Error() != "it did not say within 2s what it offers" {
		t.Errorf("%v", err)
	}
	if took := time.Since(began); took < patience {
		t.Errorf("it waited for %v, want 2 s", took)
	}
	close(release)
	if space := listedBy(t, s); space.Name != "script" {
		t.Errorf("%+v", space)
	}
}

// TestCallsThatGoWrong: the model is told, nothing is read without end, and the next call works.
func TestCallsThatGoWrong(t *testing.T) {
	abort := func(w http.ResponseWriter) {
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
	stream := func(write func(w io.Writer) error) func(http.ResponseWriter, json.RawMessage) {
		return func(w http.ResponseWriter, _ json.RawMessage) {
			w.Header().Set("Content-Type", "text/event-stream")
			for write(w) == nil {
				if http.NewResponseController(w).Flush() != nil {
					return
				}
			}
		}
	}
	var written atomic.Int64
	count := func(n int, err error) error { written.Add(int64(n)); return err }
	block := strings.Repeat("x", 1<<16)
	for _, c := range []struct {
		name    string
		call    func(http.ResponseWriter, json.RawMessage)
		want    string
		outcome tools.Outcome
		failure string
	}{
		{"dies", func(http.ResponseWriter, json.RawMessage) { panic(http.ErrAbortHandler) }, "Error calling tool t: the connection broke", tools.Broken, "http_error"},
		{"dies in the middle", func(w http.ResponseWriter, _ json.RawMessage) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"jsonrpc":`)
			abort(w)
		}, "Error calling tool t: the connection broke", tools.Broken, "http_error"},
		{"ends its stream", func(w http.ResponseWriter, _ json.RawMessage) {
			w.Header().Set("Content-Type", "text/event-stream")
		}, "Error calling tool t: the connection broke", tools.Broken, "http_error"},
		{"hangs", func(w http.ResponseWriter, _ json.RawMessage) {
			w.Header().Set("Content-Type", "text/event-stream")
			_ = http.NewResponseController(w).Flush()
			time.Sleep(500 * time.Millisecond)
		}, "Error calling tool t: it said nothing for 300ms", tools.TimedOut, "http_error"},
		{"100 MB", func(w http.ResponseWriter, id json.RawMessage) {
			w.Header().Set("Content-Type", "application/json")
			_, err := fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"`, id)
			for i := 0; i < 1600 && err == nil; i++ {
				err = count(io.WriteString(w, block))
			}
		}, "Error calling tool t: it sent more than 1Mi at once", tools.Broken, "mcp_protocol_error"},
		{"an event without end", stream(func(w io.Writer) error { return count(io.WriteString(w, "data: "+block+"\n")) }),
			"Error calling tool t: it sent more than 1Mi at once", tools.Broken, "mcp_protocol_error"},
		{"events without end", stream(func(w io.Writer) error {
			time.Sleep(time.Millisecond)
			return count(io.WriteString(w, "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/x\"}\n\n"))
		}), "Error calling tool t: it said nothing for 300ms", tools.TimedOut, "http_error"},
		{"malformed JSON", func(w http.ResponseWriter, _ json.RawMessage) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":1,"result":{]}`)
		}, "Error calling tool t: what it sent is no message of the protocol", tools.Broken, "mcp_protocol_error"},
		{"no result", func(w http.ResponseWriter, id json.RawMessage) { writeResult(w, id, `[1]`) },
			"Error calling tool t: its result is no message of the protocol", tools.Broken, "mcp_protocol_error"},
		{"HTTP 500", func(w http.ResponseWriter, _ json.RawMessage) { w.WriteHeader(500) },
			"Error calling tool t: HTTP 500 Internal Server Error", tools.Broken, "http_error"},
		{"HTTP 429", func(w http.ResponseWriter, _ json.RawMessage) { w.WriteHeader(429) },
			"Error calling tool t: HTTP 429 Too Many Requests", tools.Broken, "http_error"},
		{"an error", func(w http.ResponseWriter, id json.RawMessage) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32603,"message":"out of\n paper"}}`, id)
		}, "Error calling tool t: out of paper", tools.Failed, "mcp_protocol_error"},
		{"an error with a status", func(w http.ResponseWriter, id json.RawMessage) {
			w.WriteHeader(400)
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32602,"message":"no such tool"}}`, id)
		}, "Error calling tool t: no such tool", tools.Misused, "mcp_protocol_error"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var bad atomic.Bool
			bad.Store(true)
			limit := within(time.Minute)
			if c.outcome == tools.TimedOut {
				limit = within(300 * time.Millisecond)
			}
			s := start(t, Options{Limits: limit, Address: web(t, &script{call: func(w http.ResponseWriter, id json.RawMessage) {
				if bad.Load() {
					c.call(w, id)
					return
				}
				writeResult(w, id, `{"content":[{"type":"text","text":"well"}]}`)
			}})})
			listedBy(t, s)
			session := s.Open(tools.Chain{ID: "c"})
			defer session.Close()
			written.Store(0)
			got := session.Call(t.Context(), tools.Call{Tool: "t"})
			if got.Text != c.want || got.Outcome != c.outcome || got.Failure == nil || got.Failure.Type != c.failure {
				t.Errorf("%q %v %+v, want %q %v", got.Text, got.Outcome, got.Failure, c.want, c.outcome)
			}
			if n := written.Load(); n > 32<<20 {
				t.Errorf("%d MB were taken", n>>20)
			}
			bad.Store(false)
			eventually(t, "the next call works", func() bool { return session.Call(t.Context(), tools.Call{Tool: "t"}).Text == "well" })
		})
	}
}

// TestStreamGoesOn: a stream that ends before the answer is asked for what comes behind its last event.
func TestStreamGoesOn(t *testing.T) {
	var id atomic.Value
	peer := &script{call: func(w http.ResponseWriter, asked json.RawMessage) {
		id.Store(asked)
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "id: 7\nretry: 10\ndata:\n\n")
	}}
	s := start(t, Options{Address: web(t, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.Method == http.MethodGet && req.Header.Get("Last-Event-Id") == "7" && req.Header.Get("Mcp-Protocol-Version") == "2025-06-18" {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprintf(w, "id: 8\ndata: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"well\"}]}}\n\n", id.Load())
			return
		}
		peer.ServeHTTP(w, req)
	}))})
	listedBy(t, s)
	if got := do(t, s, "t", "{}"); got.Text != "well" {
		t.Errorf("%+v", got)
	}
}

// TestBadProcesses: what a process may do wrong ends with the call or the attempt.
func TestBadProcesses(t *testing.T) {
	for _, c := range []struct{ what, want string }{
		{"floods", "it sent more than 1Mi at once"},
		{"deaf", "within 2s"},
	} {
		t.Run(c.what, func(t *testing.T) {
			t.Parallel()
			s := start(t, Options{Stdio: true, Address: "stdio:" + os.Args[0] + " " + asServer + " " + c.what})
			eventually(t, c.want, func() bool {
				_, err := s.Namespace(t.Context())
				return err != nil && strings.Contains(err.Error(), c.want)
			})
		})
	}
}

// TestEndpointElsewhere: the address for messages of HTTP+SSE stays on the host of the server, since
// credentials are sent there.
func TestEndpointElsewhere(t *testing.T) {
	var asked atomic.Int32
	other := web(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	s := start(t, Options{Authorization: "secret", Address: web(t, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.Method != http.MethodGet {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "event: endpoint\ndata: %s/messages\n\n", other)
		_ = http.NewResponseController(w).Flush()
		<-req.Context().Done()
	}))})
	eventually(t, "an error", func() bool {
		_, err := s.Namespace(t.Context())
		return err != nil && err.Error() == errElsewhere.Error()
	})
	if asked.Load() > 0 {
		t.Error("another host was asked")
	}
}

func TestFaultsAreErrors(t *testing.T) {
	if !refused(fmt.Errorf("x: %w", refusalOf(404))) || refused(refusalOf(401)) || refused(errors.New("404")) {
		t.Error("refused: 404 is, 401 and others are not")
	}
}
