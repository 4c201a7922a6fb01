package generate

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"ossian/internal/chat"
	"ossian/internal/grammar"
	"ossian/internal/limits"
	"ossian/internal/runner"
	"ossian/internal/soak"
	"ossian/internal/tools"
	"ossian/internal/wire"
)

const (
	searches = "<|channel|>analysis to=browser.search code<|message|>{}<|call|>"
	computes = "<|channel|>analysis to=python code<|message|>1<|call|>"
	finishes = "<|channel|>final<|message|>Yes.<|return|>"
)

// function offers a function of the client.
func function(gen *Generation) {
	gen.Builtin.Conversation.Tools = []chat.Tool{{Name: "f"}}
	gen.Builtin.Rules.Tools = []chat.ToolRule{{Arguments: grammar.Source{Kind: grammar.Object}}}
}

func tokens(n int64) func(*Generation) {
	return func(gen *Generation) { gen.MaxTokens = &n }
}

// thrice repeats a story with the numbers of three calls.
func thrice(story string) (all string) {
	for _, number := range []string{"0", "1", "2"} {
		all += strings.ReplaceAll(story, "N[", number+"[")
	}
	return all
}

func asks(tool string) bool { return tool == "search" }

// TestLoopEnds: what ends calls, and answers with calls, before their model would.
func TestLoopEnds(t *testing.T) {
	misuse := &played{call: func(context.Context, tools.Call) tools.Result {
		return tools.Result{Text: "bad", Outcome: tools.Misused}
	}}
	most := func(n int64) func(*Generation) { return func(gen *Generation) { gen.Builtin.MaxCalls = &n } }
	approve := func(gen *Generation) {
		open := gen.Builtin.Open
		gen.Builtin.Open = func(i int) *tools.Box {
			box := open(i)
			box.Offers()[0].Approve = asks
			return box
		}
	}
	for _, c := range []struct {
		name   string
		script []string
		server *played
		play   play
		change []func(*Generation)
		want   string
	}{
		{name: "a function ends the answer", script: []string{searches, "<|channel|>commentary to=functions.f json<|message|>{}<|call|>"}, change: []func(*Generation){function},
			want: "begins:0[browser.search] with:0[{}] runs:0[{}] ends:0[<search {}>] call[f] arguments[{}] tool_calls."},
		{name: "the bound of the length inside of a call", script: []string{"<|channel|>analysis to=python code<|message|>1 1 1 1 1 1 1 1<|call|>"}, change: []func(*Generation){tokens(10)},
			want: "begins:0[python] with:0[1 1] ends:0![] length."},
		{name: "the bound of the length behind a call", script: []string{computes}, change: []func(*Generation){tokens(9)},
			want: "begins:0[python] with:0[1] ends:0![] length."},
		{name: "the bound of the length in the second step", script: []string{computes, "<|channel|>final<|message|>a b c d<|return|>"}, change: []func(*Generation){tokens(14)},
			want: "begins:0[python] with:0[1] runs:0[1] ends:0[< 1>] content[a b] length."},
		{name: "calls that the client has to agree to", script: []string{searches}, change: []func(*Generation){approve},
			want: "begins:0[browser.search] with:0[{}] asks:0[{}] stop."},
		{name: "calls that need no agreement", script: []string{computes, finishes}, change: []func(*Generation){approve},
			want: "begins:0[python] with:0[1] runs:0[1] ends:0[< 1>] content[Yes.] stop."},
		{name: "calls that make no sense", script: []string{searches, searches, searches, finishes}, server: misuse,
			want: thrice("begins:N[browser.search] with:N[{}] runs:N[{}] ends:N[bad] ") + "content[Yes.] stop."},
		{name: "no call is left", script: []string{finishes}, change: []func(*Generation){most(0)}, want: "content[Yes.] stop."},
		{name: "one call was left", script: []string{searches, finishes}, change: []func(*Generation){most(1)},
			want: "begins:0[browser.search] with:0[{}] runs:0[{}] ends:0[<search {}>] content[Yes.] stop."},
		{name: "a function when no call is left", script: []string{searches, "<|channel|>commentary to=functions.f json<|message|>{}<|call|>"}, change: []func(*Generation){function, most(1)},
			want: "begins:0[browser.search] with:0[{}] runs:0[{}] ends:0[<search {}>] call[f] arguments[{}] tool_calls."},
		{name: "a tool that panics", script: []string{searches, finishes}, server: &played{call: func(context.Context, tools.Call) tools.Result { panic("planted") }},
			want: "begins:0[browser.search] with:0[{}] runs:0[{}] ends:0[Error: the tool failed.] content[Yes.] stop."},
		{name: "a tool of the namespace that there is not", script: []string{"<|channel|>analysis to=browser.find code<|message|>{}<|call|>", finishes}, play: play{loose: true},
			want: "begins:0[browser.find] with:0[{}] runs:0[{}] ends:0[Error: tool browser.find is not available. Available tools: browser.search, browser.open, python] content[Yes.] stop."},
		{name: "tools that nobody offered", script: []string{"<|channel|>analysis to=container.exec code<|message|>{}<|call|>", "<|channel|>commentary to=functions.g json<|message|>{}<|call|>", finishes}, play: play{loose: true},
			want: "content[Yes.] stop."},
		{name: "a stop string behind a call", script: []string{searches, "<|channel|>final<|message|>Yes. No.<|return|>"}, change: []func(*Generation){func(gen *Generation) { gen.Stop = []string{" No"} }},
			want: "begins:0[browser.search] with:0[{}] runs:0[{}] ends:0[<search {}>] content[Yes.] stop."},
		{name: "reasoning that is hidden", script: harmonyTalk, change: []func(*Generation){func(gen *Generation) { gen.HideReasoning = true }},
			want: `begins:0[browser.search] with:0[{"query":"x"}] runs:0[{"query":"x"}] ends:0[<search {"query":"x"}>] content[Wait.] begins:1[python] with:1[1+1] runs:1[1+1] ends:1[< 1+1>] content[
It is 2.] stop.`},
		{name: "messages apart", script: []string{searches, finishes}, change: []func(*Generation){func(gen *Generation) { gen.Items = true }},
			want: "begins:0[browser.search] with:0[{}] runs:0[{}] ends:0[<search {}>] item[] content[Yes.] end[] stop."},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := gptOSS(t)
			c.play.script = f.counted("<|call|>", c.script...)
			r := newRig(t, f, c.play)
			if c.server == nil {
				c.server = echoing()
			} else {
				c.server = &played{call: c.server.call}
			}
			if got := r.tell(r.ask(c.server, c.change...)); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

// TestUnsolicited: the model reads that a tool is not there, from that tool and on the channel
// of its call.
func TestUnsolicited(t *testing.T) {
	f := gptOSS(t)
	r := newRig(t, f, play{script: f.counted("<|call|>", "<|channel|>analysis to=container.exec code<|message|>{}<|call|>", "<|channel|>commentary to=functions.g json<|message|>{}<|call|>", finishes), loose: true})
	r.tell(r.ask(echoing()))
	for i, want := range []string{
		"<|start|>container.exec to=assistant<|channel|>analysis<|message|>Error: tool container.exec is not available. Available tools: python, browser.search, browser.open<|end|><|start|>assistant",
		"<|start|>functions.g to=assistant<|channel|>commentary<|message|>Error: tool g is not available. Available tools: python, browser.search, browser.open<|end|><|start|>assistant",
	} {
		if got := f.tok.Decode(r.prompts[i+1]); !strings.HasSuffix(got, want) {
			t.Errorf("%q\ndoes not end with %q", got, want)
		}
	}
}

// TestMuted: what a step may not call is masked, and all the rest is as it was.
func TestMuted(t *testing.T) {
	const functions = "<|channel|>commentary to=functions.f json<|message|>{}<|call|>"
	f := gptOSS(t)
	r := newRig(t, f, play{script: f.counted("<|call|>", finishes)})
	job, err := r.service.Start(t.Context(), r.ask(echoing(), function))
	if err != nil {
		t.Fatal(err)
	}
	defer job.Close()
	for _, c := range []struct {
		held mute
		may  []string
		not  []string
	}{
		{muteNone, []string{searches, computes, functions, finishes}, nil},
		{muteBuiltins, []string{functions, finishes}, []string{searches, computes}},
		{muteAll, []string{finishes, "<|channel|>analysis<|message|>a<|end|><|start|>assistant" + finishes}, []string{searches, computes, functions}},
	} {
		allows := func(text string) bool {
			held := job.answers[0].turn
			held.held = c.held
			fresh, _, err := job.stepConstraint(held, false)
			if err != nil {
				t.Fatal(err)
			}
			constraint, mask := fresh(), make([]uint64, (f.tok.Vocab()+63)/64)
			return !slices.ContainsFunc(f.said(text), func(id int32) bool {
				return constraint.Mask(mask) != nil || mask[id/64]>>(id%64)&1 == 0 || constraint.Accept(id) != nil
			})
		}
		for _, text := range c.may {
			if !allows(text) {
				t.Errorf("mute %d: %q is masked", c.held, text)
			}
		}
		for _, text := range c.not {
			if allows(text) {
				t.Errorf("mute %d: %q is not masked", c.held, text)
			}
		}
	}
}

// TestForcedCall: a call that the request forces is forced once.
func TestForcedCall(t *testing.T) {
	for _, f := range families(t) {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			mark, texts, want := f.talk()
			r := newRig(t, f, play{script: f.counted(mark, texts...)})
			got := r.tell(r.ask(echoing(), func(gen *Generation) { gen.Builtin.Conversation.MustCall, gen.Builtin.Rules.MustCall = true, true }))
			if f.name == "gpt-oss" || f.name == "built-in model" { // the first step may think once
				want = harmonyStory
			}
			if got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		})
	}
}

