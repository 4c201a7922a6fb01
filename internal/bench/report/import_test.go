package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"ossian/internal/bench"
	"ossian/internal/bench/resultfile"
	"ossian/internal/soak"
)

// TestImportOfOwnFiles: what a profile writes reads back with its numbers.
func TestImportOfOwnFiles(t *testing.T) {
	for _, p := range profiles {
		for _, detailed := range []bool{false, true} {
			s := Summarize(small(p, "openai"), words)
			path := filepath.Join(t.TempDir(), "new", "result")
			for range 2 {
				if err := s.WriteFile(path, detailed, true); err != nil {
					t.Fatal(err)
				}
			}
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			rs, err := Import("file", text)
			if err != nil || len(rs) != 2 || rs[1].Source != "file#2" {
				t.Fatalf("%v: %d results, %v", p, len(rs), err)
			}
			for key, want := range map[string]float64{"duration": s.Duration, "completed": float64(s.Completed), "request_throughput": s.RequestRate,
				"output_throughput": s.OutputRate, "total_token_throughput": s.TotalRate, "mean_ttft_ms": s.TTFT.Mean, "mean_e2el_ms": s.E2EL.Mean} {
				if got := rs[1].Values[key]; math.Abs(got-want) > 1e-9*want {
					t.Errorf("%v: %s is %v, want %v", p, key, got, want)
				}
			}
			if rs[0].Profile != p.String() {
				t.Errorf("%v was taken for %q", p, rs[0].Profile)
			}
			csv := p == bench.LMDeploy
			if (rs[0].Ossian == nil) != csv || (!csv && rs[0].Ossian.Outcomes.Output != s.Ossian.Outcomes.Output) {
				t.Errorf("%v: extension %+v", p, rs[0].Ossian)
			}
			if detailed && !csv && len(rs[0].Requests) != len(s.Requests) {
				t.Errorf("%v: %d requests, want %d", p, len(rs[0].Requests), len(s.Requests))
			}
		}
	}
}

// TestImportOfPeers reads the files and consoles of the tools themselves; both say the
// same, as far as two decimals go.
func TestImportOfPeers(t *testing.T) {
	dirs, err := filepath.Glob("testdata/peers/*/*")
	if err != nil || len(dirs) < 25 {
		t.Fatalf("%d folders, %v", len(dirs), err)
	}
	for _, dir := range dirs {
		profile := filepath.Base(filepath.Dir(dir))
		name := "result.json"
		if profile == "lmdeploy" {
			name = "result.csv"
		}
		file, err := Import(dir, []byte(read1(t, dir, name)))
		if err != nil || len(file) != 1 || file[0].Profile != profile {
			t.Errorf("%s: %d results, %v", dir, len(file), err)
			continue
		}
		console, err := Import(dir, []byte(read1(t, dir, "console.txt")))
		if err != nil || len(console) != 1 || console[0].Profile != profile {
			t.Errorf("%s, console: %+v, %v", dir, console, err)
			continue
		}
		for key, want := range console[0].Values {
			if got, ok := file[0].Values[key]; ok && math.Abs(got-want) > 0.010001 { // the sum of two for lmdeploy's total
				t.Errorf("%s: %s is %v in the file, %v on the console", dir, key, got, want)
			}
		}
		if len(console[0].Values) < 9 {
			t.Errorf("%s: only %d values from the console", dir, len(console[0].Values))
		}
	}
}

// paste wraps reports as people paste them.
func paste(blocks ...string) string {
	var b strings.Builder
	b.WriteString("# Results\n\nSee [the issue](http://x) and **note**: Mean TTFT (ms): is what counts.\n\n")
	for i, block := range blocks {
		fmt.Fprintf(&b, "Run %d, command: `vllm bench serve`\n\n```text\n", i)
		for line := range strings.Lines(block) {
			switch i % 4 {
			case 1:
				line = "> " + line
			case 2:
				line = "| " + strings.Join(strings.Fields(line), " ") + " |\n" // spaces lost
			case 3:
				line = "\x1b[32m" + strings.TrimSuffix(line, "\n") + "\x1b[0m\r\n"
			}
			b.WriteString(line)
		}
		b.WriteString("```\nThat was slow. Failed requests: none that we saw.\n\n")
	}
	return b.String()
}

