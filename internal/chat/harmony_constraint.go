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
	format *harmony

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

// A harmonyPlace is where in the format an answer is: atRole → atOpening → atChannel
// (→ atKind) → atThought, atCall or atAnswer; from atThought by atGap back to atRole,
// from the others to atEnd. Those up to atKind are in a header.
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
func (h *harmony) Constraint(conv *Conversation, wanted *Rules, compile Compile) (func() Constraint, error) {
	budget := wanted.budget(conv, conv.effort() == "none")
	if wanted.holdNothing(conv, budget) {
		return nil, nil
	}
	// The form of the answer, then of each call, then the headers that lead to them.
	answer, err := wanted.answer(compile)
	if err != nil {
		return nil, err
	}
	rules := &harmonyRules{format: h, budget: budget, role: h.tok.Encode(nil, "assistant"), answer: answer, arguments: map[string]*grammar.Grammar{}, mustCall: wanted.MustCall, pointed: wanted.MustCall || wanted.Answer != nil}
	if conv.Continue {
		rules.begin = atAnswer
		if conv.Turns[len(conv.Turns)-1].text() == "" {
			rules.begin = atThought
		}
	}
	names := newFunctionNames(conv.Tools)
	var callable []string // as they are shown
	for i := range conv.Tools {
		if !wanted.callable(i) {
			continue
		}
		if rules.arguments[names.byTool[i]], err = arguments(conv.Tools[i].Input, wanted, i, compile); err != nil {
			return nil, err
		}
		callable = append(callable, names.byTool[i])
	}
	return rules.constraint, rules.headers(wanted, callable, compile)
}

// arguments compiles the form of the arguments of a tool, given by its index.
func arguments(input Input, wanted *Rules, tool int, compile Compile) (*grammar.Grammar, error) {
	if input == Text {
		return nil, nil
	}
	form, err := compile(wanted.Tools[tool].Arguments)
	problem, ok := asGrammarError(err)
	switch {
	case !ok:
		return form, err
	case wanted.Tools[tool].Strict || input == Formed:
		return nil, &FormError{tool, problem}
	}
	return compile(grammar.Source{Kind: grammar.Object, Space: wanted.Tools[tool].Arguments.Space})
}

func asGrammarError(err error) (*grammar.Error, bool) { return errors.AsType[*grammar.Error](err) }

// headers compiles the texts of headers. decided are those that lead to what was asked
// for, thought adds preambles, all also adds reasoning.
func (rules *harmonyRules) headers(wanted *Rules, callable []string, compile Compile) (err error) {
	opening := `root ::= "assistant"`
	var all, decided []string
	const kinds = ` (" json" | " code" | " ")?`
	addressed := `"commentary"` + kinds
	if rules.budget > 0 {
		all, addressed = []string{`"analysis"`}, `("commentary" | "analysis")`+kinds
	}
	names := ""
	if len(callable) > 0 {
		names = "\nname ::= \" to=functions.\" (\"" + strings.Join(callable, `" | "`) + `")`
		opening += " name?" + names
		decided = append(decided, `"commentary" name`+kinds)
		if rules.budget > 0 {
			all = append(all, `"analysis" name`+kinds)
		}
	} else {
		rules.final = rules.format.tok.Encode(nil, final)
	}
	switch {
	case wanted.MustCall:
	case wanted.Answer != nil && wanted.Answer.Kind <= grammar.Object:
		decided = append(decided, `"final "`) // <|constrain|>json follows
	default:
		decided = append(decided, `"final"`)
	}
	thought := slices.Clone(decided)
	if wanted.Answer == nil { // before a form, a preamble would be part of the text that has it
		all = append(all, `"commentary"`)
		thought = append(thought, `"commentary"`)
	}
	all = append(all, decided...)
	for _, header := range []struct {
		to   **grammar.Grammar
		text string
	}{
		{&rules.opening, opening},
		{&rules.channel, "root ::= " + strings.Join(all, " | ") + names},
		{&rules.thought, "root ::= " + strings.Join(thought, " | ") + names},
		{&rules.addressed, "root ::= " + addressed},
		{&rules.lastAddressed, `root ::= "commentary"` + kinds},
		{&rules.last, "root ::= " + strings.Join(decided, " | ") + names},
		{&rules.kind, `root ::= "json"`},
	} {
		if *header.to, err = compile(grammar.Source{Kind: grammar.EBNF, Text: header.text}); err != nil {
			if e, ok := asGrammarError(err); ok { // it can only be the names
				err = &ToolsError{e}
			}
			return err
		}
	}
	return nil
}

