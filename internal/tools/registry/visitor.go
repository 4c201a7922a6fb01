package registry

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"ossian/internal/tools"
	"ossian/internal/tools/mcp"
	"ossian/internal/wire"
)

// visit returns the server that a request brings, where the operator allows its host.
func (r *Registry) visit(asked *wire.ServerTool) (*wish, error) {
	if !allowed(r.cfg.Allow, asked.URL) {
		return nil, &wire.Error{Message: "this server connects to no such host for a request; its --mcp-allow HOST[:PORT] lets it", Type: wire.TypeInvalidRequest,
			Param: asked.Path + ".server_url", Code: wire.CodeHostNotAllowed}
	}
	opts := mcp.Options{Name: asked.Label, Address: asked.URL, Authorization: asked.Authorization, Header: http.Header{}, Client: r.client, Limits: r.cfg.Limits}
	for name, value := range asked.Headers {
		opts.Header.Set(name, value)
	}
	return &wish{asked: asked, server: &visitor{opts: opts}, kind: tools.MCP}, nil
}

// checkAllow refuses what is no HOST[:PORT].
func checkAllow(hosts []string) error {
	for _, host := range hosts {
		name, behind := host, ""
		if inside, after, closed := strings.Cut(strings.TrimPrefix(host, "["), "]"); closed && host[0] == '[' { // of IPv6
			name, behind = inside, after
		} else if before, after, ported := strings.Cut(host, ":"); ported && !strings.Contains(after, ":") {
			name, behind = before, ":"+after
		}
		_, err := strconv.ParseUint(strings.TrimPrefix(behind, ":"), 10, 16)
		if (behind != "" && (err != nil || behind[0] != ':')) || strings.Trim(name, ".") == "" || strings.ContainsAny(name+behind, "[]/@*? ") {
			return fmt.Errorf("--mcp-allow %.200q: HOST or HOST:PORT expected", host)
		}
	}
	return nil
}

// allowed reports whether a list of HOST[:PORT] has that of a URL.
func allowed(hosts []string, text string) bool {
	at, err := url.Parse(text)
	if err != nil || strings.Trim(at.Hostname(), ".") == "" {
		return false
	}
	whole := hostPort(at) // without brackets
	name := whole[:strings.LastIndexByte(whole, ':')]
	for _, host := range hosts {
		host = strings.ToLower(strings.TrimSuffix(strings.NewReplacer("[", "", "]", "").Replace(host), "."))
		if host == name || host == whole {
			return true
		}
	}
	return false
}

// lingers is how long a connection to a visitor is kept that nothing uses: between what it
// lists and its first call.
const lingers = 10 * time.Second

// A visitor is a server that a request brings. It is connected to when something is wanted of it,
// and no more soon after: nothing of it, and none of the request's secrets, outlives the answers.
type visitor struct {
	opts mcp.Options

	mu     sync.Mutex  // guards what follows
	server *mcp.Server // nil = there is no connection
	listed []tools.Tool
	users  int
	idle   *time.Timer
}

// acquire returns the connected server, for one user.
func (v *visitor) acquire() (*mcp.Server, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.server == nil {
		server, err := mcp.New(v.opts)
		if err != nil {
			return nil, err
		}
		v.server = server
	}
	if v.idle != nil {
		v.idle.Stop()
		v.idle = nil
	}
	v.users++
	return v.server, nil
}

// release ends a use. Behind the last the connection is closed, unless another begins soon.
func (v *visitor) release() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.users--; v.users == 0 {
		v.idle = time.AfterFunc(lingers, v.leave)
	}
}

func (v *visitor) leave() {
	v.mu.Lock()
	server := v.server
	if v.users > 0 {
		server = nil
	} else {
		v.server = nil
	}
	v.mu.Unlock()
	if server != nil {
		server.Close()
	}
}

// Name implements tools.Server: the label that the request has for it.
func (v *visitor) Name() string { return v.opts.Name }

// Namespace implements tools.Server.
func (v *visitor) Namespace(ctx context.Context) (tools.Namespace, error) {
	server, err := v.acquire()
	if err != nil {
		return tools.Namespace{}, err
	}
	defer v.release()
	space, err := server.Namespace(ctx)
	v.mu.Lock()
	defer v.mu.Unlock()
	v.listed = server.Listed()
	return space, err
}

// Listed returns every tool that the server listed, whether models may see it or not.
func (v *visitor) Listed() []tools.Tool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.listed
}

// Status implements tools.Server. It has no name for metrics: the request made that up.
func (v *visitor) Status() tools.Status { return tools.Status{Kind: "mcp"} }

// Open implements tools.Server.
func (v *visitor) Open(chain tools.Chain) tools.Session { return &visit{of: v, chain: chain} }

// A visit is a session with a visitor.
type visit struct {
	of    *visitor
	chain tools.Chain

	mu      sync.Mutex    // guards session
	session tools.Session // nil = nothing was called yet
}

// Parallel implements tools.Parallel.
func (s *visit) Parallel() {}

// Call implements tools.Session.
func (s *visit) Call(ctx context.Context, call tools.Call) tools.Result {
	session, err := s.opened()
	if err != nil {
		return tools.Result{Outcome: tools.Broken, Text: fmt.Sprintf("Error calling tool %.100s: %v", call.Tool, err)}
	}
	return session.Call(ctx, call)
}

// opened returns the session with the server, which the first call opens.
func (s *visit) opened() (tools.Session, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.session == nil {
		server, err := s.of.acquire()
		if err != nil {
			return nil, err
		}
		s.session = server.Open(s.chain)
	}
	return s.session, nil
}

// State implements tools.Session.
func (s *visit) State() json.RawMessage {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.session == nil {
		return s.chain.State
	}
	return s.session.State()
}

// Close implements tools.Session.
func (s *visit) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.session != nil {
		s.session.Close()
		s.of.release()
	}
}
