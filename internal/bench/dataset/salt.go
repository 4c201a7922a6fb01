package dataset

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"ossian/internal/token"
)

// salted is how many tokens of a prompt Salt replaces: enough that no two runs draw the
// same (4096 words each, so 96 bits).
const saltedTokens = 8

// Salt returns queries with other beginnings, so that a server that saw them before does
// not have them in its prefix cache (bench.md 6, item 6): the first tokens of a prompt
// are replaced by words that follow from salt and from the replaced tokens. Lengths stay,
// and prompts that began alike still do. Of a conversation that is the first turn.
func Salt(queries []Query, bpe *token.BPE, salt string) ([]Query, error) {
	if bpe == nil {
		return nil, errors.New("a salt is made of tokens: name a tokenizer with --tokenizer, drop --skip-tokenizer-init")
	}
	coder, err := newCoder(bpe)
	if err != nil {
		return nil, err
	}
	words := coder.words()
	out := slices.Clone(queries)
	for i := range out {
		if query := &out[i]; query.Turn == 0 {
			if err := coder.salt(query, words, salt); err != nil {
				return nil, fmt.Errorf("query %d: %w", i, err)
			}
		}
	}
	return out, nil
}

// salt replaces the beginning of a query's prompt.
func (c *textCoder) salt(query *Query, words []int32, salt string) error {
	ids := slices.Clone(c.promptIDs(query))
	head := ids[:min(saltedTokens, len(ids))]
	if len(head) == 0 || slices.ContainsFunc(head, c.bpe.IsControl) {
		return errors.New("a salt needs a prompt that begins with text; --skip-chat-template sends prompts without the template's tokens")
	}
	// The seed has the replaced tokens in it, so what began alike still does, and nothing else.
	seed := []byte(salt)
	for _, id := range head {
		seed = binary.LittleEndian.AppendUint32(seed, uint32(id))
	}
	rng := rand.New(rand.NewChaCha8(sha256.Sum256(seed)))
	draw := func() int32 { return words[rng.IntN(len(words))] }
	for i := range head {
		head[i] = draw()
	}
	if query.IDs != nil {
		query.IDs = ids
		return nil
	}
	text, fitted := c.fit(ids, len(ids), draw)
	query.Prompt, query.Input = text, query.Input+len(fitted)-len(ids)
	return nil
}

// promptIDs is the prompt of a query as tokens.
func (c *textCoder) promptIDs(query *Query) []int32 {
	if query.IDs != nil {
		return query.IDs
	}
	return c.encode(query.Prompt)
}
