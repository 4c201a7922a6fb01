// Package grammar holds output to a form: a JSON Schema, a regular expression, a
// context-free grammar or a list of choices. Callers get a mask of the token ids that
// may come next and say which one came. How the form was written, how bytes make up
// tokens and how masks are kept stay inside.
//
// All forms become rules of expressions (expr), these an NFA over bytes (nfa), and
// this one deterministic automaton per rule with calls between rules (automaton). A
// Matcher reads bytes with Earley's algorithm over the automata, so that recursion
// and ambiguity of any kind are fine; masks are put together from fragments that
// belong to states (masker), which all matchers of a grammar share.
//
// From every state some text leads to the end, so a mask never leads into a dead end,
// provided that the vocabulary can express each byte.
//
// Files, in the order of what happens:
//
//	schema       JSON Schema to rules, with keyword, reference and flat (values); equal for parts that
//	             say the same, not and conditional for what becomes other keywords; by type number, string
//	             with format, array with unique (and earlier while matching), object with names and differ;
//	             disjoint for oneOf
//	regex        regular expressions, with ecma for their dialect and ahead for look-ahead; gbnf and lark, which share scan
//	expr, nfa    expressions, and their states over bytes; members for objects, json for spelling
//	automaton    states that are sets of those; combine and count compute with them
//	explain      why nothing can match; budget, how much a compilation may take
//	mask         masks, from the trees of tokens (package vocab); walk, demand and plain make them cheap
//	parse        the reader of bytes, which masks and matchers use
package grammar

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"ossian/internal/grammar/past"
	"ossian/internal/grammar/vocab"
	"ossian/internal/token"
)

// A Kind says how a Source is written.
type Kind uint8

// The kinds.
const (
	Schema Kind = iota // Text is a JSON Schema
	Object             // any JSON object
	Regex              // Text is a regular expression that the whole output matches
	Choice             // the output is one of Choices
	EBNF               // Text is GBNF if it contains "::=", otherwise Lark
	Framed             // the output is one of Frames
	Lark               // Text is Lark
)

// A Source is what output is held to.
type Source struct {
	Kind    Kind
	Text    string
	Choices []string
	Frames  []Frame
	// Space is a regular expression for the space after {, [, commas and colons and
	// before } and ]. "" is none, one blank, or a line break with at most 20 blanks
	// or tabs, so that a model cannot pad for ever (harmony.md 12.7).
	Space string
}

// A Frame is JSON between fixed texts, such as a call between its tags.
type Frame struct {
	Before string
	JSON   Source // Schema or Object; Regex, EBNF or Lark: the inside of a string, in the shortest spelling
	After  string
}

// An Error says what is wrong with a Source.
type Error struct {
	Unsupported bool   // the source is well-formed, but output cannot be held to it
	Where       string // "#/properties/age", "line 3", ""
	What        string // what was found and what to do
	Frame       int    // number of the Frame at fault, from 1; 0 = none in particular
}

// Error says where and what.
func (e *Error) Error() string {
	if e.Where == "" {
		return e.What
	}
	return e.Where + ": " + e.What
}

// invalid is the error of a source that is not well-formed, or that nothing can match.
func invalid(where, format string, args ...any) *Error {
	return &Error{Where: where, What: fmt.Sprintf(format, args...)}
}

// unsupported is the error of a source that is well-formed.
func unsupported(where, format string, args ...any) *Error {
	return &Error{Unsupported: true, Where: where, What: fmt.Sprintf(format, args...)}
}

// Limits of compilation (reliability.md 3.1 and GRM-1).
const (
	maxUnits   = 2_000_000 // of a budget: less than 250 ms and 64 MiB
	maxNFA     = 500_000   // states of an NFA
	maxText    = 64 << 10  // bytes of a grammar
	maxRules   = 2000      // of a grammar
	maxNesting = 64        // of a grammar or schema
	maxPattern = 4 << 10   // bytes of a regular expression
	maxStates  = 10_000    // of the automaton of a pattern
	maxRepeat  = 1000      // bound of a repetition in a pattern or grammar
	warmWork   = 1 << 14   // items looked at for masks made in advance
)

// A Grammar is a source made ready for one vocabulary. It is safe for concurrent use.
type Grammar struct {
	automaton *automaton
	masker    *masker
	ignored   omissions
}

// omissions are what output is not held to.
type omissions struct{ keywords, formats []Ignored }

// An Ignored is a keyword that output is not held to, taken for an annotation.
type Ignored struct {
	Frame int    // the Frame it is in, from 1; 0 = Text
	Where string // "#/properties/age/maxLenght"
	What  string // why a known one is not held to, and what to change; "" = it is not known
}

// Bounds of what is kept of ignored keywords.
const maxIgnored, maxWhere = 32, 120

// Compile compiles src. It takes no more than 250 ms and 64 MiB, and ends early with
// ctx's error. Other errors are of type *Error.
func Compile(ctx context.Context, src Source, vocab *Vocabulary) (*Grammar, error) {
	return compileWithin(&budget{left: maxUnits, stop: ctx.Err}, src, vocab)
}

