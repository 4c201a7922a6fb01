package store

// What is wrong with a store's file, found by reading all of it and changing nothing. Open
// asks the same before it replaces a damaged file, so what Check says of one is what a start
// would do, and what was said at a start can be asked again of the file that was kept.

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
)

// mostRanges bounds the ranges that a Report lists.
const mostRanges = 1000

const mendedText = "one byte of a meta page, which is known and can be put right"

// A Report says what is wrong with a store's file.
type Report struct {
	File    string
	Bytes   int64 // of the file
	Records int   // that a server has after a start, damaged ones among them

	// Damaged are those of the records that are not what was stored, by age. Each can be
	// deleted; reading one is a *DamageError with the same id.
	Damaged []*DamageError
	// Lost are ids of records of which nothing else is left, in order.
	Lost []string
	// Nameless counts records of which something is left, but no id. They are lost, too.
	Nameless int
	// Absent counts numbers between those of the records that no record has. They belonged to
	// records that were deleted, or that are lost without a trace. It is 0 where Ranges is empty.
	Absent int

	Ranges    []Range  // of the file that hold nothing usable, in order; 1000 at most
	LostBytes int64    // in all of them; free space may be among it
	Structure []string // damage beside the records, in words
	Rebuild   bool     // a start makes a new file of what is left, and keeps this one beside it
}

// Sound reports whether nothing is wrong.
func (r *Report) Sound() bool {
	return !r.Rebuild && len(r.Damaged)+len(r.Lost)+r.Nameless+len(r.Structure) == 0
}

// A Range is bytes of a file from First to below End. End may be behind the end of a file
// that was cut.
type Range struct {
	First, End int64
	What       string // a page, a value, cut off
}

// String says where the range is.
func (r Range) String() string { return fmt.Sprintf("%d-%d (%s)", r.First, r.End-1, r.What) }

// Check reads all of the store file at path, or of that in the directory at path, and
// changes nothing. The file may also be a damaged one that Open kept, or a copy beside a
// copy of FORMAT. Errors: ErrLocked when a server, or another process, has the store;
// ErrVersion; *DamageError when FORMAT is lost; or why nothing could be read.
func Check(path string) (report Report, err error) {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		path = filepath.Join(path, databaseName)
	}
	if filepath.Base(path) == databaseName {
		lock, err := lockDir(filepath.Dir(path), true, "check a copy of the directory")
		if err != nil {
			return Report{}, err
		}
		if lock != nil {
			defer lock.Close() // nothing was written
		}
	}
	found, note, err := findFormat(path)
	if err != nil {
		return Report{}, err
	}
	file, err := os.Open(path)
	if err != nil {
		return Report{}, fmt.Errorf("store: %w", err)
	}
	defer file.Close() // read only
	im, _, sound, err := survey(file, found.salt)
	if err != nil {
		return Report{}, err
	}
	if report, err = describe(path, im, found, sound); err != nil {
		return Report{}, err
	}
	if note != nil {
		report.Structure = append(report.Structure, note.Error())
	}
	return report, nil
}

// describe reads the values of a file that was surveyed with the salt of want, and says what
// is wrong.
func describe(path string, im *image, want format, sound bool) (Report, error) {
	check := &checker{salt: im.salt, parts: map[uint64]*parts{}, ids: map[uint64]string{}, seen: map[uint64]bool{}}
	var ranges []Range
	im.unusable = func(lost Range) { ranges = append(ranges, lost) }
	defer func() { im.unusable = nil }()
	if err := im.elements(check.visit); err != nil {
		return Report{}, fmt.Errorf("store: check of %s: %w", path, err)
	}
	// To the salt of another store everything looks damaged.
	if own, err := parseFormat(check.format); err == nil && own.salt != want.salt {
		return Report{}, fmt.Errorf("store: %s beside %s is that of another store: put back its own, or delete it (the store's file holds a copy)", formatName, path)
	}
	report := Report{File: path, Bytes: im.size, Rebuild: !sound}
	check.report(im, &report)
	report.Ranges, report.LostBytes = merge(append(ranges, im.lostPages()...))
	if len(report.Ranges) == 0 {
		report.Absent = 0
	}
	report.Structure = im.problems(sound)
	return report, nil
}

// problems says in words what is wrong beside the records.
func (im *image) problems(sound bool) []string {
	var out []string
	if im.mended != nil {
		out = append(out, im.mending)
	}
	if end := int64(im.meta.high) * pageSize; im.size < end {
		out = append(out, fmt.Sprintf("the file has %d bytes, and had %d or more", im.size, end))
	}
	if im.metaErr != nil {
		out = append(out, im.metaErr.Error())
	}
	if im.treeErr != nil {
		out = append(out, "the trees of records: "+im.treeErr.Error())
	}
	if im.freeErr != nil {
		out = append(out, "the list of free pages: "+im.freeErr.Error())
	}
	if im.treeErr != nil && !im.freeKnown {
		out = append(out, "what was free is not known: records may be there again that were deleted")
	}
	if !sound && len(out) == 0 {
		out = append(out, "an index of the records")
	}
	return out
}

