package kvevents

// An Observer turns what a loop does with its blocks into events (engine.PrefixObserver). It is
// used by one goroutine, and waits for nobody.
//
// What subscribers know are prefixes by hash. A block whose parent is gone is found no more,
// although its content is still there, so all behind a block go with it; and no two blocks that can
// be found have one hash, for behind one parent the cache has each content once.
type Observer struct {
	publisher *Publisher
	seed      digest
	nodes     map[uint64]*node // by serial; those that can be found
	events    []event          // since the last Flush
	scratch   []byte
}

// A node is a block that can be found: the end of a prefix. Its children are a list.
type node struct {
	serial                 uint64
	digest                 digest
	parent, child          *node // nil = none
	nextSibling, prevChild *node
}

func newObserver(p *Publisher) *Observer {
	return &Observer{publisher: p, seed: seedDigest(p.cfg.Seed), nodes: map[uint64]*node{}}
}

// Stored implements kv.Observer.
func (o *Observer) Stored(serial, parent, salt uint64, tokens []int32) {
	added := &node{serial: serial, parent: o.nodes[parent]}
	if parent != 0 && added.parent == nil {
		return // a sequence goes on behind blocks of which an earlier one is gone: nobody finds it
	}
	before := o.seed
	if added.parent != nil {
		before = added.parent.digest
		added.nextSibling = added.parent.child
		if added.nextSibling != nil {
			added.nextSibling.prevChild = added
		}
		added.parent.child = added
		salt = 0 // it is in the digest of the first block, and so in all
	}
	added.digest, o.scratch = blockDigest(o.scratch, before, tokens, salt)
	o.nodes[serial] = added
	o.tell(added, salt, tokens)
}

// tell appends the event of a stored block, or makes the last event longer.
func (o *Observer) tell(added *node, salt uint64, tokens []int32) {
	if last := len(o.events) - 1; last >= 0 && added.parent != nil && o.events[last].kind == stored && o.events[last].end == added.parent {
		grown := &o.events[last]
		grown.hashes, grown.tokens, grown.end = append(grown.hashes, added.digest.hash()), append(grown.tokens, tokens...), added
		return
	}
	made := event{kind: stored, hashes: []uint64{added.digest.hash()}, tokens: append([]int32(nil), tokens...), blockSize: len(tokens), salt: salt, end: added}
	if added.parent != nil {
		made.parent, made.behind = added.parent.digest.hash(), true
	}
	o.events = append(o.events, made)
}

// Found implements kv.Observer: whoever knows the block knows it still.
func (o *Observer) Found(uint64) {}

// Removed implements kv.Observer.
func (o *Observer) Removed(serial uint64) {
	gone := o.nodes[serial]
	if gone == nil {
		return // with its parent
	}
	o.unlink(gone)
	if last := len(o.events) - 1; last < 0 || o.events[last].kind != removed {
		o.events = append(o.events, event{kind: removed})
	}
	hashes := &o.events[len(o.events)-1].hashes
	// The block and all behind it, without a stack: the next one is a child, or else a sibling of
	// the nearest one above that has some.
	for at := gone; at != nil; {
		*hashes = append(*hashes, at.digest.hash())
		delete(o.nodes, at.serial)
		if at.child != nil {
			at = at.child
			continue
		}
		for at != gone && at.nextSibling == nil {
			at = at.parent
		}
		if at == gone {
			break
		}
		at = at.nextSibling
	}
}

// unlink takes a node out of its parent's list.
func (o *Observer) unlink(node *node) {
	switch {
	case node.prevChild != nil:
		node.prevChild.nextSibling = node.nextSibling
	case node.parent != nil:
		node.parent.child = node.nextSibling
	}
	if node.nextSibling != nil {
		node.nextSibling.prevChild = node.prevChild
	}
	node.nextSibling, node.prevChild = nil, nil
}

// Flush implements engine.PrefixObserver: what was told is published as one message.
func (o *Observer) Flush() {
	if len(o.events) == 0 {
		return
	}
	o.publisher.publish(o, o.events)
	clear(o.events)
	o.events = o.events[:0]
}
