package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"ossian/internal/bench"
)

func benchCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "bench",
		Short: "Measure a server the way vllm bench serve does",
	}
	c.AddCommand(benchServeCommand(), benchCompareCommand(), benchSummarizeCommand(), benchSelftestCommand(), benchScriptedCommand(), benchThroughputCommand(), benchLatencyCommand())
	return c
}

// benchOptions are the flags of `ossian bench serve`. Names and defaults are vLLM's.
type benchOptions struct {
	compat, backend, dialect   string
	baseURL, host, endpoint    string
	port                       int
	model, served              string
	tokenizer                  string
	skipTokenizer              bool
	data                       dataOptions
	seed                       int64
	rate, burstiness           string
	concurrency                int
	ramp                       bench.Ramp
	probeRate                  float64
	ignoreEOS                  bool
	noStream                   bool
	warmups                    int
	ready                      float64
	metrics, percentiles       string
	goodput, metadata, headers []string
	sampling                   map[string]*float64
	topK, logprobs             int
	extra, idPrefix, label     string
	profile, insecure          bool
	runs                       int

	save, detailed, add  bool
	dir, file, log, html string
	timeline, stats      bool
	thresholds           string
	quiet                bool
}

// several are the flags that take words up to the next flag, as Python's argparse has it.
var several = []string{"--goodput", "--metadata", "--header"}

func benchServeCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "serve [flags]",
		Short: "Send a workload to a server and report times and rates",
		Long: `Send a workload to a server and report times and rates, as vllm bench serve does.
Without --base-url, --host and --port this process serves --model (the built-in one if
none is named) on a free port and measures that.`,
		DisableFlagParsing: true, // some flags take several words
		RunE: func(cmd *cobra.Command, args []string) error {
			o := &benchOptions{}
			f := o.flags()
			switch err := f.Parse(spread(args)); {
			case errors.Is(err, pflag.ErrHelp):
				fmt.Fprintf(cmd.OutOrStdout(), "%s\n\nUsage:\n  ossian bench %s\n\nFlags:\n%s", cmd.Long, cmd.Use, f.FlagUsages())
				return nil
			case err != nil:
				return err
			case f.NArg() > 0:
				return fmt.Errorf("unexpected %q: every value belongs to a flag; the model is --model NAME", f.Arg(0))
			}
			setup, err := o.setup(f)
			if err != nil {
				return err
			}
			setup.Args = hidden(args)
			return o.run(cmd, f, setup)
		},
	}
}

// spread gives each of the words behind a flag of several the flag of its own.
func spread(args []string) (out []string) {
	flag := ""
	for _, a := range args {
		switch {
		case slices.Contains(several, a):
			flag = a
			continue
		case strings.HasPrefix(a, "-"):
			flag = ""
		}
		if flag != "" {
			a = flag + "=" + a
		}
		out = append(out, a)
	}
	return out
}

// hidden is a command line without what nobody should read in a report.
func hidden(args []string) []string {
	out := slices.Clone(args)
	header := false
	for i, a := range out {
		name, value, joined := strings.Cut(a, "=")
		switch {
		case a == "--header":
			header = true
			continue
		case strings.HasPrefix(a, "-"):
			header = false
			if joined && name == "--header" {
				key, _, _ := strings.Cut(value, "=")
				out[i] = name + "=" + key + "=…"
			}
			continue
		}
		if header {
			out[i] = name + "=…"
		}
	}
	return out
}

func (o *benchOptions) flags() *pflag.FlagSet {
	f := pflag.NewFlagSet("bench serve", pflag.ContinueOnError)
	f.SortFlags = false
	f.Usage = func() {}
	f.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		return pflag.NormalizedName(strings.ReplaceAll(name, "_", "-"))
	})
	o.serverFlags(f)
	o.data.flags(f)
	o.trafficFlags(f)
	o.outputFlags(f)
	for _, name := range []string{"trust-remote-code", "use-beam-search", "disable-log-requests", "self-timed"} {
		_ = f.Bool(name, false, "accepted, without effect")
	}
	_ = f.String("tokenizer-mode", "auto", "accepted, without effect")
	return f
}

// serverFlags say what is measured, and whose rules count.
func (o *benchOptions) serverFlags(f *pflag.FlagSet) {
	f.StringVar(&o.compat, "compat", "vllm", "whose numbers and output: vllm, vllm-rs, vllm-0.11, lmdeploy or sglang")
	f.StringVar(&o.backend, "backend", "", "openai (completions, the default), openai-chat, openai-responses; also the names of lmdeploy and sglang")
	f.StringVar(&o.dialect, "dialect", "", "what the server is, where servers differ: vllm, sglang, llama.cpp, ollama, tensorrt-llm, ossian; default vllm")
	f.StringVar(&o.baseURL, "base-url", "", "`URL` of the server; without it and --host and --port a server is started here")
	f.StringVar(&o.host, "host", "127.0.0.1", "of the server")
	f.IntVar(&o.port, "port", 8000, "of the server")
	f.StringVar(&o.endpoint, "endpoint", "", "path; default what the backend has")
	f.StringVar(&o.model, "model", "", "name of the model, or what to serve here; default the first that the server lists")
	f.StringVar(&o.served, "served-model-name", "", "`NAME` of the model in requests")
	f.StringVar(&o.tokenizer, "tokenizer", "", "`MODEL` whose tokenizer counts and makes prompts; default --model")
	f.BoolVar(&o.skipTokenizer, "skip-tokenizer-init", false, "use no tokenizer: token counts are the server's")
	f.Int64Var(&o.seed, "seed", 0, "of prompts and arrivals; lmdeploy and sglang: 1")
}

