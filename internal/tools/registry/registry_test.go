package registry

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"ossian/internal/api"
	"ossian/internal/limits"
	"ossian/internal/tools"
	"ossian/internal/tools/mcp/mcptest"
	"ossian/internal/wire"
)

// corpus returns a directory of one page.
func corpus(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "bard.html"), []byte("<title>Bards</title><p>Ossian is a bard."), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// notes is a server with one tool that reads and one that writes.
func notes(t testing.TB, name, over string) *mcptest.Peer {
	said := func(arguments string) (string, bool) { return "got " + arguments, false }
	return mcptest.Serve(t, name, over, "", mcptest.Tool{Name: "read", ReadOnly: true, Call: said}, mcptest.Tool{Name: "write", Call: said})
}

func open(t testing.TB, cfg Config) *Registry {
	t.Helper()
	set := limits.Defaults()
	cfg.Limits = func() *limits.Set { return set }
	r, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r
}

// offered says in one line what a request gets.
func offered(got api.Offered) string {
	var all []string
	for _, offer := range got.Offers {
		one := fmt.Sprintf("%s%v", offer.Namespace.Name, [...]string{tools.MCP: "/mcp", tools.Browser: "/browser", tools.Python: "/python"}[offer.Kind])
		for _, tool := range offer.Namespace.Tools {
			one += " " + tool.Name
			if offer.Approve != nil && offer.Approve(tool.Name) {
				one += "?"
			}
		}
		all = append(all, one)
	}
	for _, listed := range got.Listed {
		one := "listed " + listed.Label
		if len(listed.Tools) == 1 && listed.Tools[0].Name == "python" {
			one += " python"
		}
		if listed.Problem != "" {
			one += " problem"
		}
		all = append(all, one)
	}
	if got.Ignored != nil {
		all = append(all, fmt.Sprint("ignored ", got.Ignored))
	}
	return strings.Join(all, "; ")
}

func tool(kind, label string) wire.ServerTool {
	return wire.ServerTool{Type: kind, Label: label, Path: "tools[0]"}
}

func TestOffers(t *testing.T) {
	wiki, web := notes(t, "wiki", "http"), mcptest.Serve(t, "python", "sse", "", mcptest.Tool{Name: "python", Schema: `{"type":"object","properties":{"code":{"type":"string"}},"required":["code"]}`,
		Call: func(string) (string, bool) { return "42", false }})
	r := open(t, Config{Servers: []string{"named=" + wiki.Address, web.Address, "127.0.0.1:1"}})
	away := wire.ServerTool{Type: "mcp", Label: "own", URL: "http://example.com/mcp", Path: "tools[0]"}
	other := wire.ServerTool{Type: "mcp", Label: "named", URL: "http://example.com/mcp", Path: "tools[0]"}
	same := wire.ServerTool{Type: "mcp", Label: "named", URL: "http://" + wiki.Address + "/mcp", Path: "tools[0]"}
	secret := same
	secret.Authorization = "hunter2"
	allowed, readOnly, none, asks := tool("mcp", "named"), tool("mcp", "named"), tool("mcp", "named"), tool("mcp", "named")
	allowed.Allowed, readOnly.ReadOnly, none.Allowed = []string{"write", "gone"}, true, []string{}
	yes := true
	asks.Approval = wire.Approval{Mode: "filter", Always: &wire.Filter{Names: []string{"write"}}, Never: &wire.Filter{ReadOnly: &yes}}
	for _, c := range []struct {
		name   string
		asked  []wire.ServerTool
		strict bool
		want   string // what is offered, or the error's code and place
	}{
		{"nothing", nil, true, ""},
		{"nothing again", []wire.ServerTool{}, true, ""},
		{"by label", []wire.ServerTool{tool("mcp", "named")}, false, "named/mcp read write; listed named"},
		{"allowed", []wire.ServerTool{allowed}, false, "named/mcp write; listed named; ignored [tools[0].allowed_tools]"},
		{"read only", []wire.ServerTool{readOnly}, false, "named/mcp read; listed named"},
		{"none is allowed", []wire.ServerTool{none}, false, "listed named"},
		{"approval", []wire.ServerTool{asks}, false, "named/mcp read write?; listed named"},
		{"its own address", []wire.ServerTool{same}, false, "named/mcp read write; listed named"},
		{"native type of another's server", []wire.ServerTool{tool("code_interpreter", "")}, true, "python/python"},
		{"by the label of recipes", []wire.ServerTool{tool("mcp", "code_interpreter")}, true, "python/mcp; listed code_interpreter python"},
		{"two types of one tool", []wire.ServerTool{tool("code_interpreter", ""), tool("code_interpreter", "")}, true, "python/python"},
		{"no such tool", []wire.ServerTool{tool("web_search", "")}, false, "ignored [tools.web_search]"},
		{"no such tool, strictly", []wire.ServerTool{tool("web_search", "")}, true, "unsupported_tool tools[0].type"},
		{"perhaps the one that is down", []wire.ServerTool{tool("mcp", "missing")}, true, "listed missing problem"},
		{"twice", []wire.ServerTool{tool("mcp", "named"), tool("mcp", "named")}, false, "invalid_value tools[0].server_label"},
		{"in two ways", []wire.ServerTool{tool("code_interpreter", ""), tool("mcp", "python")}, false, "invalid_value tools[0].server_label"},
		{"not allowed", []wire.ServerTool{away}, false, "mcp_host_not_allowed tools[0].server_url"},
		{"a label of another", []wire.ServerTool{other}, false, "invalid_value tools[0].server_url"},
		{"secrets for ours", []wire.ServerTool{secret}, false, "invalid_value tools[0].server_label"},
	} {
		got, err := r.Offers(t.Context(), c.asked, c.strict)
		said := offered(got)
		if told, ok := errors.AsType[*wire.Error](err); ok {
			said = told.Code + " " + told.Param
			if strings.Contains(told.Error(), "hunter2") {
				t.Errorf("%s: %v", c.name, told)
			}
		}
		if said != c.want {
			t.Errorf("%s: %s (%v), want %s", c.name, said, err, c.want)
		}
	}
	offers, err := r.Offers(t.Context(), []wire.ServerTool{tool("mcp", "named")}, true)
	if err != nil {
		t.Fatal(err)
	}
	box := tools.Open(offers.Offers, tools.Chain{ID: "c"})
	if gave := box.Call(t.Context(), "1", "named.read", `{"a":1}`); gave.Text != `got {"a":1}` {
		t.Errorf("%+v", gave)
	}
	box.Close()
}

