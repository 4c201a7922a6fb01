package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"slices"
)

// The database maps its file and believes what it finds there: a flipped bit in a
// page that holds no record can make it return wrong answers, fault, or recurse
// for ever. So the file is read here first, with every number checked, before it
// is opened. The layout is bbolt's version 2 (go.etcd.io/bbolt, internal/common):
// pages of 4 KiB, little endian; two meta pages with checksums, written in turn; a
// list of free pages; trees whose leaves hold keys and values. A transaction writes
// free pages only, syncs, writes the older meta page and syncs again.

const (
	pageSize   = 4096
	pageHeader = 16 // id 8, type 2, count 2, overflow 4
	elemSize   = 16 // branch: pos 4, key size 4, page 8; leaf: flags 4, pos 4, key size 4, value size 4
	metaLength = 64 // behind the header
	maxDepth   = 40
	branchPage = 0x01
	leafPage   = 0x02
	freePage   = 0x10
	longList   = 0xFFFF // count of a free list whose length is its first entry
)

type pgid uint64

// meta is where the trees of one transaction are.
type meta struct {
	root, free, high pgid // high: the first page behind all
	txid             uint64
}

var le = binary.LittleEndian

// parseMeta takes a meta page apart, and says whether it is one.
func parseMeta(page []byte) (meta, bool) {
	fields := page[pageHeader : pageHeader+metaLength]
	sum := fnv.New64a()
	sum.Write(fields[:56])
	ok := le.Uint32(fields) == 0xED0CDAED && le.Uint32(fields[4:]) == 2 && le.Uint32(fields[8:]) == pageSize && le.Uint64(fields[56:]) == sum.Sum64()
	return meta{root: pgid(le.Uint64(fields[16:])), free: pgid(le.Uint64(fields[32:])), high: pgid(le.Uint64(fields[40:])), txid: le.Uint64(fields[48:])}, ok
}

// newestMeta returns the later of the valid meta pages in the file's first two.
func newestMeta(pages []byte) (meta, error) {
	first, firstOK := parseMeta(pages)
	second, secondOK := parseMeta(pages[pageSize:])
	switch {
	case firstOK && (!secondOK || first.txid > second.txid):
		return first, nil
	case secondOK:
		return second, nil
	}
	return meta{}, &DamageError{"", "neither meta page is valid: where what is, and how long the file was, is not known"}
}

// mendMeta changes the one byte that makes a meta page valid, and reports whether
// there is one. Without it damage to the newer page would take the last transaction
// back; a page torn by a crash has no such byte.
func mendMeta(page []byte) bool {
	fields := page[pageHeader : pageHeader+metaLength]
	for at, was := range fields {
		for change := 1; change < 256; change++ {
			fields[at] = was ^ byte(change)
			if _, ok := parseMeta(page); ok {
				return true
			}
		}
		fields[at] = was
	}
	return false
}

// A pageSet has one bit for each page.
type pageSet []uint64

func (s pageSet) has(p pgid) bool { return s[p/64]>>(p%64)&1 != 0 }
func (s pageSet) set(p pgid)      { s[p/64] |= 1 << (p % 64) }
func (s pageSet) clear(p pgid)    { s[p/64] &^= 1 << (p % 64) }

// image is a database file read without trust.
type image struct {
	r       io.ReaderAt
	salt    salt
	size    int64 // of the file in bytes
	meta    meta
	high    pgid     // whole pages in the file that may be in use
	mended  []byte   // both meta pages when one had to be mended
	mending string   // which it was, and how
	used    pageSet  // pages that the trees and the free list occupy
	free    pageSet  // pages in the free list
	bufs    [][]byte // one page for each level of the walk

	sparse    bool  // most of a large file waits for reuse
	metaErr   error // a meta page cannot be mended: of the last change nothing may be left
	treeErr   error // the trees cannot be walked
	freeErr   error // the list of free pages does not fit them
	freeKnown bool  // the list itself could be read

	// Of a walk that goes on behind what it cannot read (salvage.go).
	tolerant bool
	gaps     map[bucket][]gap // what it passed over, in the order of keys
	walked   map[bucket]bool  // the trees that it found
	stop     error            // the visitor's: the walk ends
	unusable func(Range)      // told what holds nothing that can be used; nil = nobody asks
}

