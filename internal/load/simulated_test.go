package load

import (
	"strings"
	"testing"
	"time"

	"ossian/internal/model"
	"ossian/internal/runner"
	"ossian/internal/sample"
)

// TestSimulatedNames reads names of played machines; each mistake is told with what is expected.
func TestSimulatedNames(t *testing.T) {
	for name, want := range map[string]string{
		"sim:A100-SXM4-80G": "",
		"sim:h200,model=openai/gpt-oss-20b,tp=2,async=true": "",
		"sim:H100-SXM,engine=vllm@0.11.0,time=17,model=":    "no shape",
		"sim:Z80":                "Z80",
		"sim:":                   "machine",
		"sim:H200,tp=0":          "number of devices",
		"sim:H200,async=perhaps": "async=perhaps",
		"sim:H200,time=-1":       "from 0 to",
		"sim:H200,speed=3":       "unknown key",
		"sim:H200,engine=tgi":    "no profile",
		"tpu":                    "auto, cpu, cuda, cuda:N or sim:MACHINE",
	} {
		options := Options{Device: name, KV: "auto"}
		_, err := options.device(nil, nil)
		switch {
		case want == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case want != "" && err == nil:
			t.Errorf("%s was read", name)
		case want != "" && want != "no shape" && want != "machine" && !strings.Contains(err.Error(), want):
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
}

// TestSimulatedDevice plays gpt-oss-20b with the tokenizer of the built-in model: what is opened has the
// larger model's groups and context, a step takes as long as the factor says, and an answer ends.
func TestSimulatedDevice(t *testing.T) {
	elapsed := map[string]time.Duration{}
	for _, factor := range []string{"1", "3"} {
		options := Options{Device: "sim:A100-SXM4-80G,model=gpt-oss-20b,async=true,time=" + factor, KV: "auto"}
		checkpoint, err := OpenModel("")
		if err != nil {
			t.Fatal(err)
		}
		defer checkpoint.Close()
		vocab := checkpoint.Spec.Vocab
		if err := options.Play(checkpoint); err != nil {
			t.Fatal(err)
		}
		loading, err := options.Begin(checkpoint, func(string) {})
		if err != nil {
			t.Fatal(err)
		}
		need, err := loading.Cost()(model.Limits{})
		if err != nil || need.Weights+need.Mapped+need.KV != 0 {
			t.Errorf("it takes %+v, %v", need, err)
		}
		played, choice, err := loading.Open(t.Context(), model.Limits{MaxSeqs: 8, MaxTokens: 512, MaxLen: 4096}, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer played.Close()
		info := played.Info()
		if info.Vocab != vocab || len(info.Groups) != 2 || info.Depth != 2 || !strings.Contains(choice.Line(), "plays gpt-oss-20b") {
			t.Errorf("%+v, %s", info, choice.Line())
		}
		if !strings.Contains(choice.Line(), "from counts and data sheets, no card has been measured") {
			t.Errorf("%s: not marked as counted", choice.Line())
		}
		elapsed[factor], _ = stepOf(t, played, 0)
	}
	if ratio := float64(elapsed["3"]) / float64(elapsed["1"]); elapsed["1"] <= 0 || ratio < 2.99 || ratio > 3.01 {
		t.Errorf("steps of %v", elapsed)
	}
}

// stepOf runs a prompt of one token through a runner and returns how long the step took and what was
// sampled.
func stepOf(t *testing.T, played runner.Runner, token int32) (time.Duration, int32) {
	t.Helper()
	tables := make([][]runner.BlockID, len(played.Info().Groups))
	for i := range tables {
		tables[i] = []runner.BlockID{0}
	}
	history := []int32{token}
	batch := &runner.Batch{Tokens: history, Rows: []runner.Row{{Len: 1, Tables: tables, Sample: true, Params: &sample.Params{}, History: history}}}
	if err := played.Launch(batch); err != nil {
		t.Fatal(err)
	}
	result, err := played.Collect()
	if err != nil {
		t.Fatal(err)
	}
	return result.Elapsed, result.Tokens[0][0]
}

// TestNoise draws the lengths of many answers: their median is the usual one, and none is endless.
func TestNoise(t *testing.T) {
	below, longest := 0, uint64(0)
	for prompt := range uint64(2000) {
		length := lengthOf(mix(prompt))
		longest = max(longest, length)
		if length < usualLength {
			below++
		}
	}
	if below < 850 || below > 1150 || longest > 16*usualLength+1 {
		t.Errorf("%d of 2000 below the median, the longest %d", below, longest)
	}
}
