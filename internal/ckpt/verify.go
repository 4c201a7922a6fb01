package ckpt

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"slices"
	"unsafe"

	"ossian/internal/model"
	"ossian/internal/tensor"
)

// Verify looks for damage before the first token is made (reliability.md CKP-2).
// With a seal it compares every byte of every file, at the speed of reading;
// in any case it looks for values that no healthy model has: NaN and infinities in
// vectors, in all MXFP4 scales of safetensors and in a sample of the rows of every
// matrix. progress, which may be nil, is told bytes of the sealed files. Of parameters in
// elsewhere, which are not read from these files, nothing is looked at but where a checksum covers
// other bytes as well.
func (m *Model) Verify(ctx context.Context, elsewhere map[string]bool, progress func(done, total int64)) error {
	if m.Sealed {
		if err := m.checkSeal(ctx, elsewhere, progress); err != nil {
			return err
		}
	}
	params := slices.DeleteFunc(model.Params(m.Spec), func(p model.Param) bool { return elsewhere[p.Name] })
	return parallel(ctx, len(params), func(i int) error {
		t := m.Params[params[i].Name]
		return m.faultless(func() error { return m.checkValues(&t) })
	})
}

// A span is a part of a file, from its start on.
type span struct{ from, to int64 }

// spans returns where the parameters in names lie in each file, in order and joined.
func (m *Model) spans(names map[string]bool) map[string][]span {
	found := map[string][]span{}
	// Composed tensors lie where their parts do.
	var add func(t *tensor.Tensor)
	add = func(t *tensor.Tensor) {
		for i := range t.Parts {
			add(&t.Parts[i])
		}
		for _, data := range [][]byte{t.Data, t.Scales} {
			for _, file := range m.maps {
				if at := offset(file.data, data); at >= 0 {
					found[file.path] = append(found[file.path], span{at, at + int64(len(data))})
				}
			}
		}
	}
	for name, in := range names {
		if t, ok := m.Params[name]; ok && in {
			add(&t)
		}
	}
	for path, all := range found {
		slices.SortFunc(all, func(a, b span) int { return cmp.Compare(a.from, b.from) })
		joined := all[:1]
		for _, next := range all[1:] {
			if last := &joined[len(joined)-1]; next.from <= last.to {
				last.to = max(last.to, next.to)
			} else {
				joined = append(joined, next)
			}
		}
		found[path] = joined
	}
	return found
}

// offset returns where part begins in whole, -1 if it is not in there.
func offset(whole, part []byte) int64 {
	if len(whole) == 0 || len(part) == 0 {
		return -1
	}
	at := int64(uintptr(unsafe.Pointer(unsafe.SliceData(part)))) - int64(uintptr(unsafe.Pointer(unsafe.SliceData(whole))))
	if at < 0 || at >= int64(len(whole)) {
		return -1
	}
	return at
}

// maxSeal bounds a seal in bytes; 16 TB of weights need this much.
const maxSeal = 32 << 20

