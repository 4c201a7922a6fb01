package bench

import (
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

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"ossian/internal/bench/offline"
	"ossian/internal/ckpt"
	"ossian/internal/command"
	"ossian/internal/config"
	"ossian/internal/load"
	"ossian/internal/model"
	"ossian/internal/plan"
)

// offlineOptions are the flags that bench throughput and bench latency share. Those of
// the engine are read as ossian serve reads them.
type offlineOptions struct {
	name    string
	plan    planner
	set     *pflag.FlagSet // these flags; others are the engine's
	n       int            // answers to each prompt
	seed    int64
	temp    float32
	ids     bool // answers stay ids
	profile bool
	json    string   // file of the result
	args    []string // the command line
}

// newOfflineOptions returns the options of a command of that name. Flags and defaults
// are vLLM's.
func newOfflineOptions(name string, plan planner) *offlineOptions {
	flags := pflag.NewFlagSet("bench "+name, pflag.ContinueOnError)
	flags.SortFlags = false
	flags.Usage = func() {}
	flags.SetNormalizeFunc(spelling)
	opts := &offlineOptions{name: name, plan: plan, set: flags}
	flags.IntVar(&opts.n, "n", 1, "answers to each prompt")
	flags.Int64Var(&opts.seed, "seed", 0, "of prompts and sampling")
	flags.Float32Var(&opts.temp, "temperature", 1, "of sampling, 1 as in vLLM; 0 = the most likely token, for comparisons with programs that draw none")
	flags.BoolVar(&opts.ids, "disable-detokenize", false, "leave answers as ids, so that turning them into text is not measured")
	flags.BoolVar(&opts.profile, "profile", false, "write a CPU profile of the measurement to bench-"+name+".pprof")
	flags.StringVar(&opts.json, "output-json", "", "`FILE` for the result")
	return opts
}

