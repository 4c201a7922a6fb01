package token

import (
	"encoding/binary"
	"hash/maphash"
	"math/bits"
)

// A table maps keys other than 0 to a rank and an id. Lookups of the encoder end
// in it, and a slot is self-contained: one cache line instead of a map's three.
type table struct {
	slots []slot // a power of two of them, at most half of them in use
	shift int
	odd   uint64 // a random multiplier: nobody can prepare a file with slow lookups
}

// A slot is one entry of a table.
type slot struct {
	key uint64 // 0 = free
	merge
}

// newTable returns a table for up to n keys.
func newTable(n int, seed maphash.Seed) table {
	size := bits.Len(uint(2*n + 1))
	return table{slots: make([]slot, 1<<size), shift: 64 - size, odd: maphash.String(seed, "") | 1}
}

// at returns the slot of key, or the free slot where it belongs.
func (t *table) at(key uint64) *slot {
	mask := uint64(len(t.slots) - 1)
	for i := key * t.odd >> t.shift; ; i++ {
		if found := &t.slots[i&mask]; found.key == key || found.key == 0 {
			return found
		}
	}
}

// pair is the key of two neighbours.
func pair(left, right int32) uint64 { return uint64(left+1)<<32 | uint64(right) }

// longKey marks keys of strings that do not fit into one: those are hashes.
const longKey = 1 << 63

// key packs up to 7 bytes and their number, or a hash of more bytes. text is not empty.
func (t *BPE) key(text string) uint64 {
	size := len(text)
	switch {
	case size > 7:
		return maphash.String(t.seed, text) | longKey
	case size >= 4:
		low, high := le32(text), le32(text[size-4:])
		return uint64(size)<<56 | high<<(8*(size-4)) | low
	}
	return uint64(size)<<56 | uint64(text[size-1])<<(8*(size-1)) | uint64(text[size/2])<<(8*(size/2)) | uint64(text[0])
}

// le32 is the first 4 bytes as a number.
func le32(text string) uint64 {
	return uint64(binary.LittleEndian.Uint32([]byte(text[:4])))
}

// lookup returns the token that is piece as a whole.
func (t *BPE) lookup(piece string) (id int32, ok bool) {
	key := t.key(piece)
	found := t.pieces.at(key)
	if found.key == 0 || (key >= longKey && t.Text(found.id) != piece) {
		return 0, false
	}
	return found.id, true
}
