package chat_test

import (
	"fmt"
	"math/bits"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"ossian/internal/chat"
	"ossian/internal/chat/formattest"
	"ossian/internal/grammar"
	"ossian/internal/soak"
)

// Reasoning ends where its budget does, and none begins where there is none (harmony.md
// 12.5). In want a | stands before what is forbidden, a ^ before the one id that may come.
func TestBudget(t *testing.T) {
	t.Parallel()
	n := func(n int) *int { return &n }
	const (
		hm    = "<|channel|>analysis<|message|>"
		next  = "<|end|><|start|>assistant"
		final = "<|channel|>final<|message|>"
		call  = "<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>"
	)
	form, tools := &grammar.Source{Text: personSchema}, offered()
	for _, tt := range []struct {
		family, name string
		rules        chat.Rules
		effort, vars string
		bare         bool // no tools are offered
		want         string
	}{
		{"harmony", "cut", chat.Rules{Thinking: n(2)}, "", "", true, hm + " a a^<|end|>^<|start|>^assistant^<|channel|>^final^<|message|>Hi.<|return|>"},
		{"harmony", "counted together", chat.Rules{Thinking: n(3)}, "", "", true, hm + " a a" + next + hm + " a^" + next + final + "Hi"},
		{"harmony", "not used up", chat.Rules{Thinking: n(3)}, "", "", true, hm + " a" + next + final + "Hi"},
		{"harmony", "preambles are no reasoning", chat.Rules{Thinking: n(1)}, "", "", true, "<|channel|>commentary<|message|> a a a" + next + hm + " a^<|end|>"},
		{"harmony", "none at all", chat.Rules{Thinking: n(0)}, "", "", true, "<|channel|>|analysis"},
		{"harmony", "by a variable", chat.Rules{}, "", `{"thinking_budget":2}`, true, hm + " a a^<|end|>"},
		{"harmony", "without limit by a variable", chat.Rules{Thinking: n(1)}, "", `{"thinking_budget":-1}`, false, hm + " a a a" + next},
		{"harmony", "form", chat.Rules{Thinking: n(1), Answer: form}, "", "", true, hm + " a^<|end|>^<|start|>^assistant^<|channel|>final ^<|constrain|>json^<|message|>{"},
		{"harmony", "call or answer", chat.Rules{Thinking: n(1), Tools: tools}, "", "", false, hm + " a^<|end|>^<|start|>assistant" + call + `{"city":"Bern"`},
		{"harmony", "answer or call", chat.Rules{Thinking: n(1), Tools: tools}, "", "", false, hm + " a^<|end|>^<|start|>assistant" + final + "Hi<|return|>"},
		{"harmony", "behind the budget", chat.Rules{Thinking: n(1), Tools: tools}, "", "", false, hm + " a" + next + "<|channel|>|analysis"},
		{"harmony", "behind the budget, recipient first", chat.Rules{Thinking: n(1), Tools: tools}, "", "", false, hm + " a" + next + " to=functions.get<|channel|>|analysis"},
		{"harmony", "forced call", chat.Rules{Thinking: n(1), Tools: tools, MustCall: true}, "", "", false, hm + " a^" + next + "<|channel|>|final"},
		{"harmony", "effort none", chat.Rules{}, "none", "", true, final + "Hi.<|return|>"},
		{"harmony", "effort none, analysis", chat.Rules{}, "none", "", true, "<|channel|>|analysis"},
		{"harmony", "effort none, preamble, analysis", chat.Rules{}, "none", "", true, "<|channel|>commentary<|message|>a" + next + "<|channel|>|analysis"},
		{"harmony", "effort none, tools", chat.Rules{Tools: tools}, "none", "", false, call + `{"city":"Bern"`},
		{"harmony", "effort none, tools, analysis", chat.Rules{Tools: tools}, "none", "", false, "<|channel|>|analysis"},
		{"harmony", "effort none, recipient first", chat.Rules{Tools: tools}, "none", "", false, " to=functions.get<|channel|>|analysis"},
		{"harmony", "effort none, form", chat.Rules{Answer: form}, "none", "", true, "<|channel|>|analysis"},
		{"harmony", "effort none, required", chat.Rules{Tools: tools, MustCall: true}, "none", "", false, "<|channel|>|analysis"},
		{"harmony", "effort none by a variable", chat.Rules{}, "", `{"reasoning_effort":"none"}`, true, "<|channel|>|analysis"},
		{"qwen3", "cut", chat.Rules{Thinking: n(2)}, "", "", true, "<think> a a^</think>\n\nHi<|im_end|>"},
		{"qwen3", "not used up", chat.Rules{Thinking: n(9)}, "", "", true, "<think> a</think>\n\nHi<|im_end|>"},
		{"qwen3", "once", chat.Rules{Thinking: n(9)}, "", "", true, "<think> a</think>|<think>"},
		{"qwen3", "none at all", chat.Rules{Thinking: n(0)}, "", "", true, "|<think>"},
		{"qwen3", "by a variable", chat.Rules{}, "", `{"thinking_budget":1}`, true, "<think> a^</think>"},
		{"qwen3", "form", chat.Rules{Thinking: n(1), Answer: form}, "", "", true, "<think> a^</think>\n\n{"},
		{"qwen3", "required", chat.Rules{Thinking: n(1), Tools: tools, MustCall: true}, "", "", false, "<think> a^</think>\n\n^<tool_call>"},
		{"qwen3", "effort none", chat.Rules{}, "none", "", true, "|<think>"},
		{"qwen3", "effort none, later", chat.Rules{}, "none", "", true, "Hi |<think>"},
		{"qwen3", "effort none, tools", chat.Rules{Tools: tools}, "none", "", false, "|<think>"},
		{"qwen3", "effort none, form", chat.Rules{Answer: form}, "none", "", true, "|<think>"},
		{"qwen3", "effort none, required", chat.Rules{Tools: tools, MustCall: true}, "none", "", false, "^<tool_call>"},
		{"qwen3", "effort none by a variable", chat.Rules{}, "", `{"enable_thinking":false}`, true, "|<think>"},
		{"qwen3 thinking", "cut", chat.Rules{Thinking: n(2)}, "", "", true, " a a^</think>Hi<|im_end|>"},
		{"qwen3 thinking", "effort none", chat.Rules{}, "none", "", true, "^</think>Hi<|im_end|>"},
	} {
		for _, f := range heldFamilies(t) {
			if f.name != tt.family {
				continue
			}
			t.Run(f.name+"/"+tt.name, func(t *testing.T) {
				t.Parallel()
				c := asked()
				c.Effort, c.Vars = tt.effort, []byte(tt.vars)
				if tt.bare {
					c.Tools = nil
				}
				k := f.constraint(t, c, &tt.rules)
				mask := make([]uint64, f.tok.Vocab()/64+3)
				text := tt.want
				for text != "" {
					only := strings.HasPrefix(text, "^")
					text = strings.TrimPrefix(text, "^")
					end := strings.IndexByte(text, '^')
					if at := forbidden(text); end < 0 || (at >= 0 && at < end) {
						end = at
					}
					if end == 0 { // forbidden from here on
						next := sampled(f.tok, text[1:])[0]
						if k.Mask(mask); mask[next/64]>>(next%64)&1 == 1 {
							t.Errorf("%q is allowed", text)
						}
						return
					}
					if end < 0 {
						end = len(text)
					}
					all := sampled(f.tok, text[:end])
					if k.Mask(mask); only && !slices.Equal(idsOf(mask), all[:1]) {
						t.Fatalf("before %q %d ids may come", text, len(idsOf(mask)))
					}
					if n := f.follow(t, k, all); n != len(all) {
						t.Fatalf("%q is forbidden before %q", f.tok.Text(all[n]), text)
					}
					text = text[end:]
				}
			})
		}
	}
}

