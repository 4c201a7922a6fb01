package verify

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// check judges one document.
func check(t *testing.T, name, text string, options ...Option) Report {
	t.Helper()
	report, err := Documents([]Input{{name, []byte(text)}}, options...)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return report
}

// A wanted is a finding that must be there, by words of its line.
type wanted struct {
	number string // of the case in lab.md 7
	id     string
	count  int // how many findings must fit; 0 = at least one
	words  []string
}

// The cases of lab.md 7. Nothing else may be wrong: wrong lists, by words, all that is.
func TestPublishedCases(t *testing.T) {
	for _, document := range []struct {
		name, text string
		want       []wanted
		wrong      []string
	}{
		{"tuning.md", tuningReport(t), []wanted{
			{"1", "V-PCT", 1, []string{"wrong", "Short Prompt", "24223.22 → 25172.82 is +3.9 % (+3.92 %)", "(+4.0%)"}},
			{"2", "V-REF", 1, []string{"trtllm-serve", "serves openai/gpt-oss-120b", "GPT-OSS-20B"}},
			{"3", "V-TOKENS", 1, []string{"Very Long", "(+1.1 %)", "21.62 → 21.55 tok/s (-0.3 %)", "9533 → 9394 tokens"}},
			{"4", "V-CARRY", 1, []string{"median TTFT 1971 < mean 2774 ms", "first 500 of 1000", "2000/100"}},
			{"4", "V-CARRY", 1, []string{"median TTFT 1945 < mean 2682 ms", "first 500 of 1000", "2000/100"}},
			{"5", "V-CHUNK", 8, []string{"Other loads"}},
			{"5", "V-CHUNK", 6, []string{"P99 ITL is 2.0 × the median"}},
			{"5", "V-CHUNK", 1, []string{"1.86 gaps per request where tokens have 3"}},
			{"6", "V-PEAK", 1, []string{"caution", "peak 22 × mean", "P99 TPOT 46 s"}},
			{"7", "V-REPEAT", 1, []string{"+0.18 %", "4096", `is "-"`, "+1.1% is a gain"}},
			{"8", "V-MISSING", 1, []string{"memory and number of A100s"}},
		}, []string{"Short Prompt"}},
		{"optimisation.md", string(readFile(t, "optimisation.md")), []wanted{
			{"9", "V-ROOF", 1, []string{"1 GPU, no opt", "50–60 tok/s", "234 GB in BF16 fit neither one card of 98 GB nor two"}},
			{"10", "V-CLAIM", 1, []string{"-10% overhead", "+42…+50 %"}},
			{"11", "V-CLAIM", 1, []string{"from 50–60 tok/s is 103–157, not 200"}},
			{"12", "V-CLAIM", 1, []string{"sampling to be 72–100 % of a step", "top-p and top-k"}},
			{"13", "V-PCT", 1, []string{"4x memory reduction", "240 → 70 GB is 3.4 ×, 71 %"}},
			{"13", "V-PCT", 1, []string{"wrong", "75% saved", "240 → 70 GB is 3.4 ×, 71 %"}},
			{"14", "V-CLAIM", 1, []string{"95% optimized", "no criterion", "5.00 GB per token: 358 tok/s is the bound of one card at 1.79 TB/s; 200 tok/s is 56 % of it, 28 % of two"}},
			{"14", "V-CLAIM", 1, []string{"Rating", "no criterion"}},
			{"15", "V-CLAIM", 1, []string{"xformers", "installed is not used", "sinks", "Triton attention and Marlin", "vllm#40153"}},
		}, []string{"234 GB", "75% saved"}},
		{"models.log", modelLog(t), []wanted{
			{"17", "V-TOKENS", 1, []string{"1000000 tokens requested, 786126 retokenized", "-21.4 %"}},
			{"18", "V-LITTLE", 1, []string{"info", "6 blocks", "241–247 requests are past their first token", "the limit is 256"}},
			{"19", "V-KV", 1, []string{"500 requests in 2336.34 s", "121 of 256", "cache may be full"}},
			{"20", "V-MISSING", 1, []string{"not stated: hardware"}},
		}, nil},
		{"recipe.md", string(readFile(t, "recipe.md")), []wanted{
			{"21", "V-ROOF", 1, []string{"TP 1, 8,192 batched tokens, default memory share", "runs out of memory on H100"}},
			{"22", "V-CHUNK", 1, []string{"caution", "stream-interval: 20", "time of 20 tokens"}},
		}, nil},
		{"qwen3-32b-h100.md", publicReport(t, "qwen3-32b/h100"), []wanted{{"23", "V-PCT", 1, []string{"wrong", "Very Long", "(+10.7%)", "+46.8 %"}}}, []string{"(+10.7%)"}},
		{"qwen3-32b-a100.md", publicReport(t, "qwen3-32b/a100"), []wanted{{"24", "V-PCT", 1, []string{"wrong", "Very Long", "(-13.8%)", "-12.1 %"}}}, []string{"(-13.8%)"}},
		{"glm-4.x-h200.md", publicReport(t, "glm-4.x/h200"), []wanted{{"25", "V-PCT", 5, []string{"info", "x2", "holds for all 2 together"}}}, nil},
		{"qwen3.5-9b-h100.md", publicReport(t, "qwen3.5-9b/h100"), []wanted{{"26", "V-PEAK", 0, []string{"wrong", "peak 20132659.20", "the mean is 5202.94"}}}, []string{"V-PEAK"}},
		{"gpt-oss-20b-h100.md", publicReport(t, "gpt-oss-20b/h100"), []wanted{{"27", "V-REF", 1, []string{"16701.31", "in no result block"}}}, nil},
	} {
		report := check(t, document.name, document.text)
		for _, want := range document.want {
			found := 0
			for i := range report.Findings {
				if f := &report.Findings[i]; f.ID == want.id && containsAll(f.String(), want.words) {
					found++
				}
			}
			if (want.count == 0 && found == 0) || (want.count > 0 && found != want.count) {
				t.Errorf("case %s: %d findings of %s with %q, want %d\n%s", want.number, found, want.id, want.words, want.count, ofRule(&report, want.id))
			}
		}
		for i := range report.Findings {
			f := &report.Findings[i]
			if f.Severity == Wrong && !slices.ContainsFunc(document.wrong, func(words string) bool { return strings.Contains(f.String(), words) }) {
				t.Errorf("%s: nothing else is wrong, found %s", document.name, f)
			}
		}
	}
}

