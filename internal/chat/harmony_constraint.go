package chat

import (
	"errors"
	"slices"
	"strings"

	"ossian/internal/grammar"
)

// harmonyRules hold answers of gpt-oss to its format and, where texts have a form, to
// that (harmony.md 10 and 12). They serve all answers to one request.
type harmonyRules struct {
	h *harmony

	// Texts of headers: behind <|start|>, behind <|channel|>, there with a recipient
	// given before, there when the answer has a form or must be a call and was thought
	// about, both when it has to come to the point, behind <|constrain|>.
	opening, channel, addressed, thought, last, lastAddressed, kind *grammar.Grammar

	role      []int32                     // assistant, as the prompt has it
	final     []int32                     // final, the same; nil = the answer may also be a call
	answer    *grammar.Grammar            // on the final channel; nil = any text
	arguments map[string]*grammar.Grammar // by name as it is shown; nil = any text
	mustCall  bool
	pointed   bool // one message of reasoning, then what was asked for: a second is how models begin to go round in circles
	budget    int  // ids of text on the analysis channel
	begin     harmonyPlace
}

type harmonyPlace uint8

const (
	atRole    harmonyPlace = iota // behind <|start|>
	atOpening                     // behind <|start|>assistant
	atChannel                     // behind <|channel|>
	atKind                        // behind <|constrain|>
	atThought                     // in text on analysis or of a preamble
	atCall                        // in the arguments of a call
	atAnswer                      // in the final message
	atGap                         // behind a message that does not end the answer
	atEnd                         // behind the answer
)

// maxDetours is how many messages may come before the answer: models that never come
// to the point exist.
const maxDetours = 16

// Constraint implements Format.
func (h *harmony) Constraint(c *Conversation, r *Rules, compile Compile) (func() Constraint, error) {
	budget := r.budget(c, c.effort() == "none")
	if r.none(c, budget) {
		return nil, nil
	}
	answer, err := r.answer(compile)
	if err != nil {
		return nil, err
	}
	k := &harmonyRules{h: h, budget: budget, role: h.tok.Encode(nil, "assistant"), answer: answer, arguments: map[string]*grammar.Grammar{}, mustCall: r.MustCall, pointed: r.MustCall || r.Answer != nil}
	if c.Continue {
		k.begin = atAnswer
		if c.Turns[len(c.Turns)-1].text() == "" {
			k.begin = atThought
		}
	}
	names := newFunctionNames(c.Tools)
	var callable []string
	for i := range c.Tools {
		if !r.callable(i) {
			continue
		}
		if k.arguments[names.names[i]], err = arguments(c.Tools[i].Input, r, i, compile); err != nil {
			return nil, err
		}
		callable = append(callable, names.names[i])
	}
	return k.constraint, k.headers(r, callable, compile)
}

// arguments compiles the form of the arguments of the i-th tool.
func arguments(input Input, r *Rules, i int, compile Compile) (*grammar.Grammar, error) {
	if input == Text {
		return nil, nil
	}
	g, err := compile(r.Tools[i].Arguments)
	e, ok := asGrammarError(err)
	switch {
	case !ok:
		return g, err
	case r.Tools[i].Strict || input == Formed:
		return nil, &FormError{i, e}
	}
	return compile(grammar.Source{Kind: grammar.Object, Space: r.Tools[i].Arguments.Space})
}

func asGrammarError(err error) (*grammar.Error, bool) { return errors.AsType[*grammar.Error](err) }

// headers compiles the texts of headers.
func (k *harmonyRules) headers(r *Rules, callable []string, compile Compile) (err error) {
	opening := `root ::= "assistant"`
	var all, decided []string
	const kinds = ` (" json" | " code" | " ")?`
	addressed := `"commentary"` + kinds
	if k.budget > 0 {
		all, addressed = []string{`"analysis"`}, `("commentary" | "analysis")`+kinds
	}
	names := ""
	if len(callable) > 0 {
		names = "\nname ::= \" to=functions.\" (\"" + strings.Join(callable, `" | "`) + `")`
		opening += " name?" + names
		decided = append(decided, `"commentary" name`+kinds)
		if k.budget > 0 {
			all = append(all, `"analysis" name`+kinds)
		}
	} else {
		k.final = k.h.tok.Encode(nil, final)
	}
	switch {
	case r.MustCall:
	case r.Answer != nil && r.Answer.Kind <= grammar.Object:
		decided = append(decided, `"final "`) // <|constrain|>json follows
	default:
		decided = append(decided, `"final"`)
	}
	thought := slices.Clone(decided)
	if r.Answer == nil { // before a form, a preamble would be part of the text that has it
		all = append(all, `"commentary"`)
		thought = append(thought, `"commentary"`)
	}
	all = append(all, decided...)
	for _, g := range []struct {
		to   **grammar.Grammar
		text string
	}{
		{&k.opening, opening},
		{&k.channel, "root ::= " + strings.Join(all, " | ") + names},
		{&k.thought, "root ::= " + strings.Join(thought, " | ") + names},
		{&k.addressed, "root ::= " + addressed},
		{&k.lastAddressed, `root ::= "commentary"` + kinds},
		{&k.last, "root ::= " + strings.Join(decided, " | ") + names},
		{&k.kind, `root ::= "json"`},
	} {
		if *g.to, err = compile(grammar.Source{Kind: grammar.EBNF, Text: g.text}); err != nil {
			if e, ok := asGrammarError(err); ok { // it can only be the names
				err = &ToolsError{e}
			}
			return err
		}
	}
	return nil
}