func TestImportOfPastedText(t *testing.T) {
	var blocks []string
	for _, p := range profiles {
		s := Summarize(small(p, "openai"), words)
		blocks = append(blocks, s.Console()+s.OssianConsole())
	}
	rs, err := Import("notes.md", []byte(paste(blocks...)))
	if err != nil || len(rs) != len(profiles) {
		t.Fatalf("%d results, %v", len(rs), err)
	}
	for i, p := range profiles {
		s := Summarize(small(p, "openai"), words)
		r := rs[i]
		for key, want := range map[string]float64{"completed": float64(s.Completed), "duration": s.Duration, "total_output_tokens": float64(s.Output),
			"total_token_throughput": s.TotalRate, "median_ttft_ms": s.TTFT.Median, "p99_itl_ms": s.ITL.P99, "mean_e2el_ms": s.E2EL.Mean} {
			if got := r.Values[key]; math.Abs(got-want) > 0.01*max(1, want/1000) {
				t.Errorf("%v: %s is %v, want %v", p, key, got, want)
			}
		}
		// in a table the frame's width is lost with the spaces, not the profile's words
		if r.Profile != p.String() && i != 2 {
			t.Errorf("%v was taken for %s", p, r.Profile)
		}
	}
}

// TestImportOfTypedText: thousands with commas, a value that is not set.
func TestImportOfTypedText(t *testing.T) {
	rs, err := Import("f", []byte("=== Serving Benchmark Result ===\nTotal generated tokens: 1,234,567\nMax request concurrency: not set\nRequest throughput (req/s): 1,000.5\nMean E2E Latency (ms): nan\nTraffic request rate: inf\n"))
	if err != nil || rs[0].Values["total_output_tokens"] != 1234567 || rs[0].Values["request_throughput"] != 1000.5 || len(rs[0].Values) != 2 || rs[0].Info["request_rate"] != "inf" {
		t.Errorf("%+v, %v", rs, err)
	}
}

func TestImportErrorsSayWhatIsMissing(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"empty", " \n", "the file is empty"},
		{"prose", "hello", "neither JSON, nor lmdeploy's CSV"},
		{"broken JSON", `{"duration": 3,`, "line 1: result 1: the JSON ends early"},
		{"broken later", "\n{\"duration\": 3, \"completed\": 1}\n\n{\"duration\": 3,\n\"completed\" 4}", "line 5: result 2: not JSON: invalid character '4'"},
		{"no number", "{\"duration\": 3, \"completed\": 1}\n{\n\"duration\": 1e999999}", "line 2: result 2: \"duration\""},
		{"in an array", "[\n {\"duration\": 3, \"completed\": 1},\n 7]", "line 3: result 2: expected a result as an object, found a number"},
		{"array without its end", "[{\"duration\": 3, \"completed\": 1}\n", "line 2: result 2: no result, or an array without its end"},
		{"comma before the end", "[{\"duration\": 3, \"completed\": 1},]", "line 1: result 2: "},
		{"other JSON", `{"a": 1}`, `"request_throughput" is missing`},
		{"number as a text", `{"duration": "3 s", "completed": 4}`, `"duration" is "3 s", expected a number`},
		{"no count", `{"duration": 3}`, `"duration" and "completed"`},
		{"no list", `[]`, "no result"},
		{"list of words", `["a"]`, "line 1: result 1: expected a result as an object, found a string"},
		{"array of words", `{"ttfts": ["a"]}`, `"ttfts": expected a number, found a string`},
		{"word for an array", `{"errors": {}, "ttfts": []}`, `"errors": expected an array, found an object`},
		{"extension", `{"ossian": {"valid": "yes"}}`, `"ossian": field "valid": expected true or false, found a string`},
		{"steady state", `{"steady_state": [1]}`, `"steady_state": expected an object, found an array`},
		{"lengths", `{"request_throughput":1,"ttfts":[1,2],"itls":[[]],"output_lens":[1,1]}`, `"itls" has 1 entries, "ttfts" 2`},
		{"kinds", `{"request_throughput":1,"ttfts":"x","itls":[[]],"output_lens":[1,1]}`, `"ttfts"`},
		{"negative", `{"request_throughput":-1}`, `"request_throughput" is -1`},
		{"extension", `{"request_throughput":1,"ossian":{"findings":3}}`, `"ossian"`},
		{"column", "backend,completed\nx,1\n", `column "duration" is missing`},
		{"cells", csvHeader + "a,b\n", "line 2 has 2 columns, the header 18"},
		{"cell", csvHeader + strings.Replace("a,b,,,,0.0,inf,1,1,1,x,1,1,1,1,1,1,1\n", "\n", "\n", 1), `line 2: "duration": "x"`},
		{"no row", csvHeader, "no row"},
		{"console", "=== Serving Benchmark Result ===\n=============\n", "has none of the rows"},
		{"console, cut", "=== Serving Benchmark Result ===\nMean TTFT (ms): 3.0\n", `"request_throughput" is missing`},
		{"console, word", "=== Serving Benchmark Result ===\nMean TTFT (ms): fast\n", "Mean TTFT (ms): found \"fast\", expected a number"},
		{"title alone", "a Serving Benchmark Result", "no line is a frame"},
	} {
		rs, err := Import("f", []byte(c.text))
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "f") {
			t.Errorf("%s: %d results, error %v, want %q", c.name, len(rs), err, c.want)
		}
	}
}

