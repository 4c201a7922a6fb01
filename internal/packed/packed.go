// Package packed keeps what a program makes of a model's files at every start in a file
// beside them, so that later starts map it. Its users need not know the format, its
// checksums, how a file comes into being whole or not at all, who else writes it at the
// same time, or what crashes leave behind: they name the sections and what they are made
// from, and get their bytes or the reason why there are none.
//
// A file is a header, which is written last, and sections that begin at multiples of
// 4096 bytes:
//
//	 0   8  "ossianpk"
//	 8   4  version of this format, little-endian as all numbers
//	12   4  bytes of the description
//	16   8  bytes of the file
//	24  32  SHA-256 of the header with zeros here
//	56   …  description: Content as text
//	     …  a byte for each section: 1 = marked
//	     …  4 bytes for each piece of each section: its CRC-32 (IEEE), which is computed in one
//	        stream; Go's CRC-32C takes three at once, and memory gives it a third of the speed
package packed

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
)

const (
	magic   = "ossianpk"
	version = 2
	fixed   = 56   // bytes of the header before the description
	align   = 4096 // of sections, in bytes
)

// A Section is a run of bytes that is written in pieces.
type Section struct {
	Name  string // with everything its bytes depend on besides Content.Source
	Bytes int64
	Piece int // bytes of a piece; the last may be shorter
}

// pieces returns how many pieces a section has.
func (section *Section) pieces() int {
	return int((section.Bytes + int64(section.Piece) - 1) / int64(section.Piece))
}

// Content says what a file holds. A file is used for the same Content only.
type Content struct {
	Source   string // what the sections are made from, such as names, sizes and times of files
	Sections []Section
}

// Path returns where the file of c lies. Other sections have other names: they do not
// take each other's place; the same of another source does.
func (c *Content) Path(prefix string) string {
	sum := sha256.Sum256([]byte(c.table()))
	return prefix + "-" + hex.EncodeToString(sum[:4])
}

// names matches what Path and Create add to a prefix.
var names = regexp.MustCompile(`^-[0-9a-f]{8}(\.partial)?$`)

// partial ends the name of a file that is being written, or was when its writer died.
const partial = ".partial"

// table lists the sections: what the file's name and its description are made of.
func (c *Content) table() string {
	var out strings.Builder
	for i := range c.Sections {
		section := &c.Sections[i]
		fmt.Fprintf(&out, "%q %d %d\n", section.Name, section.Bytes, section.Piece)
	}
	return out.String()
}

// Bytes returns the size of the file of c.
func (c *Content) Bytes() int64 { return c.layOut().size }

// A layout says where in a file everything lies.
type layout struct {
	c      *Content
	desc   string
	starts []int64 // of sections
	first  []int   // index of a section's first piece among all
	pieces int
	header int
	size   int64
}

// layOut returns the layout of the file of c.
func (c *Content) layOut() *layout {
	lay := &layout{c: c, desc: c.table() + c.Source}
	for i := range c.Sections {
		lay.first = append(lay.first, lay.pieces)
		lay.pieces += c.Sections[i].pieces()
	}
	lay.header = fixed + len(lay.desc) + len(c.Sections) + 4*lay.pieces
	lay.size = aligned(int64(lay.header))
	for i := range c.Sections {
		lay.starts = append(lay.starts, lay.size)
		lay.size += aligned(c.Sections[i].Bytes)
	}
	return lay
}

// aligned rounds up to where a section may begin.
func aligned(n int64) int64 { return (n + align - 1) &^ (align - 1) }

// encode returns the header.
func (l *layout) encode(marks []byte, sums []uint32) []byte {
	header := make([]byte, fixed, l.header)
	copy(header, magic)
	binary.LittleEndian.PutUint32(header[8:], version)
	binary.LittleEndian.PutUint32(header[12:], uint32(len(l.desc)))
	binary.LittleEndian.PutUint64(header[16:], uint64(l.size))
	header = append(append(header, l.desc...), marks...)
	for _, sum := range sums {
		header = binary.LittleEndian.AppendUint32(header, sum)
	}
	sum := sha256.Sum256(header)
	copy(header[24:], sum[:])
	return header
}

// errOther means that a file is sound as far as one can tell, but not of this Content.
var errOther = errors.New("it was made from other files or for other settings")

// decode reads what should be the header of l; longer data is cut.
func (l *layout) decode(header []byte) (marks []byte, sums []uint32, err error) {
	if len(header) < fixed || string(header[:8]) != magic {
		return nil, nil, errors.New("it is no file of packed weights, or was cut")
	}
	if found := binary.LittleEndian.Uint32(header[8:]); found != version {
		return nil, nil, fmt.Errorf("it has version %d of the format, this program has %d", found, version)
	}
	// A description of another length is another Content, whose header is longer or shorter: that
	// is told before a header is called cut or damaged.
	switch {
	case binary.LittleEndian.Uint32(header[12:]) != uint32(len(l.desc)):
		return nil, nil, errOther
	case len(header) < l.header:
		return nil, nil, fmt.Errorf("it was cut: %d bytes of a header of %d", len(header), l.header)
	}
	header = header[:l.header]
	var found, zero [sha256.Size]byte
	copy(found[:], header[24:])
	sum := sha256.New()
	sum.Write(header[:24])
	sum.Write(zero[:])
	sum.Write(header[fixed:])
	switch {
	case [sha256.Size]byte(sum.Sum(nil)) != found:
		return nil, nil, errors.New("its header is damaged: the checksum is another")
	case string(header[fixed:][:len(l.desc)]) != l.desc || binary.LittleEndian.Uint64(header[16:]) != uint64(l.size):
		return nil, nil, errOther
	}
	rest := header[fixed+len(l.desc):]
	marks, rest = append(marks, rest[:len(l.c.Sections)]...), rest[len(l.c.Sections):]
	for ; len(rest) > 0; rest = rest[4:] {
		sums = append(sums, binary.LittleEndian.Uint32(rest))
	}
	return marks, sums, nil
}

// piece returns where piece i of a section lies in the file.
func (l *layout) piece(section, i int) (from, to int64) {
	s := &l.c.Sections[section]
	at := int64(i) * int64(s.Piece)
	return l.starts[section] + at, l.starts[section] + min(at+int64(s.Piece), s.Bytes)
}

// span is piece for n of them from first on.
func (l *layout) span(section, first, n int) (from, to int64) {
	from, _ = l.piece(section, first)
	_, to = l.piece(section, first+n-1)
	return from, to
}

// split parts a prefix into the folder and how the names in it begin.
func split(prefix string) (dir, base string) {
	return filepath.Dir(prefix), filepath.Base(prefix)
}
