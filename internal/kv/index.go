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
	blockSize int
	nodes     []node
	ids       []int32            // [node·size]
	others    [][]runner.BlockID // [group][node] where the other groups hold the same tokens; NoBlock = no longer
	buckets   []int32            // first node of each hash value
	mask      uint64             // of hash values; a test narrows it
	seed      maphash.Seed       // random: nobody can choose prompts that collide
	serial    uint64             // the last one given
	key       []byte             // scratch
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
	nodes := groups[anchor].Blocks
	idx := index{blockSize: size, nodes: make([]node, nodes), ids: make([]int32, nodes*size), others: make([][]runner.BlockID, len(groups)), seed: maphash.MakeSeed()}
	idx.buckets = slices.Repeat([]int32{none}, 1<<bits.Len(uint(nodes)))
	idx.mask = uint64(len(idx.buckets) - 1)
	for group := range groups {
		if group != anchor {
			idx.others[group] = slices.Repeat([]runner.BlockID{runner.NoBlock}, nodes)
		}
	}
	return idx
}

func (idx *index) place(number int32) place { return place{number, idx.nodes[number].serial} }

// find returns the node with these ids behind the one with that serial, or none.
func (idx *index) find(parent, salt uint64, ids []int32) int32 {
	number := idx.buckets[idx.bucket(parent, salt, ids)]
	for number != none {
		node := &idx.nodes[number]
		if node.parent == parent && node.salt == salt && slices.Equal(idx.ids[int(number)*idx.blockSize:][:idx.blockSize], ids) {
			break
		}
		number = node.next
	}
	return number
}

// insert makes number, which has no content, a node.
func (idx *index) insert(number int32, parent, salt uint64, ids []int32) {
	idx.serial++
	bucket := idx.bucket(parent, salt, ids)
	copy(idx.ids[int(number)*idx.blockSize:], ids)
	idx.nodes[number] = node{serial: idx.serial, parent: parent, salt: salt, bucket: bucket, next: idx.buckets[bucket]}
	idx.buckets[bucket] = number
}

func (idx *index) remove(number int32) {
	at := &idx.buckets[idx.nodes[number].bucket]
	for *at != number {
		at = &idx.nodes[*at].next
	}
	*at = idx.nodes[number].next
	idx.nodes[number] = node{}
}

func (idx *index) bucket(parent, salt uint64, ids []int32) int32 {
	key := binary.LittleEndian.AppendUint64(idx.key[:0], parent)
	key = binary.LittleEndian.AppendUint64(key, salt)
	for _, id := range ids {
		key = binary.LittleEndian.AppendUint32(key, uint32(id))
	}
	idx.key = key
	return int32(maphash.Bytes(idx.seed, key) & idx.mask)
}
