package main

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"log/slog"
	"maps"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"ossian/internal/chat"
	"ossian/internal/ckpt"
	"ossian/internal/config"
	"ossian/internal/cpu"
	"ossian/internal/engine"
	"ossian/internal/host"
	"ossian/internal/limits"
	"ossian/internal/metrics"
	"ossian/internal/model"
	"ossian/internal/plan"
	"ossian/internal/runner"
	"ossian/internal/sample"
	"ossian/internal/sched"
	"ossian/internal/server"
	"ossian/internal/tiny"
)

func serveCommand() *cobra.Command {
	c := &cobra.Command{
		Use:                "serve [MODEL] [flags]",
		Short:              "Serve a model behind the OpenAI API",
		DisableFlagParsing: true, // flags, environment and --config have one parser
		RunE: func(cmd *cobra.Command, args []string) error {
			src := config.Source{Args: args, Env: os.Environ()}
			cfg, err := config.Load(src)
			if errors.Is(err, config.ErrHelp) {
				return cmd.Help()
			}
			if err != nil {
				return err
			}
			for _, note := range cfg.Notes {
				fmt.Fprintln(cmd.ErrOrStderr(), note)
			}
			if _, err := cfg.TLS(); err != nil {
				return err
			}
			if cfg.Settings.Explain {
				return explain(cfg, cmd.OutOrStdout())
			}
			l, err := openPort(cfg)
			if err != nil {
				return err
			}
			return serve(cmd.Context(), cfg, src, l, cmd.ErrOrStderr())
		},
	}
	c.SetHelpFunc(func(cmd *cobra.Command, _ []string) {
		fmt.Fprintf(cmd.OutOrStdout(), `Serve MODEL behind the OpenAI API: a directory, a GGUF file, or a name already in
the cache; without MODEL the built-in ossian-tiny.

Usage:
  ossian %s

/health, /ready and /ping answer without a key, with a status and nothing else; all
other routes need one where keys are set. A client that closes its connection, or only
its writing half, has left: its request ends. SIGTERM lets running requests finish, a
second one does not. SIGHUP reads keys, limits and log level again, from --config and
--api-key-file, and the files of certificates: streams go on, settings that are refused
change nothing, and the log names what waits for a restart.

Flags, each also a key of --config FILE.yaml and, in capitals, OSSIAN_NAME in the environment:
%s`, cmd.Use, config.Usage())
	})
	return c
}

// openPort listens where the settings say.
func openPort(cfg *config.Config) (net.Listener, error) {
	if !builtIn(cfg.Model) {
		if _, err := resolveModel(cfg.Model); err != nil {
			return nil, err // before a port is open: the commonest mistake
		}
	}
	l, err := net.Listen("tcp", net.JoinHostPort(cfg.Host, strconv.Itoa(cfg.Port)))
	if err != nil {
		return nil, fmt.Errorf("%w; --port chooses another port, 0 any free one", err)
	}
	return l, nil
}

// serve answers on l until ctx ends, also while the weights are still loaded, so that
// whoever waits for them can see it.
func serve(ctx context.Context, cfg *config.Config, src config.Source, l net.Listener, status io.Writer) error {
	defer l.Close()
	level := new(slog.LevelVar)
	log := logger(cfg, level, status)
	boundClients(cfg)
	names := servedNames(cfg)
	h, err := host.New(host.Card{Names: names, Root: names[0], Created: time.Now(), MaxLen: cfg.MaxModelLen})
	if err != nil {
		return err
	}
	version := buildVersion()
	ms := metrics.New(metrics.Config{Version: version, Prefix: cfg.MetricsPrefix, Hidden: cfg.HiddenMetrics})
	kept, err := openArchive(cfg, log)
	if err != nil {
		return err
	}
	defer kept.close(log)
	secure, err := newCertificates(cfg, log)
	if err != nil {
		return err
	}
	s := newServer(cfg, version, h, kept, log, ms, secure)
	hup := make(chan os.Signal, 1)
	outlives := signal.Ignored(syscall.SIGHUP) // nohup ossian serve; to be asked before Notify
	signal.Notify(hup, syscall.SIGHUP)
	defer signal.Stop(hup)
	fmt.Fprintf(status, "listening on %s://%s\n", secure.scheme(), l.Addr())
	var attending sync.WaitGroup
	defer attending.Wait()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	attending.Go(func() {
		a := &attendant{cfg: cfg, src: src, server: s, secure: secure, level: level, log: log, outlives: outlives, bodies: cfg.Limits[limits.BodiesInFlight]}
		a.attend(ctx, hup, func() { cancel(nil) })
	})
	hosted := make(chan error, 1)
	hostCtx, end := context.WithCancel(context.WithoutCancel(ctx)) // requests go on while the server drains
	defer end()
	go func() {
		ld := &loader{cfg: cfg, log: log, metrics: ms, name: names[0], version: version}
		defer ld.close()
		err := h.Run(hostCtx, ld.load)
		if err != nil {
			cancel(err)
		}
		hosted <- err
	}()
	err = s.Serve(ctx, l)
	end()
	failed := <-hosted
	if ctx.Err() != nil && errors.Is(failed, context.Canceled) {
		failed = nil // told to end while it was loading
	}
	return errors.Join(err, failed)
}

