// Package vocab holds the tokens of a model as forms of output see them: trees of their bytes,
// and which of them are plain text.
package vocab

import (
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"

	"ossian/internal/token"
)

// Bounds of tokens. ShortToken is the most characters of tokens that are not looked at one by one
// where a loop has room for them: a repetition takes one at least.
const (
	MaxToken   = 255 // bytes; longer tokens are never allowed
	MaxPlain   = 64  // characters of a plain token
	ShortToken = 32  // characters
)

// A Vocabulary is a tokenizer as grammars see it: a tree of the bytes of its tokens.
// It takes some 10 MB for 200,000 tokens, is immutable, and serves all grammars.
//
// Nearly all tokens (97 % of gpt-oss's) are plain: whole characters that a JSON string
// may hold as they are. Where any text may stand they are allowed or not by their
// length, and only a second, small tree of the others is read.
type Vocabulary struct {
	Texts []string          // [ids]; "" = never allowed
	Nodes []Node            // the plain tokens, then those that are not plain; each in preorder
	Rest  int32             // root of the second tree
	Order []int32           // the plain tokens in the order of their nodes, those with equal bytes together
	Same  map[int32][]int32 // further ids with the bytes of one
	Below []uint64          // by node of the plain tokens: the groups (GroupOf) of all bytes below it
	Chars []uint8           // by place in Order: characters of the token
	Plain [][]uint64        // [characters]: the plain tokens with at most so many

	Longest int     // bytes of a token, at most MaxToken
	Long    []int32 // tokens of more than ShortToken characters
	Several []int32 // tokens in which an element of a list may end and a comma come
}

// A Node is a node of the tree: the bytes on the way to it, of which the last is Byte,
// begin some tokens. A node's subtree follows it directly, up to End.
type Node struct {
	End    int32  // index behind the subtree
	ID     int32  // the token that ends here, -1 = none
	Kids   uint32 // bit b/8 for each byte b that goes on from here
	Before int32  // tokens of Vocabulary.Order in front of the node's own
	Depth  uint8  // bytes on the way
	Byte   byte   // the last of them
	Height uint8  // of a plain node: the most characters below it, up to MaxPlain; more than that inside of a character
}

// Of prepares t's tokens, which takes some 200 ms. Control and added
// tokens are no text, so a grammar never allows them.
func Of(t *token.BPE) *Vocabulary {
	texts := make([]string, t.Vocab())
	for id := range texts {
		texts[id] = t.Text(int32(id))
	}
	for _, a := range t.Added() {
		if a.ID >= 0 && int(a.ID) < len(texts) {
			texts[a.ID] = ""
		}
	}
	return New(texts)
}

// New is Of for tokens by id, "" = never allowed.
func New(texts []string) *Vocabulary {
	vocabulary := &Vocabulary{Texts: texts, Same: map[int32][]int32{}, Plain: make([][]uint64, MaxPlain+1)}
	for i := range vocabulary.Plain {
		vocabulary.Plain[i] = make([]uint64, vocabulary.Words())
	}
	var plain, rest []int32
	for id, text := range texts {
		if text == "" || len(text) > MaxToken {
			continue
		}
		if vocabulary.Longest = max(vocabulary.Longest, len(text)); Characters(text) > ShortToken {
			vocabulary.Long = append(vocabulary.Long, int32(id))
		}
		if endsElement(text) {
			vocabulary.Several = append(vocabulary.Several, int32(id))
		}
		chars := plainLength(text)
		// Where plain tokens are known by their length, only the second tree is read.
		if chars > MaxPlain {
			rest = append(rest, int32(id))
		} else {
			plain = append(plain, int32(id))
		}
		for ; chars <= MaxPlain; chars++ {
			vocabulary.Plain[chars][id/64] |= 1 << (id % 64)
		}
	}
	vocabulary.grow(plain)
	vocabulary.Rest = int32(len(vocabulary.Nodes))
	vocabulary.measure()
	vocabulary.grow(rest)
	for i := int(vocabulary.Rest); i < len(vocabulary.Nodes); i++ {
		vocabulary.Nodes[i].Before, vocabulary.Nodes[i].Height = int32(len(vocabulary.Order)), MaxPlain+1
	}
	return vocabulary
}