// TestPending: calls that waited for the client's word run first, or are declined, and the
// prompt has what they gave.
func TestPending(t *testing.T) {
	for _, f := range families(t) {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			_, texts, _ := f.talk()
			r := newRig(t, f, play{script: f.counted("no such text", texts[len(texts)-1])})
			gen := r.ask(echoing(), func(gen *Generation) {
				conv := gen.Builtin.Conversation
				conv.Turns = append(conv.Turns, chat.Turn{Role: chat.Assistant, Calls: []chat.Call{{ID: "a", Name: "browser.search", Arguments: "{}", Builtin: true}}},
					chat.Turn{Role: chat.ToolRole, CallID: "a", Parts: []string{"found"}},
					chat.Turn{Role: chat.Assistant, Calls: []chat.Call{{ID: "b", Name: "browser.open", Arguments: `{"id":1}`, Builtin: true}, {ID: "c", Name: "browser.search", Arguments: "{}", Builtin: true}}})
				gen.Builtin.Pending = []Pending{{Recipient: "browser.open", Arguments: `{"id":1}`, ID: "mcpr_1"}, {Recipient: "browser.search", Arguments: "{}", ID: "mcpr_2", Declined: true, Reason: "Not now."}}
			})
			out, job, err := r.run(t.Context(), gen, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer job.Close()
			want := `begins:0[browser.open] with:0[{"id":1}] begins:1[browser.search] with:1[{}] runs:0[{"id":1}] ends:0[<open {"id":1}>] ends:1[The user declined this tool call. Not now.]`
			if got := closed(&out.story[0]); !strings.HasPrefix(got, want) {
				t.Errorf("got  %s\nwant %s", got, want)
			}
			for _, delta := range out.deltas[0] {
				if call := delta.Tool; call != nil && (call.Approval != fmt.Sprintf("mcpr_%d", call.Index+1) || call.Declined != (call.Index == 1)) {
					t.Errorf("%+v", call)
				}
			}
			last := f.tok.Decode(r.prompts[len(r.prompts)-1])
			open, declined := strings.Index(last, `<open {`), strings.Index(last, "The user declined this tool call. Not now.")
			if len(r.prompts) != 1 || open < 0 || declined < open {
				t.Errorf("%d prompts, the last %q", len(r.prompts), last)
			}
			usage := job.Usage()
			if want := wire.NewUsage(len(r.prompts[0]), usage.PromptOf.Cached, job.Tokens(), usage.Details.Reasoning); usage.Prompt != want.Prompt || usage.Total != want.Total {
				t.Errorf("usage %+v, want %+v", usage, want)
			}
		})
	}
}

