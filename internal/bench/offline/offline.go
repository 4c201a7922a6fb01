// Package offline measures the engine of this process, as vllm bench throughput and
// vllm bench latency do (bench.md 3): no HTTP and no arrivals. Its users bring a runner
// and a workload and get numbers; they need not know how steps are told apart, or how a
// batch is kept together.
package offline

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"ossian/internal/bench/dataset"
	"ossian/internal/engine"
	"ossian/internal/runner"
	"ossian/internal/sample"
	"ossian/internal/sched"
	"ossian/internal/token"
)

// A Config says what is measured.
type Config struct {
	Runner        runner.Runner // the rig closes it
	Tokenizer     *token.BPE    // writes answers as text; nil = they stay ids
	Allowed       []uint64      // ids that may be sampled, one bit each; nil = all
	NoPrefixCache bool
	ChunkLimit    int          // tokens of a prompt per step; 0 = what the step has room for
	Waiting       int          // sequences that wait at most; 0 = 1024
	Log           *slog.Logger // for faults of the engine
}

// A Rig is a running engine whose steps are counted. One goroutine uses it.
type Rig struct {
	cfg   Config
	rows  int // sequences that run at once
	meter *meter
	eng   *engine.Engine
	end   context.CancelFunc
	ended chan struct{} // closed when the engine has ended
	err   error         // why it did; there when it has
}

// Start runs an engine and has one token go through it. When it returns an error, the
// runner is closed.
func Start(ctx context.Context, cfg Config) (*Rig, error) {
	info := cfg.Runner.Info()
	g := &Rig{cfg: cfg, rows: min(info.MaxSeqs, info.MaxTokens), meter: &meter{Runner: cfg.Runner}, ended: make(chan struct{})}
	var err error
	g.eng, err = engine.New(g.meter, engine.Config{
		Sched:    sched.Config{MaxQueue: cfg.Waiting, NoPrefixCache: cfg.NoPrefixCache, ChunkLimit: cfg.ChunkLimit},
		Restarts: -1, // what has a fault in it is no measurement
	}, cfg.Log)
	if err != nil {
		return nil, errors.Join(err, cfg.Runner.Close())
	}
	running, end := context.WithCancel(context.WithoutCancel(ctx))
	g.end = end
	go func() {
		defer close(g.ended)
		g.err = g.eng.Run(running)
	}()
	if err := g.eng.Probe(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("warming up: %w", err), g.Close())
	}
	return g, nil
}

// Close ends the engine and closes the runner. Its error says why requests failed, if
// the engine did.
func (g *Rig) Close() error {
	g.end()
	<-g.ended
	return g.err
}

// A Load is what a measurement submits. No answer ends before it has the tokens asked for.
type Load struct {
	Queries  []dataset.Query
	IDs      func(*dataset.Query) ([]int32, error) // the prompt's ids; the time counts; nil = Query.IDs
	N        int                                   // answers to each prompt
	Seed     int64                                 // of the sampling
	Temp     float32                               // of the sampling; 0 = greedy
	Progress func(tokens int)                      // is told how many tokens each step computed; nil = nobody is
}

func (l *Load) ids(q *dataset.Query) ([]int32, error) {
	if l.IDs == nil {
		return q.IDs, nil
	}
	return l.IDs(q)
}

func (l *Load) seeds() *rand.Rand { return rand.New(rand.NewPCG(uint64(l.Seed), 0)) }

// Uniform returns batch prompts of input ids that are uniform below 10000, or below vocab
// if that is less, as numpy's global generator draws them (bench.md 3.2).
func Uniform(seed int64, batch, input, output, vocab int) ([]dataset.Query, error) {
	g, err := dataset.NewLegacy(seed)
	if err != nil {
		return nil, err
	}
	queries := make([]dataset.Query, batch)
	for i := range queries {
		ids := make([]int32, input)
		for j := range ids {
			ids[j] = int32(g.Randint(0, min(10000, vocab)))
		}
		queries[i] = dataset.Query{IDs: ids, Input: input, Output: output}
	}
	return queries, nil
}

// Fits returns an error if a prompt and its answer have more tokens than room.
func Fits(prompt, output, room int) error {
	if prompt+output <= room {
		return nil
	}
	return fmt.Errorf("%d tokens of prompt and %d of output do not fit into a sequence of %d: ask for less (--input-len, --output-len), or for more room with --max-model-len",
		prompt, output, room)
}

// Together returns an error if a batch has more sequences than can run at once, which is
// the smaller of a runner's MaxSeqs and MaxTokens.
func Together(batch, rows int) error {
	if batch <= rows {
		return nil
	}
	return fmt.Errorf("a batch of %d sequences, of which %d can run at once: lower --batch-size or --n, or raise --max-num-seqs and --max-num-batched-tokens", batch, rows)
}

// Throughput submits everything at once and waits for all answers (bench.md 3.1).
func (g *Rig) Throughput(ctx context.Context, l Load) (*Throughput, error) {
	var t tally
	g.meter.reset(l.Progress)
	before := g.eng.Stats().Preemptions
	took, err := g.pass(ctx, &l, l.seeds(), func() {}, &t)
	if err != nil {
		return nil, err
	}
	r := &Throughput{Elapsed: took.Seconds(), Requests: len(l.Queries), Tokens: t.prompt + t.output}
	r.RequestRate, r.TokenRate = per(r.Requests, r.Elapsed), per(r.Tokens, r.Elapsed)
	r.Ossian = g.extend(&l, &t, r.Elapsed, before)
	return r, nil
}

