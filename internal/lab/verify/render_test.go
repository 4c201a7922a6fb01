package verify

// Documents of the published figures in testdata: the figures are theirs, the words are not.

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A seedRow is a row of seed_rows.json.
type seedRow struct {
	ID            string         `json:"id"`
	Profile       string         `json:"profile"`
	Engine        string         `json:"engine"`
	EngineVersion string         `json:"engine_version"`
	Model         string         `json:"model"`
	Flags         []string       `json:"flags"`
	Workload      seedLoad       `json:"workload"`
	Metrics       map[string]any `json:"metrics"`
}

type seedLoad struct {
	Dataset    string `json:"dataset"`
	InputLen   int    `json:"input_len"`
	OutputLen  int    `json:"output_len"`
	NumPrompts int    `json:"num_prompts"`
	Seed       int    `json:"seed"`
}

type seedFile struct {
	Rows        []seedRow `json:"rows"`
	BeforeAfter []struct {
		Case    string  `json:"case"`
		OldTPS  float64 `json:"baseline_total_tps"`
		OldTPOT float64 `json:"baseline_mean_tpot_ms"`
		NewTPS  float64 `json:"optimized_total_tps"`
		NewTPOT float64 `json:"optimized_mean_tpot_ms"`
		Percent string  `json:"printed_percent"`
	} `json:"before_after"`
	Failures []struct{ Command, Message string } `json:"failures"`
}

// readJSON reads a file of testdata.
func readJSON(t *testing.T, name string, to any) {
	t.Helper()
	if err := json.Unmarshal(readFile(t, name), to); err != nil {
		t.Fatal(err)
	}
}

