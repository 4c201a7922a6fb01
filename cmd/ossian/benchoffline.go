package main

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"runtime"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"ossian/internal/bench/dataset"
	"ossian/internal/bench/offline"
	"ossian/internal/chat"
	"ossian/internal/ckpt"
	"ossian/internal/config"
	"ossian/internal/cpu"
	"ossian/internal/model"
	"ossian/internal/plan"
)

// offlineOptions are the flags that bench throughput and bench latency share. Those of
// the engine are read as ossian serve reads them.
type offlineOptions struct {
	name    string
	set     *pflag.FlagSet
	n       int
	seed    int64
	temp    float32
	ids     bool // answers stay ids
	profile bool
	json    string
	args    []string // the command line
}

// newOfflineOptions returns the options of a command of that name. Flags and defaults
// are vLLM's.
func newOfflineOptions(name string) *offlineOptions {
	f := pflag.NewFlagSet("bench "+name, pflag.ContinueOnError)
	f.SortFlags = false
	f.Usage = func() {}
	f.SetNormalizeFunc(spelling)
	o := &offlineOptions{name: name, set: f}
	f.IntVar(&o.n, "n", 1, "answers to each prompt")
	f.Int64Var(&o.seed, "seed", 0, "of prompts and sampling")
	f.Float32Var(&o.temp, "temperature", 1, "of sampling, 1 as in vLLM; 0 = the most likely token, for comparisons with programs that draw none")
	f.BoolVar(&o.ids, "disable-detokenize", false, "leave answers as ids, so that turning them into text is not measured")
	f.BoolVar(&o.profile, "profile", false, "write a CPU profile of the measurement to bench-"+name+".pprof")
	f.StringVar(&o.json, "output-json", "", "`FILE` for the result")
	return o
}

func (o *offlineOptions) command(short, long string, run func(*cobra.Command, *config.Config) error) *cobra.Command {
	return &cobra.Command{
		Use:                o.name + " [MODEL] [flags]",
		Short:              short,
		Long:               long,
		DisableFlagParsing: true, // two parsers share the line
		RunE: func(cmd *cobra.Command, args []string) error {
			o.args = args
			cfg, err := o.parse(args)
			if errors.Is(err, config.ErrHelp) {
				fmt.Fprintf(cmd.OutOrStdout(), "%s\n\nUsage:\n  ossian bench %s\n\nFlags:\n%s\nFlags of the engine, as in ossian serve --help:\n  %s\n",
					cmd.Long, cmd.Use, o.set.FlagUsages(), engineFlags)
				return nil
			}
			if err != nil {
				return err
			}
			if err := foldersOf(nil, o.json); err != nil {
				return err
			}
			for _, note := range cfg.Notes {
				fmt.Fprintln(cmd.ErrOrStderr(), note)
			}
			return run(cmd, cfg)
		},
	}
}

// engineFlags are what help names of the settings of serve; those that vLLM's recipes
// carry along are taken too.
const engineFlags = `--model --threads --max-model-len --max-num-seqs --max-num-batched-tokens
  --num-gpu-blocks-override --kv-cache-dtype --gpu-memory-utilization
  --[no-]enable-prefix-caching --activation-bits --cpu-weights --packed-weights
  --exact --no-verify
  --config`

// serverFlags are settings of serve that say nothing to an engine. A file of --config
// may have them.
var serverFlags = []string{"served-model-name", "host", "port", "api-key", "api-key-file", "insecure", "allowed-hosts", "allowed-origins",
	"max-queue", "drain-timeout", "log-level", "log-format", "explain", "stream-interval", "generation-config", "reasoning-field",
	"strict-requests", "max-logprobs", "max-step-time", "ssl-certfile", "ssl-keyfile", "ssl-ca-certs", "ssl-cert-reqs", "store", "metrics-prefix", "show-hidden-metrics", "limit", "access-log"}

// parse reads the command line; what its own flags do not know goes to the engine.
func (o *offlineOptions) parse(args []string) (*config.Config, error) {
	own, rest := split(o.set, args)
	if err := o.set.Parse(own); err != nil {
		return nil, err
	}
	if o.set.NArg() > 0 {
		return nil, fmt.Errorf("unexpected %q: every value belongs to a flag; the model goes first, or is --model NAME", o.set.Arg(0))
	}
	for _, a := range rest {
		name, _, _ := strings.Cut(strings.ReplaceAll(a, "_", "-"), "=")
		if name, long := strings.CutPrefix(name, "--"); long && slices.Contains(serverFlags, strings.TrimPrefix(name, "no-")) {
			return nil, fmt.Errorf("--%s is for a server, and none runs here: leave it out, or measure one with ossian bench serve", name)
		}
	}
	if err := inRange(bound{"n", o.n, 1, 1000}); err != nil {
		return nil, err
	}
	if !(o.temp >= 0 && o.temp <= math.MaxFloat32) {
		return nil, fmt.Errorf("--temperature %v: want 0 or more", o.temp)
	}
	// Nothing listens: the address in a file for servers must not ask for keys.
	cfg, err := config.Load(config.Source{Args: rest, Env: []string{"OSSIAN_HOST=127.0.0.1"}})
	if err != nil {
		return nil, err
	}
	boundClients(cfg) // as serve does: the memory plan is the same
	return cfg, nil
}

