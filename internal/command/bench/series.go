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

	"ossian/internal/bench"
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

// A variant is one of several measurements.
type variant struct {
	row, title    string   // of it in tables, above its report
	above         string   // printed above its report instead of a heading
	before, after []string // flags that stand before and behind those of the user
	other         bool     // its workload is not that of the case before
}

// A series is what a command measures.
type series struct {
	name, heading, between, end string // of what varies, "" = no table of a sweep; printed before, behind each and last
	cases                       []variant
}

// errTimed refuses to vary a rate that nothing follows.
var errTimed = errors.New("--dataset-name timed_trace is sent at its own times, whatever the rate: add --no-self-timed to vary the rate")

// timed reports whether the workload says when its requests are sent.
func (o *clientOptions) timed() bool { return o.data.name == "timed_trace" && !o.untimed }

func (w *seriesOptions) plan(client *clientOptions) (planned series, err error) {
	switch {
	case w.preset != "":
		return w.presets(client)
	case w.concurrency != "":
		planned.name, planned.heading = "Max Concurrency", report.Heading("Concurrency Sweep", "=")
		flag := "--max-concurrency"
		if client.turns.on {
			planned.name, planned.heading, flag = "MT Concurrency", report.Heading("Multi-Turn Concurrency Sweep", "="), "--multi-turn-concurrency"
		}
		texts := strings.Split(w.concurrency, ",")
		for i, text := range texts {
			texts[i] = strings.TrimSpace(text)
			n, err := strconv.Atoi(texts[i])
			if err != nil || n < 1 {
				return planned, fmt.Errorf("--sweep-max-concurrency %q: want whole numbers from 1, such as 1,2,4", w.concurrency)
			}
			c := variant{row: "concurrency=" + texts[i], title: strings.ReplaceAll(flag[2:], "-", "_") + "=" + texts[i], after: []string{flag, texts[i]}}
			if w.factor > 0 {
				c.after, c.other = append(c.after, "--num-prompts", strconv.Itoa(n*w.factor)), true
			}
			planned.cases = append(planned.cases, c)
		}
		planned.heading += fmt.Sprintf("Sweeping %s over %d values: [%s]\n", flag, len(texts), strings.Join(texts, ", "))
	case (w.rates != "" || w.multi) && client.timed():
		return planned, errTimed
	case w.rates != "" || w.multi:
		rates, err := w.listRates()
		if err != nil {
			return planned, err
		}
		var texts []string
		for _, r := range rates {
			text := strings.TrimSuffix(report.PyFloat(r), ".0")
			planned.cases = append(planned.cases, variant{row: "rate=" + text, title: "request_rate=" + text, after: []string{"--request-rate", text}})
			texts = append(texts, report.PyFloat(r))
		}
		planned.name = "Request Rate"
		planned.heading = report.Heading("Request Rate Sweep", "=") + fmt.Sprintf("Sweeping --request-rate over %d values: [%s]\n", len(texts), strings.Join(texts, ", "))
	default:
		planned.cases = []variant{{}}
		if client.runs > 1 {
			planned.heading = report.Heading(fmt.Sprintf("Multi-Run Benchmark (%d runs)", client.runs), "=")
		}
	}
	return planned, nil
}

// listRates are the rates of --sweep-request-rate or of --multi.
func (w *seriesOptions) listRates() (out []float64, err error) {
	flag, text := "--sweep-request-rate", w.rates
	if text == "" {
		flag, text = "--request-rate-range", w.multiRates
	}
	for part := range strings.SplitSeq(text, ",") {
		r, err := strconv.ParseFloat(strings.TrimSpace(part), 64)
		if err != nil || !(r > 0) {
			return nil, fmt.Errorf("%s %q: want numbers above 0, such as 1,10,inf", flag, text)
		}
		out = append(out, r)
	}
	if w.rates != "" || len(out) != 3 {
		return out, nil
	}
	from, step, n := out[0], out[2], math.Ceil((out[1]-out[0])/out[2])
	if !(n > 0 && n <= 1000) {
		return nil, fmt.Errorf("--request-rate-range %q: want from,end,step with 1 to 1000 rates, such as 2,34,2", text)
	}
	out = nil
	for i := range int(n) {
		out = append(out, from+float64(i)*step)
	}
	return out, nil
}

