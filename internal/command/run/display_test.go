package run

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"ossian/internal/chat"
	"ossian/internal/ckpt"
	"ossian/internal/command/commandtest"
	"ossian/internal/synth"
	"ossian/internal/token"
)

// tokenizerOf returns the tokenizer of a synthetic preset.
func tokenizerOf(t *testing.T, preset string) *token.BPE {
	t.Helper()
	t.Chdir(t.TempDir())
	commandtest.WriteModel(t, preset, preset, synth.Options{})
	m, err := ckpt.Open(preset)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	return m.Tokenizer
}

// markup returns the ids of text with control names in it.
func markup(tok *token.BPE, text string) []int32 {
	p := tok.Prompt()
	p.Markup(text)
	return p.IDs()
}

// formatOf returns the code's format of a family.
func formatOf(t *testing.T, family string, tok *token.BPE) chat.Format {
	t.Helper()
	f, err := chat.New(chat.Facts{Family: family, Tokenizer: tok})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestDisplay(t *testing.T) {
	harmony, qwen := tokenizerOf(t, "gpt-oss-tiny"), tokenizerOf(t, "qwen3-tiny")
	gptOSS, qwen3 := formatOf(t, "gpt-oss", harmony), formatOf(t, "qwen3", qwen)
	hi := chat.Conversation{Turns: []chat.Turn{{Role: chat.User, Parts: []string{"Hi"}}}}
	quick := hi
	quick.Effort = "none"
	for _, c := range []struct {
		name           string
		tok            *token.BPE
		format         chat.Format // nil = verbatim
		conv           *chat.Conversation
		output         string
		terminal, pipe string
		text, thought  string // to be shown to the model again
	}{
		{name: "harmony", tok: harmony, format: gptOSS, conv: &hi,
			output:   "<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>final<|message|>b<|return|>",
			terminal: dim + "a\n\n" + plain + "b", pipe: "b", text: "b", thought: "a"},
		{name: "harmony, cut while reasoning", tok: harmony, format: gptOSS, conv: &hi,
			output: "<|channel|>analysis<|message|>a", terminal: dim + "a" + plain, thought: "a"},
		{name: "harmony, something for the user before the answer", tok: harmony, format: gptOSS, conv: &hi,
			output:   "<|channel|>commentary<|message|>a<|end|><|start|>assistant<|channel|>final<|message|>b<|return|>",
			terminal: "a\nb", pipe: "a\nb", text: "a\nb"},
		{name: "harmony, a tool that nobody offered", tok: harmony, format: gptOSS, conv: &hi,
			output:   "<|channel|>analysis<|message|>a<|end|><|start|>assistant to=functions.f<|channel|>commentary<|message|>{}<|call|>",
			terminal: dim + "a\n{}" + plain, thought: "a"},
		{name: "harmony, without a header", tok: harmony, format: gptOSS, conv: &hi, output: "b c.<|return|>", terminal: "b c.", pipe: "b c.", text: "b c."},
		{name: "answer only", tok: qwen, format: qwen3, conv: &hi, output: "b<|im_end|>", terminal: "b", pipe: "b", text: "b"},
		{name: "the model thinks", tok: qwen, format: qwen3, conv: &hi, output: "<think>\na\n</think>\n\nb<|im_end|>",
			terminal: dim + "a\n\n" + plain + "b", pipe: "b", text: "b", thought: "a"},
		{name: "the prompt ends the reasoning", tok: qwen, format: qwen3, conv: &quick, output: "b", terminal: "b", pipe: "b", text: "b"},
		{name: "verbatim", tok: qwen, output: "<think>a</think>b<|im_end|>", terminal: "<think>a</think>b<|im_end|>",
			pipe: "<think>a</think>b<|im_end|>", text: "<think>a</think>b<|im_end|>"},
		{name: "what steers a terminal", tok: qwen, output: "a\x1b[2Jb", terminal: "a[2Jb", pipe: "a\x1b[2Jb", text: "a\x1b[2Jb"},
	} {
		// Without styles, words stand where codes would; those of dim text that ends in the middle say nothing.
		words := strings.NewReplacer(dim, think, "\n\n"+plain, "\n\n"+speak, plain, "").Replace(c.terminal)
		for want, shown := range map[string]*display{c.pipe + "¦pipe": {}, c.terminal + "¦terminal": {terminal: true, styled: true}, words + "¦plain": {terminal: true}} {
			want, kind, _ := strings.Cut(want, "¦")
			var out bytes.Buffer
			d := shown
			d.w, d.parser = &out, verbatim{c.tok.Detok()}
			if c.format != nil {
				d.parser = c.format.Parser(c.conv)
			}
			for _, id := range markup(c.tok, c.output) {
				d.push(id)
			}
			if d.close(); out.String() != want || d.content.String() != c.text || d.reasoning.String() != c.thought {
				t.Errorf("%s, %s: wrote %q, expected %q; kept %q and %q, expected %q and %q", c.name, kind, out.String(), want,
					d.content.String(), d.reasoning.String(), c.text, c.thought)
			}
		}
	}
}

type fullDisk struct{ err error }

func (f fullDisk) Write([]byte) (int, error) { return 0, f.err }

func TestDisplayKeepsWriteError(t *testing.T) {
	tok := tokenizerOf(t, "qwen3-tiny")
	full := errors.New("no space left")
	d := &display{w: fullDisk{full}, parser: verbatim{tok.Detok()}}
	for _, id := range markup(tok, "ab") {
		d.push(id)
	}
	if d.close(); !errors.Is(d.err, full) {
		t.Errorf("error %v, expected %v", d.err, full)
	}
}
