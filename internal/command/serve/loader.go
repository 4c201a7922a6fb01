package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"log/slog"
	"maps"
	"os"
	"runtime/debug"
	"slices"
	"time"

	"ossian/internal/chat"
	"ossian/internal/ckpt"
	"ossian/internal/config"
	"ossian/internal/engine"
	"ossian/internal/host"
	"ossian/internal/limits"
	"ossian/internal/load"
	"ossian/internal/metrics"
	"ossian/internal/plan"
	"ossian/internal/runner"
	"ossian/internal/sample"
	"ossian/internal/sched"
)

// A loader brings the model of a server into memory.
type loader struct {
	cfg     *config.Config
	log     *slog.Logger
	metrics *metrics.Server
	name    string
	version string
	model   *ckpt.Model
}

func (ld *loader) close() {
	if ld.model == nil {
		return
	}
	if err := ld.model.Close(); err != nil {
		ld.log.Warn("closing the checkpoint", "error", err)
	}
}

// load is a host.Load. The tokenizer is made while the weights are brought into memory.
func (ld *loader) load(ctx context.Context) (*host.Model, error) {
	began := time.Now()
	m, err := load.StartModel(ld.cfg.Model)
	if err != nil {
		return nil, err
	}
	ld.model = m
	note := func(text string) { ld.log.Info(text, "model", ld.name) }
	var format chat.Format
	var weights *load.Loading
	var p plan.Plan
	talk := func() (err error) {
		if err = m.Finish(); err == nil {
			format, err = ld.format(m)
		}
		return err
	}
	if ld.cfg.Template != "" { // one that cannot be used is refused before a weight is read
		if err := talk(); err != nil {
			return nil, err
		}
		talk = func() error { return nil }
	}
	err = together(ctx, talk, func(ctx context.Context) (err error) {
		weights, p, err = ld.weights(ctx, m, note)
		return err
	})
	if err != nil {
		return nil, err
	}
	r, choice, err := weights.Open(ctx, p.Limits, nil)
	if err != nil {
		return nil, err
	}
	note(choice.Line())
	weights.Keep(choice) // also for a start after a panic
	open := func(ctx context.Context) (runner.Runner, error) {
		r, _, err := weights.Open(ctx, p.Limits, nil)
		return r, err
	}
	hm, err := ld.host(m, format, r, choice, open)
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	ld.log.Info("model loaded", "model", ld.name, "device", r.Info().Name, "took", time.Since(began).Round(time.Millisecond))
	return hm, nil
}

// format is how conversations with m are written; nil = there is no chat.
func (ld *loader) format(m *ckpt.Model) (chat.Format, error) {
	format, err := load.ChatFormat(m, ld.cfg.Template)
	if errors.Is(err, chat.ErrNoTemplate) {
		ld.log.Warn("no chat: the checkpoint has no template; completions work, --chat-template names one", "model", ld.name)
		return nil, nil
	}
	return format, err
}

// weights plans the memory, which is shown before a weight is read (ADM-1), and brings
// what can be mapped into it.
func (ld *loader) weights(ctx context.Context, m *ckpt.Model, note func(string)) (l *load.Loading, p plan.Plan, err error) {
	if l, err = begin(ld.cfg, m, note); err != nil {
		return nil, p, err
	}
	if p, err = planMemory(ld.cfg, m, l); err != nil {
		return nil, p, err
	}
	ld.log.Info("memory plan", "model", m.Spec.Name, "available", p.Available, "total", p.Footprint.Total(), "weights", p.Footprint.Weights+p.Footprint.Mapped, "mapped", p.Footprint.Mapped, "kv_cache", p.Footprint.KV,
		"activations", p.Footprint.Activations, "runtime", p.Footprint.Runtime, "connections", p.Footprint.Connections, "replies", p.Footprint.Replies, "grammars", p.Footprint.Grammars, "max_model_len", p.Limits.MaxLen, "max_num_seqs", p.Limits.MaxSeqs,
		"max_num_batched_tokens", p.Limits.MaxTokens, "kv_blocks", p.Limits.Blocks)
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(p.Footprint.Runtime + p.Footprint.Connections + p.Footprint.Replies + p.Footprint.Grammars) // garbage goes before the heap outgrows the plan (ADM-2)
	}
	return l, p, l.Prepare(ctx, nil)
}

