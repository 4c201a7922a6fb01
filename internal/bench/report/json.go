package report

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"ossian/internal/bench"
)

// JSON returns the result as one line, in the form of the profile's tool and with the
// key "ossian" behind its keys (bench.md 1.8, 4, 6). detailed adds what the tool adds per
// request.
func (s *Summary) JSON(detailed bool) ([]byte, error) {
	extension, err := json.Marshal(s.Ossian)
	if err != nil {
		return nil, fmt.Errorf("report: result as JSON: %w", err)
	}
	var o object
	switch p := s.Setup.Profile; {
	case s.Turns != nil:
		s.turnsResult(&o)
	case p == bench.LMDeploy || p == bench.SGLang:
		s.profileResult(&o, detailed)
	case p == bench.VLLMRust:
		s.setupFields(&o)
		if err := s.rustResult(&o, detailed); err != nil {
			return nil, err
		}
	default:
		s.setupFields(&o)
		s.vllmResult(&o, detailed)
	}
	o.set("ossian", json.RawMessage(extension))
	return dialect{python: s.Setup.Profile != bench.VLLMRust}.encode(o), nil
}

// ended is when the run ended, which is the date of its result.
func (s *Summary) ended() time.Time {
	return s.Began.Add(time.Duration(s.Duration * float64(time.Second)))
}

// date is that in the form of the profile's tool.
func (s *Summary) date() string {
	if s.Setup.Profile == bench.VLLMRust {
		return s.ended().UTC().Format(time.RFC3339)
	}
	return s.ended().Format("20060102-150405")
}

// meanE2E is the mean of E2EL; lmdeploy has none without a success.
func (s *Summary) meanE2E() float64 {
	if s.E2EL.N == 0 {
		return math.NaN()
	}
	return s.E2EL.Mean
}

// optional is a name as JSON, null where there is none.
func optional(name string) any {
	if name == "" {
		return nil
	}
	return name
}

// whole is a number as JSON, without a fraction where it has none.
func whole(f float64) any {
	if f == math.Trunc(f) && math.Abs(f) < 1e15 {
		return int(f)
	}
	return f
}

// most is the bound on concurrency as JSON.
func (s *Summary) most() any {
	if c := s.Setup.Arrivals.Concurrency; c > 0 {
		return c
	}
	return nil
}

// setupFields writes what vLLM writes about the run before its result.
func (s *Summary) setupFields(o *object) {
	set := &s.Setup
	o.set("date", s.date())
	o.set("endpoint_type", set.Backend)
	o.set("backend", set.Backend)
	o.set("label", optional(set.Label))
	o.set("model_id", set.ModelID)
	o.set("tokenizer_id", optional(set.Tokenizer))
	o.set("num_prompts", max(s.Queries, len(s.Requests)))
	if set.Profile == bench.VLLMRust {
		o.set("max_model_len", s.flag("--max-model-len", nil))
	}
	for _, m := range set.Metadata {
		o.set(m.Key, m.Value)
	}
	o.set("request_rate", "inf")
	if s.finite() {
		o.set("request_rate", set.Arrivals.Rate)
	}
	o.set("burstiness", set.Arrivals.Burstiness)
	o.set("max_concurrency", s.most())
	if r := set.Arrivals.Ramp; r.Strategy != "" && set.Profile != bench.VLLMRust {
		o.set("ramp_up_strategy", r.Strategy)
		o.set("ramp_up_start_rps", whole(r.Start))
		o.set("ramp_up_end_rps", whole(r.End))
	}
}

// goodput is null without objectives.
func (s *Summary) goodput() any {
	if len(s.Setup.Goodput) == 0 {
		return nil
	}
	return s.Goodput
}

// list returns a value of every request, failed ones included, in order.
func list[T any](s *Summary, value func(q *Request) T) []T {
	out := make([]T, len(s.Requests))
	for i := range s.Requests {
		out[i] = value(&s.Requests[i])
	}
	return out
}

// detail writes the arrays that every tool has.
func (s *Summary) detail(o *object) {
	o.set("input_lens", list(s, func(q *Request) int {
		if q.Reported > 0 {
			return q.Reported
		}
		return q.Input
	}))
	o.set("output_lens", list(s, func(q *Request) int { return q.Output }))
	o.set("ttfts", list(s, func(q *Request) float64 { return q.TTFT }))
	o.set("itls", list(s, func(q *Request) []float64 { return q.ITL }))
}

func (s *Summary) texts(o *object) {
	o.set("generated_texts", list(s, func(q *Request) string { return q.Text }))
	o.set("errors", list(s, func(q *Request) string { return q.Err }))
}

