package synth

import (
	"fmt"
	"slices"
	"strings"

	"ossian/internal/token"
)

// Token types of tokenizer.ggml.token_type, formats.md 6.
const (
	ordinary = 1
	control  = 3 // added and special
	user     = 4 // added, not special
	unused   = 5
)

// harmonyText is the number of ordinary tokens of o200k, formats.md 9.
const harmonyText = 199998

// A vocabulary is a byte-level vocabulary with the control tokens of a published
// one. Ordinary tokens are made up, except those of a full-size gpt-oss.
type vocabulary struct {
	style  Tokenizer
	tokens []string // in id order, the embedding's unused rows included
	kinds  []int32
	merges [][2]string
	ids    map[string]int // of control tokens

	bos, eos, pad string
	stops         []string
}

// controls lists the control tokens in id order (formats.md 9-11). A name with
// "!" in front is not special.
func controls(style Tokenizer) []string {
	switch style {
	case Harmony:
		return strings.Fields("<|startoftext|> <|endoftext|> ? ? <|return|> <|constrain|> ? <|channel|> <|start|> <|end|> <|message|> ? ? ? <|call|> ? ? ? ? ? <|endofprompt|>")
	case Qwen:
		return strings.Fields("<|endoftext|> <|im_start|> <|im_end|> <|object_ref_start|> <|object_ref_end|> <|box_start|> <|box_end|> <|quad_start|> <|quad_end|> " +
			"<|vision_start|> <|vision_end|> <|vision_pad|> <|image_pad|> <|video_pad|> !<tool_call> !</tool_call> !<|fim_prefix|> !<|fim_middle|> !<|fim_suffix|> !<|fim_pad|> " +
			"!<|repo_name|> !<|file_sep|> !<tool_response> !</tool_response> !<think> !</think>")
	case SmolLM:
		return strings.Fields("<|endoftext|> <|im_start|> <|im_end|> <repo_name> <reponame> <file_sep> <filename> <gh_stars> <issue_start> <issue_comment> <issue_closed> " +
			"<jupyter_start> <jupyter_text> <jupyter_code> <jupyter_output> <jupyter_script> <empty_output>")
	}
	return append(strings.Fields("<|begin_of_text|> <|end_of_text|> ? ? ? ? <|start_header_id|> <|end_header_id|> <|eom_id|> <|eot_id|>"),
		slices.Repeat([]string{"?"}, 246)...)
}

// specials counts the control tokens.
func (m *Model) specials() int { return len(controls(m.Tokenizer)) }

// newVocabulary makes the vocabulary of a model, with as many tokens as its embedding has rows.
func newVocabulary(model *Model) (*vocabulary, error) {
	vocab := &vocabulary{style: model.Tokenizer, ids: map[string]int{}}
	// Ids are given in the order of adding: SmolLM begins with its control tokens, the others have
	// them behind the ordinary ones, and unused rows come last.
	if vocab.style == SmolLM {
		vocab.addControls()
	}
	if vocab.style == Harmony && model.Text == harmonyText {
		if err := vocab.addHarmony(); err != nil {
			return nil, err
		}
	} else {
		alphabet := alphabet()
		for _, s := range alphabet {
			vocab.add(s, ordinary)
		}
		vocab.addMerges(model.Text - len(alphabet))
	}
	if vocab.style != SmolLM {
		vocab.addControls()
	}
	for len(vocab.tokens) < model.Vocab {
		vocab.add(fmt.Sprintf("[PAD%d]", len(vocab.tokens)), unused)
	}
	switch vocab.style {
	case Harmony:
		vocab.bos, vocab.eos, vocab.pad, vocab.stops = "<|startoftext|>", "<|return|>", "<|endoftext|>", []string{"<|return|>", "<|endoftext|>", "<|call|>"}
	case Qwen:
		vocab.bos, vocab.eos, vocab.pad, vocab.stops = "<|endoftext|>", "<|im_end|>", "<|endoftext|>", []string{"<|im_end|>", "<|endoftext|>"}
	case SmolLM:
		vocab.bos, vocab.eos, vocab.pad, vocab.stops = "<|im_start|>", "<|im_end|>", "<|im_end|>", []string{"<|im_end|>"}
	case Llama3:
		vocab.bos, vocab.eos, vocab.pad, vocab.stops = "<|begin_of_text|>", "<|eot_id|>", "<|end_of_text|>", []string{"<|end_of_text|>", "<|eom_id|>", "<|eot_id|>"}
	}
	return vocab, nil
}

