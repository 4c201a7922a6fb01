package generate

import (
	"context"
	"fmt"
	"ossian/internal/grammar"
	"ossian/internal/host"
	"ossian/internal/token"
	"slices"
	"sync"
	"testing"
)

// Grammars are compiled once for all who wait, kept while there is room, and not at all
// for those who have left.
func TestGrammars(t *testing.T) {
	tok, err := token.Harmony()
	if err != nil {
		t.Fatal(err)
	}
	model := &host.Model{Tokenizer: tok}
	held := int64(-1)
	c := newGrammars(grammar.NewVocabulary, func(n int64) { held = n })
	src := func(i int) grammar.Source {
		return grammar.Source{Kind: grammar.Choice, Choices: []string{fmt.Sprint(i)}}
	}
	const room = 1 << 30
	var all [8]*grammar.Grammar
	var wg sync.WaitGroup
	for i := range all {
		wg.Go(func() { all[i], _ = c.compile(t.Context(), model, src(0), room) })
	}
	wg.Wait()
	if all[0] == nil || slices.ContainsFunc(all[:], func(x *grammar.Grammar) bool { return x != all[0] }) {
		t.Errorf("compiled %v", all)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(ErrGone)
	if _, err := c.compile(ctx, model, src(1), room); err != ErrGone {
		t.Errorf("nobody waits: %v", err)
	}
	if _, err := c.compile(t.Context(), model, src(1), room); err != nil {
		t.Errorf("after one who has left: %v", err)
	}
	if len(c.known) != 2 || held < all[0].Bytes() {
		t.Errorf("%d grammars of %d bytes are kept", len(c.known), held)
	}
	last, err := c.compile(t.Context(), model, src(2), 0)
	if err != nil || len(c.known) != 1 || held != last.Bytes() {
		t.Errorf("without room %d are kept, %d bytes: %v", len(c.known), held, err)
	}
	if _, err := c.compile(t.Context(), model, grammar.Source{Kind: grammar.Regex, Text: "("}, room); err == nil || len(c.known) != 1 {
		t.Errorf("what does not compile: %v, %d kept", err, len(c.known))
	}
}
