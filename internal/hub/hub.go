// Package hub brings models from a Hugging Face-compatible endpoint into the cache
// that the reference client uses too, and finds them there. Callers see names and
// paths; listing, choosing, resuming, checking digests, locking and the layout of
// the cache stay inside.
package hub

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unicode"
)

// ErrOffline is returned by Pull when the configuration forbids the network.
var ErrOffline = errors.New("offline mode (HF_HUB_OFFLINE): nothing is downloaded")

// Config says where models come from and where they are kept.
type Config struct {
	Endpoint  string                                     // "" = https://huggingface.co
	Token     string                                     // sent to the endpoint only; "" = none
	Cache     string                                     // the cache's folder, the reference client's HF_HUB_CACHE
	Offline   bool                                       // no network
	Parallel  int                                        // files fetched at once; 0 = 4
	Stall     time.Duration                              // a transfer that brings nothing for this long is tried again; 0 = 1 min
	Transport http.RoundTripper                          // nil = the standard one
	Sleep     func(context.Context, time.Duration) error // waits before another try; nil = really

	symlink func(root *os.Root, target, name string) error // nil = os.Root.Symlink; for file systems without links
}

// A Request says what to fetch.
type Request struct {
	Name     Name
	File     string                  // one GGUF file of the repository, and its set; "" = Name.File, or what a runtime needs
	Include  []string                // globs of files to fetch instead of the ones a runtime needs; * also matches /
	Files    []string                // of a data set: what to fetch
	Exclude  []string                // globs of files not to fetch
	Force    bool                    // fetch also what is here already: repairs a cache whose files were damaged later
	Progress func(done, total int64) // bytes; called from several goroutines; nil = none
}

// A Pulled model is complete and verified in the cache.
type Pulled struct {
	Path    string // what to open: a directory or a GGUF file
	Commit  string
	Files   int
	Bytes   int64 // of all files
	Fetched int64 // of them, transferred now
}

// withDefaults fills the zero fields.
func (cfg Config) withDefaults() Config {
	if cfg.Endpoint == "" {
		cfg.Endpoint = "https://huggingface.co"
	}
	if cfg.Parallel == 0 {
		cfg.Parallel = 4
	}
	if cfg.Stall == 0 {
		cfg.Stall = time.Minute
	}
	if cfg.Sleep == nil {
		cfg.Sleep = sleep
	}
	if cfg.symlink == nil {
		cfg.symlink = (*os.Root).Symlink
	}
	return cfg
}

// sleep waits, or returns why ctx ended.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}

// Pull fetches what is missing of a model, verifies it and returns where it lies.
// An interrupted Pull is continued by the next. The revision's reference is
// written last: until then Resolve finds the previous commit, if any.
func Pull(ctx context.Context, cfg Config, req Request) (pulled Pulled, err error) {
	defer func() {
		if err != nil {
			err = cleanError{err}
		}
	}()
	cfg = cfg.withDefaults()
	if cfg.Offline {
		return Pulled{}, fmt.Errorf("%s: %w", req.Name, ErrOffline)
	}
	client, err := newClient(cfg)
	if err != nil {
		return Pulled{}, err
	}
	commit, err := client.commit(ctx, req.Name)
	if err != nil {
		return Pulled{}, err
	}
	// Everything below is about this commit, whatever the revision comes to mean meanwhile.
	all, err := client.list(ctx, req.Name, commit)
	if err != nil {
		return Pulled{}, err
	}
	files, open, err := choose(all, &req)
	if err != nil {
		return Pulled{}, fmt.Errorf("%s: %w", req.Name, err)
	}
	if err := os.MkdirAll(cfg.Cache, 0o755); err != nil {
		return Pulled{}, fmt.Errorf("cache: %w", diskHint(err, cfg.Cache))
	}
	root, err := os.OpenRoot(cfg.Cache)
	if err != nil {
		return Pulled{}, fmt.Errorf("cache: %w", err)
	}
	defer root.Close()
	run := &pull{client: client, root: root, force: req.Force, name: req.Name, folder: req.Name.folder(), commit: commit, report: req.Progress}
	if err := run.all(ctx, files); err != nil {
		if status, ok := errors.AsType[*StatusError](err); ok && (status.Status == 401 || status.Status == 403) { // a gated model is listed all the same
			return Pulled{}, client.explain(ctx, req.Name, err)
		}
		return Pulled{}, fmt.Errorf("%s: %w", req.Name, diskHint(err, cfg.Cache))
	}
	return Pulled{
		Path:   filepath.Join(cfg.Cache, filepath.FromSlash(path.Join(run.snapshot(), open))),
		Commit: commit, Files: len(files), Bytes: run.total, Fetched: run.fetched.Load(),
	}, nil
}

