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
	"strings"
	"time"

	"ossian/internal/chat"
	"ossian/internal/ckpt"
	"ossian/internal/config"
	"ossian/internal/engine"
	"ossian/internal/host"
	"ossian/internal/kvevents"
	"ossian/internal/limits"
	"ossian/internal/load"
	"ossian/internal/metrics"
	"ossian/internal/plan"
	"ossian/internal/runner"
	"ossian/internal/sample"
	"ossian/internal/sched"
)

// A loader brings a model of a server into memory, as often as it is asked to. A copy of it is
// used each time, whose settings are those of that time.
type loader struct {
	cfg     *config.Config
	log     *slog.Logger
	metrics *metrics.Server
	name    string              // in requests
	version string              // of the program
	events  *kvevents.Publisher // of cached prefixes; nil = nobody is told
	room    *room
	waiting func() int // requests for the model
	several bool       // there are other models
	shown   bool       // show was called by check: it is not done again whenever models change places

	// show tells the host how conversations with the model are written, as soon as that is known.
	show func(chat.Format)
}

// load returns the model with all that has to be closed behind it.
func (ld *loader) load(ctx context.Context) (hosted *host.Model, err error) {
	began := time.Now()
	again, settings := *ld, *ld.cfg // which a preset changes
	again.cfg = &settings
	checkpoint, err := load.StartModel(settings.Model)
	if err != nil {
		return nil, err
	}
	if hosted, err = again.loadFrom(ctx, checkpoint); err != nil {
		return nil, errors.Join(err, checkpoint.Close())
	}
	hosted.Close = func() error {
		hosted.Metrics.Rest()
		if ld.events != nil {
			ld.events.Rest()
		}
		err := checkpoint.Close()
		if ld.several { // what the next model plans with is what is free
			debug.FreeOSMemory()
		}
		return err
	}
	loaded := []any{"model", ld.name, "device", hosted.Engine.Device(), "took", time.Since(began).Round(time.Millisecond)}
	if guesses := settings.Speculation; guesses != nil {
		loaded = append(loaded, "guesses", guesses.String())
	}
	ld.log.Info("model loaded", loaded...)
	return hosted, nil
}

// check finds out what can be without reading a weight: whether the model is there and has room,
// how long its context is, and, the first time, what its template can do. Its metrics are there from
// then on.
func (ld *loader) check() (maxLen int, err error) {
	cfg := *ld.cfg
	checkpoint, err := load.StartModel(cfg.Model)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, checkpoint.Close()) }()
	if err := loadOptions(&cfg).Play(checkpoint); err != nil {
		return 0, err
	}
	loading, err := begin(&cfg, checkpoint, func(string) {})
	if err != nil {
		return 0, err
	}
	planned, err := planMemory(&cfg, checkpoint, loading, ld.room.part(&cfg, loading.Device()))
	if err != nil {
		return 0, err
	}
	// A model without a chat template is served for completions alone, so that is no failure here.
	if !ld.shown {
		format, err := ld.text(checkpoint)
		if err != nil && !errors.Is(err, chat.ErrNoTemplate) {
			return 0, err
		}
		ld.show(format)
		ld.shown = true
	}
	ld.metrics.Announce(ld.name, planned.Limits.MaxLen, ld.waiting)
	return planned.Limits.MaxLen, nil
}

