package generate

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"ossian/internal/chat"
	"ossian/internal/ckpt"
	"ossian/internal/engine"
	"ossian/internal/host"
	"ossian/internal/limits"
	"ossian/internal/metrics"
	"ossian/internal/runner"
	"ossian/internal/sample"
	"ossian/internal/sim"
	"ossian/internal/tiny"
	"ossian/internal/token"
	"ossian/internal/tools"
	"ossian/internal/wire"
)

// A family is a model whose answers are played.
type family struct {
	name   string
	tok    *token.BPE
	format chat.Format
}

var harmonyVocabulary = sync.OnceValues(token.Harmony)

// gptOSS returns the family with the vocabulary of gpt-oss.
func gptOSS(t testing.TB) family {
	t.Helper()
	tok, err := harmonyVocabulary()
	if err != nil {
		t.Fatal(err)
	}
	return newFamily(t, "gpt-oss", tok, chat.Facts{Family: "gpt-oss"})
}

func newFamily(t testing.TB, name string, tok *token.BPE, facts chat.Facts) family {
	t.Helper()
	facts.Tokenizer = tok
	format, err := chat.New(facts)
	if err != nil {
		t.Fatal(err)
	}
	return family{name, tok, format}
}

// families are all formats in which built-in tools can be called.
func families(t testing.TB) []family {
	t.Helper()
	model, err := ckpt.OpenFS(tiny.FS(), tiny.Name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { model.Close() })
	qwen := func(name string) family {
		tok, err := token.FromJSON(read(t, "../token/testdata/qwen3-cut.json"))
		if err != nil {
			t.Fatal(err)
		}
		end, _ := tok.ID("<|im_end|>")
		return newFamily(t, name, tok, chat.Facts{Family: "qwen3", Template: string(read(t, "../jinja/testdata/templates/"+name+".jinja")), Stops: []int32{end}})
	}
	return []family{gptOSS(t), newFamily(t, "built-in model", model.Tokenizer, chat.Facts{Family: "gpt-oss"}), qwen("qwen3"), qwen("qwen3-thinking-2507"), qwen("qwen3-instruct-2507"), llama(t)}
}

// llama is a family whose calls have no tags.
func llama(t testing.TB) family {
	t.Helper()
	names := strings.NewReplacer("<|endoftext|>", "<|end_of_text|>", "<|im_start|>", "<|start_header_id|>", "<|im_end|>", "<|eot_id|>", "<|object_ref_start|>", "<|end_header_id|>",
		"<|object_ref_end|>", "<|python_tag|>", "<|box_start|>", "<|eom_id|>", "<tool_call>", "<|reserved_1|>", "</tool_call>", "<|reserved_2|>", "<think>", "<|reserved_3|>", "</think>", "<|reserved_4|>")
	tok, err := token.FromJSON([]byte(names.Replace(string(read(t, "../token/testdata/qwen3-cut.json")))))
	if err != nil {
		t.Fatal(err)
	}
	end, _ := tok.ID("<|eot_id|>")
	return newFamily(t, "llama3.2", tok, chat.Facts{Family: "llama", Template: string(read(t, "../jinja/testdata/templates/llama3.2.jinja")),
		Special: map[string]string{"bos_token": "<|bos|>", "eos_token": "<|eos|>"}, Stops: []int32{end}})
}

