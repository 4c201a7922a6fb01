// Package mask makes sets of ids, one bit each: those that stand for text, and those
// with which one of some texts goes on. Who holds a model to a format need not look
// through its vocabulary, nor know how its words are spelled in ids.
package mask

import (
	"math"
	"slices"
	"strings"

	"ossian/internal/token"
)

// Text is the ids of a vocabulary that stand for text. Masks are shared, and nobody
// writes to them.
type Text struct {
	Any    []uint64 // all of them
	First  []uint64 // those that an answer may begin with that is no call without tags
	Breaks []int32  // those of line breaks alone
}

// OfText looks through a vocabulary. Added tokens among except are no text.
func OfText(tok *token.BPE, except ...int32) Text {
	found := Text{Any: make([]uint64, (tok.Vocab()+63)/64), First: make([]uint64, (tok.Vocab()+63)/64)}
	for id := range int32(tok.Vocab()) {
		text := tok.Text(id)
		if text == "" || tok.IsControl(id) || slices.Contains(except, id) {
			continue
		}
		found.Any[id/64] |= 1 << (id % 64)
		if begins := strings.TrimLeft(text, " \t\r\n"); begins != "" && !strings.ContainsRune("{[<", rune(begins[0])) {
			found.First[id/64] |= 1 << (id % 64)
		}
		if strings.Trim(text, "\n") == "" {
			found.Breaks = append(found.Breaks, id)
		}
	}
	return found
}

// All allows all ids.
func All(dst []uint64) {
	for i := range dst {
		dst[i] = math.MaxUint64
	}
}

// Allow adds ids to dst; negative ones are none.
func Allow(dst []uint64, ids ...int32) {
	for _, id := range ids {
		if id >= 0 && int(id/64) < len(dst) {
			dst[id/64] |= 1 << (id % 64)
		}
	}
}
