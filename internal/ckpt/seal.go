package ckpt

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// chunkSize is how much of a file one fast checksum covers, in bytes.
const chunkSize = 4 << 20

// A seal holds what the files of a model were when it was made. SHA256 is for
// comparison with published digests, the fast checksums for every load.
type seal struct {
	Version int          `json:"version"`
	Files   []sealedFile `json:"files"`
	Sum     string       `json:"sum"` // SHA-256 of this file with an empty sum: the seal itself may rot
}

// A sealedFile is what one file was.
type sealedFile struct {
	Name   string `json:"name"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
	CRC32C []byte `json:"crc32c"` // little-endian, one per chunk
}

// sealPath returns where the model's seal lies.
func (m *Model) sealPath() string { return m.Beside("seal.json") }

// encode sets the sum and returns the bytes of the file, the only ones a sound seal has.
func (s *seal) encode() ([]byte, error) {
	s.Sum = ""
	data, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	digest := sha256.Sum256(data)
	s.Sum = hex.EncodeToString(digest[:])
	data, err = json.MarshalIndent(s, "", " ")
	return append(data, '\n'), err
}

// Seal opens the model at path, which must be sound, and writes checksums of every
// file it consists of next to it, replacing an older seal. It reads all bytes
// once, files in parallel; progress, which may be nil, is told bytes.
func Seal(ctx context.Context, path string, progress func(done, total int64)) (err error) {
	model, err := Open(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, model.Close()) }()
	made := seal{Version: 1, Files: make([]sealedFile, len(model.read))}
	var total int64
	for i, path := range model.read {
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		made.Files[i] = sealedFile{Name: filepath.Base(path), Size: info.Size()}
		total += info.Size()
	}
	// Files in parallel: within a file the strong digest goes byte after byte.
	report := reporter(progress, total)
	err = parallel(ctx, len(made.Files), func(i int) error { return made.Files[i].fill(ctx, model.read[i], report) })
	if err != nil {
		return err
	}
	slices.SortFunc(made.Files, func(a, b sealedFile) int { return strings.Compare(a.Name, b.Name) })
	data, err := made.encode()
	if err != nil {
		return err
	}
	return writeAtomic(model.sealPath(), data)
}

// fill reads the file once and takes both kinds of checksum.
func (s *sealedFile) fill(ctx context.Context, path string, report func(int64)) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	// One pass for both checksums.
	strong, buf := sha256.New(), make([]byte, min(chunkSize, s.Size))
	for at := int64(0); at < s.Size; at += chunkSize {
		chunk := buf[:min(chunkSize, s.Size-at)]
		if _, err := io.ReadFull(file, chunk); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		strong.Write(chunk)
		s.CRC32C = binary.LittleEndian.AppendUint32(s.CRC32C, crc32.Checksum(chunk, castagnoli))
		if report(int64(len(chunk))); ctx.Err() != nil {
			return ctx.Err()
		}
	}
	s.SHA256 = hex.EncodeToString(strong.Sum(nil))
	return nil
}

// castagnoli is the CRC-32C, which processors compute.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// writeAtomic makes sure that name holds the old content or the new one, never a part.
func writeAtomic(name string, data []byte) (err error) {
	file, err := os.CreateTemp(filepath.Dir(name), filepath.Base(name)+".partial-")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(file.Name()))
		}
	}()
	_, err = file.Write(data)
	err = errors.Join(err, file.Chmod(0o644), file.Sync(), file.Close())
	if err != nil {
		return err
	}
	return os.Rename(file.Name(), name)
}

// reporter makes progress safe for several goroutines.
func reporter(progress func(done, total int64), total int64) func(n int64) {
	if progress == nil {
		return func(int64) {}
	}
	var mu sync.Mutex // guards done, and is held while progress is told: calls come in order
	var done int64
	return func(n int64) {
		mu.Lock()
		defer mu.Unlock()
		done += n
		progress(done, total)
	}
}

// parallel runs job(0), … job(n-1) on all processors and returns the error of the
// first failing job in that order, so that one damage gives one message.
func parallel(ctx context.Context, n int, job func(i int) error) error {
	// Jobs are taken in order. failed is the first that failed so far: those before it still run,
	// since one of them may fail too, those behind it are left.
	var next, failed atomic.Int64
	failed.Store(int64(n))
	fails := make([]error, n)
	var wg sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), n) {
		wg.Go(func() {
			for i := next.Add(1) - 1; i < failed.Load() && ctx.Err() == nil; i = next.Add(1) - 1 {
				if fails[i] = job(int(i)); fails[i] != nil {
					for old := failed.Load(); i < old && !failed.CompareAndSwap(old, i); old = failed.Load() {
					}
				}
			}
		})
	}
	wg.Wait()
	if i := failed.Load(); i < int64(n) {
		return fails[i]
	}
	return ctx.Err()
}