// newServer returns the HTTP side of the settings.
func newServer(cfg *config.Config, version string, h *host.Host, kept *archive, log *slog.Logger, ms *metrics.Server, secure *certificates) *server.Server {
	hosts := cfg.AllowedHosts
	if (cfg.Insecure || cfg.Vouched()) && len(hosts) == 0 {
		hosts = []string{"*"} // other machines are let in under whatever name they know
	}
	return server.New(server.Config{
		Version: version, Keys: cfg.APIKeys, AllowedHosts: hosts, AllowedOrigins: cfg.AllowedOrigins,
		StreamInterval: cfg.StreamInterval, Seed: cfg.Seed, ReasoningField: cfg.ReasoningField, Strict: cfg.Strict,
		DrainTimeout: cfg.DrainTimeout, AccessLog: cfg.AccessLog, Limits: cfg.Limits, Archive: kept, SealKey: kept.key, TLS: secure.server(),
	}, h, log, ms)
}

// servedNames are the names that requests may use. A path's last element stands
// before the path, which is nobody's business.
func servedNames(cfg *config.Config) []string {
	if len(cfg.ServedNames) > 0 {
		return cfg.ServedNames
	}
	name := cfg.Model
	if name == "" {
		name = tiny.Name
	}
	if !exists(name) {
		return []string{name}
	}
	abs, err := filepath.Abs(name)
	if err != nil {
		abs = name
	}
	return slices.Compact([]string{filepath.Base(abs), name})
}

func logger(cfg *config.Config, level *slog.LevelVar, w io.Writer) *slog.Logger {
	setLevel(level, cfg)
	o := &slog.HandlerOptions{Level: level}
	f, isFile := w.(*os.File)
	if cfg.LogFormat == "json" || (cfg.LogFormat == "auto" && !(isFile && term.IsTerminal(int(f.Fd())))) {
		o.ReplaceAttr = seconds
		return slog.New(slog.NewJSONHandler(w, o))
	}
	return slog.New(slog.NewTextHandler(w, o))
}

func setLevel(v *slog.LevelVar, cfg *config.Config) {
	_ = v.UnmarshalText([]byte(cfg.LogLevel)) // config knows only slog's names
}

// seconds writes times of JSON logs in that unit, with it in their names: slog's own
// are nanoseconds that do not say so.
func seconds(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() != slog.KindDuration {
		return a
	}
	return slog.Float64(a.Key+"_seconds", a.Value.Duration().Seconds())
}

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
	m, err := startModel(ld.cfg.Model)
	if err != nil {
		return nil, err
	}
	ld.model = m
	note := func(text string) { ld.log.Info(text, "model", ld.name) }
	var format chat.Format
	var dev cpu.Config
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
		dev, p, err = ld.weights(ctx, m, note)
		return err
	})
	if err != nil {
		return nil, err
	}
	r, choice, err := openRunner(ctx, m, dev, p.Limits, nil)
	if err != nil {
		return nil, err
	}
	note("cpu: " + choice.String())
	dev.ISA, dev.Threads, dev.Fewer = choice.ISA, choice.Threads, nil // also for a start after a panic
	open := func(ctx context.Context) (runner.Runner, error) {
		r, _, err := openRunner(ctx, m, dev, p.Limits, nil)
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
	format, err := chatFormat(ld.cfg, m)
	if errors.Is(err, chat.ErrNoTemplate) {
		ld.log.Warn("no chat: the checkpoint has no template; completions work, --chat-template names one", "model", ld.name)
		return nil, nil
	}
	return format, err
}