// split gives flags that f has, each with the words behind it, to own, all else to rest.
func split(f *pflag.FlagSet, args []string) (own, rest []string) {
	to := &rest
	for _, a := range args {
		_, err := strconv.ParseFloat(a, 64)
		if name, long := strings.CutPrefix(a, "--"); long {
			name, _, _ = strings.Cut(name, "=")
			if to = &rest; f.Lookup(name) != nil {
				to = &own
			}
		} else if strings.HasPrefix(a, "-") && err != nil {
			to = &rest // a short flag, no number below 0
		}
		*to = append(*to, a)
	}
	return own, rest
}

// A bound is a flag that takes least to most.
type bound struct {
	flag               string
	value, least, most int
}

func inRange(bounds ...bound) error {
	for _, b := range bounds {
		if b.value < b.least || b.value > b.most {
			return fmt.Errorf("--%s %d: want %d to %d", b.flag, b.value, b.least, b.most)
		}
	}
	return nil
}

// A demand is what a measurement needs of the engine.
type demand struct {
	input, output int // tokens of the longest sequence
	batch         int // sequences in one step; 0 = any number
	waiting       int // sequences at most
}

// open loads m and starts an engine with the settings, planned as for a server. What
// does not fit is refused before weights are read.
func (o *offlineOptions) open(cmd *cobra.Command, cfg *config.Config, m *ckpt.Model, d demand) (*offline.Rig, offline.Environment, error) {
	ctx, status, none := cmd.Context(), cmd.ErrOrStderr(), offline.Environment{}
	load := serveOptions(cfg)
	dev, err := load.device()
	if err != nil {
		return nil, none, err
	}
	load.keepPacked(m, &dev, noteTo(status))
	p, err := servePlan(cfg, m, dev)
	if err != nil {
		return nil, none, err
	}
	if err := offline.Fits(d.input, d.output, p.Limits.MaxLen); err != nil {
		return nil, none, err
	}
	if err := offline.Together(d.batch, min(p.Limits.MaxSeqs, p.Limits.MaxTokens)); err != nil {
		return nil, none, err
	}
	env, err := o.environment(cfg, m, dev, p.Limits)
	if err != nil {
		return nil, none, err
	}
	if err := load.prepare(ctx, m, &dev, status, noteTo(status)); err != nil {
		return nil, none, err
	}
	r, choice, err := openRunner(ctx, m, dev, p.Limits, status)
	if err != nil {
		return nil, none, err
	}
	if choice.Measured() {
		fmt.Fprintln(status, "cpu:", choice)
	}
	env.Device, env.Threads = r.Info().Name, choice.Threads
	c := offline.Config{Runner: r, Tokenizer: m.Tokenizer, Allowed: maskOut(m.Spec.Vocab, m.Unused), NoPrefixCache: !cfg.PrefixCaching, ChunkLimit: cfg.ChunkLimit, Waiting: d.waiting,
		Log: slog.New(slog.NewTextHandler(status, &slog.HandlerOptions{Level: slog.LevelWarn}))}
	if o.ids {
		c.Tokenizer = nil
	}
	rig, err := offline.Start(ctx, c)
	return rig, env, err
}

func (o *offlineOptions) environment(cfg *config.Config, m *ckpt.Model, dev cpu.Config, lim model.Limits) (offline.Environment, error) {
	e := offline.Environment{
		Version: buildVersion(), Go: runtime.Version(), System: runtime.GOOS + "/" + runtime.GOARCH, Processor: plan.ThisHost().CPU,
		Cores: runtime.NumCPU(), Threads: dev.Threads, Model: m.Spec.Name, KVCache: dev.KV.String(),
		MaxLen: lim.MaxLen, MaxSeqs: lim.MaxSeqs, MaxTokens: lim.MaxTokens, PrefixCaching: cfg.PrefixCaching, Args: append([]string{}, o.args...),
	}
	count, err := plan.New(m.Spec, m.Params)
	if err != nil {
		return e, err
	}
	for _, t := range count.Types {
		e.DTypes = append(e.DTypes, t.Type.String())
	}
	return e, nil
}

