package main

import (
	"bytes"
	"errors"
	"testing"

	"ossian/internal/ckpt"
	"ossian/internal/synth"
	"ossian/internal/token"
)

// tokenizerOf returns the tokenizer of a synthetic preset.
func tokenizerOf(t *testing.T, preset string) *token.BPE {
	t.Helper()
	t.Chdir(t.TempDir())
	writeSynthetic(t, preset, preset, synth.Options{})
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

func TestDisplay(t *testing.T) {
	harmony, qwen := tokenizerOf(t, "gpt-oss-tiny"), tokenizerOf(t, "qwen3-tiny")
	for _, c := range []struct {
		name                 string
		tok                  *token.BPE
		prompt, output       string
		terminal, pipe, text string
	}{
		{name: "harmony", tok: harmony, prompt: "<|start|>assistant",
			output:   "<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>final<|message|>b",
			terminal: dim + "a\n\n" + plain + "b", pipe: "b", text: "b"},
		{name: "harmony, cut while reasoning", tok: harmony, prompt: "<|start|>assistant",
			output: "<|channel|>analysis<|message|>a", terminal: dim + "a" + plain},
		{name: "answer only", tok: qwen, prompt: "<|im_start|>assistant\n", output: "b", terminal: "b", pipe: "b", text: "b"},
		{name: "the model thinks", tok: qwen, prompt: "<|im_start|>assistant\n", output: "<think>a</think>b",
			terminal: dim + "a" + plain + "b", pipe: "b", text: "b"},
		{name: "the prompt begins the reasoning", tok: qwen, prompt: "<|im_start|>assistant\n<think>\n", output: "a</think>b",
			terminal: dim + "a" + plain + "b", pipe: "b", text: "b"},
		{name: "the prompt ends the reasoning", tok: qwen, prompt: "<think>\n\n</think>\n\n", output: "b", terminal: "b", pipe: "b", text: "b"},
	} {
		for _, terminal := range []bool{true, false} {
			want := c.pipe
			if terminal {
				want = c.terminal
			}
			var out bytes.Buffer
			d := newDisplay(&out, c.tok, markup(c.tok, c.prompt), terminal, false)
			for _, id := range markup(c.tok, c.output) {
				d.push(id)
			}
			if d.close(); out.String() != want || d.text.String() != c.text || d.answered != (c.text != "") {
				t.Errorf("%s, terminal %v: wrote %q, expected %q; kept %q, expected %q; answered %v", c.name, terminal, out.String(), want, d.text.String(), c.text, d.answered)
			}
		}
	}
}

type fullDisk struct{ err error }

func (f fullDisk) Write([]byte) (int, error) { return 0, f.err }

func TestDisplayKeepsWriteError(t *testing.T) {
	tok := tokenizerOf(t, "qwen3-tiny")
	full := errors.New("no space left")
	d := newDisplay(fullDisk{full}, tok, nil, false, false)
	for _, id := range markup(tok, "ab") {
		d.push(id)
	}
	if d.close(); !errors.Is(d.err, full) {
		t.Errorf("error %v, expected %v", d.err, full)
	}
}
