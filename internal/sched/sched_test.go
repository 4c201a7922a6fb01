package sched

import (
	"errors"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"ossian/internal/draft"
	"ossian/internal/runner"
	"ossian/internal/sample"
	"ossian/internal/soak"
)

// choose makes a choice from [0, n): of a random source, or of a fuzzer's bytes.
type choose func(n int) int

func randomInfo(c choose) runner.Info {
	info := runner.Info{Name: "fake", Vocab: 30 + c(50), BlockSize: 1 + c(5), MaxSeqs: 1 + c(8), MaxTokens: 1 + c(40), Depth: 1 + c(3), Lookahead: c(6)}
	groups := [][]int{{0}, {0}, {0, 1 + c(12)}, {1 + c(12), 0}, {1 + c(12)}, {3, 0, 1 + c(20)}}[c(6)]
	blocks := 4 + c(40)
	for _, w := range groups {
		g := runner.Group{Blocks: blocks + c(8), Window: w}
		if w > 0 && c(2) == 0 { // what one sequence needs to go on at all, or little more
			g.Blocks = (w+2*info.BlockSize-3)/info.BlockSize + 1 + c(4)
		}
		info.Groups = append(info.Groups, g)
	}
	info.MaxLen = max(2, blocks*info.BlockSize-c(5))
	return info
}

// randomRequest makes prompts that share beginnings, which is where things go wrong.
func randomRequest(c choose, info runner.Info, now time.Time) *request {
	r := &request{tenant: uint32(c(3)), salt: uint64(c(8) / 7), prompt: make([]int32, 1+c(30)), output: 1 + c(20)}
	kind := int32(c(2))
	for i := range r.prompt {
		r.prompt[i] = (int32(i)*kind + kind) % 5
	}
	if c(3) > 0 {
		r.prompt[c(len(r.prompt))] = int32(c(info.Vocab))
	}
	if c(4) == 0 {
		r.priority = c(3) - 1
	}
	if c(2) == 0 {
		r.stops = []int32{int32(c(info.Vocab)), 3}
		r.atLeast = max(c(10)-4, 0)
	}
	if c(3) == 0 {
		r.params = sample.Params{Seed: uint64(c(1000)), Logprobs: true, TopLogprobs: c(3)}
	}
	if c(4) == 0 {
		r.params.PromptLogprobs, r.params.TopPromptLogprobs = true, c(3)
	}
	r.rhymes, r.even = c(5) == 0, c(6) == 0
	if c(12) == 0 {
		r.deadline = now.Add(time.Duration(c(40)) * time.Second)
	}
	if c(12) == 0 {
		r.startBy = now.Add(time.Duration(c(20)) * time.Second)
	}
	return r
}

// guesses are of earlier text, so many a row.
func guesses(n int, adaptive bool) *Guesses {
	settings := &draft.Settings{Method: draft.Suffix, Tokens: n, Shortest: 2, Adaptive: adaptive, CachedRequests: 100}
	return &Guesses{Settings: settings, Store: settings.NewStore(), Chooser: settings.NewChooser()}
}

// play adds, aborts and steps as chosen, then runs to the end and compares all with
// the reference.
func play(t *testing.T, c choose, requests, ops int) *world {
	t.Helper()
	info := randomInfo(c)
	config := Config{ChunkLimit: c(3) * 3, NoPrefixCache: c(6) == 0, MaxQueue: 5 + c(20), NoReserve: c(4) == 0}
	if c(4) == 0 {
		config.SharedBlocks = 20 + c(60)
		for _, group := range info.Groups { // a whole window of each must fit, and something beside them
			config.SharedBlocks += group.Window
		}
		for g := range info.Groups {
			info.Groups[g].Blocks = config.SharedBlocks
		}
	}
	config.Guesses = guesses(1+c(7), c(4) == 0)
	w := newWorld(t, config, info)
	w.guessAnything(c)
	for range ops {
		if c(10) == 0 {
			w.s.LimitPrompts(c(3) * 2)
		}
		switch c(8) {
		case 0, 1, 2:
			if len(w.traces) == requests {
				break
			}
			for range 1 + 3*(c(4)/3) { // sometimes several at once
				err := w.add(randomRequest(c, info, w.now))
				if err != nil && !errors.Is(err, ErrNeverFits) && !errors.Is(err, ErrQueueFull) {
					t.Fatal(err)
				}
			}
		case 3:
			switch n := len(w.traces); {
			case n > 0 && c(4) == 0:
				w.abort(c(n))
			case c(4) == 0:
				w.forget()
			}
		case 4:
			w.launch()
		case 5:
			if len(w.flight) > 0 {
				w.commit()
			}
		default:
			w.step()
			w.now = w.now.Add(time.Second)
		}
	}
	w.finish()
	return w
}

