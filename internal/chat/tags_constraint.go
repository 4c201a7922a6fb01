package chat

import (
	"slices"
	"strconv"

	"ossian/internal/chat/mask"
	"ossian/internal/grammar"
	"ossian/internal/token"
)

// text is the ids that stand for text between tags.
func (t *tags) text(tok *token.BPE) mask.Text {
	return mask.OfText(tok, t.open, t.close, t.callOpen, t.callClose)
}

// tagRules hold answers with think and call tags to rules (api.md 2.5): reasoning is
// free, the text behind it has a form, calls are as the templates of Qwen3 write them.
type tagRules struct {
	tags
	textIDs  mask.Text
	stops    []int32
	answer   *grammar.Grammar // nil = any text
	calls    *grammar.Grammar // what stands between call tags; nil = no calls
	bare     string           // calls have no tags and their arguments in this member (bareReader); "" = tags
	mustCall bool             // there is no text before a call, and no end without one
	oneCall  bool             // nothing but the end may follow a call
	state    thinkPlace
	budget   int  // ids between think tags
	free     bool // behind them anything goes
}

// newTagConstraint completes rules with what is wanted, nil = nothing. begins says where the
// prompt leaves the model.
func newTagConstraint(rules *tagRules, begins func(*Conversation) thinkPlace, conv *Conversation, wanted *Rules, compile Compile) (func() Constraint, error) {
	asked := conv
	conv, _ = asked.withFunctions()
	wanted = wanted.withBuiltins(asked, conv)
	if rules.budget = wanted.budget(conv, !conv.thinks()); wanted.holdNothing(conv, rules.budget) {
		return nil, nil
	}
	err := wanted.check(conv)
	if err != nil {
		return nil, err
	}
	if rules.answer, err = wanted.answer(compile); err != nil {
		return nil, err
	}
	rules.mustCall, rules.oneCall = wanted.MustCall, wanted.OneCall
	switch {
	case rules.callOpen >= 0:
		rules.calls, err = tagCalls(conv, wanted, "\n{\"name\": ", "arguments", "}\n", compile)
	case rules.bare != "" && conv.continuesText():
		if wanted.MustCall {
			return nil, NoCallsError{"text that is to be continued cannot become one of this model"}
		}
	case rules.bare != "" && (wanted.MustCall || wanted.strict(conv.Tools) || (wanted.Answer != nil && wanted.Answer.Kind <= grammar.Object)):
		// Otherwise nothing is held that begins like a call; and where the text is one of some
		// words, these say whether it is one.
		rules.calls, err = tagCalls(conv, wanted, "{\"name\": ", rules.bare, "}", compile)
	}
	if rules.free = rules.answer == nil && rules.calls == nil && !wanted.NoCalls; rules.free && (rules.budget == unlimited || rules.open < 0) {
		return nil, err // calls of a form that is not known must stay possible
	}
	rules.state = begins(conv)
	return rules.constraint, err
}

// tagCalls compiles what stands between call tags, or calls without any: before, the name,
// the arguments in a member, after. nil = no tool may be called.
func tagCalls(conv *Conversation, wanted *Rules, before, member, after string, compile Compile) (*grammar.Grammar, error) {
	src := grammar.Source{Kind: grammar.Framed}
	var tools []int // [frame]
	for tool := range conv.Tools {
		if wanted.callable(tool) {
			frame := grammar.Frame{Before: before + strconv.Quote(conv.Tools[tool].Name) + ", \"" + member + "\": ", JSON: wanted.form(tool, conv.Tools[tool].Input), After: after}
			switch conv.Tools[tool].Input {
			case Text, code:
				frame.JSON = grammar.Source{Text: conv.Tools[tool].Input.schema()}
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
// follow, from any place outside the reasoning. Calls without tags are in tagAnswer.
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

	call    *grammar.Matcher // of a call without tags, as long as the text may be one
	other   bool             // the text may be something else than such a call
	scratch []uint64         // a mask
}

// answer goes to where the answer begins.
func (c *tagConstraint) answer() {
	c.at, c.text, c.other = tagAnswer, nil, !c.rules.mustCall
	if c.rules.answer != nil && !c.rules.mustCall {
		c.text = c.rules.answer.Matcher()
	}
	if c.rules.bare != "" && c.rules.calls != nil {
		c.call = c.rules.calls.Matcher()
	}
}

// Mask implements Constraint.
func (c *tagConstraint) Mask(dst []uint64) error {
	rules := c.rules
	switch c.at {
	case tagEnd:
		mask.All(dst) // what follows, with ignore_eos, is nobody's
	case tagThought:
		clear(dst)
		if c.spent < rules.budget {
			copy(dst, rules.textIDs.Any)
		}
		mask.Allow(dst, rules.close)
	case tagCall:
		end, err := allowText(dst, nil, c.text)
		if end {
			mask.Allow(dst, rules.callClose)
		}
		return err
	case tagCalled:
		clear(dst)
		mask.Allow(dst, rules.stops...)
		if !rules.oneCall {
			mask.Allow(dst, rules.callOpen)
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
		mask.All(dst)
		if !mayOpen {
			dst[rules.open/64] &^= 1 << (rules.open % 64)
		}
		return nil
	}
	if rules.bare != "" && rules.calls != nil {
		return c.maskBare(dst, mayOpen)
	}
	text := c.text
	if text == nil && rules.answer != nil && !rules.mustCall {
		text = rules.answer.Matcher() // at the start or in the gap
	}
	clear(dst)
	if !rules.mustCall {
		end, err := allowText(dst, rules.textIDs.Any, text)
		if err != nil {
			return err
		}
		if end {
			mask.Allow(dst, rules.stops...)
		}
	}
	if rules.calls != nil && (rules.answer == nil || !c.begun) {
		mask.Allow(dst, rules.callOpen)
	}
	switch {
	case mayOpen:
		mask.Allow(dst, rules.open)
	case c.at == tagGap:
		c.gap(dst)
	}
	return nil
}

// gap allows a line break, but not for ever.
func (c *tagConstraint) gap(dst []uint64) {
	if !c.broke {
		mask.Allow(dst, c.rules.textIDs.Breaks...)
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
	case id == rules.callOpen && id >= 0 && rules.calls != nil:
		c.at, c.text = tagCall, rules.calls.Matcher()
		return nil
	case c.at == tagCall && id == rules.callClose:
		c.at, c.text, c.broke = tagCalled, nil, false
		return nil
	case (c.at == tagGap || c.at == tagCalled) && !c.broke && slices.Contains(rules.textIDs.Breaks, id):
		c.broke = true
		return nil
	case c.at == tagCalled || (rules.mustCall && c.at != tagCall && rules.bare == ""):
		return unexpected(id)
	case c.at == tagStart || c.at == tagGap:
		c.answer()
	}
	if rules.bare != "" && rules.calls != nil {
		return c.acceptBare(id)
	}
	c.begun = true
	if c.text == nil {
		return nil
	}
	return c.text.Accept(id)
}

// Copy implements Constraint.
func (c *tagConstraint) Copy() Constraint {
	out := *c
	out.text, out.call, out.scratch = c.text.Copy(), c.call.Copy(), nil
	return &out
}

// Ahead implements Constraint.
func (c *tagConstraint) Ahead(guesses []int32, masks [][]uint64) int {
	return mask.Ahead(c.Copy(), guesses, masks)
}