func TestDemo(t *testing.T) {
	r := open(t, Config{Servers: []string{"demo"}, Default: []string{"web_search", "code_interpreter"}, Demo: Demo{Browser: "corpus", Corpus: corpus(t), Python: "off"}})
	got, err := r.Offers(t.Context(), []wire.ServerTool{tool("web_search", ""), tool("web_search_preview", "")}, true)
	if said := offered(got); err != nil || said != "browser/browser search open find" {
		t.Errorf("%s, %v", said, err)
	}
	// Filters reach the browser; two that differ, or a browser that knows none, are refused.
	filtered, other := tool("web_search", ""), tool("web_search_preview", "")
	filtered.Domains, other.Path = []string{"example.com"}, "tools[1]"
	got, err = r.Offers(t.Context(), []wire.ServerTool{filtered}, true)
	if said := offered(got); err != nil || said != "browser/browser search open find" {
		t.Fatalf("%s, %v", said, err)
	}
	box := tools.Open(got.Offers, tools.Chain{})
	if gave := box.Call(t.Context(), "1", "browser.open", `{"id":"https://corpus.local/a.html"}`); !strings.Contains(gave.Text, "only pages of example.com can be opened here") {
		t.Errorf("a page of another domain: %q", gave.Text)
	}
	box.Close()
	_, err = r.Offers(t.Context(), []wire.ServerTool{filtered, other}, true)
	if told, ok := errors.AsType[*wire.Error](err); !ok || told.Param != "tools[1].filters" {
		t.Errorf("two filters: %v", err)
	}
	elsewhere := mcptest.Serve(t, "browser", "sse", "", mcptest.Tool{Name: "search", Call: func(string) (string, bool) { return "", false }})
	_, err = open(t, Config{Servers: []string{elsewhere.Address}}).Offers(t.Context(), []wire.ServerTool{filtered}, true)
	if told, ok := errors.AsType[*wire.Error](err); !ok || told.Param != "tools[0].filters" || told.Code != wire.CodeUnsupported {
		t.Errorf("filters of a browser elsewhere: %v", err)
	}
	_, err = r.Offers(t.Context(), []wire.ServerTool{tool("code_interpreter", "")}, false)
	if told, ok := errors.AsType[*wire.Error](err); !ok || told.Code != wire.CodeUnsupportedTool || !strings.Contains(told.Message, "switched off") {
		t.Errorf("Python is off: %v", err)
	}
	// Of the tools of requests without any, those that work.
	got, err = r.Offers(t.Context(), nil, true)
	if said := offered(got); err != nil || said != "browser/browser search open find" {
		t.Errorf("by default: %s, %v", said, err)
	}
	trials := r.Try(t.Context())
	if len(trials) != 2 || !trials[0].Works || !strings.HasPrefix(trials[0].Detail, "searched") || trials[1].Works || trials[1].Problem == "" {
		t.Errorf("%+v", trials)
	}
}

