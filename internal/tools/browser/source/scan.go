package source

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
)

// bounds keep the memory of an index, and the time that it takes, whatever is put into the folder.
type bounds struct {
	files int
	file  int64 // bytes of one
	bytes int64 // of all
	words int   // distinct ones of each document, of all documents; 10 bytes each
}

var defaults = bounds{files: 100_000, file: 10 << 20, bytes: 1 << 30, words: 24 << 20}

// A document is a file that was read, or why it is left out. It does not change.
type document struct {
	path    string // below the folder, with slashes
	size    int64
	written time.Time
	why     string // it is left out; "" = it is not
	kind    kind
	title   string
	states  string // address in the file; "" = none
	address string // by which it is cited
	counts  counts
}

// An index is what was in a folder at one time. It does not change.
type index struct {
	docs      []*document          // in the order of their paths
	byAddress map[string]*document // by key
	seen      map[string]*document // by path, with those left out
	bytes     int64                // of docs
	out       []leftOut
}

// leftOut is a reason, and the files of which it is one.
type leftOut struct {
	why   string
	files int
	first string
}

// Why files are left out.
const (
	whyType     = "of another type than HTML, Markdown and text"
	whyBinary   = "that are no text"
	whySize     = "that are too large"
	whyOutside  = "that are links out of the folder or to nothing"
	whyOdd      = "that are no regular files"
	whyDenied   = "that cannot be read"
	whyMany     = "above the number that is read"
	whyTogether = "above what is read of all together"
)

func (x *index) leave(file, why string) {
	at := slices.IndexFunc(x.out, func(known leftOut) bool { return known.why == why })
	if at < 0 {
		at = len(x.out)
		x.out = append(x.out, leftOut{why: why, first: file})
	}
	x.out[at].files++
}

// report is Folder.Report.
func (x *index) report() string {
	text := fmt.Sprintf("%d documents, %.1f MB", len(x.docs), float64(x.bytes)/1e6)
	for i, out := range x.out {
		text += fmt.Sprintf("%s %d %s (%.100q)", [...]string{"; left out:", ","}[min(i, 1)], out.files, out.why, out.first)
	}
	return text
}

// A found is a file that a walk has met.
type found struct {
	path string
	info fs.FileInfo
}

// scan makes the index of a folder, with what is unchanged from the one before.
func scan(dir string, bounds bounds, before *index) (*index, error) {
	root, err := os.OpenRoot(dir) // names in it lead nowhere else, whatever links there are
	if err != nil {
		return nil, bare(err)
	}
	defer root.Close()
	made := &index{seen: map[string]*document{}, byAddress: map[string]*document{}}
	files, err := made.walk(root, bounds)
	if err != nil {
		return nil, bare(err)
	}
	words := 0
	for batch := range slices.Chunk(files, 256) {
		for _, doc := range readAll(root, bounds, before, batch) {
			switch {
			case doc.why != "":
				made.leave(doc.path, doc.why)
			case words+len(doc.counts.words) > bounds.words:
				made.leave(doc.path, whyTogether)
				doc = &document{path: doc.path, size: doc.size, written: doc.written, why: whyTogether}
			default:
				made.docs = append(made.docs, doc)
				made.bytes += doc.size
				words += len(doc.counts.words)
			}
			made.seen[doc.path] = doc
		}
	}
	made.place()
	return made, nil
}

// bare is an error without the folder's name, which whoever tells it has told.
func bare(err error) error {
	if at, ok := errors.AsType[*fs.PathError](err); ok {
		return at.Err
	}
	return err
}

// walk returns the files to read, in the order of their paths.
func (x *index) walk(root *os.Root, bounds bounds) (files []found, err error) {
	total := int64(0)
	err = fs.WalkDir(root.FS(), ".", func(file string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil && file == ".":
			return err
		case err != nil: // of a folder
			x.leave(file, whyDenied)
			return fs.SkipDir
		case file != "." && strings.HasPrefix(entry.Name(), "."):
			if entry.IsDir() {
				return fs.SkipDir
			}
			return nil
		case entry.IsDir():
			return nil
		}
		info, why := classify(root, file, entry)
		switch {
		case why != "":
		case info.IsDir(): // a link to one: what it holds is found where it lies
			return nil
		case info.Size() > bounds.file:
			why = whySize
		case len(files) >= bounds.files:
			why = whyMany
		case total+info.Size() > bounds.bytes:
			why = whyTogether
		}
		if why != "" {
			x.leave(file, why)
			return nil
		}
		total += info.Size()
		files = append(files, found{file, info})
		return nil
	})
	slices.SortFunc(files, func(a, b found) int { return strings.Compare(a.path, b.path) })
	return files, err
}