// trafficFlags say when requests are sent, and what is in them.
func (o *benchOptions) trafficFlags(f *pflag.FlagSet) {
	f.StringVar(&o.rate, "request-rate", "inf", "requests per second; inf = all at once")
	f.StringVar(&o.burstiness, "burstiness", "1.0", "shape of the gamma distribution of arrivals; 1 = Poisson, inf = even gaps")
	f.IntVar(&o.concurrency, "max-concurrency", 0, "most requests at once; 0 = no bound")
	f.StringVar(&o.ramp.Strategy, "ramp-up-strategy", "", "linear or exponential")
	f.Float64Var(&o.ramp.Start, "ramp-up-start-rps", 0, "requests per second at the start of the ramp")
	f.Float64Var(&o.ramp.End, "ramp-up-end-rps", 0, "requests per second at its end")
	f.Float64Var(&o.probeRate, "probe-request-rate", 0, "small requests per second beside the others")
	f.BoolVar(&o.ignoreEOS, "ignore-eos", false, "have as many tokens generated as asked for; the default differs by --compat and data set")
	f.BoolVar(&o.noStream, "no-stream", false, "ask for answers in one piece")
	f.IntVar(&o.warmups, "num-warmups", 0, "requests before the run")
	f.Float64Var(&o.ready, "ready-check-timeout-sec", 0, "wait up to `SECONDS` for the server; vllm-0.11: 600")
	f.StringArrayVar(&o.headers, "header", nil, "`KEY=VALUE` … of requests")
	o.sampling = map[string]*float64{}
	for _, name := range []string{"temperature", "top-p", "min-p", "frequency-penalty", "presence-penalty", "repetition-penalty"} {
		o.sampling[name] = f.Float64(name, 0, "in requests; not given = the server's")
	}
	f.IntVar(&o.topK, "top-k", 0, "in requests; not given = the server's")
	f.IntVar(&o.logprobs, "logprobs", 0, "ask for `N` log probabilities per token")
	f.StringVar(&o.extra, "extra-body", "", "`JSON` object whose members join the body")
	f.StringVar(&o.idPrefix, "request-id-prefix", "", "of x-request-id; default bench- and 8 random digits")
	f.BoolVar(&o.profile, "profile", false, "have the server's profiler run during the measurement")
	f.BoolVar(&o.insecure, "insecure", false, "do not check the server's certificate")
	f.IntVar(&o.runs, "num-runs", 1, "repeat the measurement and report spread")
}

// outputFlags say what is reported, and where.
func (o *benchOptions) outputFlags(f *pflag.FlagSet) {
	f.StringVar(&o.metrics, "percentile-metrics", "", "of ttft tpot itl e2el client_queue_time e2el_including_client_queue; the default differs by --compat")
	f.StringVar(&o.percentiles, "metric-percentiles", "99", "comma-separated")
	f.StringArrayVar(&o.goodput, "goodput", nil, "`METRIC:MS` …: what a good request keeps; ttft, tpot, e2el")
	f.StringArrayVar(&o.metadata, "metadata", nil, "`KEY=VALUE` … for the result")
	f.StringVar(&o.label, "label", "", "of the result; default the backend")
	f.BoolVar(&o.save, "save-result", false, "write the result as JSON")
	f.BoolVar(&o.detailed, "save-detailed", false, "with the times of every request")
	f.BoolVar(&o.add, "append-result", false, "add to the result file instead of replacing it")
	f.StringVar(&o.dir, "result-dir", "", "`FOLDER` of the result")
	f.StringVar(&o.file, "result-filename", "", "`NAME` of the result")
	f.StringVar(&o.log, "log", "", "`FILE` that gets every request as it ends: what bench summarize reads")
	f.StringVar(&o.html, "html", "", "`FILE` for a report with plots that opens in any browser")
	f.BoolVar(&o.timeline, "plot-timeline", false, "write a timeline of requests beside the result")
	f.StringVar(&o.thresholds, "timeline-itl-thresholds", "25,50", "`MS,MS` at which gaps change colour")
	f.BoolVar(&o.stats, "plot-dataset-stats", false, "write a plot of the workload's lengths beside the result")
	f.BoolVar(&o.quiet, "disable-tqdm", false, "no progress")
}

