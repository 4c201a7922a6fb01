package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"ossian/internal/bench/jsonfile"
	"ossian/internal/bench/resultfile"
)

// A Result is a run as tables and comparisons take it, whatever tool wrote it.
type Result struct {
	Source   string               // where it comes from: a file, with #2 for the second of several
	Format   string               // json, csv, console
	Profile  string               // as --compat names it; a guess for files of other tools
	Info     map[string]string    // what the result says in words: date, backend, model_id, request_rate ...
	Values   map[string]float64   // by the keys of vLLM's JSON (bench.md 1.8); steady_ before those of the steady state
	Batches  map[string][]float64 // of stretches of the run, by key; empty = only the values are known
	Requests []Request            // of detailed results
	Ossian   *Extension           // of Ossian's own results
}

// Import reads the results in data: JSON of vLLM, sglang or Ossian (one, several in a
// row or by line, or an array), lmdeploy's CSV, or text with console reports of any
// profile between other text. name stands in Source and in errors, which say what is
// missing.
func Import(name string, data []byte) ([]Result, error) {
	results, err := resultfile.Read(data, newResult)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	for i := range results {
		results[i].Source = name
		if len(results) > 1 {
			results[i].Source = fmt.Sprintf("%s#%d", name, i+1)
		}
		if err := results[i].complete(); err != nil {
			return nil, fmt.Errorf("%s: %w", results[i].Source, err)
		}
	}
	return results, nil
}

// newResult takes over what a file says, and reads the members that only this package
// understands.
func newResult(file *resultfile.Result) (Result, error) {
	result := Result{Format: file.Format, Profile: file.Profile, Info: file.Info, Values: file.Values}
	if err := result.readExtension(file.Members["ossian"]); err != nil {
		return result, err
	}
	return result, result.readDetail(file.Members)
}

// Result returns s as a Result named name.
func (s *Summary) Result(name string) (Result, error) {
	text, err := s.JSON(false)
	if err != nil {
		return Result{}, err
	}
	all, err := Import(name, text)
	if err != nil {
		return Result{}, err
	}
	all[0].Requests = s.Requests // which a result that is not detailed has not
	return all[0], nil
}

// complete fills in what follows from other values and refuses results without the
// least that a table needs.
func (r *Result) complete() error {
	for _, key := range slices.Sorted(maps.Keys(r.Values)) {
		if v := r.Values[key]; v < 0 && !strings.HasPrefix(key, "steady_") && isQuantity(key) {
			return fmt.Errorf("%q is %v; it cannot be negative", key, v)
		}
	}
	// Throughput is what every table has: computed where it is missing, or refused.
	for _, key := range []string{"request_throughput", "duration", "completed"} {
		if word, ok := r.Info[key]; ok && word != "inf" { // a text where a number belongs
			return fmt.Errorf("%q is %.40q, expected a number", key, word)
		}
	}
	duration, timed := r.Values["duration"]
	if _, ok := r.Values["request_throughput"]; !ok {
		completed, counted := r.Values["completed"]
		if !timed || !counted || !finite(completed/duration) {
			return errors.New(`"request_throughput" is missing, and "duration" and "completed" from which it follows; this is no result of a serving benchmark`)
		}
		r.Values["request_throughput"] = completed / duration
	}
	if _, ok := r.Values["total_token_throughput"]; ok {
		return nil
	}
	in, hasIn := r.Values["input_throughput"] // rounded less on a console than the duration
	out, hasOut := r.Values["output_throughput"]
	if !hasIn && duration > 0 {
		in, hasIn = r.Values["total_input_tokens"]
		in /= duration
	}
	if hasIn && hasOut && finite(in+out) {
		r.Values["total_token_throughput"] = in + out
	}
	return nil
}

// finite reports whether a number is one.
func finite(f float64) bool { return !math.IsInf(f, 0) && !math.IsNaN(f) }