// TestFunctionBesideCalls: where one step calls the server's tools and the client's, the first
// run and the answer ends with the second.
func TestFunctionBesideCalls(t *testing.T) {
	f := families(t)[2]
	text := "</think>\n\n<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>\n<tool_call>\n{\"name\": \"python\", \"arguments\": {\"code\":\"1\"}}\n</tool_call>\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\":1}}\n</tool_call><|im_end|>"
	r := newRig(t, f, play{script: f.counted("no such text", "<think>"+text)})
	got := r.tell(r.ask(echoing(), function))
	want := `call[f] arguments[{}] begins:0[python] with:0[1] call[f] arguments[{"a":1}] runs:0[1] ends:0[< 1>] tool_calls.`
	if got != want || len(r.prompts) != 1 {
		t.Errorf("%d steps\ngot  %s\nwant %s", len(r.prompts), got, want)
	}
}

// TestManyMisuses: calls of one step that are one too many are not run, and the model still gets to
// answer.
func TestManyMisuses(t *testing.T) {
	f := families(t)[2]
	call := "<tool_call>\n{\"name\": \"browser_search\", \"arguments\": {}}\n</tool_call>"
	r := newRig(t, f, play{script: f.counted("</tool_response>", "<think></think>\n\n"+strings.Repeat(call+"\n", 4)+call+"<|im_end|>", "", "", "", "", "<think></think>\n\nNo.<|im_end|>")})
	got := r.tell(r.ask(&played{call: func(context.Context, tools.Call) tools.Result {
		return tools.Result{Text: "bad", Outcome: tools.Misused}
	}}))
	if !strings.HasSuffix(got, "ends:3["+usedUpText+"] ends:4["+usedUpText+"] content[No.] stop.") || len(r.calls) != 3 {
		t.Errorf("%d calls: %s", len(r.calls), got)
	}
}