func (rules *harmonyRules) constraint() Constraint {
	constraint := &harmonyConstraint{rules: rules}
	switch rules.begin {
	case atRole: // the prompt ends with <|start|>assistant
		constraint.read(atRole, rules.opening)
		for _, id := range rules.role {
			if err := constraint.Accept(id); err != nil {
				return constraint // it allows nothing else
			}
		}
	case atAnswer:
		constraint.read(atAnswer, rules.answer)
	default:
		constraint.thinking = true
		constraint.read(rules.begin, nil)
	}
	return constraint
}

// A harmonyConstraint is where one answer is.
type harmonyConstraint struct {
	rules   *harmonyRules
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
	switch format := c.rules.format; c.at {
	case atEnd:
		anything(dst) // what follows, with ignore_eos, is nobody's
	case atGap:
		clear(dst)
		allow(dst, format.start)
	case atRole:
		clear(dst)
		allow(dst, c.rules.role[c.roles])
	default:
		if c.at == atThought && c.thinking && c.spent >= c.rules.budget {
			clear(dst)
			allow(dst, format.end)
			return nil
		}
		end, err := allowText(dst, format.textIDs.text, c.text)
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
	switch format := c.rules.format; c.at {
	case atOpening:
		return format.channel, -1
	case atChannel:
		switch header := string(c.header); {
		case strings.HasSuffix(header, " "): // "final ": json is a must
			return format.constrain, -1
		case c.recipient() != "" && !strings.HasSuffix(header, " json") && !strings.HasSuffix(header, " code"):
			return format.message, format.constrain
		}
		return format.message, -1
	case atKind:
		return format.message, -1
	case atCall:
		return format.call, -1
	case atAnswer:
		return format.ret, -1
	default:
		return format.end, -1
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
	format := c.rules.format
	if len(c.forced) > 0 {
		if id != c.forced[0] {
			return unexpected(id)
		}
		c.forced = c.forced[1:]
	}
	// Markers move to another place; ids of text are what c.text reads, below.
	switch {
	case c.at == atEnd:
		return nil
	case c.at == atGap:
		if id != format.start {
			return unexpected(id)
		}
		c.header, c.roles = c.header[:0], 0
		c.read(atRole, c.rules.opening)
		return nil
	case c.at == atRole:
		if id != c.rules.role[c.roles] {
			return unexpected(id)
		}
		if c.roles++; c.roles == len(c.rules.role) {
			c.at = atOpening
		}
		c.header = append(c.header, format.tok.Text(id)...)
	case format.tok.IsControl(id):
		if exit, other := c.exits(); (id != exit && id != other) || (c.text != nil && !c.text.Done()) {
			return unexpected(id)
		}
		return c.leave(id)
	case c.at <= atKind:
		c.header = append(c.header, format.tok.Text(id)...)
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
	rules, name := c.rules, c.recipient()
	switch id {
	case rules.format.channel:
		form := rules.channel // which channels are open depends on what came before
		switch {
		case name != "":
			if form = rules.addressed; c.spent >= rules.budget {
				form = rules.lastAddressed
			}
			c.header = append(c.header, '\n') // ends the name
		case c.detours >= maxDetours:
			form = rules.last
		case c.spent >= rules.budget && rules.budget > 0:
			form, c.forced = rules.last, rules.final
		case c.detours > 0 && rules.pointed:
			form = rules.thought
		}
		c.read(atChannel, form)
	case rules.format.constrain:
		c.header = append(c.header, ' ') // ends the name
		c.read(atKind, rules.kind)
	case rules.format.message:
		switch header := string(c.header); {
		case name != "":
			form, ok := rules.arguments[name]
			if !ok {
				return unexpected(id) // text of any form must not pass for arguments
			}
			c.read(atCall, form)
		case strings.HasPrefix(strings.TrimPrefix(header, "assistant"), final):
			c.read(atAnswer, rules.answer)
		default:
			c.read(atThought, nil)
			c.thinking = strings.HasSuffix(header, analysis)
			c.detours++
			if rules.mustCall && strings.HasSuffix(header, commentary) {
				c.detours = maxDetours // one preamble, then the call
			}
		}
	case rules.format.end:
		c.read(atGap, nil)
	default:
		c.read(atEnd, nil)
	}
	return nil
}