// isQuantity reports whether a key is one of those that the tools write, which are counts,
// times and rates; others may be metadata.
func isQuantity(key string) bool {
	_, latency := latencyKey(key)
	return latency || slices.ContainsFunc(comparedMetrics, func(m comparedMetric) bool { return m.key == key })
}

// readExtension reads what Ossian adds.
func (r *Result) readExtension(raw json.RawMessage) error {
	if len(raw) == 0 || raw[0] == 'n' {
		return nil
	}
	var ext Extension
	if err := json.Unmarshal(raw, &ext); err != nil {
		return fmt.Errorf(`"ossian": %w`, jsonfile.Explain(err))
	}
	completeFindings(ext.Findings)
	r.Ossian, r.Batches = &ext, ext.Batches
	if ext.Compat != "" {
		r.Profile = ext.Compat
	}
	return nil
}

// arrays are the per-request lists of a detailed result.
type arrays struct {
	inputs, outputs, ttfts, latencies, starts []float64
	itls                                      [][]float64
	texts, errors                             []string
}

// readDetail reads the arrays of a detailed result into Requests and cuts them into batches.
func (r *Result) readDetail(members map[string]json.RawMessage) error {
	var lists arrays
	for _, field := range []struct {
		key string
		to  any
	}{{"input_lens", &lists.inputs}, {"output_lens", &lists.outputs}, {"ttfts", &lists.ttfts}, {"latencies", &lists.latencies},
		{"start_times", &lists.starts}, {"itls", &lists.itls}, {"generated_texts", &lists.texts}, {"errors", &lists.errors}} {
		raw := members[field.key]
		if len(raw) == 0 || raw[0] == 'n' {
			continue
		}
		if err := json.Unmarshal(raw, field.to); err != nil {
			return fmt.Errorf("%q: %w", field.key, jsonfile.Explain(err))
		}
	}
	if lists.ttfts == nil || lists.itls == nil || lists.outputs == nil {
		return nil // not detailed
	}
	// A list that is there is as long as all others: entry i is of request i.
	count := len(lists.ttfts)
	for _, list := range []struct {
		key  string
		n    int
		must bool
	}{{"itls", len(lists.itls), true}, {"output_lens", len(lists.outputs), true}, {"input_lens", len(lists.inputs), lists.inputs != nil},
		{"latencies", len(lists.latencies), lists.latencies != nil}, {"start_times", len(lists.starts), lists.starts != nil}, {"generated_texts", len(lists.texts), lists.texts != nil}, {"errors", len(lists.errors), lists.errors != nil}} {
		if list.must && list.n != count {
			return fmt.Errorf("%q has %d entries, \"ttfts\" %d; they are of the same requests", list.key, list.n, count)
		}
	}
	r.Requests = make([]Request, count)
	for i := range r.Requests {
		r.Requests[i] = lists.request(i)
	}
	if len(r.Batches) == 0 {
		r.Batches = batches(r.Requests)
		if lists.starts == nil { // without them nobody knows what came when
			delete(r.Batches, "request_throughput")
			delete(r.Batches, "output_throughput")
			delete(r.Batches, "total_token_throughput")
		}
	}
	return nil
}

// request is the i-th of a; latencies are missing in files of 2025.
func (a *arrays) request(at int) Request {
	request := Request{Output: clampInt(a.outputs[at]), TTFT: a.ttfts[at], ITL: a.itls[at], Latency: a.ttfts[at], OK: a.outputs[at] > 0}
	for _, gap := range request.ITL {
		request.Latency += gap
	}
	// Without latencies of their own requests took their first token and all gaps.
	if a.latencies != nil {
		request.Latency = a.latencies[at]
	}
	if a.inputs != nil {
		request.Input = clampInt(a.inputs[at])
	}
	if a.starts != nil {
		request.Start = a.starts[at]
	}
	if a.texts != nil {
		request.Text = a.texts[at]
	}
	if a.errors != nil {
		request.Err = a.errors[at]
		request.OK = request.OK && request.Err == ""
	}
	return request
}

// clampInt is a count of tokens from a file.
func clampInt(f float64) int { return int(min(max(f, 0), 1<<40)) }