// Latency submits everything as one batch and waits for all answers, so many times
// (bench.md 3.2). The sequences of a batch enter the same step.
func (g *Rig) Latency(ctx context.Context, l Load, iterations int) (*Latency, error) {
	if err := Together(len(l.Queries)*l.N, g.rows); err != nil {
		return nil, err
	}
	var t tally
	g.meter.reset(l.Progress)
	before, seeds, sum := g.eng.Stats().Preemptions, l.seeds(), 0.0
	r := &Latency{}
	for range iterations {
		took, err := g.batch(ctx, &l, seeds, &t)
		if err != nil {
			return nil, err
		}
		r.Latencies = append(r.Latencies, took.Seconds())
		sum += took.Seconds()
	}
	r.Ossian = g.extend(&l, &t, sum, before)
	r.Ossian.Workload.Batches = iterations
	r.summarise()
	return r, nil
}

// batch is one iteration of Latency.
func (g *Rig) batch(ctx context.Context, l *Load, seeds *rand.Rand, t *tally) (time.Duration, error) {
	resume, err := g.pause(ctx)
	if err != nil {
		return 0, err
	}
	defer resume()
	return g.pass(ctx, l, seeds, resume, t)
}

// pause stops the engine's loop at the end of a step made for that, which is not
// counted. What is submitted before resume is called enters the next step together.
func (g *Rig) pause(ctx context.Context) (resume func(), err error) {
	h := &hold{reached: make(chan struct{}), released: make(chan struct{})}
	resume = sync.OnceFunc(func() { close(h.released) })
	g.meter.hold.Store(h)
	if _, err := g.eng.Submit(ctx, engine.Request{Tokens: []int32{0}, MaxTokens: 1}); err != nil {
		resume()
		return nil, err
	}
	select {
	case <-h.reached:
		return resume, nil
	case <-ctx.Done():
		err = ctx.Err()
	case <-g.ended:
		err = engine.ErrStopped
	}
	resume()
	return nil, err
}

// pass submits every prompt, calls submitted, and receives all answers. The time is from
// the first prompt to the last answer, as text where that is wanted.
func (g *Rig) pass(ctx context.Context, l *Load, seeds *rand.Rand, submitted func(), t *tally) (time.Duration, error) {
	ctx, cancel := context.WithCancel(ctx) // an error stops all
	defer cancel()
	began := time.Now()
	streams := make([]*engine.Stream, 0, len(l.Queries)*l.N)
	for i := range l.Queries {
		q := &l.Queries[i]
		ids, err := l.ids(q)
		if err != nil {
			return 0, fmt.Errorf("prompt %d: %w", i, err)
		}
		for range l.N {
			s, err := g.submit(ctx, ids, q.Output, sample.Params{Temperature: l.Temp, TopP: 1, Seed: seeds.Uint64()})
			if err != nil {
				return 0, fmt.Errorf("prompt %d: %w", i, err)
			}
			streams = append(streams, s)
		}
	}
	submitted()
	answers := make([]answer, len(streams))
	for i, s := range streams { // one after another: what has come meanwhile waits in its stream
		var err error
		if answers[i], err = g.finish(ctx, s); err != nil {
			return 0, fmt.Errorf("prompt %d: %w", i/l.N, err)
		}
	}
	took := time.Since(began)
	for i := range answers {
		t.add(&answers[i], i%l.N == 0)
	}
	return took, nil
}

func (g *Rig) submit(ctx context.Context, ids []int32, output int, p sample.Params) (*engine.Stream, error) {
	if output < 1 {
		return nil, fmt.Errorf("%d output tokens are asked for, expected 1 or more", output)
	}
	if err := Fits(len(ids), output, g.eng.Capacity()); err != nil {
		return nil, err
	}
	return g.eng.Submit(ctx, engine.Request{Tokens: ids, MaxTokens: output, Allowed: g.cfg.Allowed, Params: p})
}

// An answer is what the engine says of a sequence that has ended.
type answer struct {
	usage engine.Usage
	times engine.Times
}

// finish receives s to its end.
func (g *Rig) finish(ctx context.Context, s *engine.Stream) (a answer, err error) {
	var text strings.Builder
	var detok *token.Detok
	if g.cfg.Tokenizer != nil {
		detok = g.cfg.Tokenizer.Detok()
	}
	for {
		out, err := s.Recv(ctx)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return a, err
		}
		for i := range out {
			if detok != nil {
				text.WriteString(detok.Push(out[i].ID))
			}
		}
	}
	if detok != nil {
		text.WriteString(detok.Flush())
	}
	why, usage, times := s.End()
	if why != sched.FinishLength || usage.Completion != s.MaxTokens {
		return a, fmt.Errorf("the answer ended by %v after %d tokens, expected %d", why, usage.Completion, s.MaxTokens)
	}
	return answer{usage, times}, nil
}
