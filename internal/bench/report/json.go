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
	"ossian/internal/bench/jsonstyle"
)

// JSON returns the result as one line, in the form of the profile's tool and with the
// key "ossian" behind its keys (bench.md 1.8, 4, 6). detailed adds what the tool adds per
// request.
func (s *Summary) JSON(detailed bool) ([]byte, error) {
	extension, err := json.Marshal(s.Ossian)
	if err != nil {
		return nil, fmt.Errorf("report: result as JSON: %w", err)
	}
	// Keys in the order of the tool; ours behind them disturbs no reader of its files.
	var object jsonstyle.Object
	switch profile := s.Setup.Profile; {
	case s.Turns != nil:
		s.turnsResult(&object)
	case profile == bench.LMDeploy || profile == bench.SGLang:
		s.profileResult(&object, detailed)
	case profile == bench.VLLMRust:
		s.setupFields(&object)
		if err := s.rustResult(&object, detailed); err != nil {
			return nil, err
		}
	default:
		s.setupFields(&object)
		s.vllmResult(&object, detailed)
	}
	object.Set("ossian", json.RawMessage(extension))
	return jsonstyle.Style{Python: s.Setup.Profile != bench.VLLMRust}.Encode(object), nil
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

// wholeOrFraction is a number as JSON, without a fraction where it has none.
func wholeOrFraction(value float64) any {
	if value == math.Trunc(value) && math.Abs(value) < 1e15 {
		return int(value)
	}
	return value
}

// mostAtOnce is the bound on concurrency as JSON; null = none.
func (s *Summary) mostAtOnce() any {
	if c := s.Setup.Arrivals.Concurrency; c > 0 {
		return c
	}
	return nil
}

// setupFields writes what vLLM writes about the run before its result.
func (s *Summary) setupFields(object *jsonstyle.Object) {
	set := &s.Setup
	object.Set("date", s.date())
	object.Set("endpoint_type", set.Backend)
	object.Set("backend", set.Backend)
	object.Set("label", optional(set.Label))
	object.Set("model_id", set.ModelID)
	object.Set("tokenizer_id", optional(set.Tokenizer))
	object.Set("num_prompts", max(s.Queries, len(s.Requests)))
	if set.Profile == bench.VLLMRust {
		object.Set("max_model_len", s.flag("--max-model-len", nil))
	}
	for _, m := range set.Metadata {
		object.Set(m.Key, m.Value)
	}
	// vLLM writes a text, inf, where there is no rate.
	object.Set("request_rate", "inf")
	if s.hasRate() {
		object.Set("request_rate", set.Arrivals.Rate)
	}
	object.Set("burstiness", set.Arrivals.Burstiness)
	object.Set("max_concurrency", s.mostAtOnce())
	if ramp := set.Arrivals.Ramp; ramp.Strategy != "" && set.Profile != bench.VLLMRust {
		object.Set("ramp_up_strategy", ramp.Strategy)
		object.Set("ramp_up_start_rps", wholeOrFraction(ramp.Start))
		object.Set("ramp_up_end_rps", wholeOrFraction(ramp.End))
	}
}

// goodputOrNull is null without objectives.
func (s *Summary) goodputOrNull() any {
	if len(s.Setup.Goodput) == 0 {
		return nil
	}
	return s.Goodput
}

// perRequest returns a value of every request, failed ones included, in order.
func perRequest[T any](summary *Summary, value func(q *Request) T) []T {
	out := make([]T, len(summary.Requests))
	for i := range summary.Requests {
		out[i] = value(&summary.Requests[i])
	}
	return out
}

// detailResult writes the arrays that every tool has.
func (s *Summary) detailResult(object *jsonstyle.Object) {
	object.Set("input_lens", perRequest(s, func(request *Request) int {
		if request.Reported > 0 {
			return request.Reported
		}
		return request.Input
	}))
	object.Set("output_lens", perRequest(s, func(request *Request) int { return request.Output }))
	object.Set("ttfts", perRequest(s, func(request *Request) float64 { return request.TTFT }))
	object.Set("itls", perRequest(s, func(request *Request) []float64 { return request.ITL }))
}

// textResult writes what was generated and what failed.
func (s *Summary) textResult(o *jsonstyle.Object) {
	o.Set("generated_texts", perRequest(s, func(q *Request) string { return q.Text }))
	o.Set("errors", perRequest(s, func(q *Request) string { return q.Err }))
}

// vllmResult writes the result of the Python client, current or of 2025.
func (s *Summary) vllmResult(object *jsonstyle.Object, detailed bool) {
	now := s.Setup.Profile == bench.VLLM // else of 2025, with fewer keys
	object.Set("duration", s.Duration)
	object.Set("completed", s.Completed)
	if now {
		object.Set("failed", s.Failed)
	}
	object.Set("total_input_tokens", s.Input)
	object.Set("total_output_tokens", s.Output)
	object.Set("request_throughput", s.RequestRate)
	object.Set("request_goodput", s.goodputOrNull())
	object.Set("output_throughput", s.OutputRate)
	object.Set("total_token_throughput", s.TotalRate)
	if detailed {
		s.detailResult(object)
	}
	if now { // kept without detail too
		object.Set("latencies", perRequest(s, func(q *Request) float64 { return q.Latency }))
		if detailed {
			object.Set("start_times", perRequest(s, func(q *Request) float64 { return q.Start }))
		}
		object.Set("queue_times", perRequest(s, func(q *Request) float64 { return q.Queue }))
	}
	if detailed {
		s.textResult(object)
	}
	object.Set("max_output_tokens_per_s", s.PeakTokens)
	object.Set("max_concurrent_requests", s.PeakRequests)
	if now {
		object.Set("rtfx", 0.0)
	}
	if probes := s.Probes; probes != nil && now {
		object.Set("probe_completed", probes.Completed)
		object.Set("probe_failed", probes.Failed)
		object.Set("probe_median_e2el_ms", probes.E2EL.Median)
		object.Set("probe_p99_e2el_ms", probes.E2EL.P(99))
		object.Set("probe_max_e2el_ms", probes.E2EL.Max)
	}
	if len(s.RateSteps) > 0 {
		events := make([]jsonstyle.Object, len(s.RateSteps))
		for i, step := range s.RateSteps {
			events[i] = jsonstyle.Of("rps", step.Rate, "timestamp", isoTime(step.At))
		}
		object.Set("rps_change_events", events)
	}
	if now {
		s.specResult(object)
	}
	s.metricResult(object)
}

// isoTime is Python's datetime.isoformat.
func isoTime(at time.Time) string {
	if at.Nanosecond()/1000 == 0 {
		return at.Format("2006-01-02T15:04:05")
	}
	return at.Format("2006-01-02T15:04:05.000000")
}

// specResult writes what is known of speculative decoding.
func (s *Summary) specResult(object *jsonstyle.Object) {
	if s.Spec == nil {
		return
	}
	object.Set("spec_decode_acceptance_rate", s.Spec.Rate)
	object.Set("spec_decode_acceptance_length", s.Spec.Length)
	object.Set("spec_decode_num_drafts", s.Spec.Drafts)
	object.Set("spec_decode_draft_tokens", s.Spec.DraftTokens)
	object.Set("spec_decode_accepted_tokens", s.Spec.Accepted)
	object.Set("spec_decode_per_position_acceptance_rates", s.Spec.PerPosition)
}

// metricResult writes the latencies that are reported.
func (s *Summary) metricResult(o *jsonstyle.Object) {
	for _, m := range s.metrics() {
		setLatency(o, m.key, m.dist, s.percentiles()...)
	}
}

// setLatency writes the statistics of one latency.
func setLatency(o *jsonstyle.Object, key string, dist Dist, percentiles ...float64) {
	o.Set("mean_"+key+"_ms", dist.Mean)
	o.Set("median_"+key+"_ms", dist.Median)
	o.Set("std_"+key+"_ms", dist.Std)
	for _, p := range percentiles {
		o.Set("p"+percentileName(p)+"_"+key+"_ms", dist.P(p))
	}
}

// rustResult writes the result of the compiled client.
func (s *Summary) rustResult(object *jsonstyle.Object, detailed bool) error {
	object.Set("duration", s.Duration)
	object.Set("completed", s.Completed)
	object.Set("failed", s.Failed)
	object.Set("total_input_tokens", s.Input)
	object.Set("total_output_tokens", s.Output)
	object.Set("request_throughput", s.RequestRate)
	object.Set("request_goodput", s.goodputOrNull())
	object.Set("input_throughput", s.InputRate)
	object.Set("output_throughput", s.OutputRate)
	object.Set("total_token_throughput", s.TotalRate)
	object.Set("max_output_tokens_per_s", s.PeakTokens)
	object.Set("max_concurrent_requests", s.PeakRequests)
	object.Set("rtfx", 0.0)
	if s.Failed > 0 { // the key is there only then
		var failed []jsonstyle.Object
		for i := range s.Requests {
			if q := &s.Requests[i]; !q.OK {
				failed = append(failed, q.failure(jsonstyle.Of("index", i)))
			}
		}
		object.Set("failed_requests", failed)
	}
	if detailed {
		s.detailResult(object)
		s.textResult(object)
		object.Set("latencies", perRequest(s, func(q *Request) float64 { return q.Latency }))
		object.Set("start_times", perRequest(s, func(q *Request) float64 { return q.Start }))
	}
	s.specResult(object)
	s.metricResult(object)
	steady, err := json.Marshal(s.Steady)
	if err != nil {
		return fmt.Errorf("report: steady state as JSON: %w", err)
	}
	object.Set("steady_state", json.RawMessage(steady))
	return nil
}

// failure is what the compiled client says of a request that failed, behind its name.
func (q *Request) failure(name jsonstyle.Object) jsonstyle.Object {
	return append(name, jsonstyle.Of("error", q.Err, "prompt_len", q.Input, "start_time", q.Start, "latency", q.Latency,
		"ttft", q.TTFT, "output_tokens", q.Usage, "itl", q.ITL)...)
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
		if !joined { // the value is the next word
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
	ratio := s.flag("--random-range-ratio", 0.0)
	if n, ok := ratio.(int); ok {
		return float64(n)
	}
	return ratio
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
func (s *Summary) profileResult(object *jsonstyle.Object, detailed bool) {
	// sglang's keys stand between the common ones, where sglang has them.
	sglang := s.Setup.Profile == bench.SGLang
	in, out := s.lengths()
	if sglang {
		object.Set("tag", s.flag("--tag", nil))
	}
	object.Set("backend", s.Setup.Backend)
	object.Set("dataset_name", s.Setup.Dataset)
	object.Set("request_rate", s.Setup.Arrivals.Rate)
	if sglang {
		object.Set("max_concurrency", s.mostAtOnce())
	}
	object.Set("sharegpt_output_len", s.flag("--sharegpt-output-len", nil))
	object.Set("random_input_len", in)
	object.Set("random_output_len", out)
	object.Set("random_range_ratio", s.ratio())
	if sglang {
		object.Set("server_info", nil)
	}
	object.Set("duration", s.Duration)
	object.Set("completed", s.Completed)
	object.Set("total_input_tokens", s.Input)
	object.Set("total_input_text_tokens", s.Input)
	object.Set("total_input_vision_tokens", 0)
	object.Set("total_output_tokens", s.Output)
	object.Set("total_output_tokens_retokenized", s.Retokenized)
	object.Set("request_throughput", s.RequestRate)
	object.Set("input_throughput", s.InputRate)
	object.Set("output_throughput", s.OutputRate)
	object.Set("total_throughput", s.TotalRate)
	for _, m := range []metric{{key: "e2e_latency", dist: s.E2EL}, {key: "ttft", dist: s.TTFT}, {key: "tpot", dist: s.TPOT}, {key: "itl", dist: s.ITL}} {
		setLatency(object, m.key, m.dist, 90, 95, 99)
	}
	if sglang {
		object.Set("concurrency", s.Concurrency)
		object.Set("accept_length", nil) // from an endpoint that only sglang has
		object.Set("max_output_tokens_per_s", s.PeakTokens)
		object.Set("max_concurrent_requests", s.PeakRequests)
		s.attainmentResult(object)
	}
	if detailed {
		s.detailResult(object)
		s.textResult(object)
	}
}

// attainmentResult writes what sglang says about the objectives.
func (s *Summary) attainmentResult(object *jsonstyle.Object) {
	slos := s.Setup.Goodput
	if len(slos) == 0 || len(s.Requests) == 0 {
		return
	}
	share := func(i int) float64 { return float64(s.Attained[i]) / float64(len(s.Requests)) }
	var limits, kept jsonstyle.Object
	for i, slo := range slos {
		limits.Set(slo.Metric, slo.Limit.Seconds()*1000)
		kept.Set(slo.Metric, share(i))
	}
	object.Set("goodput_slos_ms", limits)
	object.Set("request_goodput", s.Goodput)
	object.Set("slo_attainment", share(len(slos)))
	object.Set("slo_attainment_by_metric", kept)
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
	cells := make([]string, len(values)) // None, for what is not known, is an empty cell
	for i, v := range values {
		switch value := v.(type) {
		case int:
			cells[i] = strconv.Itoa(value)
		case float64:
			cells[i] = jsonstyle.PyFloat(value)
		case string:
			cells[i] = value
			if strings.ContainsAny(value, ",\"\r\n") {
				cells[i] = `"` + strings.ReplaceAll(value, `"`, `""`) + `"`
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
	// vLLM: label or backend, rate, bound, model without its owner, date.
	rate := jsonstyle.PyFloat(set.Arrivals.Rate) + "qps"
	if set.Profile == bench.VLLMRust && s.hasRate() {
		rate = strconv.FormatFloat(set.Arrivals.Rate, 'f', -1, 64) + "qps"
	}
	if r := set.Arrivals.Ramp; r.Strategy != "" && set.Profile != bench.VLLMRust {
		rate = fmt.Sprintf("ramp-up-%s-%vqps-%vqps", r.Strategy, wholeOrFraction(r.Start), wholeOrFraction(r.End))
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
	// The folder may be new, and so may be the file: its first bytes then differ, see inFile.
	mode := os.O_WRONLY | os.O_CREATE | os.O_TRUNC
	if add || s.Setup.Profile == bench.LMDeploy || s.Setup.Profile == bench.SGLang {
		mode = os.O_WRONLY | os.O_CREATE | os.O_APPEND
	}
	file, err := os.OpenFile(path, mode, 0o666)
	if err != nil {
		return fmt.Errorf("report: result file: %w", err)
	}
	info, err := file.Stat()
	if err == nil {
		_, err = file.Write(s.inFile(text, info.Size() == 0))
	}
	if err = errors.Join(err, file.Close()); err != nil {
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
