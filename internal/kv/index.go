package kv

import (
	"encoding/binary"
	"hash/maphash"
	"math/bits"
	"slices"

	"ossian/internal/runner"
)

// An index finds the block that holds given tokens behind given others. A node is
// the content of one block; nodes are numbered like the blocks of the anchor group
// that hold them. A node's serial number is never used again, so "the same tokens
// behind the node with that serial" means the same whole prefix: a hit is certain
// by induction, whatever the hash does. Nodes whose parent is gone are never
// found and leave as their blocks are reused.
type index struct {
	size    int
	nodes   []node
	ids     []int32            // [node·size]
	others  [][]runner.BlockID // [group][node] where the other groups hold the same tokens; NoBlock = no longer
	buckets []int32            // first node of each hash value
	mask    uint64             // of hash values; a test narrows it
	seed    maphash.Seed       // random: nobody can choose prompts that collide
	serial  uint64             // the last one given
	key     []byte             // scratch
}

type node struct {
	serial uint64 // 0 = no content
	parent uint64 // serial of the node before, 0 = at the beginning
	salt   uint64
	bucket int32
	next   int32 // in the same bucket
}

// A place is a node at the time of its serial.
type place struct {
	node   int32
	serial uint64
}

func newIndex(size int, groups []runner.Group, anchor int) index {
	n := groups[anchor].Blocks
	x := index{size: size, nodes: make([]node, n), ids: make([]int32, n*size), others: make([][]runner.BlockID, len(groups)), seed: maphash.MakeSeed()}
	x.buckets = slices.Repeat([]int32{none}, 1<<bits.Len(uint(n)))
	x.mask = uint64(len(x.buckets) - 1)
	for g := range groups {
		if g != anchor {
			x.others[g] = slices.Repeat([]runner.BlockID{runner.NoBlock}, n)
		}
	}
	return x
}

func (x *index) place(n int32) place { return place{n, x.nodes[n].serial} }

// find returns the node with these ids behind the one with that serial, or none.
func (x *index) find(parent, salt uint64, ids []int32) int32 {
	n := x.buckets[x.bucket(parent, salt, ids)]
	for n != none {
		d := &x.nodes[n]
		if d.parent == parent && d.salt == salt && slices.Equal(x.ids[int(n)*x.size:][:x.size], ids) {
			break
		}
		n = d.next
	}
	return n
}

// insert makes n, which has no content, a node.
func (x *index) insert(n int32, parent, salt uint64, ids []int32) {
	x.serial++
	b := x.bucket(parent, salt, ids)
	copy(x.ids[int(n)*x.size:], ids)
	x.nodes[n] = node{serial: x.serial, parent: parent, salt: salt, bucket: b, next: x.buckets[b]}
	x.buckets[b] = n
}

func (x *index) remove(n int32) {
	at := &x.buckets[x.nodes[n].bucket]
	for *at != n {
		at = &x.nodes[*at].next
	}
	*at = x.nodes[n].next
	x.nodes[n] = node{}
}

func (x *index) bucket(parent, salt uint64, ids []int32) int32 {
	k := binary.LittleEndian.AppendUint64(x.key[:0], parent)
	k = binary.LittleEndian.AppendUint64(k, salt)
	for _, id := range ids {
		k = binary.LittleEndian.AppendUint32(k, uint32(id))
	}
	x.key = k
	return int32(maphash.Bytes(x.seed, k) & x.mask)
}
