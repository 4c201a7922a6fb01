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
	"ossian/internal/draft"
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
	ChunkLimit    int             // tokens of a prompt per step; 0 = what the step has room for
	Waiting       int             // sequences that wait at most; 0 = 1024
	Guesses       *draft.Settings // what steps guess, if the runner takes guesses; nil = nothing
	Log           *slog.Logger    // for faults of the engine
}

// A Rig is a running engine whose steps are counted. One goroutine uses it.
type Rig struct {
	cfg    Config
	rows   int // sequences that run at once
	meter  *meter
	eng    *engine.Engine
	cancel context.CancelFunc
	ended  chan struct{} // closed when the engine has ended
	err    error         // why it did; there when it has
}

// Start runs an engine and has one token go through it. When it returns an error, the
// runner is closed.
func Start(ctx context.Context, cfg Config) (*Rig, error) {
	info := cfg.Runner.Info()
	rig := &Rig{cfg: cfg, rows: min(info.MaxSeqs, info.MaxTokens), meter: &meter{Runner: cfg.Runner}, ended: make(chan struct{})}
	var err error
	rig.eng, err = engine.New(rig.meter, engine.Config{
		Sched:    sched.Config{MaxQueue: cfg.Waiting, NoPrefixCache: cfg.NoPrefixCache, ChunkLimit: cfg.ChunkLimit},
		Guesses:  cfg.Guesses,
		Restarts: -1, // what has a fault in it is no measurement
	}, cfg.Log)
	if err != nil {
		return nil, errors.Join(err, cfg.Runner.Close())
	}
	// The engine outlives ctx, which is for starting; Close ends it.
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	rig.cancel = cancel
	go func() {
		defer close(rig.ended)
		rig.err = rig.eng.Run(running)
	}()
	if err := rig.eng.Probe(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("warming up: %w", err), rig.Close())
	}
	return rig, nil
}