// TestDET1Schedules: whatever else happens, in whatever order and chunks, everybody
// gets the ids it gets alone.
func TestDET1Schedules(t *testing.T) {
	t.Parallel()
	worlds := soak.Cases(t, 500, 10_000)
	var total Stats
	var aborts, finishes [FinishError + 1]int
	seed := uint64(0)
	defer func() {
		if t.Failed() {
			t.Logf("seed %d", seed)
		}
	}()
	for ; seed < uint64(worlds); seed++ {
		rng := rand.New(rand.NewPCG(seed, 1))
		w := play(t, rng.IntN, 12, 60+rng.IntN(100))
		st := w.s.Stats()
		total.Steps += st.Steps
		total.Preemptions += st.Preemptions
		total.CacheHits += st.CacheHits
		total.Dropped += st.Dropped
		total.Guesses.Add(&st.Guesses)
		for _, tr := range w.traces {
			finishes[tr.finish]++
			if tr.aborted {
				aborts[tr.finish]++
			}
		}
	}
	t.Logf("DET-1: %d random schedules, %d steps, %d preemptions, %d cached tokens, %d results dropped, finishes %v, %d aborted, 0 mismatches",
		worlds, total.Steps, total.Preemptions, total.CacheHits, total.Dropped, finishes, aborts[FinishNone])
	t.Logf("SPC-3: guesses %+v", total.Guesses)
	n := uint64(worlds)
	if right := total.Guesses.Accepted; min(right[draft.FromIndex], right[draft.FromStore]) < n || total.Guesses.Unchecked[draft.FromIndex] < n/4 {
		t.Errorf("guesses %+v: too few to show anything", total.Guesses)
	}
	if total.Preemptions < n/3 || total.CacheHits < n || total.Dropped < n/4 || aborts[FinishNone] < worlds/4 ||
		slices.Min(finishes[FinishStop:FinishAbort]) < worlds/2 || slices.Min(finishes[FinishDeadline:]) < worlds/20 {
		t.Error("too little happened: these worlds prove nothing")
	}
}

// FuzzScheduler plays what the bytes say.
func FuzzScheduler(f *testing.F) {
	for seed := range uint64(6) {
		rng := rand.New(rand.NewPCG(seed, 2))
		data := make([]byte, 400)
		for i := range data {
			data[i] = byte(rng.Uint32())
		}
		f.Add(data)
	}
	f.Add([]byte("one"))
	f.Fuzz(func(t *testing.T, data []byte) {
		play(t, func(n int) int {
			if len(data) == 0 {
				return 0
			}
			v := int(data[0]) % n
			data = data[1:]
			return v
		}, 12, min(len(data)/4, 200))
	})
}

var plain = runner.Info{Name: "fake", Vocab: 100, BlockSize: 4, Groups: []runner.Group{{Blocks: 64}}, MaxSeqs: 4, MaxTokens: 32, MaxLen: 64, Depth: 1}

