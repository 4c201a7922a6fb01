package generate

import (
	"context"
	"slices"
	"testing"

	"ossian/internal/chat"
	"ossian/internal/grammar"
	"ossian/internal/sched"
	"ossian/internal/token"
)

// SPC-4: what keeps bad words and other ids out of the texts of an answer says of guesses what it
// says of them one by one, in headers of harmony and in text, and stays where it is.
func TestSPC4Restrict(t *testing.T) {
	tok, err := token.Harmony()
	if err != nil {
		t.Fatal(err)
	}
	format, err := chat.New(chat.Facts{Family: "gpt-oss", Tokenizer: tok})
	if err != nil {
		t.Fatal(err)
	}
	vocab := grammar.NewVocabulary(tok)
	compile := func(src grammar.Source) (*grammar.Grammar, error) {
		return grammar.Compile(context.Background(), src, vocab)
	}
	conv := &chat.Conversation{Turns: []chat.Turn{{Role: chat.User, Parts: []string{"Hi"}}}}
	held, err := format.Constraint(conv, &chat.Rules{}, compile)
	if err != nil {
		t.Fatal(err)
	}
	prompt := tok.Prompt()
	prompt.Markup("<|channel|>analysis<|message|>one two<|end|><|start|>assistant<|channel|>final<|message|>one two three one four")
	all := prompt.IDs()
	bad := [][]int32{tok.Encode(nil, " two three"), tok.Encode(nil, " four")}
	only := make([]uint64, (tok.Vocab()+63)/64)
	for i := range only {
		only[i] = ^uint64(0)
	}
	never := tok.Encode(nil, " one")[0]
	only[never/64] &^= 1 << (never % 64)
	formatted := constraints(held)
	for name, fresh := range map[string]Constraints{
		"words":                filters(bad, nil),
		"words and ids":        filters(bad, only),
		"format and words":     merge(formatted, filters(bad, nil)),
		"format and all of it": merge(formatted, filters(bad, only)),
	} {
		c, stopped := fresh(), 0
		for at := range all {
			guesses := all[at:]
			if n := checkAhead(t, name, fresh, c, all[:at], guesses, len(only)); n < len(guesses) {
				stopped++
			}
			if err := c.Accept(all[at]); err != nil {
				t.Fatal(err)
			}
		}
		if stopped == 0 {
			t.Errorf("%s: nothing was refused", name)
		}
	}
}

// checkAhead compares c.Ahead with reading one by one from the beginning.
func checkAhead(t *testing.T, name string, fresh Constraints, c sched.Constraint, read, guesses []int32, words int) int {
	t.Helper()
	masks := make([][]uint64, len(guesses))
	for i := range masks {
		masks[i] = make([]uint64, words)
	}
	before, after, mask := make([]uint64, words), make([]uint64, words), make([]uint64, words)
	if err := c.Mask(before); err != nil {
		t.Fatal(err)
	}
	n := c.Ahead(guesses, masks)
	if err := c.Mask(after); err != nil || !slices.Equal(before, after) {
		t.Fatalf("%s: behind %d ids the mask changed: %v", name, len(read), err)
	}
	again := fresh()
	for _, id := range read {
		if err := again.Accept(id); err != nil {
			t.Fatal(err)
		}
	}
	for i, id := range guesses {
		refused := (i > 0 && mask[id/64]>>(id%64)&1 == 0) || again.Accept(id) != nil || again.Mask(mask) != nil
		if refused != (i >= n) || (!refused && !slices.Equal(mask, masks[i])) {
			t.Fatalf("%s: behind %d ids: %d guesses allowed; guess %d one by one: refused %t", name, len(read), n, i, refused)
		}
		if refused {
			break
		}
	}
	return n
}
