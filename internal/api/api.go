// Package api is what the handlers of all APIs share: the caller of a request, the reply
// on its way, answers as events or put together, and what a client is told about an
// error. A handler is a package below: it decodes a body, makes a generate.Generation of
// it and a Codec, and hands both on:
//
//	generate.Service.Start → Front.Choices (or Events, Record, Whole) → Delivery.Run
//
// so an API knows no deadlines, buffers, pings or departures of clients.
package api

import (
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"ossian/internal/host"
	"ossian/internal/limits"
	"ossian/internal/metrics"
	"ossian/internal/wire"
)

// A Config is what a Front needs.
type Config struct {
	Limits         func() *limits.Set // those in force; they may change between calls
	Metrics        *metrics.Server
	Log            *slog.Logger
	Clock          func() time.Time // of what replies are dated with
	Random         func() uint64    // for ids
	Bodies         *atomic.Int64    // bytes that requests hold, of all together
	Strict         bool             // refuse unknown request fields
	StreamInterval int              // tokens per chunk at most, after the first
	ReasoningField wire.ReasoningField
	Toolbox        Toolbox // what the server runs for models; nil = nothing
	CitationLinks  bool    // citations in answers become links
}

// A Front is what handlers need of the server. Its methods may be called by any
// goroutine.
type Front struct {
	Config
	buffers sync.Pool // *[]byte
}

// New returns a front.
func New(cfg Config) *Front { return &Front{Config: cfg} }

// writeSize is how many bytes of a reply are written at once.
const writeSize = 32 << 10

// buffer lends an empty buffer; giveBack takes it again unless it has grown large.
func (f *Front) buffer() *[]byte {
	if b, ok := f.buffers.Get().(*[]byte); ok {
		*b = (*b)[:0]
		return b
	}
	b := make([]byte, 0, 4<<10)
	return &b
}

func (f *Front) giveBack(b *[]byte) {
	if b != nil && cap(*b) <= 2*writeSize {
		f.buffers.Put(b)
	}
}

// NewID returns prefix with 24 random characters.
func (f *Front) NewID(prefix string) string {
	const letters = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	id := append(make([]byte, 0, len(prefix)+24), prefix...)
	for range 3 {
		bits := f.Random()
		for range 8 {
			id = append(id, letters[bits%62])
			bits /= 62
		}
	}
	return string(id)
}

// Head is what replies and chunks begin with; id is the client's own, "" = none.
func (f *Front) Head(prefix, id string, model *host.Model) wire.Head {
	head := wire.Head{ID: prefix + id, Model: model.Name, Fingerprint: model.Fingerprint}
	if id == "" || len(id) > 256 {
		head.ID = f.NewID(prefix)
	}
	head.Created = f.Clock().Unix()
	return head
}

// mostIgnored bounds x-ossian-ignored, in bytes: proxies have little room for headers.
const mostIgnored = 2 << 10

// Unknown is Ignored for what a reader did not know (wire.Reader.Ignored): the header names it
// without indices, so that a member of many elements is named once.
func (f *Front) Unknown(reply *Reply, paths []string) error {
	names := slices.Clone(paths)
	for i := range names {
		if !f.Strict {
			names[i] = wire.WithoutIndices(names[i])
		}
	}
	return f.Ignored(reply, names)
}

// Ignored names what was not understood, after what is named already, or refuses the first of it
// in strict mode.
func (f *Front) Ignored(reply *Reply, names []string) error {
	if len(names) == 0 {
		return nil
	}
	if f.Strict {
		return wire.Unknown(names[0])
	}
	all := reply.Header().Get("x-ossian-ignored")
	for _, name := range names {
		if name = strings.Trim(strconv.QuoteToASCII(name), `"`); len(all)+len(name) > mostIgnored {
			break
		}
		if all != "" {
			all += ", "
		}
		all += name
	}
	reply.Header().Set("x-ossian-ignored", all)
	return nil
}

// Reasoning is under which name the reply to a request has reasoning.
func (f *Front) Reasoning(r *http.Request) (wire.ReasoningField, error) {
	text := r.Header.Get("x-ossian-reasoning-field")
	if text == "" {
		return f.ReasoningField, nil
	}
	field, ok := wire.ParseReasoningField(text)
	if !ok {
		return field, wire.Invalid("x-ossian-reasoning-field", "reasoning, reasoning_content or both expected")
	}
	return field, nil
}
