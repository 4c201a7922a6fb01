package token

import (
	"flag"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

func TestPromptHarmony(t *testing.T) {
	t.Parallel()
	bpe := mustHarmony(t)
	// The encoding of formats.md §15.
	want := []int32{200006, 17360, 200008, 3575, 553, 17554, 162016, 11, 261, 4410, 6439, 2359, 22203, 656, 7788, 17527, 558, 87447,
		100594, 25, 220, 1323, 19, 12, 3218, 279, 30377, 289, 25, 14093, 279, 2, 13888, 18403, 25, 8450, 11, 49159, 11, 1721, 13, 21030,
		2804, 413, 7360, 395, 1753, 3176, 13, 200007, 200006, 1428, 200008, 4827, 382, 220, 17, 659, 220, 17, 30, 200007, 200006, 173781}
	const system = "You are ChatGPT, a large language model trained by OpenAI.\nKnowledge cutoff: 2024-06\n\nReasoning: medium\n\n" +
		"# Valid channels: analysis, commentary, final. Channel must be included for every message."
	p := bpe.Prompt()
	p.Markup("<|start|>system<|message|>" + system + "<|end|><|start|>user<|message|>What is 2 + 2?<|end|><|start|>assistant")
	if got := p.IDs(); !slices.Equal(got, want) {
		t.Errorf("markup: got %v, want %v", got, want)
	}
	p = bpe.Prompt()
	p.Control(200006)
	p.Text("sys")
	p.Markup("tem<|mess")
	p.Markup("age|>")
	p.Text(system[:50])
	p.Text(system[50:])
	p.Markup("<|end|><|start|>")
	p.Text("user")
	p.Control(200008)
	p.Text("What is 2 ")
	p.Markup("+ 2?<|end|>")
	p.Control(200006)
	p.Text("assistant")
	for range 2 {
		if got := p.IDs(); !slices.Equal(got, want) {
			t.Errorf("parts: got %v, want %v", got, want)
		}
	}
}

func TestPromptQwen3(t *testing.T) {
	t.Parallel()
	want := []int32{151644, 872, 198, 13048, 608, 2152, 5854, 766, 151645, 198, 151644, 77091, 198, 151667, 271, 151668, 271}
	for name, bpe := range map[string]*BPE{"json": mustJSON(t, "qwen3-cut.json"), "gguf": mustGGUF(t, toVocab(t, "qwen3-cut.json", "qwen2"))} {
		p := bpe.Prompt()
		p.Markup("<|im_start|>user\nHi /no_think<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n")
		if got := p.IDs(); !slices.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", name, got, want)
		}
		if bpe.IsControl(151667) || !bpe.IsControl(151645) {
			t.Errorf("%s: <think> must be visible and <|im_end|> control", name)
		}
	}
}

// A control name must be spelled by markup alone: text may neither contain one nor
// complete one.
func TestPromptTextStaysText(t *testing.T) {
	t.Parallel()
	bpe := mustJSON(t, "qwen3-cut.json")
	for _, c := range []struct {
		name  string
		build func(p *Prompt)
		want  []int32 // the added tokens that come out
	}{
		{"text", func(p *Prompt) { p.Text("<|im_end|><think>") }, nil},
		{"text in two parts", func(p *Prompt) { p.Text("<|im_"); p.Text("end|>") }, nil},
		{"markup completes text", func(p *Prompt) { p.Text("<|im_"); p.Markup("end|>") }, nil},
		{"text completes markup", func(p *Prompt) { p.Markup("<|im_"); p.Text("end|>") }, nil},
		{"text inside markup", func(p *Prompt) { p.Markup("<|"); p.Text("im_end"); p.Markup("|>") }, nil},
		{"empty text inside markup", func(p *Prompt) { p.Markup("<|im_"); p.Text(""); p.Markup("end|>") }, []int32{151645}},
		{"control inside text", func(p *Prompt) { p.Text("<|im_"); p.Control(151643); p.Text("end|>") }, []int32{151643}},
		{"control inside markup", func(p *Prompt) { p.Markup("<|im_"); p.Control(151643); p.Markup("end|>") }, []int32{151643}},
		{"longest name", func(p *Prompt) { p.Markup("</tool_call></tool_response>") }, []int32{151658, 151666}},
	} {
		p := bpe.Prompt()
		c.build(p)
		got := slices.DeleteFunc(p.IDs(), func(id int32) bool { return bpe.is(id, plain) })
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: got added tokens %v, want %v", c.name, got, c.want)
		}
	}
}

var sec6Cases = flag.Int("sec6", 10_000, "cases of TestPromptSEC6 per vocabulary; releases run 1,000,000 (reliability.md SEC-6)")

// TestPromptSEC6 builds prompts of random parts made of control names and pieces
// of them: as many added tokens come out as were put in by Control and Markup.
func TestPromptSEC6(t *testing.T) {
	t.Parallel()
	for name, bpe := range map[string]*BPE{"harmony": mustHarmony(t), "qwen3": mustJSON(t, "qwen3-cut.json"), "smollm2": mustJSON(t, "smollm2-cut.json")} {
		r := rand.New(rand.NewPCG(5, 6))
		list := bpe.Added()
		hostile := func() string {
			var b strings.Builder
			for range 1 + r.IntN(3) {
				s := list[r.IntN(len(list))].Text
				from := r.IntN(len(s))
				b.WriteString([]string{s, s[:from], s[from:], "x", " ", "\u0338"}[r.IntN(6)])
			}
			return b.String()
		}
		for range *sec6Cases {
			p, want, log := bpe.Prompt(), []int32(nil), []string(nil)
			markup := false // the part before is markup, which may continue in this one
			for range 1 + r.IntN(6) {
				id := list[r.IntN(len(list))].ID
				switch kind := r.IntN(3); {
				case kind == 0:
					p.Control(id)
					want, log, markup = append(want, id), append(log, "control"), false
				case kind == 1 && !markup:
					p.Markup(bpe.Text(id))
					want, log, markup = append(want, id), append(log, "markup "+bpe.Text(id)), true
				default:
					s := hostile()
					p.Text(s)
					log, markup = append(log, "text "+s), false
				}
			}
			got := slices.DeleteFunc(p.IDs(), func(id int32) bool { return bpe.is(id, plain) })
			if !slices.Equal(got, want) {
				t.Fatalf("%s %q: added tokens %v, want %v", name, log, got, want)
			}
		}
	}
}

// FuzzPrompt checks that cutting text and markup differently changes nothing.
func FuzzPrompt(f *testing.F) {
	f.Add("<|im_start|>user\nhi<|im_end|>", "<think>e\u0301", uint8(5), uint8(3))
	bpe := mustJSON(f, "qwen3-cut.json")
	f.Fuzz(func(t *testing.T, markup, text string, a, b uint8) {
		whole, cut := bpe.Prompt(), bpe.Prompt()
		whole.Markup(markup)
		whole.Text(text)
		i, j := min(int(a), len(markup)), min(int(b), len(text))
		cut.Markup(markup[:i])
		cut.Markup(markup[i:])
		cut.Text(text[:j])
		cut.Text(text[j:])
		if got, want := cut.IDs(), whole.IDs(); !slices.Equal(got, want) {
			t.Fatalf("cut %v, whole %v", got, want)
		}
	})
}
