// Package watch says whether a file is still what it was when it was mapped. Whoever writes to
// a mapped file changes what is read of it, so each step of a model asks; to ask costs a call of
// the system. A file that was only touched, renamed or given other permissions must not count
// as changed: where its times say that something was done to it, its content is compared.
package watch

import (
	"fmt"
	"hash/maphash"
	"io/fs"
	"os"
	"sync"
	"time"
)

// What is compared of a file: all of one up to wholeBytes; of a larger one its first headBytes,
// where most formats say what follows, and samples of sampleBytes, evenly over the rest, so
// that a stretch of it that was overwritten holds some.
const (
	wholeBytes  = 64 << 20
	headBytes   = 1 << 20
	samples     = 1024
	sampleBytes = 4096
)

// A File is watched from New on. Any number of goroutines may use it.
type File struct {
	disk *os.File // stays open, and the caller's

	mu      sync.Mutex  // guards what follows
	was     fs.FileInfo // as last found to hold what was mapped
	seed    maphash.Seed
	content uint64 // hash of what is compared
	known   bool   // content is
}

// New watches an open file that was as was says before it was mapped.
func New(disk *os.File, was fs.FileInfo) *File {
	return &File{disk: disk, was: was, seed: maphash.MakeSeed()}
}

// Differs says how the file differs from what it was; "" = it does not. The first call that
// finds it untouched reads what is compared later; before that, a file that was written to
// counts as changed.
func (f *File) Differs() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	now, how := f.look()
	if how != "" {
		return how
	}
	written, touched := !now.ModTime().Equal(f.was.ModTime()), changed(now) != changed(f.was)
	switch {
	case f.known && !written && !touched:
		return ""
	case written && !f.known:
		return "it was written to at " + now.ModTime().Format(time.RFC3339)
	}
	content, err := f.hash(now.Size())
	if err != nil {
		return "it cannot be read any more: " + err.Error()
	}
	// What was written while it was read is for the next call to find out.
	if f.known && content != f.content {
		if !written {
			return "it was written to, and its time put back"
		}
		return "it was written to at " + now.ModTime().Format(time.RFC3339)
	}
	if again, how := f.look(); how != "" || !again.ModTime().Equal(now.ModTime()) || changed(again) != changed(now) {
		return how
	}
	f.content, f.known, f.was = content, true, now
	return ""
}

// look returns what the file is now, or how its size differs.
func (f *File) look() (now fs.FileInfo, how string) {
	now, err := f.disk.Stat()
	switch {
	case err != nil:
		return nil, "it cannot be looked at any more: " + err.Error()
	case now.Size() < f.was.Size():
		return nil, fmt.Sprintf("it was cut from %d to %d bytes", f.was.Size(), now.Size())
	case now.Size() > f.was.Size():
		return nil, fmt.Sprintf("it grew from %d to %d bytes", f.was.Size(), now.Size())
	}
	return now, ""
}

// hash reads what is compared of a file of size bytes.
func (f *File) hash(size int64) (uint64, error) {
	var sum maphash.Hash
	sum.SetSeed(f.seed)
	buf := make([]byte, headBytes)
	add := func(at, length int64) error {
		for ; length > 0; at, length = at+headBytes, length-headBytes {
			part := buf[:min(length, headBytes)]
			if _, err := f.disk.ReadAt(part, at); err != nil {
				return err
			}
			_, _ = sum.Write(part) // it never fails
		}
		return nil
	}
	if size <= wholeBytes {
		err := add(0, size)
		return sum.Sum64(), err
	}
	if err := add(0, headBytes); err != nil {
		return 0, err
	}
	// The last sample ends with the file.
	step := (size - headBytes - sampleBytes) / (samples - 1)
	for i := range int64(samples) {
		at := headBytes + i*step
		if i == samples-1 {
			at = size - sampleBytes
		}
		if err := add(at, sampleBytes); err != nil {
			return 0, err
		}
	}
	return sum.Sum64(), nil
}