// TestIdle: a client hears of an answer while a tool runs.
func TestIdle(t *testing.T) {
	f := gptOSS(t)
	r := newRig(t, f, play{script: f.counted("<|call|>", searches, finishes)})
	out := &told{story: make([]strings.Builder, 1), deltas: make([][]Delta, 1)}
	job, err := r.service.Start(t.Context(), r.ask(&played{call: func(context.Context, tools.Call) tools.Result {
		for out.idle.Load() < 3 {
			time.Sleep(time.Millisecond)
		}
		return tools.Result{Text: "x"}
	}}))
	if err != nil {
		t.Fatal(err)
	}
	out.job = job
	if err := job.Run(t.Context(), out, time.Millisecond); err != nil {
		t.Fatal(err)
	}
	job.Close()
}

// TestNamesCollide: a function of the client keeps its name.
func TestNamesCollide(t *testing.T) {
	f := families(t)[2]
	text := "<think></think>\n\n<tool_call>\n{\"name\": \"python_2\", \"arguments\": {\"code\":\"1\"}}\n</tool_call>\n<tool_call>\n{\"name\": \"python\", \"arguments\": {}}\n</tool_call><|im_end|>"
	r := newRig(t, f, play{script: f.counted("no such text", text)})
	got := r.tell(r.ask(echoing(), function, func(gen *Generation) { gen.Builtin.Conversation.Tools[0].Name = "python" }))
	if want := `begins:0[python] with:0[1] call[python] arguments[{}] runs:0[1] ends:0[< 1>] tool_calls.`; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// TestResultsFit: results leave room for an answer, whatever their size.
func TestResultsFit(t *testing.T) {
	f := gptOSS(t)
	long := strings.Repeat("all work and no play ", 400)
	size := len(f.tok.Encode(nil, long))
	for _, c := range []struct {
		most      int64
		context   int
		cut       string // of the prompt
		forced    bool
		uncropped bool
	}{
		{most: 8192, context: 4096, uncropped: true},
		{most: 400, context: 4096, cut: fmt.Sprintf("…[%d tokens omitted]…", size-400)},
		{most: 8192, context: 1024, cut: "tokens omitted]…"},
		{most: 8192, context: 400, cut: fmt.Sprintf("[The result of %d tokens does not fit into the context.]", size), forced: true},
	} {
		t.Run(fmt.Sprintf("%d of %d", c.most, c.context), func(t *testing.T) {
			t.Parallel()
			r := newRig(t, f, play{script: f.counted("<|call|>", searches, finishes), limits: map[limits.ID]int64{limits.ToolResultTokens: c.most}, info: runner.Info{MaxLen: c.context}})
			out, job, err := r.run(t.Context(), r.ask(&played{call: func(context.Context, tools.Call) tools.Result { return tools.Result{Text: long} }}), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer job.Close()
			got, held := f.tok.Decode(r.prompts[1]), job.answers[0].turn.held
			if !strings.Contains(got, c.cut) || strings.Contains(got, long) != c.uncropped || (held == muteAll) != c.forced || len(r.prompts[1])+answerRoom > c.context && !c.forced {
				t.Errorf("mute %d, %d tokens: %q", held, len(r.prompts[1]), got)
			}
			if story := closed(&out.story[0]); !strings.HasSuffix(story, "content[Yes.] stop.") || !strings.Contains(story, "ends:0["+long+"]") {
				t.Errorf("%s", story)
			}
		})
	}
}

// TestCutResult: a result that is cut has its beginning and its end, whole characters, and
// about as many ids as it may.
func TestCutResult(t *testing.T) {
	f := gptOSS(t)
	for _, text := range []string{"", "short", strings.Repeat("日本語のテキスト🙂", 300), strings.Repeat("x", 9000), strings.Repeat("a b\n", 3000), "\ufffd" + strings.Repeat("é", 5000)} {
		for _, most := range []int{1, 16, 17, 400} {
			got, ids := cutResult(f.tok, text, most), len(f.tok.Encode(nil, text))
			switch cut := strings.Contains(got, "tokens omitted]…"); {
			case cut != (ids > most):
				t.Errorf("%.20q of %d ids, %d allowed: cut %v", text, ids, most, cut)
			case !cut && got != text:
				t.Errorf("%.20q became %.20q", text, got)
			case cut && len(f.tok.Encode(nil, got)) > most+24:
				t.Errorf("%.20q: %d ids, %d allowed", text, len(f.tok.Encode(nil, got)), most)
			case cut && strings.ToValidUTF8(got, "?") != got:
				t.Errorf("%q is no UTF-8", got)
			}
		}
	}
}

// TestToolSteps: behind the last step that an answer may have there is no call.
func TestToolSteps(t *testing.T) {
	f := gptOSS(t)
	for _, most := range []int64{1, 2, 5} {
		texts := slices.Repeat([]string{searches}, int(most)-1)
		r := newRig(t, f, play{script: f.counted("<|call|>", append(texts, finishes)...), limits: map[limits.ID]int64{limits.ToolSteps: most}})
		out, job, err := r.run(t.Context(), r.ask(echoing()), nil)
		if err != nil {
			t.Fatal(err)
		}
		if held := job.answers[0].turn.held; held != muteAll || len(r.prompts) != int(most) || len(r.calls) != int(most)-1 {
			t.Errorf("%d steps: mute %d, %d prompts, %d calls: %s", most, held, len(r.prompts), len(r.calls), closed(&out.story[0]))
		}
		job.Close()
	}
}

// TestToolWall: a tool that takes longer than answers may is ended, and the answer is made
// without it, also where the tool does not end.
func TestToolWall(t *testing.T) {
	t.Parallel() // it waits
	f := gptOSS(t)
	for _, hangs := range []bool{false, true} {
		release := make(chan struct{})
		r := newRig(t, f, play{script: f.counted("<|call|>", searches, finishes), limits: map[limits.ID]int64{limits.ToolWall: 50}})
		server := &played{call: func(ctx context.Context, _ tools.Call) tools.Result {
			<-ctx.Done()
			if hangs {
				<-release
			}
			return tools.Result{Text: "late", Outcome: tools.TimedOut}
		}}
		out, job, err := r.run(t.Context(), r.ask(server), nil)
		if err != nil {
			t.Fatal(err)
		}
		want := "begins:0[browser.search] with:0[{}] runs:0[{}] ends:0[late] content[Yes.] stop."
		if hangs {
			want = strings.Replace(want, "late", "Error: the tool did not end in time.", 1)
		}
		if got := closed(&out.story[0]); got != want || job.answers[0].turn.held != muteAll || (job.Answers()[0].Tools == nil) != hangs {
			t.Errorf("hangs %v: got %s\nwant %s", hangs, got, want)
		}
		job.Close()
		close(release)
		r.settle()
	}
}

// settle waits until no session is open.
func (r *rig) settle() {
	r.t.Helper()
	for deadline := time.Now().Add(time.Minute); r.boxes.Load() > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			r.t.Fatal("sessions stay open")
		}
	}
}