func (k *harmonyRules) constraint() Constraint {
	c := &harmonyConstraint{k: k}
	switch k.begin {
	case atRole: // the prompt ends with <|start|>assistant
		c.read(atRole, k.opening)
		for _, id := range k.role {
			if err := c.Accept(id); err != nil {
				return c // it allows nothing else
			}
		}
	case atAnswer:
		c.read(atAnswer, k.answer)
	default:
		c.thinking = true
		c.read(k.begin, nil)
	}
	return c
}

// A harmonyConstraint is where one answer is.
type harmonyConstraint struct {
	k       *harmonyRules
	at      harmonyPlace
	text    *grammar.Matcher // of the text being read; nil = any
	header  []byte           // text since <|start|>
	roles   int              // ids of the role since <|start|>
	detours int              // messages before the answer

	thinking bool    // the message being read is reasoning
	spent    int     // ids of reasoning
	forced   []int32 // ids that come next, whatever the text's form allows besides
}

// read begins a text.
func (c *harmonyConstraint) read(at harmonyPlace, form *grammar.Grammar) {
	c.at, c.text = at, nil
	if form != nil {
		c.text = form.Matcher()
	}
}

// Mask implements Constraint.
func (c *harmonyConstraint) Mask(dst []uint64) error {
	if len(c.forced) > 0 {
		clear(dst)
		allow(dst, c.forced[0])
		return nil
	}
	switch h := c.k.h; c.at {
	case atEnd:
		anything(dst) // what follows, with ignore_eos, is nobody's
	case atGap:
		clear(dst)
		allow(dst, h.start)
	case atRole:
		clear(dst)
		allow(dst, c.k.role[c.roles])
	default:
		if c.at == atThought && c.thinking && c.spent >= c.k.budget {
			clear(dst)
			allow(dst, h.end)
			return nil
		}
		end, err := allowText(dst, h.words.text, c.text)
		if end {
			exit, other := c.exits()
			allow(dst, exit, other)
		}
		return err
	}
	return nil
}

// exits are the control ids that may follow the text read so far, -1 = none.
func (c *harmonyConstraint) exits() (exit, other int32) {
	switch h := c.k.h; c.at {
	case atOpening:
		return h.channel, -1
	case atChannel:
		switch header := string(c.header); {
		case strings.HasSuffix(header, " "):
			return h.constrain, -1
		case c.recipient() != "" && !strings.HasSuffix(header, " json") && !strings.HasSuffix(header, " code"):
			return h.message, h.constrain
		}
		return h.message, -1
	case atKind:
		return h.message, -1
	case atCall:
		return h.call, -1
	case atAnswer:
		return h.ret, -1
	default:
		return h.end, -1
	}
}

// recipient is the function that the header names, "" = none.
func (c *harmonyConstraint) recipient() string {
	_, name, _ := strings.Cut(string(c.header), " to=functions.")
	if end := strings.IndexAny(name, " \n"); end >= 0 {
		name = name[:end]
	}
	return name
}

// Accept implements Constraint.
func (c *harmonyConstraint) Accept(id int32) error {
	h := c.k.h
	if len(c.forced) > 0 {
		if id != c.forced[0] {
			return unexpected(id)
		}
		c.forced = c.forced[1:]
	}
	switch {
	case c.at == atEnd:
		return nil
	case c.at == atGap:
		if id != h.start {
			return unexpected(id)
		}
		c.header, c.roles = c.header[:0], 0
		c.read(atRole, c.k.opening)
		return nil
	case c.at == atRole:
		if id != c.k.role[c.roles] {
			return unexpected(id)
		}
		if c.roles++; c.roles == len(c.k.role) {
			c.at = atOpening
		}
		c.header = append(c.header, h.tok.Text(id)...)
	case h.tok.IsControl(id):
		if exit, other := c.exits(); (id != exit && id != other) || (c.text != nil && !c.text.Done()) {
			return unexpected(id)
		}
		return c.leave(id)
	case c.at <= atKind:
		c.header = append(c.header, h.tok.Text(id)...)
	case c.at == atThought && c.thinking:
		c.spent++
	}
	if c.text == nil {
		return nil
	}
	return c.text.Accept(id)
}

// leave takes one of exits.
func (c *harmonyConstraint) leave(id int32) error {
	k, name := c.k, c.recipient()
	switch id {
	case k.h.channel:
		form := k.channel
		switch {
		case name != "":
			if form = k.addressed; c.spent >= k.budget {
				form = k.lastAddressed
			}
			c.header = append(c.header, '\n') // ends the name
		case c.detours >= maxDetours:
			form = k.last
		case c.spent >= k.budget && k.budget > 0:
			form, c.forced = k.last, k.final
		case c.detours > 0 && k.pointed:
			form = k.thought
		}
		c.read(atChannel, form)
	case k.h.constrain:
		c.header = append(c.header, ' ') // ends the name
		c.read(atKind, k.kind)
	case k.h.message:
		switch header := string(c.header); {
		case name != "":
			form, ok := k.arguments[name]
			if !ok {
				return unexpected(id) // text of any form must not pass for arguments
			}
			c.read(atCall, form)
		case strings.HasPrefix(strings.TrimPrefix(header, "assistant"), final):
			c.read(atAnswer, k.answer)
		default:
			c.read(atThought, nil)
			c.thinking = strings.HasSuffix(header, analysis)
			c.detours++
			if k.mustCall && strings.HasSuffix(header, commentary) {
				c.detours = maxDetours // one preamble, then the call
			}
		}
	case k.h.end:
		c.read(atGap, nil)
	default:
		c.read(atEnd, nil)
	}
	return nil
}
