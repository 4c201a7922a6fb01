package resultfile

import (
	"fmt"
	"strconv"
	"strings"

	"ossian/internal/bench"
	"ossian/internal/lazyregexp"
)

// consoleTitle stands in the first line of every console report.
const consoleTitle = "Serving Benchmark Result"

// keyOfLabel are the rows of the console reports, in small letters, by the keys of the JSON.
var keyOfLabel = map[string]string{
	"successful requests":                  "completed",
	"failed requests":                      "failed",
	"maximum request concurrency":          "max_concurrency",
	"max request concurrency":              "max_concurrency",
	"request rate configured (rps)":        "request_rate",
	"traffic request rate":                 "request_rate",
	"benchmark duration (s)":               "duration",
	"total input tokens":                   "total_input_tokens",
	"total input text tokens":              "total_input_text_tokens",
	"total input vision tokens":            "total_input_vision_tokens",
	"total generated tokens":               "total_output_tokens",
	"total generated tokens (retokenized)": "total_output_tokens_retokenized",
	"request throughput (req/s)":           "request_throughput",
	"request goodput (req/s)":              "request_goodput",
	"input token throughput (tok/s)":       "input_throughput",
	"output token throughput (tok/s)":      "output_throughput",
	"peak output token throughput (tok/s)": "max_output_tokens_per_s",
	"peak concurrent requests":             "max_concurrent_requests",
	"total token throughput (tok/s)":       "total_token_throughput",
	"concurrency":                          "concurrency",
	"accept length":                        "accept_length",
	"probe requests completed":             "probe_completed",
	"probe requests failed":                "probe_failed",
	"acceptance rate (%)":                  "spec_decode_acceptance_rate",
	"acceptance length":                    "spec_decode_acceptance_length",
	"drafts":                               "spec_decode_num_drafts",
	"draft tokens":                         "spec_decode_draft_tokens",
	"accepted tokens":                      "spec_decode_accepted_tokens",
	"observed peak concurrency":            "observed_peak",
	"requests completed in window":         "requests_completed_in_window",
}

// keyOfLatency are the latencies in labels, in small letters, by their part of the key.
var keyOfLatency = map[string]string{
	"ttft": "ttft", "tpot": "tpot", "itl": "itl", "e2el": "e2el", "e2e latency": "e2el",
	"client queue time": "client_queue_time", "e2el incl. client queue": "e2el_including_client_queue", "probe e2el": "probe_e2el",
}

var (
	latencyLabel = lazyregexp.New(`^(mean|median|max|p[0-9]+(?:\.[0-9]+)?) (.+) \(ms\)$`)
	consoleRow   = lazyregexp.New(`^([A-Za-z][^:]{0,80}): *(\S.{0,80})$`)
	escapes      = lazyregexp.New("\x1b\\[[0-9;?]*[A-Za-z]")
	pasted       = strings.NewReplacer("|", " ", "`", "", "*", "", "\u00a0", " ", "\t", " ")
)

// rowKey is the key of a label; false for rows that mean nothing here.
func rowKey(label string) (string, bool) {
	label = strings.ToLower(strings.Join(strings.Fields(label), " "))
	if key, ok := keyOfLabel[label]; ok {
		return key, true
	}
	match := latencyLabel.FindStringSubmatch(label)
	if match == nil {
		return "", false
	}
	name, ok := keyOfLatency[match[2]]
	if !ok {
		return "", false
	}
	if name == "probe_e2el" {
		return "probe_" + match[1] + "_e2el_ms", true
	}
	return match[1] + "_" + name + "_ms", true
}

// A consoleScan reads text line by line for reports.
type consoleScan struct {
	found  []*Result
	open   bool   // in a report: between its frames
	prefix string // of keys: that of the steady state, or none
}

// readConsole finds the reports in text: between other text, quoted, in a table, with
// spaces lost. A report ends with its closing frame, with the next one, or with the text.
func readConsole[T any](text string, convert func(*Result) (T, error)) ([]T, error) {
	var scan consoleScan
	number := 0
	for line := range strings.Lines(text) {
		number++
		if err := scan.line(bare(line)); err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		if len(scan.found) > maxResults {
			return nil, fmt.Errorf("more than %d results", maxResults)
		}
	}
	if len(scan.found) == 0 {
		return nil, fmt.Errorf("no line is a frame with %q", consoleTitle)
	}
	// A frame alone is no report; all that were found must have rows.
	out := make([]T, len(scan.found))
	for i, report := range scan.found {
		if len(report.Values) == 0 {
			return nil, fmt.Errorf("report %d has none of the rows of a report, as \"Request throughput (req/s):\"", i+1)
		}
		var err error
		if out[i], err = convert(report); err != nil {
			return nil, fmt.Errorf("report %d: %w", i+1, err)
		}
	}
	return out, nil
}

// bare takes away what pasting adds: escapes, quote marks, table bars, code ticks.
func bare(line string) string {
	if strings.Contains(line, "\x1b") {
		line = escapes.ReplaceAllString(line, "")
	}
	return strings.TrimSpace(strings.TrimLeft(strings.TrimSpace(pasted.Replace(line)), "> "))
}

// line takes a line: a frame that begins or ends a report, or a row of one.
func (s *consoleScan) line(line string) error {
	frame := strings.Trim(line, "=")
	switch {
	case strings.TrimSpace(frame) == consoleTitle && len(frame) < len(line):
		s.found = append(s.found, newResult("console", bench.VLLM.String()))
		if len(line) == 60 { // only the compiled client's frame is so wide
			s.last().Profile = bench.VLLMRust.String()
		}
		s.open, s.prefix = true, ""
		return nil
	case strings.TrimSpace(frame) == "Steady-State Metrics" && len(frame) < len(line) && len(s.found) > 0:
		s.open, s.prefix = true, "steady_"
		s.last().Profile = bench.VLLMRust.String()
		return nil
	case frame == "" && len(line) >= 10:
		s.open = false
	}
	if !s.open {
		return nil
	}
	match := consoleRow.FindStringSubmatch(line)
	if match == nil {
		return nil
	}
	return s.row(strings.TrimSpace(match[1]), strings.TrimSpace(match[2]))
}

// last is the report at hand.
func (s *consoleScan) last() *Result { return s.found[len(s.found)-1] }

// row stores one row of a report.
func (s *consoleScan) row(label, value string) error {
	report := s.last()
	if label == "Backend" {
		report.Info["backend"] = value
		return nil
	}
	key, ok := rowKey(label)
	if !ok {
		return nil
	}
	// Rows that only one tool writes, or writes so, tell which it was.
	switch {
	case strings.HasPrefix(label, "Total Token"):
		report.Profile = bench.VLLM011.String()
	case key == "total_output_tokens_retokenized" && report.Profile != bench.SGLang.String():
		report.Profile = bench.LMDeploy.String()
	case label == "Max request concurrency":
		report.Profile = bench.SGLang.String()
	}
	number := strings.ReplaceAll(value, ",", "")
	if value == "not set" || value == "nan" || value == "trace" {
		return nil
	}
	if _, err := strconv.ParseFloat(number, 64); err != nil {
		return fmt.Errorf("%s: found %q, expected a number", label, value)
	}
	return report.set(s.prefix+key, number)
}