// TestCancel: a job ends when its client leaves, in every phase of an answer, and tools are
// told. A session that does not listen is left to itself and closed when it has ended.
func TestCancel(t *testing.T) {
	f := gptOSS(t)
	for _, c := range []struct {
		name   string
		at     Field
		hangs  bool
		client bool // the output says that the client has left
	}{
		{"while a call is written", ToolArguments, false, false}, {"when a call begins", ToolBegins, false, false}, {"while a tool runs", ToolRuns, false, false},
		{"while a tool runs that does not listen", ToolRuns, true, false}, {"when a tool has ended", ToolEnds, false, false}, {"in the answer", Content, false, false},
		{"by the output, while a tool runs", ToolRuns, false, true}, {"by the output, behind a tool", ToolEnds, false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			release, cancelled := make(chan struct{}), make(chan struct{}, 1)
			r := newRig(t, f, play{script: f.counted("<|call|>", searches, "<|channel|>final<|message|>"+strings.Repeat("a ", 500)+"<|return|>"), cost: time.Millisecond})
			server := &played{call: func(ctx context.Context, _ tools.Call) tools.Result {
				if c.at != ToolRuns {
					return tools.Result{Text: "x"}
				}
				<-ctx.Done()
				cancelled <- struct{}{}
				if c.hangs {
					<-release
				}
				return tools.Result{Outcome: tools.Cancelled}
			}}
			_, job, err := r.run(ctx, r.ask(server), func(_ int, delta *Delta) error {
				switch {
				case delta.Field != c.at:
				case c.client:
					return ErrGone
				default:
					cancel()
				}
				return nil
			})
			began := time.Now()
			job.Close()
			if took := time.Since(began); took > time.Second && os.Getenv(soak.Env) != "" {
				t.Errorf("closed after %v", took)
			}
			if !Gone(err) {
				t.Fatalf("%v", err)
			}
			if c.at == ToolRuns {
				select {
				case <-cancelled:
				case <-time.After(time.Minute):
					t.Error("the tool was not told")
				}
			}
			if !c.hangs && r.boxes.Load() != 0 {
				t.Errorf("%d sessions are open", r.boxes.Load())
			}
			close(release)
			r.settle()
		})
	}
}

