package registry

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"

	"ossian/internal/api"
	"ossian/internal/tools"
	"ossian/internal/tools/mcp"
	"ossian/internal/wire"
)

// A wish is a server that a request asks for, and what becomes of that.
type wish struct {
	asked  *wire.ServerTool
	server tools.Server
	kind   tools.Kind
	space  tools.Namespace
	err    error // why it offers nothing now
}

// Offers implements api.Toolbox. Nothing but what is asked for is offered.
func (r *Registry) Offers(ctx context.Context, asked []wire.ServerTool, strict bool) (offered api.Offered, err error) {
	absent := asked == nil
	if absent {
		for _, kind := range r.cfg.Default {
			asked = append(asked, wire.ServerTool{Type: kind})
		}
	}
	var wishes []*wish
	for i := range asked {
		found, err := r.find(ctx, &asked[i])
		switch {
		case absent && (err != nil || found == nil): // nobody has asked for it
		case err != nil:
			return api.Offered{}, err
		case found == nil && strict:
			return api.Offered{}, unserved(&asked[i])
		case found == nil:
			offered.Ignored = append(offered.Ignored, "tools."+asked[i].Type)
		default:
			wishes = append(wishes, found)
		}
	}
	if wishes, err = distinct(wishes); err != nil {
		return api.Offered{}, err
	}
	list(ctx, wishes)
	for i, one := range wishes {
		for _, other := range wishes[:i] {
			if one.err == nil && other.err == nil && one.space.Name == other.space.Name {
				return api.Offered{}, wire.Invalid(one.asked.Path+".server_label", fmt.Sprintf("models would see this server under the name %q, which another tool of the request has: use another label", one.space.Name))
			}
		}
		one.add(&offered, absent)
	}
	return offered, nil
}

// unserved refuses a type of tool that nothing here serves.
func unserved(asked *wire.ServerTool) *wire.Error {
	return wire.Unserved(asked.Type, place(asked))
}

func unsupported(asked *wire.ServerTool, why string) *wire.Error {
	return &wire.Error{Message: why, Type: wire.TypeInvalidRequest, Param: place(asked), Code: wire.CodeUnsupportedTool}
}

// place is where a request says which type of tool it asks for.
func place(asked *wire.ServerTool) string {
	if strings.HasSuffix(asked.Path, "]") {
		return asked.Path + ".type"
	}
	return asked.Path
}

// find returns the server that a tool of a request asks for; nil = there is none of the type.
func (r *Registry) find(ctx context.Context, asked *wire.ServerTool) (*wish, error) {
	// Everything but code and servers with labels is a kind of web search.
	name, kind := "browser", tools.Browser
	switch {
	case asked.Type == "mcp":
		return r.findLabel(ctx, asked)
	case asked.Type == "code_interpreter":
		name, kind = "python", tools.Python
	}
	known := r.named(name)
	if known == nil {
		return nil, nil
	}
	server, err := known.wait(ctx)
	if err != nil {
		return nil, unsupported(asked, fmt.Sprintf("the tool %s is off on this server: %v", name, err))
	}
	if _, ok := server.(within); asked.Domains != nil && !ok {
		return nil, wire.Unsupported(asked.Path+".filters", "the browser here is a server of MCP, which knows no filters: leave them out")
	}
	return &wish{asked: asked, server: server, kind: kind}, nil
}

// A within is a browser that can be kept to pages of some domains.
type within interface {
	Within(domains []string) tools.Server
}

// labels are names that vLLM's recipes have for servers.
var labels = map[string]string{"web_search_preview": "browser", "code_interpreter": "python"}

