// Package resultfile reads the result files of serving benchmarks: JSON of vLLM, sglang or
// Ossian, lmdeploy's CSV, and console reports of any of them, pasted from anywhere. What it
// finds it gives as numbers and words under the keys of vLLM's JSON (bench.md 1.8), whatever
// tool wrote them. It knows forms only: what the numbers mean is package report's.
package resultfile

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"ossian/internal/bench"
	"ossian/internal/bench/jsonfile"
)

// A Result is one result as its file has it.
type Result struct {
	Format  string             // json, csv, console
	Profile string             // the tool, as --compat names it, by what only it writes; "" = not known
	Info    map[string]string  // what the result says in words: date, backend, model_id, request_rate ...
	Values  map[string]float64 // by the keys of vLLM's JSON; steady_ before those of the steady state

	Members map[string]json.RawMessage // of a JSON result: all members as they came; nil in the other forms
}

// Limits of a result file.
const (
	maxFile    = 1 << 30 // bytes
	maxResults = 100_000
	maxWord    = 1 << 16 // bytes of a text in a result
	maxObject  = 1 << 10 // bytes of an object that is kept as a text
)

// Read reads the results in data (one, several in a row or by line, or an array of them) and
// makes of each what convert returns. Errors say what is missing and, but for empty and
// unknown files, in which line; those of convert are among them.
func Read[T any](data []byte, convert func(*Result) (T, error)) ([]T, error) {
	if len(data) > maxFile {
		return nil, fmt.Errorf("%d bytes, at most %d are read", len(data), maxFile)
	}
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	text := bytes.TrimSpace(data)
	console := bytes.Contains(text, []byte(consoleTitle))
	switch {
	case len(text) == 0:
		return nil, errors.New("the file is empty; expected a result as JSON, lmdeploy's CSV, or a console report")
	case text[0] == '{' || text[0] == '[':
		results, err := readJSON(data, convert)
		if err != nil && console { // text that begins with a bracket, as a log may
			return readConsole(string(data), convert)
		}
		return results, err
	case console:
		return readConsole(string(data), convert)
	case bytes.HasPrefix(text, []byte("backend,")):
		return readCSV(data, convert)
	}
	return nil, fmt.Errorf("neither JSON, nor lmdeploy's CSV (first column \"backend\"), nor text with a %q frame", consoleTitle)
}

// readJSON reads objects one behind another, and arrays of them. An error names the line
// in which a result begins, or in which it is no JSON.
func readJSON[T any](text []byte, convert func(*Result) (T, error)) (out []T, err error) {
	text = PlainJSON(text)
	decoder := json.NewDecoder(bytes.NewReader(text))
	inside := false // of an array
	for {
		// Commas are passed over wherever they stand: between objects of an array, or of none.
		rest := bytes.TrimLeft(text[decoder.InputOffset():], ", \t\r\n")
		at := len(text) - len(rest)
		var result T
		switch {
		case len(rest) == 0 && !inside && len(out) > 0:
			return out, nil
		case len(rest) == 0:
			err = errors.New("no result, or an array without its end")
		case rest[0] == ']' || (rest[0] == '[' && !inside):
			inside = rest[0] == '['
			if _, err = decoder.Token(); err == nil {
				continue
			}
		case len(out) == maxResults:
			err = fmt.Errorf("more than %d results", maxResults)
		default:
			var item json.RawMessage
			if err = decoder.Decode(&item); err == nil {
				result, err = readObject(item, convert)
			} else if bad, ok := errors.AsType[*json.SyntaxError](json.Unmarshal(rest, &item)); ok {
				at += int(bad.Offset) - 1
			}
			err = jsonfile.Explain(err)
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: result %d: %w", 1+bytes.Count(text[:at], []byte("\n")), len(out)+1, err)
		}
		out = append(out, result)
	}
}

// PlainJSON replaces what Python writes and JSON does not have: NaN becomes null,
// Infinity "inf".
func PlainJSON(text []byte) []byte {
	if !bytes.Contains(text, []byte("NaN")) && !bytes.Contains(text, []byte("Infinity")) {
		return text
	}
	out := make([]byte, 0, len(text)+64)
	quoted := false // in a string, where these words are text
	for at := 0; at < len(text); at++ {
		rest := text[at:]
		switch {
		case quoted && text[at] == '\\' && len(rest) > 1:
			out = append(out, rest[:2]...)
			at++
		case text[at] == '"':
			quoted = !quoted
			out = append(out, '"')
		case !quoted && bytes.HasPrefix(rest, []byte("NaN")):
			out = append(out, "null"...)
			at += len("NaN") - 1
		case !quoted && bytes.HasPrefix(rest, []byte("-Infinity")):
			out = append(out, `"-inf"`...)
			at += len("-Infinity") - 1
		case !quoted && bytes.HasPrefix(rest, []byte("Infinity")):
			out = append(out, `"inf"`...)
			at += len("Infinity") - 1
		default:
			out = append(out, text[at])
		}
	}
	return out
}