func readFile(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// Rows of each profile in order; a key that a block lacks has no row.
var profileRows = map[string][][2]string{
	"vllm-0.11": {
		{"completed", "Successful requests:"}, {"max_concurrency", "Maximum request concurrency:"}, {"request_rate", "Request rate configured (RPS):"},
		{"duration_s", "Benchmark duration (s):"}, {"total_input_tokens", "Total input tokens:"}, {"total_output_tokens", "Total generated tokens:"},
		{"request_throughput", "Request throughput (req/s):"}, {"output_throughput", "Output token throughput (tok/s):"}, {"peak_output_throughput", "Peak output token throughput (tok/s):"},
		{"peak_concurrent_requests", "Peak concurrent requests:"}, {"total_token_throughput", "Total Token throughput (tok/s):"},
	},
	"lmdeploy": {
		{"completed", "Successful requests:"}, {"duration_s", "Benchmark duration (s):"}, {"total_input_tokens", "Total input tokens:"},
		{"total_output_tokens", "Total generated tokens:"}, {"total_output_tokens_retokenized", "Total generated tokens (retokenized):"}, {"request_throughput", "Request throughput (req/s):"},
		{"input_throughput", "Input token throughput (tok/s):"}, {"output_throughput", "Output token throughput (tok/s):"},
	},
}

func init() {
	current := append([][2]string{}, profileRows["vllm-0.11"]...)
	for i := range current {
		if current[i][0] == "total_token_throughput" {
			current[i][1] = "Total token throughput (tok/s):"
		}
	}
	current = append(current[:1:1], append([][2]string{{"failed", "Failed requests:"}}, current[1:]...)...)
	profileRows["vllm"], profileRows["vllm-rs"] = current, current
	profileRows["sglang"] = append(append([][2]string{}, profileRows["lmdeploy"]...), [2]string{"peak_output_throughput", "Peak output token throughput (tok/s):"},
		[2]string{"peak_concurrent_requests", "Peak concurrent requests:"}, [2]string{"total_token_throughput", "Total token throughput (tok/s):"}, [2]string{"concurrency", "Concurrency:"})
}

// latencyTitles are the sections of latencies with the key of each, and how seed rows call it.
var latencyTitles = []struct{ key, label, title string }{{"e2e", "E2E Latency", "End-to-End Latency"}, {"latency", "Latency", "Latency"}, {"ttft", "TTFT", "Time to First Token"},
	{"tpot", "TPOT", "Time per Output Token (excl. 1st token)"}, {"itl", "ITL", "Inter-token Latency"}, {"e2el", "E2EL", "End-to-end Latency"}}

// printed is a figure as the tools print it.
func printed(key string, value any) string {
	switch v := value.(type) {
	case string:
		return v
	case float64:
		if strings.HasPrefix(key, "total_") && !strings.HasSuffix(key, "throughput") || key == "completed" || key == "failed" || key == "max_concurrency" {
			return fmt.Sprintf("%.0f", v)
		}
		return fmt.Sprintf("%.2f", v)
	}
	return fmt.Sprint(value)
}

// consoleBlock prints a block as the tool of a profile does.
func consoleBlock(profile string, metrics map[string]any) string {
	var out strings.Builder
	width := 50
	if profile == "vllm-rs" {
		width = 60
	}
	title := func(text, fill string) {
		space := max(0, width-len(text))
		out.WriteString(strings.Repeat(fill, space/2) + text + strings.Repeat(fill, space-space/2) + "\n")
	}
	line := func(label, value string) { fmt.Fprintf(&out, "%-40s %-10s\n", label, value) }
	title(" Serving Benchmark Result ", "=")
	if profile == "lmdeploy" || profile == "sglang" {
		line("Backend:", "vllm")
		line("Traffic request rate:", "inf")
	}
	for _, row := range profileRows[profile] {
		if value, ok := metrics[row[0]]; ok {
			line(row[1], printed(row[0], value))
		}
	}
	for _, latency := range latencyTitles {
		if _, ok := metrics["mean_"+latency.key+"_ms"]; ok {
			title(latency.title, "-")
			for _, statistic := range []string{"mean", "median", "p90", "p99"} {
				if value, ok := metrics[statistic+"_"+latency.key+"_ms"]; ok {
					line(strings.ToUpper(statistic[:1])+statistic[1:]+" "+latency.label+" (ms):", printed("", value))
				}
			}
		}
		if _, ok := metrics["mean_"+latency.key+"_s"]; ok {
			title(latency.title, "-")
			for _, statistic := range []string{"mean", "median", "p99"} {
				line(strings.ToUpper(statistic[:1])+statistic[1:]+" Latency(s):", printed("", metrics[statistic+"_"+latency.key+"_s"]))
			}
		}
	}
	out.WriteString(strings.Repeat("=", width) + "\n")
	return out.String()
}

// fence puts a text in a code fence.
func fence(text string) string { return "```\n" + strings.TrimRight(text, "\n") + "\n```\n\n" }

// tuningReport is the document of the seed's first thirteen rows.
func tuningReport(t *testing.T) string {
	t.Helper()
	var seed seedFile
	readJSON(t, "seed_rows.json", &seed)
	row := func(id string) string {
		for _, r := range seed.Rows {
			if r.ID == "000/"+id {
				return consoleBlock(r.Profile, r.Metrics)
			}
		}
		t.Fatalf("no row %s", id)
		return ""
	}
	var out strings.Builder
	out.WriteString("# More throughput for GPT-OSS-20B on A100\n\n| Load | baseline | tuned |\n|---|---|---|\n")
	for _, c := range seed.BeforeAfter {
		fmt.Fprintf(&out, "| **%s** | Total TPS: %.2f<br>Mean TPOT(ms): %.2f | Total TPS: %.2f <span style=\"color:green\">(%s)</span><br>Mean TPOT(ms): %.2f |\n", c.Case, c.OldTPS, c.OldTPOT, c.NewTPS, c.Percent, c.NewTPOT)
	}
	out.WriteString("\n## Setup\n\nHardware: NVIDIA A100 GPUs\n\n- vLLM: v0.11.0\n- SGLang: v0.5.4.post2\n- TensorRT-LLM: v1.2.0rc1\n\n" +
		"- 32000 input tokens, 100 output tokens\n- 4000 input tokens, 200 output tokens\n- 2000 input tokens, 100 output tokens\n- 128 input tokens, 4 output tokens\n\n")
	out.WriteString(fence("vllm bench serve --model openai/gpt-oss-20b --backend openai-chat --dataset-name sharegpt --num-prompts 1000\n" +
		"vllm bench serve --model openai/gpt-oss-20b --backend openai-chat --dataset-name random --random-input-len 4000 --random-output-len 200 --num-prompts 500 --seed 42"))
	section := func(title, command, body string) {
		out.WriteString(title + "\n\n" + fence(command) + fence(body))
	}
	section("## Results\n\n### 1. Which engine", "vllm serve openai/gpt-oss-20b", row("baseline/sharegpt"))
	section("SGLang", "python3 -m sglang.launch_server --model-path openai/gpt-oss-20b", row("sglang/sharegpt"))
	section("TensorRT-LLM", seed.Failures[0].Command, seed.Failures[0].Message)
	out.WriteString("Result: vLLM (9743.28 tok/s) > SGLang (558.76 tok/s) > TensorRT-LLM (not supported)\n\n")
	section("### 2. Async scheduling", "vllm serve openai/gpt-oss-20b --async-scheduling", row("async/sharegpt"))
	section("### 3. Batched tokens", "vllm serve openai/gpt-oss-20b --async-scheduling --max-num-batched-tokens 8192",
		"# --max-num-batched-tokens 4096\n"+row("async-mnbt4096/sharegpt")+"# --max-num-batched-tokens 8192\n"+row("async-mnbt8192/sharegpt"))
	out.WriteString("### Summary\n\n| Option | Throughput |\n|---|---|\n| Engine | - |\n| Async Scheduling | +12.1% |\n| Batched Tokens | - |\n\n")
	for _, setting := range []string{"baseline", "async"} {
		var body strings.Builder
		for _, load := range []string{"32000/100", "4000/200", "2000/100", "128/4"} {
			body.WriteString("# random " + load + "\n" + row(setting+"/"+load) + "\n")
		}
		flags := map[string]string{"baseline": "", "async": " --async-scheduling"}[setting]
		section("### Other loads, "+setting, "vllm serve openai/gpt-oss-20b"+flags, body.String())
	}
	return out.String()
}

// modelLog is the log of the seed's other 24 rows.
func modelLog(t *testing.T) string {
	t.Helper()
	var seed seedFile
	readJSON(t, "seed_rows.json", &seed)
	var out strings.Builder
	out.WriteString("# Six models\n\nServed with vLLM v0.10.1.\n\n")
	model := ""
	for _, r := range seed.Rows {
		if !strings.HasPrefix(r.ID, "002/") {
			continue
		}
		if r.Model != model {
			model = r.Model
			fmt.Fprintf(&out, "## %s\n\n$ vllm serve %s %s\n\n", strings.SplitN(r.Model, "/", 2)[1], r.Model, strings.Join(r.Flags, " "))
		}
		lengths := "random_input_len=None, random_output_len=None"
		if r.Workload.InputLen > 0 {
			lengths = fmt.Sprintf("random_input_len=%d, random_output_len=%d", r.Workload.InputLen, r.Workload.OutputLen)
		}
		fmt.Fprintf(&out, "Namespace(backend='vllm', dataset_name='%s', model='%s', num_prompts=%d, %s, request_rate=inf, seed=%d, disable_warmup=False)\n",
			r.Workload.Dataset, r.Model, r.Workload.NumPrompts, lengths, r.Workload.Seed)
		out.WriteString("100%|██████████|\n" + consoleBlock(r.Profile, r.Metrics) + "\n")
	}
	return out.String()
}

// A publicDocument is an entry of public_rows.json.
type publicDocument struct {
	Name, Model string
	Rows        [][]any
	Blocks      []struct {
		Label, Command string
		Metrics        map[string]any
	}
}

// publicReport is the document of one entry of public_rows.json.
func publicReport(t *testing.T, name string) string {
	t.Helper()
	var all []publicDocument
	readJSON(t, "public_rows.json", &all)
	for _, d := range all {
		if d.Name != name {
			continue
		}
		var out strings.Builder
		fmt.Fprintf(&out, "# Throughput of %s\n\n| Load | baseline | tuned |\n|---|---|---|\n", d.Model)
		for _, r := range d.Rows {
			text := func(i int) string {
				if r[i] == nil {
					return ""
				}
				return fmt.Sprint(r[i])
			}
			fmt.Fprintf(&out, "| %s | Total TPS: %s<br>Mean TPOT(ms): %s | Total TPS: %s%s <span>(%s)</span><br>Mean TPOT(ms): %s |\n", text(0), text(1), text(2), text(3), text(4), text(5), text(6))
		}
		for i, b := range d.Blocks {
			fmt.Fprintf(&out, "\n## Run %d\n\n%s%s", i+1, fence(b.Command), fence("# "+b.Label+"\n"+consoleBlock("vllm-0.11", b.Metrics)))
		}
		return out.String()
	}
	t.Fatalf("no document %s", name)
	return ""
}
