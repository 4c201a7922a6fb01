package forecast

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"ossian/internal/lab/planfile"
	"ossian/internal/lab/predict"
)

func TestSet(t *testing.T) {
	var s predict.Settings
	for _, flag := range [][2]string{{"--tp", "2"}, {"max-num-seqs", "64"}, {"max_num_batched_tokens", "8k"}, {"no-enable-prefix-caching", "true"}, {"async-scheduling", "true"}, {"gpu-memory-utilization", "0.8"}, {"kv-cache-dtype", "fp8"}} {
		if err := Set(&s, flag[0], flag[1]); err != nil {
			t.Error(err)
		}
	}
	if s.TP != 2 || s.MaxSeqs != 64 || s.MaxTokens != 8192 || *s.PrefixCaching || !*s.Async || s.MemoryShare != 0.8 || s.KVType != "fp8" {
		t.Errorf("%+v", s)
	}
	for _, flag := range [][2]string{{"tp", "-1"}, {"max-num-seqs", "many"}, {"max-num-seqs", "99999999999"}, {"async-scheduling", "perhaps"}, {"gpu-memory-utilization", "x"}} {
		if err := Set(&s, flag[0], flag[1]); err == nil || errors.Is(err, ErrNotModelled) {
			t.Errorf("%v: %v", flag, err)
		}
	}
	if err := Set(&s, "max-num-seq", "4"); !errors.Is(err, ErrNotModelled) || !strings.Contains(err.Error(), "max-num-seqs") {
		t.Error(err)
	}
}

func TestWords(t *testing.T) {
	var s predict.Settings
	unknown, err := Words(&s, strings.Fields("vllm serve openai/gpt-oss-20b --port 8000 -tp 2 --async-scheduling --max-num-seqs=64 --attention-backend FLASHINFER --no-enable-prefix-caching --seed 1"))
	if err != nil || !slices.Equal(unknown, []string{"attention-backend"}) || s.TP != 2 || s.MaxSeqs != 64 || !*s.Async || *s.PrefixCaching {
		t.Errorf("%v, %v, %+v", unknown, err, s)
	}
	if _, err := Words(&s, []string{"--max-num-seqs", "none"}); err == nil {
		t.Error("a wrong value was accepted")
	}
}

func TestWorkload(t *testing.T) {
	load, err := Named("sharegpt")
	if err != nil {
		t.Fatal(err)
	}
	w, err := Workload(load, 1)
	if err != nil || len(w.Requests) != 1000 || !w.Chat || len(w.Assumptions) != 1 {
		t.Errorf("%v, %d requests, %v", err, len(w.Requests), w.Assumptions)
	}
	if load, err = Named("1024/128"); err != nil {
		t.Fatal(err)
	}
	load.NumPrompts, load.RequestRate, load.RangeRatio, load.MaxConcurrency = 50, 5, 0.5, 7
	if w, err = Workload(load, 1); err != nil || w.Requests[49].At.Seconds() != 10 || w.Concurrency != 7 {
		t.Errorf("%v, %+v", err, w.Requests[49].At)
	}
	least, most := 1<<30, 0
	for _, request := range w.Requests {
		least, most = min(least, len(request.Prompt)), max(most, len(request.Prompt))
	}
	if least < 512 || most > 1536 || most-least < 700 {
		t.Errorf("prompts of %d to %d tokens", least, most)
	}
	for name, bad := range map[string]planfile.Workload{"file": {Dataset: "custom", Path: "x", NumPrompts: 1}, "none": {Dataset: "random", InputLen: 1, OutputLen: 1},
		"huge": {Dataset: "random", InputLen: 1 << 20, OutputLen: 1, NumPrompts: 1000}} {
		if _, err := Workload(bad, 1); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if _, err := Named("shareGTP"); err == nil || !strings.Contains(err.Error(), "sharegpt") {
		t.Error(err)
	}
}