// readObject reads one result. Lists that it does not know are skipped.
func readObject[T any](text []byte, convert func(*Result) (T, error)) (T, error) {
	var none T
	var members map[string]json.RawMessage
	if err := json.Unmarshal(text, &members); err != nil {
		return none, fmt.Errorf("expected a result as an object, found %s", jsonfile.Kind(text))
	}
	result := newResult("json", "")
	result.Members = members
	// By its first byte: texts and parameters become words, numbers become values.
	for key, raw := range members {
		switch raw[0] {
		case '"':
			var word string
			if err := json.Unmarshal(raw, &word); err != nil {
				return none, fmt.Errorf("%q: %w", key, err)
			}
			if len(word) <= maxWord {
				result.Info[key] = word
			}
		case 't', 'f', '{': // parameters of a sweep
			if len(raw) <= maxObject && key != "ossian" && key != "steady_state" {
				result.Info[key] = string(raw)
			}
		case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
			if err := result.set(key, string(raw)); err != nil {
				return none, err
			}
		}
	}
	if err := result.steady(members["steady_state"]); err != nil {
		return none, err
	}
	result.Profile = guessJSON(members)
	return convert(result)
}

// set stores a number under the key that vLLM gives it.
func (r *Result) set(key, number string) error {
	value, err := strconv.ParseFloat(number, 64)
	if err != nil {
		return fmt.Errorf("%q: %q is no number that can be read", key, number)
	}
	if math.IsInf(value, 0) || math.IsNaN(value) {
		r.Info[key] = number
		return nil
	}
	key = strings.TrimSuffix(strings.Replace(key, "_e2e_latency_", "_e2el_", 1), ":")
	if key == "total_throughput" {
		key = "total_token_throughput"
	}
	r.Values[key] = value
	return nil
}

// newResult is a result of which nothing is known yet.
func newResult(format, profile string) *Result {
	return &Result{Format: format, Profile: profile, Info: map[string]string{}, Values: map[string]float64{}}
}

// steady stores the numbers of a steady state.
func (r *Result) steady(raw json.RawMessage) error {
	if len(raw) == 0 || raw[0] == 'n' {
		return nil
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(raw, &members); err != nil {
		return fmt.Errorf(`"steady_state": %w`, jsonfile.Explain(err))
	}
	for key, value := range members {
		var number float64
		if len(value) > 0 && value[0] != 'n' && json.Unmarshal(value, &number) == nil {
			r.Values["steady_"+key] = number
		}
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

// readCSV reads lmdeploy's file; headers may be repeated where files were joined.
func readCSV[T any](text []byte, convert func(*Result) (T, error)) ([]T, error) {
	lines := csv.NewReader(bytes.NewReader(text))
	lines.FieldsPerRecord = -1
	header, err := lines.Read()
	if err != nil {
		return nil, fmt.Errorf("CSV header: %w", err)
	}
	for _, need := range []string{"duration", "completed", "request_throughput", "output_throughput"} {
		if !slices.Contains(header, need) {
			return nil, fmt.Errorf("column %q is missing from the CSV header", need)
		}
	}
	var out []T
	for { // rows, with headers between them
		row, err := lines.Read()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("CSV: %w", err)
		}
		if slices.Equal(row, header) {
			continue
		}
		line, _ := lines.FieldPos(0)
		if len(row) != len(header) {
			return nil, fmt.Errorf("line %d has %d columns, the header %d", line, len(row), len(header))
		}
		found := newResult("csv", bench.LMDeploy.String())
		for i, key := range header {
			if key == "backend" || key == "dataset_name" {
				found.Info[key] = row[i]
			} else if row[i] != "" {
				if err := found.set(key, row[i]); err != nil {
					return nil, fmt.Errorf("line %d: %w", line, err)
				}
			}
		}
		result, err := convert(found)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", line, err)
		}
		if out = append(out, result); len(out) > maxResults {
			return nil, fmt.Errorf("more than %d results", maxResults)
		}
	}
	if len(out) == 0 {
		return nil, errors.New("a CSV header, but no row")
	}
	return out, nil
}
