package generate

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"ossian/internal/chat"
	"ossian/internal/limits"
	"ossian/internal/tools"
)

// besides is an answer of Qwen3 that calls three tools of two servers in one step.
var besides = []string{
	"Look.\n</think>\n\n<tool_call>\n{\"name\": \"browser_search\", \"arguments\": {\"query\":\"x\"}}\n</tool_call>\n" +
		"<tool_call>\n{\"name\": \"browser_open\", \"arguments\": {\"id\":1}}\n</tool_call>\n" +
		"<tool_call>\n{\"name\": \"python\", \"arguments\": {\"code\":\"1+1\"}}\n</tool_call><|im_end|>",
	"Done.\n</think>\n\nIt is 2.<|im_end|>",
}

// qwen is the family whose answers call several tools in one step.
func qwen(t testing.TB) family {
	all := families(t)
	return all[slices.IndexFunc(all, func(f family) bool { return f.name == "qwen3-thinking-2507" })]
}

// A meeting answers calls once what they wait for has begun, or has ended.
type meeting struct {
	mu   sync.Mutex
	gone map[string]chan struct{}
	at   map[string]int // calls of a server that run now
	most int            // calls that ran at once
	both int            // of one server
}

// mark returns the channel of a name that is closed by its first event.
func (m *meeting) mark(name string, now bool) chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.gone == nil {
		m.gone, m.at = map[string]chan struct{}{}, map[string]int{}
	}
	if m.gone[name] == nil {
		m.gone[name] = make(chan struct{})
	}
	if now {
		close(m.gone[name])
	}
	return m.gone[name]
}

// count counts a call in or out.
func (m *meeting) count(server string, by int) {
	m.mark("", false)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.at[server] += by
	all := 0
	for _, n := range m.at {
		all += n
		m.both = max(m.both, n)
	}
	m.most = max(m.most, all)
}

// server returns tools of which calls wait for others: those of a key for the event of its value.
func (m *meeting) server(waits map[string]string) *played {
	return &played{call: func(ctx context.Context, call tools.Call) tools.Result {
		name, server := call.Tool, "browser"
		if name == "" {
			name, server = "python", "python"
		}
		m.count(server, 1)
		defer m.mark(name+" ended", true)
		defer m.count(server, -1)
		m.mark(name+" began", true)
		if waits[name] != "" {
			select {
			case <-m.mark(waits[name], false):
			case <-ctx.Done():
				return tools.Result{Outcome: tools.Cancelled}
			}
		}
		return tools.Result{Text: "<" + name + ">"}
	}}
}

const (
	besideBegins = `reasoning[Look.] begins:0[browser.search] with:0[{"query":"x"}] begins:1[browser.open] with:1[{"id":1}] begins:2[python] with:2[1+1] `
	besideEnds   = ` reasoning[
Done.] content[It is 2.] stop.`
)

// TestBeside: independent calls of a step run side by side, those of one server in their order.
// What the model reads and clients are told is in the order of the calls, whichever ends first.
func TestBeside(t *testing.T) {
	f := qwen(t)
	for _, c := range []struct {
		name   string
		waits  map[string]string
		limits map[limits.ID]int64
		most   int
		want   string
	}{
		{"the last ends first", map[string]string{"search": "python ended", "python": "search began"}, nil, 2, "runs:0[{\"query\":\"x\"}] runs:2[1+1] ends:0[<search>] runs:1[{\"id\":1}] ends:1[<open>] ends:2[<python>]"},
		{"the last ends last", map[string]string{"search": "python began", "python": "open ended"}, nil, 2, "runs:0[{\"query\":\"x\"}] runs:2[1+1] ends:0[<search>] runs:1[{\"id\":1}] ends:1[<open>] ends:2[<python>]"},
		{"each waits for the other", map[string]string{"search": "python began", "python": "search began"}, nil, 2, "runs:0[{\"query\":\"x\"}] runs:2[1+1] ends:0[<search>] runs:1[{\"id\":1}] ends:1[<open>] ends:2[<python>]"},
		{"one at a time", nil, map[limits.ID]int64{limits.ToolParallel: 1}, 1, "runs:0[{\"query\":\"x\"}] ends:0[<search>] runs:1[{\"id\":1}] ends:1[<open>] runs:2[1+1] ends:2[<python>]"},
		{"two calls at most", nil, map[limits.ID]int64{limits.ToolCalls: 2}, 1, "runs:0[{\"query\":\"x\"}] ends:0[<search>] runs:1[{\"id\":1}] ends:1[<open>] ends:2[" + usedUpText + "]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, f, play{script: f.counted("</tool_response>", besides...), limits: c.limits})
			var m meeting
			gen := r.ask(m.server(c.waits))
			out, job, err := r.run(t.Context(), gen, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer job.Close()
			if got, want := closed(&out.story[0]), besideBegins+c.want+besideEnds; got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
			if m.most != c.most || m.both != 1 {
				t.Errorf("%d calls ran at once, %d of one server; want %d, 1", m.most, m.both, c.most)
			}
			var read []string
			for _, gave := range job.Answers()[0].Steps[0].Results {
				read = append(read, gave.Recipient+" "+gave.Text)
			}
			if got := strings.Join(read, ", "); !strings.HasPrefix(got, "browser.search <search>, browser.open <open>, python ") {
				t.Errorf("the model reads %s", got)
			}
		})
	}
}