// setup is what reports say of the run.
func (o *benchOptions) setup(f *pflag.FlagSet) (*bench.Setup, error) {
	p, err := bench.ParseProfile(o.compat)
	if err != nil {
		return nil, fmt.Errorf("--compat: %w", err)
	}
	plain := p == bench.LMDeploy || p == bench.SGLang
	old := p == bench.VLLM011 || plain
	if !f.Changed("seed") && plain {
		o.seed = 1
	}
	if o.data.name == "" {
		o.data.name = "random"
		if plain {
			o.data.name = "sharegpt"
		}
	}
	if !f.Changed("ready-check-timeout-sec") && p == bench.VLLM011 {
		o.ready = 600
	}
	if !f.Changed("ignore-eos") {
		timed := strings.HasPrefix(o.data.name, "random") || o.data.name == "timed_trace"
		o.ignoreEOS = plain || timed && !old
	}
	s := &bench.Setup{Profile: p, Backend: cmp.Or(o.backend, "openai"), Dialect: cmp.Or(o.dialect, "vllm"), Dataset: o.data.name, Label: o.label, Seed: o.seed,
		IgnoreEOS: o.ignoreEOS, Stream: !o.noStream}
	for _, step := range []func(*bench.Setup) error{o.arrivals, o.selection, o.pairs} {
		if err := step(s); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (o *benchOptions) arrivals(s *bench.Setup) (err error) {
	a := &s.Arrivals
	if a.Rate, err = strconv.ParseFloat(o.rate, 64); err != nil || !(a.Rate > 0) {
		return fmt.Errorf("--request-rate %q: want a number above 0, or inf", o.rate)
	}
	if a.Burstiness, err = strconv.ParseFloat(o.burstiness, 64); err != nil || !(a.Burstiness > 0) {
		return fmt.Errorf("--burstiness %q: want a number above 0, or inf", o.burstiness)
	}
	if o.concurrency < 0 {
		return fmt.Errorf("--max-concurrency %d: want a number above 0, or 0 for no bound", o.concurrency)
	}
	if o.ramp.Strategy != "" && !math.IsInf(a.Rate, 1) {
		return errors.New("--ramp-up-strategy and --request-rate exclude each other: the ramp has its own rates")
	}
	a.Concurrency, a.Ramp, a.Timed = o.concurrency, o.ramp, o.data.name == "timed_trace"
	return nil
}

// known are the metrics that can be selected.
var known = []string{"ttft", "tpot", "itl", "e2el", "client_queue_time", "e2el_including_client_queue"}

func (o *benchOptions) selection(s *bench.Setup) error {
	names := o.metrics
	if names == "" {
		names = "ttft,tpot,itl"
		if s.Profile == bench.VLLMRust {
			names += ",e2el"
		}
	}
	for name := range strings.SplitSeq(names, ",") {
		if name = strings.TrimSpace(name); !slices.Contains(known, name) {
			return fmt.Errorf("--percentile-metrics: %q is none of %s", name, strings.Join(known, ", "))
		}
		s.Metrics = append(s.Metrics, name)
	}
	for text := range strings.SplitSeq(o.percentiles, ",") {
		p, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
		if err != nil || !(p >= 0 && p <= 100) {
			return fmt.Errorf("--metric-percentiles: %q is no number from 0 to 100", text)
		}
		s.Percentiles = append(s.Percentiles, p)
	}
	for _, g := range o.goodput {
		name, text, _ := strings.Cut(g, ":")
		ms, err := strconv.ParseFloat(text, 64)
		if err != nil || !(ms >= 0) || name != "ttft" && name != "tpot" && name != "e2el" {
			return fmt.Errorf("--goodput %q: want ttft:MS, tpot:MS or e2el:MS", g)
		}
		s.Goodput = append(s.Goodput, bench.SLO{Metric: name, Limit: time.Duration(ms * 1e6)})
	}
	return nil
}

func (o *benchOptions) pairs(s *bench.Setup) (err error) {
	s.Metadata, err = pairs("--metadata", o.metadata)
	return err
}

// pairs reads KEY=VALUE.
func pairs(flag string, texts []string) (out []bench.Pair, err error) {
	for _, t := range texts {
		key, value, ok := strings.Cut(t, "=")
		if !ok || key == "" {
			return nil, fmt.Errorf("%s %q: want KEY=VALUE", flag, t)
		}
		out = append(out, bench.Pair{Key: key, Value: value})
	}
	return out, nil
}

// members are the sampling flags that were given.
func (o *benchOptions) members(f *pflag.FlagSet) (out []bench.Member) {
	add := func(name string, value any) {
		text, _ := json.Marshal(value) // a number
		if f.Changed(name) {
			out = append(out, bench.Member{Name: strings.ReplaceAll(name, "-", "_"), Value: text})
		}
	}
	for _, name := range []string{"temperature", "top-p", "min-p", "frequency-penalty", "presence-penalty", "repetition-penalty"} {
		add(name, *o.sampling[name])
	}
	add("top-k", o.topK)
	return out
}