// classify returns what a name of the folder is, or why it is left out.
func classify(root *os.Root, file string, entry fs.DirEntry) (info fs.FileInfo, why string) {
	link := entry.Type()&fs.ModeSymlink != 0
	info, err := root.Stat(file)
	switch {
	case err != nil && link:
		return nil, whyOutside
	case err != nil:
		return nil, whyDenied
	case info.IsDir():
		return info, ""
	case !info.Mode().IsRegular():
		return nil, whyOdd
	case types[strings.ToLower(path.Ext(file))] == unreadable:
		return nil, whyType
	}
	return info, ""
}

// types says by the end of its name what a file is.
var types = map[string]kind{
	".html": page, ".htm": page, ".xhtml": page,
	".md": plain, ".markdown": plain, ".mdown": plain, ".txt": plain, ".text": plain, ".rst": plain, ".adoc": plain, ".org": plain,
	".tex": plain, ".csv": plain, ".tsv": plain, ".json": plain, ".jsonl": plain, ".xml": plain, ".yaml": plain, ".yml": plain, ".log": plain,
	"": plain,
}

// readAll reads files, or takes them from the index before, in their order.
func readAll(root *os.Root, bounds bounds, before *index, files []found) []*document {
	docs := make([]*document, len(files))
	var next sync.Mutex // guards at
	at := 0
	var workers sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(files)) {
		workers.Go(func() {
			for {
				next.Lock()
				i := at
				at++
				next.Unlock()
				if i >= len(files) {
					return
				}
				docs[i] = take(root, bounds, before, files[i])
			}
		})
	}
	workers.Wait()
	return docs
}

// take returns the document of a file.
func take(root *os.Root, bounds bounds, before *index, file found) *document {
	known := before.seen[file.path]
	// Size and time tell whether a file changed: only what did is read again.
	if known != nil && known.size == file.info.Size() && known.written.Equal(file.info.ModTime()) {
		return known
	}
	doc := &document{path: file.path, size: file.info.Size(), written: file.info.ModTime(), kind: types[strings.ToLower(path.Ext(file.path))]}
	content, err := doc.read(root, bounds.file)
	switch {
	case errors.Is(err, errLarge):
		doc.why = whySize
		return doc
	case err != nil:
		doc.why = whyDenied
		return doc
	case binary(content) && !utf16(content):
		doc.why = whyBinary
		return doc
	}
	// A name without an ending says nothing of what is in it: the content decides.
	if doc.kind == plain && path.Ext(doc.path) == "" {
		if doc.kind, _ = kindOf("", content); doc.kind == unreadable {
			doc.why = whyBinary
			return doc
		}
	}
	read := doc.parse(content)
	doc.title, doc.states = read.title, read.address
	if doc.title == "" {
		doc.title = strings.TrimSuffix(path.Base(doc.path), path.Ext(doc.path))
	}
	doc.counts = count(doc.title, read.text)
	return doc
}

var errLarge = errors.New("larger than is read")

// read returns the content of the file.
func (d *document) read(root *os.Root, most int64) ([]byte, error) {
	if d.size > most {
		return nil, errLarge
	}
	file, err := root.Open(d.path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	content, err := io.ReadAll(io.LimitReader(file, most+1))
	if err == nil && int64(len(content)) > most {
		return nil, errLarge
	}
	return content, err
}

// parse reads the content.
func (d *document) parse(content []byte) reading {
	if d.kind == page {
		return readHTML(text(content, "text/html"))
	}
	return readText(text(content, "text/plain"))
}

// place gives each document the address by which it is cited, and lets it be found by all that
// are its own.
func (x *index) place() {
	for i, doc := range x.docs {
		placed := *doc // the one before may have had another
		placed.address = own(doc.path)
		x.docs[i] = &placed
		x.seen[doc.path] = &placed
		x.byAddress[key(placed.address)] = &placed
	}
	for _, doc := range x.docs {
		if base := path.Base(doc.path); base == "index.html" || base == "index.htm" {
			x.claim(own(strings.TrimSuffix(doc.path, base)), doc)
		}
		if doc.states != "" && x.claim(doc.states, doc) {
			doc.address = doc.states
		}
	}
}

// claim lets a document be found by an address, unless another is.
func (x *index) claim(address string, doc *document) bool {
	at := key(address)
	if x.byAddress[at] != nil {
		return x.byAddress[at] == doc
	}
	x.byAddress[at] = doc
	return true
}
