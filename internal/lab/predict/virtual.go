package predict

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"ossian/internal/runner"
	"ossian/internal/sched"
)

// Virtual time: the real scheduler and its blocks, with a clock in place of a device. Nothing here
// knows how long a kernel takes, nor who is preempted.

// A step is one batch as it was planned: what it asked, and when it could begin. Together with
// the requests it lets the same schedule be timed again with other parameters.
type step struct {
	load     Load
	notStart float64 // it cannot begin before, whatever the clock says; 0 = at once behind the one before
	regular  int     // ids whose sequence also got one in the step before
}

// A timed request: numbers of steps are from 0 in the run.
type timed struct {
	request     *Request
	sent        float64 // seconds since the run began
	after       int     // steps that had ended by then
	first, last int     // steps that gave its first and its last token
	early       float64 // when its first token had left the front end
	end         float64 // when its last one had
	tokens      int
	seq         *sched.Seq
}

// A run is one workload in virtual time.
type run struct {
	requests []timed
	steps    []step
	ends     []float64 // [step] seconds
	gaps     []gap     // between the tokens of a sequence that are not of neighbouring steps
	front    float64   // seconds in which only the front end worked
	idle     float64   // seconds in which nothing did
	interval int       // tokens in a chunk
	peak     float64   // highest share of a pool that was held
	before   sched.Stats
	after    sched.Stats
}

// A gap lies between the tokens that two steps gave.
type gap struct{ from, to int }

// A world is a server in virtual time; runs follow one another on it.
type world struct {
	info     runner.Info
	sched    *sched.Scheduler
	clock    *Clock
	now      float64
	nextID   uint64
	result   runner.Result
	token    []int32
	prefix   []int32 // what a template puts before and behind a prompt
	suffix   []int32
	vocab    int32
	interval int     // tokens in a chunk
	held     float64 // share of the memory's blocks that the pools have, where not all can be of use
	perChat  float64 // seconds of a chat request in the front end
}

// newWorld starts a server with the pools of a memory plan.
func newWorld(s *Scenario, r resolved, memory Memory, clock *Clock) (*world, error) {
	w := &world{clock: clock, vocab: int32(s.Model.Spec.Vocab), token: []int32{0}, perChat: clock.rate.front}
	before, behind := templateTokens(s.Model.Spec.Family)
	w.interval = max(s.Settings.Interval, 1)
	w.held = shrink(s, r, &memory, before+behind)
	w.info = runner.Info{Name: "virtual", Vocab: s.Model.Spec.Vocab, BlockSize: r.blockSize, Groups: memory.Groups,
		MaxSeqs: r.sequences, MaxTokens: r.tokens, MaxLen: r.maxLen, Depth: 1}
	config := sched.Config{MaxQueue: math.MaxInt32, NoPrefixCache: !r.caching, NoReserve: s.Engine.NoReserve}
	if memory.Shared {
		config.SharedBlocks = memory.Blocks
	}
	var err error
	if w.sched, err = sched.New(config, w.info); err != nil {
		return nil, fmt.Errorf("%s on %s: %w", s.Model.Spec.Name, s.Machine.Name, err)
	}
	w.prefix, w.suffix = make([]int32, before), make([]int32, behind)
	for i := range w.prefix {
		w.prefix[i] = int32(i) % w.vocab
	}
	return w, nil
}

// shrink takes blocks from the pools that no request will ever reach, so that starting a server
// does not take longer than its run, and returns which share is left.
func shrink(s *Scenario, r resolved, memory *Memory, template int) float64 {
	if len(memory.Groups) > 1 && !memory.Shared {
		return 1
	}
	need := 2 * r.sequences
	for _, load := range append(slices.Clone(s.Session), s.Workload) {
		for _, request := range load.Requests {
			need += blocksOf(len(request.Prompt)+request.Output+template, r.blockSize) + 1
		}
	}
	need *= len(memory.Groups)
	if len(s.Workload.Requests) == 0 || need >= memory.Blocks {
		return 1
	}
	share := float64(need) / float64(memory.Blocks)
	memory.Blocks, memory.Groups = need, slices.Clone(memory.Groups)
	for group := range memory.Groups {
		memory.Groups[group].Blocks = need
	}
	return share
}

// templateTokens are how many tokens a chat template puts before and behind one user message,
// counted on the published templates with their default system messages.
func templateTokens(family string) (before, behind int) {
	switch family {
	case "gpt-oss":
		return 64, 4
	case "qwen3", "qwen3moe":
		return 3, 5
	}
	return 30, 5
}

// epoch is when virtual time begins.
var epoch = time.Unix(0, 0)

func (w *world) time() time.Time { return epoch.Add(time.Duration(w.now * float64(time.Second))) }

