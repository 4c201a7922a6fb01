package verify

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
)

// malformed are inputs that no tool wrote, or that were cut, doubled, or grown.
func malformed() map[string][]byte {
	random := rand.New(rand.NewPCG(1, 2))
	noise := make([]byte, 1<<20)
	for i := range noise {
		noise[i] = byte(random.Uint32())
	}
	block := consoleBlock("vllm", ofProfile("vllm", simulate(rand.New(rand.NewPCG(1, 1)), 1)))
	long := 10 << 20
	return map[string][]byte{
		"empty.md":          nil,
		"spaces.md":         []byte(" \n\t \n"),
		"bom.json":          []byte("\xef\xbb\xbf"),
		"zeroes.bin":        make([]byte, 1000),
		"noise.bin":         noise,
		"elf.bin":           append([]byte("\x7fELF\x02\x01\x01\x00"), noise[:4000]...),
		"png.png":           append([]byte("\x89PNG\r\n\x1a\n"), noise[:4000]...),
		"latin1.txt":        []byte("============ Serving Benchmark Result ============\nM\xfcller: 1\n"),
		"utf16.txt":         []byte("\xff\xfeS\x00e\x00r\x00v\x00"),
		"cut.json":          []byte(`{"duration": 1.0, "completed": 10, "request_thr`),
		"cut-array.json":    []byte(`[{"duration": 1.0, "completed": 10, "request_throughput": 10.0},`),
		"trailing.json":     []byte(`{"duration": 1.0, "completed": 10} garbage`),
		"scalar.json":       []byte(`[1, 2, 3]`),
		"words.json":        []byte(`{"duration": "long", "completed": {}, "mean_ttft_ms": []}`),
		"nan.json":          []byte(`{"duration": NaN, "completed": NaN, "request_throughput": Infinity}`),
		"huge-number.json":  []byte(`{"duration": 1e999, "completed": 10, "request_throughput": 1e308, "output_throughput": -1e308}`),
		"digits.json":       []byte(`{"duration": ` + strings.Repeat("9", 100_000) + `, "completed": 1}`),
		"deep.json":         []byte(strings.Repeat("[", 200_000)),
		"deep-object.json":  []byte(strings.Repeat(`{"a":`, 100_000)),
		"header.csv":        []byte("backend,duration\n"),
		"ragged.csv":        []byte("backend,duration,completed,request_throughput,output_throughput\nvllm,1\nvllm,1,2,3,4,5,6\n"),
		"quotes.csv":        []byte("backend,duration,completed,request_throughput,output_throughput\n\"vllm,1,2,3,4\n"),
		"template.md":       []byte("============ Serving Benchmark Result ============\nSuccessful requests: xxxxxx\nBenchmark duration (s): xxx.xx\n==================================================\n"),
		"frame-only.txt":    []byte("============ Serving Benchmark Result ============\n"),
		"frames.txt":        bytes.Repeat([]byte("============ Serving Benchmark Result ============\n"), 100_000),
		"zero-duration.txt": []byte("============ Serving Benchmark Result ============\nSuccessful requests: 10\nBenchmark duration (s): 0.00\nRequest throughput (req/s): 1.00\nTotal generated tokens: 0\nMean TTFT (ms): nan\n==================================================\n"),
		"giant.txt":         []byte("============ Serving Benchmark Result ============\nSuccessful requests: " + strings.Repeat("9", 400) + "\nBenchmark duration (s): 1e-300\nOutput token throughput (tok/s): 1e300\n==================================================\n"),
		"unclosed.html":     []byte("<html><table><tr><td>Total TPS: 1<td>" + strings.Repeat("<td", 100_000)),
		"empty.html":        []byte("<html><body><p></p></body></html>"),
		"fences.md":         []byte(strings.Repeat("```\n", 200_001)),
		"bars.md":           []byte(strings.Repeat("|", 1<<16) + "\n" + strings.Repeat("|-", 1<<15) + "\n" + strings.Repeat("|1", 1<<15)),
		"long-line.txt":     []byte(strings.Repeat("x", long)),
		"long-block.txt":    []byte(strings.Repeat(strings.ReplaceAll(block, "\n", " "), long/len(block))),
		"long-row.txt":      []byte("============ Serving Benchmark Result ============\nSuccessful requests: " + strings.Repeat(" ", long) + "1\n"),
		"percent.md":        []byte(strings.Repeat("from 1 to 2 (3%) ", 100_000)),
		"continued.md":      []byte("```\nvllm serve a/b-7B \\\n" + strings.Repeat("--x \\\n", 200_000)),
		"namespace.txt":     []byte("Namespace(" + strings.Repeat("a=1, ", 500_000) + ")"),
	}
}

