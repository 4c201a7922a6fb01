package tools

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// An echo is a server whose calls give what they were called with.
type echo struct{ name string }

func (e echo) Name() string                                 { return e.name }
func (e echo) Namespace(context.Context) (Namespace, error) { return Namespace{Name: e.name}, nil }
func (e echo) Status() Status                               { return Status{Name: e.name, Works: true} }
func (e echo) Open(chain Chain) Session                     { return &echoed{state: string(chain.State)} }

type echoed struct {
	state string
	calls int
}

func (e *echoed) Call(_ context.Context, call Call) Result {
	e.calls++
	return Result{Text: e.state + " " + call.Tool + " " + call.Arguments}
}
func (e *echoed) State() json.RawMessage { return json.RawMessage(`"kept"`) }
func (e *echoed) Close()                 {}

func offers() []Offer {
	return []Offer{
		{Server: echo{"one"}, Namespace: Namespace{Name: "one", Tools: []Tool{{Name: "a"}, {Name: "b.c"}}}},
		{Server: echo{"python"}, Namespace: Namespace{Name: "python"}, Kind: Python},
	}
}

func TestBoxCalls(t *testing.T) {
	for _, c := range []struct {
		recipient, want string
		outcome         Outcome
	}{
		{"one.a", " a {}", Done},
		{"one.b.c", " b.c {}", Done},
		{"python", "  {}", Done},
		{"python.x", "Error: tool python.x is not available. Available tools: one.a, one.b.c, python", Misused},
		{"one", "Error: tool one is not available. Available tools: one.a, one.b.c, python", Misused},
		{"two.a", "Error: tool two.a is not available. Available tools: one.a, one.b.c, python", Misused},
	} {
		box := Open(offers(), Chain{})
		seen := ""
		box.Observe = func(recipient string, outcome Outcome, _ time.Duration) { seen = recipient + " " + outcome.String() }
		got := box.Call(t.Context(), "1", c.recipient, "{}")
		if got.Text != c.want || got.Outcome != c.outcome || seen != c.recipient+" "+c.outcome.String() {
			t.Errorf("%s: %q %v, observed %q; want %q %v", c.recipient, got.Text, got.Outcome, seen, c.want, c.outcome)
		}
		box.Close()
	}
}

// TestBoxState: a box goes on with what the one before it left, and sessions that it did not
// use keep theirs.
func TestBoxState(t *testing.T) {
	box := Open(offers(), Chain{})
	if state := box.State(); state != nil {
		t.Fatalf("%s before any call, want none", state)
	}
	box.Call(t.Context(), "1", "one.a", "{}")
	state := box.State()
	box = Open(offers(), Chain{State: state})
	if again := box.State(); string(again) != string(state) {
		t.Errorf("%s unused, want %s", again, state)
	}
	if got := box.Call(t.Context(), "2", "one.a", "{}"); got.Text != `"kept" a {}` {
		t.Errorf("%q, want the state of before", got.Text)
	}
}

// FuzzBoxState: whatever was stored, a box opens, works, and writes what it can read.
func FuzzBoxState(f *testing.F) {
	f.Add([]byte(`{"one":"x"}`))
	f.Add([]byte(`{"one":null,"two":[1]}`))
	f.Add([]byte(`[`))
	f.Fuzz(func(t *testing.T, state []byte) {
		box := Open(offers(), Chain{State: state})
		box.Call(t.Context(), "1", "one.a", "{}")
		again := box.State()
		if second := Open(offers(), Chain{State: again}).State(); string(second) != string(again) {
			t.Errorf("%s was read back as %s", again, second)
		}
	})
}

func TestPrintable(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"plain ä 漢\n\tx", "plain ä 漢\n\tx"},
		{"\x1b[31mred\x1b[0m", "\ufffd[31mred\ufffd[0m"},
		{"a\r\nb\rc", "a\nb\ufffdc"},
		{"bad \xff\xfe end", "bad \ufffd end"},
		{"nul \x00 \x7f \u009b", "nul \ufffd \ufffd \ufffd"},
	} {
		got := printable(c.in)
		if got != c.want && strings.ReplaceAll(got, "\ufffd\ufffd", "\ufffd") != c.want {
			t.Errorf("%q is shown as %q, want %q", c.in, got, c.want)
		}
		if !utf8.ValidString(got) {
			t.Errorf("%q is no UTF-8", got)
		}
	}
}

// A reader is a server of which calls may run at the same time.
type reader struct{ echo }

func (r reader) Open(Chain) Session { return &readerSession{} }

type readerSession struct{ echoed }

func (*readerSession) Parallel() {}

// TestIndependent: calls of different servers are, and those of MCP that change nothing.
func TestIndependent(t *testing.T) {
	space := Namespace{Name: "mcp", Tools: []Tool{{Name: "look", ReadOnly: true}, {Name: "list", ReadOnly: true}, {Name: "buy"}}}
	browser := space
	browser.Name = "browser"
	plain := space
	plain.Name = "plain"
	box := Open([]Offer{
		{Server: reader{echo{"mcp"}}, Namespace: space}, {Server: echo{"plain"}, Namespace: plain},
		{Server: reader{echo{"browser"}}, Namespace: browser, Kind: Browser}, {Server: reader{echo{"python"}}, Namespace: Namespace{Name: "python"}, Kind: Python},
	}, Chain{})
	defer box.Close()
	for _, c := range []struct {
		one, other string
		want       bool
	}{
		{"mcp.look", "plain.look", true}, {"mcp.buy", "plain.buy", true}, {"browser.look", "python", true},
		{"mcp.look", "mcp.list", true}, {"mcp.look", "mcp.look", true},
		{"mcp.look", "mcp.buy", false}, {"mcp.buy", "mcp.buy", false}, {"plain.look", "plain.list", false},
		{"browser.look", "browser.list", false}, {"python", "python", false}, {"mcp.look", "nobody.look", true}, {"mcp.look", "mcp.none", false},
	} {
		if got, back := box.Independent(c.one, c.other), box.Independent(c.other, c.one); got != c.want || back != c.want {
			t.Errorf("%s and %s: %v, %v; want %v", c.one, c.other, got, back, c.want)
		}
	}
}