// weights plans the memory, which is shown before a weight is read (ADM-1), and brings
// what can be mapped into it.
func (ld *loader) weights(ctx context.Context, m *ckpt.Model, note func(string)) (dev cpu.Config, p plan.Plan, err error) {
	o := serveOptions(ld.cfg)
	if dev, err = o.device(); err != nil {
		return dev, p, err
	}
	o.keepPacked(m, &dev, note)
	if p, err = servePlan(ld.cfg, m, dev); err != nil {
		return dev, p, err
	}
	ld.log.Info("memory plan", "model", m.Spec.Name, "available", p.Available, "total", p.Footprint.Total(), "weights", p.Footprint.Weights+p.Footprint.Mapped, "mapped", p.Footprint.Mapped, "kv_cache", p.Footprint.KV,
		"activations", p.Footprint.Activations, "runtime", p.Footprint.Runtime, "connections", p.Footprint.Connections, "replies", p.Footprint.Replies, "grammars", p.Footprint.Grammars, "max_model_len", p.Limits.MaxLen, "max_num_seqs", p.Limits.MaxSeqs,
		"max_num_batched_tokens", p.Limits.MaxTokens, "kv_blocks", p.Limits.Blocks)
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(p.Footprint.Runtime + p.Footprint.Connections + p.Footprint.Replies + p.Footprint.Grammars) // garbage goes before the heap outgrows the plan (ADM-2)
	}
	err = o.prepare(ctx, m, &dev, nil, note)
	return dev, p, err
}

