// Package registry knows which servers of tools there are, and what of them a request gets. Its
// users hand it settings and requests' wishes; they need not know what a browser reads, where
// Python runs, how servers of MCP are reached, nor what any of them lacks.
//
// Servers come from three places: the program itself (demo), the operator (addresses), and requests
// that bring an address of their own, where the operator allows its host (visitor).
package registry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"ossian/internal/api"
	"ossian/internal/limits"
	"ossian/internal/tools"
	"ossian/internal/tools/mcp"
	"ossian/internal/tools/outbound"
)

// A Config says which servers there are.
type Config struct {
	Servers []string // demo, and addresses of servers of MCP (mcp.ParseSpec), behind "NAME=" or not
	Allow   []string // HOST[:PORT] of servers that requests may bring
	Default []string // types of tools of requests that say nothing of tools
	Demo    Demo
	Version string // of the program
	Limits  func() *limits.Set
	Log     *slog.Logger
}

// A Registry is the tools that a server runs (api.Toolbox). Its methods may be called by any
// goroutine.
type Registry struct {
	cfg     Config
	entries []*entry     // in the order in which they were named
	client  *http.Client // of visitors

	life    context.Context // until Close
	end     context.CancelFunc
	working sync.WaitGroup
}

var _ api.Toolbox = (*Registry)(nil)

// An entry is one server. What stands below ready is written until that is closed, and not read
// before (made says so); then it does not change any more.
type entry struct {
	name    string // by which requests ask for it; "" = as it calls itself
	kind    tools.Kind
	address string // of MCP

	ready   chan struct{}
	server  tools.Server // nil = there is none
	problem string       // why
}

// demo is the name of the servers that the program has itself.
const demo = "demo"

// patience is how long a start waits for the names of servers, and a request for what one offers.
const patience = 2 * time.Second

// New begins to use the servers. Those that cannot be used are no error: Status says why. An error
// is one of the settings: an address that is none, a name that two have.
func New(cfg Config) (*Registry, error) {
	registry := &Registry{cfg: cfg, client: outbound.Client(outbound.Options{Version: cfg.Version, Allow: cfg.Allow, Time: -1, Bytes: -1, Redirects: -1})}
	registry.life, registry.end = context.WithCancel(context.Background())
	if err := checkAllow(cfg.Allow); err != nil {
		return nil, err
	}
	if err := checkServers(cfg.Servers); err != nil { // before anything is started
		return nil, fmt.Errorf("--tool-server %w", err)
	}
	for _, spec := range cfg.Servers {
		if err := registry.add(spec); err != nil {
			registry.Close()
			return nil, fmt.Errorf("--tool-server %w", err)
		}
	}
	if err := registry.names(); err != nil {
		registry.Close()
		return nil, err
	}
	return registry, nil
}

// checkServers refuses what is no address, and names that are given twice.
func checkServers(specs []string) error {
	names := map[string]bool{}
	for _, spec := range specs {
		// demo stands for two servers, which have names of their own.
		given := []string{"browser", "python"}
		if spec != demo {
			name, address := split(spec)
			switch _, err := mcp.ParseSpec(address); {
			case spec != "" && spec[0] == '=':
				return fmt.Errorf("%s: a name is missing before =", withoutAddress(spec))
			case strings.EqualFold(address, demo):
				return fmt.Errorf("%s: the program's own tools are %s, in small letters and without a name", spec, demo)
			case err != nil:
				return errors.New(strings.TrimPrefix(err.Error(), "tool server "))
			}
			given = []string{name}
		}
		for _, name := range given {
			if names[name] && name != "" {
				return fmt.Errorf("%s: the name %q is named twice", withoutAddress(spec), name)
			}
			names[name] = true
		}
	}
	return nil
}

// withoutAddress is an item of --tool-server without what may be a secret.
func withoutAddress(spec string) string {
	if strings.HasPrefix(spec, "=") {
		return "=…"
	}
	if name, _ := split(spec); name != "" {
		return name + "=…"
	}
	return spec
}

// add begins to use what an item of --tool-server names.
func (r *Registry) add(spec string) error {
	if spec == demo {
		r.begin(&entry{name: "browser", kind: tools.Browser}, func() (tools.Server, error) { return r.cfg.Demo.browser(r.cfg.Version) })
		r.begin(&entry{name: "python", kind: tools.Python}, func() (tools.Server, error) { return r.cfg.Demo.python(&r.cfg) })
		return nil
	}
	name, address := split(spec)
	server, err := mcp.New(mcp.Options{Name: name, Address: address, Stdio: true, Limits: r.cfg.Limits})
	if err != nil {
		return err
	}
	known := &entry{name: name, kind: tools.MCP, address: address, server: server, ready: make(chan struct{})}
	close(known.ready)
	r.entries = append(r.entries, known)
	return nil
}