// TestBrowserOff: whatever is missing is said, with what would help.
func TestBrowserOff(t *testing.T) {
	for want, demo := range map[string]Demo{
		"YDC_API_KEY":          {Browser: "youcom"},
		"EXA_API_KEY":          {Browser: "exa"},
		"--browser-corpus DIR": {Browser: "corpus"},
		"cannot be read":       {Browser: "corpus", Corpus: filepath.Join(t.TempDir(), "none")},
		"search endpoint":      {Browser: "http", Search: "nowhere"},
	} {
		demo.Python = "off"
		status := open(t, Config{Servers: []string{"demo"}, Demo: demo}).Tried(t.Context())
		if status[0].Works || status[0].Name != "browser" || !strings.Contains(status[0].Problem, want) {
			t.Errorf("%+v: %+v, want %q", demo, status[0], want)
		}
	}
}

// TestBeingTried: whoever does not want to wait for a server that is being made is told so, and looks
// at nothing that is still being written (which the race detector sees).
func TestBeingTried(t *testing.T) {
	r := open(t, Config{})
	begun, goOn := make(chan struct{}), make(chan struct{})
	r.begin(&entry{name: "python", kind: tools.Python}, func() (tools.Server, error) {
		close(begun)
		<-goOn
		return nil, errors.New("there is none")
	})
	<-begun
	hurried, cancel := context.WithCancel(t.Context())
	cancel()
	tried, trials := r.Tried(hurried), r.Try(hurried)
	r.attempted(hurried)
	if _, err := r.entries[0].wait(hurried); !errors.Is(err, context.Canceled) {
		t.Errorf("who waits with a context that has ended gets %v", err)
	}
	var looking sync.WaitGroup
	looking.Go(func() { // beside what is written now
		r.Tried(hurried)
		r.Try(hurried)
		r.attempted(hurried)
	})
	time.Sleep(time.Millisecond) // orders nothing, but lets them look before
	close(goOn)
	looking.Wait()
	if tried[0].Problem != pending || trials[0].Problem != pending {
		t.Errorf("while it is tried: %q and %q, want %q", tried[0].Problem, trials[0].Problem, pending)
	}
	if status := r.Tried(t.Context()); status[0].Problem != "there is none" {
		t.Errorf("once it was tried: %q", status[0].Problem)
	}
}

// TestVisitor: a server that a request brings gets its secrets, nobody else does, and it is asked
// for no longer than it is used.
func TestVisitor(t *testing.T) {
	for _, over := range []string{"http", "sse"} {
		peer, ours := notes(t, "theirs", over), notes(t, "ours", over)
		host, _, _ := strings.Cut(peer.Address, ":")
		r := open(t, Config{Servers: []string{ours.Address}, Allow: []string{host}})
		path := map[string]string{"http": "/mcp", "sse": "/sse"}[over]
		asked := wire.ServerTool{Type: "mcp", Label: "mine", URL: "http://" + peer.Address + path, Headers: map[string]string{"X-Key": "hunter2"}, Authorization: "hunter3", Path: "tools[1]"}
		got, err := r.Offers(t.Context(), []wire.ServerTool{tool("mcp", "ours"), asked}, true)
		if said := offered(got); err != nil || said != "ours/mcp read write; mine/mcp read? write?; listed ours; listed mine" {
			t.Fatalf("%s: %s, %v", over, said, err)
		}
		box := tools.Open(got.Offers, tools.Chain{ID: "c"})
		if gave := box.Call(t.Context(), "1", "mine.read", `{}`); gave.Outcome != tools.Done {
			t.Errorf("%s: %+v", over, gave)
		}
		box.Close()
		if !peer.Saw("X-Key", "hunter2") || !peer.Saw("Authorization", "Bearer hunter3") || ours.Saw("X-Key", "hunter2") {
			t.Errorf("%s: secrets did not go where they belong", over)
		}
		for _, status := range r.Status() {
			if strings.Contains(fmt.Sprint(status), "hunter") || status.Name == "mine" {
				t.Errorf("%+v", status)
			}
		}
		visit := got.Offers[1].Server.(*visitor)
		visit.leave()
		visit.mu.Lock() // its timer may be about to do the same
		kept := visit.server != nil
		visit.mu.Unlock()
		if kept {
			t.Errorf("%s: the connection is kept", over)
		}
	}
}

