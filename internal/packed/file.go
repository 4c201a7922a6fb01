package packed

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
)

// A File is a mapped file of packed sections. Any number of goroutines may use it.
type File struct {
	path   string
	layout *layout
	disk   *os.File
	was    fs.FileInfo // of disk before it was mapped
	data   []byte      // the mapping; nil once closed
	marks  []byte      // [section]
	sums   []uint32    // [piece of all]
}

// Open maps the file of c. It reads the header; Load reads the rest. The error says why
// there is none to use: os.ErrNotExist, errors.ErrUnsupported, or what is wrong with it.
func Open(prefix string, c *Content) (*File, error) {
	file, err := readHeader(prefix, c)
	if err != nil {
		return nil, err
	}
	if file.data, err = mapFile(file.disk, int(file.layout.size)); err != nil {
		return nil, errors.Join(fmt.Errorf("mapping %d bytes of %s: %w", file.layout.size, file.path, err), file.disk.Close())
	}
	return file, nil
}

// Usable is Open without mapping: it reports what Open would.
func Usable(prefix string, c *Content) error {
	file, err := readHeader(prefix, c)
	if err == nil {
		err = file.disk.Close()
	}
	return err
}

// readHeader opens the file of c and reads its header.
func readHeader(prefix string, c *Content) (*File, error) {
	if !supported {
		return nil, errors.ErrUnsupported
	}
	file := &File{path: c.Path(prefix), layout: c.layOut()}
	info, err := os.Stat(file.path) // before it is opened: opening a named pipe would wait
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s: no regular file", file.path)
	}
	if err != nil {
		return nil, err
	}
	if file.disk, err = os.Open(file.path); err != nil {
		return nil, err
	}
	header := make([]byte, file.layout.header)
	count, err := io.ReadFull(file.disk, header)
	if err == nil || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		file.marks, file.sums, err = file.layout.decode(header[:count])
	}
	if err == nil {
		file.was, err = file.disk.Stat()
	}
	if err == nil && file.was.Size() != file.layout.size {
		err = fmt.Errorf("it was cut: %d bytes of %d", file.was.Size(), file.layout.size)
	}
	if err != nil {
		file.disk.Close()
		return nil, fmt.Errorf("%s: %w", file.path, err)
	}
	return file, nil
}

// Path returns where the file was found.
func (f *File) Path() string { return f.path }

// Disk returns the open file, and what it was before it was mapped: whoever reads sections for
// long looks whether somebody has written to it.
func (f *File) Disk() (disk *os.File, was fs.FileInfo) { return f.disk, f.was }

// Section returns the bytes of section i, which are valid until Close, and its mark.
func (f *File) Section(i int) (b []byte, mark bool) {
	bytes := f.layout.c.Sections[i].Bytes
	return f.data[f.layout.starts[i]:][:bytes:bytes], f.marks[i] != 0
}

const (
	loadAtOnce = 16 // pieces that are loaded in one go
	fetchers   = 4  // that wait for the disk
)