// split separates the name that an operator gave a server from its address.
func split(spec string) (name, address string) {
	name, address, named := strings.Cut(spec, "=")
	if !named || name == "" || strings.ContainsAny(name, ":/?[]@ ") {
		return "", spec
	}
	return name, address
}

// begin makes a server in the background: to try one may take a while.
func (r *Registry) begin(own *entry, open func() (tools.Server, error)) {
	own.ready = make(chan struct{})
	r.entries = append(r.entries, own)
	r.working.Go(func() {
		defer close(own.ready)
		server, err := open()
		if err != nil {
			own.problem = strings.ReplaceAll(err.Error(), "\n", "; ")
			return
		}
		own.server = server
	})
}

// names finds out what servers call themselves, as far as that is soon known, and refuses names
// that two have.
func (r *Registry) names() error {
	ctx, cancel := context.WithTimeout(r.life, patience)
	defer cancel()
	var asking sync.WaitGroup
	for _, e := range r.entries {
		if e.name == "" {
			asking.Go(func() { _, _ = e.server.Namespace(ctx) }) // Status says what is wrong
		}
	}
	asking.Wait()
	for i, e := range r.entries {
		if other := r.before(i); other != nil {
			return fmt.Errorf("--tool-server %s: its name %q is that of %s: give it another, as in NAME=%s", e.shown(), e.called(), other.shown(), e.shown())
		}
	}
	return nil
}

// before returns an entry before the i-th that has its name, nil = none has.
func (r *Registry) before(i int) *entry {
	name := r.entries[i].called()
	for _, other := range r.entries[:i] {
		if name != "" && other.called() == name {
			return other
		}
	}
	return nil
}

// called is the name by which requests ask for the server; "" = it is not known yet.
func (e *entry) called() string {
	if e.name != "" {
		return e.name
	}
	return e.server.Name()
}

// shown is the server as operators know it, without secrets.
func (e *entry) shown() string {
	if e.address == "" {
		return demo
	}
	return e.server.Status().Address
}

// pending is what is said of a server while it is being made.
const pending = "it is still being tried"

// made waits until the server has been made or has failed, and reports whether it has. Until then
// whoever makes it may write what is behind ready.
func (e *entry) made(ctx context.Context) bool {
	select { // what is ready is so whatever ctx says
	case <-e.ready:
		return true
	default:
	}
	select {
	case <-e.ready:
		return true
	case <-ctx.Done():
		return false
	}
}

// wait returns the server, or why there is none. It does not wait for long.
func (e *entry) wait(ctx context.Context) (tools.Server, error) {
	limit, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if !e.made(limit) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		return nil, errors.New(pending + "; ask again in a moment")
	}
	if e.server == nil {
		return nil, errors.New(e.problem)
	}
	return e.server, nil
}

// Status says how the servers are, in the order in which they were named.
func (r *Registry) Status() (all []tools.Status) {
	for i, e := range r.entries {
		status := e.status()
		if other := r.before(i); other != nil {
			status.Works = false
			status.Problem = fmt.Sprintf("its name is that of %s: give it another, as in --tool-server NAME=%s", other.shown(), e.shown())
		}
		all = append(all, status)
	}
	return all
}

func (e *entry) status() tools.Status {
	kind := [...]string{tools.MCP: "mcp", tools.Browser: "browser", tools.Python: "python"}[e.kind]
	select {
	case <-e.ready:
	default:
		return tools.Status{Name: e.name, Kind: kind, Problem: pending}
	}
	if e.server == nil {
		return tools.Status{Name: e.name, Kind: kind, Problem: e.problem}
	}
	return e.server.Status()
}

// Tried returns the status of each server once it is known, those that are being tried among them.
func (r *Registry) Tried(ctx context.Context) []tools.Status {
	for _, e := range r.entries {
		if e.made(ctx) && e.server != nil {
			_, _ = e.server.Namespace(ctx) // what is wrong is in its status
		}
	}
	return r.Status()
}

// KillAll ends every process that servers of MCP are, for a program that ends at once.
func KillAll() { mcp.KillAll() }

// Close ends the servers: connections are closed and processes ended when it returns. One that
// is still being tried is not waited for: its processes end with this one.
func (r *Registry) Close() {
	r.end()
	tried := make(chan struct{})
	go func() {
		r.working.Wait()
		close(tried)
	}()
	select {
	case <-tried:
	case <-time.After(patience):
	}
	var closing sync.WaitGroup
	for _, e := range r.entries {
		if _, err := e.wait(r.life); err != nil {
			continue
		}
		switch closer := e.server.(type) {
		case interface{ Close() }:
			closing.Go(closer.Close)
		case interface{ Close() error }:
			closing.Go(func() { _ = closer.Close() }) // nothing can be done about it any more
		}
	}
	closing.Wait()
	r.client.CloseIdleConnections()
}
