package chat

import (
	"cmp"
	"fmt"

	"ossian/internal/chat/calljson"
	"ossian/internal/grammar"
)

// Rules are what an answer is held to, beyond the format of its family.
type Rules struct {
	Answer   *grammar.Source // the text for the user; nil = any. Without calls it is all of it
	Tools    []ToolRule      // [tool of the Conversation]; nil = none may be called
	MustCall bool            // the answer ends with a call
	NoCalls  bool            // no call may begin, not even of a tool that is not offered; with Tools nil
	Builtins []string        // of the server's tools, recipients and namespaces that may be called; nil = all
	OneCall  bool            // it has one call at most
	Thinking *int            // ids that its reasoning may have, then it is ended; nil = any number
	// Loose leaves the headers of harmony, to which answers are held otherwise (harmony.md
	// 10), to the model where nothing else here asks for more.
	Loose bool
}

// A ToolRule says how a tool may be called.
type ToolRule struct {
	Hidden    bool           // not at all
	Arguments grammar.Source // of kind Schema or Object, and an object in any case (ObjectForm); of a tool with Formed input what the text is held to: Regex, EBNF or Lark
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
	// Ahead is what sched.Constraint says, by reading the guesses with a copy.
	Ahead(guesses []int32, masks [][]uint64) int
	// Copy returns one at the same place. Neither knows what the other reads.
	Copy() Constraint
}

// A Framed constraint tells text from the words and markers of its format around it: what
// limits texts alone, limits them where InText holds.
type Framed interface{ InText() bool }

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

// NoCallsError says that an answer has to be a call and cannot be one: of no turn of the
// conversation, but of the request to call.
type NoCallsError struct {
	Why string // what keeps it from being one; "" = no tool may be called
}

// Error says so.
func (e NoCallsError) Error() string {
	return "the answer has to be a call, and " + cmp.Or(e.Why, "there is no tool that it may call")
}

// check fails where nothing may be called and something has to be.
func (r *Rules) check(conv *Conversation) error {
	if !r.MustCall {
		return nil
	}
	for i := range conv.Tools {
		if r.callable(i) {
			return nil
		}
	}
	for _, it := range conv.builtins() {
		if r.mayCall(it.recipient) {
			return nil
		}
	}
	return NoCallsError{}
}

// Hold returns what makes constraints for answers that are text alone, of a form that
// form describes, and end with one of the ids.
func Hold(form *grammar.Grammar, ends []int32) func() Constraint {
	rules := &tagRules{tags: noTags, stops: ends, answer: form, state: behindThinking}
	return rules.constraint
}

// ObjectForm returns a form of arguments as answers are held to it: an object, whatever
// its schema leaves out. Who compares what was compiled with what was asked for asks for
// what this returns.
func ObjectForm(form grammar.Source) grammar.Source {
	if form.Kind == grammar.Schema {
		form.Text = calljson.ObjectSchema(form.Text)
	}
	return form
}

// form is what the arguments of a tool are held to.
func (r *Rules) form(tool int, input Input) grammar.Source {
	if input == JSON {
		return ObjectForm(r.Tools[tool].Arguments)
	}
	return r.Tools[tool].Arguments
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
