package store

// What is left of a damaged file. What the trees still lead to is what was stored last. Below
// a page that cannot be read, elements are looked for on all pages that are not free, and told
// by their checksums. Where the list of free pages is lost, too, older states of the file are
// among what is found. Then:
//
//	heads only make progress (more events, later states), so the newest can be told;
//	a finished record changes no more, and only its object ever did, if it was a job;
//	a page is a snapshot: an object is not the last one if a head on its page is not;
//	where the index of ids is whole, what it does not have was deleted;
//	versions that differ, and objects that may not be the last, are none: their records
//	count as damaged.

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"hash/crc32"
	"slices"
	"sort"
)

// A gap is what a tolerant walk could not read: keys of a tree from lo to below hi.
type gap struct {
	lo, hi []byte // nil = no bound; lo was a key
	page   pgid
	err    error
}

// errNoTree is the gap of a tree that nothing leads to.
var errNoTree = errors.New("no page leads to it")

// inGap reports whether the walk passed over a key.
func (im *image) inGap(b bucket, key []byte) bool {
	gaps := im.gaps[b]
	behind := sort.Search(len(gaps), func(at int) bool { return bytes.Compare(gaps[at].lo, key) > 0 })
	return behind > 0 && (gaps[behind-1].hi == nil || bytes.Compare(key, gaps[behind-1].hi) < 0)
}

// elements calls visit with every element after inspect: those of the trees, and those of
// what cannot be walked that a scan finds. Key and value are valid during the visit.
func (im *image) elements(visit func(b bucket, key, value []byte) error) error {
	im.tolerant, im.gaps, im.walked = im.treeErr != nil, map[bucket][]gap{}, map[bucket]bool{}
	defer func() { im.tolerant = false }()
	clear(im.used)
	known := newKnown()
	err := im.walk(func(found *element) error {
		value, err := found.value()
		if im.unusable != nil && (found.bucket == data || found.bucket == ids) {
			if _, ok := im.salt.open(found.bucket, found.key, value); err != nil || !ok {
				at := found.run.base + found.off
				im.unusable(Range{at, at + found.size, "a value"})
			}
		}
		if err != nil {
			return nil // a sector that cannot be read: its record will be found incomplete
		}
		if im.tolerant && !im.freeKnown {
			known.walked(im.salt, found.bucket, found.key, value)
		}
		return visit(found.bucket, found.key, value)
	})
	if err != nil || !im.tolerant {
		return err
	}
	delete(im.gaps, 0) // the tree of trees
	for _, b := range buckets {
		if !im.walked[b] {
			im.gaps[b] = []gap{{err: errNoTree}}
		}
	}
	switch {
	case len(im.gaps) == 0:
		return nil
	case !im.freeKnown:
		return im.choose(known, visit)
	}
	return im.scan(func(f *finding) error {
		if !im.inGap(f.bucket, f.key) {
			return nil
		}
		return visit(f.bucket, f.key, f.value)
	})
}

// A finding is an element that a scan met.
type finding struct {
	bucket     bucket
	key, value []byte // valid during the visit
	page       pgid   // where its leaf begins
	at         int64  // of the value in the file
}

// largestLeaf bounds a leaf page with those that belong to it: one with more than four
// values is split.
const largestLeaf = 10 * chunk

// scan finds elements without the trees: on every page that the walk did not reach and
// that is not free, those whose checksum fits. The salt keeps stored text from looking
// like one.
func (im *image) scan(visit func(*finding) error) error {
	buf, base, size := make([]byte, 1<<20), int64(0), int64(0)
	met := 0 // elements
	for page, end := pgid(2), im.end(); int64(page)*pageSize < end; {
		if page <= im.high && (im.used.has(page) || (im.freeKnown && im.free.has(page))) {
			page++
			continue
		}
		// The buffer holds a part of the file: read on where the largest leaf reaches beyond.
		at := int64(page) * pageSize
		want, before := min(largestLeaf, end-at), met
		if at+want > base+size {
			got, _ := im.r.ReadAt(buf[:min(int64(len(buf)), end-at)], at)
			base, size = at, int64(got) // what cannot be read is lost, and no more
		}
		window := buf[at-base : min(at-base+want, size)]
		pages, err := im.salvage(page, window, func(f *finding) error {
			met++
			return visit(f)
		})
		if err != nil {
			return err
		}
		if met == before && im.unusable != nil && im.freeKnown && !isBranch(page, window) {
			im.unusable(Range{at, at + pageSize, "a page"})
		}
		page += pages
	}
	return nil
}