// vllmResult writes the result of the Python client, current or of 2025.
func (s *Summary) vllmResult(o *object, detailed bool) {
	now := s.Setup.Profile == bench.VLLM
	o.set("duration", s.Duration)
	o.set("completed", s.Completed)
	if now {
		o.set("failed", s.Failed)
	}
	o.set("total_input_tokens", s.Input)
	o.set("total_output_tokens", s.Output)
	o.set("request_throughput", s.RequestRate)
	o.set("request_goodput", s.goodput())
	o.set("output_throughput", s.OutputRate)
	o.set("total_token_throughput", s.TotalRate)
	if detailed {
		s.detail(o)
	}
	if now { // kept without detail too
		o.set("latencies", list(s, func(q *Request) float64 { return q.Latency }))
		if detailed {
			o.set("start_times", list(s, func(q *Request) float64 { return q.Start }))
		}
		o.set("queue_times", list(s, func(q *Request) float64 { return q.Queue }))
	}
	if detailed {
		s.texts(o)
	}
	o.set("max_output_tokens_per_s", s.PeakTokens)
	o.set("max_concurrent_requests", s.PeakRequests)
	if now {
		o.set("rtfx", 0.0)
	}
	if p := s.Probes; p != nil && now {
		o.set("probe_completed", p.Completed)
		o.set("probe_failed", p.Failed)
		o.set("probe_median_e2el_ms", p.E2EL.Median)
		o.set("probe_p99_e2el_ms", p.E2EL.P(99))
		o.set("probe_max_e2el_ms", p.E2EL.Max)
	}
	if len(s.RateSteps) > 0 {
		events := make([]object, len(s.RateSteps))
		for i, step := range s.RateSteps {
			events[i] = object{{"rps", step.Rate}, {"timestamp", isoTime(step.At)}}
		}
		o.set("rps_change_events", events)
	}
	if now {
		s.specResult(o)
	}
	s.metricResult(o)
}

// isoTime is Python's datetime.isoformat.
func isoTime(t time.Time) string {
	if t.Nanosecond()/1000 == 0 {
		return t.Format("2006-01-02T15:04:05")
	}
	return t.Format("2006-01-02T15:04:05.000000")
}

func (s *Summary) specResult(o *object) {
	if s.Spec == nil {
		return
	}
	o.set("spec_decode_acceptance_rate", s.Spec.Rate)
	o.set("spec_decode_acceptance_length", s.Spec.Length)
	o.set("spec_decode_num_drafts", s.Spec.Drafts)
	o.set("spec_decode_draft_tokens", s.Spec.DraftTokens)
	o.set("spec_decode_accepted_tokens", s.Spec.Accepted)
	o.set("spec_decode_per_position_acceptance_rates", s.Spec.PerPosition)
}

func (s *Summary) metricResult(o *object) {
	for _, m := range s.metrics() {
		o.latency(m.key, m.dist, s.percentiles()...)
	}
}

// latency writes the statistics of one latency.
func (o *object) latency(key string, d Dist, percentiles ...float64) {
	o.set("mean_"+key+"_ms", d.Mean)
	o.set("median_"+key+"_ms", d.Median)
	o.set("std_"+key+"_ms", d.Std)
	for _, p := range percentiles {
		o.set("p"+percentileName(p)+"_"+key+"_ms", d.P(p))
	}
}

// rustResult writes the result of the compiled client.
func (s *Summary) rustResult(o *object, detailed bool) error {
	o.set("duration", s.Duration)
	o.set("completed", s.Completed)
	o.set("failed", s.Failed)
	o.set("total_input_tokens", s.Input)
	o.set("total_output_tokens", s.Output)
	o.set("request_throughput", s.RequestRate)
	o.set("request_goodput", s.goodput())
	o.set("input_throughput", s.InputRate)
	o.set("output_throughput", s.OutputRate)
	o.set("total_token_throughput", s.TotalRate)
	o.set("max_output_tokens_per_s", s.PeakTokens)
	o.set("max_concurrent_requests", s.PeakRequests)
	o.set("rtfx", 0.0)
	if s.Failed > 0 {
		var failed []object
		for i := range s.Requests {
			if q := &s.Requests[i]; !q.OK {
				failed = append(failed, q.failure(object{{"index", i}}))
			}
		}
		o.set("failed_requests", failed)
	}
	if detailed {
		s.detail(o)
		s.texts(o)
		o.set("latencies", list(s, func(q *Request) float64 { return q.Latency }))
		o.set("start_times", list(s, func(q *Request) float64 { return q.Start }))
	}
	s.specResult(o)
	s.metricResult(o)
	steady, err := json.Marshal(s.Steady)
	if err != nil {
		return fmt.Errorf("report: steady state as JSON: %w", err)
	}
	o.set("steady_state", json.RawMessage(steady))
	return nil
}