// A cleanError is an error whose text, in which an endpoint may have a part, does not steer a
// terminal.
type cleanError struct{ error }

// Error returns the text without controls.
func (e cleanError) Error() string {
	return strings.Map(func(r rune) rune {
		if (unicode.IsControl(r) && r != '\n') || unicode.Is(unicode.Bidi_Control, r) {
			return -1
		}
		return r
	}, e.error.Error())
}

// Unwrap returns the error itself.
func (e cleanError) Unwrap() error { return e.error }

// A pull is the state of one Pull. The cache's paths are below root and formed
// from validated parts only.
type pull struct {
	*client
	root    *os.Root // the cache
	force   bool
	name    Name
	folder  string // models--ORG--NAME
	commit  string
	total   int64        // bytes of all files, known before the first is fetched
	done    atomic.Int64 // of them here, what an earlier run left included
	fetched atomic.Int64 // of them transferred by this Pull
	report  func(done, total int64)
}

// Where things are below the root: the commit's files, the content of a file, its lock.
func (p *pull) snapshot() string          { return path.Join(p.folder, "snapshots", p.commit) }
func (p *pull) blob(r *remote) string     { return path.Join(p.folder, "blobs", r.Blob) }
func (p *pull) lockFile(r *remote) string { return path.Join(".locks", p.folder, r.Blob+".lock") }

// advance counts n bytes, negative ones when a file starts over.
func (p *pull) advance(n int64) {
	done := p.done.Add(n)
	if p.report != nil {
		p.report(done, p.total)
	}
}

