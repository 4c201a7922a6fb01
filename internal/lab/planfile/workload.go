package planfile

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"ossian/internal/lazyregexp"
	"ossian/internal/nearest"
	"ossian/internal/stat"
)

// published are the workloads of the throughput set of bench.md 5 that need no data file.
var published = map[string]Workload{
	"short":     {Dataset: "random", InputLen: 128, OutputLen: 4, NumPrompts: 1000, Seed: seed(42), Endpoint: "chat"},
	"medium":    {Dataset: "random", InputLen: 2000, OutputLen: 100, NumPrompts: 500, Seed: seed(42), Endpoint: "chat"},
	"long":      {Dataset: "random", InputLen: 4000, OutputLen: 200, NumPrompts: 500, Seed: seed(42), Endpoint: "chat"},
	"very-long": {Dataset: "random", InputLen: 32000, OutputLen: 100, NumPrompts: 100, Seed: seed(42), Endpoint: "chat"},
}

func seed(n uint64) *uint64 { return &n }

// Published returns the workloads of published reports that need no data file, by name; the map is the
// caller's.
func Published() map[string]Workload {
	out := maps.Clone(published)
	for name, load := range out {
		load.Name = name
		out[name] = load
	}
	return out
}

// datasets are those that a plan can name: whether they need a file, and whether lengths decide them
// (bench.md 2).
var datasets = map[string]struct{ file, lengths bool }{
	"random":            {lengths: true},
	"sharegpt":          {file: true},
	"custom":            {file: true},
	"sonnet":            {file: true},
	"prefix_repetition": {lengths: true},
	"burstgpt":          {file: true},
	"timed_trace":       {file: true},
}

func (r *planReader) workloads(e entry) {
	for _, e := range r.entries(e.key, e.node, "a mapping of names to workloads expected") {
		r.plan.Workloads = append(r.plan.Workloads, r.readWorkload(e))
	}
}

// readWorkload reads one and checks that its parts fit each other.
func (r *planReader) readWorkload(e entry) Workload {
	load := Workload{Name: e.name, Line: e.line, Dataset: "random", NumPrompts: 1000, Endpoint: "chat"}
	lengths := func(place *int) func(entry) {
		return func(e entry) { *place = r.integer(e, 1, 10_000_000) }
	}
	before := len(r.errs)
	r.fields(e.key, e.node, "dataset, num_prompts and lengths", map[string]func(entry){
		"dataset":     func(e entry) { load.Dataset = r.oneOf(e, slices.Sorted(maps.Keys(datasets))...) },
		"path":        func(e entry) { load.Path = r.text(e, "a file") },
		"input_len":   lengths(&load.InputLen),
		"output_len":  lengths(&load.OutputLen),
		"num_prompts": func(e entry) { load.NumPrompts = r.integer(e, 1, 10_000_000) },
		"range_ratio": func(e entry) { load.RangeRatio = r.share(e) },
		"request_rate": func(e entry) {
			if e.node.Value != "inf" && e.node.Value != ".inf" {
				load.RequestRate = r.number(e, "requests per second, or inf")
			}
		},
		"max_concurrency": func(e entry) { load.MaxConcurrency = r.integer(e, 1, 1_000_000) },
		"seed":            func(e entry) { load.Seed = seed(uint64(r.integer(e, 0, math.MaxInt32))) },
		"endpoint":        func(e entry) { load.Endpoint = r.oneOf(e, "chat", "completions") },
		"ignore_eos":      func(e entry) { ignore := r.boolean(e); load.IgnoreEOS = &ignore },
		"extra_body":      func(e entry) { load.Extra = r.object(e) },
	})
	if len(r.errs) == before {
		r.fitting(e, load)
	}
	return load
}

// fitting complains about what a workload lacks or has too much.
func (r *planReader) fitting(e entry, load Workload) {
	needs := datasets[load.Dataset]
	switch {
	case needs.file && load.Path == "":
		r.failAt(e.key+".path", e.line, "the file of the data set "+load.Dataset+" expected", "")
	case !needs.file && load.Path != "":
		r.failAt(e.key+".path", e.line, "no file expected: "+load.Dataset+" prompts are made", strconv.Quote(load.Path))
	case needs.lengths && load.InputLen == 0:
		r.failAt(e.key+".input_len", e.line, "the number of tokens of a prompt expected", "")
	case needs.lengths && load.OutputLen == 0:
		r.failAt(e.key+".output_len", e.line, "the number of tokens of an answer expected", "")
	case !needs.lengths && load.InputLen > 0:
		r.failAt(e.key+".input_len", e.line, "no length of prompts expected: "+load.Dataset+" has its own", strconv.Itoa(load.InputLen))
	}
}

// share reads a number from 0 to below 1.
func (r *reader) share(e entry) float64 {
	n, err := strconv.ParseFloat(e.node.Value, 64)
	if err != nil || !(n >= 0 && n < 1) {
		r.fail(e.key, e.node, "a number from 0 to below 1 expected")
		return 0
	}
	return n
}

