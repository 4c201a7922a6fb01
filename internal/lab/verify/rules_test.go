package verify

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// figures are a block of vLLM with some rows replaced; all others agree with each other.
func figures(changed map[string]string) string {
	metrics := map[string]any{"completed": "100", "duration_s": "50.00", "total_input_tokens": "20000", "total_output_tokens": "30000", "request_throughput": "2.00",
		"output_throughput": "600.00", "peak_output_throughput": "900.00", "peak_concurrent_requests": "100.00", "total_token_throughput": "1000.00",
		"mean_ttft_ms": "1000.00", "median_ttft_ms": "900.00", "p99_ttft_ms": "4000.00", "mean_tpot_ms": "20.00", "median_tpot_ms": "19.00", "p99_tpot_ms": "40.00",
		"mean_itl_ms": "20.00", "median_itl_ms": "19.00", "p99_itl_ms": "60.00"}
	for key, value := range changed {
		metrics[key] = value
	}
	return consoleBlock("vllm-0.11", metrics)
}

// heldFor are figures of a tool that counts no peak, with a mean time of a request.
func heldFor(milliseconds string) string {
	block := figures(map[string]string{"mean_e2el_ms": milliseconds, "median_e2el_ms": milliseconds, "p99_e2el_ms": "9000.00"})
	return strings.Replace(block, "Peak concurrent requests:                100.00", "", 1)
}

