package forecast

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"ossian/internal/lab/verify"
)

// TestAgainst: published runs of Qwen3-8B on an A100 lie in the intervals; the one with long answers
// fills the cache and preempts.
func TestAgainst(t *testing.T) {
	opponent, err := Against("Qwen/Qwen3-8B@A100-80G,vllm@0.10.1")
	if err != nil || opponent.Name() != "Qwen/Qwen3-8B@A100-SXM4-80G" {
		t.Fatal(err)
	}
	load := verify.Workload{Dataset: "random", Input: 2000, Output: 6000, Count: 500, Rate: math.Inf(1)}
	if testing.Short() {
		load.Count = 200
	}
	setting := verify.Setting{Model: "Qwen/Qwen3-8B", TP: 1, Flags: strings.Fields("vllm serve Qwen/Qwen3-8B --port 8000 --max-model-len 32768"), Load: load, AtOnce: 1}
	got, err := opponent.Predict(setting)
	if err != nil || !got.CacheFull || got.Preempted < 100 || !(got.Duration.Low < got.Duration.Value && got.Duration.Value < got.Duration.High) {
		t.Errorf("%+v, %v", got, err)
	}
	capacity, err := opponent.Capacity(setting)
	if err != nil || math.Abs(capacity.WeightBytes/16.4e9-1) > 0.01 || capacity.MemoryBytes != 85e9 || capacity.MostTokens < 100 || capacity.MostTokens > 140 {
		t.Errorf("%+v, %v", capacity, err)
	}
	setting.AtOnce = load.Count
	if many, err := opponent.Capacity(setting); err != nil || many.MostTokens < 1284.06 || many.MostTokens > 20000 {
		t.Errorf("%d sequences at once: %+v, %v", load.Count, many, err)
	}
	setting.AtOnce = 0
	if unknown, err := opponent.Capacity(setting); err != nil || unknown.MostTokens != 0 {
		t.Errorf("sequences that are not known: %+v, %v", unknown, err)
	}
	for name, change := range map[string]func(*verify.Setting){
		"unknown flag":   func(s *verify.Setting) { s.Flags = []string{"--attention-backend", "X"} },
		"other weights":  func(s *verify.Setting) { s.Weights = "fp8" },
		"unknown form":   func(s *verify.Setting) { s.Weights = "ternary" },
		"unknown data":   func(s *verify.Setting) { s.Load.Dataset = "sonnet" },
		"too long":       func(s *verify.Setting) { s.Load.Count = 1 << 30 },
		"nothing stated": func(s *verify.Setting) { s.Load = verify.Workload{} },
	} {
		other := setting
		change(&other)
		if _, err := opponent.Predict(other); err == nil {
			t.Errorf("%s: predicted", name)
		}
	}
	for _, text := range []string{"", "Qwen3-8B", "@A100", "Qwen3-8B@Z80", "none@A100", "Qwen3-8B@A100,tgi"} {
		if _, err := Against(text); err == nil {
			t.Errorf("%q was accepted", text)
		}
	}
	unknown, err := Against("Qwen/Qwen3-8B@MI300X")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := unknown.Predict(setting); err == nil {
		t.Error("kernels that were never measured were predicted")
	}
}

// TestBoundsPublished: no published run of Qwen3-8B is faster than the A100 that it was measured on
// allows; a hundred times its rate, and its rate with one request at a time, are.
func TestBoundsPublished(t *testing.T) {
	opponent, err := Against("Qwen/Qwen3-8B@A100-80G")
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile("../verify/testdata/seed_rows.json")
	if err != nil {
		t.Fatal(err)
	}
	var seed struct {
		Rows []struct {
			Model    string
			Workload struct{ Dataset string }
			Metrics  map[string]float64
		}
	}
	if err := json.Unmarshal(data, &seed); err != nil {
		t.Fatal(err)
	}
	rows := 0
	for _, row := range seed.Rows {
		if row.Model != "Qwen/Qwen3-8B" {
			continue
		}
		rows++
		for _, change := range []struct {
			command string
			factor  float64
			wrong   bool
		}{{"--max-concurrency 1", 1, true}, {"--max-concurrency 1024", 1, false}, {"", 1, false}, {"", 100, true}} {
			rate := change.factor * row.Metrics["output_throughput"]
			text := fmt.Sprintf("# Qwen3-8B\n\n$ vllm serve Qwen/Qwen3-8B\n\n$ vllm bench serve --model Qwen/Qwen3-8B --dataset-name %s --num-prompts %.0f %s\n\n"+
				"============ Serving Benchmark Result ============\nSuccessful requests: %.0f\nBenchmark duration (s): %.2f\nTotal input tokens: %.0f\nTotal generated tokens: %.0f\nOutput token throughput (tok/s): %.2f\n"+
				"==================================================\n", row.Workload.Dataset, row.Metrics["completed"], change.command,
				row.Metrics["completed"], row.Metrics["total_output_tokens"]/rate, row.Metrics["total_input_tokens"], row.Metrics["total_output_tokens"], rate)
			report, err := verify.Documents([]verify.Input{{Name: "row.md", Data: []byte(text)}}, verify.Against(bounds{opponent}))
			if err != nil {
				t.Fatal(err)
			}
			wrong := slices.ContainsFunc(report.Findings, func(f verify.Finding) bool { return f.ID == "V-ROOF" && f.Severity == verify.Wrong })
			if wrong != change.wrong {
				t.Errorf("%s, %q, %.2f tok/s: wrong is %v\n%s", row.Workload.Dataset, change.command, rate, wrong, report.Text())
			}
		}
	}
	if rows != 4 {
		t.Fatalf("%d rows of Qwen3-8B", rows)
	}
}

// bounds are an opponent without its simulations, which bounds do not need.
type bounds struct{ *Opponent }

func (bounds) Predict(verify.Setting) (verify.Prediction, error) {
	return verify.Prediction{}, errors.New("not asked for here")
}
