package report

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"ossian/internal/bench"
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

// Limits of a result file.
const (
	maxFile    = 1 << 30 // bytes
	maxResults = 100_000
	maxWord    = 1 << 16 // bytes of a text in a result
	maxObject  = 1 << 10 // bytes of an object that is kept as a text
)

// Import reads the results in data: JSON of vLLM, sglang or Ossian (one, several in a
// row or by line, or an array), lmdeploy's CSV, or text with console reports of any
// profile between other text. name stands in Source and in errors, which say what is
// missing.
func Import(name string, data []byte) ([]Result, error) {
	if len(data) > maxFile {
		return nil, fmt.Errorf("%s: %d bytes, at most %d are read", name, len(data), maxFile)
	}
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	text := bytes.TrimSpace(data)
	console := bytes.Contains(text, []byte(consoleTitle))
	var results []Result
	var err error
	switch {
	case len(text) == 0:
		err = errors.New("the file is empty; expected a result as JSON, lmdeploy's CSV, or a console report")
	case text[0] == '{' || text[0] == '[':
		results, err = importJSON(data)
		if err != nil && console {
			results, err = importConsole(string(data))
		}
	case console:
		results, err = importConsole(string(data))
	case bytes.HasPrefix(text, []byte("backend,")):
		results, err = importCSV(data)
	default:
		err = fmt.Errorf("neither JSON, nor lmdeploy's CSV (first column \"backend\"), nor text with a %q frame", consoleTitle)
	}
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

func finite(f float64) bool { return !math.IsInf(f, 0) && !math.IsNaN(f) }

// isQuantity reports whether a key is one of those that the tools write, which are counts,
// times and rates; others may be metadata.
func isQuantity(key string) bool {
	_, latency := latencyKey(key)
	return latency || slices.ContainsFunc(compared, func(m comparedMetric) bool { return m.key == key })
}

// importJSON reads objects one behind another, and arrays of them. An error names the line
// in which a result begins, or in which it is no JSON.
func importJSON(text []byte) (out []Result, err error) {
	text = plainJSON(text)
	d := json.NewDecoder(bytes.NewReader(text))
	inside := false // of an array
	for {
		rest := bytes.TrimLeft(text[d.InputOffset():], ", \t\r\n")
		at := len(text) - len(rest)
		var r Result
		switch {
		case len(rest) == 0 && !inside && len(out) > 0:
			return out, nil
		case len(rest) == 0:
			err = errors.New("no result, or an array without its end")
		case rest[0] == ']' || (rest[0] == '[' && !inside):
			inside = rest[0] == '['
			if _, err = d.Token(); err == nil {
				continue
			}
		case len(out) == maxResults:
			err = fmt.Errorf("more than %d results", maxResults)
		default:
			var item json.RawMessage
			if err = d.Decode(&item); err == nil {
				r, err = importObject(item)
			} else if bad, ok := errors.AsType[*json.SyntaxError](json.Unmarshal(rest, &item)); ok {
				at += int(bad.Offset) - 1
			}
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: result %d: %w", 1+bytes.Count(text[:at], []byte("\n")), len(out)+1, err)
		}
		out = append(out, r)
	}
}

// plainJSON replaces what Python writes and JSON does not have: NaN becomes null,
// Infinity "inf".
func plainJSON(text []byte) []byte {
	if !bytes.Contains(text, []byte("NaN")) && !bytes.Contains(text, []byte("Infinity")) {
		return text
	}
	out := make([]byte, 0, len(text)+64)
	quoted := false
	for i := 0; i < len(text); i++ {
		rest := text[i:]
		switch {
		case quoted && text[i] == '\\' && len(rest) > 1:
			out = append(out, rest[:2]...)
			i++
		case text[i] == '"':
			quoted = !quoted
			out = append(out, '"')
		case !quoted && bytes.HasPrefix(rest, []byte("NaN")):
			out = append(out, "null"...)
			i += len("NaN") - 1
		case !quoted && bytes.HasPrefix(rest, []byte("-Infinity")):
			out = append(out, `"-inf"`...)
			i += len("-Infinity") - 1
		case !quoted && bytes.HasPrefix(rest, []byte("Infinity")):
			out = append(out, `"inf"`...)
			i += len("Infinity") - 1
		default:
			out = append(out, text[i])
		}
	}
	return out
}

// importObject reads one result. Lists that it does not know are skipped.
func importObject(text []byte) (Result, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(text, &members); err != nil {
		return Result{}, fmt.Errorf("expected an object: %w", err)
	}
	r := Result{Format: "json", Info: map[string]string{}, Values: map[string]float64{}}
	for key, raw := range members {
		switch raw[0] {
		case '"':
			var word string
			if err := json.Unmarshal(raw, &word); err != nil {
				return Result{}, fmt.Errorf("%q: %w", key, err)
			}
			if len(word) <= maxWord {
				r.Info[key] = word
			}
		case 't', 'f', '{': // parameters of a sweep
			if len(raw) <= maxObject && key != "ossian" && key != "steady_state" {
				r.Info[key] = string(raw)
			}
		case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
			if err := r.set(key, string(raw)); err != nil {
				return Result{}, err
			}
		}
	}
	if err := r.steady(members["steady_state"]); err != nil {
		return Result{}, err
	}
	r.Profile = guessJSON(members)
	if err := r.own(members["ossian"]); err != nil {
		return Result{}, err
	}
	return r, r.detail(members)
}

// set stores a number under the key that vLLM gives it.
func (r *Result) set(key, number string) error {
	v, err := strconv.ParseFloat(number, 64)
	if err != nil {
		return fmt.Errorf("%q: %q is no number that can be read", key, number)
	}
	if !finite(v) {
		r.Info[key] = number
		return nil
	}
	key = strings.TrimSuffix(strings.Replace(key, "_e2e_latency_", "_e2el_", 1), ":")
	if key == "total_throughput" {
		key = "total_token_throughput"
	}
	r.Values[key] = v
	return nil
}

// steady stores the numbers of a steady state.
func (r *Result) steady(raw json.RawMessage) error {
	if len(raw) == 0 || raw[0] == 'n' {
		return nil
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(raw, &members); err != nil {
		return fmt.Errorf(`"steady_state": %w`, err)
	}
	for key, value := range members {
		var v float64
		if len(value) > 0 && value[0] != 'n' && json.Unmarshal(value, &v) == nil {
			r.Values["steady_"+key] = v
		}
	}
	return nil
}

// own reads what Ossian adds.
func (r *Result) own(raw json.RawMessage) error {
	if len(raw) == 0 || raw[0] == 'n' {
		return nil
	}
	var x Extension
	if err := json.Unmarshal(raw, &x); err != nil {
		return fmt.Errorf(`"ossian": %w`, err)
	}
	r.Ossian, r.Batches = &x, x.Batches
	if x.Compat != "" {
		r.Profile = x.Compat
	}
	return nil
}

// guessJSON tells the tool by the keys that only it writes.
func guessJSON(members map[string]json.RawMessage) string {
	has := func(key string) bool { _, ok := members[key]; return ok }
	switch {
	case has("steady_state") || has("failed_requests") || has("max_model_len"):
		return bench.VLLMRust.String()
	case has("accept_length") || has("server_info"):
		return bench.SGLang.String()
	case has("total_output_tokens_retokenized"):
		return bench.LMDeploy.String()
	case has("failed") || has("rtfx") || has("queue_times"):
		return bench.VLLM.String()
	case has("endpoint_type") || has("tokenizer_id"):
		return bench.VLLM011.String()
	}
	return ""
}

// arrays are the per-request lists of a detailed result.
type arrays struct {
	inputs, outputs, ttfts, latencies, starts []float64
	itls                                      [][]float64
	errors                                    []string
}

// detail reads the arrays of a detailed result into Requests and cuts them into batches.
func (r *Result) detail(members map[string]json.RawMessage) error {
	var a arrays
	for _, f := range []struct {
		key string
		to  any
	}{{"input_lens", &a.inputs}, {"output_lens", &a.outputs}, {"ttfts", &a.ttfts}, {"latencies", &a.latencies},
		{"start_times", &a.starts}, {"itls", &a.itls}, {"errors", &a.errors}} {
		raw := members[f.key]
		if len(raw) == 0 || raw[0] == 'n' {
			continue
		}
		if err := json.Unmarshal(raw, f.to); err != nil {
			return fmt.Errorf("%q: %w", f.key, err)
		}
	}
	if a.ttfts == nil || a.itls == nil || a.outputs == nil {
		return nil // not detailed
	}
	n := len(a.ttfts)
	for _, l := range []struct {
		key  string
		n    int
		must bool
	}{{"itls", len(a.itls), true}, {"output_lens", len(a.outputs), true}, {"input_lens", len(a.inputs), a.inputs != nil},
		{"latencies", len(a.latencies), a.latencies != nil}, {"start_times", len(a.starts), a.starts != nil}, {"errors", len(a.errors), a.errors != nil}} {
		if l.must && l.n != n {
			return fmt.Errorf("%q has %d entries, \"ttfts\" %d; they are of the same requests", l.key, l.n, n)
		}
	}
	r.Requests = make([]Request, n)
	for i := range r.Requests {
		r.Requests[i] = a.request(i)
	}
	if len(r.Batches) == 0 {
		r.Batches = batches(r.Requests)
		if a.starts == nil { // without them nobody knows what came when
			delete(r.Batches, "request_throughput")
			delete(r.Batches, "output_throughput")
			delete(r.Batches, "total_token_throughput")
		}
	}
	return nil
}

// request is the i-th of a; latencies are missing in files of 2025.
func (a *arrays) request(i int) Request {
	q := Request{Output: clampInt(a.outputs[i]), TTFT: a.ttfts[i], ITL: a.itls[i], Latency: a.ttfts[i], OK: a.outputs[i] > 0}
	for _, gap := range q.ITL {
		q.Latency += gap
	}
	if a.latencies != nil {
		q.Latency = a.latencies[i]
	}
	if a.inputs != nil {
		q.Input = clampInt(a.inputs[i])
	}
	if a.starts != nil {
		q.Start = a.starts[i]
	}
	if a.errors != nil {
		q.Err = a.errors[i]
		q.OK = q.OK && q.Err == ""
	}
	return q
}

// clampInt is a count of tokens from a file.
func clampInt(f float64) int { return int(min(max(f, 0), 1<<40)) }

// importCSV reads lmdeploy's file; headers may be repeated where files were joined.
func importCSV(text []byte) ([]Result, error) {
	c := csv.NewReader(bytes.NewReader(text))
	c.FieldsPerRecord = -1
	header, err := c.Read()
	if err != nil {
		return nil, fmt.Errorf("CSV header: %w", err)
	}
	for _, need := range []string{"duration", "completed", "request_throughput", "output_throughput"} {
		if !slices.Contains(header, need) {
			return nil, fmt.Errorf("column %q is missing from the CSV header", need)
		}
	}
	var out []Result
	for {
		row, err := c.Read()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("CSV: %w", err)
		}
		if slices.Equal(row, header) {
			continue
		}
		line, _ := c.FieldPos(0)
		if len(row) != len(header) {
			return nil, fmt.Errorf("line %d has %d columns, the header %d", line, len(row), len(header))
		}
		r := Result{Format: "csv", Profile: bench.LMDeploy.String(), Info: map[string]string{}, Values: map[string]float64{}}
		for i, key := range header {
			if key == "backend" || key == "dataset_name" {
				r.Info[key] = row[i]
			} else if row[i] != "" {
				if err := r.set(key, row[i]); err != nil {
					return nil, fmt.Errorf("line %d: %w", line, err)
				}
			}
		}
		if out = append(out, r); len(out) > maxResults {
			return nil, fmt.Errorf("more than %d results", maxResults)
		}
	}
	if len(out) == 0 {
		return nil, errors.New("a CSV header, but no row")
	}
	return out, nil
}