// Each rule finds what it is for, and says nothing about the same text put right.
func TestRules(t *testing.T) {
	for _, c := range []struct {
		name, wrong, right string
		want               []string
	}{
		{"request rate", figures(map[string]string{"request_throughput": "2.10"}), figures(nil), []string{"V-ARITH wrong", "100 / 50.00 s = 2"}},
		{"total rate", figures(map[string]string{"total_token_throughput": "1010.00"}), figures(nil), []string{"V-ARITH wrong", "(20000 + 30000) / 50.00 s = 1000"}},
		{"percentiles", figures(map[string]string{"p99_itl_ms": "18.00"}), figures(nil), []string{"V-ARITH wrong", "p99_itl_ms 18.00", "median_itl_ms is 19.00"}},
		{"mean below half of the median", figures(map[string]string{"mean_tpot_ms": "9.00"}), figures(nil), []string{"V-ARITH wrong", "at least half"}},
		{"time in the server", figures(map[string]string{"mean_e2el_ms": "51000.00", "median_e2el_ms": "7000.00", "p99_e2el_ms": "49000.00"}),
			figures(map[string]string{"mean_e2el_ms": "7000.00", "median_e2el_ms": "7000.00", "p99_e2el_ms": "49000.00"}), []string{"V-LITTLE wrong", "102.0 requests at once, there were at most 100"}},
		{"longer than the run", figures(map[string]string{"p99_ttft_ms": "52000.00"}), figures(nil), []string{"V-LITTLE wrong", "the whole run took 50.00 s"}},
		{"peak below the mean", figures(map[string]string{"peak_output_throughput": "500.00"}), figures(nil), []string{"V-PEAK wrong", "the mean is 600.00"}},
		{"peak of no stream", figures(map[string]string{"peak_output_throughput": "200000.00"}), figures(nil), []string{"V-PEAK wrong", "100 requests at once would each have had 2000 tok/s"}},
		{"limit of the client's command", "```\nvllm bench serve --model a/b-7B --num-prompts 100 --max-concurrency 8\n```\n" + heldFor("5000.00"), "```\nvllm bench serve --model a/b-7B --num-prompts 100 --max-concurrency 8\n```\n" + heldFor("3900.00"),
			[]string{"V-LITTLE wrong", "10.0 requests at once, there were at most 8", "the limit of concurrent requests"}},
		{"limit of another block", "## Concurrency 8\n```\nvllm bench serve --model a/b-7B --num-prompts 100 --max-concurrency 8\n```\n" + heldFor("5000.00"),
			"```\nvllm bench serve --model a/b-7B --num-prompts 100 --max-concurrency 8\n```\n## Concurrency 16\n" + heldFor("5000.00"), []string{"V-LITTLE wrong", "at most 8"}},
		{"limit of a command for another count", "```\nvllm bench serve --model a/b-7B --max-concurrency 8\n```\n" + heldFor("5000.00"), "```\nvllm bench serve --model a/b-7B --num-prompts 50 --max-concurrency 8\n```\n" + heldFor("5000.00"), []string{"V-LITTLE wrong", "at most 8"}},
		{"counted peak", figures(map[string]string{"peak_concurrent_requests": "8.00", "mean_ttft_ms": "5000.00", "p99_ttft_ms": "6000.00"}), figures(map[string]string{"peak_concurrent_requests": "11.00", "mean_ttft_ms": "5000.00", "p99_ttft_ms": "6000.00"}),
			[]string{"V-LITTLE wrong", "10.0 requests at once, there were at most 8", "the peak of concurrent requests"}},
		{"rate of another thing in a row", "| Load | Mean TTFT (ms) | Output tok/s |\n|---|---|---|\n| a | 1000.00 | 34.30 |\n" + figures(nil), "| Load | Mean TTFT (ms) | TPS per user | Output tok/s/GPU | Interactivity (tok/s) |\n|---|---|---|---|---|\n| a | 1000.00 | 34.30 | 300.00 | 50.00 |\n" + figures(nil),
			[]string{"V-REF wrong", "output tok/s 34.30", "has 600.00"}},
		{"ranking", "Result: a (5.00 tok/s) > b (7.00 tok/s)\n" + tinyBlock, "Result: a (7.00 tok/s) > b (5.00 tok/s)\n" + tinyBlock, []string{"V-REF wrong", "5.00 is not more than 7.00"}},
		{"difference in a sentence", "Mean TPOT = 15.12 ms vs 138.86 ms, reduced by 123.74 ms (79.11%).\n" + tinyBlock, "Mean TPOT = 15.12 ms vs 138.86 ms, reduced by 123.74 ms (89.11%).\n" + tinyBlock, []string{"V-PCT wrong", "138.86 → 15.12 is -89.1 %"}},
		{"factor", "| Load | before | after |\n|---|---|---|\n| a | Mean latency: 1.66s | Mean latency: 0.62s (3.7x faster) |\n", "| Load | before | after |\n|---|---|---|\n| a | Mean latency: 1.66s | Mean latency: 0.62s (2.7x faster) |\n", []string{"V-PCT wrong", "3.7x"}},
		{"base in another row", "| Method | Throughput (tok/s) |\n|---|---|\n| FP8 | 15275.64 (+24.8%) |\n| W8 | 16452.52 (+23.7%) |\n| BF16 | 13305.38 |\n", "| Method | Throughput (tok/s) |\n|---|---|\n| FP8 | 15275.64 (+14.8%) |\n| W8 | 16452.52 (+23.7%) |\n| BF16 | 13305.38 |\n", []string{"V-PCT wrong", "FP8", "+14.8 %"}},
		{"not said that it is per device", "| Load | before | after |\n|---|---|---|\n| a | TPS: 100.0 | TPS: 240.0 (+20.0%) |\n", "| Load | before | after |\n|---|---|---|\n| a | TPS: 100.0 | TPS: 240.0 (+20.0%/GPU) |\n", []string{"V-PCT caution", "holds only divided by 2"}},
		{"change of its own column", "| Setting | Output TPS | Gain |\n|---|---|---|\n| a | 100.0 | - |\n| b | 110.0 | +10.0% |\n| c | 121.0 | +12.0% |\n", "| Setting | Output TPS | Gain |\n|---|---|---|\n| a | 100.0 | - |\n| b | 110.0 | +10.0% |\n| c | 121.0 | +10.0% |\n", []string{"V-PCT wrong", "row c", "+12.0%"}},
		{"change behind two states", "| Load | Before | After | Change |\n|---|---|---|---|\n| a | 5.32s | 3.53s | 1.41x faster |\n", "| Load | Before | After | Change |\n|---|---|---|---|\n| a | 5.32s | 3.53s | 1.51x faster |\n", []string{"V-PCT wrong", "5.32 → 3.53", "1.51×"}},
		{"other things in a sentence", "Going from 100.0 tok/s to 150.0 tok/s (+40%).\n" + tinyBlock, "Going from 4 to 8 GPUs (+90%), and from 100.0 tok/s to 150.0 tok/s, with 30% fewer cards.\n" + tinyBlock, []string{"V-PCT wrong", "+50.0 %"}},
		{"one block under two settings", "```\nvllm serve a/b-7B --x 1\n```\n```\n" + figures(nil) + "```\n```\nvllm serve a/b-7B --x 2\n```\n```\n" + figures(nil) + "```\n",
			"```\nvllm serve a/b-7B --x 1\n```\n```\n" + figures(nil) + "```\n```\nvllm serve a/b-7B --x 2\n```\n```\n" + figures(map[string]string{"median_ttft_ms": "901.00"}) + "```\n", []string{"V-DUP unsupported", "x=1 and under x=2"}},
		{"worse in a gain", "| Load | before | after |\n|---|---|---|\n| a | TPS: 100.0<br>Mean TPOT(ms): 20.0 | TPS: 120.0 (+20.0%)<br>Mean TPOT(ms): 50.0 |\n", "| Load | before | after |\n|---|---|---|\n| a | TPS: 100.0<br>Mean TPOT(ms): 20.0 | TPS: 120.0 (+20.0%)<br>Mean TPOT(ms): 15.0 |\n", []string{"V-SLOWER caution", "20.0 → 50.0 (+150.0 %)"}},
		{"weights that do not fit", "Llama-3.1-70B in BF16 on one A100 80GB: 25 tok/s\n| a | b |\n|---|---|\n| x | 1 |\n", "Llama-3.1-70B in BF16 on 2x A100 80GB: 25 tok/s\n| a | b |\n|---|---|\n| x | 1 |\n", []string{"V-ROOF wrong", "140 GB of weights in BF16, 1 × 80 GB"}},
		{"faster than reading", "Qwen3-32B in BF16 on H200, batch size 1: 120 tok/s\n| a | b |\n|---|---|\n| x | 1 |\n", "Qwen3-32B in BF16 on H200, batch size 1: 60 tok/s\n| a | b |\n|---|---|\n| x | 1 |\n", []string{"V-ROOF wrong", "allows 73 tok/s"}},
		{"total of factors", "| Optimization | Gain |\n|---|---|\n| A | 1.5x |\n| B | 1.2x |\n| Total | 2.5x |\n", "| Optimization | Gain |\n|---|---|\n| A | 1.5x |\n| B | 1.2x |\n| Total | 1.8x |\n", []string{"V-CLAIM unsupported", "product of the 2 listed factors"}},
	} {
		wrong, right := check(t, "wrong.md", c.wrong), check(t, "right.md", c.right)
		fits := func(f Finding) bool { return containsAll(f.String(), c.want) }
		if !slices.ContainsFunc(wrong.Findings, fits) {
			t.Errorf("%s: no finding with %q in\n%s", c.name, c.want, wrong.Text())
		}
		id := strings.Fields(c.want[0])
		if slices.ContainsFunc(right.Findings, func(f Finding) bool {
			return f.ID == id[0] && string(f.Severity) == id[1] && (len(c.want) < 2 || fits(f))
		}) || right.Wrong() > 0 {
			t.Errorf("%s, put right: %s", c.name, right.Text())
		}
	}
}

// A finding in one line has all its parts, and the report counts what was looked at.
func TestText(t *testing.T) {
	report := check(t, "r.txt", figures(map[string]string{"request_throughput": "2.10"}))
	text := report.Text()
	if !strings.Contains(text, "V-ARITH wrong r.txt:6 (") || !strings.Contains(text, "): request throughput 2.10; 100 / 50.00 s = 2; the printed operands allow nothing else\n") {
		t.Errorf("text %q", text)
	}
	if want := "1 documents, 1 result blocks, 0 tables, 0 commands, 0 claims: 1 wrong"; !strings.Contains(text, want) {
		t.Errorf("text has no %q: %q", want, text)
	}
	data, err := report.JSON()
	if err != nil || !strings.Contains(string(data), `"severity": "wrong"`) || !strings.Contains(string(data), fmt.Sprintf(`"line": %d`, 6)) {
		t.Errorf("JSON %s, %v", data, err)
	}
}
