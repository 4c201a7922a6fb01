package server

import (
	"encoding/json"
	"strings"
	"sync/atomic"
	"testing"

	"ossian/internal/draft"
	"ossian/internal/engine"
	"ossian/internal/runner"
)

// A prediction changes no answer and says in usage how much of it came, whether anything is guessed
// or not. Where guesses are, the answer takes fewer steps.
func TestPrediction(t *testing.T) {
	t.Parallel()
	lines := strings.Split("func main() {\n\tfor i := range 10 {\n\t\tfmt.Println(i)\n\t}\n\tos.Exit(0)\n}\n", "\n")
	before := strings.Join(lines, "\n")
	lines[2] = "\t\tlog.Println(i, 2*i)"
	after := strings.Join(lines, "\n")
	parts, _ := json.Marshal([]map[string]string{{"type": "text", "text": before[:20]}, {"type": "text", "text": before[20:]}})
	whole, _ := json.Marshal(before)
	expected := len(said(before))
	var counts [2]int32
	for i, guesses := range []*draft.Settings{nil, {Method: draft.Suffix, Tokens: 7, Shortest: 2, Factor: 1, MinTokenProb: 0.1}} {
		var steps atomic.Int32
		g := start(t, setup{reply: "<|channel|>final<|message|>" + after + "<|return|>", engine: engine.Config{Guesses: guesses}, info: runner.Info{Lookahead: 7 * i},
			launch: func(int, *runner.Batch) { steps.Add(1) }})
		plain := g.ask("/v1/chat/completions", `{`+hi+`,"max_tokens":200}`)
		if d := plain.usage.Details; d.Accepted != 0 || d.Rejected != 0 || plain.choices[0].Content != after {
			t.Fatalf("without a prediction: %+v", plain)
		}
		for _, content := range []string{string(whole), string(parts)} {
			steps.Store(0)
			tr := g.ask("/v1/chat/completions", `{`+hi+`,"max_tokens":200,"prediction":{"type":"content","content":`+content+`}}`)
			counts[i] = steps.Load()
			d := tr.usage.Details
			if tr.choices[0].Content != after || tr.usage.Completion != plain.usage.Completion {
				t.Errorf("%s: %+v, without a prediction %+v", content, tr, plain)
			}
			if d.Accepted < expected/2 || d.Accepted >= expected || d.Accepted+d.Rejected != expected {
				t.Errorf("%s: %d ids accepted, %d rejected, the prediction has %d", content, d.Accepted, d.Rejected, expected)
			}
		}
	}
	if 3*counts[1] > 2*counts[0] {
		t.Errorf("%d steps with a prediction, %d where nothing is guessed", counts[1], counts[0])
	}
	g := start(t, setup{reply: "<|channel|>final<|message|>Hi<|return|>"})
	for _, c := range [][2]string{
		{`{"type":"text","content":"x"}`, "prediction.type"},
		{`{"type":"content"}`, "prediction.content"},
		{`{"type":"content","content":[{"type":"image_url","image_url":{}}]}`, "prediction.content[0].type"},
		{`"x"`, "prediction"},
	} {
		got := g.post("/v1/chat/completions", `{`+hi+`,"prediction":`+c[0]+`}`)
		if got.status != 400 || !strings.Contains(got.body, `"param":"`+c[1]+`"`) {
			t.Errorf("%s: %d %s", c[0], got.status, got.body)
		}
	}
	for _, nothing := range []string{`null`, `{"type":"content","content":""}`} {
		if got := g.post("/v1/chat/completions", `{`+hi+`,"prediction":`+nothing+`}`); got.status != 200 {
			t.Errorf("%s: %d %s", nothing, got.status, got.body)
		}
	}
}
