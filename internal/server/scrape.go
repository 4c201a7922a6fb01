package server

import (
	"bytes"
	"compress/gzip"
	"net/http"
	"strconv"
	"sync"
	"time"

	"ossian/internal/web"
)

// An exposition answers /metrics. Pickers, each of which asks every 50 ms, must not take what
// computes from it (operations.md 12): a text is made once for all who ask within a while. It is
// used by any number of goroutines.
type exposition struct {
	render http.Handler  // makes a text of the format that is asked for
	age    time.Duration // at most, of a text that is given again; 0 = each is made anew
	clock  func() time.Time

	mu   sync.Mutex // guards the rest, and is held while a text is made: who comes meanwhile gets the same
	made map[string]*rendering
	gzip *gzip.Writer // kept: a new one takes a megabyte; nil = none was needed yet
}

// mostFormats bounds the texts that are kept: clients say in many ways which format they like.
const mostFormats = 4

// A rendering is a text of the metrics.
type rendering struct {
	at     time.Time
	header http.Header
	status int
	text   bytes.Buffer
	packed []byte // text as gzip; nil = nobody has asked for that
}

// Header implements http.ResponseWriter.
func (r *rendering) Header() http.Header { return r.header }

// WriteHeader implements http.ResponseWriter.
func (r *rendering) WriteHeader(status int) { r.status = status }

// Write implements io.Writer. It does not fail.
func (r *rendering) Write(b []byte) (int, error) { return r.text.Write(b) }

// ServeHTTP implements http.Handler.
func (e *exposition) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	packed := web.AcceptsGzip(r.Header.Values("Accept-Encoding"))
	found, body := e.get(r, packed)
	for name, values := range found.header {
		w.Header()[name] = values
	}
	if packed {
		w.Header().Set("Content-Encoding", "gzip")
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(found.status)
	_, _ = w.Write(body) // who has left needs no answer
}

// get returns a text that is new enough, as it is sent.
func (e *exposition) get(r *http.Request, packed bool) (found *rendering, body []byte) {
	accept := r.Header.Get("Accept")
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.clock()
	found = e.made[accept]
	// What failed is made again by the next scrape, however young it is.
	if found == nil || now.Sub(found.at) >= e.age || found.status != http.StatusOK {
		found = &rendering{at: now, header: http.Header{}, status: http.StatusOK}
		e.render.ServeHTTP(found, r)
		// Accept comes from the caller, so the number of formats that are kept has a bound.
		if len(e.made) >= mostFormats {
			clear(e.made)
		}
		e.made[accept] = found
	}
	if !packed {
		return found, found.text.Bytes()
	}
	if found.packed == nil {
		found.packed = e.pack(found.text.Bytes())
	}
	return found, found.packed
}

// pack returns a text as gzip, as fast as it can be made; e.mu is held.
func (e *exposition) pack(text []byte) []byte {
	var out bytes.Buffer
	var err error
	if e.gzip == nil {
		e.gzip, err = gzip.NewWriterLevel(&out, gzip.BestSpeed)
	} else {
		e.gzip.Reset(&out)
	}
	if err == nil {
		_, err = e.gzip.Write(text)
	}
	if err == nil {
		err = e.gzip.Close()
	}
	if err != nil {
		panic(err) // memory takes all, and there is such a level
	}
	return out.Bytes()
}