// object reads a mapping as JSON would.
func (r *reader) object(e entry) (out map[string]any) {
	if err := e.node.Decode(&out); err != nil || out == nil {
		r.fail(e.key, e.node, "a mapping of fields of the request expected")
	}
	return out
}

// metricName is what bench.md 1.8 calls rates and times.
var (
	timeMetric  = lazyregexp.New(`^(mean|median|std|p([0-9]+(?:\.[0-9]+)?))_(ttft|tpot|itl|e2el|client_queue_time|e2el_including_client_queue)_ms$`)
	rateMetrics = []string{"request_throughput", "output_throughput", "total_token_throughput", "request_goodput", "max_output_tokens_per_s"}
	someMetrics = append([]string{"mean_ttft_ms", "p99_ttft_ms", "mean_tpot_ms", "p99_tpot_ms", "mean_itl_ms", "p99_itl_ms", "mean_e2el_ms", "p99_e2el_ms"}, rateMetrics...)
)

// IsTime reports whether a metric is a time in milliseconds, of which less is better.
func IsTime(metric string) bool { return timeMetric.MatchString(metric) }

// metric checks the name of a metric.
func (r *planReader) metric(key string, line int, name string) {
	if !IsTime(name) && !slices.Contains(rateMetrics, name) {
		r.failAt(key, line, "a metric of a result file such as total_token_throughput or p99_ttft_ms expected"+nearest.Hint(name, someMetrics), strconv.Quote(name))
	}
}

// objective reads what is to be improved; without one it is the total token throughput of the first
// workload.
func (r *planReader) objective() {
	goal := &r.plan.Objective
	*goal = Objective{Metric: "total_token_throughput", Maximize: true}
	if len(r.plan.Workloads) > 0 {
		goal.On = r.plan.Workloads[0].Name
	}
	if r.nodes.objective == nil {
		return
	}
	given := ""
	direction := func(maximize bool) func(entry) {
		return func(e entry) {
			if given != "" {
				r.failAt(e.key, e.line, "one of maximize and minimize expected, found "+given+" as well", "")
			}
			given = e.name
			goal.Metric, goal.Maximize = r.text(e, "a metric"), maximize
			r.metric(e.key, e.node.Line, goal.Metric)
		}
	}
	e := *r.nodes.objective
	r.fields(e.key, e.node, "maximize or minimize, on, per and sla", map[string]func(entry){
		"maximize": direction(true),
		"minimize": direction(false),
		"on": func(e entry) {
			goal.On = r.text(e, "a workload")
			if goal.On != "" && r.workload(goal.On) == nil {
				var names []string
				for _, load := range r.plan.Workloads {
					names = append(names, load.Name)
				}
				expected := "one of the workloads " + strings.Join(names, ", ") + " expected" + nearest.Hint(goal.On, names)
				if len(names) == 0 {
					expected = "a workload expected, of which the plan has none"
				}
				r.fail(e.key, e.node, expected)
			}
		},
		"per": func(e entry) { goal.Per = r.oneOf(e, "gpu") },
		"sla": func(e entry) { goal.SLA = r.sla(e) },
	})
	if given != "" && len(r.errs) == 0 && goal.Maximize == IsTime(goal.Metric) {
		word := map[bool]string{true: "minimize", false: "maximize"}[goal.Maximize]
		r.failAt(e.key, e.line, word+" expected for "+goal.Metric, given)
	}
	r.certified(e, goal)
}

// sla reads bounds by metric: times at most, rates at least.
func (r *planReader) sla(e entry) map[string]float64 {
	out := map[string]float64{}
	for _, e := range r.entries(e.key, e.node, "a mapping of metrics to bounds expected") {
		r.metric(e.key, e.line, e.name)
		out[e.name] = r.number(e, "the metric's unit")
	}
	return out
}

// certified refuses to decide by a percentile that the workload's number of requests cannot show: one
// below which fewer than 99 of 100 runs would have a sample (bench.md 6, item 8).
func (r *planReader) certified(e entry, goal *Objective) {
	load := r.workload(goal.On)
	if load == nil {
		return
	}
	for _, metric := range append(slices.Sorted(maps.Keys(goal.SLA)), goal.Metric) {
		match := timeMetric.FindStringSubmatch(metric)
		if match == nil || match[2] == "" {
			continue
		}
		percentile, err := strconv.ParseFloat(match[2], 64)
		if err != nil || percentile >= 100 {
			r.failAt(e.key, e.line, "a percentile below 100 expected", strconv.Quote(metric))
			continue
		}
		if need := stat.Floor(percentile); load.NumPrompts < need {
			r.failAt(e.key, e.line, fmt.Sprintf("workload %s with at least %d requests expected, because %s cannot be told from fewer", load.Name, need, metric), strconv.Itoa(load.NumPrompts))
		}
	}
}