// profiled measures, under the profiler if that was asked for.
func (o *offlineOptions) profiled(measure func() error) error {
	if !o.profile {
		return measure()
	}
	f, err := os.Create("bench-" + o.name + ".pprof")
	if err != nil {
		return err
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return errors.Join(err, f.Close())
	}
	err = measure()
	pprof.StopCPUProfile()
	return errors.Join(err, f.Close())
}

// A finding is a result of either command.
type finding interface {
	Console() string
	OssianConsole() string
}

// report prints a result, vLLM's lines first, and writes it where it was asked for.
func (o *offlineOptions) report(cmd *cobra.Command, r finding) error {
	if _, err := fmt.Fprintf(cmd.OutOrStdout(), "%s\n%s", r.Console(), r.OssianConsole()); err != nil {
		return err
	}
	if o.json == "" {
		return nil
	}
	return offline.WriteFile(o.json, r)
}

// throughputOptions are the flags of ossian bench throughput.
type throughputOptions struct {
	*offlineOptions
	data    dataOptions
	backend string
	prefix  int
}

func benchThroughputCommand() *cobra.Command {
	o := &throughputOptions{offlineOptions: newOfflineOptions("throughput")}
	f := o.set
	f.StringVar(&o.backend, "backend", "vllm", "how prompts get to the engine: vllm = as they are, vllm-chat = in the chat template")
	o.data.flags(f)
	f.Lookup("dataset-name").Usage = "as in ossian bench serve; default: sharegpt, without --dataset-path random"
	f.IntVar(&o.prefix, "prefix-len", 0, "random and sonnet: `TOKENS` that all prompts begin with")
	for _, name := range []string{"async-engine", "disable-frontend-multiprocessing"} {
		_ = f.Bool(name, false, "accepted, without effect: there is one engine, in this process")
	}
	return o.command("Measure how many tokens a second the engine computes, without a server",
		`Submit a whole workload at once to an engine in this process and report how fast it is
done, as vllm bench throughput does. Data set random needs --input-len. Without MODEL
the built-in one gets 100 prompts of 64 tokens with 64 of output, unless flags say else.`, o.run)
}

// complete fills in what was not given.
func (o *throughputOptions) complete(cfg *config.Config) error {
	if o.backend != "vllm" && o.backend != "vllm-chat" {
		return fmt.Errorf("--backend %q: want vllm (prompts as they are) or vllm-chat (in the chat template); either measures Ossian's engine", o.backend)
	}
	d, given, tiny := &o.data, o.set.Changed, builtIn(cfg.Model)
	if d.name == "" {
		d.name = "sharegpt"
		if d.path == "" {
			d.name = "random"
		}
	}
	if given("prefix-len") {
		d.random.prefix, d.sonnet.Prefix = o.prefix, o.prefix
	}
	d.sonnet.Input, d.sonnet.Output = cmp.Or(d.input, d.sonnet.Input), cmp.Or(d.output, d.sonnet.Output)
	d.skipTemplate = d.skipTemplate || o.backend == "vllm-chat" // which renders all
	if tiny && !given("num-prompts") {
		d.prompts = 100
	}
	if !strings.HasPrefix(d.name, "random") || given("input-len") || given("random-input-len") {
		return nil
	}
	if !tiny {
		return fmt.Errorf("data set %s needs --input-len TOKENS (--output-len is %d unless given); --dataset-path FILE names a file of ShareGPT instead", d.name, d.random.output)
	}
	d.input = 64
	if !given("output-len") && !given("random-output-len") {
		d.output = 64
	}
	return nil
}

// queries makes the workload.
func (o *throughputOptions) queries(m *ckpt.Model) ([]dataset.Query, error) {
	render := (&measurement{o: new(benchOptions), model: m, tok: m.Tokenizer}).render()
	return o.data.workload(dataset.Common{Tokenizer: m.Tokenizer, Rules: dataset.VLLM, Seed: o.seed}, render, o.backend == "vllm-chat")
}

// encoder returns what makes ids of a prompt.
func (o *throughputOptions) encoder(cfg *config.Config, m *ckpt.Model) (func(*dataset.Query) ([]int32, error), error) {
	if o.backend == "vllm" {
		return func(q *dataset.Query) ([]int32, error) {
			if q.IDs != nil {
				return q.IDs, nil
			}
			return completion(m.Tokenizer, q.Prompt), nil
		}, nil
	}
	format, err := chatFormat(cfg, m)
	if err != nil {
		return nil, fmt.Errorf("--backend vllm-chat: %w", err)
	}
	t := &talk{tok: m.Tokenizer, format: format, conv: chat.Conversation{Now: time.Now()}}
	return func(q *dataset.Query) ([]int32, error) {
		if q.IDs != nil {
			return nil, errors.New("--backend vllm-chat renders text, and this prompt is token ids: drop --prompt-token-ids, or use --backend vllm")
		}
		defer t.forget()
		return t.ask(q.Prompt)
	}, nil
}