func ids(from, n int) []int32 {
	p := make([]int32, n)
	for i := range p {
		p[i] = int32((from + i) % 100)
	}
	return p
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		change func(*Config, *runner.Info)
		want   string // "" = right
	}{
		{"right", func(*Config, *runner.Info) {}, ""},
		{"negative chunk", func(c *Config, _ *runner.Info) { c.ChunkLimit = -1 }, "must not be negative"},
		{"no rows", func(_ *Config, i *runner.Info) { i.MaxSeqs = 0 }, "must be positive"},
		{"no groups", func(_ *Config, i *runner.Info) { i.Groups = nil }, "must be positive"},
		{"negative lookahead", func(_ *Config, i *runner.Info) { i.Lookahead = -1 }, "must be positive"},
		{"no room", func(_ *Config, i *runner.Info) { i.MaxLen = 1 }, "not even two tokens"},
		{"no blocks", func(_ *Config, i *runner.Info) { i.Groups = []runner.Group{{Blocks: 64}, {Window: 8}} }, "not even two tokens"},
		{"shared memory of another size", func(c *Config, i *runner.Info) { c.SharedBlocks, i.Groups = 63, []runner.Group{{Blocks: 64}} }, "expected as many"},
		{"shared memory for windows alone", func(c *Config, i *runner.Info) {
			c.SharedBlocks, i.Groups = 8, []runner.Group{{Blocks: 8}, {Blocks: 8, Window: 8 * i.BlockSize}}
		}, "not even two tokens"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var cfg Config
			info := plain
			tt.change(&cfg, &info)
			_, err := New(cfg, info)
			if (tt.want == "" && err != nil) || (tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want))) {
				t.Errorf("got error %v, want %q", err, tt.want)
			}
		})
	}
}

func TestAddRefuses(t *testing.T) {
	t.Parallel()
	p := &sample.Params{}
	for _, tt := range []struct {
		name string
		q    Seq
		is   error  // nil = any
		want string // "" = accepted
	}{
		{name: "right", q: Seq{ID: 2, Tokens: ids(0, 40), MaxTokens: 24, Params: p}},
		{name: "empty prompt", q: Seq{ID: 2, MaxTokens: 1, Params: p}, want: "prompt of 0 tokens"},
		{name: "no output", q: Seq{ID: 2, Tokens: ids(0, 4), Params: p}, want: "output of 0"},
		{name: "no parameters", q: Seq{ID: 2, Tokens: ids(0, 4), MaxTokens: 1}, want: "each must be there"},
		{name: "id outside", q: Seq{ID: 2, Tokens: []int32{5, 100}, MaxTokens: 1, Params: p}, want: "token 1 has id 100"},
		{name: "pending id", q: Seq{ID: 2, Tokens: []int32{5, runner.Pending}, MaxTokens: 1, Params: p}, want: "token 1 has id -1"},
		{name: "known id", q: Seq{ID: 1, Tokens: ids(0, 4), MaxTokens: 1, Params: p}, want: "added before"},
		{name: "too long", q: Seq{ID: 2, Tokens: ids(0, 40), MaxTokens: 25, Params: p}, is: ErrNeverFits, want: "prompt of 40 tokens, output of 25, room for 64"},
		{name: "overflow", q: Seq{ID: 2, Tokens: ids(0, 40), MaxTokens: 1<<63 - 1, Params: p}, is: ErrNeverFits, want: "never fits"},
		{name: "prompt too long", q: Seq{ID: 2, Tokens: ids(0, 64), MaxTokens: 1, Params: p}, is: ErrNeverFits, want: "never fits"},
		{name: "too many tokens wait", q: Seq{ID: 2, Tokens: ids(0, 41), MaxTokens: 1, Params: p}, is: ErrQueueFull, want: "10 tokens wait, at most 50"},
		{name: "too few allowed bits", q: Seq{ID: 2, Tokens: ids(0, 4), MaxTokens: 3, Allowed: []uint64{5}, Params: p}, want: "1 words, vocabulary needs 2"},
		{name: "no bit set", q: Seq{ID: 2, Tokens: ids(0, 4), MaxTokens: 3, Allowed: []uint64{0, 0}, Params: p}, want: "no id may come next"},
		{name: "nothing allowed", q: Seq{ID: 2, Tokens: ids(0, 4), MaxTokens: 3, MinTokens: 1, Stops: ids(0, 100), Params: p}, want: "no id may come next"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, err := New(Config{MaxQueueTokens: 50}, plain)
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Add(&Seq{ID: 1, Tokens: ids(0, 10), MaxTokens: 1, Params: p}); err != nil {
				t.Fatal(err)
			}
			err = s.Add(&tt.q)
			if (tt.want == "" && err != nil) || (tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want))) || (tt.is != nil && !errors.Is(err, tt.is)) {
				t.Errorf("got error %v, want %q (%v)", err, tt.want, tt.is)
			}
			if st := s.Stats(); tt.want != "" && st.Waiting != 1 {
				t.Errorf("%d wait after a refusal", st.Waiting)
			}
			if err := s.Check(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestQueueIsBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Config{MaxQueue: 3}, plain)
	r := &request{prompt: ids(0, 5), output: 4}
	for range 3 {
		if err := w.add(r); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.add(r); !errors.Is(err, ErrQueueFull) {
		t.Errorf("the fourth of three: %v", err)
	}
	w.step() // they run now
	if err := w.add(r); err != nil {
		t.Errorf("after a step: %v", err)
	}
	w.finish()
}

// The caller's prompt is not written to, even when several share its memory.
func TestPromptIsCopied(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Config{}, plain)
	prompt := ids(0, 20)
	for range 3 {
		if err := w.add(&request{prompt: prompt[:10], output: 5}); err != nil {
			t.Fatal(err)
		}
	}
	w.finish()
	if !slices.Equal(prompt, ids(0, 20)) {
		t.Errorf("prompt is now %v", prompt)
	}
}

