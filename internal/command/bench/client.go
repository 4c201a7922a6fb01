package bench

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"ossian/internal/bench/chart"
	"ossian/internal/bench/client"
	"ossian/internal/bench/report"
	"ossian/internal/command"
)

// clientOptions are the flags of `ossian bench serve`. Names and defaults are vLLM's. Options are
// what the flags say to the client once setup has read those that are texts here.
type clientOptions struct {
	client.Options
	compat           string
	device           string // of the server in this process; "" = not given
	host             string
	port             int
	dryRun           bool
	rate, burstiness string
	delay            int // milliseconds between an answer and the next turn
	ignoreEOS        bool
	noIgnoreEOS      bool
	noWarmup         bool
	ready            float64 // seconds
	headers          []string
	sampling         map[string]*float64
	topK, logprobs   int
	cache            string // "" = not given
	shard, startAt   string // "" = not given
	sweep            seriesOptions
	runs             int

	// What is reported, and where: outputFlags.
	metrics, percentiles         string
	goodput, metadata            []string
	save, detailed, add          bool
	dir, file, output, log, html string
	timeline, stats              bool
	thresholds                   string
	limits                       chart.Thresholds // these, read
	quiet                        bool
	compare                      []string // two files

	args []string // the command line
}

// several are the flags that take words up to the next flag, as Python's argparse has it.
var several = []string{"--goodput", "--metadata", "--header", "--compare", "--lora-modules"}

// aliases are what lmdeploy and sglang call flags.
var aliases = map[string]string{"disable-stream": "no-stream", "extra-request-body": "extra-body", "warmup-requests": "num-warmups", "output-details": "save-detailed", "tokenize-prompt": "prompt-token-ids"}

// serveCommand is ossian bench serve.
func serveCommand(here command.Start) *cobra.Command {
	return &cobra.Command{
		Use:   "serve [flags]",
		Short: "Send a workload to a server and report times and rates",
		Long: `Send a workload to a server and report times and rates, as vllm bench serve does.
Without --base-url, --host and --port this process serves --model (the built-in one if
none is named) on a free port and measures that.`,
		DisableFlagParsing: true, // some flags take several words
		RunE: func(cmd *cobra.Command, args []string) error {
			opts := &clientOptions{}
			flags := opts.flags()
			switch err := flags.Parse(spread(args)); {
			case errors.Is(err, pflag.ErrHelp):
				fmt.Fprintf(cmd.OutOrStdout(), "%s\n\nUsage:\n  ossian bench %s\n\nFlags:\n%s", cmd.Long, cmd.Use, flags.FlagUsages())
				return nil
			case err != nil:
				return command.Suggest(flags, err)
			case flags.NArg() > 0:
				return fmt.Errorf("unexpected %q: every value belongs to a flag; the model is --model NAME", flags.Arg(0))
			}
			if n := len(opts.compare); n == 2 {
				return compareFiles(cleaner{cmd.OutOrStdout()}, cleaner{cmd.ErrOrStderr()}, opts.compare[0], opts.compare[1])
			} else if n > 0 {
				return fmt.Errorf("--compare with %d files: want two", n)
			}
			if err := opts.complete(flags, args); err != nil {
				return err
			}
			return opts.run(cmd, flags, here)
		},
	}
}

// spread gives each of the words behind a flag of several the flag of its own, and an empty
// one to a flag without words, which its reader refuses.
func spread(args []string) (out []string) {
	flag := "" // the one of several whose words follow
	for i, arg := range args {
		switch {
		case slices.Contains(several, arg):
			if flag = arg; i+1 == len(args) || strings.HasPrefix(args[i+1], "-") {
				out = append(out, arg+"=")
			}
			continue
		case strings.HasPrefix(arg, "-"):
			flag = ""
		}
		if flag != "" {
			arg = flag + "=" + arg
		}
		out = append(out, arg)
	}
	return out
}

// spelling is the name of a flag that has underscores, or that other tools call otherwise.
func spelling(_ *pflag.FlagSet, name string) pflag.NormalizedName {
	name = strings.ReplaceAll(name, "_", "-")
	return pflag.NormalizedName(cmp.Or(aliases[name], name))
}

// flags are all flags of the command, in the order in which help lists them.
func (o *clientOptions) flags() *pflag.FlagSet {
	flags := pflag.NewFlagSet("bench serve", pflag.ContinueOnError)
	flags.SortFlags = false
	flags.Usage = func() {}
	flags.SetNormalizeFunc(spelling)
	o.serverFlags(flags)
	dataFlags(&o.Data, flags)
	o.trafficFlags(flags)
	o.cacheFlags(flags)
	o.turnFlags(flags)
	o.sweep.flags(flags)
	o.outputFlags(flags)
	for _, name := range []string{"trust-remote-code", "use-beam-search", "disable-log-requests", "self-timed", "enable-multimodal-chat"} {
		_ = flags.Bool(name, false, "accepted, without effect")
	}
	_ = flags.String("tokenizer-mode", "auto", "accepted, without effect")
	return flags
}