func (o *throughputOptions) run(cmd *cobra.Command, cfg *config.Config) (err error) {
	if err := o.complete(cfg); err != nil {
		return err
	}
	m, err := openModel(cfg.Model)
	if err != nil {
		return err
	}
	defer m.Close()
	encode, err := o.encoder(cfg, m)
	if err != nil {
		return err
	}
	queries, err := o.queries(m)
	if err != nil {
		return err
	}
	d, total := demand{waiting: len(queries) * o.n}, 0
	for i := range queries {
		q := &queries[i]
		total += (q.Input + q.Output) * o.n
		if q.Input+q.Output > d.input+d.output {
			d.input, d.output = q.Input, q.Output
		}
	}
	rig, env, err := o.open(cmd, cfg, m, d)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rig.Close()) }()
	bar := newProgress(cmd.ErrOrStderr(), "computing", unitTokens, int64(total))
	defer bar.Done()
	var r *offline.Throughput
	err = o.profiled(func() (err error) {
		r, err = rig.Throughput(cmd.Context(), offline.Load{Queries: queries, IDs: encode, N: o.n, Seed: o.seed, Temp: o.temp, Progress: func(n int) { bar.Add(int64(n)) }})
		return err
	})
	bar.Done()
	if err != nil {
		return err
	}
	r.Ossian.Environment, r.Ossian.Workload.Dataset = env, o.data.name
	return o.report(cmd, r)
}

// latencyOptions are the flags of ossian bench latency.
type latencyOptions struct {
	*offlineOptions
	input, output, batch, warmups, iterations int
}

func benchLatencyCommand() *cobra.Command {
	o := &latencyOptions{offlineOptions: newOfflineOptions("latency")}
	f := o.set
	f.IntVar(&o.input, "input-len", 32, "prompt `TOKENS`")
	f.IntVar(&o.output, "output-len", 128, "output `TOKENS`")
	f.IntVar(&o.batch, "batch-size", 8, "prompts that are computed together")
	f.IntVar(&o.warmups, "num-iters-warmup", 10, "batches before the measurement")
	f.IntVar(&o.iterations, "num-iters", 30, "batches that are measured")
	return o.command("Measure how long the engine takes for one batch of prompts, without a server",
		`Submit one batch of random prompts to an engine in this process, wait until all answers
are there, and do it again, as vllm bench latency does. Prefix caching is off unless
--enable-prefix-caching is given. Without MODEL the built-in one is measured.`, o.run)
}

func (o *latencyOptions) run(cmd *cobra.Command, cfg *config.Config) (err error) {
	const many = 1 << 20
	err = inRange(bound{"input-len", o.input, 1, many}, bound{"output-len", o.output, 1, many}, bound{"batch-size", o.batch, 1, 65536},
		bound{"num-iters-warmup", o.warmups, 0, many}, bound{"num-iters", o.iterations, 1, many})
	if err != nil {
		return err
	}
	if cfg.Origin("enable-prefix-caching") == "default" {
		cfg.PrefixCaching = false // the same prompts come again and again
	}
	d := demand{input: o.input, output: o.output, batch: o.batch * o.n, waiting: o.batch * o.n}
	if cfg.MaxNumSeqs == 0 {
		cfg.MaxNumSeqs = max(d.batch, plan.DefaultServed)
	}
	m, err := openModel(cfg.Model)
	if err != nil {
		return err
	}
	defer m.Close()
	rig, env, err := o.open(cmd, cfg, m, d)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rig.Close()) }()
	queries, err := offline.Uniform(o.seed, o.batch, o.input, o.output, m.Spec.Vocab)
	if err != nil {
		return err
	}
	r, err := o.measure(cmd, rig, queries)
	if err != nil {
		return err
	}
	r.Ossian.Environment, r.Ossian.Workload.Dataset = env, "uniform ids"
	return o.report(cmd, r)
}

// measure warms up and measures.
func (o *latencyOptions) measure(cmd *cobra.Command, rig *offline.Rig, queries []dataset.Query) (r *offline.Latency, err error) {
	ctx, status := cmd.Context(), cmd.ErrOrStderr()
	total := (o.warmups + o.iterations) * o.batch * o.n * (o.input + o.output)
	load := offline.Load{Queries: queries, N: o.n, Seed: o.seed, Temp: o.temp}
	fmt.Fprintln(status, "Warming up...")
	bar := newProgress(status, "computing", unitTokens, int64(total))
	defer bar.Done()
	load.Progress = func(n int) { bar.Add(int64(n)) }
	if _, err := rig.Latency(ctx, load, o.warmups); err != nil {
		return nil, err
	}
	err = o.profiled(func() (err error) {
		r, err = rig.Latency(ctx, load, o.iterations)
		return err
	})
	return r, err
}