// lostPages returns the pages that elements could not make use of.
func (im *image) lostPages() []Range {
	var out []Range
	if end := max(2, int64(im.meta.high)) * pageSize; im.size < end {
		out = append(out, Range{im.size, end, "cut off"})
	}
	if im.metaErr != nil {
		for number := range int64(2) {
			page := make([]byte, pageSize)
			_, _ = im.r.ReadAt(page, number*pageSize) // what cannot be read is no meta page
			if _, ok := parseMeta(page); !ok && number*pageSize < im.size {
				out = append(out, Range{number * pageSize, (number + 1) * pageSize, "a page"})
			}
		}
	}
	lost := []gap{}
	for _, gaps := range im.gaps {
		lost = append(lost, gaps...)
	}
	if !im.freeKnown {
		lost = append(lost, gap{page: im.meta.free})
	}
	for _, gap := range lost {
		if at := int64(gap.page) * pageSize; at > 0 && at+pageSize <= im.size {
			out = append(out, Range{at, at + pageSize, "a page"})
		}
	}
	return out
}

// merge puts ranges in order, joins those that touch, and counts their bytes.
func merge(ranges []Range) (out []Range, total int64) {
	slices.SortFunc(ranges, func(a, b Range) int { return cmp.Or(cmp.Compare(a.First, b.First), cmp.Compare(a.End, b.End)) })
	for _, next := range ranges {
		if last := len(out) - 1; last >= 0 && next.First <= out[last].End && (next.What == out[last].What || next.End <= out[last].End) {
			out[last].End = max(out[last].End, next.End)
			continue
		}
		out = append(out, next)
	}
	for _, one := range out {
		total += one.End - one.First
	}
	return out[:min(len(out), mostRanges)], total
}

// checker counts what there is of every record, to be compared with its head.
type checker struct {
	salt  salt
	parts map[uint64]*parts
	ids   map[uint64]string
	seen  map[uint64]bool // numbers that something leads to

	format string // as the database has it
}

// Parts are what there is of one record.
type parts struct {
	head                   map[uint16][]byte // parts of the head by number
	want, have             int               // bytes of blobs, as their first parts claim and as they are
	objects, items, events int
}

// visit counts one element. It never fails.
func (c *checker) visit(in bucket, key, value []byte) error {
	payload, ok := c.salt.open(in, key, value)
	if in == ids && ok && len(payload) >= 8 {
		c.ids[binary.BigEndian.Uint64(payload)] = string(key)
	}
	switch {
	case in == about && ok && string(key) == "format":
		c.format = string(payload)
	case in == refs && ok && len(payload) == 8:
		c.seen[binary.BigEndian.Uint64(payload)] = true
	case in == active && ok && len(key) == 8:
		c.seen[binary.BigEndian.Uint64(key)] = true
	}
	if in != data || len(key) != keyLength || !ok {
		return nil // a key that fits no checksum is not to be believed: its record misses it
	}
	num, of, part := binary.BigEndian.Uint64(key), kind(key[8]), binary.BigEndian.Uint16(key[13:])
	if num == 0 {
		return nil
	}
	record := c.parts[num]
	if record == nil {
		record = &parts{head: map[uint16][]byte{}}
		c.parts[num] = record
	}
	things := 0
	if part == 0 {
		var size int
		var err error
		if size, things, payload, err = blobStart(payload); err != nil {
			return nil // the record misses it
		}
		record.want += size
	}
	record.have += len(payload)
	switch of {
	case kindHead:
		record.head[part] = bytes.Clone(payload)
	case kindObject:
		record.objects += things
	case kindItem:
		record.items += things
	case kindEvents:
		record.events += things
	}
	return nil
}

// report compares what there is with what the heads say, by age.
func (c *checker) report(im *image, out *Report) {
	for num := range c.ids {
		c.seen[num] = true
	}
	for num := range c.parts {
		c.seen[num] = true
	}
	// Where ids has gaps, other trees lead to records, too, and a gap begins with a key.
	names := map[string]bool{}
	for _, lost := range im.gaps[ids] {
		if lost.lo != nil {
			names[string(lost.lo)] = true
		}
	}
	for _, lost := range im.gaps[data] {
		if len(lost.lo) == keyLength {
			c.seen[binary.BigEndian.Uint64(lost.lo)] = true
		}
	}
	delete(c.seen, 0) // what keeps the bucket on pages of its own
	nums := slices.Sorted(maps.Keys(c.seen))
	for _, num := range nums {
		name, damage := c.record(num)
		if name == "" {
			out.Nameless++
			continue
		}
		out.Records++
		delete(names, name)
		if damage != "" {
			out.Damaged = append(out.Damaged, &DamageError{name, damage})
		}
	}
	out.Lost = slices.Sorted(maps.Keys(names))
	out.Nameless = max(0, out.Nameless-len(out.Lost)) // each of those had a number
	if len(nums) > 0 {
		out.Absent = int(nums[len(nums)-1]-nums[0]) + 1 - len(nums)
	}
}

// record returns the id of a record, "" when it is lost, and what is wrong with it, "" for
// nothing.
func (c *checker) record(num uint64) (name, damage string) {
	found := c.parts[num]
	if found == nil {
		return c.ids[num], "nothing is left of it"
	}
	var text []byte
	for part := range len(found.head) {
		text = append(text, found.head[uint16(part)]...)
	}
	stored := &head{}
	if json.Unmarshal(text, stored) != nil {
		return c.ids[num], "its head"
	}
	if found.want != found.have || found.objects != 1 || found.items != stored.Items || found.events != stored.Events {
		damage = fmt.Sprintf("%d of %d bytes, %d of 1 object, %d of %d items, %d of %d events are sound",
			found.have, found.want, found.objects, found.items, stored.Items, found.events, stored.Events)
	}
	return stored.ID, damage
}
