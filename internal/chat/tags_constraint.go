package chat

import (
	"slices"
	"strconv"

	"ossian/internal/grammar"
	"ossian/internal/token"
)

// textIDs are the ids that stand for text between tags.
func (t tags) textIDs(tok *token.BPE) textIDs {
	return findTextIDs(tok, t.open, t.close, t.callOpen, t.callClose)
}

// tagRules hold answers with think and call tags to rules (api.md 2.5): reasoning is
// free, the text behind it has a form, calls are as the templates of Qwen3 write them.
type tagRules struct {
	tags
	textIDs
	stops    []int32
	answer   *grammar.Grammar // nil = any text
	calls    *grammar.Grammar // what stands between call tags; nil = no calls
	mustCall bool             // there is no text before a call, and no end without one
	oneCall  bool             // nothing but the end may follow a call
	state    thinkPlace
	budget   int  // ids between think tags
	free     bool // behind them anything goes
}

// newTagConstraint completes rules with what is wanted, nil = nothing. begins says where the
// prompt leaves the model.
func newTagConstraint(rules *tagRules, begins func(*Conversation) thinkPlace, conv *Conversation, wanted *Rules, compile Compile) (func() Constraint, error) {
	if rules.budget = wanted.budget(conv, !conv.thinks()); wanted.holdNothing(conv, rules.budget) {
		return nil, nil
	}
	var err error
	if rules.answer, err = wanted.answer(compile); err != nil {
		return nil, err
	}
	if rules.callOpen < 0 && (wanted.MustCall || wanted.strict(conv.Tools)) {
		return nil, NoCallsError{}
	}
	rules.mustCall, rules.oneCall = wanted.MustCall, wanted.OneCall
	if rules.callOpen >= 0 {
		rules.calls, err = tagCalls(conv, wanted, compile)
	}
	if rules.free = rules.answer == nil && rules.calls == nil; rules.free && (rules.budget == unlimited || rules.open < 0) {
		return nil, err // calls of a form that is not known must stay possible
	}
	rules.state = begins(conv)
	return rules.constraint, err
}

// tagCalls compiles what stands between call tags; nil = no tool may be called.
func tagCalls(conv *Conversation, wanted *Rules, compile Compile) (*grammar.Grammar, error) {
	src := grammar.Source{Kind: grammar.Framed}
	var tools []int // [frame]
	for tool := range conv.Tools {
		if wanted.callable(tool) {
			frame := grammar.Frame{Before: "\n{\"name\": " + strconv.Quote(conv.Tools[tool].Name) + ", \"arguments\": ", JSON: wanted.Tools[tool].Arguments, After: "}\n"}
			switch conv.Tools[tool].Input {
			case Text:
				frame.JSON = grammar.Source{Text: textSchema}
			case Formed:
				frame.Before, frame.After = frame.Before+`{"input": "`, `"}`+frame.After
			}
			src.Frames = append(src.Frames, frame)
			tools = append(tools, tool)
		}
	}
	if tools == nil {
		return nil, nil
	}
	// A schema without a grammar gives way to any object where its tool need not be strict:
	// that of the frame at fault, or of all frames where they are too much together.
	for {
		form, err := compile(src)
		problem, ok := asGrammarError(err)
		if !ok {
			return form, err
		}
		again := false // with less to hold to
		src.Frames = slices.Clone(src.Frames)
		for at := range src.Frames {
			frame := &src.Frames[at]
			if (problem.Frame != 0 && problem.Frame != at+1) || frame.JSON.Kind == grammar.Object || wanted.Tools[tools[at]].Strict || conv.Tools[tools[at]].Input != JSON {
				continue
			}
			frame.JSON, again = grammar.Source{Kind: grammar.Object, Space: frame.JSON.Space}, true
		}
		switch {
		case again:
		case problem.Frame == 0:
			return nil, &ToolsError{problem}
		default:
			return nil, &FormError{tools[problem.Frame-1], problem}
		}
	}
}

func (rules *tagRules) constraint() Constraint {
	constraint := &tagConstraint{rules: rules}
	switch rules.state {
	case beforeThinking:
		constraint.at = tagStart
	case insideThinking:
		constraint.at = tagThought
	default:
		constraint.answer()
	}
	return constraint
}