// play runs a workload to its end and returns what happened when.
func (w *world) play(ctx context.Context, load *Workload) (*run, error) {
	begin, base := w.now, w.nextID
	played := &run{requests: make([]timed, len(load.Requests)), interval: w.interval, before: w.sched.Stats()}
	for i := range load.Requests {
		played.requests[i] = timed{request: &load.Requests[i], first: -1}
	}
	gate := front{free: begin}
	if load.Chat {
		gate.hand = math.Min(handOver, w.perChat/2)
		gate.render = w.perChat - gate.hand
	}
	sent, open := 0, 0
	// send hands in whatever is due and may be in flight.
	send := func() {
		for sent < len(load.Requests) && (load.Concurrency == 0 || open < load.Concurrency) {
			if at := begin + load.Requests[sent].At.Seconds(); at > w.now {
				return
			}
			played.requests[sent].sent, played.requests[sent].after = w.now-begin, len(played.steps)
			gate.add(sent, w.now)
			sent, open = sent+1, open+1
		}
	}
	waited := 0.0 // seconds until which the next step has to wait
	for done := 0; done < len(load.Requests); {
		if len(played.steps)&1023 == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		send()
		if err := w.admit(&gate, load, played); err != nil {
			return nil, err
		}
		batch := w.sched.Plan(w.time())
		if batch == nil {
			next := gate.next()
			working := !math.IsInf(next, 1)
			if sent < len(load.Requests) && (load.Concurrency == 0 || open < load.Concurrency) {
				next = math.Min(next, begin+load.Requests[sent].At.Seconds())
			}
			if math.IsInf(next, 1) {
				return nil, fmt.Errorf("workload %q: the scheduler has nothing to run, %d of %d requests have ended", load.Name, done, len(load.Requests))
			}
			if spent := math.Max(next-w.now, 0); working {
				played.front += spent
			} else {
				played.idle += spent
			}
			w.now = math.Max(next, w.now) + 1e-9
			waited = w.now - begin
			continue
		}
		ended := w.step(batch, played, begin, base, waited, &gate)
		waited, done, open = 0, done+ended, open-ended
	}
	played.after = w.sched.Stats()
	return played, nil
}

// admit gives the scheduler what has passed the front end.
func (w *world) admit(gate *front, load *Workload, played *run) error {
	gate.advance(w.now)
	for len(gate.reached) > 0 {
		number := gate.reached[0].id
		gate.reached = gate.reached[1:]
		request := load.Requests[number]
		seq := &sched.Seq{ID: w.nextID + uint64(number), Tokens: w.ids(request.Prompt, load.Chat), MaxTokens: request.Output, Params: greedy}
		if err := w.sched.Add(seq); err != nil {
			return fmt.Errorf("workload %q, request %d: %w", load.Name, number, err)
		}
		played.requests[number].seq = seq
	}
	return nil
}

// ids are the tokens that a server sees: the prompt folded into the vocabulary, in its template.
func (w *world) ids(prompt []int32, chat bool) []int32 {
	ids := make([]int32, 0, len(prompt)+len(w.prefix)+len(w.suffix))
	if chat {
		ids = append(ids, w.prefix...)
	}
	for _, id := range prompt {
		ids = append(ids, id%w.vocab)
	}
	if chat {
		ids = append(ids, w.suffix...)
	}
	return ids
}

// step lets one batch pass and returns how many requests have ended with it.
func (w *world) step(batch *runner.Batch, played *run, begin float64, base uint64, waited float64, gate *front) (ended int) {
	load := w.clock.Load(batch.Rows)
	times := w.clock.Times(&load)
	for _, seconds := range times {
		w.now += seconds
	}
	w.result.Tokens = w.result.Tokens[:0]
	for i := range batch.Rows {
		if batch.Rows[i].Sample {
			w.result.Tokens = append(w.result.Tokens, w.token)
		} else {
			w.result.Tokens = append(w.result.Tokens, nil)
		}
	}
	number := len(played.steps)
	entry := step{load: load, notStart: waited}
	played.peak = math.Max(played.peak, w.held*w.sched.Held())
	leaves := math.NaN() // when a first token of this step leaves the front end
	for _, output := range w.sched.Commit(batch, &w.result, w.time()) {
		request := &played.requests[output.ID-base]
		switch {
		case request.first < 0:
			if math.IsNaN(leaves) {
				leaves = gate.idleAt(w.now) - begin
			}
			request.first, request.early = number, leaves
		case request.last == number-1:
			entry.regular++
		default:
			played.gaps = append(played.gaps, gap{request.last, number})
		}
		request.last = number
		request.tokens++
		if output.Finish != sched.FinishNone {
			request.end = math.Max(w.now-begin, request.early)
			request.seq = nil
			ended++
		}
	}
	played.steps = append(played.steps, entry)
	played.ends = append(played.ends, w.now-begin)
	return ended
}

// nextRun makes room for the ids of the next run.
func (w *world) nextRun(requests int) { w.nextID += uint64(requests) }
