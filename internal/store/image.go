package store

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"io"
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
	return meta{}, &DamageError{"", "neither meta page is valid"}
}

// mendMeta turns over the one bit that makes a meta page valid, and reports whether
// there is one. Without it a flip in the newer page would silently take the last
// transaction back; a page torn by a crash has no such bit.
func mendMeta(page []byte) bool {
	fields := page[pageHeader : pageHeader+metaLength]
	for bit := range 8 * metaLength {
		fields[bit/8] ^= 1 << (bit % 8)
		if _, ok := parseMeta(page); ok {
			return true
		}
		fields[bit/8] ^= 1 << (bit % 8)
	}
	return false
}

// Bits are a set of pages.
type bits []uint64

func (b bits) has(p pgid) bool { return b[p/64]>>(p%64)&1 != 0 }
func (b bits) set(p pgid)      { b[p/64] |= 1 << (p % 64) }

// image is a database file read without trust.
type image struct {
	r      io.ReaderAt
	salt   salt
	meta   meta
	high   pgid     // pages in the file that may be in use
	mended []byte   // both meta pages when one had to be mended
	used   bits     // pages that the trees and the free list occupy
	free   bits     // pages in the free list
	bufs   [][]byte // one page for each level of the walk

	sparse  bool  // most of a large file waits for reuse
	treeErr error // the trees cannot be walked
	freeErr error // the list of free pages does not fit them
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

// openImage reads the meta pages of a file of size bytes.
func openImage(file io.ReaderAt, size int64, of salt) (*image, error) {
	pages := make([]byte, 2*pageSize)
	if _, err := file.ReadAt(pages, 0); err != nil {
		return nil, fmt.Errorf("store: database file of %d bytes: meta pages: %w", size, err)
	}
	im := &image{r: file, salt: of}
	for _, page := range [][]byte{pages[:pageSize], pages[pageSize:]} {
		if _, ok := parseMeta(page); !ok && mendMeta(page) {
			im.mended = pages
		}
	}
	var err error
	if im.meta, err = newestMeta(pages); err != nil {
		return nil, err
	}
	im.high = min(im.meta.high, pgid(size/pageSize))
	return im, nil
}

// inspect reads the trees and the free list, sets treeErr and freeErr, and calls
// visit with every element that a sound file has.
func (im *image) inspect(visit func(*element) error) error {
	im.treeErr, im.freeErr = nil, nil
	im.used, im.free = make(bits, im.high/64+1), make(bits, im.high/64+1)
	im.freeErr = im.readFree()
	var stop error
	im.treeErr = im.tree(0, im.meta.root, nil, nil, 0, func(e *element) error {
		stop = visit(e)
		return stop
	})
	if stop != nil {
		return stop
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

// elements calls visit with every element after inspect: those of the trees, or
// what can be found without them.
func (im *image) elements(visit func(b bucket, key, value []byte) error) error {
	if im.treeErr != nil {
		return im.scan(visit)
	}
	clear(im.used)
	return im.tree(0, im.meta.root, nil, nil, 0, func(found *element) error {
		value, err := found.value()
		if err != nil {
			return nil // a sector that cannot be read: its record will be found incomplete
		}
		return visit(found.bucket, found.key, value)
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
		if page <= before || page >= im.high {
			return fmt.Errorf("free list on page %d: page %d after %d, want them to grow below %d", im.meta.free, page, before, im.high)
		}
		im.free.set(page)
		before = page
	}
	return nil
}

// tree walks the tree of bucket b, 0 for that of the buckets, whose keys begin with
// lo and are below hi; nil is no bound.
func (im *image) tree(b bucket, page pgid, lo, hi []byte, depth int, visit func(*element) error) error {
	node, err := im.read(page, depth)
	if err != nil {
		return err
	}
	switch node.flags {
	case leafPage:
		return im.leaf(b, node, lo, hi, depth, visit)
	case branchPage:
		return im.branch(b, node, lo, hi, depth, visit)
	}
	return fmt.Errorf("page %d: type %#x in a tree", page, node.flags)
}

// branch checks a branch page and walks its children, each with the keys its entry and the
// next one give it.
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
		if entry > 0 {
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

// leaf checks a leaf page and visits its elements. Keys and values lie behind the entries
// without gaps, in their order.
func (im *image) leaf(b bucket, node *run, lo, hi []byte, depth int, visit func(*element) error) error {
	var before []byte
	e := &element{bucket: b, run: node}
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
		e.key, e.off, e.size = key, end+keySize, size
		if b == 0 {
			err = im.nested(e, depth, visit)
		} else {
			err = visit(e)
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

// nested walks the bucket that e describes: root page 8, sequence 8, and when the
// root is 0 the bucket's only page.
func (im *image) nested(entry *element, depth int, visit func(*element) error) error {
	value, err := entry.value()
	if err != nil {
		return err
	}
	if len(entry.key) != 1 || !bytes.Contains([]byte{byte(data), byte(ids), byte(refs), byte(active), byte(about)}, entry.key) || len(value) < 16 {
		return fmt.Errorf("bucket %q of %d bytes is not known", entry.key, len(value))
	}
	b := bucket(entry.key[0])
	if root := pgid(le.Uint64(value)); root != 0 {
		return im.tree(b, root, nil, nil, depth+1, visit)
	}
	value = value[16:]
	if len(value) < pageHeader || le.Uint64(value) != 0 || le.Uint16(value[8:]) != leafPage {
		return fmt.Errorf("bucket %q: its page is none", entry.key)
	}
	small := &run{r: im.r, base: entry.run.base + entry.off + 16, size: int64(len(value)), buf: value, count: int(le.Uint16(value[10:]))}
	return im.leaf(b, small, nil, nil, depth, visit)
}

// scan finds elements without the trees: on every page that is not free, those
// whose checksum fits. The salt keeps stored text from looking like one.
func (im *image) scan(visit func(b bucket, key, value []byte) error) error {
	const largest = 10 * chunk // of a leaf: one with more than four values is split
	buf, base, size := make([]byte, 1<<20), int64(0), int64(0)
	for page := pgid(2); page < im.high; {
		if im.freeErr == nil && im.free.has(page) {
			page++
			continue
		}
		// The buffer holds a part of the file: read on where the largest leaf reaches beyond.
		at, want := int64(page)*pageSize, min(largest, int64(im.high-page)*pageSize)
		if at+want > base+size {
			got, _ := im.r.ReadAt(buf[:min(int64(len(buf)), int64(im.high-page)*pageSize)], at)
			base, size = at, int64(got) // what cannot be read is lost, and no more
		}
		pages, err := im.salvage(buf[at-base:min(at-base+want, size)], visit)
		if err != nil {
			return err
		}
		page += pages
	}
	return nil
}

// salvage takes the page at the start of w for a leaf, whatever its header says,
// and returns how many pages its sound elements reach over, at least 1.
func (im *image) salvage(window []byte, visit func(kind bucket, key, value []byte) error) (pgid, error) {
	first, last := min(len(window), pageSize), 0 // where the elements' bytes begin and end
	for at := pageHeader; at+elemSize <= first; at += elemSize {
		off := int64(at) + int64(le.Uint32(window[at+4:]))
		keySize, size := int64(le.Uint32(window[at+8:])), int64(le.Uint32(window[at+12:]))
		if keySize == 0 || keySize > maxName || size > chunk+castagnoliN || off < int64(at+elemSize) || off+keySize+size > int64(len(window)) {
			continue
		}
		key, value := window[off:off+keySize], window[off+keySize:off+keySize+size]
		for _, kind := range []bucket{data, ids, about} {
			if _, ok := im.salt.open(kind, key, value); !ok {
				continue
			}
			if err := visit(kind, key, value); err != nil {
				return 0, err
			}
			first, last = min(first, int(off)), max(last, int(off+keySize+size))
		}
	}
	return pgid(max(1, (last+pageSize-1)/pageSize)), nil
}
