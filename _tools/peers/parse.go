package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
)

// latency is what is read of the result of ossian bench latency.
type latency struct {
	Latencies series // seconds of each measurement
	Ossian    struct {
		Prompt int `json:"prompt_tokens"` // of all together
		Steps  struct {
			Decode struct {
				Rate float64 `json:"decode_tokens_per_second"`
			}
		}
	}
}

// parseLatency finds the JSON behind the console's lines.
func parseLatency(out []byte) (l latency, err error) {
	at := bytes.Index(out, []byte("{\n"))
	if at < 0 {
		return l, errors.New("ossian bench latency wrote no result")
	}
	err = json.NewDecoder(bytes.NewReader(out[at:])).Decode(&l)
	return l, err
}

func latencyDecode(out []byte) (float64, error) {
	l, err := parseLatency(out)
	return positive(l.Ossian.Steps.Decode.Rate, err)
}

// latencyPrefill is the rate of a prompt in the median measurement, as it is of servers: the first one
// of a process takes longer.
func latencyPrefill(out []byte) (float64, error) {
	l, err := parseLatency(out)
	if err != nil || len(l.Latencies) == 0 {
		return positive(0, err)
	}
	return positive(float64(l.Ossian.Prompt)/float64(len(l.Latencies))/l.Latencies.median(), nil)
}

func positive(rate float64, err error) (float64, error) {
	if err == nil && rate <= 0 {
		err = errors.New("the result has no such steps")
	}
	return rate, err
}

// parseLlamaBench reads llama-bench -o json. Messages may stand around the list.
func parseLlamaBench(stdout, _ []byte) (map[string]float64, error) {
	at := bytes.Index(stdout, []byte("[\n"))
	if at < 0 {
		return nil, errors.New("llama-bench wrote no list of tests")
	}
	var tests []struct {
		Prompt int    `json:"n_prompt"`
		Gen    int    `json:"n_gen"`
		Rates  series `json:"samples_ts"`
	}
	if err := json.NewDecoder(bytes.NewReader(stdout[at:])).Decode(&tests); err != nil {
		return nil, fmt.Errorf("llama-bench: %w", err)
	}
	out := map[string]float64{}
	for _, t := range tests {
		switch {
		case len(t.Rates) == 0:
		case t.Gen == 0:
			out[prefillCase(t.Prompt)] = t.Rates.median()
		case t.Prompt == 0:
			out[decodeCase(1)] = t.Rates.median()
		}
	}
	if len(out) == 0 {
		return nil, errors.New("llama-bench measured nothing")
	}
	return out, nil
}

// A row of llama-batched-bench: PP, TG, B, N_KV, T_PP, S_PP, T_TG, S_TG, T, S.
var batchedRow = regexp.MustCompile(`(?m)^\|\s*(\d+)\s*\|\s*(\d+)\s*\|\s*(\d+)\s*\|\s*\d+\s*\|(?:\s*[\d.]+\s*\|){3}\s*([\d.]+)\s*\|`)

// parseBatched reads the speed of decoding for each number of sequences. row names the
// case where there is but one.
func parseBatched(out []byte, row string, streams []int) (map[string]float64, error) {
	found := map[string]float64{}
	for _, m := range batchedRow.FindAllSubmatch(out, -1) {
		n, _ := strconv.Atoi(string(m[3]))
		rate, err := strconv.ParseFloat(string(m[4]), 64)
		if err != nil || rate <= 0 || !slices.Contains(streams, n) {
			continue
		}
		name := row
		if name == "" {
			name = decodeCase(n)
		}
		found[name] = rate
	}
	if len(found) < len(streams) {
		return nil, fmt.Errorf("llama-batched-bench measured %d of %d batches", len(found), len(streams))
	}
	return found, nil
}

// Names of what a load gives.
const (
	totalRate  = "total t/s"
	ttft       = "TTFT p50 s"
	tpot       = "TPOT p50 ms"
	longestGap = "longest gap s"
	readyTime  = "s"
)

// parseServed reads the result file of ossian bench serve, which must tell of so many
// requests with so much output each.
func parseServed(text []byte, requests, output int) (map[string]float64, error) {
	var r struct {
		Completed int
		Output    int         `json:"total_output_tokens"`
		Total     float64     `json:"total_token_throughput"`
		TTFT      float64     `json:"median_ttft_ms"`
		TPOT      float64     `json:"median_tpot_ms"`
		Gaps      [][]float64 `json:"itls"`
	}
	if err := json.Unmarshal(text, &r); err != nil {
		return nil, fmt.Errorf("ossian bench serve: %w", err)
	}
	if r.Completed != requests || r.Output != requests*output {
		return nil, fmt.Errorf("%d of %d requests were answered, with %d tokens of %d", r.Completed, requests, r.Output, requests*output)
	}
	longest := 0.0
	for _, gaps := range r.Gaps {
		longest = max(longest, slices.Max(append(gaps, 0)))
	}
	return map[string]float64{totalRate: r.Total, ttft: r.TTFT / 1000, tpot: r.TPOT, longestGap: longest}, nil
}