// measure fills in Order, Chars, Below, Before and Height of the nodes of plain tokens.
func (v *Vocabulary) measure() {
	v.Below = make([]uint64, len(v.Nodes))
	heights := make([]uint8, len(v.Nodes)) // characters that begin below
	parents := make([]int32, len(v.Nodes))
	var path [MaxToken + 1]int32 // by depth: the open nodes
	var left [MaxToken + 1]uint8 // by depth: bytes that the last character lacks
	for i := range v.Nodes {
		node := &v.Nodes[i]
		path[node.Depth] = int32(i)
		node.Before = int32(len(v.Order))
		if node.ID >= 0 {
			v.Order = append(append(v.Order, node.ID), v.Same[node.ID]...)
			for len(v.Chars) < len(v.Order) {
				v.Chars = append(v.Chars, uint8(Characters(v.Texts[node.ID])))
			}
		}
		if i == 0 {
			continue
		}
		parents[i] = path[node.Depth-1]
		switch {
		case node.Byte >= 0xf0:
			left[node.Depth] = 3
		case node.Byte >= 0xe0:
			left[node.Depth] = 2
		case node.Byte >= 0xc0:
			left[node.Depth] = 1
		case node.Byte >= 0x80:
			left[node.Depth] = left[node.Depth-1] - 1
		default:
			left[node.Depth] = 0
		}
		if left[node.Depth] > 0 {
			node.Height = MaxPlain + 1
		}
	}
	// Children stand behind their parents.
	for i := len(v.Nodes) - 1; i > 0; i-- {
		height := heights[i]
		if b := v.Nodes[i].Byte; b < 0x80 || b >= 0xc0 {
			height++
		}
		heights[parents[i]] = max(heights[parents[i]], height)
		v.Below[parents[i]] |= v.Below[i] | GroupOf(v.Nodes[i].Byte)
	}
	for i := range v.Nodes {
		if v.Nodes[i].Height == 0 {
			v.Nodes[i].Height = min(heights[i], MaxPlain)
		}
	}
}

// endsElement reports whether text may have a comma that elements of a list are parted by: behind
// it there is space, or what one begins with.
func endsElement(text string) bool {
	for _, behind := range strings.Split(text, ",")[1:] {
		if behind = strings.TrimLeft(behind, " \t\r\n"); behind == "" || strings.IndexByte(`"[{-0123456789tfn`, behind[0]) >= 0 {
			return true
		}
	}
	return false
}

// GroupOf is the bit of the group that a byte of plain characters is in: two neighbours of ASCII,
// or all others.
func GroupOf(b byte) uint64 {
	if b >= 0x80 {
		return 1 // below those of ASCII, where no plain characters are
	}
	return 1 << (b / 2)
}

// Prefix returns the text of a token that begins with the bytes on the way to a node.
func (v *Vocabulary) Prefix(at int32) string {
	for v.Nodes[at].ID < 0 {
		at++ // in preorder, the first token below is ahead
	}
	return v.Texts[v.Nodes[at].ID]
}

// TokensBelow returns the plain tokens that go on from a node of theirs, as a span of Order.
func (v *Vocabulary) TokensBelow(at int32) (from, to int32) {
	node := &v.Nodes[at]
	if from = node.Before; node.ID >= 0 {
		from += int32(1 + len(v.Same[node.ID]))
	}
	return from, v.Nodes[node.End].Before
}

// Words is the length of a mask: one bit for each id.
func (v *Vocabulary) Words() int { return (len(v.Texts) + 63) / 64 }

// Characters returns how many characters begin in text, and one for a part at its beginning.
func Characters(text string) int {
	count := 0
	for i := range len(text) {
		if i == 0 || text[i]&0xc0 != 0x80 {
			count++
		}
	}
	return count
}

// plainLength returns the characters of a plain token, or MaxPlain+1.
func plainLength(text string) int {
	chars := 0
	for i, char := range text {
		if char < 0x20 || char == '"' || char == '\\' || char == 0x2028 || char == 0x2029 || (char == utf8.RuneError && !utf8.ValidString(text[i:])) {
			return MaxPlain + 1
		}
		chars++
	}
	return min(chars, MaxPlain+1)
}

// grow appends a tree of ids.
func (v *Vocabulary) grow(ids []int32) {
	// Sorted by bytes, tokens come in the order of a walk; path is the way to the last one.
	slices.SortFunc(ids, func(a, b int32) int {
		return cmp.Or(cmp.Compare(v.Texts[a], v.Texts[b]), cmp.Compare(a, b))
	})
	v.Nodes = append(v.Nodes, Node{ID: -1})
	var path [MaxToken + 1]int32 // by depth: the open nodes
	path[0] = int32(len(v.Nodes) - 1)
	depth := 0
	last := ""
	for _, id := range ids {
		text := v.Texts[id]
		// Go back to where this token parts from the last one, closing subtrees, then down.
		common := 0
		for common < min(len(text), len(last)) && text[common] == last[common] {
			common++
		}
		for ; depth > common; depth-- {
			v.Nodes[path[depth]].End = int32(len(v.Nodes))
		}
		for ; depth < len(text); depth++ {
			path[depth+1] = int32(len(v.Nodes))
			v.Nodes[path[depth]].Kids |= 1 << (text[depth] / 8)
			v.Nodes = append(v.Nodes, Node{ID: -1, Depth: uint8(depth + 1), Byte: text[depth]})
		}
		if node := &v.Nodes[path[depth]]; node.ID < 0 {
			node.ID = id
		} else if text != "" && !slices.Contains(v.Same[node.ID], id) {
			v.Same[node.ID] = append(v.Same[node.ID], id)
		}
		last = text
	}
	for ; depth >= 0; depth-- {
		v.Nodes[path[depth]].End = int32(len(v.Nodes))
	}
}
