package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"ossian/internal/bench/jsonstyle"
	"ossian/internal/bench/report"
	"ossian/internal/command"
)

// seriesOptions are the flags that make several measurements of one.
type seriesOptions struct {
	concurrency, rates, percentiles string // lists
	factor                          int
	multi                           bool // lmdeploy's sweep over rates
	multiRates, preset              string
}

func (w *seriesOptions) flags(flags *pflag.FlagSet) {
	flags.StringVar(&w.concurrency, "sweep-max-concurrency", "", "measure at each bound of `N,N,...`; of --multi-turn-concurrency where there are conversations")
	flags.StringVar(&w.rates, "sweep-request-rate", "", "measure at each rate of `R,R,...`; without --sweep-max-concurrency")
	flags.IntVar(&w.factor, "sweep-num-prompts-factor", 0, "`K` requests per unit of concurrency; 0 = --num-prompts at each")
	flags.StringVar(&w.percentiles, "sweep-summary-percentiles", "", "`P,P,...` in the table of the sweep, behind 50 and 90")
	flags.BoolVar(&w.multi, "multi", false, "lmdeploy: measure at each rate of --request-rate-range")
	flags.StringVar(&w.multiRates, "request-rate-range", "2,34,2", "lmdeploy: rates; of three whole numbers from, end, step")
	flags.StringVar(&w.preset, "preset", "", "workloads of published tables: lmdeploy-throughput, lab-throughput or lab-latency; other flags overrule theirs")
}

// A variant is one of several measurements: flags beside those of the user, and what is
// printed of it.
type variant struct {
	row, title    string   // of it in tables, above its report
	above         string   // printed above its report instead of a heading
	before, after []string // flags that stand before and behind those of the user
	other         bool     // its workload is not that of the variant before
}

// A series is what a command measures: one variant without flags, or several.
type series struct {
	name                  string // of what varies; "" = no table of a sweep
	heading, between, end string // printed before, behind each and last
	variants              []variant
}

// errTimed refuses to vary a rate that nothing follows.
var errTimed = errors.New("--dataset-name timed_trace is sent at its own times, whatever the rate: add --no-self-timed to vary the rate")

// plan lists what is to be measured: a preset, a sweep over bounds or rates, or one variant.
func (w *seriesOptions) plan(client *clientOptions) (planned series, err error) {
	switch {
	case w.preset != "":
		return w.presets(client)
	case w.concurrency != "":
		planned.name, planned.heading = "Max Concurrency", report.Heading("Concurrency Sweep", "=")
		flag := "--max-concurrency"
		if client.Conversations.On {
			planned.name, planned.heading, flag = "MT Concurrency", report.Heading("Multi-Turn Concurrency Sweep", "="), "--multi-turn-concurrency"
		}
		texts := strings.Split(w.concurrency, ",")
		for i, text := range texts {
			texts[i] = strings.TrimSpace(text)
			count, err := strconv.Atoi(texts[i])
			if err != nil || count < 1 {
				return planned, fmt.Errorf("--sweep-max-concurrency %q: want whole numbers from 1, such as 1,2,4", w.concurrency)
			}
			one := variant{row: "concurrency=" + texts[i], title: strings.ReplaceAll(flag[2:], "-", "_") + "=" + texts[i], after: []string{flag, texts[i]}}
			if w.factor > 0 { // another number of requests is another workload
				one.after, one.other = append(one.after, "--num-prompts", strconv.Itoa(count*w.factor)), true
			}
			planned.variants = append(planned.variants, one)
		}
		planned.heading += fmt.Sprintf("Sweeping %s over %d values: [%s]\n", flag, len(texts), strings.Join(texts, ", "))
	case (w.rates != "" || w.multi) && client.Timed():
		return planned, errTimed
	case w.rates != "" || w.multi:
		rates, err := w.listRates()
		if err != nil {
			return planned, err
		}
		var texts []string
		for _, rate := range rates {
			text := strings.TrimSuffix(jsonstyle.PyFloat(rate), ".0")
			planned.variants = append(planned.variants, variant{row: "rate=" + text, title: "request_rate=" + text, after: []string{"--request-rate", text}})
			texts = append(texts, jsonstyle.PyFloat(rate))
		}
		planned.name = "Request Rate"
		planned.heading = report.Heading("Request Rate Sweep", "=") + fmt.Sprintf("Sweeping --request-rate over %d values: [%s]\n", len(texts), strings.Join(texts, ", "))
	default:
		planned.variants = []variant{{}}
		if client.runs > 1 {
			planned.heading = report.Heading(fmt.Sprintf("Multi-Run Benchmark (%d runs)", client.runs), "=")
		}
	}
	return planned, nil
}

