package verify

// Correct reports, made by simulating runs: every printed figure is computed from the same
// requests, then rounded as the tools round. In every profile and in many layouts.

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
)

// simulate runs n requests on a server with a number of places, and returns its metrics
// unrounded.
func simulate(random *rand.Rand, speed float64) map[string]any {
	count, places := 40+random.IntN(300), 4+random.IntN(60)
	mean := 10 + random.Float64()*150
	free := make([]float64, places) // when each place is free again, in seconds
	var ttft, tpot, e2e, gaps []float64
	input, output, duration := 0, 0, 0.0
	perSecond := map[int]int{}
	for range count {
		tokens := 2 + int(random.ExpFloat64()*mean)
		prompt := 5 + random.IntN(800)
		slot := slices.Index(free, slices.Min(free))
		now := free[slot] + (0.01+float64(prompt)*0.0002*random.Float64())/speed
		first := now
		perSecond[int(now)]++
		for range tokens - 1 {
			gap := (0.005 + 0.02*random.ExpFloat64()) / speed
			gaps = append(gaps, gap*1000)
			now += gap
			perSecond[int(now)]++
		}
		free[slot] = now
		ttft, e2e = append(ttft, first*1000), append(e2e, now*1000)
		tpot = append(tpot, (now-first)*1000/float64(tokens-1))
		input, output = input+prompt, output+tokens
		duration = max(duration, now)
	}
	duration += 0.001 + random.Float64()*0.01
	peak := 0
	for _, n := range perSecond {
		peak = max(peak, n)
	}
	metrics := map[string]any{"completed": float64(count), "failed": 0.0, "duration_s": duration, "total_input_tokens": float64(input), "total_output_tokens": float64(output),
		"total_output_tokens_retokenized": math.Round(float64(output) * (1 - 0.008*random.Float64())),
		"request_throughput":              float64(count) / duration, "input_throughput": float64(input) / duration, "output_throughput": float64(output) / duration,
		"total_token_throughput": float64(input+output) / duration, "peak_output_throughput": float64(peak), "peak_concurrent_requests": float64(count)}
	total := 0.0
	for _, t := range e2e {
		total += t
	}
	metrics["concurrency"] = total / 1000 / duration
	for name, values := range map[string][]float64{"ttft": ttft, "tpot": tpot, "itl": gaps, "e2e": e2e, "e2el": e2e} {
		slices.Sort(values)
		sum := 0.0
		for _, v := range values {
			sum += v
		}
		at := func(p float64) float64 { return values[int(p*float64(len(values)-1))] }
		metrics["mean_"+name+"_ms"], metrics["median_"+name+"_ms"] = sum/float64(len(values)), at(0.5)
		metrics["p90_"+name+"_ms"], metrics["p99_"+name+"_ms"] = at(0.9), at(0.99)
	}
	return metrics
}

// ofProfile are the metrics that a profile prints.
func ofProfile(profile string, metrics map[string]any) map[string]any {
	out := map[string]any{}
	for key, value := range metrics {
		if strings.Contains(key, "_e2el_") == (profile == "lmdeploy" || profile == "sglang") && strings.Contains(key, "_e2e") {
			continue
		}
		if strings.HasPrefix(key, "p90_") && profile != "sglang" && profile != "vllm-rs" {
			continue
		}
		if strings.Contains(key, "_e2el_") && profile == "vllm-0.11" {
			continue
		}
		out[key] = value
	}
	return out
}

var allProfiles = []string{"vllm", "vllm-rs", "vllm-0.11", "lmdeploy", "sglang"}

// A generated is a correct report, with the figures that may be changed in it.
type generated struct {
	name, text string
}

// two rounds to two decimals, as consoles do.
func two(value any) string { return fmt.Sprintf("%.2f", value.(float64)) }

// percent is a change with one decimal, computed before rounding.
func percent(old, fresh any) string {
	return fmt.Sprintf("%+.1f%%", 100*(fresh.(float64)/old.(float64)-1))
}