// compileWithin is Compile with a budget. Whatever goes wrong becomes an *Error, but for
// the end of the context.
func compileWithin(b *budget, src Source, vocab *Vocabulary) (*Grammar, error) {
	automaton, ignored, err := compile(src, b)
	if e := b.stop(); e != nil {
		return nil, e
	}
	if err != nil {
		if _, ok := errors.AsType[*Error](err); !ok {
			err = &Error{Unsupported: err == errTooLarge, What: err.Error()}
		}
		return nil, err
	}
	automaton.findFirst()
	g := &Grammar{automaton: automaton, masker: newMasker(automaton, vocab), ignored: ignored}
	g.masker.warm(warmWork)
	return g, nil
}

// compile makes the automaton of a source: its rules, the NFA of these, and its states.
func compile(src Source, b *budget) (*automaton, omissions, error) {
	var rules []rule
	var ignored omissions
	var err error
	switch src.Kind {
	case Schema, Object:
		rules, ignored, err = schemaRules(nil, src, b, 0)
	case Framed:
		rules, ignored, err = framedRules(src.Frames, b)
	case Regex:
		var a *automaton
		if a, err = compilePattern(src.Text, pattern{count: minCount}, b); err == nil {
			return a, ignored, nil
		}
	case Choice:
		rules, err = choiceRules(src.Choices)
	case EBNF:
		rules, err = grammarRules(nil, src.Text, strings.Contains(src.Text, "::="))
	case Lark:
		rules, err = grammarRules(nil, src.Text, false)
	default:
		err = invalid("", "kind %d of source is unknown", src.Kind)
	}
	if err != nil {
		return nil, ignored, err
	}
	compiled, err := automatonOf(rules, b)
	// The automaton is empty, which says nothing to whoever wrote the source.
	if err == errNoMatch {
		if e := newInquest(rules, &budget{left: maxUnits / 4, stop: b.stop}).explain(0); e != nil {
			err = e
		}
	}
	if err == errTooLarge && src.Kind == Schema {
		err = largest(rules, err)
	}
	return compiled, ignored, err
}

// automatonOf makes the automaton of rules. Small rules are copied where they are called, but
// where that makes the automaton large.
func automatonOf(rules []rule, b *budget) (*automaton, error) {
	copied := func(r rule) bool { return r.copied }
	if !slices.ContainsFunc(rules, copied) {
		return determinize(newNFA(rules, false, nil, b), b)
	}
	share := &budget{left: b.left / 2, stop: b.stop}
	whole := share.left
	a, err := determinize(newNFA(rules, false, nil, share), share)
	if b.spend(whole - max(share.left, 0)); err != errTooLarge {
		return a, err
	}
	apart := slices.Clone(rules)
	for i := range apart {
		apart[i].copied = false
	}
	return determinize(newNFA(apart, false, nil, b), b)
}

// framedRules makes a rule for all frames, the root, and those of each frame's JSON.
func framedRules(frames []Frame, b *budget) (rules []rule, ignored omissions, err error) {
	rules = []rule{{name: "frames"}}
	shared, left := map[string]int{}, map[string]omissions{} // roots, and keywords ignored, by JSON: most tools of a request may have any object
	var sub []*expr
	var roots []int
	for i := range frames {
		frame := &frames[i]
		key := fmt.Sprintf("%d %q %q", frame.JSON.Kind, frame.JSON.Space, frame.JSON.Text)
		root, ok := shared[key]
		if !ok {
			root = len(rules)
			shared[key] = root
			if rules, left[key], err = frameRules(rules, frame.JSON, b, i+1); err != nil {
				if fault, ok := errors.AsType[*Error](err); ok {
					fault.Frame = i + 1
				}
				return nil, ignored, err
			}
		}
		roots = append(roots, root)
		ignored.add(left[key], i+1)
		sub = append(sub, cat(lit(frame.Before), ref(root), lit(frame.After)))
	}
	rules[0].body = alt(sub...)
	inquest := newInquest(rules, b)
	for i, root := range roots {
		if fault := inquest.explain(root); fault != nil { // or it would silently never be chosen
			fault.Frame = i + 1
			return nil, ignored, fault
		}
	}
	return rules, ignored, nil
}

// add adds what is left out of a frame.
func (o *omissions) add(other omissions, frame int) {
	for _, word := range other.keywords {
		o.keywords = append(o.keywords, Ignored{frame, word.Where, word.What})
	}
	for _, word := range other.formats {
		o.formats = append(o.formats, Ignored{frame, word.Where, word.What})
	}
}

// frameRules appends the rules of one frame's JSON, the root first.
func frameRules(rules []rule, src Source, b *budget, frame int) ([]rule, omissions, error) {
	start := len(rules)
	var err error
	switch src.Kind {
	case Schema, Object:
		return schemaRules(rules, src, b, frame)
	case Regex:
		text, err := compilePattern(src.Text, pattern{quoted: true}, b)
		if err != nil {
			return nil, omissions{}, err
		}
		return append(rules, rule{name: "text", body: machine(text)}), omissions{}, nil
	case EBNF:
		rules, err = grammarRules(rules, src.Text, strings.Contains(src.Text, "::="))
	case Lark:
		rules, err = grammarRules(rules, src.Text, false)
	default:
		err = invalid("", "kind %d of source in a frame is unknown", src.Kind)
	}
	if err != nil {
		return nil, omissions{}, err
	}
	for i := range rules[start:] {
		rules[start+i].quoted = true
	}
	return rules, omissions{}, nil
}