// presets are the workloads that others publish tables of (bench.md 4.1 and 5).
func (w *seriesOptions) presets(client *clientOptions) (planned series, err error) {
	const chat, random = "--backend openai-chat --seed 42 ", "--dataset-name random --random-input-len %d --random-output-len %d --num-prompts %d"
	sharegpt, old := "--dataset-name sharegpt --num-prompts %d", w.preset == "lmdeploy-throughput"
	if client.data.path == "" && !old {
		sharegpt = "--dataset-name sharegpt-synthetic --num-prompts %d"
		planned.heading = "Without --dataset-path, data set sharegpt-synthetic stands in for ShareGPT: the numbers are not those of published tables.\n"
	}
	add := func(row, form string, values ...any) {
		c := variant{row: row, title: row, other: true, before: strings.Fields(fmt.Sprintf(form, values...))}
		if !old && strings.Contains(form, random) {
			c.after = []string{"--dataset-path="} // the file is for ShareGPT
		}
		planned.cases = append(planned.cases, c)
	}
	switch w.preset {
	case "lmdeploy-throughput":
		add("ShareGPT", sharegpt, 10000)
		add("1024/1024", random, 1024, 1024, 2000)
		add("2000/6000", random, 2000, 6000, 500)
		add("6000/2000", random, 6000, 2000, 500)
		backend := cmp.Or(client.backend, "lmdeploy")
		for i := range planned.cases {
			c := &planned.cases[i]
			c.before = append(c.before, "--random-range-ratio", "1.0")
			c.above = fmt.Sprintf("Running benchmark %s with backend: %s\n", strings.Join(c.before, " "), backend)
			c.before = append(c.before, "--compat", "lmdeploy", "--backend", backend)
		}
		planned.heading, planned.between, planned.end = "Using backend: "+backend+"\n", strings.Repeat("-", 40)+"\n", "All benchmarks completed for backend: "+backend+"\n"
	case "lab-throughput":
		add("ShareGPT", chat+sharegpt, 1000)
		add("Short", chat+random, 128, 4, 1000)
		add("Medium", chat+random, 2000, 100, 500)
		add("Long", chat+random, 4000, 200, 500)
		add("Very Long", chat+random, 32000, 100, 100)
	case "lab-latency":
		for _, c := range []int{1, 2, 4, 8} {
			add(fmt.Sprintf("ShareGPT, concurrency %d", c), chat+sharegpt+" --max-concurrency %d", 100, c)
		}
	default:
		return planned, fmt.Errorf("--preset %q: want lmdeploy-throughput, lab-throughput or lab-latency", w.preset)
	}
	return planned, nil
}

// with is m with the flags of c, and with the workload of last where that is the same.
func (m *measurement) with(ctx context.Context, one variant, last *measurement) (*measurement, error) {
	v := *m
	if len(one.before)+len(one.after) > 0 {
		args := slices.Concat(one.before, m.o.args, one.after)
		v.o = &clientOptions{}
		v.flags = v.o.flags()
		err := v.flags.Parse(spread(args))
		if err != nil {
			return nil, command.Suggest(v.flags, err)
		}
		if v.setup, err = v.o.setup(v.flags); err != nil {
			return nil, err
		}
		v.setup.Args = bench.HideSecrets(args)
		v.setup.Model, v.setup.ModelID, v.setup.Tokenizer, v.setup.Environment = m.setup.Model, m.setup.ModelID, m.setup.Tokenizer, m.setup.Environment
		v.address()
	}
	if last == nil || one.other {
		return &v, v.workload(ctx)
	}
	v.work, v.legacy = last.work, last.legacy
	v.setup.Hash, v.setup.Repeats = last.setup.Hash, last.setup.Repeats
	return &v, nil
}