func TestCommitRefusesOtherBatches(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Config{}, plain)
	if err := w.add(&request{prompt: ids(0, 5), output: 4}); err != nil {
		t.Fatal(err)
	}
	b := w.launch()
	for name, f := range map[string]func(){
		"other batch": func() { w.s.Commit(&runner.Batch{}, &runner.Result{}, w.now) },
		"no results":  func() { w.s.Commit(b, &runner.Result{}, w.now) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			f()
		}()
	}
}

// Check must find what it is there for.
func TestCheckFinds(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(s *Scheduler, q *Seq){
		"a lost row":        func(_ *Scheduler, q *Seq) { q.inFlight-- },
		"a lost sample":     func(_ *Scheduler, q *Seq) { q.pending-- },
		"a wrong position":  func(_ *Scheduler, q *Seq) { q.launched += 2 },
		"a wrong slot":      func(_ *Scheduler, q *Seq) { q.slot++ },
		"a free slot":       func(s *Scheduler, q *Seq) { s.freeSlots = append(s.freeSlots, q.slot) },
		"a made up slot":    func(s *Scheduler, _ *Seq) { s.freeSlots = append(s.freeSlots, 99) },
		"a closed table":    func(s *Scheduler, q *Seq) { s.kv.Close(q.table) },
		"no table":          func(_ *Scheduler, q *Seq) { q.table = nil },
		"a lost sequence":   func(s *Scheduler, q *Seq) { delete(s.seqs, q.ID) },
		"a state":           func(_ *Scheduler, q *Seq) { q.state = leaving },
		"a miscount":        func(s *Scheduler, _ *Seq) { s.queued++ },
		"a tenant's slots":  func(_ *Scheduler, q *Seq) { q.tenant.slots++ },
		"a queued resident": func(_ *Scheduler, q *Seq) { q.tenant.waiting = insert(q.tenant.waiting, q) },
		"a broken queue":    func(s *Scheduler, q *Seq) { slices.Reverse(q.tenant.waiting) },
		"a stale claim":     func(s *Scheduler, q *Seq) { s.reserved = q },
		"a lost score":      func(_ *Scheduler, q *Seq) { q.scores = append(q.scores, sample.Score{}) },
	} {
		w := newWorld(t, Config{}, plain)
		for range 6 { // four slots
			if err := w.add(&request{prompt: ids(len(w.traces)*9, 5), output: 4}); err != nil {
				t.Fatal(err)
			}
		}
		w.launch()
		if spoil(w.s, w.traces[1].q); w.s.Check() == nil {
			t.Errorf("%s is not found", name)
		}
	}
}

// ARCHITECTURE.md: planning a step is short enough to be read at once. Whose turn it is,
// who is admitted and who gives way is in queue.go, admit.go and preempt.go.
func TestPlanIsShort(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("plan.go")
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(text), "\n"); n > 150 {
		t.Errorf("plan.go has %d lines, budget 150", n)
	}
}