// failure is what the compiled client says of a request that failed, behind its name.
func (q *Request) failure(name object) object {
	return append(name, object{{"error", q.Err}, {"prompt_len", q.Input}, {"start_time", q.Start}, {"latency", q.Latency},
		{"ttft", q.TTFT}, {"output_tokens", q.Usage}, {"itl", q.ITL}}...)
}

// flag is the value of a flag of the command line, which some tools repeat in their
// results: a number where it is one, else text; otherwise without the flag. The last
// one counts, and an underscore in a name is a hyphen.
func (s *Summary) flag(name string, otherwise any) any {
	out := otherwise
	for i, arg := range s.Setup.Args {
		given, value, joined := strings.Cut(arg, "=")
		if strings.ReplaceAll(given, "_", "-") != name {
			continue
		}
		if !joined {
			if i+1 == len(s.Setup.Args) {
				break
			}
			value = s.Setup.Args[i+1]
		}
		out = value
		if n, err := strconv.Atoi(value); err == nil {
			out = n
		} else if f, err := strconv.ParseFloat(value, 64); err == nil {
			out = f
		}
	}
	return out
}

// ratio is --random-range-ratio, a float in the results of both tools.
func (s *Summary) ratio() any {
	v := s.flag("--random-range-ratio", 0.0)
	if n, ok := v.(int); ok {
		return float64(n)
	}
	return v
}

// lengths are the lengths of a random data set. sglang has defaults for them, lmdeploy
// insists on both flags, and here they have the defaults of the others.
func (s *Summary) lengths() (in, out any) {
	switch {
	case s.Setup.Profile == bench.SGLang:
		in, out = 1024, 1024
	case strings.HasPrefix(s.Setup.Dataset, "random"):
		in, out = 1024, 128
	}
	return s.flag("--input-len", s.flag("--random-input-len", in)), s.flag("--output-len", s.flag("--random-output-len", out))
}

// profileResult writes the result of lmdeploy or sglang (sglang 0.5.23, whose keys
// include all of lmdeploy's; the latter's file is CSV, see csvRow).
func (s *Summary) profileResult(o *object, detailed bool) {
	sglang := s.Setup.Profile == bench.SGLang
	in, out := s.lengths()
	if sglang {
		o.set("tag", s.flag("--tag", nil))
	}
	o.set("backend", s.Setup.Backend)
	o.set("dataset_name", s.Setup.Dataset)
	o.set("request_rate", s.Setup.Arrivals.Rate)
	if sglang {
		o.set("max_concurrency", s.most())
	}
	o.set("sharegpt_output_len", s.flag("--sharegpt-output-len", nil))
	o.set("random_input_len", in)
	o.set("random_output_len", out)
	o.set("random_range_ratio", s.ratio())
	if sglang {
		o.set("server_info", nil)
	}
	o.set("duration", s.Duration)
	o.set("completed", s.Completed)
	o.set("total_input_tokens", s.Input)
	o.set("total_input_text_tokens", s.Input)
	o.set("total_input_vision_tokens", 0)
	o.set("total_output_tokens", s.Output)
	o.set("total_output_tokens_retokenized", s.Retokenized)
	o.set("request_throughput", s.RequestRate)
	o.set("input_throughput", s.InputRate)
	o.set("output_throughput", s.OutputRate)
	o.set("total_throughput", s.TotalRate)
	for _, m := range []metric{{key: "e2e_latency", dist: s.E2EL}, {key: "ttft", dist: s.TTFT}, {key: "tpot", dist: s.TPOT}, {key: "itl", dist: s.ITL}} {
		o.latency(m.key, m.dist, 90, 95, 99)
	}
	if sglang {
		o.set("concurrency", s.Concurrency)
		o.set("accept_length", nil) // from an endpoint that only sglang has
		o.set("max_output_tokens_per_s", s.PeakTokens)
		o.set("max_concurrent_requests", s.PeakRequests)
		s.attainmentResult(o)
	}
	if detailed {
		s.detail(o)
		s.texts(o)
	}
}

// attainmentResult writes what sglang says about the objectives.
func (s *Summary) attainmentResult(o *object) {
	slos := s.Setup.Goodput
	if len(slos) == 0 || len(s.Requests) == 0 {
		return
	}
	share := func(i int) float64 { return float64(s.Attained[i]) / float64(len(s.Requests)) }
	var limits, kept object
	for i, slo := range slos {
		limits.set(slo.Metric, slo.Limit.Seconds()*1000)
		kept.set(slo.Metric, share(i))
	}
	o.set("goodput_slos_ms", limits)
	o.set("request_goodput", s.Goodput)
	o.set("slo_attainment", share(len(slos)))
	o.set("slo_attainment_by_metric", kept)
}

