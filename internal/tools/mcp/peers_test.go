package mcp

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"ossian/internal/limits"
	"ossian/internal/tools"
)

// asServer is the variable by which the test program becomes a server on its standard input.
const asServer = "MCP_TEST_SERVER"

func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == asServer {
		os.Exit(serveStdio(os.Args[2:]))
	}
	before := runtime.NumGoroutine()
	code := m.Run()
	if fuzzing := flag.Lookup("test.fuzz").Value.String() != ""; code == 0 && !fuzzing && leaked(before) {
		code = 1
	}
	os.Exit(code)
}

// leaked waits for goroutines that are about to end, and shows those that are not.
func leaked(before int) bool {
	for range 100 {
		if runtime.NumGoroutine() <= before {
			return false
		}
		time.Sleep(100 * time.Millisecond)
	}
	stacks := make([]byte, 1<<20)
	fmt.Printf("%d goroutines were left\n%s\n", runtime.NumGoroutine()-before, stacks[:runtime.Stack(stacks, true)])
	return true
}

// serveStdio is the test program as a server: of one version, that echoes; or a bad one.
func serveStdio(args []string) int {
	switch args[0] {
	case "speaks":
		p := newPeer(args[1])
		if len(args) > 2 {
			p.hung = args[2]
		}
		_ = p.server.Run(context.Background(), &sdk.StdioTransport{})
		return 0
	case "dies":
		fmt.Fprintln(os.Stderr, "the key file is missing")
		return 3
	case "deaf": // reads nothing, says nothing, and does not end by itself soon
		time.Sleep(10 * time.Minute)
	case "waits": // says who it is
		if os.WriteFile(args[1]+".new", []byte(strconv.Itoa(os.Getpid())), 0o600) == nil && os.Rename(args[1]+".new", args[1]) == nil {
			time.Sleep(5 * time.Minute)
		}
	case "holds": // has such a one
		if _, err := New(Options{Stdio: true, Address: "stdio:" + os.Args[0] + " " + asServer + " waits " + args[1]}); err == nil {
			time.Sleep(5 * time.Minute)
		}
	case "floods":
		fmt.Print(`"`)
		line := strings.Repeat("x", 1<<16)
		for {
			if _, err := fmt.Print(line); err != nil {
				return 0
			}
		}
	}
	return 2
}

// A peer is a server of the official SDK with tools of every sort, and what it has seen.
type peer struct {
	server *sdk.Server
	web    *httptest.Server
	over   chan struct{} // closed at the end of the test
	hung   string        // a file that is made when a call hangs, which may be in another process; "" = none

	mu        sync.Mutex
	headers   []http.Header
	cancelled int
	cleaned   int
	count     map[*sdk.ServerSession]int
}

// newPeer returns a server that speaks one version of the protocol, "" = all.
func newPeer(version string) *peer {
	p := &peer{over: make(chan struct{}), count: map[*sdk.ServerSession]int{}}
	opts := &sdk.ServerOptions{Instructions: "Try things.", PageSize: 3}
	if version != "" {
		opts.SupportedProtocolVersions = []string{version}
	}
	p.server = sdk.NewServer(&sdk.Implementation{Name: "demo things", Version: "1"}, opts)
	p.add("echo", `{"type":"object","properties":{"text":{"anyOf":[{"type":"string"},{"type":"null"}],"default":null,"title":"Text"}}}`,
		func(_ context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			return said(string(req.Params.Arguments)), nil
		})
	p.add("fail", "", func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		result := said("no such city")
		result.IsError = true
		return result, nil
	})
	p.add("mixed", "", func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "one"}, &sdk.ImageContent{Data: make([]byte, 10), MIMEType: "image/png"},
			&sdk.ResourceLink{URI: "file:///a", Name: "a", Title: "A file"}, &sdk.EmbeddedResource{Resource: &sdk.ResourceContents{URI: "x:y", Text: "two"}}}, StructuredContent: map[string]any{"x": 1}}, nil
	})
	p.add("count", "", func(_ context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.count[req.Session]++
		return said(fmt.Sprint(p.count[req.Session])), nil
	})
	p.add("hang", "", func(ctx context.Context, _ *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		if p.hung != "" {
			if err := os.WriteFile(p.hung, nil, 0o600); err != nil {
				return nil, err
			}
		}
		select {
		case <-ctx.Done():
		case <-p.over:
			return said("over"), nil
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		p.cancelled++
		return nil, ctx.Err()
	})
	p.add("slow", "", p.slow)
	p.add("asks", "", p.asks)
	p.add(cleanup, "", func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.cleaned++
		return said("done"), nil
	})
	return p
}

