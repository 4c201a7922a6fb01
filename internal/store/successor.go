package store

// A meta page that cannot be read, nor mended, may have been the newer of the two: then the other
// leads to the state before the last change, which was acknowledged. The pages of that change
// were synced before its meta page was written, and nobody has written over them since, so the
// state behind is looked for in the file: a page that has the buckets and the stamp of the next
// transaction is its root, and of the lists of free pages its own is the one with which each page
// is in use or free, exactly once. An older state whose pages happen to be there still has
// another stamp.

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"math/bits"
)

const (
	remadeText    = "a meta page, which is made again: all that it led to is there"
	partlyText    = ", and of the change that it led to only a part is in the file: what that stored, changed or deleted is lost"
	newestText    = ", and as far as the file shows it led to an older state than the other"
	ambiguousText = ": the last change before that may be missing"
)

// stamp notes in the page of the buckets which transaction wrote it.
func (t *txn) stamp() {
	if err := t.bucket(data).SetSequence(uint64(t.tx.ID())); err != nil && t.err == nil {
		t.err = fmt.Errorf("store: stamp: %w", err)
	}
}

// stampOf returns the stamp of a page that has the buckets, 0 for one that has not, or has none.
func stampOf(page []byte) uint64 {
	if le.Uint16(page[8:]) != leafPage || int(le.Uint16(page[10:])) != len(buckets) {
		return 0
	}
	stamp := uint64(0)
	for entry := range buckets {
		at := pageHeader + entry*elemSize
		off, size := at+int(le.Uint32(page[at+4:])), le.Uint32(page[at+12:])
		if le.Uint32(page[at:]) != flagsIn(0) || le.Uint32(page[at+8:]) != 1 || size < 16 || off+1+16 > len(page) {
			return 0
		}
		if bucket(page[off]) == data {
			stamp = le.Uint64(page[off+1+8:])
		}
	}
	return stamp
}

// succeed takes up the state behind im.meta if it is whole in the file, and says in metaErr what
// is known of it otherwise. pages are the first two, of which the one called broken is lost.
func (im *image) succeed(pages []byte, broken int) {
	next := im.meta.txid + 1
	roots, lists, own := im.candidates(next)
	if next%2 == uint64(broken) && len(roots) == 1 { // more than one: a change was cut off there and made again
		if found, ok := im.complete(meta{root: roots[0], txid: next}, lists); ok {
			lost := pages[broken*pageSize:][:pageSize]
			copy(lost, pages[(1-broken)*pageSize:][:pageSize])
			found.put(lost, broken)
			im.meta, im.mended, im.mending = found, pages, remadeText
			return
		}
	}
	about := ambiguousText
	switch {
	case len(roots) > 0:
		about = partlyText
	case own == im.meta.txid:
		about = newestText
	}
	im.metaErr = fmt.Errorf("meta page %d of two is not valid%s", broken, about)
}

// candidates returns the pages that may be the root of transaction txid, those that say they
// begin a list of free pages, and the stamp of the root that im.meta has.
func (im *image) candidates(txid uint64) (roots, lists []pgid, own uint64) {
	buf := make([]byte, 1<<20)
	for at := int64(0); at < im.size; at += int64(len(buf)) {
		got, _ := im.r.ReadAt(buf[:min(int64(len(buf)), im.size-at)], at) // what cannot be read holds none
		for off := 0; off+pageSize <= got; off += pageSize {
			page, id := buf[off:][:pageSize], pgid((at+int64(off))/pageSize)
			switch {
			case id < 2 || pgid(le.Uint64(page)) != id:
			case le.Uint16(page[8:]) == freePage:
				lists = append(lists, id)
			case id == im.meta.root:
				own = stampOf(page)
			case stampOf(page) == txid:
				roots = append(roots, id)
			}
		}
	}
	return roots, lists, own
}

// complete finds, among lists, the free pages that belong to the trees of found, and where the
// state ends; false when its trees or its list are not whole.
func (im *image) complete(found meta, lists []pgid) (meta, bool) {
	end := pgid(im.size / pageSize)
	found.high = end
	probe := &image{r: im.r, salt: im.salt, size: im.size, high: end, meta: found, walked: map[bucket]bool{}}
	probe.used = make(pageSet, end/64+1)
	if probe.walk(func(*element) error { return nil }) != nil {
		return meta{}, false
	}
	inTrees := probe.used
	// A list belongs to the trees if every page is in one of the two: of lists of other states some
	// are in both, or in none.
	for _, list := range lists {
		probe.used, probe.free = append(pageSet(nil), inTrees...), make(pageSet, end/64+1)
		if probe.meta.free = list; probe.readFree() != nil {
			continue
		}
		if high, ok := probe.parted(); ok && high >= im.meta.high {
			probe.meta.high = high
			return probe.meta, true
		}
	}
	return meta{}, false
}

// parted reports whether each page up to the last that is in use or free is one of the two, and
// returns the page behind.
func (im *image) parted() (high pgid, ok bool) {
	for at := range im.used {
		if im.used[at]&im.free[at] != 0 {
			return 0, false
		}
		if word := im.used[at] | im.free[at]; word != 0 {
			high = pgid(at*64 + bits.Len64(word))
		}
	}
	for page := pgid(2); page < high; page++ {
		if !im.used.has(page) && !im.free.has(page) {
			return 0, false
		}
	}
	return high, true
}

// put writes m over a meta page, which becomes the one of that number.
func (m meta) put(page []byte, number int) {
	binary.LittleEndian.PutUint64(page, uint64(number))
	fields := page[pageHeader : pageHeader+metaLength]
	for at, value := range map[int]uint64{16: uint64(m.root), 32: uint64(m.free), 40: uint64(m.high), 48: m.txid} {
		le.PutUint64(fields[at:], value)
	}
	sum := fnv.New64a()
	sum.Write(fields[:56])
	le.PutUint64(fields[56:], sum.Sum64())
}