// serverFlags say what is measured, and whose rules count.
func (o *clientOptions) serverFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.compat, "compat", "vllm", "whose numbers and output: vllm, vllm-rs, vllm-0.11, lmdeploy or sglang")
	flags.StringVar(&o.Backend, "backend", "", "openai (completions, the default), openai-chat, openai-responses; also the names of lmdeploy and sglang")
	flags.StringVar(&o.Dialect, "dialect", "", "what the server is, where servers differ: vllm, sglang, llama.cpp, ollama, tensorrt-llm, ossian; default vllm")
	flags.StringVar(&o.BaseURL, "base-url", "", "`URL` of the server, whose key is OPENAI_API_KEY in the environment; without it and --host and --port a server is started here")
	flags.StringVar(&o.host, "host", "127.0.0.1", "of the server")
	flags.IntVar(&o.port, "port", 8000, "of the server")
	flags.StringVar(&o.Endpoint, "endpoint", "", "path; default what the backend has")
	flags.StringVar(&o.Model, "model", "", "name of the model, or what to serve here; default the first that the server lists")
	flags.StringVar(&o.device, "device", "", "`DEVICE` of the server that is started here: cpu, cuda or cuda:N, one card of NVIDIA's, or auto, the default: see ossian serve --help")
	flags.StringVar(&o.Served, "served-model-name", "", "`NAME` of the model in requests")
	flags.StringVar(&o.Tokenizer, "tokenizer", "", "`MODEL` whose tokenizer counts and makes prompts; default --model")
	flags.BoolVar(&o.SkipTokenizer, "skip-tokenizer-init", false, "use no tokenizer: token counts are the server's")
	flags.Int64Var(&o.Seed, "seed", 0, "of prompts and arrivals; lmdeploy and sglang: 1")
	flags.StringArrayVar(&o.LoRA, "lora-modules", nil, "`NAME` … of LoRA adapters of the server: each request asks for one of them as its model")
	flags.StringVar(&o.LoRAAssignment, "lora-assignment", "random", "which: random or round-robin")
	flags.IntVar(&o.MaxLen, "max-model-len", 0, "leave out requests of more `TOKENS`, prompt and output together; 0 = none")
	flags.StringVar(&o.TemplateVars, "chat-template-kwargs", "", "`JSON` object of variables for the model's chat template, where prompts are put into it here")
	flags.BoolVar(&o.dryRun, "dry-run", false, "make the workload, say how large it is, and send nothing")
}

// trafficFlags say when requests are sent, and what is in them.
func (o *clientOptions) trafficFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.rate, "request-rate", "inf", "requests per second; inf = all at once")
	flags.BoolVar(&o.Untimed, "no-self-timed", false, "timed_trace: send at --request-rate and not at the times of the trace")
	flags.StringVar(&o.burstiness, "burstiness", "1.0", "shape of the gamma distribution of arrivals; 1 = Poisson, inf = even gaps")
	flags.IntVar(&o.Arrivals.Concurrency, "max-concurrency", 0, "most requests at once; 0 = no bound")
	flags.StringVar(&o.Arrivals.Ramp.Strategy, "ramp-up-strategy", "", "linear or exponential")
	flags.Float64Var(&o.Arrivals.Ramp.Start, "ramp-up-start-rps", 0, "requests per second at the start of the ramp")
	flags.Float64Var(&o.Arrivals.Ramp.End, "ramp-up-end-rps", 0, "requests per second at its end")
	flags.Float64Var(&o.ProbeRate, "probe-request-rate", 0, "small requests per second beside the others")
	flags.BoolVar(&o.ignoreEOS, "ignore-eos", false, "have as many tokens generated as asked for; the default differs by --compat and data set")
	flags.BoolVar(&o.noIgnoreEOS, "disable-ignore-eos", false, "let answers end where they end")
	flags.BoolVar(&o.NoStream, "no-stream", false, "ask for answers in one piece; lmdeploy, sglang: --disable-stream")
	flags.IntVar(&o.Warmups, "num-warmups", 0, "requests before the run; lmdeploy, sglang: 1, --warmup-requests")
	flags.BoolVar(&o.noWarmup, "disable-warmup", false, "lmdeploy: no request before the run")
	flags.Float64Var(&o.ready, "ready-check-timeout-sec", 0, "wait up to `SECONDS` for the server; vllm-0.11: 600")
	flags.StringArrayVar(&o.headers, "header", nil, "`KEY=VALUE` … of requests")
	o.sampling = map[string]*float64{}
	for _, name := range []string{"temperature", "top-p", "min-p", "frequency-penalty", "presence-penalty", "repetition-penalty"} {
		o.sampling[name] = flags.Float64(name, 0, "in requests; not given = the server's")
	}
	flags.IntVar(&o.topK, "top-k", 0, "in requests; not given = the server's")
	flags.IntVar(&o.logprobs, "logprobs", 0, "ask for `N` log probabilities per token")
	flags.StringVar(&o.Extra, "extra-body", "", "`JSON` object whose members join the body; lmdeploy, sglang: --extra-request-body")
	flags.StringVar(&o.IDPrefix, "request-id-prefix", "", "of x-request-id; default bench- and 8 random digits, - sends none")
	flags.BoolVar(&o.Profiler, "profile", false, "have the server's profiler run during the measurement")
	flags.BoolVar(&o.Access.Insecure, "insecure", false, "do not check the server's certificate")
	flags.StringVar(&o.shard, "shard", "", "`I/N`: send every Nth request from the Ith on, 0/N to N-1/N, beside clients that send the others; bench merge puts their logs together")
	flags.StringVar(&o.startAt, "start-at", "", "`TIME` at which all shards begin: 2026-11-26T12:00:00Z, or seconds since 1970")
	flags.IntVar(&o.runs, "num-runs", 1, "repeat the measurement and report spread")
}

