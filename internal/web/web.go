// Package web is the page of ossian serve: embedded files, the headers they are sent with and
// how long they may be kept. Who may ask is the server's to decide. What is in dist is made by
// _tools/web and committed.
//
// Invariant: the page asks nobody but its own origin and runs nothing but its own files. The
// headers say so to the browser, whatever a model writes.
package web

import (
	"bytes"
	"compress/gzip"
	"embed"
	"fmt"
	"io"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strconv"
	"strings"
)

//go:embed dist
var dist embed.FS

// policy is the Content-Security-Policy of the page: own scripts, styles, fonts and connections, no
// frames around it, and no text that becomes HTML.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// A file is one of the page, packed as it is embedded.
type file struct {
	kind   string // Content-Type
	tag    string // its entity tag; "" = the name says what it is
	packed []byte
}

// A Page answers requests for the page and its files.
type Page struct {
	files map[string]*file // by path of the request
}

// New returns the page that is built in.
func New() *Page {
	p := &Page{files: map[string]*file{}}
	err := fs.WalkDir(dist, "dist", func(at string, entry fs.DirEntry, err error) error {
		name, packed := strings.CutSuffix(strings.TrimPrefix(at, "dist"), ".gz")
		if err != nil || !packed {
			return err // a folder, or the list of files, which is for those who make them
		}
		content, err := dist.ReadFile(at)
		f := &file{kind: contentType(name), packed: content}
		if name == "/index.html" {
			name, f.tag = "/", entityTag(content)
		}
		p.files[name] = f
		return err
	})
	if err != nil {
		panic(fmt.Sprintf("web: embedded files cannot be read: %v", err)) // our own promise
	}
	return p
}

// contentType is that of a file by its name. The machine's own table is not asked: it differs.
func contentType(name string) string {
	switch path.Ext(name) {
	case ".html":
		return "text/html; charset=utf-8"
	case ".js":
		return "text/javascript; charset=utf-8"
	case ".css":
		return "text/css; charset=utf-8"
	case ".txt":
		return "text/plain; charset=utf-8"
	case ".woff2":
		return "font/woff2"
	}
	return mime.TypeByExtension(path.Ext(name))
}

// entityTag is that of a packed file: its checksum and length, which gzip ends with.
func entityTag(packed []byte) string { return fmt.Sprintf(`"%x"`, packed[len(packed)-8:]) }

// Serve answers a GET or HEAD request for the page or one of its files, and reports whether
// there is such a file; if not, nothing was sent. It does not look at the method or the host.
func (p *Page) Serve(w http.ResponseWriter, r *http.Request) bool {
	f := p.files[r.URL.Path]
	if f == nil {
		return false
	}
	header := w.Header()
	secure(header)
	header.Set("Content-Type", f.kind)
	header.Set("Vary", "Accept-Encoding")
	if f.tag == "" { // its name changes with its content
		header.Set("Cache-Control", "public, max-age=31536000, immutable")
	} else {
		header.Set("Cache-Control", "no-cache")
		header.Set("ETag", f.tag)
		if strings.Contains(r.Header.Get("If-None-Match"), f.tag) {
			w.WriteHeader(http.StatusNotModified)
			return true
		}
	}
	body := f.packed
	if AcceptsGzip(r.Header.Values("Accept-Encoding")) {
		header.Set("Content-Encoding", "gzip")
	} else {
		body = unpack(f.packed)
	}
	header.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(http.StatusOK)
	if r.Method != http.MethodHead {
		_, _ = w.Write(body) // who has left needs no answer
	}
	return true
}

// secure sets what keeps other pages, and whatever an answer contains, from acting as this one.
func secure(header http.Header) {
	header.Set("Content-Security-Policy", policy)
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Cross-Origin-Opener-Policy", "same-origin")
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
}

// AcceptsGzip reports whether a client takes gzip (RFC 9110, section 12.5.3): named, or meant
// by *, with a weight above 0.
func AcceptsGzip(values []string) bool {
	star := false
	for coding := range strings.SplitSeq(strings.Join(values, ","), ",") {
		name, weight, weighted := strings.Cut(coding, ";")
		accepted := true
		if weighted {
			text, found := strings.CutPrefix(strings.ToLower(strings.ReplaceAll(weight, " ", "")), "q=")
			q, err := strconv.ParseFloat(text, 64)
			accepted = found && err == nil && q > 0
		}
		switch strings.ToLower(strings.TrimSpace(name)) {
		case "gzip", "x-gzip":
			return accepted
		case "*":
			star = accepted
		}
	}
	return star
}

// unpack returns what was packed.
func unpack(packed []byte) []byte {
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		panic(fmt.Sprintf("web: an embedded file is not gzip: %v", err)) // our own promise
	}
	text, err := io.ReadAll(r)
	if err != nil {
		panic(fmt.Sprintf("web: an embedded file is damaged: %v", err))
	}
	return text
}
