package server

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"ossian/internal/limits"
	"ossian/internal/sim"
)

// lists are a choice of a completion as clients read it.
type lists struct {
	Index    int
	Text     string
	Logprobs *struct {
		Tokens        []string
		TokenLogprobs []*float64           `json:"token_logprobs"`
		TopLogprobs   []map[string]float64 `json:"top_logprobs"`
		TextOffset    []int                `json:"text_offset"`
	}
	FinishReason   string `json:"finish_reason"`
	PromptLogprobs []map[string]struct {
		Logprob float64
		Rank    int
		Decoded string `json:"decoded_token"`
	} `json:"prompt_logprobs"`
}

// completed returns the choices of a reply, or those that the chunks of a stream add up to.
func completed(t *testing.T, r got) []lists {
	t.Helper()
	if r.status != 200 {
		t.Fatalf("%d %s", r.status, r.body)
	}
	var all []lists
	for line := range strings.Lines(r.body) {
		var reply struct{ Choices []lists }
		data := strings.TrimPrefix(strings.TrimSpace(line), "data: ")
		if data == "" || data == "[DONE]" {
			continue
		}
		if err := json.Unmarshal([]byte(data), &reply); err != nil {
			t.Fatalf("%v in %q", err, line)
		}
		for _, c := range reply.Choices {
			for len(all) <= c.Index {
				all = append(all, lists{Index: len(all)})
			}
			to := &all[c.Index]
			to.Text += c.Text
			to.FinishReason += c.FinishReason
			to.PromptLogprobs = c.PromptLogprobs
			switch {
			case c.Logprobs == nil:
			case to.Logprobs == nil:
				to.Logprobs = c.Logprobs
			default:
				to.Logprobs.Tokens = append(to.Logprobs.Tokens, c.Logprobs.Tokens...)
				to.Logprobs.TokenLogprobs = append(to.Logprobs.TokenLogprobs, c.Logprobs.TokenLogprobs...)
				to.Logprobs.TopLogprobs = append(to.Logprobs.TopLogprobs, c.Logprobs.TopLogprobs...)
				to.Logprobs.TextOffset = append(to.Logprobs.TextOffset, c.Logprobs.TextOffset...)
			}
		}
	}
	return all
}

// TestEchoLogprobs asks in every way in which evaluations ask. The model says only
// that its answer ends: that token is not shown, but its entry must be there, or
// whoever leaves out the last one leaves out the wrong one.
func TestEchoLogprobs(t *testing.T) {
	const end = 200_002
	u := setup{next: sim.List(end)}
	u.info.MaxTokens = 16 // prompts are computed in chunks
	u.info.BlockSize = 4
	g := start(t, u)
	prompts := [][]int32{said("The quick brown fox jumps over the lazy dog, and then 🌍 wörld it does so again."), said("Hi"), said("<|start|>user<|message|>Hello there, hello there, hello there")}
	list, err := json.Marshal(prompts)
	if err != nil {
		t.Fatal(err)
	}
	for _, most := range []int{0, 1} {
		for _, rest := range []string{`"n":1`, `"n":3`, `"stream":true`, `"n":3,"stream":true`, `"n":2,"best_of":4`, `"prompt_logprobs":2`, `"n":2,"prompt_logprobs":0`} {
			t.Run(fmt.Sprintf("max_tokens %d %s", most, rest), func(t *testing.T) {
				choices := completed(t, g.post("/v1/completions", fmt.Sprintf(`{"prompt":%s,"echo":true,"logprobs":1,"max_tokens":%d,%s}`, list, most, rest)))
				if len(choices)%len(prompts) != 0 || len(choices) == 0 {
					t.Fatalf("%d choices", len(choices))
				}
				for i := range choices {
					c := &choices[i]
					ids := prompts[i/(len(choices)/len(prompts))]
					checkEcho(t, c, ids, most, map[bool]string{false: "length", true: "stop"}[most == 1])
					if asked := strings.Contains(rest, "prompt_logprobs"); asked != (c.PromptLogprobs != nil) {
						t.Fatalf("choice %d: prompt_logprobs %v", i, c.PromptLogprobs)
					} else if asked {
						checkTable(t, c, ids, rest[len(rest)-1] == '2')
					}
				}
			})
		}
	}
	g.idle()
}

// scripted is the log probability of an id that the script does not play, as JSON has it.
func scripted(id int32) float64 { return max(-20-float64(id), -9999) }

func checkEcho(t *testing.T, c *lists, ids []int32, most int, finish string) {
	t.Helper()
	l, text, offset := c.Logprobs, "", 0
	if n := len(ids) + most; l == nil || len(l.Tokens) != n || len(l.TokenLogprobs) != n || len(l.TopLogprobs) != n || len(l.TextOffset) != n {
		t.Fatalf("choice %d: %+v, want %d of each", c.Index, l, n)
	}
	for i, id := range ids {
		token := harmony().Text(id)
		if l.TextOffset[i] != offset || (utf8.ValidString(token) && l.Tokens[i] != token) {
			t.Errorf("choice %d, token %d: %q at %d, want %q at %d", c.Index, i, l.Tokens[i], l.TextOffset[i], token, offset)
		}
		text += token
		offset = utf8.RuneCountInString(text)
		if !utf8.ValidString(text) { // the last character is not complete, but has begun
			offset = utf8.RuneCountInString(strings.ToValidUTF8(text, "?"))
		}
		if i == 0 {
			if l.TokenLogprobs[i] != nil || l.TopLogprobs[i] != nil {
				t.Errorf("choice %d: the first token has a log probability, alternatives %v", c.Index, l.TopLogprobs[i])
			}
			continue
		}
		top := l.TopLogprobs[i]
		if p := l.TokenLogprobs[i]; p == nil || *p != scripted(id) || len(top) != 2 || top[l.Tokens[i]] != *p || top["<|return|>"] != 0 {
			t.Errorf("choice %d, token %d of id %d: %v of %v", c.Index, i, id, p, top)
		}
	}
	if most == 1 {
		if n := len(ids); l.Tokens[n] != "<|return|>" || *l.TokenLogprobs[n] != 0 || l.TextOffset[n] != offset {
			t.Errorf("choice %d ends with %q at %d of log probability %v", c.Index, l.Tokens[n], l.TextOffset[n], *l.TokenLogprobs[n])
		}
	}
	if c.Text != text || c.FinishReason != finish {
		t.Errorf("choice %d: %q, finished by %s; want %q and %s", c.Index, c.Text, c.FinishReason, text, finish)
	}
}