// findLabel returns the server that a tool of type mcp asks for.
func (r *Registry) findLabel(ctx context.Context, asked *wire.ServerTool) (*wish, error) {
	known := r.labelled(asked.Label)
	if known == nil && r.unnamed() { // what was just started may be it
		r.attempted(ctx)
		known = r.labelled(asked.Label)
	}
	switch {
	case asked.URL != "" && (known == nil || known.address == ""):
		if known != nil {
			return nil, wire.Invalid(asked.Path+".server_url", fmt.Sprintf("the label %q is that of a tool of this server: use another one", asked.Label))
		}
		return r.visit(asked)
	case asked.URL != "" && !sameHost(asked.URL, known.address):
		return nil, wire.Invalid(asked.Path+".server_url", fmt.Sprintf("the label %q is that of a server at another address, which is configured here: use another label, or leave server_url out", asked.Label))
	case asked.URL != "" && (asked.Headers != nil || asked.Authorization != ""):
		return nil, wire.Invalid(asked.Path+".server_label", fmt.Sprintf("the server %q is configured here, and gets no secrets of requests: use another label, or leave headers and authorization out", asked.Label))
	case known != nil:
		server, err := known.wait(ctx)
		if err != nil {
			return nil, unsupported(asked, fmt.Sprintf("the tool %s is off on this server: %v", known.name, err))
		}
		return &wish{asked: asked, server: server, kind: tools.MCP}, nil
	case r.unnamed():
		return &wish{asked: asked, kind: tools.MCP, err: fmt.Errorf("no server %q is known%s; one that is configured was not reached yet and may be it", asked.Label, r.known())}, nil
	}
	return nil, wire.Invalid(asked.Path+".server_label", fmt.Sprintf("no server is named %q%s", asked.Label, r.known()))
}

// labelled returns the entry that a label means, nil = none.
func (r *Registry) labelled(label string) *entry {
	known := r.named(label)
	if known == nil && labels[label] != "" {
		known = r.named(labels[label])
	}
	return known
}

// attempted waits for the first attempt to reach each server whose name is not known yet, no
// longer than a request waits.
func (r *Registry) attempted(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for _, e := range r.entries {
		if e.called() != "" { // not even read is a server that may still be being made
			continue
		}
		if server, ok := e.server.(*mcp.Server); ok {
			server.Attempted(ctx)
		}
	}
}