// An element is a key with its value, on page in a tree. Both are valid during the
// visit.
type element struct {
	bucket bucket
	key    []byte
	run    *run
	off    int64 // of the value in run
	size   int64
}

// value reads the element's value.
func (e *element) value() ([]byte, error) { return e.run.bytes(e.off, e.size) }

// openImage reads the meta pages of a file of size bytes. Without a valid one nothing is
// known of the file but that it may hold values.
func openImage(file io.ReaderAt, size int64, of salt) (*image, error) {
	pages := make([]byte, 2*pageSize) // what is cut off is zero
	if _, err := file.ReadAt(pages[:min(size, 2*pageSize)], 0); err != nil && size > 0 {
		return nil, fmt.Errorf("store: database file of %d bytes: meta pages: %w", size, err)
	}
	im := &image{r: file, salt: of, size: size, high: pgid(size / pageSize), walked: map[bucket]bool{}}
	broken := -1
	for number, page := range [][]byte{pages[:pageSize], pages[pageSize:]} {
		if _, ok := parseMeta(page); ok {
			continue
		}
		if mendMeta(page) {
			im.mended, im.mending = pages, mendedText
		} else {
			broken = number
		}
	}
	var err error
	if im.meta, err = newestMeta(pages); err != nil {
		im.metaErr = errors.New("neither meta page is valid: where what is, and how long the file was, is not known")
		return im, nil
	}
	if broken >= 0 {
		im.succeed(pages, broken)
	}
	im.high = min(im.high, im.meta.high)
	return im, nil
}

// end is the first byte behind all that may be in use.
func (im *image) end() int64 {
	if im.meta.high == 0 {
		return im.size
	}
	return min(im.size, int64(im.meta.high)*pageSize)
}

// inspect reads the trees and the free list, sets treeErr and freeErr, and calls
// visit with every element that a sound file has.
func (im *image) inspect(visit func(*element) error) error {
	im.treeErr, im.freeErr = nil, nil
	im.used, im.free = make(pageSet, im.high/64+1), make(pageSet, im.high/64+1)
	im.freeErr = im.readFree()
	im.freeKnown = im.freeErr == nil
	if im.treeErr = im.walk(visit); im.stop != nil {
		return im.stop
	}
	// Each page is in use or free: one that is neither would be lost, one that is both
	// overwritten.
	if im.treeErr == nil && im.meta.high > im.high {
		im.freeErr = fmt.Errorf("the file ends at page %d of %d", im.high, im.meta.high)
	}
	for page := pgid(2); page < im.high && im.treeErr == nil && im.freeErr == nil; page++ {
		if im.used.has(page) == im.free.has(page) {
			im.freeErr = fmt.Errorf("page %d: in use %v, free %v", page, im.used.has(page), im.free.has(page))
		}
	}
	return nil
}

// walk calls visit with every element of the trees. An error of visit ends it, and is in
// stop; the other errors are those of the file.
func (im *image) walk(visit func(*element) error) error {
	im.stop = nil
	return im.tree(0, im.meta.root, nil, nil, 0, func(found *element) error {
		im.stop = visit(found)
		return im.stop
	})
}

// run is a page with those behind it that belong to it, or a small bucket inside
// the value of another.
type run struct {
	r            io.ReaderAt // the file
	base, size   int64       // in the file
	buf          []byte      // the first page of it, or all
	flags, count int
}

// bytes returns n bytes from off in the run on.
func (r *run) bytes(off, n int64) ([]byte, error) {
	if off < 0 || n < 0 || off+n > r.size {
		return nil, fmt.Errorf("offset %d: %d bytes at %d of %d", r.base, n, off, r.size)
	}
	if off+n <= int64(len(r.buf)) {
		return r.buf[off : off+n : off+n], nil
	}
	out := make([]byte, n)
	_, err := r.r.ReadAt(out, r.base+off)
	return out, err
}