// Case 16: the blocks of the log are consistent.
func TestConsistentLog(t *testing.T) {
	report := check(t, "models.log", modelLog(t))
	if report.Counts.Blocks != 24 {
		t.Errorf("%d blocks, want 24", report.Counts.Blocks)
	}
	for i := range report.Findings {
		f := &report.Findings[i]
		if f.ID == "V-ARITH" || f.ID == "V-PEAK" || (f.ID == "V-LITTLE" && f.Severity != Info) {
			t.Errorf("consistent blocks: %s", f)
		}
	}
}

func containsAll(text string, words []string) bool {
	for _, word := range words {
		if !strings.Contains(text, word) {
			return false
		}
	}
	return true
}

// ofRule are the findings of one rule, for messages.
func ofRule(report *Report, id string) string {
	var out strings.Builder
	for i := range report.Findings {
		if report.Findings[i].ID == id {
			fmt.Fprintln(&out, "  "+report.Findings[i].String())
		}
	}
	return out.String()
}

// A prescribed predictor says what it was told: what rules do with an answer does not depend
// on who gives it.
type prescribed struct {
	name     string
	capacity Capacity
	predict  func(Setting) (Prediction, error)
}

func (p prescribed) Name() string                                { return p.name }
func (p prescribed) Capacity(Setting) (Capacity, error)          { return p.capacity, nil }
func (p prescribed) Predict(setting Setting) (Prediction, error) { return p.predict(setting) }