// TestNotRun: a job that is closed without having run leaves nothing.
func TestNotRun(t *testing.T) {
	f := gptOSS(t)
	r := newRig(t, f, play{script: f.counted("<|call|>", harmonyTalk...)})
	job, err := r.service.Start(t.Context(), r.ask(echoing()))
	if err != nil {
		t.Fatal(err)
	}
	job.Close()
}

// TestChoices: each choice has its own tools and conversation, and none waits for another's.
func TestChoices(t *testing.T) {
	f := gptOSS(t)
	r := newRig(t, f, play{script: f.counted("<|call|>", harmonyTalk...)})
	open := make(chan struct{})
	server := echoing()
	opened := 0
	gen := r.ask(server, func(gen *Generation) {
		n := int64(3)
		gen.N = &n
		offers := r.offers(server)
		slow := r.offers(&played{call: func(ctx context.Context, call tools.Call) tools.Result {
			<-open
			return server.call(ctx, call)
		}})
		gen.Builtin.Open = func(i int) *tools.Box {
			if opened++; i == 0 {
				return tools.Open(slow, tools.Chain{})
			}
			return tools.Open(offers, tools.Chain{})
		}
	})
	done := 0
	out, job, err := r.run(t.Context(), gen, func(i int, delta *Delta) error {
		if i > 0 && delta.Field == Content && strings.HasSuffix(delta.Text, "2") {
			if done++; done == 2 { // the first goes on when the others are about to end
				close(open)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	defer job.Close()
	for i := range out.story {
		if got := closed(&out.story[i]); got != harmonyStory {
			t.Errorf("choice %d: %s", i, got)
		}
	}
	usage, shared := job.Usage(), len(r.prompts[0])
	want := shared
	for _, prompt := range r.prompts[1:] {
		want += 3 * len(prompt)
	}
	if opened != 3 || usage.Prompt != want || len(usage.Tools.Prompt) != 9 || usage.Completion != job.Tokens() {
		t.Errorf("%d boxes, usage %+v %+v, want %d prompt tokens", opened, usage, usage.Tools, want)
	}
}

// TestStepSeeds: every step of every choice draws other numbers, and the same ones again for
// the same request.
func TestStepSeeds(t *testing.T) {
	seen := map[uint64]bool{}
	for choice := range uint64(128) {
		for step := range 4096 {
			seed := stepSeed(12345+choice, step)
			if seen[seed] {
				t.Fatalf("choice %d, step %d: seed %d again", choice, step, seed)
			}
			seen[seed] = true
		}
	}
	if stepSeed(7, 0) != 7 {
		t.Error("an answer without tools has another seed than the request")
	}
	f := gptOSS(t)
	r := newRig(t, f, play{script: f.counted("<|call|>", harmonyTalk...)})
	for range 2 {
		r.tell(r.ask(echoing(), func(gen *Generation) { seed := int64(42); gen.Seed = &seed }))
	}
	if want := []uint64{42, stepSeed(42, 1), stepSeed(42, 2)}; !slices.Equal(r.seeds, append(want, want...)) {
		t.Errorf("seeds %d, want %d twice", r.seeds, want)
	}
}

// TestQueueFull: a step that finds the queue full waits for its turn.
func TestQueueFull(t *testing.T) {
	f := gptOSS(t)
	long := "<|channel|>final<|message|>" + strings.Repeat("a ", 40) + "<|return|>"
	var r *rig
	var others []*Job
	r = newRig(t, f, play{script: func(prompt []int32) []int32 {
		if len(prompt) == 3 {
			return f.said(long)
		}
		return f.counted("<|call|>", searches, finishes)(prompt)
	}, info: runner.Info{MaxSeqs: 1}, queue: 1, cost: 2 * time.Millisecond})
	server := &played{call: func(ctx context.Context, _ tools.Call) tools.Result {
		for range 2 { // one runs, one waits
			plain := &Generation{Sampling: &wire.Sampling{}, Model: r.model, Received: time.Now(), Prompts: [][]int32{{1, 2, 3}}, Parser: Plain(r.model, &wire.Sampling{}, true)}
			job, err := r.service.Start(ctx, plain)
			if err != nil {
				t.Error(err)
				break
			}
			others = append(others, job)
		}
		return tools.Result{Text: "x"}
	}}
	if got, want := r.tell(r.ask(server)), "begins:0[browser.search] with:0[{}] runs:0[{}] ends:0[x] content[Yes.] stop."; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	for _, job := range others {
		job.Close()
	}
}

// TestDrain: an answer whose tool runs while the engine drains gets its steps nevertheless, and
// the engine has ended when the job has.
func TestDrain(t *testing.T) {
	f := gptOSS(t)
	r := newRig(t, f, play{script: f.counted("<|call|>", harmonyTalk...)})
	drained := make(chan error, 1)
	var drains sync.Once
	server := &played{call: func(ctx context.Context, call tools.Call) tools.Result {
		drains.Do(func() { go func() { drained <- r.model.Engine.Drain(context.Background()) }() })
		for r.model.Engine.Accepting() == nil {
			time.Sleep(time.Millisecond)
		}
		return echoing().call(ctx, call)
	}}
	if got := r.tell(r.ask(server)); got != harmonyStory {
		t.Errorf("%s", got)
	}
	if err := <-drained; err != nil {
		t.Errorf("%v", err)
	}
}

// TestStartFails: what cannot start opens nothing that stays open.
func TestStartFails(t *testing.T) {
	f := gptOSS(t)
	r := newRig(t, f, play{script: f.counted("<|call|>", finishes)})
	gen := r.ask(echoing(), func(gen *Generation) { gen.AllowedTokenIDs = []int32{f.said("<|call|>")[0]} })
	if _, err := r.service.Start(t.Context(), gen); err == nil {
		t.Error("allowed ids without text were accepted")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	job, err := r.service.Start(ctx, r.ask(echoing()))
	if err == nil {
		err = job.Run(ctx, &told{job: job, story: make([]strings.Builder, 1), deltas: make([][]Delta, 1)}, time.Minute)
		job.Close()
	}
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}