// isBranch reports whether a page claims to hold no values of its own: a branch page, or the
// list of free pages.
func isBranch(page pgid, window []byte) bool {
	if len(window) < pageHeader || pgid(le.Uint64(window)) != page {
		return false
	}
	kind := le.Uint16(window[8:])
	return kind == branchPage || kind == freePage
}

// salvage takes the page at the start of window for a leaf, whatever its header says,
// and returns how many pages its sound elements reach over, at least 1.
func (im *image) salvage(page pgid, window []byte, visit func(*finding) error) (pgid, error) {
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
			if err := visit(&finding{kind, key, value, page, int64(page)*pageSize + off + keySize}); err != nil {
				return 0, err
			}
			first, last = min(first, int(off)), max(last, int(off+keySize+size))
		}
	}
	return pgid(max(1, (last+pageSize-1)/pageSize)), nil
}

// A mark is the newest head known of a record.
type mark struct {
	sum      uint32 // of its value
	certain  bool   // the trees lead to it
	progress int
	finished bool // nothing came after it
	constant bool // the object was never another
}

// markOf describes a head by its value and payload. One of several parts says nothing.
func markOf(value, payload []byte) mark {
	out := mark{sum: checksum(value)}
	_, _, text, err := blobStart(payload)
	found := head{}
	if err != nil || json.Unmarshal(text, &found) != nil {
		return out
	}
	states := map[State]int{Running: 1, Cancelling: 2, Finished: 3}
	out.progress = 1 + 4*(found.Events+len(found.Refs)) + states[found.State]
	out.finished = found.State == Finished
	out.constant = out.finished && !found.Background && found.Events == 0
	return out
}

// known is what the trees still say, for telling old versions of elements.
type known struct {
	heads   map[uint64]mark
	nums    map[uint64]bool // that ids lead to
	idsBad  bool            // one of them cannot be read
	present map[uint64]bool // numbers with data
	pages   map[pgid][]headAt
}

// headAt is a head on a page that a scan met.
type headAt struct {
	num uint64
	sum uint32
}

func newKnown() *known {
	return &known{heads: map[uint64]mark{}, nums: map[uint64]bool{}, present: map[uint64]bool{}, pages: map[pgid][]headAt{}}
}

// walked notes an element of the trees.
func (k *known) walked(s salt, b bucket, key, value []byte) {
	payload, ok := s.open(b, key, value)
	switch {
	case b == ids && ok && len(payload) >= 8:
		k.nums[binary.BigEndian.Uint64(payload)] = true
	case b == ids:
		k.idsBad = true
	case b == data && len(key) == keyLength:
		num := binary.BigEndian.Uint64(key)
		k.present[num] = true
		if ok && isHead(key) {
			certain := markOf(value, payload)
			certain.certain = true
			k.heads[num] = certain
		}
	}
}

// later notes a head that a scan found when it is the newest so far. Of heads that cannot
// be ordered none is.
func (k *known) later(num uint64, found mark) {
	newest, ok := k.heads[num]
	switch {
	case !ok || (!newest.certain && found.progress > newest.progress):
		k.heads[num] = found
	case !newest.certain && found.progress == 0 && newest.progress == 0 && newest.sum != found.sum:
		k.heads[num] = mark{}
	}
}

// isHead reports whether a key of data is that of the first part of a head.
func isHead(key []byte) bool {
	return kind(key[8]) == kindHead && binary.BigEndian.Uint16(key[13:]) == 0
}

func checksum(value []byte) uint32 { return crc32.Checksum(value, castagnoli) }

// A place is where an element belongs.
type place struct {
	bucket bucket
	key    string
}

// A version is one value that was found for a place.
type version struct {
	sum  uint32
	head uint32 // checksum of its record's head on the same page, 0 = none there
	page pgid
	at   int64

	large bool // half a page, or a further part of an object
}