// host puts an engine around the runner.
func (ld *loader) host(m *ckpt.Model, format chat.Format, r runner.Runner, choice cpu.Choice, open func(context.Context) (runner.Runner, error)) (*host.Model, error) {
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

// serveOptions are the load options of the settings.
func serveOptions(cfg *config.Config) *loadOptions {
	return &loadOptions{threads: cfg.Threads, kv: cfg.KVCacheDType, weights: cfg.Weights, packed: cfg.Packed, activations: cfg.Activations, exact: cfg.Exact, noVerify: !cfg.Verify}
}

// defaultMemoryShare of what is available at the start leaves something for
// others: a server runs long, and its pools fill.
const defaultMemoryShare = 0.9

// servePlan shares the memory out.
func servePlan(cfg *config.Config, m *ckpt.Model, dev cpu.Config) (plan.Plan, error) {
	ask := model.Limits{MaxSeqs: cfg.MaxNumSeqs, MaxTokens: cfg.MaxBatchTokens, MaxLen: cfg.MaxModelLen}
	if cfg.KVBlocks > 0 {
		windows, _ := m.Spec.Groups()
		ask.Blocks = slices.Repeat([]int{cfg.KVBlocks}, len(windows))
	}
	cost := deviceCost(m, dev)
	return plan.Serve(m.Spec, ask, serveMemory(cfg), func(lim model.Limits) (plan.Footprint, error) {
		f, err := cost(lim)
		f.Runtime += plan.RequestBytes(cfg.Limits[limits.BodiesInFlight]) + archiveBytes(cfg)
		f.Connections = server.Connections(cfg.Limits)*connectionBytes(cfg) + int64(lim.MaxSeqs)*cfg.Limits[limits.PendingOutput]
		f.Replies = plan.ReplyBytes(cfg.Limits[limits.Replies])
		f.Grammars = plan.GrammarBytes(m.Spec, cfg.Limits[limits.GrammarCache])
		return f, err
	})
}

// connectionBytes is what a connection takes.
func connectionBytes(cfg *config.Config) int64 {
	n := plan.ConnectionBytes(cfg.Limits[limits.HeaderBytes])
	if cfg.CertFile != "" {
		n += plan.TLSBytes
	}
	return n
}

// serveMemory returns the bytes that a server may take, 0 = unknown.
func serveMemory(cfg *config.Config) int64 {
	share := cfg.MemoryShare
	if share == 0 {
		share = defaultMemoryShare
	}
	return int64(share * float64(plan.Available()))
}

// boundClients lets fewer bytes of bodies and of replies, and fewer connections, in at once,
// and keeps less, where memory is short, unless a number was asked for.
func boundClients(cfg *config.Config) {
	memory := serveMemory(cfg)
	if id := limits.BodiesInFlight; !cfg.Given(id) {
		cfg.ResolveLimit(id, plan.Bodies(id.Info().Default, cfg.Limits[limits.RequestBody], memory))
	}
	if id := limits.StoredMemory; !cfg.Given(id) && memory > 0 {
		cfg.ResolveLimit(id, max(min(id.Info().Default, memory/32), id.Info().Min))
	}
	if id := limits.GrammarCache; !cfg.Given(id) {
		cfg.ResolveLimit(id, plan.Grammars(id.Info().Default, memory))
	}
	if id := limits.Connections; !cfg.Given(id) {
		cfg.ResolveLimit(id, plan.Connections(server.Connections(cfg.Limits), connectionBytes(cfg), memory))
	}
	if id := limits.Replies; !cfg.Given(id) {
		n := plan.Replies(id.Info().Default, memory)
		if cfg.Given(limits.ReplyBody) {
			n = max(n, cfg.Limits[limits.ReplyBody])
		}
		cfg.ResolveLimit(id, n)
	}
}

// explain prints every setting, automatic ones as they come out for this model on
// this machine.
func explain(cfg *config.Config, out io.Writer) error {
	m, err := openModel(cfg.Model)
	if err != nil {
		return err
	}
	defer m.Close()
	o := serveOptions(cfg)
	dev, err := o.device()
	if err != nil {
		return err
	}
	o.keepPacked(m, &dev, func(string) {})
	if _, err := chatFormat(cfg, m); err != nil && !errors.Is(err, chat.ErrNoTemplate) {
		return err
	}
	boundClients(cfg)
	p, err := servePlan(cfg, m, dev)
	if err != nil {
		return err
	}
	if cfg.Model == "" {
		cfg.Resolve("model", tiny.Name, "no model was named: the built-in one")
	}
	cfg.Resolve("served-model-name", strings.Join(servedNames(cfg), " "), "what requests may call it")
	cfg.Resolve("store", archiveDir(cfg), "of this port, so that it is found again")
	cfg.Resolve("threads", strconv.Itoa(dev.Threads), threadsReason(plan.ThisProcess()))
	reason := "what the checkpoint promises"
	if p.Limits.MaxLen < m.Spec.MaxLen {
		reason = fmt.Sprintf("of %d, what was asked for or fits into memory", m.Spec.MaxLen)
	}
	cfg.Resolve("max-model-len", strconv.Itoa(p.Limits.MaxLen), reason)
	cfg.Resolve("max-num-seqs", strconv.Itoa(p.Limits.MaxSeqs), "rows of a step")
	cfg.Resolve("max-num-batched-tokens", strconv.Itoa(p.Limits.MaxTokens), "longer steps delay others, shorter ones waste weights read")
	blocks := make([]string, len(p.Limits.Blocks))
	for g, n := range p.Limits.Blocks {
		blocks[g] = strconv.Itoa(n)
	}
	cfg.Resolve("num-gpu-blocks-override", strings.Join(blocks, " "), fmt.Sprintf("blocks of %d tokens in each group of layers, %d bytes in all", p.Limits.BlockSize, p.Footprint.KV))
	if err := cfg.Explain(out); err != nil {
		return err
	}
	return explainMemory(cfg.Limits, p, out)
}

// threadsReason says where the number of threads comes from.
func threadsReason(p plan.Processors) string {
	reason := "all that this process may use"
	if p.Quota > 0 && float64(p.Threads) >= p.Quota {
		reason = fmt.Sprintf("the control group grants the time of %.4g processors", p.Quota)
	}
	if counts := p.Counts(); len(counts) > 1 {
		fewer := strings.ReplaceAll(strings.Trim(fmt.Sprint(counts[1:]), "[]"), " ", " or ")
		reason += fmt.Sprintf("; the start of a large model measures whether %s would be faster", fewer)
	}
	return reason
}

// explainMemory prints what memory is planned for.
func explainMemory(lim *limits.Set, p plan.Plan, out io.Writer) error {
	f := p.Footprint
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "\nMEMORY\tBYTES\tFOR")
	fmt.Fprintf(t, "weights\t%d\t%d of them read where files are mapped\n", f.Weights+f.Mapped, f.Mapped)
	fmt.Fprintf(t, "kv cache\t%d\tpools of keys and values\n", f.KV)
	fmt.Fprintf(t, "activations\t%d\tbuffers of a step of %d tokens\n", f.Activations, p.Limits.MaxTokens)
	fmt.Fprintf(t, "runtime\t%d\tprogram, tokenizer, bodies-in-flight of %d while they are decoded, and stored-memory of %d without --store\n", f.Runtime, lim[limits.BodiesInFlight], lim[limits.StoredMemory])
	fmt.Fprintf(t, "connections\t%d\t%d of them, each with header-bytes of %d, and pending-output of %d for each of %d sequences\n", f.Connections, server.Connections(lim),
		lim[limits.HeaderBytes], lim[limits.PendingOutput], p.Limits.MaxSeqs)
	fmt.Fprintf(t, "replies\t%d\treplies-in-flight of %d while they are put together: text that is not streamed, log probabilities\n", f.Replies, lim[limits.Replies])
	fmt.Fprintf(t, "grammars\t%d\tgrammar-cache of %d for compiled forms of output, and the vocabulary as they see it\n", f.Grammars, lim[limits.GrammarCache])
	fmt.Fprintf(t, "all\t%d\tof %d that may be planned for, 0 = unknown\n", f.Total(), p.Available)
	return t.Flush()
}

// samplingDefaults are the values of requests that say nothing: the checkpoint's
// advice, else those of the OpenAI API.
func samplingDefaults(cfg *config.Config, g ckpt.Generation) sample.Params {
	if !cfg.CheckpointSampler {
		return sample.Params{Temperature: 1}
	}
	advice := runOptions{temperature: -1, topP: -1, topK: -1, minP: -1, repetition: -1}
	p := advice.params(g)
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