// TestBesideEnds: whoever ends an answer ends all calls that run for it, and none begins behind that.
func TestBesideEnds(t *testing.T) {
	f := qwen(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r := newRig(t, f, play{script: f.counted("</tool_response>", besides...)})
	var m meeting
	began := 0
	_, job, err := r.run(ctx, r.ask(m.server(map[string]string{"search": "never", "python": "never"})), func(_ int, delta *Delta) error {
		if delta.Field == ToolRuns {
			if began++; began == 2 {
				go func() {
					<-m.mark("search began", false)
					<-m.mark("python began", false)
					cancel()
				}()
			}
		}
		return nil
	})
	job.Close()
	if !Gone(err) {
		t.Fatalf("%v", err)
	}
	<-m.mark("search ended", false)
	<-m.mark("python ended", false)
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.calls) != 2 || m.most != 2 {
		t.Errorf("calls %q, %d at once", r.calls, m.most)
	}
}

// TestBesideLost: of a call that does not end with its time nobody waits for the end, and the next
// ones do not run: its session is in use. What ran beside it counts.
func TestBesideLost(t *testing.T) {
	t.Parallel() // it waits
	f := qwen(t)
	release := make(chan struct{})
	r := newRig(t, f, play{script: f.counted("</tool_response>", besides...), limits: map[limits.ID]int64{limits.ToolWall: 1000}})
	server := &played{call: func(ctx context.Context, call tools.Call) tools.Result {
		if call.Tool == "search" {
			<-release
		}
		return tools.Result{Text: "<" + call.Tool + ">"}
	}}
	out, job, err := r.run(t.Context(), r.ask(server), nil)
	close(release)
	if err != nil {
		t.Fatal(err)
	}
	defer job.Close()
	want := besideBegins + "runs:0[{\"query\":\"x\"}] runs:2[1+1] ends:0[Error: the tool did not end in time.] ends:1[" + usedUpText + "] ends:2[<>]" + besideEnds
	if got := closed(&out.story[0]); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// TestBesidePending: calls that the client was asked about run side by side, too, and keep the order
// of the conversation.
func TestBesidePending(t *testing.T) {
	f := qwen(t)
	r := newRig(t, f, play{script: f.counted("no such text", besides[1])})
	var m meeting
	gen := r.ask(m.server(map[string]string{"search": "python ended", "python": "search began"}), func(gen *Generation) {
		calls := []chat.Call{{ID: "a", Name: "browser.search", Arguments: "{}", Builtin: true}, {ID: "b", Name: "browser.open", Arguments: "{}", Builtin: true}, {ID: "c", Name: "python", Arguments: "1", Builtin: true, Text: true}}
		gen.Builtin.Conversation.Turns = append(gen.Builtin.Conversation.Turns, chat.Turn{Role: chat.Assistant, Calls: calls})
		for i, call := range calls {
			gen.Builtin.Pending = append(gen.Builtin.Pending, Pending{Recipient: call.Name, Arguments: call.Arguments, ID: fmt.Sprint("mcpr_", i)})
		}
	})
	want := `begins:0[browser.search] with:0[{}] begins:1[browser.open] with:1[{}] begins:2[python] with:2[1] runs:0[{}] runs:2[1] ends:0[<search>] runs:1[{}] ends:1[<open>] ends:2[<python>] reasoning[Done.] content[It is 2.] stop.`
	if got := r.tell(gen); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if m.most != 2 {
		t.Errorf("%d calls ran at once, want 2", m.most)
	}
}
