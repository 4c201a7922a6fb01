package token

import (
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

// The bound from bytes alone holds for the longest tokens, control names and what
// composing makes shorter; it says something for ordinary text.
func TestAtLeast(t *testing.T) {
	t.Parallel()
	for name, bpe := range map[string]*BPE{"harmony": mustHarmony(t), "qwen3": mustJSON(t, "qwen3-cut.json")} {
		widest := bpe.Text(0)
		for id := range int32(bpe.Vocab()) {
			if s := bpe.Text(id); len(s) > len(widest) {
				widest = s
			}
		}
		for _, s := range []string{"", "a", widest, "\u1fbe\u0308\u0301", "\u212a", "\u1100\u1161\u11a8", "a\u0300\u0301", bpe.Added()[0].Text} {
			p := bpe.Prompt()
			p.Markup(strings.Repeat(s, 1000))
			if least, n := p.AtLeast(), len(p.IDs()); least > n {
				t.Errorf("%s: 1,000 times %q: at least %d ids, found %d", name, s, least, n)
			}
		}
		p := bpe.Prompt()
		p.Text(strings.Repeat("word ", 100_000))
		if p.AtLeast() < 100 {
			t.Errorf("%s: 500,000 bytes: at least %d ids", name, p.AtLeast())
		}
	}
}

// The text on both sides of a cut is encoded by itself, also inside markup; a cut has
// no id and hides nothing from AtLeast.
func TestCut(t *testing.T) {
	t.Parallel()
	bpe := mustHarmony(t)
	parts := []string{"hel", "lo", "", " wor", "ld"}
	p := bpe.Prompt()
	want := []int32{200006}
	p.Control(200006)
	for i, part := range parts {
		if i > 0 {
			p.Cut()
		}
		p.Text(part)
		want = bpe.Encode(want, part)
	}
	p.Cut()
	p.Markup("<|end")
	p.Cut()
	p.Markup("|>")
	want = bpe.Encode(bpe.Encode(want, "<|end"), "|>")
	if got := p.IDs(); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	p = bpe.Prompt()
	for range 100_000 {
		p.Text("word ")
		p.Cut()
	}
	if p.AtLeast() < 100 {
		t.Errorf("500,000 bytes: at least %d ids", p.AtLeast())
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
		} else if least := whole.AtLeast(); least > len(got) {
			t.Fatalf("at least %d ids, found %d", least, len(got))
		}
	})
}
