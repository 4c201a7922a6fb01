package bench

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"ossian/internal/bench"
	"ossian/internal/bench/chart"
	"ossian/internal/bench/client"
	"ossian/internal/command"
)

// complete makes options of the flags that were read from args. What was not given gets the
// default of the tool whose numbers are asked for.
func (o *clientOptions) complete(flags *pflag.FlagSet, args []string) error {
	profile, err := bench.ParseProfile(o.compat)
	if err != nil {
		return fmt.Errorf("--compat: %w", err)
	}
	defaults, given := client.Defaults(profile), flags.Changed
	o.Profile = profile
	if !given("seed") {
		o.Seed = defaults.Seed
	}
	o.Data.Name = cmp.Or(o.Data.Name, defaults.Data.Name)
	if !given("random-output-len") {
		o.Data.Random.Output = defaults.Data.Random.Output
	}
	if !given("ready-check-timeout-sec") {
		o.ready = defaults.Ready.Seconds()
	}
	if !given("num-warmups") {
		o.Warmups = defaults.Warmups
	}
	if o.noWarmup {
		o.Warmups = 0
	}
	// Whether answers end where they end: only what was said overrules the tool.
	switch no := false; {
	case given("ignore-eos"):
		o.IgnoreEOS = &o.ignoreEOS
	case o.noIgnoreEOS:
		o.IgnoreEOS = &no
	}
	if o.limits, err = chart.ParseThresholds(o.thresholds); err != nil { // before a long run
		return fmt.Errorf("--timeline-itl-thresholds: %w", err)
	}
	o.args, o.Args, o.Version = args, bench.HideSecrets(args), command.Version()
	if err := o.cacheMode(); err != nil {
		return err
	}
	if err := o.access(flags); err != nil {
		return err
	}
	for _, step := range []func() error{o.traffic, o.part, o.selection} {
		if err := step(); err != nil {
			return err
		}
	}
	o.Sampling = o.members(flags)
	if given("logprobs") {
		o.Logprobs = &o.logprobs
	}
	if _, err = client.New(o.Options); err != nil { // what is wrong is said before a server is started or asked
		return err
	}
	return command.InputFile("--dataset-path", o.Data.Path)
}

// cacheMode says what is done about a warm cache. Workloads of a preset have prompts that begin alike,
// so each would find what those before it left.
func (o *clientOptions) cacheMode() (err error) {
	if o.cache == "" && o.sweep.preset != "" && o.Salt == "" && !o.ResetCache && !o.FlushCache {
		o.cache = string(client.CacheAuto)
	}
	if o.cache == "" {
		return nil
	}
	if o.Cache, err = client.ParseCache(o.cache); err != nil {
		return fmt.Errorf("--cache %w", err)
	}
	return nil
}

// access says where the server is. Without any of its flags it is in this process.
func (o *clientOptions) access(flags *pflag.FlagSet) (err error) {
	if o.Local = true; flags.Changed("base-url") || flags.Changed("host") || flags.Changed("port") {
		o.elsewhere()
		if o.BaseURL == "" {
			o.BaseURL = "http://" + net.JoinHostPort(strings.Trim(o.host, "[]"), strconv.Itoa(o.port))
		}
	}
	if o.device != "" && !o.Local {
		return errors.New("--device: the server at --base-url, --host and --port has its device already; leave it out, or give it to that server")
	}
	o.Access.Header, err = bench.ParsePairs("--header", o.headers)
	return err
}

// elsewhere says that the server is not in this process: it may want a key, and a proxy.
func (o *clientOptions) elsewhere() {
	o.Local, o.Access.Key, o.Access.Proxy = false, os.Getenv("OPENAI_API_KEY"), http.ProxyFromEnvironment
}

// traffic reads when requests are sent. Conditions are written so that NaN is refused.
func (o *clientOptions) traffic() (err error) {
	if o.Arrivals.Rate, err = strconv.ParseFloat(o.rate, 64); err != nil || !(o.Arrivals.Rate > 0) {
		return fmt.Errorf("--request-rate %q: want a number above 0, or inf", o.rate)
	}
	if o.Arrivals.Burstiness, err = strconv.ParseFloat(o.burstiness, 64); err != nil || !(o.Arrivals.Burstiness > 0) {
		return fmt.Errorf("--burstiness %q: want a number above 0, or inf", o.burstiness)
	}
	if !(o.ready >= 0 && o.ready <= 1e9) {
		return fmt.Errorf("--ready-check-timeout-sec %v: want 0 to 1e9", o.ready)
	}
	o.Ready = time.Duration(o.ready * float64(time.Second))
	if o.delay > math.MaxInt64/int(time.Millisecond) {
		return fmt.Errorf("--multi-turn-delay-ms %d: want at most %d", o.delay, math.MaxInt64/int(time.Millisecond))
	}
	o.Conversations.Delay = time.Duration(o.delay) * time.Millisecond
	return nil
}

// selection reads what is reported.
func (o *clientOptions) selection() (err error) {
	if o.Metadata, err = bench.ParsePairs("--metadata", o.metadata); err != nil {
		return err
	}
	o.Metrics = nil
	if o.metrics != "" {
		for name := range strings.SplitSeq(o.metrics, ",") {
			o.Metrics = append(o.Metrics, strings.TrimSpace(name))
		}
	}
	if o.Percentiles, err = bench.ParsePercentiles("--metric-percentiles", o.percentiles); err != nil {
		return err
	}
	// A request is good if it keeps all of these.
	for _, g := range o.goodput {
		slo, err := bench.ParseSLO(g)
		if err != nil {
			return err
		}
		o.Goodput = append(o.Goodput, slo)
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