// Malformed files make no panic and no finding that is wrong; each ends with an error that
// is typed, or with little to say. Memory stays bounded (lab.md 10, V4).
func TestMalformed(t *testing.T) {
	inputs := malformed()
	if len(inputs) < 30 {
		t.Fatalf("only %d files", len(inputs))
	}
	refused := 0
	for name, data := range inputs {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		report, err := Documents([]Input{{name, data}})
		runtime.ReadMemStats(&after)
		if used := after.TotalAlloc - before.TotalAlloc; used > 50*uint64(len(data))+64<<20 {
			t.Errorf("%s: %d bytes allocated for %d", name, used, len(data))
		}
		if _, typed := errors.AsType[*UnreadableError](err); err != nil {
			refused++
			if !typed {
				t.Errorf("%s: error of type %T, want an UnreadableError", name, err)
			}
			if len(err.Error()) > 2000 || !strings.HasPrefix(err.Error(), name+": ") {
				t.Errorf("%s: error %.200q", name, err)
			}
			continue
		}
		t.Logf("%s is read: %d findings", name, len(report.Findings))
		if len(report.Findings) > 3*maxFindings {
			t.Errorf("%s: %d findings", name, len(report.Findings))
		}
		switch name {
		case "zero-duration.txt", "giant.txt", "huge-number.json", "digits.json":
		default:
			if report.Wrong() > 0 {
				t.Errorf("%s: wrong in what nobody wrote: %s", name, report.Findings[0].String())
			}
		}
	}
	t.Logf("%d of %d refused", refused, len(inputs))
	// One that is unreadable is not hidden by one that is not.
	if _, err := Documents([]Input{{"good.txt", []byte(tinyBlock)}, {"bad.bin", []byte{0}}}); err == nil || !strings.HasPrefix(err.Error(), "bad.bin: ") {
		t.Errorf("a binary file beside a good one: %v", err)
	}
}

const tinyBlock = "============ Serving Benchmark Result ============\nSuccessful requests: 10\nBenchmark duration (s): 10.00\nRequest throughput (req/s): 1.00\n==================================================\n"

// Many blocks, tables, claims and commands in one document stay affordable, and rules list
// what they may and count the rest.
func TestLargeDocuments(t *testing.T) {
	var out strings.Builder
	out.WriteString("# Qwen3-8B on A100\n\n")
	wrong := strings.Replace(tinyBlock, "1.00\n=", "7.00\n=", 1)
	for i := range 1000 {
		fmt.Fprintf(&out, "## Option %d\n\n- **Impact**: %d%% faster sampling\n- **Status**: installed\n\n```\nvllm serve Qwen/Qwen3-8B --max-num-seqs %d\n```\n\n```\n%s```\n", i, i%50+1, i+1, wrong)
		fmt.Fprintf(&out, "| a | before | after |\n|---|---|---|\n| x | req/s: %d.5 | req/s: %d.5 (+%d%%) |\n\n", i+1, i+2, i%7)
	}
	report := check(t, "large.md", out.String())
	counts := map[string]int{}
	for i := range report.Findings {
		counts[report.Findings[i].ID]++
	}
	if report.Counts.Blocks != 1000 || report.Counts.Tables != 1000 {
		t.Errorf("counts %+v", report.Counts)
	}
	for id, n := range counts {
		if n > maxFindings+1 {
			t.Errorf("%s: %d findings", id, n)
		}
	}
	if last := ofRule(&report, "V-ARITH"); !strings.Contains(last, "800 more findings of this rule") {
		t.Errorf("V-ARITH does not count what it leaves out:\n%.600s", last)
	}
}

// FuzzDocuments: whatever comes in, there is a report or a typed error, and text and JSON of
// every finding.
func FuzzDocuments(f *testing.F) {
	for _, report := range correctReports(16) {
		f.Add([]byte(report.text))
	}
	for _, data := range malformed() {
		if len(data) < 4096 {
			f.Add(append([]byte(nil), data...))
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		report, err := Documents([]Input{{"x", data}})
		if err != nil {
			if _, typed := errors.AsType[*UnreadableError](err); !typed {
				t.Errorf("error of type %T", err)
			}
			return
		}
		if _, err := report.JSON(); err != nil {
			t.Error(err)
		}
		for i := range report.Findings {
			if f := &report.Findings[i]; f.ID == "" || f.Severity == "" || f.File != "x" || strings.Contains(f.String(), "NaN") {
				t.Errorf("finding %q", f)
			}
		}
	})
}