// cacheFlags guard against a warm prefix cache, and say what is steady.
func (o *clientOptions) cacheFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.cache, "cache", "", "the server's prefix cache before each run: reset (the server empties it), salt (as --salt), carry (left as it is), auto (reset where the server can, else salt); default auto for --preset, else carry")
	flags.StringVar(&o.Salt, "salt", "", "replace the first 8 tokens of prompts by ones that no server has seen: of `TEXT`, or random without")
	flags.Lookup("salt").NoOptDefVal = client.RandomSalt
	flags.BoolVar(&o.ResetCache, "reset-prefix-cache", false, "have the server empty its prefix cache before each run (POST /reset_prefix_cache)")
	flags.BoolVar(&o.FlushCache, "flush-cache", false, "the same with POST /flush_cache, as sglang has it")
	flags.Float64Var(&o.Steady.Threshold, "steady-state-threshold", report.SteadyThreshold, "share of --max-concurrency above which a run is steady")
	flags.Float64Var(&o.Steady.Shortest, "steady-state-min-window", 0, "warn below so many `SECONDS` of it; 0 = 10 or a tenth of the run, the longer")
	flags.BoolVar(&o.Steady.Off, "no-steady-state", false, "do not look for it")
}

// outputFlags say what is reported, and where.
func (o *clientOptions) outputFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.metrics, "percentile-metrics", "", "of ttft tpot itl e2el client_queue_time e2el_including_client_queue; the default differs by --compat")
	flags.StringVar(&o.percentiles, "metric-percentiles", "99", "comma-separated")
	flags.StringArrayVar(&o.goodput, "goodput", nil, "`METRIC:MS` …: what a good request keeps; ttft, tpot, e2el")
	flags.StringArrayVar(&o.metadata, "metadata", nil, "`KEY=VALUE` … for the result")
	flags.StringVar(&o.Label, "label", "", "of the result; default the backend")
	flags.BoolVar(&o.save, "save-result", false, "write the result as JSON")
	flags.BoolVar(&o.detailed, "save-detailed", false, "with the times of every request; sglang: --output-details")
	flags.BoolVar(&o.add, "append-result", false, "add to the result file instead of replacing it")
	flags.StringVar(&o.dir, "result-dir", "", "`FOLDER` of the result")
	flags.StringVar(&o.file, "result-filename", "", "`NAME` of the result")
	flags.StringVar(&o.output, "output-file", "", "lmdeploy, sglang: `FILE` that the result is added to")
	flags.StringArrayVar(&o.compare, "compare", nil, "`A.json B.json`: measure nothing, compare two results as ossian bench compare does")
	flags.StringVar(&o.log, "log", "", "`FILE` that gets every request as it ends: what bench summarize reads")
	flags.StringVar(&o.html, "html", "", "`FILE` for a report with plots that opens in any browser")
	flags.BoolVar(&o.timeline, "plot-timeline", false, "write a timeline of requests beside the result")
	flags.StringVar(&o.thresholds, "timeline-itl-thresholds", "25,50", "`MS,MS` at which gaps change colour")
	flags.BoolVar(&o.stats, "plot-dataset-stats", false, "write a plot of the workload's lengths beside the result")
	flags.BoolVar(&o.quiet, "disable-tqdm", false, "no progress")
}