// listRates are the rates of --sweep-request-rate or of --multi.
func (w *seriesOptions) listRates() (rates []float64, err error) {
	flag, text := "--sweep-request-rate", w.rates
	if text == "" {
		flag, text = "--request-rate-range", w.multiRates
	}
	for part := range strings.SplitSeq(text, ",") {
		rate, err := strconv.ParseFloat(strings.TrimSpace(part), 64)
		if err != nil || !(rate > 0) {
			return nil, fmt.Errorf("%s %q: want numbers above 0, such as 1,10,inf", flag, text)
		}
		rates = append(rates, rate)
	}
	if w.rates != "" || len(rates) != 3 {
		return rates, nil
	}
	// Three numbers are a range, whose end is not part of it.
	from, step, steps := rates[0], rates[2], math.Ceil((rates[1]-rates[0])/rates[2])
	if !(steps > 0 && steps <= 1000) {
		return nil, fmt.Errorf("--request-rate-range %q: want from,end,step with 1 to 1000 rates, such as 2,34,2", text)
	}
	rates = nil
	for i := range int(steps) {
		rates = append(rates, from+float64(i)*step)
	}
	return rates, nil
}

// presets are the workloads that others publish tables of (bench.md 4.1 and 5).
func (w *seriesOptions) presets(client *clientOptions) (planned series, err error) {
	const chat, random = "--backend openai-chat --seed 42 ", "--dataset-name random --random-input-len %d --random-output-len %d --num-prompts %d"
	sharegpt, old := "--dataset-name sharegpt --num-prompts %d", w.preset == "lmdeploy-throughput"
	if client.Data.Path == "" && !old {
		sharegpt = "--dataset-name sharegpt-synthetic --num-prompts %d"
		planned.heading = "Without --dataset-path, data set sharegpt-synthetic stands in for ShareGPT: the numbers are not those of published tables.\n"
	}
	// Every preset has a workload of its own, whose flags stand before those of the user.
	add := func(row, form string, values ...any) {
		one := variant{row: row, title: row, other: true, before: strings.Fields(fmt.Sprintf(form, values...))}
		if !old && strings.Contains(form, random) {
			one.after = []string{"--dataset-path="} // the file is for ShareGPT
		}
		planned.variants = append(planned.variants, one)
	}
	switch w.preset {
	case "lmdeploy-throughput":
		add("ShareGPT", sharegpt, 10000)
		add("1024/1024", random, 1024, 1024, 2000)
		add("2000/6000", random, 2000, 6000, 500)
		add("6000/2000", random, 6000, 2000, 500)
		backend := cmp.Or(client.Backend, "lmdeploy")
		for i := range planned.variants {
			one := &planned.variants[i]
			one.before = append(one.before, "--random-range-ratio", "1.0")
			one.above = fmt.Sprintf("Running benchmark %s with backend: %s\n", strings.Join(one.before, " "), backend)
			one.before = append(one.before, "--compat", "lmdeploy", "--backend", backend)
		}
		planned.heading, planned.between, planned.end = "Using backend: "+backend+"\n", strings.Repeat("-", 40)+"\n", "All benchmarks completed for backend: "+backend+"\n"
	case "lab-throughput":
		add("ShareGPT", chat+sharegpt, 1000)
		add("Short", chat+random, 128, 4, 1000)
		add("Medium", chat+random, 2000, 100, 500)
		add("Long", chat+random, 4000, 200, 500)
		add("Very Long", chat+random, 32000, 100, 100)
	case "lab-latency":
		for _, one := range []int{1, 2, 4, 8} {
			add(fmt.Sprintf("ShareGPT, concurrency %d", one), chat+sharegpt+" --max-concurrency %d", 100, one)
		}
	default:
		return planned, fmt.Errorf("--preset %q: want lmdeploy-throughput, lab-throughput or lab-latency", w.preset)
	}
	return planned, nil
}

// with is m with the flags of one variant, and with the workload of last where that is the same.
func (m *measurement) with(ctx context.Context, one variant, last *measurement) (*measurement, error) {
	varied := *m
	// Flags before those of the command line are defaults, flags behind it win.
	if len(one.before)+len(one.after) > 0 {
		args := slices.Concat(one.before, m.o.args, one.after)
		varied.o = &clientOptions{}
		varied.flags = varied.o.flags()
		err := varied.flags.Parse(spread(args))
		if err != nil {
			return nil, command.Suggest(varied.flags, err)
		}
		if err := varied.o.complete(varied.flags, args); err != nil {
			return nil, err
		}
		varied.listen(ctx)
		if varied.Client, err = m.With(varied.o.Options); err != nil {
			return nil, err
		}
	}
	// A workload is made once for all variants that send the same: they are compared on the same
	// prompts, and making them takes long.
	if last == nil || one.other {
		return &varied, varied.Prepare(ctx)
	}
	varied.Adopt(last.Client)
	return &varied, nil
}
