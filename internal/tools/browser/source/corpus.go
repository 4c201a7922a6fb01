package source

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path"
	"strings"
	"sync"
	"time"

	"ossian/internal/tools/outbound"
)

// A Folder is a folder of this machine as a backend: HTML, Markdown and text files, in folders of
// any depth. There is no network in it.
//
// A document's address is what the file states: HTML by <link rel="canonical" href="…">, text by
// a first line "URL: …". Others, and those that state what a file before them by path does, are at
// https://corpus.local/PATH. By that address every document is found, so that links between files
// work; a folder's is that of its index.html. What is compared of addresses is host, path and
// query: http is as https, and a slash at the end is nothing.
//
// Names that begin with a dot are not looked at, nor what symbolic links lead out of the folder
// to. Files are read when they are first seen, and again when their size or time has changed;
// that is looked for when somebody searches. A page is always read from its file.
type Folder struct {
	dir    string
	bounds bounds

	mu      sync.Mutex    // guards what follows
	every   time.Duration // between looks at the folder
	index   *index
	looked  time.Time     // when index was found to be what is there
	failed  error         // why the last look found nothing out
	looking chan struct{} // closed when the look that is under way is over; nil = none is
}

// lookEvery is the least time between two looks at the folder; a look that takes long is followed
// by lookRest times as long without one.
const (
	lookEvery = 2 * time.Second
	lookRest  = 20
)

// host is that of documents which state no address. Names below .local are none of the web's.
const host = "corpus.local"

// Corpus reads a folder. It takes as long as that does: some seconds for 10,000 files.
func Corpus(dir string) (*Folder, error) { return corpus(dir, defaults) }

func corpus(dir string, bounds bounds) (*Folder, error) {
	f := &Folder{dir: dir, bounds: bounds, every: lookEvery, index: &index{}}
	made, err := scan(dir, bounds, f.index)
	if err != nil {
		return nil, fmt.Errorf("the browser's corpus %s cannot be read: %w; name a folder of HTML, Markdown or text files", dir, err)
	}
	f.index, f.looked = made, time.Now()
	return f, nil
}

// Name is corpus.
func (f *Folder) Name() string { return "corpus" }

// Empty reports whether there is no document to find.
func (f *Folder) Empty() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.index.docs) == 0
}

// Report says in one line, for operators, what is in the index and what was left out.
func (f *Folder) Report() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.index.report()
}

// Search returns the documents that BM25 ranks first, with the passage that is most about the query.
func (f *Folder) Search(ctx context.Context, query string, n int) ([]Hit, error) {
	index, err := f.look(ctx)
	if err != nil {
		return nil, err
	}
	words := terms(query)
	if n <= 0 || len(words) == 0 {
		return nil, nil
	}
	best, weights := rank(index.docs, words, n)
	hits := make([]Hit, 0, len(best))
	root, err := os.OpenRoot(f.dir)
	if err != nil {
		return nil, errFolder
	}
	defer root.Close()
	for _, match := range best {
		if ctx.Err() != nil {
			return nil, cancelled(ctx)
		}
		hit := Hit{Title: match.doc.title, URL: match.doc.address}
		if content, err := match.doc.read(root, f.bounds.file); err == nil { // else it has just gone
			hit.Summary = passage(match.doc.parse(content).text, words, weights)
		}
		hits = append(hits, hit)
	}
	return hits, nil
}

// Fetch returns a document.
func (f *Folder) Fetch(ctx context.Context, address string) (Document, error) {
	if _, err := outbound.CheckPage(address); err != nil {
		return Document{}, err
	}
	index, err := f.look(ctx)
	if err != nil {
		return Document{}, err
	}
	doc := index.byAddress[key(address)]
	if doc == nil {
		return Document{}, errors.New("it is not in the corpus: this browser has no network, only the documents of a folder; search finds those that are there")
	}
	// A root, so that no link in the corpus leads out of it.
	root, err := os.OpenRoot(f.dir)
	if err != nil {
		return Document{}, errFolder
	}
	defer root.Close()
	content, err := doc.read(root, f.bounds.file)
	if err != nil {
		return Document{}, errors.New("it is not in the corpus any more, or cannot be read")
	}
	if doc.kind == page {
		return Document{Title: doc.title, HTML: text(content, "text/html")}, nil
	}
	read := doc.parse(content)
	return Document{Title: cmp.Or(read.title, doc.title), Text: read.text}, nil
}

var errFolder = errors.New("the folder of the corpus cannot be read now")

// cancelled says why nobody waits any more.
func cancelled(ctx context.Context) error { return errors.New(outbound.Reason(ctx.Err())) }

// look returns the index of what is in the folder now, or was a moment ago. Whoever comes while
// somebody looks waits for that.
func (f *Folder) look(ctx context.Context) (*index, error) {
	f.mu.Lock()
	if f.looking == nil && time.Since(f.looked) >= f.every {
		f.looking = make(chan struct{})
		go f.rescan(f.index, f.looking)
	}
	wait := f.looking
	f.mu.Unlock()
	if wait != nil {
		select {
		case <-wait:
		case <-ctx.Done():
			return nil, cancelled(ctx)
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.index, f.failed
}

// rescan makes an index of what is in the folder and of what is unchanged of the one before.
func (f *Folder) rescan(before *index, done chan struct{}) {
	began := time.Now()
	made, err := scan(f.dir, f.bounds, before)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.looked, f.looking, f.failed = time.Now(), nil, nil
	if err != nil {
		f.failed = errFolder
	} else {
		f.index = made
	}
	if f.every > 0 {
		f.every = max(lookEvery, lookRest*time.Since(began))
	}
	close(done)
}

// own returns the address of a file that states none.
func own(file string) string {
	return (&url.URL{Scheme: "https", Host: host, Path: "/" + file}).String()
}

// key returns what is compared of an address; "" = it has none.
func key(address string) string {
	parsed, err := url.Parse(address)
	if err != nil || parsed.Hostname() == "" {
		return ""
	}
	at := strings.ToLower(parsed.Hostname())
	if port := parsed.Port(); port != "" && port != map[string]string{"http": "80", "https": "443"}[parsed.Scheme] {
		at += ":" + port
	}
	at += path.Clean("/" + parsed.Path)
	if parsed.RawQuery != "" {
		at += "?" + parsed.RawQuery
	}
	return at
}