// loadFrom makes a model of a checkpoint. The tokenizer is made while the weights are brought
// into memory.
func (ld *loader) loadFrom(ctx context.Context, checkpoint *ckpt.Model) (*host.Model, error) {
	if err := loadOptions(ld.cfg).Play(checkpoint); err != nil {
		return nil, err
	}
	// A conversation needs the tokenizer and the format, a step the weights: neither waits
	// for the other.
	note := func(text string) { ld.log.Info(text, "model", ld.name) }
	var format chat.Format
	var loading *load.Loading
	var planned plan.Plan
	readText := func() (err error) {
		if format, err = ld.format(checkpoint); err == nil {
			ld.show(format)
		}
		return err
	}
	if ld.cfg.Template != "" { // one that cannot be used is refused before a weight is read
		if err := readText(); err != nil {
			return nil, err
		}
		readText = func() error { return nil }
	}
	var available int64
	err := together(ctx, readText, func(ctx context.Context) (err error) {
		loading, planned, available, err = ld.weights(ctx, checkpoint, note)
		return err
	})
	if err != nil {
		return nil, err
	}
	alone, err := byItself(ld.cfg, checkpoint, loading, available)
	if err != nil {
		return nil, err
	}
	asked := loading.Device() // before it is told what was chosen
	first, chosen, err := loading.Open(ctx, planned.Limits, nil)
	if err != nil {
		return nil, err
	}
	// A runner that has panicked is opened again, by the engine, for which the machine is not
	// measured once more.
	note(chosen.Line())
	loading.Keep(chosen)
	open := func(ctx context.Context) (runner.Runner, error) {
		first, _, err := loading.Open(ctx, planned.Limits, nil)
		return first, err
	}
	served := choice{planned: planned.Limits, need: planned.Footprint, byItself: alone, device: asked, machine: chosen, measures: load.Measures(planned.Footprint.Weights + planned.Footprint.Mapped)}
	hosted, err := ld.host(checkpoint, format, first, &served, open)
	if err != nil {
		return nil, errors.Join(err, first.Close())
	}
	return hosted, nil
}

// text makes a checkpoint's tokenizer and returns how conversations are written. The error may be
// chat.ErrNoTemplate.
func (ld *loader) text(checkpoint *ckpt.Model) (chat.Format, error) {
	if err := checkpoint.Finish(); err != nil {
		return nil, err
	}
	return load.ChatFormat(checkpoint, ld.cfg.Template)
}

// format is how conversations with a model are written; nil = there is no chat.
func (ld *loader) format(checkpoint *ckpt.Model) (chat.Format, error) {
	format, err := ld.text(checkpoint)
	if errors.Is(err, chat.ErrNoTemplate) {
		ld.log.Warn("no chat: the checkpoint has no template; completions work, --chat-template names one", "model", ld.name)
		return nil, nil
	}
	return format, err
}

// weights plans the memory, which is shown before a weight is read (ADM-1), and brings
// what can be mapped into it.
func (ld *loader) weights(ctx context.Context, checkpoint *ckpt.Model, note func(string)) (loading *load.Loading, planned plan.Plan, available int64, err error) {
	if loading, err = begin(ld.cfg, checkpoint, note); err != nil {
		return nil, planned, 0, err
	}
	available = ld.room.now(ld.cfg, loading.Device())
	if err := applyPreset(ctx, ld.cfg, checkpoint, loading, available, note); err != nil {
		return nil, planned, 0, err
	}
	if planned, err = planMemory(ld.cfg, checkpoint, loading, available); err != nil {
		return nil, planned, 0, err
	}
	ld.log.Info("memory plan", "model", checkpoint.Spec.Name, "available", planned.Available, "total", planned.Footprint.Total(), "weights", planned.Footprint.Weights+planned.Footprint.Mapped, "mapped", planned.Footprint.Mapped, "kv_cache", planned.Footprint.KV,
		"activations", planned.Footprint.Activations, "runtime", planned.Footprint.Runtime, "connections", planned.Footprint.Connections, "replies", planned.Footprint.Replies, "grammars", planned.Footprint.Grammars, "draft", planned.Footprint.Draft, "max_model_len", planned.Limits.MaxLen, "max_num_seqs", planned.Limits.MaxSeqs,
		"max_num_batched_tokens", planned.Limits.MaxTokens, "kv_blocks", planned.Limits.Blocks)
	note(planned.Growth())
	if os.Getenv("GOMEMLIMIT") == "" {
		// Garbage goes before the heap outgrows the plan (ADM-2). Weights, keys and values and
		// activations are not on the heap.
		debug.SetMemoryLimit(ld.room.heapOf(ld.cfg, &planned.Footprint))
	}
	return loading, planned, available, loading.Prepare(ctx, nil)
}