// read reads the page p and claims it with its overflow.
func (im *image) read(page pgid, depth int) (*run, error) {
	if page >= im.high && page < im.meta.high {
		return nil, fmt.Errorf("page %d: behind the end of the file", page)
	}
	// Pages 0 and 1 are the meta pages.
	if page < 2 || page >= im.high || depth >= maxDepth {
		return nil, fmt.Errorf("page %d at depth %d: want pages 2 to %d, depth below %d", page, depth, im.high, maxDepth)
	}
	for len(im.bufs) <= depth {
		im.bufs = append(im.bufs, make([]byte, pageSize))
	}
	buf := im.bufs[depth]
	if _, err := im.r.ReadAt(buf, int64(page)*pageSize); err != nil {
		return nil, fmt.Errorf("page %d: %w", page, err)
	}
	last := page + pgid(le.Uint32(buf[12:]))
	if id := pgid(le.Uint64(buf)); id != page || last >= im.high {
		return nil, fmt.Errorf("page %d: says it is %d and ends with %d of %d", page, id, last, im.high)
	}
	// Each page is claimed once: a tree that meets itself, or another, is damaged.
	for part := page; part <= last; part++ {
		if im.used.has(part) {
			return nil, fmt.Errorf("page %d: used twice", part)
		}
		im.used.set(part)
	}
	return &run{r: im.r, base: int64(page) * pageSize, size: int64(last-page+1) * pageSize, buf: buf,
		flags: int(le.Uint16(buf[8:])), count: int(le.Uint16(buf[10:]))}, nil
}

// readFree reads the list of free pages.
func (im *image) readFree() error {
	pages, err := im.read(im.meta.free, 0)
	if err != nil {
		return err
	}
	count, at := int64(pages.count), int64(pageHeader)
	if pages.count == longList {
		first, err := pages.bytes(at, 8)
		if err != nil {
			return err
		}
		count, at = int64(min(le.Uint64(first), uint64(pages.size))), at+8
	}
	if pages.flags != freePage {
		return fmt.Errorf("page %d: type %#x, want the free list", im.meta.free, pages.flags)
	}
	list, err := pages.bytes(at, 8*count)
	if err != nil {
		return err
	}
	// In ascending order, so none is in it twice.
	for before := pgid(1); len(list) > 0; list = list[8:] {
		page := pgid(le.Uint64(list))
		if page <= before || page >= im.meta.high {
			return fmt.Errorf("free list on page %d: page %d after %d, want them to grow below %d", im.meta.free, page, before, im.meta.high)
		}
		if page <= im.high { // a file that was cut has less, the last perhaps in part
			im.free.set(page)
		}
		before = page
	}
	return nil
}

// tree walks the tree of bucket b, 0 for that of the buckets, whose keys begin with
// lo and are below hi; nil is no bound. A tolerant walk notes what it cannot read and
// goes on; it has visited nothing below that.
func (im *image) tree(b bucket, page pgid, lo, hi []byte, depth int, visit func(*element) error) error {
	node, err := im.read(page, depth)
	if err == nil {
		err = im.node(b, node, lo, hi, depth, visit)
	}
	if err == nil || !im.tolerant || im.stop != nil {
		return err
	}
	if node != nil { // so that a scan looks there
		for part := range pgid(node.size / pageSize) {
			im.used.clear(page + part)
		}
	}
	im.gaps[b] = append(im.gaps[b], gap{bytes.Clone(lo), bytes.Clone(hi), page, err})
	return nil
}

// node walks one page and what is below it. A tolerant walk checks the page as a whole
// before it visits anything.
func (im *image) node(b bucket, node *run, lo, hi []byte, depth int, visit func(*element) error) error {
	step := im.leaf
	switch node.flags {
	case leafPage:
	case branchPage:
		step = im.branch
	default:
		return fmt.Errorf("offset %d: type %#x in a tree", node.base, node.flags)
	}
	if im.tolerant {
		if err := step(b, node, lo, hi, depth, nil); err != nil {
			return err
		}
	}
	return step(b, node, lo, hi, depth, visit)
}

// branch checks a branch page and, unless visit is nil, walks its children, each with the
// keys its entry and the next one give it.
func (im *image) branch(b bucket, node *run, lo, hi []byte, depth int, visit func(*element) error) error {
	var child pgid
	var from []byte // the child's first key or less
	end := int64(pageHeader + elemSize*node.count)
	for entry := range node.count + 1 {
		// Key and child of this entry; behind the last one, the page's own bound.
		to := hi
		var next pgid
		if entry < node.count {
			at := int64(pageHeader + elemSize*entry)
			header, err := node.bytes(at, elemSize)
			if err != nil {
				return err
			}
			if to, err = node.bytes(end, int64(le.Uint32(header[4:]))); err != nil {
				return err
			}
			if at+int64(le.Uint32(header)) != end || len(to) == 0 || !ordered(from, to, lo, hi) {
				return fmt.Errorf("offset %d: branch entry %d: key of %d bytes out of place", node.base, entry, len(to))
			}
			end += int64(len(to))
			next = pgid(le.Uint64(header[8:]))
		}
		if entry > 0 && visit != nil {
			if err := im.tree(b, child, from, to, depth+1, visit); err != nil {
				return err
			}
		}
		child, from = next, to
	}
	if node.count == 0 {
		return fmt.Errorf("offset %d: branch page without entries", node.base)
	}
	return nil
}

