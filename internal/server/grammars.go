package server

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"runtime"
	"sync"

	"ossian/internal/grammar"
	"ossian/internal/host"
	"ossian/internal/limits"
)

// errCompile ends the compilation of a request's grammars that takes too long.
var errCompile = errors.New("server: compiling grammars took too long")

// grammars compiles what requests hold output to: each source once, a few at a time so
// that the engine keeps its processors, and on the goroutine of the connection, so that
// a panic or a departure ends one request. The latest used stay.
type grammars struct {
	room   chan struct{} // held by who compiles
	report func(bytes int64)

	mu    sync.Mutex
	model *host.Model
	words func() *grammar.Vocabulary // of model, made when first needed
	known map[[sha256.Size]byte]*compilation
	uses  uint64
}

// A compilation is a grammar, or is becoming one.
type compilation struct {
	done    chan struct{} // closed when the rest is known
	grammar *grammar.Grammar
	err     error
	used    uint64 // when it was last asked for
}

func newGrammars(report func(bytes int64)) *grammars {
	return &grammars{room: make(chan struct{}, max(runtime.GOMAXPROCS(0)/2, 1)), report: report}
}

// compiler returns what compiles for a model until ctx ends, or it takes too long.
func (s *Server) compiler(ctx context.Context, m *host.Model) (compile func(grammar.Source) (*grammar.Grammar, error), end func()) {
	var within context.Context // from the first source on: most requests have none
	cancel := func() {}
	return func(src grammar.Source) (*grammar.Grammar, error) {
		if within == nil {
			s.grammars.vocabulary(m)() // made once: not a matter of this request's time
			within, cancel = context.WithTimeoutCause(ctx, s.lim().Time(limits.CompileTime), errCompile)
		}
		return s.grammars.compile(within, m, src, s.lim()[limits.GrammarCache])
	}, func() { cancel() }
}

// compile returns the grammar of src. The error is a *grammar.Error, or that of ctx.
func (c *grammars) compile(ctx context.Context, m *host.Model, src grammar.Source, most int64) (*grammar.Grammar, error) {
	text, err := json.Marshal(src)
	if err != nil {
		return nil, err
	}
	key := sha256.Sum256(text)
	for {
		words := c.vocabulary(m)
		k, mine := c.find(key)
		if mine {
			c.make(ctx, key, k, src, words, most)
			return k.grammar, k.err
		}
		select {
		case <-k.done:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		if _, bad := errors.AsType[*grammar.Error](k.err); bad || k.err == nil {
			return k.grammar, k.err
		} // otherwise whoever compiled it has left
	}
}

// vocabulary returns that of a model, which may have to be made.
func (c *grammars) vocabulary(m *host.Model) func() *grammar.Vocabulary {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.model != m {
		c.model, c.known = m, map[[sha256.Size]byte]*compilation{}
		c.words = sync.OnceValue(func() *grammar.Vocabulary { return grammar.NewVocabulary(m.Tokenizer) })
	}
	return c.words
}

// find returns what is known of a source. If it is new, it is the caller's to make.
func (c *grammars) find(key [sha256.Size]byte) (k *compilation, mine bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k = c.known[key]
	if mine = k == nil; mine {
		k = &compilation{done: make(chan struct{}), err: context.Canceled}
		c.known[key] = k
	}
	c.uses++
	k.used = c.uses
	return k, mine
}

// make completes k, whatever happens.
func (c *grammars) make(ctx context.Context, key [sha256.Size]byte, k *compilation, src grammar.Source, words func() *grammar.Vocabulary, most int64) {
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if k.err != nil && c.known[key] == k {
			delete(c.known, key)
		}
		close(k.done)
		c.trim(k, most)
	}()
	select {
	case c.room <- struct{}{}:
	case <-ctx.Done():
		k.err = context.Cause(ctx)
		return
	}
	defer func() { <-c.room }()
	k.grammar, k.err = grammar.Compile(ctx, src, words())
	if ctx.Err() != nil {
		k.grammar, k.err = nil, context.Cause(ctx)
	}
}

// trim forgets the grammars used longest ago, but for the newest, until the others hold
// no more than most bytes. c.mu is held.
func (c *grammars) trim(newest *compilation, most int64) {
	held := int64(0)
	for _, k := range c.known {
		held += k.bytes()
	}
	defer func() { c.report(held) }()
	for held > most {
		var oldest *compilation
		var at [sha256.Size]byte
		for key, k := range c.known {
			if k != newest && k.bytes() > 0 && (oldest == nil || k.used < oldest.used) {
				oldest, at = k, key
			}
		}
		if oldest == nil {
			return
		}
		held -= oldest.bytes()
		delete(c.known, at)
	}
}

// bytes is what a grammar holds, 0 before it is made.
func (k *compilation) bytes() int64 {
	select {
	case <-k.done:
		return k.grammar.Bytes()
	default:
		return 0
	}
}
