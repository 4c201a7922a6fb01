package chat

import (
	"slices"
	"strconv"

	"ossian/internal/grammar"
	"ossian/internal/token"
)

// words are the ids that stand for text between tags.
func (t tags) words(tok *token.BPE) words {
	return findWords(tok, t.open, t.close, t.callOpen, t.callClose)
}

// tagRules hold answers with think and call tags to rules (api.md 2.5): reasoning is
// free, the text behind it has a form, calls are as the templates of Qwen3 write them.
type tagRules struct {
	tags
	words
	stops  []int32
	answer *grammar.Grammar // nil = any text
	calls  *grammar.Grammar // what stands between call tags; nil = no calls
	must   bool
	one    bool
	state  thinking
	budget int  // ids between think tags
	free   bool // behind them anything goes
}

// newTagConstraint completes k with what r asks for, nil = nothing. begins says where the
// prompt leaves the model.
func newTagConstraint(k *tagRules, begins func(*Conversation) thinking, c *Conversation, r *Rules, compile Compile) (func() Constraint, error) {
	if k.budget = r.budget(c, !c.thinks()); r.none(c, k.budget) {
		return nil, nil
	}
	var err error
	if k.answer, err = r.answer(compile); err != nil {
		return nil, err
	}
	if k.callOpen < 0 && (r.MustCall || r.strict(c.Tools)) {
		return nil, NoCallsError{}
	}
	k.must, k.one = r.MustCall, r.OneCall
	if k.callOpen >= 0 {
		k.calls, err = tagCalls(c, r, compile)
	}
	if k.free = k.answer == nil && k.calls == nil; k.free && (k.budget == unlimited || k.open < 0) {
		return nil, err // calls of a form that is not known must stay possible
	}
	k.state = begins(c)
	return k.constraint, err
}

// tagCalls compiles what stands between call tags; nil = no tool may be called.
func tagCalls(c *Conversation, r *Rules, compile Compile) (*grammar.Grammar, error) {
	src := grammar.Source{Kind: grammar.Framed}
	var tools []int // [frame]
	for i := range c.Tools {
		if r.callable(i) {
			f := grammar.Frame{Before: "\n{\"name\": " + strconv.Quote(c.Tools[i].Name) + ", \"arguments\": ", JSON: r.Tools[i].Arguments, After: "}\n"}
			switch c.Tools[i].Input {
			case Text:
				f.JSON = grammar.Source{Text: textSchema}
			case Formed:
				f.Before, f.After = f.Before+`{"input": "`, `"}`+f.After
			}
			src.Frames = append(src.Frames, f)
			tools = append(tools, i)
		}
	}
	if tools == nil {
		return nil, nil
	}
	for {
		g, err := compile(src)
		e, ok := asGrammarError(err)
		if !ok {
			return g, err
		}
		again := false // with less to hold to
		src.Frames = slices.Clone(src.Frames)
		for k := range src.Frames {
			f := &src.Frames[k]
			if (e.Frame != 0 && e.Frame != k+1) || f.JSON.Kind == grammar.Object || r.Tools[tools[k]].Strict || c.Tools[tools[k]].Input != JSON {
				continue
			}
			f.JSON, again = grammar.Source{Kind: grammar.Object, Space: f.JSON.Space}, true
		}
		switch {
		case again:
		case e.Frame == 0:
			return nil, &ToolsError{e}
		default:
			return nil, &FormError{tools[e.Frame-1], e}
		}
	}
}

func (k *tagRules) constraint() Constraint {
	c := &tagConstraint{k: k}
	switch k.state {
	case mayThink:
		c.at = tagStart
	case thinks:
		c.at = tagThought
	default:
		c.answer()
	}
	return c
}

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
	k     *tagRules
	at    tagPlace
	text  *grammar.Matcher // of the answer or the call; nil = any text
	begun bool             // the text of the answer has begun
	broke bool             // there was a line break in this gap
	spent int              // ids of reasoning
}

// answer goes to where the answer begins.
func (c *tagConstraint) answer() {
	c.at, c.text = tagAnswer, nil
	if c.k.answer != nil && !c.k.must {
		c.text = c.k.answer.Matcher()
	}
}

// Mask implements Constraint.
func (c *tagConstraint) Mask(dst []uint64) error {
	k := c.k
	switch c.at {
	case tagEnd:
		anything(dst)
	case tagThought:
		clear(dst)
		if c.spent < k.budget {
			copy(dst, k.text)
		}
		allow(dst, k.close)
	case tagCall:
		end, err := allowText(dst, nil, c.text)
		if end {
			allow(dst, k.callClose)
		}
		return err
	case tagCalled:
		clear(dst)
		allow(dst, k.stops...)
		if !k.one {
			allow(dst, k.callOpen)
			c.gap(dst)
		}
	default:
		return c.maskAnswer(dst)
	}
	return nil
}

// maskAnswer is the mask where the answer's text is or may begin.
func (c *tagConstraint) maskAnswer(dst []uint64) error {
	k := c.k
	mayOpen := c.at == tagStart && k.budget > 0
	if k.free {
		anything(dst)
		if !mayOpen {
			dst[k.open/64] &^= 1 << (k.open % 64)
		}
		return nil
	}
	text := c.text
	if text == nil && k.answer != nil && !k.must {
		text = k.answer.Matcher() // at the start or in the gap
	}
	clear(dst)
	if !k.must {
		end, err := allowText(dst, k.text, text)
		if err != nil {
			return err
		}
		if end {
			allow(dst, k.stops...)
		}
	}
	if k.calls != nil && (k.answer == nil || !c.begun) {
		allow(dst, k.callOpen)
	}
	switch {
	case mayOpen:
		allow(dst, k.open)
	case c.at == tagGap:
		c.gap(dst)
	}
	return nil
}

// gap allows a line break, but not for ever.
func (c *tagConstraint) gap(dst []uint64) {
	if !c.broke {
		allow(dst, c.k.breaks...)
	}
}

// Accept implements Constraint.
func (c *tagConstraint) Accept(id int32) error {
	k := c.k
	switch {
	case c.at == tagEnd:
		return nil
	case slices.Contains(k.stops, id):
		c.at, c.text = tagEnd, nil
		return nil
	case c.at == tagStart && id == k.open:
		c.at = tagThought
		return nil
	case c.at == tagThought:
		if id == k.close {
			c.at, c.broke = tagGap, false
		}
		c.spent++
		return nil
	case id == k.callOpen && k.calls != nil:
		c.at, c.text = tagCall, k.calls.Matcher()
		return nil
	case c.at == tagCall && id == k.callClose:
		c.at, c.text, c.broke = tagCalled, nil, false
		return nil
	case (c.at == tagGap || c.at == tagCalled) && !c.broke && slices.Contains(k.breaks, id):
		c.broke = true
		return nil
	case c.at == tagCalled || (k.must && c.at != tagCall):
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
