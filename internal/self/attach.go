package self

import (
	"bytes"
	"compress/flate"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"sync"
)

// A file with two forms ends so: the static form, the packed blocks of the dynamic one, a
// description of them in JSON, its length in 8 bytes (little endian), 16 bytes of magic. Both forms
// are made of the same packages, so most of a block is in the static form as well, somewhere else
// and with other addresses in it: a block is compressed (DEFLATE) with the part of the static form
// that is most like it as what was written before. That takes a fifth of what it takes without.
const (
	magic          = "ossian two forms"
	trailerSize    = 8 + int64(len(magic))
	formatNumber   = 2
	window         = 32 << 10 // how far back DEFLATE looks
	blockSize      = window / 2
	maxDescription = 4 << 20
	maxForm        = 1 << 30 // of the dynamic form
)

// A description says how the dynamic form is put together.
type description struct {
	Format  int     `json:"format"`
	Version string  `json:"version"` // of Version: both forms are of one build
	Static  int64   `json:"static"`  // length of the static form, where the packed blocks begin
	Size    int     `json:"size"`    // of the dynamic form
	SHA256  string  `json:"sha256"`  // of the dynamic form
	Blocks  []block `json:"blocks"`  // in order
}

// A block is a piece of the dynamic form: Packed bytes of DEFLATE behind those of the block before,
// written behind the window of the static form that begins at Like.
type block struct {
	Size   int   `json:"size"`
	Packed int   `json:"packed"`
	Like   int64 `json:"like"`
}

// errNone says that a file has no second form.
var errNone = errors.New("this file has one form only")

// Version tells one build of the program from another: Switch refuses a second form that is not of
// the same commit. It does not tell the two forms of a build apart.
func Version(info *debug.BuildInfo) string {
	text := info.Main.Version + " " + info.GoVersion
	for _, setting := range info.Settings {
		if setting.Key == "vcs.revision" || setting.Key == "vcs.modified" {
			text += " " + setting.Value
		}
	}
	return text
}

// Attach returns what has to follow the static form in a file, so that the file carries the dynamic
// form of the same version too. Equal forms give equal bytes.
func Attach(static, dynamic []byte, version string) ([]byte, error) {
	if bytes.HasSuffix(static, []byte(magic)) {
		return nil, errors.New("the static form has a second form behind it already")
	}
	if len(dynamic) == 0 || len(dynamic) > maxForm {
		return nil, fmt.Errorf("a dynamic form of %d bytes; 1 to %d expected", len(dynamic), maxForm)
	}
	sum := sha256.Sum256(dynamic)
	described := description{Format: formatNumber, Version: version, Static: int64(len(static)), Size: len(dynamic), SHA256: hex.EncodeToString(sum[:])}
	var out bytes.Buffer
	found := newLikeness(static)
	for rest := dynamic; len(rest) > 0; {
		// Both forms come from the same source: a piece is packed against the part of the static
		// form that is most like it.
		piece := rest[:min(blockSize, len(rest))]
		rest = rest[len(piece):]
		before, like := out.Len(), found.window(piece)
		packer, err := flate.NewWriterDict(&out, flate.BestCompression, static[like:min(like+window, len(static))])
		if err == nil {
			_, err = packer.Write(piece)
		}
		if err == nil {
			err = packer.Close()
		}
		if err != nil {
			return nil, err
		}
		described.Blocks = append(described.Blocks, block{Size: len(piece), Packed: out.Len() - before, Like: int64(like)})
	}
	text, err := json.Marshal(described)
	if err != nil {
		return nil, err
	}
	out.Write(text)
	out.Write(binary.LittleEndian.AppendUint64(nil, uint64(len(text))))
	out.WriteString(magic)
	return out.Bytes(), nil
}

// describe reads what a file of a length says of its second form; errNone where it has none.
func describe(file io.ReaderAt, length int64) (*description, error) {
	trailer := make([]byte, trailerSize)
	if length < trailerSize {
		return nil, errNone
	}
	if _, err := file.ReadAt(trailer, length-trailerSize); err != nil {
		return nil, err
	}
	if string(trailer[8:]) != magic {
		return nil, errNone
	}
	size := binary.LittleEndian.Uint64(trailer)
	end := length - trailerSize
	// The description says how the rest is to be read, so it is not believed before check.
	if size > maxDescription || int64(size) > end {
		return nil, fmt.Errorf("its second form is damaged: a description of %d bytes", size)
	}
	text := make([]byte, size)
	if _, err := file.ReadAt(text, end-int64(size)); err != nil {
		return nil, err
	}
	described := new(description)
	if err := json.Unmarshal(text, described); err != nil {
		return nil, fmt.Errorf("its second form is damaged: %w", err)
	}
	return described, described.check(end - int64(size))
}

// check returns an error unless the blocks are within a file whose description begins at end, and
// make up the whole form.
func (d *description) check(end int64) error {
	if d.Format != formatNumber {
		return fmt.Errorf("its second form is in format %d, this program reads %d", d.Format, formatNumber)
	}
	unpacked, packed := 0, d.Static
	fits := d.Static > 0 && d.Static <= end && d.Size > 0 && d.Size <= maxForm
	for _, b := range d.Blocks {
		fits = fits && b.Size > 0 && b.Size <= blockSize && b.Packed > 0 && b.Like >= 0 && b.Like < d.Static && int64(b.Packed) <= end-packed
		if !fits {
			break
		}
		unpacked, packed = unpacked+b.Size, packed+int64(b.Packed)
	}
	if !fits || unpacked != d.Size || packed != end {
		return errors.New("its second form is damaged: the blocks do not fit the file")
	}
	return nil
}

// unpack returns the dynamic form, whose digest is the one described. The blocks are unpacked on
// all processors.
func (d *description) unpack(file io.ReaderAt) ([]byte, error) {
	form := make([]byte, d.Size)
	errs := make([]error, len(d.Blocks))
	var group sync.WaitGroup
	turns := make(chan struct{}, runtime.GOMAXPROCS(0))
	from, rest := d.Static, form
	for i, b := range d.Blocks {
		at, into := from, rest[:b.Size]
		from, rest = from+int64(b.Packed), rest[b.Size:]
		// So many blocks at once as there are processors: each has buffers of its own.
		turns <- struct{}{}
		group.Go(func() {
			errs[i] = b.unpack(into, file, at, d.Static)
			<-turns
		})
	}
	group.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("its second form is damaged: %w", err)
	}
	if sum := sha256.Sum256(form); hex.EncodeToString(sum[:]) != d.SHA256 {
		return nil, fmt.Errorf("its second form is damaged: digest %x, %s expected", sum[:8], d.SHA256[:min(16, len(d.SHA256))])
	}
	return form, nil
}

// unpack fills into with a block, whose packed bytes are at a place of the file, behind the static
// form of a length.
func (b block) unpack(into []byte, file io.ReaderAt, at, static int64) error {
	bytesOf := func(from int64, n int64) ([]byte, error) {
		read := make([]byte, n)
		_, err := file.ReadAt(read, from)
		return read, err
	}
	like, err := bytesOf(b.Like, min(window, static-b.Like))
	if err != nil {
		return err
	}
	packed, err := bytesOf(at, int64(b.Packed))
	if err != nil {
		return err
	}
	_, err = io.ReadFull(flate.NewReaderDict(bytes.NewReader(packed), like), into)
	return err
}