func checkTable(t *testing.T, c *lists, ids []int32, top bool) {
	t.Helper()
	if len(c.PromptLogprobs) != len(ids) || c.PromptLogprobs[0] != nil {
		t.Fatalf("choice %d: %d entries, the first %v; want %d and null", c.Index, len(c.PromptLogprobs), c.PromptLogprobs, len(ids))
	}
	for i, id := range ids[1:] {
		row := c.PromptLogprobs[i+1]
		own, rank := row[strconv.Itoa(int(id))], 2+int(id)
		if id > 200_002 { // which is the first
			rank--
		}
		if own.Logprob != scripted(id) || own.Rank != rank || (utf8.ValidString(harmony().Text(id)) && own.Decoded != harmony().Text(id)) {
			t.Errorf("choice %d, token %d of id %d: %+v", c.Index, i+1, id, own)
		}
		first, second := row["200002"], row["0"]
		if want := map[bool]int{false: 1, true: 3}[top]; len(row) != want || (top && (first.Logprob != 0 || first.Rank != 1 || second.Logprob != -20 || second.Rank != 2)) {
			t.Errorf("choice %d, token %d: %+v, want %d", c.Index, i+1, row, want)
		}
	}
}

// A long echo is sent whole although nothing of a stream may wait that long.
func TestLongEcho(t *testing.T) {
	u := setup{next: sim.List(5), limits: map[limits.ID]int64{limits.PendingOutput: 4 << 10}}
	g := start(t, u)
	ids := said(strings.Repeat("all work and no play ", 300))
	list, err := json.Marshal(ids)
	if err != nil {
		t.Fatal(err)
	}
	for _, logprobs := range []string{"", `"logprobs":3,`} {
		c := completed(t, g.post("/v1/completions", fmt.Sprintf(`{"prompt":%s,"echo":true,"max_tokens":20,%s"stream":true}`, list, logprobs)))
		if len(c) != 1 || c[0].Text != harmony().Decode(ids)+strings.Repeat(harmony().Text(5), 20) {
			t.Errorf("%d choices, %d bytes of text", len(c), len(c[0].Text))
		}
		if l := c[0].Logprobs; logprobs != "" && (l == nil || len(l.Tokens) != len(ids)+20) {
			t.Errorf("log probabilities %+v", l)
		}
	}
}

// A response repeats its request, which may be long, and one that is not streamed has all
// of its log probabilities at once: neither waits for a client that reads too slowly.
func TestLongResponse(t *testing.T) {
	u := setup{reply: strings.Repeat("all work and no play ", 12) + "<|return|>", format: plainTemplate(t), limits: map[limits.ID]int64{limits.PendingOutput: 4 << 10}}
	g := start(t, u)
	long := strings.Repeat("international ", 1300)
	for _, more := range []string{``, `,"stream":true`, `,"include":["message.output_text.logprobs"],"top_logprobs":20`} {
		r := g.post("/v1/responses", `{"input":"Hi","store":false,"instructions":"`+long+`"`+more+`}`)
		if r.status != 200 || !strings.Contains(r.body, "all work and no play") || !strings.Contains(r.body, `"completed"`) {
			t.Errorf("%s: %d %.300s", more, r.status, r.body)
		}
	}
}

// SEC-13: as many log probabilities of prompt tokens as the limit says, not one more.
func TestPromptLogprobsLimit(t *testing.T) {
	g := start(t, setup{next: sim.List(5), limits: map[limits.ID]int64{limits.PromptLogprobs: 60}})
	for body, n := range map[string]int{
		`"prompt":[[1,2,3,4,5],[6,7,8,9,1]],"prompt_logprobs":5`:             60,
		`"prompt":[[1,2,3,4,5],[6,7,8,9,1]],"prompt_logprobs":6`:             70,
		`"prompt":[1,2,3,4,5],"n":3,"logprobs":3,"echo":true`:                60,
		`"prompt":[1,2,3,4,5],"n":4,"logprobs":3,"echo":true`:                80,
		`"prompt":[1,2,3,4,5],"best_of":6,"logprobs":1,"echo":true`:          60,
		`"prompt":[1,2,3,4,5],"prompt_logprobs":1,"logprobs":11,"echo":true`: 60,
		`"prompt":[1,2,3,4,5],"logprobs":12,"echo":true`:                     65,
		`"prompt":[1,2,3,4,5],"logprobs":20`:                                 0,
	} {
		r := g.post("/v1/completions", `{`+body+`}`)
		if n <= 60 && r.status != 200 {
			t.Errorf("%s: %d %s", body, r.status, r.body)
		}
		if n > 60 {
			wantError(t, r, 400, "invalid_request_error", "invalid_value", "prompt_logprobs")
			if !strings.Contains(r.body, fmt.Sprintf("%d log probabilities of prompt tokens, at most 60", n)) {
				t.Errorf("%s: %s", body, r.body)
			}
		}
	}
}
