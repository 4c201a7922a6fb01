package browser

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"ossian/internal/tools"
	"ossian/internal/tools/browser/source"
)

var update = flag.Bool("update", false, "write the golden files")

// A site is a backend with the pages and searches of testdata/site.json, which was written for
// these tests. It counts what it is asked.
type site struct {
	Pages map[string]struct {
		Title, HTML, Text string
		Times             int // the HTML so often; 0 = once
	}
	Searches map[string][]source.Hit
	fetches  int
	searches int
	wanted   int
	moved    string // to where pages redirect; "" = nowhere
}

func (s *site) Name() string { return "site" }

func (s *site) Search(ctx context.Context, query string, n int) ([]source.Hit, error) {
	s.searches++
	s.wanted = n
	hits, ok := s.Searches[query]
	if !ok {
		return nil, errors.New("the index is closed")
	}
	return hits, ctx.Err()
}

func (s *site) Fetch(ctx context.Context, url string) (source.Document, error) {
	s.fetches++
	page, ok := s.Pages[url]
	if !ok {
		return source.Document{}, errors.New("404 not found")
	}
	return source.Document{Title: page.Title, HTML: strings.Repeat(page.HTML, max(1, page.Times)), Text: page.Text, URL: s.moved}, ctx.Err()
}

func newSite(t testing.TB) *site {
	t.Helper()
	text, err := os.ReadFile("testdata/site.json")
	if err != nil {
		t.Fatal(err)
	}
	s := &site{}
	if err := json.Unmarshal(text, s); err != nil {
		t.Fatal(err)
	}
	return s
}

// A step is a line of testdata/transcript.jsonl: the begin of a conversation, or a call in it.
type step struct {
	Conversation string
	Tool         string
	Arguments    string
	Differs      string // why the reference answers differently
}

func steps(t testing.TB) (all []step) {
	t.Helper()
	text, err := os.ReadFile("testdata/transcript.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		var s step
		if err := json.Unmarshal([]byte(line), &s); err != nil {
			t.Fatal(err)
		}
		all = append(all, s)
	}
	return all
}

// told is a result as the golden file has it.
func told(r tools.Result) string {
	text := r.Text
	if a := r.Action; a != nil {
		text += fmt.Sprintf("\n== %s, %s query %q pattern %q URL %s", r.Outcome, a.Type, a.Query, a.Pattern, a.URL)
		for _, s := range a.Sources {
			text += fmt.Sprintf("\n== source %s %q", s.URL, s.Title)
		}
	} else {
		text += "\n== " + r.Outcome.String()
	}
	return text + "\n"
}