func read(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// said returns the ids of what a model says, control tokens by name.
func (f *family) said(markup string) []int32 {
	prompt := f.tok.Prompt()
	prompt.Markup(markup)
	return prompt.IDs()
}

// A rig is a service whose model plays prescribed answers, and the tools that these may call.
type rig struct {
	family
	t       testing.TB
	service *Service
	model   *host.Model

	mu      sync.Mutex
	seeds   []uint64  // of rows that gave the first token of a sequence
	prompts [][]int32 // of each sequence that the engine began, in the order of their first tokens
	calls   []string  // of tools
	boxes   atomic.Int64
}

// A play is what a rig does. The n-th answer to a conversation is played where n results are in
// the prompt: script says so.
type play struct {
	script func(prompt []int32) []int32
	limits map[limits.ID]int64
	info   runner.Info
	cost   time.Duration
	queue  int
	loose  bool
	quiet  bool // prompts are not taken down
}

func newRig(t testing.TB, f family, p play) *rig {
	t.Helper()
	r := &rig{family: f, t: t}
	p.info.Vocab = f.tok.Vocab()
	if p.info.MaxLen == 0 {
		p.info.MaxLen = 4096
	}
	config := sim.Config{Info: p.info, Verify: true, Next: func(history []int32, step uint64) int32 {
		if step == 0 && !p.quiet {
			r.mu.Lock()
			if prompt := slices.Clone(history); !slices.ContainsFunc(r.prompts, func(known []int32) bool { return slices.Equal(known, prompt) }) {
				r.prompts = append(r.prompts, prompt)
			}
			r.mu.Unlock()
		}
		return sim.Reply(p.script)(history, step)
	}}
	config.OnLaunch = func(_ int, batch *runner.Batch) error {
		for i := range batch.Rows {
			if row := &batch.Rows[i]; row.Sample && row.OutputIndex == 0 && !p.quiet {
				r.mu.Lock()
				r.seeds = append(r.seeds, row.Params.Seed)
				r.mu.Unlock()
			}
		}
		return nil
	}
	if p.cost > 0 {
		config.Cost = func(*runner.Batch) time.Duration { return p.cost }
	}
	script, err := sim.NewScript(config)
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	var cfg engine.Config
	cfg.Sched.MaxQueue = p.queue
	e, err := engine.New(script, cfg, log)
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- e.Run(ctx) }()
	t.Cleanup(func() {
		end()
		if err := <-ran; err != nil {
			t.Errorf("engine: %v", err)
		}
		if n := r.boxes.Load(); n != 0 {
			t.Errorf("%d sessions are open", n)
		}
	})
	lim := limits.Defaults()
	lim[limits.CompileTime] = limits.CompileTime.Info().Max
	for id, value := range p.limits {
		lim[id] = value
	}
	r.model = &host.Model{Engine: e, Tokenizer: f.tok, Format: f.format, Stops: f.format.Stops(), Vocab: f.tok.Vocab(), Defaults: sample.Params{Temperature: 1}}
	r.service = New(Config{Limits: func() *limits.Set { return lim }, Metrics: metrics.New(metrics.Config{}), Log: log, Random: func() uint64 { return 7 }, Loose: p.loose, Replies: new(atomic.Int64)})
	return r
}

// counted returns a script that gives the n-th text where the prompt has n of the mark.
func (f *family) counted(mark string, texts ...string) func([]int32) []int32 {
	marks, replies := f.said(mark), make([][]int32, len(texts))
	for i, text := range texts {
		replies[i] = f.said(text)
	}
	return func(prompt []int32) []int32 {
		n := 0
		for i := range prompt {
			if i+len(marks) <= len(prompt) && slices.Equal(prompt[i:i+len(marks)], marks) {
				n++
			}
		}
		return replies[min(n, len(replies)-1)]
	}
}

// A played server answers calls with a function.
type played struct {
	name  string
	call  func(ctx context.Context, call tools.Call) tools.Result
	cite  func(cursor, line int) (tools.Source, bool)
	rig   *rig
	close func()
}

func (p *played) Name() string { return p.name }
func (p *played) Namespace(context.Context) (tools.Namespace, error) {
	return tools.Namespace{Name: p.name}, nil
}
func (p *played) Status() tools.Status { return tools.Status{Name: p.name, Works: true} }
func (p *played) Open(tools.Chain) tools.Session {
	p.rig.boxes.Add(1)
	return &playedSession{p}
}

type playedSession struct{ *played }

func (s *playedSession) Call(ctx context.Context, call tools.Call) tools.Result {
	s.rig.mu.Lock()
	s.rig.calls = append(s.rig.calls, s.name+"."+call.Tool+" "+call.Arguments)
	s.rig.mu.Unlock()
	return s.call(ctx, call)
}
func (s *playedSession) Cite(cursor, line int) (tools.Source, bool) {
	if s.cite == nil {
		return tools.Source{}, false
	}
	return s.cite(cursor, line)
}
func (s *playedSession) State() json.RawMessage { return json.RawMessage(`1`) }
func (s *playedSession) Close() {
	if s.close != nil {
		s.close()
	}
	s.rig.boxes.Add(-1)
}

// namespaces are a browser and an interpreter, as models are told of them.
var namespaces = []chat.Namespace{
	{Name: "python", Description: "Runs code."},
	{Name: "browser", Description: "Tool for browsing.", Tools: []chat.Tool{
		{Name: "search", Description: "Searches.", Parameters: json.RawMessage(`{"type":"object","properties":{"query":{"type":"string"}}}`)},
		{Name: "open", Parameters: json.RawMessage(`{"type":"object","properties":{"id":{"type":"number"}}}`)}}},
}

// offers are the same for a box, of which server answers all calls.
func (r *rig) offers(server *played) []tools.Offer {
	server.rig = r
	browser, python := *server, *server
	browser.name, python.name = "browser", "python"
	return []tools.Offer{
		{Server: &browser, Kind: tools.Browser, Namespace: tools.Namespace{Name: "browser", Tools: []tools.Tool{{Name: "search"}, {Name: "open"}}}},
		{Server: &python, Kind: tools.Python, Namespace: tools.Namespace{Name: "python"}},
	}
}