func idsOf(mask []uint64) (ids []int32) {
	for i, word := range mask {
		for ; word != 0; word &= word - 1 {
			ids = append(ids, int32(i*64+bits.TrailingZeros64(word)))
		}
	}
	return ids
}

// Whatever a model babbles, its reasoning keeps to the budget and the answer is well-formed.
func TestBudgetBabble(t *testing.T) {
	for _, f := range heldFamilies(t)[:3] {
		for name, r := range map[string]chat.Rules{"text": {}, "form": {Answer: &grammar.Source{Text: personSchema}}, "tools": {Tools: offered()}, "required": {Tools: offered(), MustCall: true}} {
			t.Run(f.name+"/"+name, func(t *testing.T) {
				t.Parallel()
				c := asked()
				if r.Tools == nil {
					c.Tools = nil
				}
				spent := 0
				for i := range soak.Cases(t, 20, 5_000) {
					rng := rand.New(rand.NewPCG(uint64(i), 17))
					budget := rng.IntN(6)
					rules := r
					rules.Thinking = &budget
					all, end := f.babble(t, f.constraint(t, c, &rules), rng)
					reasoned := 0
					for _, e := range formattest.Parse(f.format.Parser(c), all) {
						switch {
						case e.Kind == chat.Salvage && end && r.Tools != nil:
							t.Fatalf("%q: rule %s was needed", f.tok.Decode(all), e.Rule)
						case e.Kind == chat.Start && e.Part == chat.Reasoning && budget == 0 && f.name != "qwen3 thinking":
							t.Fatalf("reasoning in %q", f.tok.Decode(all))
						case e.Kind == chat.Delta && e.Part == chat.Reasoning:
							reasoned++
						}
					}
					if reasoned > budget {
						t.Fatalf("%d ids of reasoning, budget %d: %q", reasoned, budget, f.tok.Decode(all))
					}
					if reasoned == budget && budget > 0 {
						spent++
					}
				}
				if spent == 0 {
					t.Error("no budget was used up")
				}
				t.Log(fmt.Sprint(spent, " budgets used up"))
			})
		}
	}
}

// Without anything to hold to, nothing holds, but for the format of gpt-oss, unless its
// headers are left to it.
func TestNoBudget(t *testing.T) {
	t.Parallel()
	for _, f := range heldFamilies(t) {
		c := asked()
		c.Tools = nil
		for _, loose := range []bool{false, true} {
			fresh, err := f.format.Constraint(c, &chat.Rules{Loose: loose}, nil)
			if held := f.name == "harmony" && !loose; (fresh != nil) != held || err != nil {
				t.Errorf("%s, loose %t: a constraint: %t, %v", f.name, loose, fresh != nil, err)
			}
		}
	}
}