// all fetches the files, small ones first, and then points the revision at them.
func (p *pull) all(ctx context.Context, files []remote) error {
	for _, dir := range []string{path.Join(p.folder, "blobs"), path.Join(p.folder, "refs"), p.snapshot(), path.Join(".locks", p.folder)} {
		if err := p.root.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	slices.SortFunc(files, func(a, b remote) int { return int(min(max(a.Size-b.Size, -1), 1)) })
	// A disk that is too small is told before the first byte.
	need := int64(0)
	for i := range files {
		if err := files[i].check(); err != nil {
			return err
		}
		p.total += files[i].Size
		need += files[i].Size
		if !p.force {
			need -= p.present(&files[i])
		}
	}
	if free := freeSpace(p.root.Name()); free >= 0 && need > free {
		return fmt.Errorf("%d bytes are missing and %d are free in %s: %w", need, free, p.root.Name(), syscall.ENOSPC)
	}
	p.advance(0)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	// The first failure cancels the others and is what is returned.
	work := make(chan *remote)
	var wg sync.WaitGroup
	for range min(p.cfg.Parallel, len(files)) {
		wg.Go(func() {
			for r := range work {
				if err := p.file(ctx, r); err != nil {
					cancel(fmt.Errorf("%s: %w", r.Path, err))
				}
			}
		})
	}
	for i := range files {
		select {
		case work <- &files[i]:
		case <-ctx.Done():
		}
	}
	close(work)
	wg.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return p.pin(ctx)
}

// pin records which commit the revision is. Commits need no record.
func (p *pull) pin(ctx context.Context) error {
	if p.name.revision() == p.commit {
		return nil
	}
	unlock, err := p.lock(ctx, path.Join(".locks", p.folder, p.commit+".lock"))
	if err != nil {
		return err
	}
	defer unlock()
	ref := path.Join(p.folder, "refs", p.name.revision())
	if err := p.root.MkdirAll(path.Dir(ref), 0o755); err != nil {
		return err
	}
	temp := ref + "." + p.commit + ".incomplete" // who pins another commit has another lock
	file, err := p.root.Create(temp)
	if err != nil {
		return err
	}
	_, err = file.WriteString(p.commit)
	if err := errors.Join(err, file.Sync(), file.Close()); err != nil { // a ref without its commit would lose the model
		return err
	}
	return p.root.Rename(temp, ref)
}

// present returns how many bytes of r the cache holds, verified or not.
func (p *pull) present(r *remote) int64 {
	for _, name := range []string{p.blob(r), path.Join(p.snapshot(), r.Path), p.blob(r) + ".incomplete"} {
		if st, err := p.root.Stat(name); err == nil && st.Mode().IsRegular() {
			return min(st.Size(), r.Size)
		}
	}
	return 0
}

// complete reports whether a file of the cache is r: blobs get their name only
// after their digest was checked.
func (p *pull) complete(name string, r *remote) bool {
	st, err := p.root.Stat(name)
	return err == nil && st.Mode().IsRegular() && st.Size() == r.Size
}

// file makes a file present in the snapshot.
func (p *pull) file(ctx context.Context, file *remote) error {
	unlock, err := p.lock(ctx, p.lockFile(file))
	if err != nil {
		return err
	}
	defer unlock()
	name := path.Join(p.snapshot(), file.Path)
	if p.force { // what is here stays until the new file is
		if err := p.root.Remove(p.blob(file) + ".incomplete"); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if p.force || !p.complete(p.blob(file), file) {
		if st, err := p.root.Lstat(name); !p.force && err == nil && st.Mode().IsRegular() && st.Size() == file.Size {
			p.advance(file.Size) // moved here because the file system has no links
			return nil
		}
		if err := p.fetch(ctx, file); err != nil {
			return err
		}
	} else {
		p.advance(file.Size)
	}
	return p.link(name, file)
}

// link makes name stand for the blob of a file: a relative symbolic link as the
// reference client makes it, where there are none a hard link, else the file itself.
func (p *pull) link(name string, file *remote) error {
	if err := p.root.MkdirAll(path.Dir(name), 0o755); err != nil {
		return err
	}
	target, err := filepath.Rel(filepath.FromSlash(path.Dir(name)), filepath.FromSlash(p.blob(file)))
	if err != nil {
		return err
	}
	// A link that is right stays, so that a second pull changes nothing.
	if old, err := p.root.Readlink(name); err == nil && filepath.FromSlash(old) == target {
		return nil
	}
	if err := p.root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if p.cfg.symlink(p.root, target, name) == nil || p.root.Link(p.blob(file), name) == nil {
		return nil
	}
	return p.root.Rename(p.blob(file), name)
}

// lock takes the file's lock, the one the reference client takes, and waits while
// another pull holds it.
func (p *pull) lock(ctx context.Context, name string) (unlock func(), err error) {
	for {
		file, err := p.root.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o644)
		if err != nil {
			return nil, err
		}
		ok, err := tryLock(file)
		if err != nil {
			file.Close()
			return nil, fmt.Errorf("lock %s: %w", name, err)
		}
		held, err1 := file.Stat()
		now, err2 := p.root.Stat(name)
		if ok && err1 == nil && err2 == nil && os.SameFile(held, now) { // not removed while we waited
			return func() { file.Close() }, nil
		}
		file.Close()
		if err := p.cfg.Sleep(ctx, 200*time.Millisecond); err != nil {
			return nil, err
		}
	}
}

// diskHint appends what to do about a full or unwritable disk.
func diskHint(err error, cache string) error {
	switch {
	case errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT):
		return fmt.Errorf("%w: make room or set HF_HUB_CACHE to another disk, then run the command again: it continues", err)
	case errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS):
		return fmt.Errorf("%w: make %s writable or set HF_HUB_CACHE", err, cache)
	}
	return err
}