// known lists the names that there are, for errors.
func (r *Registry) known() string {
	var names []string
	for _, e := range r.entries {
		if name := e.called(); name != "" {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return ": there is none here; server_url names one of your own, where --mcp-allow has its host"
	}
	slices.Sort(names)
	return ": there are " + strings.Join(slices.Compact(names), ", ")
}

// named returns the first entry of a name, nil = none has it.
func (r *Registry) named(name string) *entry {
	for _, e := range r.entries {
		if e.called() == name {
			return e
		}
	}
	return nil
}

// unnamed reports whether there is a server whose name is not known yet.
func (r *Registry) unnamed() bool {
	return slices.ContainsFunc(r.entries, func(e *entry) bool { return e.called() == "" })
}

// sameHost reports whether a URL and an address of --tool-server are on one host and port.
func sameHost(text, address string) bool {
	if !strings.Contains(address, "://") {
		address = "http://" + address
	}
	one, err := url.Parse(text)
	other, otherErr := url.Parse(address)
	return err == nil && otherErr == nil && hostPort(one) == hostPort(other)
}

// hostPort is the host and port of a URL, lower-case.
func hostPort(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return strings.ToLower(strings.TrimSuffix(u.Hostname(), ".")) + ":" + port
}

// distinct leaves one wish for each server. Two types that mean one tool are no mistake.
func distinct(wishes []*wish) (kept []*wish, err error) {
	for _, one := range wishes {
		at := slices.IndexFunc(kept, func(other *wish) bool {
			return (one.server != nil && other.server == one.server) || (one.asked.Label != "" && one.asked.Label == other.asked.Label)
		})
		switch {
		case at < 0:
			kept = append(kept, one)
		case one.asked.Type == "mcp" || kept[at].asked.Type == "mcp":
			return nil, wire.Invalid(one.asked.Path+".server_label", fmt.Sprintf("%s asks for the same server", kept[at].asked.Path))
		case !slices.Equal(one.asked.Domains, kept[at].asked.Domains):
			return nil, wire.Invalid(one.asked.Path+".filters", fmt.Sprintf("%s asks for the same browser with other filters", kept[at].asked.Path))
		}
	}
	return kept, nil
}

// list finds out what the servers offer, of all at once: one that does not answer costs a request
// its patience, several cost no more.
func list(ctx context.Context, wishes []*wish) {
	var listing sync.WaitGroup
	for _, one := range wishes {
		if one.server != nil {
			listing.Go(func() { one.space, one.err = one.server.Namespace(ctx) })
		}
	}
	listing.Wait()
}

// add adds to what a request is offered what came of a wish.
func (w *wish) add(offered *api.Offered, absent bool) {
	label := w.asked.Label
	if w.kind != tools.MCP && w.err != nil { // a server of MCP that stands for the native tool
		label = w.asked.Type
	}
	if w.err != nil {
		if !absent {
			offered.Listed = append(offered.Listed, api.Listed{Label: label, Problem: w.err.Error()})
		}
		return
	}
	if w.asked.Allowed != nil && !w.hasAll(w.asked.Allowed) {
		offered.Ignored = append(offered.Ignored, w.asked.Path+".allowed_tools")
	}
	space := w.space
	space.Tools = w.allowed(w.space.Tools)
	if w.kind == tools.MCP {
		offered.Listed = append(offered.Listed, api.Listed{Label: label, Tools: w.listed(space.Tools)})
	}
	bare := len(w.space.Tools) == 0 // the namespace itself is called
	if len(space.Tools) == 0 && !(bare && w.asked.Allows(space.Name, false)) {
		return
	}
	server := w.server
	if w.asked.Domains != nil {
		server = server.(within).Within(w.asked.Domains)
	}
	offered.Offers = append(offered.Offers, tools.Offer{Server: server, Namespace: space, Kind: w.kind, Label: label, Approve: w.approve(space)})
}

// allowed returns those of tools that the request lets be called.
func (w *wish) allowed(all []tools.Tool) (kept []tools.Tool) {
	for _, tool := range all {
		if w.asked.Allows(tool.Name, tool.ReadOnly) {
			kept = append(kept, tool)
		}
	}
	return kept
}

// hasAll reports whether the server has every tool of some names.
func (w *wish) hasAll(names []string) bool {
	all := w.space.Tools
	if server, ok := w.server.(interface{ Listed() []tools.Tool }); ok {
		all = append(slices.Clone(all), server.Listed()...)
	}
	for _, name := range names {
		if name != w.space.Name && !slices.ContainsFunc(all, func(tool tools.Tool) bool { return tool.Name == name }) {
			return false
		}
	}
	return true
}

// listed returns what clients are told of a server that lists more than models see: one that is
// called python has a tool for its code.
func (w *wish) listed(shown []tools.Tool) []tools.Tool {
	if server, ok := w.server.(interface{ Listed() []tools.Tool }); ok {
		return w.allowed(server.Listed())
	}
	return shown
}

// approve says which calls of a server the client has to agree to; nil = none. Where a request
// does not say, these are all calls of servers that it brings, and none of those that are
// configured here.
func (w *wish) approve(space tools.Namespace) func(string) bool {
	needed := map[string]bool{}
	_, brought := w.server.(*visitor)
	if len(space.Tools) == 0 && w.asked.Approval.Needs(space.Name, false, brought) {
		needed[""] = true
	}
	for _, tool := range space.Tools {
		if w.asked.Approval.Needs(tool.Name, tool.ReadOnly, brought) {
			needed[tool.Name] = true
		}
	}
	if len(needed) == 0 {
		return nil
	}
	return func(tool string) bool { return needed[tool] }
}
