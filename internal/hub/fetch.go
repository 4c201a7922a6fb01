package hub

import (
	"cmp"
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"os"
	"strings"
	"time"
)

const fetchTries = 8 // in a row without a byte

// A transfer is one file on its way: what lies in part is hashed and belongs to
// the content that etag names. It is used by one goroutine: resume → attempts → done, with a
// restart wherever what is here does not belong to what comes.
type transfer struct {
	pull  *pull
	file  *remote
	part  *os.File
	hash  hash.Hash
	size  int64  // bytes in part
	most  int64  // that there have been: only more is progress, or two answers that contradict each other would go on for ever
	etag  string // of the answer the bytes came from; "" = unknown
	mixed bool   // bytes of more than one answer, or of an earlier run
}

// fetch brings a file into its blob: it continues an incomplete one, and gives the
// blob its name only when size and digest are right.
func (p *pull) fetch(ctx context.Context, file *remote) error {
	temp := p.blob(file) + ".incomplete"
	part, err := p.root.OpenFile(temp, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	defer part.Close()
	coming := &transfer{pull: p, file: file, part: part, hash: file.newHash()}
	if err := coming.resume(ctx); err != nil {
		return err
	}
	err = coming.run(ctx)
	if sum := hex.EncodeToString(coming.hash.Sum(nil)); err == nil && sum != file.Blob && coming.mixed {
		// The bytes of an earlier run may have been of something else.
		if err = coming.restart(); err == nil {
			coming.most = 0
			err = coming.run(ctx)
		}
	}
	if err != nil {
		return err
	}
	if sum := hex.EncodeToString(coming.hash.Sum(nil)); sum != file.Blob {
		p.advance(-coming.size)
		part.Close()
		p.root.Remove(temp)
		return fmt.Errorf("digest is %s, expected %s: the copy was removed; the endpoint or a proxy sent other content", sum, file.Blob)
	}
	if err := part.Sync(); err != nil {
		return err
	}
	if err := part.Close(); err != nil {
		return err
	}
	return p.root.Rename(temp, p.blob(file))
}

// newHash returns the hash whose sum is r.Blob: SHA-256 of the content for large
// files, git's SHA-1 over a header and the content for the others.
func (r *remote) newHash() hash.Hash {
	if len(r.Blob) == hex.EncodedLen(sha256.Size) {
		return sha256.New()
	}
	hash := sha1.New()
	fmt.Fprintf(hash, "blob %d\x00", r.Size)
	return hash
}

// resume takes over the bytes of an earlier run.
func (t *transfer) resume(ctx context.Context) error {
	buf := make([]byte, 1<<20)
	for ctx.Err() == nil {
		read, err := t.part.Read(buf)
		t.hash.Write(buf[:read])
		t.size += int64(read)
		t.mixed = t.size > 0
		t.pull.advance(int64(read))
		if t.size > t.file.Size {
			return t.restart()
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return context.Cause(ctx)
}

// restart forgets all bytes.
func (t *transfer) restart() error {
	t.pull.advance(-t.size)
	t.size, t.etag, t.mixed = 0, "", false
	t.hash = t.file.newHash()
	if err := t.part.Truncate(0); err != nil {
		return err
	}
	_, err := t.part.Seek(0, io.SeekStart)
	return err
}

// run transfers until all bytes are here.
func (t *transfer) run(ctx context.Context) error {
	if t.size == t.file.Size {
		return nil
	}
	return t.pull.retry(ctx, fetchTries, func() (bool, error) {
		before := max(t.most, t.size)
		err := t.attempt(ctx)
		t.most = max(before, t.size)
		return t.size > before, err
	})
}

// attempt sends one request for what is missing.
func (t *transfer) attempt(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	// No deadline for the whole, which may take hours: nothing for Stall ends the attempt.
	stalled := time.AfterFunc(t.pull.cfg.Stall, func() { cancel(errors.New("nothing came for " + t.pull.cfg.Stall.String())) })
	defer stalled.Stop()

	header := http.Header{"Accept-Encoding": {"identity"}}
	if t.size > 0 {
		header.Set("Range", fmt.Sprintf("bytes=%d-", t.size))
		if t.etag != "" && !strings.HasPrefix(t.etag, "W/") {
			header.Set("If-Range", t.etag)
		}
	}
	elements := append(t.pull.name.elements(), "resolve", t.pull.commit)
	res, err := t.pull.get(ctx, t.pull.at(append(elements, strings.Split(t.file.Path, "/")...)...), header)
	if err != nil {
		return cause(ctx, err)
	}
	defer res.Body.Close()
	if err := t.accept(res); err != nil {
		return err
	}
	buf := make([]byte, 1<<20)
	// What came is kept whatever the error beside it: the next attempt goes on from there.
	for {
		read, err := res.Body.Read(buf)
		stalled.Reset(t.pull.cfg.Stall)
		if t.size+int64(read) > t.file.Size {
			return permanentError{fmt.Errorf("more than the %d bytes the endpoint lists", t.file.Size)}
		}
		if err := t.write(buf[:read]); err != nil {
			return permanentError{err}
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return cause(ctx, cmp.Or(malformed(err), err))
		}
		if t.size == t.file.Size {
			return nil
		}
		if err != nil {
			return fmt.Errorf("the answer ended after %d of %d bytes: %w", t.size, t.file.Size, io.ErrUnexpectedEOF)
		}
	}
}

// cause returns why ctx was cancelled, or err.
func cause(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// accept checks that an answer continues what is here, and starts over when it
// does not: the server ignored the range, or its content has changed.
func (t *transfer) accept(res *http.Response) error {
	etag := res.Header.Get("ETag")
	switch res.StatusCode {
	case http.StatusOK:
		if t.size > 0 {
			if err := t.restart(); err != nil {
				return permanentError{err}
			}
		}
		t.etag = etag
		return nil
	case http.StatusPartialContent:
		var from, to, size int64
		_, err := fmt.Sscanf(res.Header.Get("Content-Range"), "bytes %d-%d/%d", &from, &to, &size)
		if err == nil && from == t.size && size == t.file.Size && (t.etag == "" || t.etag == etag) {
			t.etag, t.mixed = etag, true
			return nil
		}
		wanted := t.size // restart forgets it
		if err := t.restart(); err != nil {
			return permanentError{err}
		}
		return fmt.Errorf("the answer holds %q of other content, expected bytes from %d of %d", res.Header.Get("Content-Range"), wanted, t.file.Size)
	case http.StatusRequestedRangeNotSatisfiable:
		if err := t.restart(); err != nil {
			return permanentError{err}
		}
		return errors.New("the endpoint refuses to continue the file")
	}
	return check(res, time.Now())
}

// write appends b to the part and to the hash.
func (t *transfer) write(b []byte) error {
	written, err := t.part.Write(b)
	t.hash.Write(b[:written])
	t.size += int64(written)
	t.pull.fetched.Add(int64(written))
	t.pull.advance(int64(written))
	return err
}
