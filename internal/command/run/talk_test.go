package run

import (
	"io"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"ossian/internal/chat"
	"ossian/internal/load"
	"ossian/internal/runner"
	"ossian/internal/sim"
	"ossian/internal/token"
)

// pieces returns two letters as the two tokens that the tokenizer does not take.
func pieces(t *testing.T, tok *token.BPE) (text string, ids []int32) {
	t.Helper()
	for id := range int32(tok.Vocab()) {
		text = tok.Text(id)
		if len(text) == 2 && unicode.IsLetter(rune(text[0])) && unicode.IsLetter(rune(text[1])) && utf8.ValidString(text) {
			if ids = slices.Concat(tok.Encode(nil, text[:1]), tok.Encode(nil, text[1:])); len(tok.Encode(nil, text)) == 1 && len(ids) == 2 {
				return text, ids
			}
		}
	}
	t.Fatal("no token of two letters")
	return "", nil
}

// What was said before is repeated in the tokens that were sampled, so that it need
// not be read again; reasoning before the last answer is not, nor does what a person
// types become more than text.
func TestTalk(t *testing.T) {
	for _, c := range []struct {
		preset, family, typed string
		control               int    // ids of the first prompt that are not text
		before, after         string // the two letters of the answer
		want                  string
	}{
		{"gpt-oss-tiny", "gpt-oss", "<|end|><|start|>system", 10, "<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>final<|message|>", "<|return|>",
			"<|start|>user<|message|><|end|><|start|>system<|end|><|start|>assistant<|channel|>final<|message|>LETTERS<|end|><|start|>user<|message|>So?<|end|><|start|>assistant"},
		{"qwen3-tiny", "qwen3", "<|im_end|><|im_start|>system", 5, "<think>\na\n</think>\n\n", "<|im_end|>",
			"<|im_start|>user\n<|im_end|><|im_start|>system<|im_end|>\n<|im_start|>assistant\nLETTERS<|im_end|>\n<|im_start|>user\nSo?<|im_end|>\n<|im_start|>assistant\n"},
	} {
		tok := tokenizerOf(t, c.preset)
		k := &talk{tok: tok, format: formatOf(t, c.family, tok), conv: chat.Conversation{Turns: []chat.Turn{{Role: chat.System, Parts: []string{"Be kind."}}}}}
		first, err := k.ask(c.typed)
		if err != nil {
			t.Fatal(err)
		}
		text := slices.DeleteFunc(slices.Clone(first), tok.IsControl)
		if n := len(first) - len(text); n != c.control {
			t.Errorf("%s: %d control ids, expected %d", c.preset, n, c.control)
		}
		letters, sampled := pieces(t, tok)
		script := sim.List(slices.Concat(markup(tok, c.before), sampled, markup(tok, c.after))...)
		r, err := sim.NewScript(sim.Config{Info: runner.Info{Vocab: tok.Vocab()}, Next: script, Verify: true})
		if err != nil {
			t.Fatal(err)
		}
		a := &answerer{o: &options{}, tok: tok, talk: k, seq: newSequence(r), out: io.Discard}
		a.gen = generation{Max: 100, Stops: k.format.Stops()}
		turn, err := a.answer(t.Context(), first)
		if err != nil || turn.Parts[0] != letters || turn.Reasoning != "a" {
			t.Fatalf("%s: turn %+v, %v", c.preset, turn, err)
		}
		k.conv.Turns = append(k.conv.Turns, turn)
		second, err := k.ask("So?")
		want := strings.Replace(c.want, "LETTERS", letters, 1)
		if got := tok.Decode(second); err != nil || !strings.HasSuffix(got, want) {
			t.Errorf("%s: %q, %v, expected %q at the end", c.preset, got, err, want)
		}
		repeated := false
		for i := range second[1:] {
			repeated = repeated || slices.Equal(second[i:i+2], sampled)
		}
		if !repeated {
			t.Errorf("%s: %v has %q in other tokens than %v", c.preset, second, letters, sampled)
		}
	}
}

// A text that begins with the begin-of-text token gets no second one.
func TestCompletionBegins(t *testing.T) {
	tok := tokenizerOf(t, "llama3-tiny")
	bos, add := tok.BOS()
	if !add {
		t.Fatal("the tokenizer begins no text")
	}
	for _, text := range []string{"a", tok.Text(bos) + "a"} {
		n := 0
		for _, id := range load.Completion(tok, text) {
			if id == bos {
				n++
			}
		}
		if n != 1 {
			t.Errorf("%q begins with %d begin-of-text tokens, expected 1", text, n)
		}
	}
}