// Load brings all sections into memory, on all processors, and with check compares every
// piece with its checksum. progress, which may be nil and is called from several
// goroutines, is told bytes.
func (f *File) Load(ctx context.Context, check bool, progress func(n int64)) error {
	type job struct{ section, first, n int }
	page := int64(os.Getpagesize()) // the mapping begins at one
	var jobs []job
	for section := range f.layout.c.Sections {
		pieces := f.layout.c.Sections[section].pieces()
		for first := 0; first < pieces; first += loadAtOnce {
			jobs = append(jobs, job{section, first, min(loadAtOnce, pieces-first)})
		}
	}
	// Two stages: fetchers have the disk read the next jobs while loaders touch and compare those
	// that have come. The channel holds all jobs, so that no fetcher waits for a loader. failed is
	// the first job that failed: those behind it are left, those before it still run.
	fetched := make(chan int, len(jobs))
	var next, failed atomic.Int64
	failed.Store(int64(len(jobs)))
	wanted := func(index int64) bool { return index < failed.Load() && ctx.Err() == nil }
	errs := make([]error, len(jobs)) // the first in the file is reported
	var fetching, loading sync.WaitGroup
	for range min(fetchers, len(jobs)) {
		fetching.Go(func() {
			for index := next.Add(1) - 1; wanted(index); index = next.Add(1) - 1 {
				job := jobs[index]
				from, to := f.layout.span(job.section, job.first, job.n)
				fetch(f.disk, f.data[from&^(page-1):to], from, to-from)
				fetched <- int(index)
			}
		})
	}
	for range min(runtime.GOMAXPROCS(0), len(jobs)) {
		loading.Go(func() {
			for index := range fetched {
				if job := jobs[index]; wanted(int64(index)) {
					errs[index] = f.load(job.section, job.first, job.n, check, progress)
				}
				for old := failed.Load(); errs[index] != nil && int64(index) < old && !failed.CompareAndSwap(old, int64(index)); old = failed.Load() {
				}
			}
		})
	}
	fetching.Wait()
	close(fetched)
	loading.Wait()
	if index := failed.Load(); index < int64(len(jobs)) {
		return errs[index]
	}
	return ctx.Err()
}

// load is Load for n pieces. A page that cannot be read is an error, not a fault.
func (f *File) load(section, first, n int, check bool, progress func(int64)) (err error) {
	from, to := f.layout.span(section, first, n)
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if why := recover(); why != nil {
			err = fmt.Errorf("%s: bytes %d to %d cannot be read: %v", f.path, from, to, why)
		}
	}()
	touch(f.data[from:to]) // checked or not: later reads meet no faults
	for piece := first; check && piece < first+n; piece++ {
		begin, end := f.layout.piece(section, piece)
		want := f.sums[f.layout.first[section]+piece]
		if got := crc32.ChecksumIEEE(f.data[begin:end]); got != want {
			return fmt.Errorf("%s: damaged in bytes %d to %d, which hold %s: checksum %08x, expected %08x", f.path, begin, end, f.layout.c.Sections[section].Name, got, want)
		}
	}
	if progress != nil {
		progress(to - from)
	}
	return nil
}

// touch reads a byte of each 64 KiB and the last one: Linux maps all of these at the first
// fault there. It takes less than half the time of MADV_POPULATE_READ, which goes over each
// page again, and comparing goes faster without faults in between.
//
//go:noinline
func touch(b []byte) (sum byte) {
	for i := 0; i < len(b); i += 64 << 10 {
		sum += b[i]
	}
	return sum + b[len(b)-1]
}

// Close unmaps the file.
func (f *File) Close() error {
	data := f.data
	f.data = nil
	if data == nil {
		return nil
	}
	return errors.Join(unmap(data), f.disk.Close())
}

// An Entry is a file that Find found.
type Entry struct {
	Path  string `json:"path"`
	Bytes int64  `json:"bytes"`
}

// String names the file and its size.
func (e Entry) String() string { return fmt.Sprintf("%s, %d bytes", e.Path, e.Bytes) }

// Find lists the files of a prefix, of whatever sections, and what interrupted writers
// left.
func Find(prefix string) ([]Entry, error) {
	dir, base := split(prefix)
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var found []Entry
	for _, entry := range files {
		rest, ok := strings.CutPrefix(entry.Name(), base)
		if !ok || !names.MatchString(rest) || !entry.Type().IsRegular() {
			continue
		}
		if info, err := entry.Info(); err == nil {
			found = append(found, Entry{prefix + rest, info.Size()})
		}
	}
	return found, nil
}

// Remove removes what Find lists, apart from what somebody is writing, and returns it.
// Who has a file mapped keeps it until the end.
func Remove(prefix string) (removed []Entry, err error) {
	found, err := Find(prefix)
	for _, entry := range found {
		if strings.HasSuffix(entry.Path, partial) {
			if !removeLeftover(entry.Path) {
				continue
			}
		} else if failed := os.Remove(entry.Path); failed != nil {
			err = errors.Join(err, failed)
			continue
		}
		removed = append(removed, entry)
	}
	return removed, err
}
