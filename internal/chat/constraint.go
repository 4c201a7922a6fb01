package chat

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"ossian/internal/grammar"
	"ossian/internal/token"
)

// Rules are what an answer is held to, beyond the format of its family.
type Rules struct {
	Answer   *grammar.Source // the text for the user; nil = any. Without calls it is all of it
	Tools    []ToolRule      // [tool of the Conversation]; nil = none may be called
	MustCall bool            // the answer ends with a call
	OneCall  bool            // it has one call at most
	Thinking *int            // ids that its reasoning may have, then it is ended; nil = any number
}

// A ToolRule says how a tool may be called.
type ToolRule struct {
	Hidden    bool           // not at all
	Arguments grammar.Source // of kind Schema or Object; of a tool with Formed input what the text is held to: Regex, EBNF or Lark
	Strict    bool           // without a grammar for Arguments nothing is: otherwise any object will do
}

// A Constraint limits one answer, id by id (sched.Constraint).
type Constraint interface {
	// Mask sets dst to the ids that may come next, one bit each, or fails where the
	// grammar has become too expensive (grammar.ErrAmbiguous).
	Mask(dst []uint64) error
	// Accept advances by an id that Mask allows. Of others it refuses those that leave no
	// place to go on from; some it takes, such as a stop before the form is complete.
	Accept(id int32) error
}

// Compile compiles for the format's tokenizer, or says why it cannot: a *grammar.Error
// or an error of its own.
type Compile func(grammar.Source) (*grammar.Grammar, error)

// A FormError says which form of Rules has no grammar.
type FormError struct {
	Tool int // index into Rules.Tools; -1 = the answer
	Err  *grammar.Error
}

// Error names the tool or the answer.
func (e *FormError) Error() string {
	if e.Tool < 0 {
		return "form of the answer: " + e.Err.Error()
	}
	return fmt.Sprintf("parameters of tool %d: %v", e.Tool, e.Err)
}

// Unwrap returns Err.
func (e *FormError) Unwrap() error { return e.Err }

// A ToolsError says why the tools together have no grammar.
type ToolsError struct {
	Err *grammar.Error
}

// Error says that no tool alone is at fault.
func (e *ToolsError) Error() string { return "all tools together: " + e.Err.Error() }

// Unwrap returns Err.
func (e *ToolsError) Unwrap() error { return e.Err }

// NoCallsError says that nobody knows how a model writes calls.
type NoCallsError struct{}

// Error says what cannot be done with such a model.
func (NoCallsError) Error() string {
	return "the model's chat template writes calls in a form that is not known: they cannot be forced or made strict"
}

// Hold returns what makes constraints for answers that are text alone, of a form that
// form describes, and end with one of the ids.
func Hold(form *grammar.Grammar, ends []int32) func() Constraint {
	rules := &tagRules{tags: tags{-1, -1, -1, -1}, stops: ends, answer: form, state: behindThinking}
	return rules.constraint
}

// answer compiles the form of the answer; nil = any.
func (r *Rules) answer(compile Compile) (*grammar.Grammar, error) {
	if r.Answer == nil {
		return nil, nil
	}
	form, err := compile(*r.Answer)
	if e, ok := asGrammarError(err); ok {
		return nil, &FormError{-1, e}
	}
	return form, err
}

// callable reports whether the i-th tool may be called.
func (r *Rules) callable(i int) bool { return i < len(r.Tools) && !r.Tools[i].Hidden }

// strict reports whether a tool has to be held to its parameters.
func (r *Rules) strict(tools []Tool) bool {
	for i := range tools {
		if r.callable(i) && (r.Tools[i].Strict || tools[i].Input == Formed) {
			return true
		}
	}
	return false
}

// textIDs are the ids of a vocabulary that stand for text.
type textIDs struct {
	text   []uint64 // all of them, one bit each
	breaks []int32  // those of line breaks alone
}

// findTextIDs looks through a vocabulary. Added tokens among except are no text.
func findTextIDs(tok *token.BPE, except ...int32) textIDs {
	found := textIDs{text: make([]uint64, (tok.Vocab()+63)/64)}
	for id := range int32(tok.Vocab()) {
		text := tok.Text(id)
		if text == "" || tok.IsControl(id) || slices.Contains(except, id) {
			continue
		}
		found.text[id/64] |= 1 << (id % 64)
		if strings.Trim(text, "\n") == "" {
			found.breaks = append(found.breaks, id)
		}
	}
	return found
}

// anything allows all ids.
func anything(dst []uint64) {
	for i := range dst {
		dst[i] = math.MaxUint64
	}
}

// allow adds ids to dst; negative ones are none.
func allow(dst []uint64, ids ...int32) {
	for _, id := range ids {
		if id >= 0 && int(id/64) < len(dst) {
			dst[id/64] |= 1 << (id % 64)
		}
	}
}

// allowText sets dst to what may come next of the text that matcher reads, or to free if
// it is nil. It reports whether the text may end here. The error is that of matcher.
func allowText(dst, free []uint64, matcher *grammar.Matcher) (end bool, err error) {
	if matcher == nil {
		clear(dst[copy(dst, free):])
		return true, nil
	}
	err = matcher.Mask(dst)
	return err == nil && matcher.Done(), err
}

// unexpected is what Accept returns for an id that Mask would not have allowed.
func unexpected(id int32) error { return fmt.Errorf("chat: id %d may not come next", id) }
