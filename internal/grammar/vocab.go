package grammar

import (
	"cmp"
	"slices"
	"unicode/utf8"

	"ossian/internal/token"
)

const (
	maxToken = 255 // bytes; longer tokens are never allowed
	maxPlain = 64  // characters of a plain token
)

// A Vocabulary is a tokenizer as grammars see it: a tree of the bytes of its tokens.
// It takes some 10 MB for 200,000 tokens, is immutable, and serves all grammars.
//
// Nearly all tokens (97 % of gpt-oss's) are plain: whole characters that a JSON string
// may hold as they are. Where any text may stand they are allowed or not by their
// length, and only a second, small tree of the others is read.
type Vocabulary struct {
	texts []string          // [ids]; "" = never allowed
	nodes []trieNode        // the plain tokens, then those that are not plain; each in preorder
	rest  int32             // root of the second tree
	order []int32           // the plain tokens in the order of their nodes, those with equal bytes together
	same  map[int32][]int32 // further ids with the bytes of one
	plain [][]uint64        // [characters]: the plain tokens with at most so many

	longest int     // bytes of a token, at most maxToken
	long    []int32 // tokens of more than shortToken characters
}

// A trieNode is a node of the tree: the bytes on the way to it, of which the last is b,
// begin some tokens. A node's subtree follows it directly, up to end.
type trieNode struct {
	end    int32  // index behind the subtree
	id     int32  // the token that ends here, -1 = none
	kids   uint32 // bit b/8 for each byte b that goes on from here
	before int32  // tokens of Vocabulary.order in front of the node's own
	depth  uint8  // bytes on the way
	b      byte   // the last of them
	height uint8  // of a plain node: the most characters below it, up to maxPlain; more than that inside of a character
}

// NewVocabulary prepares t's tokens, which takes some 200 ms. Control and added
// tokens are no text, so a grammar never allows them.
func NewVocabulary(t *token.BPE) *Vocabulary {
	texts := make([]string, t.Vocab())
	for id := range texts {
		texts[id] = t.Text(int32(id))
	}
	for _, a := range t.Added() {
		if a.ID >= 0 && int(a.ID) < len(texts) {
			texts[a.ID] = ""
		}
	}
	return newVocabulary(texts)
}

func newVocabulary(texts []string) *Vocabulary {
	v := &Vocabulary{texts: texts, same: map[int32][]int32{}, plain: make([][]uint64, maxPlain+1)}
	for i := range v.plain {
		v.plain[i] = make([]uint64, v.Words())
	}
	var plain, rest []int32
	for id, text := range texts {
		if text == "" || len(text) > maxToken {
			continue
		}
		if v.longest = max(v.longest, len(text)); characters(text) > shortToken {
			v.long = append(v.long, int32(id))
		}
		chars := plainLength(text)
		// Where plain tokens are known by their length, only the second tree is read.
		if chars > maxPlain {
			rest = append(rest, int32(id))
		} else {
			plain = append(plain, int32(id))
		}
		for ; chars <= maxPlain; chars++ {
			v.plain[chars][id/64] |= 1 << (id % 64)
		}
	}
	v.grow(plain)
	v.rest = int32(len(v.nodes))
	v.measure()
	v.grow(rest)
	for i := int(v.rest); i < len(v.nodes); i++ {
		v.nodes[i].before, v.nodes[i].height = int32(len(v.order)), maxPlain+1
	}
	return v
}

// measure fills in order, before and height of the nodes of plain tokens.
func (v *Vocabulary) measure() {
	heights := make([]uint8, len(v.nodes)) // characters that begin below
	parents := make([]int32, len(v.nodes))
	var path [maxToken + 1]int32 // by depth: the open nodes
	var left [maxToken + 1]uint8 // by depth: bytes that the last character lacks
	for i := range v.nodes {
		node := &v.nodes[i]
		path[node.depth] = int32(i)
		node.before = int32(len(v.order))
		if node.id >= 0 {
			v.order = append(append(v.order, node.id), v.same[node.id]...)
		}
		if i == 0 {
			continue
		}
		parents[i] = path[node.depth-1]
		switch {
		case node.b >= 0xf0:
			left[node.depth] = 3
		case node.b >= 0xe0:
			left[node.depth] = 2
		case node.b >= 0xc0:
			left[node.depth] = 1
		case node.b >= 0x80:
			left[node.depth] = left[node.depth-1] - 1
		default:
			left[node.depth] = 0
		}
		if left[node.depth] > 0 {
			node.height = maxPlain + 1
		}
	}
	// Children stand behind their parents.
	for i := len(v.nodes) - 1; i > 0; i-- {
		height := heights[i]
		if b := v.nodes[i].b; b < 0x80 || b >= 0xc0 {
			height++
		}
		heights[parents[i]] = max(heights[parents[i]], height)
	}
	for i := range v.nodes {
		if v.nodes[i].height == 0 {
			v.nodes[i].height = min(heights[i], maxPlain)
		}
	}
}

// prefix returns the text of a token that begins with the bytes on the way to a node.
func (v *Vocabulary) prefix(at int32) string {
	for v.nodes[at].id < 0 {
		at++ // in preorder, the first token below is ahead
	}
	return v.texts[v.nodes[at].id]
}

// Words is the length of a mask: one bit for each id.
func (v *Vocabulary) Words() int { return (len(v.texts) + 63) / 64 }

// characters returns how many characters begin in text, and one for a part at its beginning.
func characters(text string) int {
	count := 0
	for i := range len(text) {
		if i == 0 || text[i]&0xc0 != 0x80 {
			count++
		}
	}
	return count
}

// plainLength returns the characters of a plain token, or maxPlain+1.
func plainLength(text string) int {
	chars := 0
	for i, char := range text {
		if char < 0x20 || char == '"' || char == '\\' || char == 0x2028 || char == 0x2029 || (char == utf8.RuneError && !utf8.ValidString(text[i:])) {
			return maxPlain + 1
		}
		chars++
	}
	return min(chars, maxPlain+1)
}

// grow appends a tree of ids.
func (v *Vocabulary) grow(ids []int32) {
	// Sorted by bytes, tokens come in the order of a walk; path is the way to the last one.
	slices.SortFunc(ids, func(a, b int32) int {
		return cmp.Or(cmp.Compare(v.texts[a], v.texts[b]), cmp.Compare(a, b))
	})
	v.nodes = append(v.nodes, trieNode{id: -1})
	var path [maxToken + 1]int32 // by depth: the open nodes
	path[0] = int32(len(v.nodes) - 1)
	depth := 0
	last := ""
	for _, id := range ids {
		text := v.texts[id]
		// Go back to where this token parts from the last one, closing subtrees, then down.
		common := 0
		for common < min(len(text), len(last)) && text[common] == last[common] {
			common++
		}
		for ; depth > common; depth-- {
			v.nodes[path[depth]].end = int32(len(v.nodes))
		}
		for ; depth < len(text); depth++ {
			path[depth+1] = int32(len(v.nodes))
			v.nodes[path[depth]].kids |= 1 << (text[depth] / 8)
			v.nodes = append(v.nodes, trieNode{id: -1, depth: uint8(depth + 1), b: text[depth]})
		}
		if node := &v.nodes[path[depth]]; node.id < 0 {
			node.id = id
		} else if text != "" && !slices.Contains(v.same[node.id], id) {
			v.same[node.id] = append(v.same[node.id], id)
		}
		last = text
	}
	for ; depth >= 0; depth-- {
		v.nodes[path[depth]].end = int32(len(v.nodes))
	}
}