// slow works for ten steps of 30 ms and tells of each.
func (p *peer) slow(ctx context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
	for i := range 10 {
		time.Sleep(30 * time.Millisecond)
		err := req.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{ProgressToken: req.Params.GetProgressToken(), Progress: float64(i)})
		if err != nil {
			return nil, err
		}
	}
	return said("at last"), nil
}

// asks wants something of the client, in the way of old and new versions, and tells what became of it.
func (p *peer) asks(ctx context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
	for _, response := range req.Params.InputResponses {
		answer, _ := json.Marshal(response)
		return said(string(answer)), nil
	}
	question := &sdk.ElicitParams{Message: "Who are you?", RequestedSchema: map[string]any{"type": "object", "properties": map[string]any{}}}
	if version := req.Session.InitializeParams(); version == nil || version.ProtocolVersion >= stateless {
		return &sdk.CallToolResult{InputRequests: sdk.InputRequestMap{"q": question}, RequestState: "s"}, nil
	}
	_, err := req.Session.Elicit(ctx, question)
	//lint:ignore SA1019 old servers ask for them
	_, roots := req.Session.ListRoots(ctx, nil)
	return said(fmt.Sprint(err != nil, " ", roots != nil)), nil
}

func said(text string) *sdk.CallToolResult {
	return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: text}}}
}

func (p *peer) add(name, schema string, handler sdk.ToolHandler) {
	if schema == "" {
		schema = `{"type":"object"}`
	}
	p.server.AddTool(&sdk.Tool{Name: name, Description: "Does " + name + ".", InputSchema: json.RawMessage(schema)}, handler)
}

// serve serves the peer in one of these ways and returns its address.
func (p *peer) serve(t *testing.T, how string) string {
	get := func(req *http.Request) *sdk.Server {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.headers = append(p.headers, req.Header.Clone())
		return p.server
	}
	mux := http.NewServeMux()
	if how == "sse" {
		mux.Handle("/sse", sdk.NewSSEHandler(get, nil))
	} else {
		mux.Handle("/mcp", sdk.NewStreamableHTTPHandler(get, &sdk.StreamableHTTPOptions{PropagateRequestCancellation: true, JSONResponse: strings.HasSuffix(how, "json"), Stateless: strings.HasPrefix(how, "stateless")}))
	}
	p.web = httptest.NewServer(mux)
	t.Cleanup(func() {
		close(p.over)
		for session := range p.server.Sessions() { // such as one that it began for a version that it does not speak
			session.Close()
		}
		p.web.CloseClientConnections()
		p.web.Close()
	})
	return strings.TrimPrefix(p.web.URL, "http://")
}

// saw returns a count of the peer.
func (p *peer) saw(count *int) func() bool {
	return func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return *count > 0
	}
}

// fast is time.After, fifty times as fast.
func fast(d time.Duration) <-chan time.Time { return time.After(d / 50) }

// start returns a client of a server.
func start(t testing.TB, opts Options) *Server {
	t.Helper()
	s, err := newServer(opts, fast)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// listedBy waits until the server has been listed.
func listedBy(t testing.TB, s *Server) tools.Namespace {
	t.Helper()
	var err error
	for range 50 { // of 2 s: machines may be busy
		var space tools.Namespace
		if space, err = s.Namespace(t.Context()); err == nil {
			return space
		}
		if !strings.Contains(err.Error(), "within") {
			break
		}
	}
	t.Fatalf("%s: %v", s.spec, err)
	return tools.Namespace{}
}

// eventually waits until something holds.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for range 1000 {
		if holds() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("%s: it never was", what)
}

// within returns limits with a time for calls.
func within(d time.Duration) func() *limits.Set {
	set := limits.Defaults()
	set[limits.ToolTime] = d.Milliseconds()
	return func() *limits.Set { return set }
}

// do calls a tool in a session of its own.
func do(t testing.TB, s *Server, tool, arguments string) tools.Result {
	t.Helper()
	session := s.Open(tools.Chain{ID: "c"})
	defer session.Close()
	return session.Call(t.Context(), tools.Call{ID: "1", Tool: tool, Arguments: arguments})
}