// TestDown: a server that is down costs a request no more than its patience, and several no more.
func TestDown(t *testing.T) {
	peer := notes(t, "wiki", "http")
	r := open(t, Config{Servers: []string{"wiki=" + peer.Address, "gone=127.0.0.1:1", "away=127.0.0.1:2"}})
	if got, err := r.Offers(t.Context(), []wire.ServerTool{tool("mcp", "wiki")}, true); err != nil || len(got.Offers) != 1 {
		t.Fatalf("%+v, %v", got, err)
	}
	began := time.Now()
	got, err := r.Offers(t.Context(), []wire.ServerTool{tool("mcp", "gone"), tool("mcp", "away"), tool("mcp", "wiki")}, true)
	if said := offered(got); err != nil || said != "wiki/mcp read write; listed gone problem; listed away problem; listed wiki" {
		t.Errorf("%s, %v", said, err)
	}
	t.Logf("took %v", time.Since(began))
	for _, status := range r.Status() {
		if status.Works != (status.Name == "wiki") {
			t.Errorf("%+v", status)
		}
	}
}

// TestNames: what a start refuses.
func TestNames(t *testing.T) {
	one, two := notes(t, "wiki", "http"), notes(t, "wiki", "sse")
	for _, c := range []struct {
		servers []string
		want    string // of the error; "" = there is none
	}{
		{[]string{"demo", "demo"}, "named twice"},
		{[]string{one.Address, two.Address}, two.Address + `: its name "wiki" is that of ` + one.Address},
		{[]string{"wiki=" + two.Address, one.Address}, "give it another"},
		{[]string{one.Address, "other=" + two.Address}, ""},
		{[]string{"demo", "browser=" + one.Address}, "browser=…: the name \"browser\" is named twice"},
		{[]string{"localhost"}, "localhost"},
		{[]string{"ftp://host"}, "ftp"},
		{[]string{"http://me:hunter2@host:99999/"}, ""},
	} {
		r, err := New(Config{Servers: c.servers, Demo: Demo{Browser: "youcom", Python: "off"}})
		if err == nil {
			r.Close()
		} else if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%v", err)
		}
		if c.servers[0][0] != 'h' && ((err == nil) != (c.want == "") || (err != nil && !strings.Contains(err.Error(), c.want))) {
			t.Errorf("%v: %v, want %q", c.servers, err, c.want)
		}
	}
}

func TestAllowed(t *testing.T) {
	list := []string{"Example.com", "other.example:8443", "127.0.0.1:9000", "[::1]:9001", "10.0.0.1"}
	if err := checkAllow(list); err != nil {
		t.Fatal(err)
	}
	for address, want := range map[string]bool{
		"https://example.com/mcp": true, "http://EXAMPLE.com.:81/": true, "https://evil-example.com/": false, "https://example.com.evil/": false, "https://example.com@evil/": false,
		"https://other.example/": false, "https://other.example:8443/x": true, "http://127.0.0.1:9000/": true, "http://127.0.0.1/": false, "http://[::1]:9001/": true, "http://[::1]/": false,
		"http://10.0.0.1:5/": true, "": false, "::": false,
	} {
		if got := allowed(list, address); got != want {
			t.Errorf("%s: %v", address, got)
		}
	}
	for _, bad := range []string{"", "https://x", "x/y", "*", "x:", "a b", "[:[[[[[[[[:1]:80", "[[::1]]", "::1]", "[::1", "[]"} {
		if checkAllow([]string{bad}) == nil {
			t.Errorf("%q is taken for a host", bad)
		}
	}
}

// FuzzSettings: whatever is said of servers and hosts is taken or refused, and a name is one that
// requests can ask for.
func FuzzSettings(f *testing.F) {
	f.Add("wiki=localhost:1", "[::1]:80", "https://[::1]:80/x")
	f.Fuzz(func(t *testing.T, spec, host, address string) {
		name, rest := split(spec)
		if name != "" && name+"="+rest != spec || name == "" && rest != spec {
			t.Errorf("%q is %q and %q", spec, name, rest)
		}
		at, err := url.Parse(address)
		if checkAllow([]string{host}) == nil && allowed([]string{host}, address) && (err != nil || !strings.Contains(strings.ToLower(host), strings.ToLower(strings.Trim(at.Hostname(), ".")))) {
			t.Errorf("%q lets %q", host, address)
		}
	})
}
