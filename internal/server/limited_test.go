package server

import (
	"fmt"
	"strings"
	"testing"

	"ossian/internal/sim"
	"ossian/internal/soak"
)

// Ids that are allowed and words that are not limit the text of gpt-oss's answers, not
// their headers: whatever is asked for, an answer has content of the ids allowed and
// nothing has to be mended.
func TestTextIsLimited(t *testing.T) {
	t.Parallel()
	yes, no := tokenOf("yes"), tokenOf("no")
	// A model without sense, which wants ids near to those allowed: what takes time in the
	// simulated one is the way to the next that is.
	chance, near := sim.Hash(6), []int32{1, yes, no, 199_998, 199_998, 199_998}
	g := start(t, inMemory(t, setup{next: func(history []int32, step uint64) int32 { return near[chance(history, step)] }}))
	only := fmt.Sprintf(`,"allowed_token_ids":[%d,%d]`, yes, no)
	chats := soak.Cases(t, 8, 2_000)
	for n := range chats {
		for _, c := range []struct{ name, more string }{
			{"allowed ids", only},
			{"the low ids", `,"allowed_token_ids":[1,2]`},
			{"with a form", only + `,"structured_outputs":{"regex":"(yes|no)+"}`},
			{"with a budget", only + `,"thinking_token_budget":3`},
			{"without reasoning", only + `,"reasoning_effort":"none"`},
			{"with tools", only + `,` + tools + `,"tool_choice":"none"`},
			{"and a bad word", only + `,"bad_words":["no"]`},
		} {
			ask := fmt.Sprintf(`{"messages":[{"role":"user","content":"%d"}],"max_tokens":2000%s}`, n, c.more)
			choice := g.ask("/v1/chat/completions", ask).choices[0]
			rest := choice.Content + choice.Reasoning
			if strings.Contains(c.more, only) {
				rest = strings.ReplaceAll(strings.ReplaceAll(rest, "yes", ""), "no", "")
				rest = strings.ReplaceAll(rest, "\n", "") // between messages
			}
			if c.name == "and a bad word" && strings.Contains(choice.Content, "no") {
				t.Errorf("%s: %q", c.name, choice.Content)
			}
			if choice.Content == "" || choice.Finish != "stop" || (strings.Contains(c.more, only) && rest != "") {
				t.Fatalf("%s, chat %d: %+v", c.name, n, choice)
			}
		}
		body := fmt.Sprintf(`{"input":"%d","max_output_tokens":2000%s}`, n, only)
		if r := g.post("/v1/responses", body); r.status != 200 || !strings.Contains(r.body, `"output_text"`) || strings.Contains(r.body, `"incomplete"`) {
			t.Fatalf("response %d: %d %s", n, r.status, r.body)
		}
	}
	g.unmended()
	// Words that headers are made of are kept out of texts.
	g = start(t, setup{reply: thinks + "<|channel|>final<|message|>final assistant analysis<|return|>"})
	words := g.ask("/v1/chat/completions", `{`+hi+`,"bad_words":["final","analysis","commentary","assistant"],"max_tokens":60}`)
	if c := words.choices[0]; c.Content == "" || strings.Contains(c.Content, "final") || strings.Contains(c.Content, "assistant") || c.Reasoning != "Let me think." {
		t.Errorf("words of headers: %+v", c)
	}
	g.unmended()
}

// unmended fails where an answer had to be mended.
func (g *rig) unmended() {
	g.t.Helper()
	for line := range strings.Lines(g.do("GET", "/metrics", "").body) {
		if strings.Contains(line, "salvage") && !strings.HasPrefix(line, "#") && !strings.HasSuffix(strings.TrimSpace(line), " 0") {
			g.t.Error(line)
		}
	}
}