// TestImportVersions: results of other years and what Python's JSON allows.
func TestImportVersions(t *testing.T) {
	old := `{"date":"20240501-120000","backend":"vllm","model_id":"m","tokenizer_id":"m","best_of":1,"use_beam_search":false,"num_prompts":2,
		"request_rate":"inf","duration":2.0,"completed":2,"total_input_tokens":10,"total_output_tokens":30,"request_throughput":1.0,
		"request_goodput:":null,"output_throughput":15.0,"total_token_throughput":20.0,"input_lens":[5,5],"output_lens":[10,20],"ttfts":[0.1,0.2],
		"itls":[[0.01],[0.02,0.03]],"generated_texts":["NaN \" Infinity","b"],"errors":["",""],"mean_ttft_ms":150.0,"std_ttft_ms":NaN,"p99_ttft_ms":-Infinity}`
	rs, err := Import("old", []byte(old))
	if err != nil || len(rs) != 1 {
		t.Fatal(err)
	}
	r := rs[0]
	if r.Profile != "vllm-0.11" || r.Values["mean_ttft_ms"] != 150 || len(r.Requests) != 2 || math.Abs(r.Requests[1].Latency-0.25) > 1e-12 {
		t.Errorf("%+v", r)
	}
	if _, ok := r.Values["std_ttft_ms"]; ok {
		t.Error("NaN became a number")
	}
	rs, err = Import("lines", []byte(strings.ReplaceAll(old, "\n", " ")+"\n"+strings.ReplaceAll(old, "\n", " ")))
	if err != nil || len(rs) != 2 {
		t.Errorf("%d results in two lines, %v", len(rs), err)
	}
	rs, err = Import("array", []byte("["+old+","+old+"]"))
	if err != nil || len(rs) != 2 {
		t.Errorf("%d results in an array, %v", len(rs), err)
	}
}

// hostile makes the n-th of the bad result files: good ones with something broken.
func hostile(n int, goods [][]byte) []byte {
	r := rand.New(rand.NewPCG(uint64(n), 5))
	text := slices.Clone(goods[n%len(goods)])
	words := []string{"NaN", "-1", "1e999", `"`, "{", "}", "[", "]", ",", "null", "\x00", "\xff\xfe", "====", "=== Serving Benchmark Result ===\n",
		"9223372036854775808", "-Infinity", "\\", "\n", "\r", strings.Repeat("[", 20000), strings.Repeat(`{"a":`, 12000), `"ossian":{"batches":{"x":[null]}}`, "Mean TTFT (ms): "}
	for range 1 + r.IntN(6) {
		at := r.IntN(len(text) + 1)
		switch r.IntN(5) {
		case 0:
			text = text[:at]
		case 1:
			text = slices.Concat(text[:at], []byte(words[r.IntN(len(words))]), text[at:])
		case 2:
			text = slices.Concat(text[:at], text[min(len(text), at+r.IntN(100)):])
		case 3:
			if len(text) > 0 {
				text[min(at, len(text)-1)] = byte(r.IntN(256))
			}
		case 4:
			if i := bytes.IndexAny(text[at:], "0123456789"); i >= 0 {
				text = slices.Concat(text[:at+i], []byte(words[r.IntN(5)]), text[at+i+1:])
			}
		}
	}
	return text
}

