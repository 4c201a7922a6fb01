package forecast

import (
	"math"
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
	setting := verify.Setting{Model: "Qwen/Qwen3-8B", TP: 1, Flags: strings.Fields("vllm serve Qwen/Qwen3-8B --port 8000 --max-model-len 32768"), Load: load}
	got, err := opponent.Predict(setting)
	if err != nil || !got.CacheFull || got.Preempted < 100 || !(got.Duration.Low < got.Duration.Value && got.Duration.Value < got.Duration.High) {
		t.Errorf("%+v, %v", got, err)
	}
	capacity, err := opponent.Capacity(setting)
	if err != nil || math.Abs(capacity.WeightBytes/16.4e9-1) > 0.01 || capacity.MemoryBytes != 85e9 || capacity.MostTokens < 100 || capacity.MostTokens > 140 {
		t.Errorf("%+v, %v", capacity, err)
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