// ordered reports whether key may follow before, nil for none, on a page for keys
// from lo to below hi. The first key is lo itself: the database looks a page up in
// its parent by it, and a transaction on one where it differs corrupts the file.
func ordered(before, key, lo, hi []byte) bool {
	if before == nil && lo != nil && !bytes.Equal(key, lo) {
		return false
	}
	return bytes.Compare(before, key) < 0 && (hi == nil || bytes.Compare(key, hi) < 0)
}

// leaf checks a leaf page and, unless visit is nil, visits its elements. Keys and values lie behind the entries
// without gaps, in their order.
func (im *image) leaf(b bucket, node *run, lo, hi []byte, depth int, visit func(*element) error) error {
	var before []byte
	visited := &element{bucket: b, run: node}
	end := int64(pageHeader + elemSize*node.count)
	for entry := range node.count {
		at := int64(pageHeader + elemSize*entry)
		header, err := node.bytes(at, elemSize)
		if err != nil {
			return err
		}
		flags, pos, keySize, size := le.Uint32(header), int64(le.Uint32(header[4:])), int64(le.Uint32(header[8:])), int64(le.Uint32(header[12:]))
		key, err := node.bytes(end, keySize)
		if err != nil {
			return err
		}
		if at+pos != end || keySize == 0 || end+keySize+size > node.size || !ordered(before, key, lo, hi) || flags != flagsIn(b) {
			return fmt.Errorf("offset %d: leaf entry %d: key of %d bytes out of place", node.base, entry, keySize)
		}
		visited.key, visited.off, visited.size = key, end+keySize, size
		switch {
		case visit == nil:
		case b == 0:
			err = im.nested(visited, depth, visit)
		default:
			err = visit(visited)
		}
		if err != nil {
			return err
		}
		before, end = key, end+keySize+size
	}
	if node.count > 0 {
		return nil
	}
	// A count of 0 by a flipped bit would hide all entries.
	rest, err := node.bytes(end, node.size-end)
	if err == nil && len(bytes.Trim(rest, "\x00")) > 0 {
		err = fmt.Errorf("offset %d: a leaf of no entries that is not empty", node.base)
	}
	return err
}

// flagsIn returns the flags of a leaf entry: 1 for a bucket.
func flagsIn(b bucket) uint32 {
	if b == 0 {
		return 1
	}
	return 0
}

// nested walks the bucket that entry describes. A tolerant walk passes over one that cannot be
// known, and goes on with the next.
func (im *image) nested(entry *element, depth int, visit func(*element) error) error {
	err := im.bucket(entry, depth, visit)
	if im.tolerant && im.stop == nil {
		return nil
	}
	return err
}

// bucket walks the bucket that entry describes: root page 8, sequence 8, and when the
// root is 0 the bucket's only page.
func (im *image) bucket(entry *element, depth int, visit func(*element) error) error {
	value, err := entry.value()
	if err != nil {
		return err
	}
	if len(entry.key) != 1 || !slices.Contains(buckets, bucket(entry.key[0])) || len(value) < 16 {
		return fmt.Errorf("bucket %q of %d bytes is not known", entry.key, len(value))
	}
	inner := bucket(entry.key[0])
	if root := pgid(le.Uint64(value)); root != 0 {
		im.walked[inner] = true
		return im.tree(inner, root, nil, nil, depth+1, visit)
	}
	value = value[16:]
	if len(value) < pageHeader || le.Uint64(value) != 0 || le.Uint16(value[8:]) != leafPage {
		return fmt.Errorf("bucket %q: its page is none", entry.key)
	}
	small := &run{r: im.r, base: entry.run.base + entry.off + 16, size: int64(len(value)), buf: value, count: int(le.Uint16(value[10:])), flags: leafPage}
	if err := im.node(inner, small, nil, nil, depth, visit); err != nil {
		return err
	}
	im.walked[inner] = true
	return nil
}