// host puts an engine around the runner.
func (ld *loader) host(m *ckpt.Model, format chat.Format, r runner.Runner, choice load.Choice, open func(context.Context) (runner.Runner, error)) (*host.Model, error) {
	hm := &host.Model{Tokenizer: m.Tokenizer, Format: format, Stops: m.Stops, Vocab: m.Spec.Vocab, Unused: m.Unused,
		Defaults: samplingDefaults(ld.cfg, m.Generation), Fingerprint: "os-" + ld.version + "-" + weightsDigest(m)}
	if err := hm.Defaults.Validate(m.Spec.Vocab); err != nil {
		ld.log.Warn("the checkpoint's advice on sampling is left out", "error", err)
		hm.Defaults = sample.Params{Temperature: 1}
	}
	if format != nil {
		hm.Stops = format.Stops()
	}
	info := r.Info()
	var err error
	var mm *metrics.Model
	hm.Engine, err = engine.New(r, engine.Config{
		Sched:    sched.Config{MaxQueue: int(ld.cfg.Limits[limits.Queue]), MaxQueueTokens: int(ld.cfg.Limits[limits.QueueTokens]), ChunkLimit: ld.cfg.ChunkLimit, NoPrefixCache: !ld.cfg.PrefixCaching},
		StepTime: ld.cfg.StepTime,
		Open:     open,
		Step:     func(tokens int, took time.Duration) { mm.Step(tokens, took) },
	}, ld.log)
	if err != nil {
		return nil, err
	}
	mm = ld.metrics.Model(metrics.ModelConfig{Name: ld.name, MaxLen: hm.Engine.Capacity(), BlockSize: info.BlockSize, Blocks: info.Groups[0].Blocks,
		ISA: choice.ISA, Threads: choice.Threads, CacheDType: ld.cfg.KVCacheDType, PrefixCaching: ld.cfg.PrefixCaching, Memory: ld.cfg.MemoryShare,
		Snapshot: func() metrics.Snapshot { return host.Snapshot(hm.Engine) }})
	hm.Metrics = mm
	return hm, nil
}

// samplingDefaults are the values of requests that say nothing: the checkpoint's
// advice, else those of the OpenAI API.
func samplingDefaults(cfg *config.Config, g ckpt.Generation) sample.Params {
	if !cfg.CheckpointSampler {
		return sample.Params{Temperature: 1}
	}
	advice := load.Advised()
	p := advice.Params(g)
	if g.Sample == nil && g.Temperature == nil {
		p.Temperature = 1
	}
	p.Seed = 0
	return p
}

// weightsDigest tells checkpoints apart: names, shapes and the first bytes of all
// tensors.
func weightsDigest(m *ckpt.Model) string {
	sum := crc32.NewIEEE()
	for _, name := range slices.Sorted(maps.Keys(m.Params)) {
		t := m.Params[name]
		fmt.Fprint(sum, name, t.DType, t.Shape)
		_, _ = sum.Write(t.Data[:min(64, len(t.Data))])
	}
	return fmt.Sprintf("%08x", sum.Sum32())
}

// together runs both functions at once, ends second's context when first fails, and returns
// when neither runs any more: first's error, else second's.
func together(ctx context.Context, first func() error, second func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	failed := make(chan error, 1)
	go func() {
		err := first()
		if err != nil {
			cancel()
		}
		failed <- err
	}()
	err := second(ctx)
	return cmp.Or(<-failed, err)
}
