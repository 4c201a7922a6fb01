package report

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"ossian/internal/eval"
	"ossian/internal/eval/ask"
)

// sample is a result of two runs: one with an odd name, one with nothing answered.
func sample(t *testing.T) *eval.Result {
	t.Helper()
	items := []eval.Item{}
	for i, outcome := range []eval.Outcome{eval.Right, eval.Wrong, eval.Right, eval.Right, eval.NoAnswer, eval.Right, eval.Right, eval.Failed} {
		items = append(items, eval.Item{Question: i / 2, Repeat: i % 2, ID: "0123456789ab", Outcome: outcome, ReferenceRight: outcome == eval.Right, Reference: "A", Chars: 10 * i, Output: 7, Calls: map[string]int{"web_search_call": i % 2}})
	}
	text, err := json.Marshal(eval.Result{Schema: 1, Version: "dev", Began: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Valid: true, Findings: []string{"<script>finding</script>"}, Notes: []string{"a note"},
		Asked: eval.Asked{Models: []string{"org/<model>"}, API: ask.Chat, Temperature: 1, Tasks: []eval.AskedTask{{Name: "gpqa", Rows: 4, SHA256: "00"}}}, Server: eval.Server{URL: "http://x", Engine: map[string]string{"kv_dtype": "BF16"}},
		Compared: []eval.Publication{{Task: "gpqa", Effort: "low", Published: 0.653, Ours: 0.7, S: 0.02}, {Task: "gpqa", Effort: "high", Published: 0.9, Ours: 0.5, S: 0.01, Apart: true}},
		Runs: []*eval.RunResult{{Task: "gpqa", Model: "org/<model>", Effort: "low", Tools: []string{"web_search"}, Expected: 8, Items: items, Calls: map[string]int{"web_search_call": 4},
			Outcomes: map[eval.Outcome]int{eval.Right: 5, eval.Wrong: 1, eval.NoAnswer: 1, eval.Failed: 1}}, {Task: "aime25", Model: "m", Effort: "high"}}})
	if err != nil {
		t.Fatal(err)
	}
	out, err := eval.ReadResult(text)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestConsole(t *testing.T) {
	var b bytes.Buffer
	if err := Console(&b, sample(t)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"gpqa with web_search", "published", "strict", "web_search_call 0.50", "no difference shown", "apart", "finding: <script>"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
}

// TestHTML: the page is one file of well-formed markup without a script, which loads nothing.
func TestHTML(t *testing.T) {
	var b bytes.Buffer
	if err := HTML(&b, sample(t)); err != nil {
		t.Fatal(err)
	}
	page := b.String()
	for _, want := range []string{"Evaluation of org/&lt;model&gt;", "&lt;script&gt;finding", "<svg", "0123456789ab", "BF16", "default-src 'none'"} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q in the page", want)
		}
	}
	for _, bad := range []string{"<script", "src=", "http-equiv=\"refresh", "url("} {
		if strings.Contains(page, bad) {
			t.Errorf("%q in the page", bad)
		}
	}
	tokens := xml.NewDecoder(strings.NewReader(page))
	tokens.Strict, tokens.AutoClose, tokens.Entity = false, xml.HTMLAutoClose, xml.HTMLEntity
	for {
		_, err := tokens.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if dst := os.Getenv("EVAL_PAGE"); dst != "" {
		os.WriteFile(dst, b.Bytes(), 0o644)
	}
}

// TestCompat: the files are those that the published evaluation writes: names, members, numbers.
func TestCompat(t *testing.T) {
	out := sample(t)
	none := func(*eval.RunResult, *eval.Item) (prompt, answer, right string, ok bool) { return }
	files, err := Compat(out, out.Runs[0], none)
	if err != nil || len(files) != 2 {
		t.Fatalf("%v, %v", files, err)
	}
	if files[0].Name != "gpqa_org__<model>-low_temp1.0_20260102_030405_tools.json" && files[0].Name != "gpqa_org___model_-low_temp1.0_20260102_030405_tools.json" {
		t.Errorf("name %s", files[0].Name)
	}
	want := "{\n  \"chars\": 30.0,\n  \"chars:std\": 20.0,\n  \"score\": 0.7142857142857143,\n  \"score:std\": 0.45175395145262565\n}"
	if string(files[0].Data) != want {
		t.Errorf("%s\nwant %s", files[0].Data, want)
	}
	var all struct {
		Score    float64
		Metrics  map[string]float64
		HTMLs    []string
		Convos   [][]message
		Metadata map[string][]any
	}
	if err := json.Unmarshal(files[1].Data, &all); err != nil || len(all.HTMLs)+len(all.Convos) != 0 || len(all.Metadata["example_level_metadata"]) != 7 || len(all.Metrics) != 3 {
		t.Errorf("%v, %+v", err, all)
	}
	texts := func(*eval.RunResult, *eval.Item) (prompt, answer, right string, ok bool) {
		return "<p>", "a", "B", true
	}
	if files, err = Compat(out, out.Runs[0], texts); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(files[1].Data, &all); err != nil || len(all.HTMLs) != 7 || len(all.Convos) != 7 || all.Convos[0][1] != (message{"assistant", "a"}) || !strings.Contains(all.HTMLs[0], "<pre>&lt;p&gt;</pre>") {
		t.Errorf("%v, %+v", err, all)
	}
	if files, err = Compat(out, out.Runs[1], none); err != nil || files != nil {
		t.Errorf("nothing answered: %v, %v", files, err)
	}
}