// command is a command that reads both kinds of flags and runs run.
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
			if err := o.writable(); err != nil {
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
  --speculative-config --exact --no-verify
  --config`

// serverFlags are settings of serve that say nothing to an engine. A file of --config
// may have them.
var serverFlags = []string{"served-model-name", "host", "port", "api-key", "api-key-file", "insecure", "allowed-hosts", "allowed-origins", "ui", "open",
	"max-queue", "drain-timeout", "log-level", "log-format", "explain", "stream-interval", "generation-config", "reasoning-field",
	"strict-requests", "max-logprobs", "max-step-time", "max-crowded-step-time", "ssl-certfile", "ssl-keyfile", "ssl-ca-certs", "ssl-cert-reqs", "store", "metrics-prefix", "show-hidden-metrics", "limit", "access-log"}

// parse reads the command line; what its own flags do not know goes to the engine.
func (o *offlineOptions) parse(args []string) (*config.Config, error) {
	own, rest := split(o.set, args)
	if err := o.set.Parse(own); err != nil {
		return nil, err
	}
	if o.set.NArg() > 0 {
		return nil, fmt.Errorf("unexpected %q: every value belongs to a flag; the model goes first, or is --model NAME", o.set.Arg(0))
	}
	for _, arg := range rest {
		name, _, _ := strings.Cut(strings.ReplaceAll(arg, "_", "-"), "=")
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
	if err == nil && len(cfg.Models) > 1 {
		err = fmt.Errorf("%d models: one expected, each is measured alone", len(cfg.Models))
	}
	return cfg, err
}

// split gives the flags that are known, each with the words behind it, to own, all else to rest.
func split(flags *pflag.FlagSet, args []string) (own, rest []string) {
	to := &rest // where the last flag, and so its words, went
	for _, arg := range args {
		_, err := strconv.ParseFloat(arg, 64)
		if name, long := strings.CutPrefix(arg, "--"); long {
			name, _, _ = strings.Cut(name, "=")
			if to = &rest; flags.Lookup(name) != nil {
				to = &own
			}
		} else if strings.HasPrefix(arg, "-") && err != nil {
			to = &rest // a short flag, no number below 0
		}
		*to = append(*to, arg)
	}
	return own, rest
}

// A bound is a flag that takes least to most.
type bound struct {
	flag               string
	value, least, most int
}

// inRange refuses the first flag that is out of its bounds.
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

// open loads a checkpoint and starts an engine with the settings, planned as for a server. What
// does not fit is refused before weights are read.
func (o *offlineOptions) open(cmd *cobra.Command, cfg *config.Config, checkpoint *ckpt.Model, need demand) (*offline.Rig, offline.Environment, error) {
	ctx, status, none := cmd.Context(), cmd.ErrOrStderr(), offline.Environment{}
	loading, planned, err := o.plan(cfg, checkpoint, load.NoteTo(status))
	if err != nil {
		return nil, none, err
	}
	if err := offline.Fits(need.input, need.output, planned.Limits.MaxLen); err != nil {
		return nil, none, err
	}
	if err := offline.Together(need.batch, min(planned.Limits.MaxSeqs, planned.Limits.MaxTokens)); err != nil {
		return nil, none, err
	}
	// Weights are read from here on.
	env, err := o.environment(cfg, checkpoint, loading.Device(), planned.Limits)
	if err != nil {
		return nil, none, err
	}
	if err := loading.Prepare(ctx, status); err != nil {
		return nil, none, err
	}
	first, choice, err := loading.Open(ctx, planned.Limits, status)
	if err != nil {
		return nil, none, err
	}
	if choice.Measured() {
		fmt.Fprintln(status, choice.Line())
	}
	env.Device, env.Threads = first.Info().Name, choice.Threads
	rigCfg := offline.Config{Runner: first, Tokenizer: checkpoint.Tokenizer, Allowed: load.MaskOut(checkpoint.Spec.Vocab, checkpoint.Unused), NoPrefixCache: !cfg.PrefixCaching, ChunkLimit: cfg.ChunkLimit, Waiting: need.waiting, Guesses: cfg.Speculation,
		Log: slog.New(slog.NewTextHandler(status, &slog.HandlerOptions{Level: slog.LevelWarn}))}
	if o.ids {
		rigCfg.Tokenizer = nil
	}
	rig, err := offline.Start(ctx, rigCfg)
	return rig, env, err
}

// environment is what results say of the machine, the model and the settings.
func (o *offlineOptions) environment(cfg *config.Config, checkpoint *ckpt.Model, device load.Device, lim model.Limits) (offline.Environment, error) {
	env := offline.Environment{
		Version: command.Version(), Go: runtime.Version(), System: runtime.GOOS + "/" + runtime.GOARCH, Processor: plan.ThisHost().CPU,
		Cores: runtime.NumCPU(), Threads: device.Threads(), Model: checkpoint.Spec.Name, KVCache: device.KV(),
		MaxLen: lim.MaxLen, MaxSeqs: lim.MaxSeqs, MaxTokens: lim.MaxTokens, PrefixCaching: cfg.PrefixCaching, Args: append([]string{}, o.args...),
	}
	count, err := plan.New(checkpoint.Spec, checkpoint.Params)
	if err != nil {
		return env, err
	}
	for _, t := range count.Types {
		env.DTypes = append(env.DTypes, t.Type.String())
	}
	return env, nil
}

// profileFile is where --profile writes.
func (o *offlineOptions) profileFile() string { return "bench-" + o.name + ".pprof" }

// writable returns why what was asked for cannot be written.
func (o *offlineOptions) writable() error {
	err := command.OutputFile("--output-json", o.json)
	if err == nil && o.profile {
		err = command.OutputFile("--profile", o.profileFile())
	}
	return err
}

// profiled measures, under the profiler if that was asked for.
func (o *offlineOptions) profiled(measure func() error) error {
	if !o.profile {
		return measure()
	}
	file, err := os.Create(o.profileFile())
	if err != nil {
		return err
	}
	if err := pprof.StartCPUProfile(file); err != nil {
		return errors.Join(err, file.Close())
	}
	err = measure()
	pprof.StopCPUProfile()
	return errors.Join(err, file.Close())
}

// A finding is a result of either command.
type finding interface {
	Console() string
	OssianConsole() string
}

// report prints a result, vLLM's lines first, and writes it where it was asked for.
func (o *offlineOptions) report(cmd *cobra.Command, found finding) error {
	if _, err := fmt.Fprintf(cmd.OutOrStdout(), "%s\n%s", found.Console(), found.OssianConsole()); err != nil {
		return err
	}
	if o.json == "" {
		return nil
	}
	return offline.WriteFile(o.json, found)
}
