package forecast

import (
	"strings"
	"testing"

	"ossian/internal/lab/ledger"
	"ossian/internal/lab/planfile"
)

func engine(kind string) planfile.Engine { return planfile.Engine{Name: kind, Kind: kind} }

func setting(flags ...string) ledger.Setting {
	out := ledger.Setting{Engine: "vllm", Flags: map[string]string{}}
	for _, flag := range flags {
		name, value, _ := strings.Cut(flag, "=")
		out.Flags[name] = value
	}
	return out
}

// What can be predicted has intervals that follow the setting; what cannot fit says so; all else is
// unknown and drops nothing.
func TestPredict(t *testing.T) {
	f, err := New("NVIDIA A100-SXM4-80GB", map[string]string{"vllm": "vLLM API server version 0.11.0"}, 42)
	if err != nil {
		t.Fatal(err)
	}
	load := planfile.Workload{Name: "chat", Dataset: "random", InputLen: 512, OutputLen: 128, NumPrompts: 64, Endpoint: "completions"}
	many := f.Predict(engine("vllm"), setting(), "Qwen/Qwen3-8B", load).Metrics["total_token_throughput"]
	few := f.Predict(engine("vllm"), setting("max-num-seqs=2"), "Qwen/Qwen3-8B", load).Metrics["total_token_throughput"]
	if !(few.High < many.Low) || !(many.Low < many.Value && many.Value < many.High) {
		t.Errorf("two at once %+v, all %+v", few, many)
	}
	if big := f.Predict(engine("vllm"), setting(), "Qwen3-235B-A22B", load); big.Misfit == "" || big.Metrics != nil {
		t.Errorf("235 billion parameters on one card: %+v", big)
	}
	for name, unknown := range map[string]struct {
		engine  planfile.Engine
		setting ledger.Setting
		model   string
		load    planfile.Workload
	}{
		"a flag":     {engine("vllm"), setting("enforce-eager=true"), "Qwen3-8B", load},
		"an engine":  {engine("sglang"), setting(), "Qwen3-8B", load},
		"a model":    {engine("vllm"), setting(), "someone/else", load},
		"a data set": {engine("vllm"), setting(), "Qwen3-8B", planfile.Workload{Dataset: "custom", NumPrompts: 3}},
		"a value":    {engine("vllm"), setting("max-num-seqs=many"), "Qwen3-8B", load},
	} {
		if got := f.Predict(unknown.engine, unknown.setting, unknown.model, unknown.load); got.Metrics != nil || got.Misfit != "" {
			t.Errorf("%s that is not known: %+v", name, got)
		}
	}
	if _, err := New("Cray-1", nil, 1); err == nil {
		t.Error("a machine that is not known was taken")
	}
}