// readSeal reads a seal and checks that it is as it was written.
func readSeal(path string) (*seal, error) {
	info, err := os.Stat(path)
	if err == nil && info.Size() > maxSeal {
		err = unsupported(path, "size of the seal", fmt.Sprintf("at most %d bytes", maxSeal), info.Size())
	}
	if err != nil {
		return nil, err
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var read seal
	if err := json.Unmarshal(data, &read); err != nil {
		return nil, damaged(path, -1, "content", "a seal; make it again after checking the model", jsonKind(data))
	}
	if read.Version != 1 {
		return nil, unsupported(path, "version of the seal", "1", read.Version)
	}
	// Not only the sum: a changed letter of a key or a blank would pass the decoder.
	found := read.Sum
	sound, err := read.encode()
	if err == nil && !bytes.Equal(sound, data) {
		err = damaged(path, -1, "checksum of the seal itself", read.Sum, found)
	}
	for _, file := range read.Files {
		if err == nil && int64(len(file.CRC32C)) != (file.Size+chunkSize-1)/chunkSize*4 {
			err = damaged(path, -1, "checksums of "+file.Name, fmt.Sprintf("one for each of %d bytes", int64(chunkSize)), len(file.CRC32C)/4)
		}
	}
	return &read, err
}

// checkSeal compares the files with the seal: their number, names and sizes, then every chunk
// that holds more than what is read from elsewhere.
func (m *Model) checkSeal(ctx context.Context, elsewhere map[string]bool, progress func(done, total int64)) error {
	sealed, err := readSeal(m.sealPath())
	if err != nil {
		return err
	}
	type job struct {
		file  *sealedFile
		path  string
		chunk int64
	}
	// Sizes first: a cut file is told as such, not as a wrong checksum.
	var jobs []job
	var total int64
	unread := m.spans(elsewhere)
	for _, path := range m.read {
		at := slices.IndexFunc(sealed.Files, func(entry sealedFile) bool { return entry.Name == filepath.Base(path) })
		if at < 0 {
			return &Error{Kind: Inconsistent, File: path, Offset: -1, Problem: "the file is not in the seal; if it is meant to be here, remove " + filepath.Base(m.sealPath())}
		}
		entry := &sealed.Files[at]
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		if info.Size() != entry.Size {
			return damaged(path, min(info.Size(), entry.Size), "file size, by the seal", fmt.Sprintf("%d bytes", entry.Size), info.Size())
		}
		for number := int64(0); number*chunkSize < entry.Size; number++ {
			chunk := span{number * chunkSize, min((number+1)*chunkSize, entry.Size)}
			if slices.ContainsFunc(unread[path], func(part span) bool { return part.from <= chunk.from && chunk.to <= part.to }) {
				continue
			}
			jobs = append(jobs, job{entry, path, number})
			total += chunk.to - chunk.from
		}
	}
	if len(sealed.Files) != len(m.read) {
		return incomplete(m.Path, fmt.Sprintf("the seal covers %d files, %d of them are here", len(sealed.Files), len(m.read)))
	}
	report := reporter(progress, total)
	return parallel(ctx, len(jobs), func(i int) error {
		j := jobs[i]
		n, err := m.checkChunk(j.path, j.chunk, j.file)
		report(n)
		return err
	})
}

// checkChunk compares one chunk. It reads around the mapping, where a file that
// was cut gives an error and not a fault.
func (m *Model) checkChunk(path string, chunk int64, entry *sealedFile) (length int64, err error) {
	var disk *os.File
	if i := slices.IndexFunc(m.maps, func(mapped *file) bool { return mapped.path == path }); i >= 0 {
		disk = m.maps[i].disk
	} else {
		if disk, err = os.Open(path); err != nil {
			return 0, err
		}
		defer disk.Close()
	}
	at := chunk * chunkSize // from here on in the file
	sum := crc32.New(castagnoli)
	length, err = io.Copy(sum, io.NewSectionReader(disk, at, min(chunkSize, entry.Size-at)))
	if err != nil {
		return length, err
	}
	want := binary.LittleEndian.Uint32(entry.CRC32C[4*chunk:])
	if sum.Sum32() == want {
		return length, nil
	}
	damage := &Error{Kind: Damaged, File: path, Offset: at, Want: fmt.Sprintf("%08x", want), Got: fmt.Sprintf("%08x", sum.Sum32())}
	damage.Problem = fmt.Sprintf("checksum of bytes %d to %d", at, at+length)
	// What people know is tensors, not bytes.
	var names []string
	for name, t := range m.stored {
		if t.file.path == path && t.offset < at+length && t.offset+t.size > at {
			names = append(names, name)
		}
	}
	if slices.Sort(names); len(names) > 0 {
		damage.Tensor = names[0]
		damage.Problem += fmt.Sprintf(", which hold %d tensors", len(names))
	}
	return length, damage
}

const (
	wholeElems  = 1 << 16 // tensors up to this many elements are looked at completely
	sampledRows = 8       // rows of larger ones, evenly spaced, first and last included
)

// checkValues reports a value of t that is not finite.
func (m *Model) checkValues(t *tensor.Tensor) error {
	if i := bytes.IndexByte(t.Scales, 255); i >= 0 {
		return m.badValue(t, i*32/t.Cols(), "MXFP4 scale", "below 255, which is NaN", 255)
	}
	rows := t.Rows()
	count := rows
	if t.Elems() > wholeElems {
		count = min(sampledRows, rows)
	}
	floats := make([]float32, t.Cols())
	for i := range count {
		row := 0
		if count > 1 {
			row = i * (rows - 1) / (count - 1)
		}
		t.Row(row).Floats(floats)
		for j, v := range floats {
			if v-v != 0 { // infinities and NaN
				return m.badValue(t, row, fmt.Sprintf("element %d", j), "a finite number", v)
			}
		}
	}
	return nil
}

// badValue names the stored tensor that row of t comes from.
func (m *Model) badValue(t *tensor.Tensor, row int, what, want string, got any) error {
	for t.Parts != nil && t.Parts[0].Cols() == t.Cols() {
		part, sub := t.Map(row)
		t, row = &t.Parts[part], sub
	}
	damage := &Error{Kind: Damaged, File: m.Path, Tensor: t.Name, Offset: -1, Problem: fmt.Sprintf("row %d, %s", row, what), Want: want, Got: fmt.Sprint(got)}
	if stored, ok := m.stored[t.Name]; ok {
		damage.File, damage.Offset = stored.file.path, stored.offset
	}
	return damage
}