// host puts an engine around the runner.
func (ld *loader) host(checkpoint *ckpt.Model, format chat.Format, first runner.Runner, served *choice, open func(context.Context) (runner.Runner, error)) (*host.Model, error) {
	hosted := &host.Model{Tokenizer: checkpoint.Tokenizer, Format: format, Stops: checkpoint.Stops, Vocab: checkpoint.Spec.Vocab, Unused: checkpoint.Unused, Unchanged: checkpoint.Unchanged,
		Defaults: samplingDefaults(ld.cfg, checkpoint.Generation), Fingerprint: "os-" + ld.version + "-" + weightsDigest(checkpoint), Facts: facts(checkpoint, format, first.Info().Name, &served.need)}
	if err := hosted.Defaults.Validate(checkpoint.Spec.Vocab); err != nil {
		ld.log.Warn("the checkpoint's advice on sampling is left out", "error", err)
		hosted.Defaults = sample.Params{Temperature: 1}
	}
	if format != nil {
		hosted.Stops = format.Stops()
	}
	// The engine counts its steps in metrics that ask the engine what there is: they are made
	// after it, before it has a request.
	info := first.Info()
	var err error
	var modelMetrics *metrics.Model
	prefixes := func() engine.PrefixObserver {
		told := observers{metrics.NewResidency(func() *metrics.Model { return modelMetrics }, time.Now)}
		if ld.events != nil {
			told = append(told, ld.events.Observer())
		}
		return told
	}
	hosted.Engine, err = engine.New(first, engine.Config{
		Sched:    sched.Config{MaxQueue: int(ld.cfg.Limits[limits.Queue]), MaxQueueTokens: int(ld.cfg.Limits[limits.QueueTokens]), ChunkLimit: ld.cfg.ChunkLimit, NoPrefixCache: !ld.cfg.PrefixCaching},
		StepTime: ld.cfg.StepTime, CrowdTime: ld.cfg.CrowdTime,
		Open:     open,
		Prefixes: prefixes,
		Guesses:  ld.cfg.Speculation,
		Step:     func(tokens int, took time.Duration) { modelMetrics.Step(tokens, took) },
	}, ld.log)
	if err != nil {
		return nil, err
	}
	modelMetrics = ld.metrics.Model(metrics.ModelConfig{Name: ld.name, MaxLen: hosted.Engine.Capacity(), BlockSize: info.BlockSize, Blocks: info.Groups[0].Blocks,
		ISA: served.machine.ISA, Threads: served.machine.Threads, CacheDType: ld.cfg.KVCacheDType, PrefixCaching: ld.cfg.PrefixCaching, Memory: ld.cfg.MemoryShare,
		Settings: served.labels(ld.cfg, checkpoint),
		Snapshot: func() metrics.Snapshot { return host.Snapshot(hosted.Engine) }, Line: ld.waiting})
	hosted.Metrics = modelMetrics
	return hosted, nil
}

// samplingDefaults are the values of requests that say nothing: the checkpoint's
// advice, else those of the OpenAI API.
func samplingDefaults(cfg *config.Config, advice ckpt.Generation) sample.Params {
	if !cfg.CheckpointSampler {
		return sample.Params{Temperature: 1}
	}
	asked := load.Advised()
	params := asked.Params(advice)
	if advice.Sample == nil && advice.Temperature == nil {
		params.Temperature = 1
	}
	params.Seed = 0
	return params
}

// facts are what the checkpoint is, what computes it, and the memory that was planned for it.
func facts(checkpoint *ckpt.Model, format chat.Format, device string, need *plan.Footprint) host.Facts {
	known := host.Facts{Family: checkpoint.Spec.Family, Device: device, Memory: host.Memory{Planned: need.Total(), Weights: need.Weights + need.Mapped, KV: need.KV}}
	if counted, err := plan.New(checkpoint.Spec, checkpoint.Params); err == nil { // the memory was planned with it
		known.Parameters, _ = counted.Total()
		known.Quantization = strings.ToLower(counted.Types[0].Type.String())
	}
	if format != nil {
		known.Efforts = chat.Efforts(format, checkpoint.Tokenizer)
	}
	return known
}

// weightsDigest tells checkpoints apart: names, shapes and the first bytes of all
// tensors.
func weightsDigest(checkpoint *ckpt.Model) string {
	sum := crc32.NewIEEE()
	for _, name := range slices.Sorted(maps.Keys(checkpoint.Params)) {
		tensor := checkpoint.Params[name]
		fmt.Fprint(sum, name, tensor.DType, tensor.Shape)
		_, _ = sum.Write(tensor.Data[:min(64, len(tensor.Data))])
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