// ask returns a generation that may call the tools.
func (r *rig) ask(server *played, change ...func(*Generation)) *Generation {
	r.t.Helper()
	conv := &chat.Conversation{Turns: []chat.Turn{{Role: chat.User, Parts: []string{"Who won?"}}}, Builtins: namespaces, Now: time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)}
	offers := r.offers(server)
	gen := &Generation{Sampling: &wire.Sampling{}, Model: r.model, Received: time.Now(),
		Builtin: &Builtin{Conversation: conv, Waits: true, Places: Places{Tool: func(i int) string { return fmt.Sprintf("tools[%d]", i) }},
			Open: func(int) *tools.Box { return tools.Open(offers, tools.Chain{}) }}}
	for _, apply := range change {
		apply(gen)
	}
	prompt, err := r.service.Render(r.model, "messages", conv)
	if err != nil {
		r.t.Fatal(err)
	}
	gen.Prompts = [][]int32{prompt.IDs()}
	gen.Parser = func() chat.Parser { return r.format.Parser(conv) }
	if gen.Constraint, _, err = r.service.Constrain(r.t.Context(), r.model, conv, &gen.Builtin.Rules, gen.Builtin.Places); err != nil {
		r.t.Fatal(err)
	}
	return gen
}

// A told output keeps what it is told, and says it in words.
type told struct {
	job    *Job
	story  []strings.Builder
	deltas [][]Delta
	idle   atomic.Int64
	watch  func(choice int, delta *Delta) error
	err    error
}

func (o *told) Open(int)      {}
func (o *told) Idle() error   { o.idle.Add(1); return nil }
func (o *told) Finish() error { return nil }
func (o *told) Flush(int) error {
	return o.err
}
func (o *told) Token(i int) {
	answer := o.job.answers[i]
	for k := range answer.Deltas {
		delta := answer.Deltas[k]
		o.deltas[i] = append(o.deltas[i], delta)
		o.tell(&o.story[i], &delta)
		if o.watch != nil && o.err == nil {
			o.err = o.watch(i, &delta)
		}
	}
	answer.Taken()
	if answer.Done {
		fmt.Fprintf(&o.story[i], " %s.", answer.Finish)
	}
}

// tell writes a delta; text of one field goes on where the one before ended.
func (o *told) tell(to *strings.Builder, d *Delta) {
	name := map[Field]string{Content: "content", Reasoning: "reasoning", CallArguments: "arguments", CallName: "call", ItemBegins: "item", ItemEnds: "end",
		ToolBegins: "begins", ToolArguments: "with", ToolRuns: "runs", ToolEnds: "ends", ToolAsks: "asks", Cited: "cited"}[d.Field]
	text := d.Text
	if d.Tool != nil {
		name += fmt.Sprintf(":%d", d.Tool.Index)
		switch d.Field {
		case ToolBegins:
			text = d.Tool.Recipient
		case ToolRuns, ToolAsks:
			text = d.Tool.Arguments
		case ToolEnds:
			if text = ""; d.Tool.Result != nil {
				text = d.Tool.Result.Text
			}
		}
	}
	if d.Citation != nil {
		text = fmt.Sprintf("%d-%d %s", d.Citation.Start, d.Citation.End, d.Citation.URL)
	}
	if d.Cut {
		name += "!"
	}
	so, joins := to.String(), d.Field < CallName || d.Field == ToolArguments
	if last := strings.LastIndex(so, " "+name+"["); joins && last >= 0 && !strings.Contains(so[last:], "]") {
		to.WriteString(text)
		return
	}
	if open := strings.LastIndex(so, "["); open > strings.LastIndex(so, "]") {
		to.WriteString("]")
	}
	to.WriteString(" " + name + "[" + text)
	if !joins {
		to.WriteString("]")
	}
}

// run runs a generation to its end.
func (r *rig) run(ctx context.Context, gen *Generation, watch func(int, *Delta) error) (*told, *Job, error) {
	r.t.Helper()
	job, err := r.service.Start(ctx, gen)
	if err != nil {
		r.t.Fatal(err)
	}
	out := &told{job: job, story: make([]strings.Builder, len(job.answers)), deltas: make([][]Delta, len(job.answers)), watch: watch}
	err = job.Run(ctx, out, time.Minute)
	return out, job, err
}

// tell runs a generation and returns what its first choice did, in words.
func (r *rig) tell(gen *Generation) string {
	r.t.Helper()
	out, job, err := r.run(r.t.Context(), gen, nil)
	defer job.Close()
	if err != nil {
		r.t.Fatal(err)
	}
	return closed(&out.story[0])
}

// closed is a story with the bracket that its last text has open.
func closed(story *strings.Builder) string {
	text := story.String()
	if open := strings.LastIndex(text, "["); open > strings.LastIndex(text, "]") {
		end := strings.LastIndex(text, " ")
		text = text[:end] + "]" + text[end:]
	}
	return strings.TrimSpace(text)
}

// echoing answers a call with what it was called with.
func echoing() *played {
	return &played{call: func(_ context.Context, call tools.Call) tools.Result {
		return tools.Result{Text: "<" + call.Tool + " " + call.Arguments + ">"}
	}}
}
