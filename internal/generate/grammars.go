package generate

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"maps"
	"math"
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
	room       chan struct{} // held by who compiles
	vocabulary MakeVocabulary
	report     func(bytes int64)

	mu    sync.Mutex                                 // guards all below, and used of each compilation
	words map[*host.Model]func() *grammar.Vocabulary // made when first needed
	known map[sourceKey]*compilation
	uses  uint64 // counts find: the clock of compilation.used
}

// A sourceKey is the digest of a source, and for which model it is compiled.
type sourceKey struct {
	model *host.Model
	text  [sha256.Size]byte
}

// A compilation is a grammar, or is becoming one: found by many, made by the first, who
// sets grammar and err before done is closed; the others read them behind it.
type compilation struct {
	done    chan struct{}
	grammar *grammar.Grammar
	err     error
	used    uint64 // when it was last asked for
}

func newGrammars(vocabulary MakeVocabulary, report func(bytes int64)) *grammars {
	return &grammars{room: make(chan struct{}, max(runtime.GOMAXPROCS(0)/2, 1)), vocabulary: vocabulary, report: report,
		words: map[*host.Model]func() *grammar.Vocabulary{}, known: map[sourceKey]*compilation{}}
}

// compiler returns what compiles for a model until ctx ends, or it takes too long.
func (s *Service) compiler(ctx context.Context, model *host.Model) (compile func(grammar.Source) (*grammar.Grammar, error), release func()) {
	var within context.Context // from the first source on: most requests have none
	cancel := func() {}
	return func(src grammar.Source) (*grammar.Grammar, error) {
		if within == nil {
			s.grammars.of(model)() // made once: not a matter of this request's time
			within, cancel = context.WithTimeoutCause(ctx, s.cfg.Limits().Time(limits.CompileTime), errCompile)
		}
		return s.grammars.compile(within, model, src, s.cfg.Limits()[limits.GrammarCache])
	}, func() { cancel() }
}

// compile returns the grammar of src. The error is a *grammar.Error, or that of ctx.
func (g *grammars) compile(ctx context.Context, model *host.Model, src grammar.Source, most int64) (*grammar.Grammar, error) {
	text, err := json.Marshal(src)
	if err != nil {
		return nil, err
	}
	key := sourceKey{model, sha256.Sum256(text)}
	for {
		words := g.of(model)
		found, mine := g.find(key)
		if mine {
			g.make(ctx, key, found, src, words, most)
			return found.grammar, found.err
		}
		select {
		case <-found.done:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		if _, bad := errors.AsType[*grammar.Error](found.err); bad || found.err == nil {
			return found.grammar, found.err
		} // otherwise whoever compiled it has left: try again
	}
}

// of returns the vocabulary of a model, which may have to be made.
func (g *grammars) of(model *host.Model) func() *grammar.Vocabulary {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.words[model] == nil {
		g.words[model] = sync.OnceValue(func() *grammar.Vocabulary { return g.vocabulary(model.Tokenizer) })
	}
	return g.words[model]
}

// forget drops what was compiled for a model that nobody holds any more.
func (g *grammars) forget(model *host.Model) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.words, model)
	maps.DeleteFunc(g.known, func(key sourceKey, _ *compilation) bool { return key.model == model })
	g.trim(nil, math.MaxInt64) // which reports what is left
}

// find returns what is known of a source. If it is new, it is the caller's to make.
func (g *grammars) find(key sourceKey) (found *compilation, mine bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	found = g.known[key]
	if mine = found == nil; mine {
		found = &compilation{done: make(chan struct{}), err: context.Canceled}
		g.known[key] = found
	}
	g.uses++
	found.used = g.uses
	return found, mine
}

// make completes a compilation, whatever happens. What failed is not kept, and what was
// made makes room for itself.
func (g *grammars) make(ctx context.Context, key sourceKey, it *compilation, src grammar.Source, words func() *grammar.Vocabulary, most int64) {
	defer func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		if it.err != nil && g.known[key] == it {
			delete(g.known, key)
		}
		close(it.done)
		g.trim(it, most)
	}()
	// The turn: whoever waits for one may leave.
	select {
	case g.room <- struct{}{}:
	case <-ctx.Done():
		it.err = context.Cause(ctx)
		return
	}
	defer func() { <-g.room }()
	it.grammar, it.err = grammar.Compile(ctx, src, words())
	if ctx.Err() != nil {
		it.grammar, it.err = nil, context.Cause(ctx)
	}
}

// trim forgets the grammars used longest ago, but for the newest, until the others hold
// no more than most bytes. g.mu is held.
func (g *grammars) trim(newest *compilation, most int64) {
	held := int64(0)
	for _, it := range g.known {
		held += it.bytes()
	}
	defer func() { g.report(held) }()
	// A search for each that goes: beside the compilation that made room short it is no work.
	for held > most {
		var oldest *compilation
		var at sourceKey
		for key, it := range g.known {
			if it != newest && it.bytes() > 0 && (oldest == nil || it.used < oldest.used) {
				oldest, at = it, key
			}
		}
		if oldest == nil {
			return
		}
		held -= oldest.bytes()
		delete(g.known, at)
	}
}

// bytes is what a grammar holds, 0 before it is made.
func (c *compilation) bytes() int64 {
	select {
	case <-c.done:
		return c.grammar.Bytes()
	default:
		return 0
	}
}