// A tagPlace is where an answer is: tagStart → tagThought → tagGap → tagAnswer → tagEnd,
// reasoning left out where there is none; tagCall and tagCalled take turns where calls
// follow, from any place outside the reasoning.
type tagPlace uint8

const (
	tagStart   tagPlace = iota // reasoning or the answer may begin
	tagThought                 // in the reasoning
	tagGap                     // behind it, before the answer
	tagAnswer                  // in the text of the answer, or where it may begin
	tagCall                    // between call tags
	tagCalled                  // behind a call
	tagEnd                     // behind the answer
)

// A tagConstraint is where one answer is.
type tagConstraint struct {
	rules *tagRules
	at    tagPlace
	text  *grammar.Matcher // of the answer or the call; nil = any text
	begun bool             // the text of the answer has begun
	broke bool             // there was a line break in this gap
	spent int              // ids of reasoning
}

// answer goes to where the answer begins.
func (c *tagConstraint) answer() {
	c.at, c.text = tagAnswer, nil
	if c.rules.answer != nil && !c.rules.mustCall {
		c.text = c.rules.answer.Matcher()
	}
}

// Mask implements Constraint.
func (c *tagConstraint) Mask(dst []uint64) error {
	rules := c.rules
	switch c.at {
	case tagEnd:
		anything(dst) // what follows, with ignore_eos, is nobody's
	case tagThought:
		clear(dst)
		if c.spent < rules.budget {
			copy(dst, rules.text)
		}
		allow(dst, rules.close)
	case tagCall:
		end, err := allowText(dst, nil, c.text)
		if end {
			allow(dst, rules.callClose)
		}
		return err
	case tagCalled:
		clear(dst)
		allow(dst, rules.stops...)
		if !rules.oneCall {
			allow(dst, rules.callOpen)
			c.gap(dst)
		}
	default:
		return c.maskAnswer(dst)
	}
	return nil
}

// maskAnswer is the mask where the answer's text is or may begin.
func (c *tagConstraint) maskAnswer(dst []uint64) error {
	rules := c.rules
	mayOpen := c.at == tagStart && rules.budget > 0
	if rules.free {
		anything(dst)
		if !mayOpen {
			dst[rules.open/64] &^= 1 << (rules.open % 64)
		}
		return nil
	}
	text := c.text
	if text == nil && rules.answer != nil && !rules.mustCall {
		text = rules.answer.Matcher() // at the start or in the gap
	}
	clear(dst)
	if !rules.mustCall {
		end, err := allowText(dst, rules.text, text)
		if err != nil {
			return err
		}
		if end {
			allow(dst, rules.stops...)
		}
	}
	if rules.calls != nil && (rules.answer == nil || !c.begun) {
		allow(dst, rules.callOpen)
	}
	switch {
	case mayOpen:
		allow(dst, rules.open)
	case c.at == tagGap:
		c.gap(dst)
	}
	return nil
}

// gap allows a line break, but not for ever.
func (c *tagConstraint) gap(dst []uint64) {
	if !c.broke {
		allow(dst, c.rules.breaks...)
	}
}

// Accept implements Constraint.
func (c *tagConstraint) Accept(id int32) error {
	rules := c.rules
	switch {
	case c.at == tagEnd:
		return nil
	case slices.Contains(rules.stops, id):
		c.at, c.text = tagEnd, nil
		return nil
	case c.at == tagStart && id == rules.open:
		c.at = tagThought
		return nil
	case c.at == tagThought: // call tags are text there
		if id == rules.close {
			c.at, c.broke = tagGap, false
		}
		c.spent++
		return nil
	case id == rules.callOpen && rules.calls != nil:
		c.at, c.text = tagCall, rules.calls.Matcher()
		return nil
	case c.at == tagCall && id == rules.callClose:
		c.at, c.text, c.broke = tagCalled, nil, false
		return nil
	case (c.at == tagGap || c.at == tagCalled) && !c.broke && slices.Contains(rules.breaks, id):
		c.broke = true
		return nil
	case c.at == tagCalled || (rules.mustCall && c.at != tagCall):
		return unexpected(id)
	case c.at == tagStart || c.at == tagGap:
		c.answer()
	}
	c.begun = true
	if c.text == nil {
		return nil
	}
	return c.text.Accept(id)
}