// csvHeader is the first line of lmdeploy's result file (bench.md 4.1).
const csvHeader = "backend,dataset_name,sharegpt_output_len,random_input_len,random_output_len,random_range_ratio," +
	"request_rate,completed,total_input_tokens,total_output_tokens,duration,request_throughput,input_throughput," +
	"output_throughput,mean_e2e_latency_ms,mean_ttft_ms,mean_tpot_ms,mean_itl_ms\r\n"

// csvRow is the line of lmdeploy's result file, its end included.
func (s *Summary) csvRow() string {
	in, out := s.lengths()
	values := []any{s.Setup.Backend, s.Setup.Dataset, s.flag("--sharegpt-output-len", nil), in, out, s.ratio(),
		s.Setup.Arrivals.Rate, s.Completed, s.Input, s.Output, s.Duration, s.RequestRate, s.InputRate, s.OutputRate,
		s.meanE2E(), s.TTFT.Mean, s.TPOT.Mean, s.ITL.Mean}
	cells := make([]string, len(values))
	for i, v := range values {
		switch v := v.(type) {
		case int:
			cells[i] = strconv.Itoa(v)
		case float64:
			cells[i] = PyFloat(v)
		case string:
			cells[i] = v
			if strings.ContainsAny(v, ",\"\r\n") {
				cells[i] = `"` + strings.ReplaceAll(v, `"`, `""`) + `"`
			}
		}
	}
	return strings.Join(cells, ",") + "\r\n"
}

// FileName is the name that the profile's tool gives its result file.
func (s *Summary) FileName() string {
	set := &s.Setup
	if set.Profile == bench.LMDeploy || set.Profile == bench.SGLang {
		name := fmt.Sprintf("%s_%s_%d_", set.Backend, s.ended().Format("0102"), max(s.Queries, len(s.Requests)))
		switch in, out := s.lengths(); {
		case strings.HasPrefix(set.Dataset, "random"):
			return fmt.Sprintf("%s%v_%v.jsonl", name, in, out)
		case set.Profile == bench.SGLang:
			return name + set.Dataset + ".jsonl"
		}
		return name + "sharegpt.csv"
	}
	rate := PyFloat(set.Arrivals.Rate) + "qps"
	if set.Profile == bench.VLLMRust && s.finite() {
		rate = strconv.FormatFloat(set.Arrivals.Rate, 'f', -1, 64) + "qps"
	}
	if r := set.Arrivals.Ramp; r.Strategy != "" && set.Profile != bench.VLLMRust {
		rate = fmt.Sprintf("ramp-up-%s-%vqps-%vqps", r.Strategy, whole(r.Start), whole(r.End))
	}
	if c := set.Arrivals.Concurrency; c > 0 {
		rate += "-concurrency" + strconv.Itoa(c)
	}
	model := set.ModelID[strings.LastIndex(set.ModelID, "/")+1:]
	return cmp.Or(set.Label, set.Backend) + "-" + rate + "-" + model + "-" + s.ended().Format("20060102-150405") + ".json"
}

// WriteFile writes the result to the file at path, whose folder it creates, or adds it
// to what is there: behind a newline (vLLM), as one more line (sglang), or as one more
// row (lmdeploy). The latter two always add, as their tools do.
func (s *Summary) WriteFile(path string, detailed, add bool) error {
	text, err := s.JSON(detailed)
	if err != nil {
		return err
	}
	if dir := filepath.Dir(path); dir != "." {
		if err := os.MkdirAll(dir, 0o777); err != nil {
			return fmt.Errorf("report: folder of the result file: %w", err)
		}
	}
	mode := os.O_WRONLY | os.O_CREATE | os.O_TRUNC
	if add || s.Setup.Profile == bench.LMDeploy || s.Setup.Profile == bench.SGLang {
		mode = os.O_WRONLY | os.O_CREATE | os.O_APPEND
	}
	f, err := os.OpenFile(path, mode, 0o666)
	if err != nil {
		return fmt.Errorf("report: result file: %w", err)
	}
	info, err := f.Stat()
	if err == nil {
		_, err = f.Write(s.inFile(text, info.Size() == 0))
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("report: result file: %w", err)
	}
	return nil
}

// inFile is the result as it stands in its file.
func (s *Summary) inFile(text []byte, first bool) []byte {
	switch {
	case s.Setup.Profile == bench.LMDeploy && first:
		return []byte(csvHeader + s.csvRow())
	case s.Setup.Profile == bench.LMDeploy:
		return []byte(s.csvRow())
	case s.Setup.Profile == bench.SGLang:
		return append(text, '\n')
	case first:
		return text
	}
	return append([]byte("\n"), text...)
}