// Cases 19 and 20 with predictions, V-ROOF and V-PRED.
func TestAgainst(t *testing.T) {
	// Durations of the four rows of Qwen3-8B, as a machine that is right and one that is not predict them.
	durations := map[string]float64{"": 578.48, "1024/1024": 779.02, "2000/6000": 2336.34, "6000/2000": 2000}
	machine := func(name string, factor float64) prescribed {
		return prescribed{name: "Qwen/Qwen3-8B@" + name, predict: func(s Setting) (Prediction, error) {
			duration := durations[fmt.Sprintf("%.0f/%.0f", s.Load.Input, s.Load.Output)] * factor
			if s.Load.Dataset == "sharegpt" {
				duration = durations[""] * factor
			}
			return Prediction{Duration: Estimate{duration, duration * 0.9, duration * 1.1}, CacheFull: s.Load.Output == 6000, Preempted: 900}, nil
		}}
	}
	text := modelLog(t)
	for _, b := range []string{"002/Qwen3-8B/6000/2000"} {
		var seed seedFile
		readJSON(t, "seed_rows.json", &seed)
		for _, r := range seed.Rows {
			if r.ID == b {
				durations["6000/2000"] = r.Metrics["duration_s"].(float64)
			}
		}
	}
	report := check(t, "models.log", text, Against(machine("A100-SXM4-80G", 1.05), machine("H100-SXM", 0.5)))
	for _, want := range [][]string{
		{"V-KV", "121 of 256", "the cache is full: 900 preemptions predicted"},
		{"V-MISSING", "durations of 4 rows", "within 10 % on all of them: Qwen/Qwen3-8B@A100-SXM4-80G"},
		{"V-PRED", "duration (s) 2336.34", "H100-SXM predicts 1168", "slower than predicted"},
	} {
		if !slices.ContainsFunc(report.Findings, func(f Finding) bool { return containsAll(f.String(), want) }) {
			t.Errorf("no finding with %q:\n%s", want, ofRule(&report, want[0]))
		}
	}
	if strings.Contains(ofRule(&report, "V-PRED"), "A100-SXM4-80G") {
		t.Errorf("predictions within their intervals are reported:\n%s", ofRule(&report, "V-PRED"))
	}
	// Case 4 with a predictor: the run after others of its server, and by itself.
	carries := prescribed{name: "openai/gpt-oss-20b@A100-SXM4-80G", predict: func(s Setting) (Prediction, error) {
		if len(s.Before) > 0 {
			return Prediction{Duration: Estimate{5.5, 1, 1000}}, nil
		}
		return Prediction{Duration: Estimate{7.7, 1, 1000}}, nil
	}}
	carried := check(t, "tuning.md", tuningReport(t), Against(carries))
	if text := ofRule(&carried, "V-CARRY"); !strings.Contains(text, "predicts 5.5 s with them and 7.7 s without, printed are 5.44 s") {
		t.Errorf("V-CARRY does not say what is predicted:\n%s", text)
	}
	// What a command and a block say of concurrency reaches predictors.
	for _, c := range []struct {
		text          string
		limit, atOnce int
	}{
		{"vllm serve Qwen/Qwen3-8B\nvllm bench serve --model Qwen/Qwen3-8B --num-prompts 100 --max-concurrency 8\n" + figures(nil), 8, 8},
		{"vllm serve Qwen/Qwen3-8B --max-num-seqs 16\nvllm bench serve --model Qwen/Qwen3-8B --num-prompts 100\n" + figures(nil), 0, 16},
		{"vllm serve Qwen/Qwen3-8B\nvllm bench serve --model Qwen/Qwen3-8B --num-prompts 100\n" + figures(map[string]string{"peak_concurrent_requests": "24.00"}), 0, 24},
	} {
		var asked []Setting
		check(t, "limit.md", "# Qwen3-8B\n\n```\n"+c.text+"```\n", Against(prescribed{name: "Qwen/Qwen3-8B@any", predict: func(s Setting) (Prediction, error) {
			asked = append(asked, s)
			return Prediction{}, nil
		}}))
		if len(asked) == 0 || asked[0].Load.Limit != c.limit || asked[0].AtOnce != c.atOnce {
			t.Errorf("%s\nwas asked as %+v", c.text, asked)
		}
	}
	small := prescribed{name: "Qwen/Qwen3-8B@small", capacity: Capacity{WeightBytes: 16.4e9, MemoryBytes: 8e9, MostTokens: 100},
		predict: func(Setting) (Prediction, error) { return Prediction{}, errors.New("unknown kernel") }}
	report = check(t, "models.log", text, Against(small))
	for _, want := range [][]string{{"V-ROOF wrong", "16.4 GB of weights, 8.0 GB of memory"}, {"V-ROOF wrong", "allows 10000 sequences at once at most 100 tok/s"}, {"V-PRED info", "unknown kernel"}} {
		if !slices.ContainsFunc(report.Findings, func(f Finding) bool { return containsAll(f.String(), want) }) {
			t.Errorf("no finding with %q:\n%s", want, ofRule(&report, strings.Fields(want[0])[0]))
		}
	}
}
