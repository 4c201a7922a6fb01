package bench

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"ossian/internal/bench"
	"ossian/internal/bench/chart"
	"ossian/internal/bench/scripted"
)

// setup is what reports say of the run. What was not given gets the default of the tool
// whose numbers are asked for.
func (o *clientOptions) setup(flags *pflag.FlagSet) (*bench.Setup, error) {
	profile, err := bench.ParseProfile(o.compat)
	if err != nil {
		return nil, fmt.Errorf("--compat: %w", err)
	}
	// Defaults differ: plain are the tools that are not vLLM's, old those and vLLM before it
	// had answers to random prompts be as long as asked for.
	plain := profile == bench.LMDeploy || profile == bench.SGLang
	old := profile == bench.VLLM011 || plain
	if !flags.Changed("seed") && plain {
		o.seed = 1
	}
	if o.data.name == "" {
		o.data.name = "random"
		if plain {
			o.data.name = "sharegpt"
		}
	}
	if !flags.Changed("random-output-len") && profile == bench.SGLang {
		o.data.random.output = 1024
	}
	if !flags.Changed("ready-check-timeout-sec") && profile == bench.VLLM011 {
		o.ready = 600
	}
	if !flags.Changed("num-warmups") && plain {
		o.warmups = 1
	}
	if o.noWarmup {
		o.warmups = 0
	}
	if o.salt == "random" {
		o.salt = fmt.Sprintf("%016x", rand.Uint64())
	}
	if !flags.Changed("ignore-eos") {
		timed := strings.HasPrefix(o.data.name, "random") || o.data.name == "timed_trace"
		o.ignoreEOS = !o.noIgnoreEOS && (plain || (timed && !old && !o.turns.on))
	}
	// The rest is checked before a server is started or asked.
	if all := scripted.Dialects(); o.dialect != "" && !slices.Contains(all, o.dialect) {
		return nil, fmt.Errorf("--dialect %q: one of %s expected", o.dialect, strings.Join(all, ", "))
	}
	backend := "openai"
	if o.turns.on {
		backend = "openai-chat"
	}
	setup := &bench.Setup{Profile: profile, Backend: cmp.Or(o.backend, backend), Steady: o.steady, Dialect: cmp.Or(o.dialect, "vllm"), Dataset: o.data.name, Label: o.label, Seed: o.seed,
		IgnoreEOS: o.ignoreEOS, Stream: !o.noStream}
	if o.limits, err = chart.ParseThresholds(o.thresholds); err != nil { // before a long run
		return nil, fmt.Errorf("--timeline-itl-thresholds: %w", err)
	}
	if setup.Metadata, err = bench.ParsePairs("--metadata", o.metadata); err != nil {
		return nil, err
	}
	for _, step := range []func(*bench.Setup) error{o.arrivals, o.selection, o.turns.setup} {
		if err := step(setup); err != nil {
			return nil, err
		}
	}
	return setup, nil
}

// arrivals says in setup when requests are sent, and checks what else is a number or JSON.
func (o *clientOptions) arrivals(setup *bench.Setup) (err error) {
	arrivals := &setup.Arrivals
	// Conditions are written so that NaN is refused.
	if arrivals.Rate, err = strconv.ParseFloat(o.rate, 64); err != nil || !(arrivals.Rate > 0) {
		return fmt.Errorf("--request-rate %q: want a number above 0, or inf", o.rate)
	}
	if arrivals.Burstiness, err = strconv.ParseFloat(o.burstiness, 64); err != nil || !(arrivals.Burstiness > 0) {
		return fmt.Errorf("--burstiness %q: want a number above 0, or inf", o.burstiness)
	}
	if o.concurrency < 0 {
		return fmt.Errorf("--max-concurrency %d: want a number above 0, or 0 for no bound", o.concurrency)
	}
	if o.warmups < 0 || o.warmups > 1e6 {
		return fmt.Errorf("--num-warmups %d: want 0 to 1000000", o.warmups)
	}
	if !(o.ready >= 0 && o.ready <= 1e9) {
		return fmt.Errorf("--ready-check-timeout-sec %v: want 0 to 1e9", o.ready)
	}
	if r := o.probeRate; r != 0 && !(r >= 1e-6 && r <= 1e6) {
		return fmt.Errorf("--probe-request-rate %v: want 0 for none, or 1e-6 to 1e6", r)
	}
	if o.ramp.Strategy != "" && !math.IsInf(arrivals.Rate, 1) {
		return errors.New("--ramp-up-strategy and --request-rate exclude each other: the ramp has its own rates")
	}
	arrivals.Concurrency, arrivals.Ramp, arrivals.Timed = o.concurrency, o.ramp, o.timed()
	if text := o.templateVars; text != "" && (!json.Valid([]byte(text)) || strings.TrimSpace(text)[0] != '{') {
		return fmt.Errorf("--chat-template-kwargs %q: want a JSON object", text)
	}
	return nil
}

// known are the metrics that can be selected.
var known = []string{"ttft", "tpot", "itl", "e2el", "client_queue_time", "e2el_including_client_queue"}

// selection says in setup what is reported.
func (o *clientOptions) selection(setup *bench.Setup) error {
	names := o.metrics
	if names == "" {
		names = "ttft,tpot,itl"
		if setup.Profile == bench.VLLMRust {
			names += ",e2el"
		}
	}
	for name := range strings.SplitSeq(names, ",") {
		if name = strings.TrimSpace(name); !slices.Contains(known, name) {
			return fmt.Errorf("--percentile-metrics: %q is none of %s", name, strings.Join(known, ", "))
		}
		setup.Metrics = append(setup.Metrics, name)
	}
	var err error
	if setup.Percentiles, err = bench.ParsePercentiles("--metric-percentiles", o.percentiles); err != nil {
		return err
	}
	if t := setup.Steady.Threshold; !(t > 0 && t <= 1) || !(setup.Steady.Shortest >= 0) {
		return fmt.Errorf("--steady-state-threshold %v, --steady-state-min-window %v: want a share above 0, at most 1, and seconds from 0", t, setup.Steady.Shortest)
	}
	// A request is good if it keeps all of these.
	for _, g := range o.goodput {
		slo, err := bench.ParseSLO(g)
		if err != nil {
			return err
		}
		setup.Goodput = append(setup.Goodput, slo)
	}
	return nil
}

// members are the sampling flags that were given.
func (o *clientOptions) members(flags *pflag.FlagSet) (out []bench.Member) {
	add := func(name string, value any) {
		text, _ := json.Marshal(value) // a number
		if flags.Changed(name) {
			out = append(out, bench.Member{Name: strings.ReplaceAll(name, "-", "_"), Value: text})
		}
	}
	for _, name := range []string{"temperature", "top-p", "min-p", "frequency-penalty", "presence-penalty", "repetition-penalty"} {
		add(name, *o.sampling[name])
	}
	add("top-k", o.topK)
	return out
}