func choiceRules(choices []string) ([]rule, error) {
	if len(choices) == 0 {
		return nil, invalid("", "no choices: give at least one")
	}
	var sub []*expr
	for i, choice := range choices {
		if choice == "" {
			return nil, invalid(fmt.Sprintf("choice %d", i), "is empty")
		}
		sub = append(sub, lit(choice))
	}
	return []rule{{name: "choice", body: alt(sub...)}}, nil
}

// Ignored lists the keywords that output is not held to although it would have to be, or that
// are not among the standard's: the first of each schema.
func (g *Grammar) Ignored() []Ignored { return g.ignored.keywords }

// UnknownFormats lists the keywords format whose values are not known. By the standard they
// are annotations, which any schema may have; they may be slips all the same.
func (g *Grammar) UnknownFormats() []Ignored { return g.ignored.formats }

// Bytes is about how much memory g holds now. It grows while masks are made, up to
// some 40 MB.
func (g *Grammar) Bytes() int64 {
	g.masker.mu.Lock()
	defer g.masker.mu.Unlock()
	total := g.masker.bytes
	for _, state := range g.automaton.states {
		total += 72 + 12*int64(cap(state.edges)+cap(state.calls))
	}
	return total
}

// A Vocabulary is a tokenizer as grammars see it. It takes some 10 MB for 200,000 tokens, is
// immutable, and serves all grammars.
type Vocabulary = vocab.Vocabulary

// NewVocabulary prepares t's tokens, which takes some 200 ms. Control and added tokens are no
// text, so a grammar never allows them.
func NewVocabulary(t *token.BPE) *Vocabulary { return vocab.Of(t) }

// A Matcher reads one output. It belongs to one goroutine.
type Matcher struct {
	grammar *Grammar
	parser  parser
	at      set
	scratch [2]set
}

// Matcher returns a matcher at the beginning.
func (g *Grammar) Matcher() *Matcher {
	m := &Matcher{grammar: g, parser: parser{automaton: g.automaton, base: &origin{position: -1}}}
	if g.automaton.differ != nil {
		m.parser.past = past.New()
	}
	m.parser.begin(&m.at, g.automaton.first(m.parser.base))
	return m
}

// Copy returns a matcher at the same place, nil of nil. Neither knows what the other reads.
func (m *Matcher) Copy() *Matcher {
	if m == nil {
		return nil
	}
	out := &Matcher{grammar: m.grammar, parser: m.parser, at: m.at}
	out.at.items, out.parser.fresh, out.parser.past = slices.Clone(m.at.items), nil, m.parser.past.Copy()
	out.parser.shared = m.parser.position
	return out
}

// Mask sets dst to the ids that may come next, one bit each; no bit is set when the
// output is complete. If the grammar has so many readings that the mask would take more than
// about 10 ms, these are tokens of one byte only, which can say the same. It fails with
// ErrAmbiguous, dst empty, if there are none of those.
func (m *Matcher) Mask(dst []uint64) error {
	err := m.grammar.masker.mask(dst, &m.at, &m.parser)
	if err == nil && m.parser.past != nil {
		m.prune(dst)
	}
	return err
}

// Accept advances by a token. It fails and changes nothing if id may not come next.
func (m *Matcher) Accept(id int32) error {
	vocab := m.grammar.masker.vocab
	if id < 0 || int(id) >= len(vocab.Texts) || vocab.Texts[id] == "" {
		return fmt.Errorf("grammar: token %d is no text", id)
	}
	return m.accept(vocab.Texts[id])
}

// accept advances by text as by one token.
func (m *Matcher) accept(text string) error {
	if text == "" {
		return nil
	}
	m.parser.work, m.parser.overflow = 0, false
	at := m.run(&m.at, text)
	if at == nil {
		return fmt.Errorf("grammar: text %.40q may not come next", text)
	}
	if m.parser.overflow || m.parser.work > maxWork {
		return ErrAmbiguous
	}
	if m.at, *at = *at, m.at; m.parser.past != nil {
		m.parser.past.Accept(m.at.offset)
	}
	return nil
}

// run returns what from becomes with text, in scratch, or nil.
func (m *Matcher) run(from *set, text string) *set {
	for i := range len(text) {
		next := &m.scratch[i%2]
		if !m.parser.step(next, from, text[i], anyByte) || m.parser.work > maxWork {
			return nil
		}
		from = next
	}
	return from
}

// Done reports whether the output may end here.
func (m *Matcher) Done() bool { return m.at.exit }

// Finished reports whether the output must end here.
func (m *Matcher) Finished() bool { return m.Done() && !m.parser.open(&m.at) }