// TestTranscript: displays are those of the published browser of gpt-oss 0.0.9 (reference.json, by
// _gen/golden.py), but where a line says that they differ; all results are as in
// transcript.golden (-update writes it). Every conversation is stored and restored behind each
// call, as one response behind another.
func TestTranscript(t *testing.T) {
	server := New(newSite(t), Options{})
	var reference []string
	text, err := os.ReadFile("testdata/reference.json")
	if err != nil || json.Unmarshal(text, &reference) != nil {
		t.Fatal(err)
	}
	var own strings.Builder
	var whole step
	var state json.RawMessage
	count := 0
	for _, s := range steps(t) {
		if s.Conversation != "" {
			whole, state = s, nil
			continue
		}
		session := server.Open(tools.Chain{State: state})
		got := session.Call(t.Context(), tools.Call{Tool: s.Tool, Arguments: s.Arguments})
		state = session.State()
		session.Close()
		fmt.Fprintf(&own, ">> %s: %s %.200s\n%s\n", whole.Conversation, s.Tool, s.Arguments, told(got))
		if same := got.Text == reference[count]; whole.Differs == "" && same != (s.Differs == "") {
			t.Errorf("%s: %s %.200s: same as the reference %v, differs %q\n%s\nreference\n%s", whole.Conversation, s.Tool, s.Arguments, same, s.Differs, got.Text, reference[count])
		}
		count++
	}
	if count < 100 || count != len(reference) {
		t.Errorf("%d steps, the reference has %d", count, len(reference))
	}
	if *update {
		if err := os.WriteFile("testdata/transcript.golden", []byte(own.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	golden, err := os.ReadFile("testdata/transcript.golden")
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Split(string(golden), ">> ")
	for i, part := range strings.Split(own.String(), ">> ") {
		if i >= len(want) || part != want[i] {
			t.Fatalf("transcript.golden differs at\n%s", part)
		}
	}
}

// TestNobodySeesOthers: conversations whose calls take turns have cursors and pages of their own.
func TestNobodySeesOthers(t *testing.T) {
	server := New(newSite(t), Options{})
	var alone, between [2]string
	play := func(open [2]tools.Session, results *[2]string, who int, tool, arguments string) {
		got := open[who].Call(t.Context(), tools.Call{Tool: tool, Arguments: arguments})
		results[who] += got.Text + "\n"
	}
	calls := []struct {
		who             int
		tool, arguments string
	}{
		{0, "search", `{"query":"how to start"}`},
		{1, "open", `{"id":0}`},
		{1, "search", `{"query":"nothing"}`},
		{0, "open", `{"id":2}`},
		{1, "open", `{"id":0}`},
		{1, "open", `{"cursor":1}`},
		{0, "find", `{"pattern":"needle"}`},
		{1, "find", `{"pattern":"needle"}`},
		{0, "open", `{"id":1}`},
	}
	sessions := func() [2]tools.Session {
		return [2]tools.Session{server.Open(tools.Chain{Owner: "a", ID: "1"}), server.Open(tools.Chain{Owner: "b", ID: "2"})}
	}
	open := sessions()
	for _, c := range calls {
		play(open, &between, c.who, c.tool, c.arguments)
	}
	for who := range 2 {
		open := sessions()
		for _, c := range calls {
			if c.who == who {
				play(open, &alone, who, c.tool, c.arguments)
			}
		}
	}
	if alone != between {
		t.Errorf("alone %q\nbeside another %q", alone, between)
	}
	if strings.Contains(between[1], "start") || strings.Contains(between[1], "guide") {
		t.Errorf("what one has opened shows in what another sees: %s", between[1])
	}
}

// TestCite: citations lead to the page of the display, to the page that was searched, and to the
// result that the line is of.
func TestCite(t *testing.T) {
	server := New(newSite(t), Options{})
	session := server.Open(tools.Chain{})
	for _, call := range []tools.Call{
		{Tool: "search", Arguments: `{"query":"how to start"}`},
		{Tool: "open", Arguments: `{"id":0}`},
		{Tool: "find", Arguments: `{"pattern":"needle"}`},
		{Tool: "open", Arguments: `{"id":"https://docs.example.com/guide","view_source":true}`},
	} {
		if got := session.Call(t.Context(), call); got.Outcome != tools.Done {
			t.Fatal(got.Text)
		}
	}
	session = server.Open(tools.Chain{State: session.State()})
	const start, help = "https://docs.example.com/start", "https://other.example/help?q=a%20b"
	for _, c := range []struct {
		cursor, line int
		url, title   string
	}{
		{1, 3, start, "Getting started"},
		{1, -1, start, "Getting started"},
		{1, 5000, start, "Getting started"},
		{2, 0, start, "Getting started"},
		{3, 0, "https://docs.example.com/guide", "The long guide"},
		{0, 4, start, "Getting started"},
		{0, 5, start, "Getting started"},
		{0, 7, help, "Help & more"},
		{0, 9, "https://example.org/caf%C3%A9/%20x?y=%0Az", "Coffee"},
		{0, 2, "", ""},
		{0, -1, "", ""},
		{0, 10, "", ""},
		{4, 0, "", ""},
		{-1, 0, "", ""},
	} {
		got, ok := session.(tools.Citer).Cite(c.cursor, c.line)
		if ok != (c.url != "") || got.URL != c.url || got.Title != c.title {
			t.Errorf("%d L%d: %v %v, want %q %q", c.cursor, c.line, got, ok, c.url, c.title)
		}
	}
}

// TestWithin: a browser that is kept to some domains finds, opens, scrolls and searches no others,
// nor those that an earlier response has shown, or that a page of theirs leads to.
func TestWithin(t *testing.T) {
	all := newSite(t)
	free := New(all, Options{})
	before := free.Open(tools.Chain{})
	for _, call := range []tools.Call{{Tool: "search", Arguments: `{"query":"how to start"}`}, {Tool: "open", Arguments: `{"id":"https://other.example/help?q=a%20b"}`}} {
		if got := before.Call(t.Context(), call); got.Outcome != tools.Done {
			t.Fatal(got.Text)
		}
	}
	kept := free.(interface{ Within([]string) tools.Server }).Within([]string{"example.com", "other.org"})
	session := kept.Open(tools.Chain{State: before.State()})
	const refused = "only pages of example.com, other.org can be opened here"
	for _, c := range []struct {
		tool, arguments, want string
		sources               int
	}{
		{"search", `{"query":"how to start"}`, "docs.example.com", 2},
		{"open", `{"id":0}`, "https://docs.example.com/start", 0},
		{"open", `{"id":"https://docs.example.com/guide"}`, "The long guide", 0},
		{"open", `{"id":"https://other.example/help?q=a%20b"}`, refused, 0},
		{"open", `{"id":"view-source:https://other.example/help?q=a%20b"}`, refused, 0},
		{"open", `{"id":"https://notexample.com/"}`, refused, 0},
		{"open", `{"id":"https://example.com.evil.example/"}`, refused, 0},
		{"open", `{"cursor":1,"loc":0}`, refused, 0},          // shown before
		{"open", `{"cursor":0,"id":1}`, refused, 0},           // found before
		{"find", `{"cursor":1,"pattern":"help"}`, refused, 0}, // shown before
		{"find", `{"cursor":3,"pattern":"start"}`, "Find results for", 0},
	} {
		fetches := all.fetches
		got := session.Call(t.Context(), tools.Call{Tool: c.tool, Arguments: c.arguments})
		if !strings.Contains(got.Text, c.want) || strings.Contains(got.Text, "Help & more") || len(got.Action.Sources) != c.sources {
			t.Errorf("%s %s: %v %q, %d sources; want %q", c.tool, c.arguments, got.Outcome, got.Text, len(got.Action.Sources), c.want)
		}
		if c.want == refused && (got.Outcome != tools.Failed || all.fetches != fetches) {
			t.Errorf("%s %s: %v, %d fetches", c.tool, c.arguments, got.Outcome, all.fetches-fetches)
		}
	}
	all.moved = "https://elsewhere.example/"
	if got := session.Call(t.Context(), tools.Call{Tool: "open", Arguments: `{"id":"https://docs.example.com/guide"}`}); !strings.Contains(got.Text, refused) {
		t.Errorf("a redirect elsewhere: %q", got.Text)
	}
}

// TestState: what is stored of a conversation is bounded whatever was opened, and what was given up
// is there again once it is asked for.
func TestState(t *testing.T) {
	backend := newSite(t)
	for i := range 40 {
		p := backend.Pages["https://docs.example.com/start"]
		p.HTML = fmt.Sprintf("<p>Page %d: <a href='/p%d'>next</a></p>", i, i+1) + strings.Repeat("<p>\"quoted\" \\ text\n</p>", 4000)
		backend.Pages[fmt.Sprintf("https://docs.example.com/p%d", i)] = p
	}
	server := New(backend, Options{Count: func(text string) int { return len(text) / 4 }})
	session := server.Open(tools.Chain{})
	call := func(tool, arguments string) string {
		t.Helper()
		got := session.Call(t.Context(), tools.Call{Tool: tool, Arguments: arguments})
		if got.Outcome != tools.Done {
			t.Errorf("%s %s: %s", tool, arguments, got.Text)
		}
		_, text, _ := strings.Cut(got.Text, "\n") // without the cursor
		return text
	}
	search := call("search", `{"query":"how to start"}`)
	first := call("open", `{"id":"https://docs.example.com/p0"}`)
	found := call("find", `{"pattern":"page 0"}`)
	for i := 1; i < 40; i++ {
		call("open", fmt.Sprintf(`{"id":"https://docs.example.com/p%d"}`, i))
		if i%5 == 0 {
			state := session.State()
			if len(state) > maxStored {
				t.Fatalf("%d bytes are stored", len(state))
			}
			session = server.Open(tools.Chain{State: state})
		}
	}
	backend.fetches, backend.searches = 0, 0
	if again := call("open", `{"cursor":1}`); again != first || backend.fetches != 1 {
		t.Errorf("page again, with %d fetches:\n%s\nwant\n%s", backend.fetches, again, first)
	}
	if again := call("open", `{"cursor":2}`); again != found {
		t.Errorf("find again:\n%s\nwant\n%s", again, found)
	}
	if again := call("open", `{"cursor":0}`); again != search || backend.searches > 1 {
		t.Errorf("search again:\n%s\nwant\n%s", again, search)
	}
	if text := call("open", `{"cursor":3,"id":0}`); !strings.Contains(text, "Page 2:") {
		t.Errorf("a link of a page that was given up:\n%s", text)
	}
}

// TestManyDisplays: a conversation of any length has a bounded state, whose latest cursors work.
func TestManyDisplays(t *testing.T) {
	server := New(newSite(t), Options{Count: func(text string) int { return len(text) }})
	session := server.Open(tools.Chain{})
	last := tools.Result{}
	for i := range maxStack + 100 {
		arguments := fmt.Sprintf(`{"pattern":"%d %s"}`, i, strings.Repeat("x", 300))
		if i%100 == 0 {
			session.Call(t.Context(), tools.Call{Tool: "open", Arguments: `{"id":"https://docs.example.com/start"}`})
		}
		last = session.Call(t.Context(), tools.Call{Tool: "find", Arguments: fmt.Sprintf(`{"cursor":%d,%s`, i/100*101, arguments[1:])})
		if last.Outcome != tools.Done {
			t.Fatalf("display %d: %s", i, last.Text)
		}
		if i%1000 == 999 {
			if state := session.State(); len(state) > maxStored {
				t.Fatalf("%d bytes behind %d displays", len(state), i)
			}
			session = server.Open(tools.Chain{State: session.State()})
		}
	}
	old := session.Call(t.Context(), tools.Call{Tool: "open", Arguments: `{"cursor":0}`})
	if old.Outcome != tools.Misused || !strings.Contains(old.Text, "no longer kept") {
		t.Errorf("the first display: %v %s", old.Outcome, old.Text)
	}
	if again := session.Call(t.Context(), tools.Call{Tool: "open"}); again.Text[strings.Index(again.Text, "\n"):] != last.Text[strings.Index(last.Text, "\n"):] {
		t.Errorf("%s\nwant\n%s", again.Text, last.Text)
	}
}

// TestEnded: a call whose time is up or that nobody waits for says so.
func TestEnded(t *testing.T) {
	server := New(newSite(t), Options{})
	late, cancel := context.WithDeadline(t.Context(), time.Unix(0, 0))
	defer cancel()
	gone, leave := context.WithCancel(t.Context())
	leave()
	for _, c := range []struct {
		ctx  context.Context
		want tools.Outcome
	}{{late, tools.TimedOut}, {gone, tools.Cancelled}} {
		got := server.Open(tools.Chain{}).Call(c.ctx, tools.Call{Tool: "search", Arguments: `{"query":"nothing"}`})
		if got.Outcome != c.want || !strings.HasPrefix(got.Text, "Error during search for `nothing`: ") {
			t.Errorf("%v %q, want %v", got.Outcome, got.Text, c.want)
		}
	}
}

func TestServer(t *testing.T) {
	backend := newSite(t)
	server := New(backend, Options{})
	if got := server.Status(); got.Name != "browser" || got.Kind != "browser" || got.Backend != "site" || !got.Works || got.Tools != 3 {
		t.Errorf("%+v", got)
	}
	for arguments, want := range map[string]int{`{"query":"nothing"}`: 10, `{"query":"nothing","topn":5}`: 5, `{"query":"nothing","top_n":500}`: 20, `{"query":"nothing","topn":"x","top_n":0}`: 10} {
		server.Open(tools.Chain{}).Call(t.Context(), tools.Call{Tool: "search", Arguments: arguments})
		if backend.wanted != want {
			t.Errorf("%s asks for %d results, want %d", arguments, backend.wanted, want)
		}
	}
}

// FuzzArguments: whatever a model writes, there is a result, and the conversation goes on.
func FuzzArguments(f *testing.F) {
	for _, s := range steps(f) {
		f.Add(s.Tool, s.Arguments)
	}
	backend := newSite(f)
	server := New(backend, Options{Count: func(text string) int { return len(text) / 4 }})
	begin := server.Open(tools.Chain{})
	begin.Call(f.Context(), tools.Call{Tool: "search", Arguments: `{"query":"how to start"}`})
	begin.Call(f.Context(), tools.Call{Tool: "open", Arguments: `{"id":0}`})
	state := begin.State()
	f.Fuzz(func(t *testing.T, tool, arguments string) {
		session := server.Open(tools.Chain{State: state})
		got := session.Call(t.Context(), tools.Call{Tool: tool, Arguments: arguments})
		checkResult(t, got)
		again := server.Open(tools.Chain{State: session.State()}).Call(t.Context(), tools.Call{Tool: "open"})
		if again.Outcome != tools.Done {
			t.Errorf("behind %s %q: %s", tool, arguments, again.Text)
		}
	})
}

func checkResult(t *testing.T, got tools.Result) {
	t.Helper()
	if got.Text == "" || (utf8.ValidString(got.Text) && len(got.Text) > 300_000) {
		t.Errorf("a result of %d bytes", len(got.Text))
	}
}

// FuzzState: whatever is stored, a session opens, answers, and stores what it can read.
func FuzzState(f *testing.F) {
	backend := newSite(f)
	server := New(backend, Options{Count: func(text string) int { return len(text) / 4 }})
	session := server.Open(tools.Chain{})
	for _, s := range steps(f)[1:20] {
		session.Call(f.Context(), tools.Call{Tool: s.Tool, Arguments: s.Arguments})
	}
	f.Add([]byte(session.State()))
	f.Add([]byte(`{"sheets":[{"kind":"find","text":"x","lines":[7],"links":[]}],"stack":[0]}`))
	f.Add([]byte(`{"sheets":[{"kind":"search","query":"how to start","links":["u"],"titles":["t"],"wanted":-4}],"stack":[0,-1,0],"first":9}`))
	f.Add([]byte(`{"sheets":[null],"stack":[0]}`))
	f.Fuzz(func(t *testing.T, state []byte) {
		session := server.Open(tools.Chain{State: state})
		for _, call := range []tools.Call{{Tool: "open"}, {Tool: "open", Arguments: `{"id":0}`}, {Tool: "find", Arguments: `{"pattern":"a"}`}, {Tool: "open", Arguments: `{"id":0}`}, {Tool: "open", Arguments: `{"id":"https://docs.example.com/start"}`}} {
			checkResult(t, session.Call(t.Context(), call))
		}
		for cursor := range 4 {
			session.(tools.Citer).Cite(cursor, cursor)
		}
		again := server.Open(tools.Chain{State: session.State()}).Call(t.Context(), tools.Call{Tool: "open"})
		if again.Outcome != tools.Done {
			t.Errorf("%s: %s", state, again.Text)
		}
	})
}