func goodFiles(t testing.TB) [][]byte {
	t.Helper()
	var out [][]byte
	for _, p := range profiles {
		s := Summarize(small(p, "openai"), words)
		for _, detailed := range []bool{false, true} {
			text, err := s.JSON(detailed)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, text)
		}
		out = append(out, []byte(s.Console()+s.OssianConsole()), []byte(csvHeader+s.csvRow()+s.csvRow()))
	}
	return out
}

// TestHostileFiles: 200 and more bad result files (reliability.md 14) give an error or a
// result that tables and comparisons can take.
func TestHostileFiles(t *testing.T) {
	goods := goodFiles(t)
	refused := 0
	n := soak.Cases(t, 300, 5000)
	for i := range n {
		if !imported(t, hostile(i, goods)) {
			refused++
		}
	}
	if refused < n/4 {
		t.Errorf("only %d of %d bad files were refused", refused, n)
	}
}

// imported reports whether data was taken, and checks what was made of it.
func imported(t testing.TB, data []byte) bool {
	rs, err := Import("x", data)
	if err != nil {
		if rs != nil || !strings.HasPrefix(err.Error(), "x") {
			t.Fatalf("%d results with error %v", len(rs), err)
		}
		return false
	}
	if len(rs) == 0 {
		t.Fatal("no result and no error")
	}
	for _, r := range rs {
		if _, ok := r.Values["request_throughput"]; !ok {
			t.Fatal("a result without throughput")
		}
		for key, v := range r.Values {
			if math.IsNaN(v) || math.IsInf(v, 0) {
				t.Fatalf("%s is %v", key, v)
			}
		}
	}
	if len(rs) > 20 {
		rs = rs[:20]
	}
	Table(rs)
	RunsTable(rs)
	c, err := Compare(rs[:1], rs)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := json.Marshal(c); err != nil {
		t.Fatalf("comparison of %v: %v", slices.Sorted(maps.Keys(rs[0].Values)), err)
	}
	return true
}

func FuzzImport(f *testing.F) {
	for i, text := range goodFiles(f) {
		if i%3 == 0 && len(text) < 20000 {
			f.Add(text)
		}
	}
	f.Add([]byte(paste("=== Serving Benchmark Result ===\nRequest throughput (req/s): 3\n======\n")))
	f.Add([]byte(`[{"request_throughput":1,"ttfts":[1e308],"itls":[[1e308]],"output_lens":[2]}]`))
	f.Fuzz(func(t *testing.T, data []byte) { imported(t, data) })
}

// FuzzSummarize: no log of a run breaks the numbers, the reports or the file.
func FuzzSummarize(f *testing.F) {
	for i, p := range profiles {
		r := small(p, "openai")
		if i == 0 {
			r.Setup.MultiTurn = &bench.MultiTurn{Turns: 2}
		}
		r.Samples = r.Samples[5:9]
		for i := range r.Samples {
			r.Samples[i].Chunks = r.Samples[i].Chunks[:min(4, len(r.Samples[i].Chunks))]
			r.Samples[i].Session, r.Samples[i].Turn = "conv-1", i
		}
		var text bytes.Buffer
		if err := bench.WriteLog(&text, r); err != nil {
			f.Fatal(err)
		}
		f.Add(text.Bytes())
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		r, _, err := bench.ReadLog(bytes.NewReader(data))
		if err != nil {
			return
		}
		s := Summarize(r, words)
		_, _, _ = s.Console(), s.OssianConsole(), s.csvRow()
		text, err := s.JSON(true)
		if err != nil {
			return // numbers that JSON has no words for
		}
		if s.Setup.Profile != bench.LMDeploy && s.Setup.Profile != bench.SGLang && len(s.Setup.Metadata) == 0 && !json.Valid(resultfile.PlainJSON(text)) {
			t.Fatalf("not JSON: %s", text)
		}
	})
}
