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
const salted = 8

// Salt returns queries with other beginnings, so that a server that saw them before does
// not have them in its prefix cache (bench.md 6, item 6): the first tokens of a prompt
// are replaced by words that follow from salt and from the replaced tokens. Lengths stay,
// and prompts that began alike still do. Of a conversation that is the first turn.
func Salt(queries []Query, t *token.BPE, salt string) ([]Query, error) {
	if t == nil {
		return nil, errors.New("a salt is made of tokens: name a tokenizer with --tokenizer, drop --skip-tokenizer-init")
	}
	c, err := newCoder(t)
	if err != nil {
		return nil, err
	}
	words := c.words()
	out := slices.Clone(queries)
	for i := range out {
		if q := &out[i]; q.Turn == 0 {
			if err := c.salt(q, words, salt); err != nil {
				return nil, fmt.Errorf("query %d: %w", i, err)
			}
		}
	}
	return out, nil
}

func (c *coder) salt(q *Query, words []int32, salt string) error {
	ids := slices.Clone(c.ids(q))
	head := ids[:min(salted, len(ids))]
	if len(head) == 0 || slices.ContainsFunc(head, c.bpe.IsControl) {
		return errors.New("a salt needs a prompt that begins with text; --skip-chat-template sends prompts without the template's tokens")
	}
	seed := []byte(salt)
	for _, id := range head {
		seed = binary.LittleEndian.AppendUint32(seed, uint32(id))
	}
	g := rand.New(rand.NewChaCha8(sha256.Sum256(seed)))
	draw := func() int32 { return words[g.IntN(len(words))] }
	for i := range head {
		head[i] = draw()
	}
	if q.IDs != nil {
		q.IDs = ids
		return nil
	}
	text, fitted := c.fit(ids, len(ids), draw)
	q.Prompt, q.Input = text, q.Input+len(fitted)-len(ids)
	return nil
}

// ids is the prompt of q as tokens.
func (c *coder) ids(q *Query) []int32 {
	if q.IDs != nil {
		return q.IDs
	}
	return c.encode(q.Prompt)
}