// layouts make reports of a pair of runs.
var layouts = []struct {
	name string
	make func(profile string, old, fresh map[string]any) string
}{
	{"cells.md", func(profile string, old, fresh map[string]any) string {
		return "# Tuning Qwen3-8B\n\n| Case | baseline | optimised |\n|---|---|---|\n" +
			fmt.Sprintf("| **chat** | Total TPS: %s<br>Mean TPOT(ms): %s | Total TPS: %s <span style=\"background-color:lightgreen;\">(%s)</span><br>Mean TPOT(ms): %s |\n\n",
				two(old["total_token_throughput"]), two(old["mean_tpot_ms"]), two(fresh["total_token_throughput"]), percent(old["total_token_throughput"], fresh["total_token_throughput"]), two(fresh["mean_tpot_ms"])) +
			"## Baseline\n\n" + fence("vllm serve Qwen/Qwen3-8B") + fence(consoleBlock(profile, ofProfile(profile, old))) + "## Optimised\n\n" + fence("vllm serve Qwen/Qwen3-8B --async-scheduling") + fence(consoleBlock(profile, ofProfile(profile, fresh)))
	}},
	{"columns.md", func(profile string, old, fresh map[string]any) string {
		row := func(name string, m map[string]any, change string) string {
			return fmt.Sprintf("| %s | %s%s | %s | %s |\n", name, two(m["output_throughput"]), change, two(m["mean_ttft_ms"]), two(m["mean_itl_ms"]))
		}
		return "# Results\n\n| Setting | Output tok/s | Mean TTFT (ms) | Mean ITL (ms) |\n|:--|--:|--:|--:|\n" + row("baseline", old, "") + row("tuned", fresh, " ("+percent(old["output_throughput"], fresh["output_throughput"])+")") +
			"\n" + fence(consoleBlock(profile, ofProfile(profile, old))) + fence(consoleBlock(profile, ofProfile(profile, fresh)))
	}},
	{"gains.md", func(profile string, old, fresh map[string]any) string {
		const key = "output_throughput"
		return "# Steps\n\n| Setting | Output TPS | Gain |\n|---|---|---|\n" + fmt.Sprintf("| stock | %s | - |\n| tuned | %s | %s |\n\n", two(old[key]), two(fresh[key]), percent(old[key], fresh[key])) +
			"| Load | Before (ms) | After (ms) | Change |\n|---|---|---|---|\n" + fmt.Sprintf("| mean TTFT | %s | %s | %s |\n\n", two(old["mean_ttft_ms"]), two(fresh["mean_ttft_ms"]), percent(old["mean_ttft_ms"], fresh["mean_ttft_ms"])) +
			fence(consoleBlock(profile, ofProfile(profile, old))) + fence(consoleBlock(profile, ofProfile(profile, fresh)))
	}},
	{"estimate.md", func(profile string, old, fresh map[string]any) string {
		// A gain estimated from pairs of runs is not the ratio of the printed means.
		const key = "total_token_throughput"
		gain := 100*(fresh[key].(float64)/old[key].(float64)-1) + 0.7
		return "# Campaign on 4 to 8 GPUs, +90% planned\n\n| Option | Total tok/s | Effect |\n|---|---|---|\n" + fmt.Sprintf("| stock | %s | |\n| tuned | %s (%+.1f%% [%.1f, %.1f]) | %+.1f %% [%.1f, %.1f] |\n\n", two(old[key]), two(fresh[key]), gain, gain-2, gain+2, gain, gain-2, gain+2) +
			fence(consoleBlock(profile, ofProfile(profile, old))) + fence(consoleBlock(profile, ofProfile(profile, fresh)))
	}},
	{"html.html", func(profile string, old, fresh map[string]any) string {
		return "<html><body><h1>Report</h1>\n<table>\n<tr><th>Load</th><th>before</th><th>after</th></tr>\n" +
			fmt.Sprintf("<tr><td>chat</td><td>Output TPS: %s</td><td style=\"background:#afa\">Output TPS: %s <b>(%s)</b></td></tr>\n</table>\n", two(old["output_throughput"]), two(fresh["output_throughput"]), percent(old["output_throughput"], fresh["output_throughput"])) +
			"<pre>\n" + consoleBlock(profile, ofProfile(profile, old)) + consoleBlock(profile, ofProfile(profile, fresh)) + "</pre></body></html>\n"
	}},
	{"prose.md", func(profile string, old, fresh map[string]any) string {
		first, second := old["total_token_throughput"].(float64), fresh["total_token_throughput"].(float64)
		sign := ">"
		if second < first {
			sign = "<"
		}
		return fmt.Sprintf("# Notes\n\nThroughput went from %.2f tok/s to %.2f tok/s (%s).\n\nResult: tuned (%.2f tok/s) %s stock (%.2f tok/s)\n\n", first, second, percent(first, second), second, sign, first) +
			fence(consoleBlock(profile, ofProfile(profile, old))) + fence(consoleBlock(profile, ofProfile(profile, fresh)))
	}},
	{"log.txt", func(profile string, old, fresh map[string]any) string {
		var out strings.Builder
		for i, m := range []map[string]any{old, fresh} {
			fmt.Fprintf(&out, "INFO 10:0%d starting\nNamespace(backend='vllm', dataset_name='random', model='Qwen/Qwen3-8B', seed=%d)\n", i, i)
			for line := range strings.Lines(consoleBlock(profile, ofProfile(profile, m))) {
				out.WriteString("  | " + strings.TrimRight(line, "\n ") + "\n")
			}
			out.WriteString("done\n")
		}
		return out.String()
	}},
	{"quoted.md", func(profile string, old, fresh map[string]any) string {
		var out strings.Builder
		out.WriteString("> measured by a colleague\n")
		for line := range strings.Lines(consoleBlock(profile, ofProfile(profile, old)) + "\n" + consoleBlock(profile, ofProfile(profile, fresh))) {
			out.WriteString("> " + line)
		}
		return out.String()
	}},
	{"result.json", func(_ string, old, fresh map[string]any) string {
		var out strings.Builder
		for _, m := range []map[string]any{old, fresh} {
			text, err := json.Marshal(resultKeys(m))
			if err != nil {
				panic(err)
			}
			out.Write(append(text, '\n'))
		}
		return out.String()
	}},
	{"result.csv", func(_ string, old, fresh map[string]any) string {
		var out strings.Builder
		lines := csv.NewWriter(&out)
		keys := []string{"backend", "dataset_name", "completed", "duration", "total_input_tokens", "total_output_tokens", "request_throughput", "output_throughput", "mean_ttft_ms", "median_ttft_ms", "p99_ttft_ms"}
		_ = lines.Write(keys)
		for _, m := range []map[string]any{old, fresh} {
			record := []string{"vllm", "random"}
			named := resultKeys(m)
			for _, key := range keys[2:] {
				record = append(record, fmt.Sprint(named[key]))
			}
			_ = lines.Write(record)
		}
		lines.Flush()
		return out.String()
	}},
}

// resultKeys are metrics under the keys of result files.
func resultKeys(metrics map[string]any) map[string]any {
	names := map[string]string{"duration_s": "duration", "peak_output_throughput": "max_output_tokens_per_s", "peak_concurrent_requests": "max_concurrent_requests"}
	out := map[string]any{}
	for key, value := range metrics {
		if strings.Contains(key, "_e2e_") {
			continue
		}
		if name, ok := names[key]; ok {
			key = name
		}
		out[key] = value
	}
	return out
}

// correctReports are reports of simulated runs, count of them.
func correctReports(count int) []generated {
	var out []generated
	for i := range count {
		random := rand.New(rand.NewPCG(uint64(i), 7))
		// Both runs get one load; the second server is a bit faster or slower.
		seed := random.Uint64()
		old := simulate(rand.New(rand.NewPCG(seed, 1)), 1)
		fresh := simulate(rand.New(rand.NewPCG(seed, 1)), 0.9+0.5*random.Float64())
		layout, profile := layouts[i%len(layouts)], allProfiles[(i/len(layouts))%len(allProfiles)]
		out = append(out, generated{fmt.Sprintf("%d-%s-%s", i, profile, layout.name), layout.make(profile, old, fresh)})
	}
	return out
}