// id is the id of a control token.
func (v *vocabulary) id(name string) int { return v.ids[name] }

// add appends a token; its id is the number of those before it.
func (v *vocabulary) add(token string, kind int32) {
	v.tokens, v.kinds = append(v.tokens, token), append(v.kinds, kind)
}

// addControls adds the control tokens of the style and notes their ids.
func (v *vocabulary) addControls() {
	for _, name := range controls(v.style) {
		kind := int32(control)
		if name == "?" {
			name = fmt.Sprintf("<|reserved_%d|>", len(v.tokens))
		} else if plain, ok := strings.CutPrefix(name, "!"); ok {
			name, kind = plain, user
		}
		v.ids[name] = len(v.tokens)
		v.add(name, kind)
	}
}

// alphabet is the printable stand-in of every byte, formats.md 7.
func alphabet() [256]string {
	var letters [256]string
	next := rune(256)
	for b := range letters {
		r := rune(b)
		if b < 33 || (b > 126 && b < 161) || b == 173 {
			r, next = next, next+1
		}
		letters[b] = string(r)
	}
	return letters
}

// addHarmony adds the real o200k. A token merges from every two tokens that give
// it, in the order of ids (formats.md 7).
func (v *vocabulary) addHarmony() error {
	harmony, err := token.Harmony()
	if err != nil {
		return err
	}
	ids := make(map[string]bool, harmonyText)
	for id := range int32(harmonyText) {
		ids[harmony.Text(id)] = true
	}
	// Tokens are spelled in the alphabet of bytes. Every split of one into two tokens is a merge.
	letters := alphabet()
	spell := func(text string) string {
		var out strings.Builder
		for i := range len(text) {
			out.WriteString(letters[text[i]])
		}
		return out.String()
	}
	for id := range int32(harmonyText) {
		text := harmony.Text(id)
		v.add(spell(text), ordinary)
		for i := 1; i < len(text); i++ {
			if ids[text[:i]] && ids[text[i:]] {
				v.merges = append(v.merges, [2]string{spell(text[:i]), spell(text[i:])})
			}
		}
	}
	return nil
}

// frequent are the pairs of letters that English text uses most.
const frequent = "th he in er an re on at en nd ti es or te of ed is it al ar st to nt ng se ha as ou io le ve co me de hi ri ro ic ne ea ra ce li ch ll be ma si om ur et el la ta"

// addMerges adds n tokens: a space before each letter, frequent pairs, all pairs,
// then all strings of three and four letters, so that text becomes shorter in any
// vocabulary.
func (v *vocabulary) addMerges(n int) {
	// merge counts n down; what came before is not added again.
	seen := map[string]bool{}
	merge := func(a, b string) {
		if n > 0 && !seen[a+b] {
			seen[a+b] = true
			n--
			v.add(a+b, ordinary)
			v.merges = append(v.merges, [2]string{a, b})
		}
	}
	letters := strings.Split("abcdefghijklmnopqrstuvwxyz", "")
	var pairs []string
	for _, a := range letters {
		merge("Ġ", a)
		for _, b := range letters {
			pairs = append(pairs, a+b)
		}
	}
	for _, pair := range append(strings.Fields(frequent), pairs...) {
		merge(pair[:1], pair[1:])
	}
	for _, tail := range append(letters, pairs...) {
		for _, head := range pairs {
			if n == 0 {
				return
			}
			merge(head, tail)
		}
	}
}