// Close ends the engine and closes the runner. Its error says why requests failed, if
// the engine did.
func (g *Rig) Close() error {
	g.cancel()
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

// ids are those of a query's prompt.
func (l *Load) ids(query *dataset.Query) ([]int32, error) {
	if l.IDs == nil {
		return query.IDs, nil
	}
	return l.IDs(query)
}

// seeds gives each answer a seed of its own; the same load gives the same ones.
func (l *Load) seeds() *rand.Rand { return rand.New(rand.NewPCG(uint64(l.Seed), 0)) }

// Uniform returns batch prompts of input ids that are uniform below 10000, or below vocab
// if that is less, as numpy's global generator draws them (bench.md 3.2).
func Uniform(seed int64, batch, input, output, vocab int) ([]dataset.Query, error) {
	rng, err := dataset.NewLegacy(seed)
	if err != nil {
		return nil, err
	}
	queries := make([]dataset.Query, batch)
	for i := range queries {
		ids := make([]int32, input)
		for j := range ids {
			ids[j] = int32(rng.Randint(0, min(10000, vocab)))
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
func (g *Rig) Throughput(ctx context.Context, load Load) (*Throughput, error) {
	var answers tally
	g.meter.reset(load.Progress)
	before := g.eng.Stats().Preemptions
	took, err := g.pass(ctx, &load, load.seeds(), func() {}, &answers)
	if err != nil {
		return nil, err
	}
	result := &Throughput{Elapsed: took.Seconds(), Requests: len(load.Queries), Tokens: answers.prompt + answers.output}
	result.RequestRate, result.TokenRate = per(result.Requests, result.Elapsed), per(result.Tokens, result.Elapsed)
	result.Ossian = g.extend(&load, &answers, result.Elapsed, before)
	return result, nil
}

// Latency submits everything as one batch and waits for all answers, so many times
// (bench.md 3.2). The sequences of a batch enter the same step.
func (g *Rig) Latency(ctx context.Context, load Load, iterations int) (*Latency, error) {
	if err := Together(len(load.Queries)*load.N, g.rows); err != nil {
		return nil, err
	}
	var answers tally
	g.meter.reset(load.Progress)
	// Seeds go on from batch to batch, so that these do not repeat each other.
	before, seeds, sum := g.eng.Stats().Preemptions, load.seeds(), 0.0
	result := &Latency{}
	for range iterations {
		took, err := g.batch(ctx, &load, seeds, &answers)
		if err != nil {
			return nil, err
		}
		result.Latencies = append(result.Latencies, took.Seconds())
		sum += took.Seconds()
	}
	result.Ossian = g.extend(&load, &answers, sum, before)
	result.Ossian.Workload.Batches = iterations
	result.summarise()
	return result, nil
}

// batch is one iteration of Latency.
func (g *Rig) batch(ctx context.Context, load *Load, seeds *rand.Rand, answers *tally) (time.Duration, error) {
	resume, err := g.pause(ctx)
	if err != nil {
		return 0, err
	}
	defer resume()
	return g.pass(ctx, load, seeds, resume, answers)
}

// pause stops the engine's loop at the end of a step made for that, which is not
// counted. What is submitted before resume is called enters the next step together.
func (g *Rig) pause(ctx context.Context) (resume func(), err error) {
	held := &hold{reached: make(chan struct{}), released: make(chan struct{})}
	resume = sync.OnceFunc(func() { close(held.released) })
	g.meter.hold.Store(held)
	if _, err := g.eng.Submit(ctx, engine.Request{Tokens: []int32{0}, MaxTokens: 1}); err != nil {
		resume()
		return nil, err
	}
	select {
	case <-held.reached:
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
func (g *Rig) pass(ctx context.Context, load *Load, seeds *rand.Rand, submitted func(), sums *tally) (time.Duration, error) {
	ctx, cancel := context.WithCancel(ctx) // an error stops all
	defer cancel()
	began := time.Now()
	streams := make([]*engine.Stream, 0, len(load.Queries)*load.N)
	for i := range load.Queries {
		query := &load.Queries[i]
		ids, err := load.ids(query)
		if err != nil {
			return 0, fmt.Errorf("prompt %d: %w", i, err)
		}
		for range load.N {
			stream, err := g.submit(ctx, ids, query.Output, sample.Params{Temperature: load.Temp, TopP: 1, Seed: seeds.Uint64()})
			if err != nil {
				return 0, fmt.Errorf("prompt %d: %w", i, err)
			}
			streams = append(streams, stream)
		}
	}
	submitted()
	answers := make([]answer, len(streams))
	for i, stream := range streams { // one after another: what has come meanwhile waits in its stream
		var err error
		if answers[i], err = g.finish(ctx, stream); err != nil {
			return 0, fmt.Errorf("prompt %d: %w", i/load.N, err)
		}
	}
	took := time.Since(began) // adding up is not measured
	for i := range answers {
		sums.add(&answers[i], i%load.N == 0)
	}
	return took, nil
}

// submit refuses what cannot have all the output that is asked for, and submits the rest.
func (g *Rig) submit(ctx context.Context, ids []int32, output int, params sample.Params) (*engine.Stream, error) {
	if output < 1 {
		return nil, fmt.Errorf("%d output tokens are asked for, expected 1 or more", output)
	}
	if err := Fits(len(ids), output, g.eng.Capacity()); err != nil {
		return nil, err
	}
	return g.eng.Submit(ctx, engine.Request{Tokens: ids, MaxTokens: output, Allowed: g.cfg.Allowed, Params: params})
}

// An answer is what the engine says of a sequence that has ended.
type answer struct {
	usage engine.Usage
	times engine.Times
}

// finish receives a stream to its end.
func (g *Rig) finish(ctx context.Context, stream *engine.Stream) (ended answer, err error) {
	var text strings.Builder
	var detok *token.Detok
	if g.cfg.Tokenizer != nil {
		detok = g.cfg.Tokenizer.Detok()
	}
	// Making text is part of what is measured, where it is wanted.
	for {
		out, err := stream.Recv(ctx)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return ended, err
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
	why, usage, times := stream.End()
	if why != sched.FinishLength || usage.Completion != stream.MaxTokens {
		return ended, fmt.Errorf("the answer ended by %v after %d tokens, expected %d", why, usage.Completion, stream.MaxTokens)
	}
	return answer{usage, times}, nil
}