// choose visits, of the elements that a scan finds in the gaps, those that were stored
// last. It scans twice: what is the last is known when all are.
func (im *image) choose(k *known, visit func(b bucket, key, value []byte) error) error {
	versions := map[place][]version{}
	var page pgid
	var num uint64  // of the last head on page
	var head uint32 // its checksum
	err := im.scan(func(finding *finding) error {
		if finding.page != page {
			page, num, head = finding.page, 0, 0
		}
		found := version{sum: checksum(finding.value), page: finding.page, at: finding.at, large: len(finding.value) >= pageSize/2}
		if finding.bucket == data && len(finding.key) == keyLength {
			of := binary.BigEndian.Uint64(finding.key)
			if isHead(finding.key) {
				num, head = of, found.sum
				k.pages[finding.page] = append(k.pages[finding.page], headAt{of, found.sum})
				k.later(of, markOf(finding.value, finding.value[castagnoliN:]))
			}
			if of == num {
				found.head = head
			}
			found.large = found.large || binary.BigEndian.Uint16(finding.key[13:]) > 0
		}
		if !im.inGap(finding.bucket, finding.key) {
			return nil
		}
		where := place{finding.bucket, string(finding.key)}
		for _, other := range versions[where] {
			if other.sum == found.sum && other.head == found.head && (finding.bucket != data || kind(finding.key[8]) != kindObject) {
				return nil
			}
		}
		versions[where] = append(versions[where], found)
		return nil
	})
	if err != nil {
		return err
	}
	chosen := im.last(k, versions)
	return im.scan(func(finding *finding) error {
		if at, ok := chosen[place{finding.bucket, string(finding.key)}]; !ok || at != finding.at {
			return nil
		}
		if finding.bucket == ids && !im.mayBe(k, finding.value) {
			return nil
		}
		return visit(finding.bucket, finding.key, finding.value)
	})
}

// last returns where the version of each place lies that was stored last.
func (im *image) last(k *known, versions map[place][]version) map[place]int64 {
	whole := len(im.gaps[ids]) == 0 && !k.idsBad
	chosen := map[place]int64{}
	for where, found := range versions {
		newest, num, sure := uint32(0), uint64(0), true
		if where.bucket == data && len(where.key) == keyLength {
			num = binary.BigEndian.Uint64([]byte(where.key))
			of := k.heads[num]
			newest = of.sum
			if kind(where.key[8]) == kindObject && !of.constant {
				found, sure = k.upToDate(found), of.certain || of.finished
			}
			if whole && !k.nums[num] {
				continue // it was deleted
			}
		}
		if one, ok := agreed(found, newest); ok && sure {
			chosen[where] = one.at
			if num != 0 {
				k.present[num] = true
			}
		}
	}
	return chosen
}

// upToDate returns those versions of an object that may be the last: all heads on their page
// are. A large object may lie apart from all heads: it is not told from an older one then.
func (k *known) upToDate(found []version) []version {
	return slices.DeleteFunc(slices.Clone(found), func(one version) bool {
		heads := k.pages[one.page]
		for _, other := range heads {
			if newest := k.heads[other.num]; newest.sum != other.sum || (!newest.finished && !newest.certain) {
				return true
			}
		}
		return len(heads) == 0 && !one.large
	})
}

// agreed returns the version beside the head newest, or where none is beside it any: the
// only one there is, false when they differ.
func agreed(found []version, newest uint32) (version, bool) {
	if near := slices.DeleteFunc(slices.Clone(found), func(one version) bool { return newest == 0 || one.head != newest }); len(near) > 0 {
		found = near
	}
	if len(found) == 0 || slices.ContainsFunc(found, func(one version) bool { return one.sum != found[0].sum }) {
		return version{}, false
	}
	return found[0], true
}

// mayBe reports whether an entry of ids that a scan found can be that of a record: there is
// something of it, or it may have been where the walk could not go.
func (im *image) mayBe(k *known, value []byte) bool {
	payload := value[castagnoliN:]
	if len(payload) < 8 {
		return false
	}
	num := binary.BigEndian.Uint64(payload)
	return k.present[num] || im.inGap(data, dataKey(num, kindHead, 0, 0))
}
