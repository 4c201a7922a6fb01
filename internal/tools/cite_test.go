package tools

import (
	"context"
	"encoding/json"
	"os"
	"strings"
	"testing"
)

// A remote is a browser elsewhere that answers with what it is called with under "says".
type remote struct{ echo }

func (r remote) Open(Chain) Session { return remoteSession{} }

type remoteSession struct{}

func (remoteSession) Call(_ context.Context, call Call) Result {
	var args struct{ Says string }
	_ = json.Unmarshal([]byte(call.Arguments), &args)
	return Result{Text: args.Says}
}
func (remoteSession) State() json.RawMessage { return nil }
func (remoteSession) Close()                 {}

func remoteBox(state json.RawMessage) *Box {
	space := Namespace{Name: "browser", Tools: []Tool{{Name: "search"}, {Name: "open"}, {Name: "find"}, {Name: "other"}}}
	return Open([]Offer{{Server: remote{echo{"browser"}}, Namespace: space, Kind: Browser}}, Chain{State: state})
}

// TestRemoteBrowser: what a browser elsewhere did and shows is read from its displays, also by the
// response behind the next.
func TestRemoteBrowser(t *testing.T) {
	box := remoteBox(nil)
	for _, c := range []struct {
		tool, arguments, text string
		want                  Action
	}{
		{"search", `"query":"cats"`, "[0] cats\n**viewing lines [0 - 9] of 9**\n\nL0: \nL1: URL: \nL2: # Search Results", Action{Type: "search", Query: "cats"}},
		{"open", `"id":3`, "[1] Cats (all of them) (https://example.org/café x?q=a b)\n**viewing lines [9 - 9] of 9**\n\nL9: text", Action{Type: "open_page", URL: "https://example.org/caf%C3%A9%20x?q=a%20b"}},
		{"open", `"id":3`, "[2] Cats (https://example.org/a b)\n**viewing lines [0 - 9] of 9**\n\nL0: \nL1: URL: https://example.org/a+b%2Fc\nL2: text", Action{Type: "open_page", URL: "https://example.org/a+b%2Fc"}},
		{"find", `"pattern":"Meow"`, "[3] Find results for text: `meow` in `The cat` (https://example.org/cat/find?pattern=meow)\n**viewing lines [0 - 1] of 1**\n\nL0: x", Action{Type: "find_in_page", Pattern: "Meow", URL: "https://example.org/cat"}},
		{"open", `"id":"https://example.org/%7Ex"`, "[4]  (https://example.org/~x)\n**viewing lines [0 - 1] of 1**\n\nL0: x", Action{Type: "open_page", URL: "https://example.org/%7Ex"}},
		{"open", `"id":9`, "Invalid link id `9`.", Action{Type: "open_page"}},
		{"open", `"id":1`, "[5] Far (https://example.org/" + strings.Repeat("x", 900) + "...)\n**viewing lines [0 - 1] of 1**\n\nL0: x", Action{Type: "open_page"}},
		{"open", `"view_source":true`, "[6] Cat (view-source:https://example.org/cat)\n**viewing lines [0 - 1] of 1**\n\nL0: x", Action{Type: "open_page", URL: "https://example.org/cat"}},
	} {
		says, _ := json.Marshal(c.text)
		got := box.Call(t.Context(), "1", "browser."+c.tool, "{"+c.arguments+`,"says":`+string(says)+"}")
		if got.Text != c.text || got.Action == nil || got.Action.Type != c.want.Type || got.Action.Query != c.want.Query || got.Action.Pattern != c.want.Pattern || got.Action.URL != c.want.URL {
			t.Errorf("%s %s: %+v, want %+v", c.tool, c.arguments, got.Action, c.want)
		}
	}
	if got := box.Call(t.Context(), "1", "browser.other", "{}"); got.Action != nil {
		t.Errorf("another tool: %+v", got.Action)
	}
	again := remoteBox(remoteBox(box.State()).State())
	for cursor, want := range []Source{{}, {"https://example.org/caf%C3%A9%20x?q=a%20b", "Cats (all of them)"}, {"https://example.org/a+b%2Fc", "Cats"}, {"https://example.org/cat", "The cat"}, {"https://example.org/~x", "example.org"}, {}, {"https://example.org/cat", "Cat"}, {}} {
		if got, ok := again.Cite(cursor, 3); got != want || ok != (want.URL != "") {
			t.Errorf("cursor %d: %v %v, want %v", cursor, got, ok, want)
		}
	}
}

// TestRemoteTranscript: the displays of the published browser, as browser/testdata has them, are
// read as those of pages.
func TestRemoteTranscript(t *testing.T) {
	var texts []string
	data, err := os.ReadFile("browser/testdata/reference.json")
	if err != nil || json.Unmarshal(data, &texts) != nil {
		t.Fatal(err)
	}
	pages := 0
	for _, text := range texts {
		_, shown, ok := readDisplay(text)
		head, _, _ := strings.Cut(text, "\n")
		if strings.Contains(head, "Café (") {
			continue // a line break in the address, as the reference shows it, is no head
		}
		if ok != strings.Contains(text, "\n**viewing lines [") {
			t.Errorf("%.80q: display %v", text, ok)
		}
		if whole := strings.Contains(head, "://") && ok && !strings.HasSuffix(head, "...)"); whole != (shown.URL != "") {
			t.Errorf("%.80q is of %v", text, shown)
		}
		if shown.URL != "" {
			pages++
		}
	}
	if pages < 30 {
		t.Errorf("%d pages in %d displays", pages, len(texts))
	}
}

// TestManyDisplays: the latest are remembered.
func TestManyDisplays(t *testing.T) {
	seen := displays{}
	for i := range maxDisplays + 10 {
		says, _ := json.Marshal(i)
		seen.note("open", "", "["+string(says)+"] T (https://example.org/)\n**viewing lines [0 - 0] of 0**\n\nL0: ")
	}
	if _, old := seen[9]; old || len(seen) != maxDisplays {
		t.Errorf("%d displays, the first %v", len(seen), old)
	}
}
