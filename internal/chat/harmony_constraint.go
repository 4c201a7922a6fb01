package chat

import (
	"errors"
	"slices"
	"strings"

	"ossian/internal/chat/declare"
	"ossian/internal/chat/mask"
	"ossian/internal/grammar"
)

// harmonyRules hold answers of gpt-oss to its format and, where texts have a form, to
// that (harmony.md 10 and 12). They serve all answers to one request, and there are some
// for every request: a model that is free now and then loses its answer in a header.
type harmonyRules struct {
	format *harmony

	// Texts of headers: behind the role, behind <|channel|>, there with a recipient
	// given before, there when the answer has a form or must be a call and was thought
	// about, both when it has to come to the point, behind <|constrain|>.
	opening, channel, addressed, thought, last, lastAddressed, kind mask.Spellings
	builtin                                                         map[string]bool // recipients of the server's tools, which may be called on either channel

	role      []int32                     // assistant, as the prompt has it
	final     []int32                     // final, the same; nil = the answer may also be a call
	answer    *grammar.Grammar            // on the final channel; nil = any text
	arguments map[string]*grammar.Grammar // by recipient; nil = any text
	mustCall  bool
	pointed   bool // one message of reasoning, then what was asked for: a second is how models begin to go round in circles
	budget    int  // ids of text on the analysis channel
	begin     harmonyPlace
	goesOn    string // the channel of a text that the prompt has begun, "" = none
}

// A harmonyPlace is where in the format an answer is: atRole → atOpening → atChannel
// (→ atKind) → atThought, atCall or atAnswer; from atThought by atGap back to atRole,
// from the others to atEnd. Those up to atKind are in a header. The prompt says where an
// answer begins: atOpening, in the text that it continues, or atGap without a prompt.
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
	if wanted.Loose && wanted.holdNothing(conv, budget) {
		return nil, nil
	}
	if err := wanted.check(conv); err != nil {
		return nil, err
	}
	// The form of the answer, then of each call, then the headers that lead to them.
	answer, err := wanted.answer(compile)
	if err != nil {
		return nil, err
	}
	rules := &harmonyRules{format: h, budget: budget, builtin: map[string]bool{}, role: h.tok.Encode(nil, "assistant"), answer: answer, arguments: map[string]*grammar.Grammar{}, mustCall: wanted.MustCall, pointed: wanted.MustCall || wanted.Answer != nil}
	rules.begin, rules.goesOn = atOpening, conv.goesOn()
	switch {
	case rules.goesOn == final && wanted.MustCall:
		return nil, NoCallsError{"an answer that is to be continued cannot become one"}
	case rules.goesOn == final:
		rules.begin = atAnswer
	case rules.goesOn != "":
		rules.begin = atThought
	case conv.NoPrompt:
		rules.begin = atGap
	}
	names := declare.NewNames(toolNames(conv.Tools))
	var recipients []string
	for i := range conv.Tools {
		if !wanted.callable(i) {
			continue
		}
		recipient := "functions." + names.ByTool[i]
		if rules.arguments[recipient], err = arguments(conv.Tools[i].Input, wanted, i, compile); err != nil {
			return nil, err
		}
		recipients = append(recipients, recipient)
	}
	for _, it := range conv.builtins() {
		if wanted.mayCall(it.recipient) {
			rules.arguments[it.shown], rules.builtin[it.shown] = nil, true
			recipients = append(recipients, it.shown)
		}
	}
	rules.headers(wanted, recipients)
	return rules.constraint, nil
}

// goesOn is the channel of the text that is to be continued, "" if there is none.
func (c *Conversation) goesOn() string {
	if !c.Continue {
		return ""
	}
	switch last := &c.Turns[len(c.Turns)-1]; {
	case !slices.ContainsFunc(last.Parts, func(part string) bool { return part != "" }):
		return analysis
	case last.Preamble:
		return commentary
	}
	return final
}

// arguments compiles the form of the arguments of a tool, given by its index.
func arguments(input Input, wanted *Rules, tool int, compile Compile) (*grammar.Grammar, error) {
	if input == Text {
		return nil, nil
	}
	form, err := compile(wanted.form(tool, input))
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

// headers makes the texts of headers. Decided are those that lead to what was asked for,
// thought adds preambles, all also adds reasoning.
func (rules *harmonyRules) headers(wanted *Rules, recipients []string) {
	tok := rules.format.tok
	// Pieces are encoded one by one, as prompts have them (harmony.md 6).
	spell := func(pieces ...string) (ids []int32) {
		for _, piece := range pieces {
			ids = tok.Encode(ids, piece)
		}
		return ids
	}
	kinds := []string{"", " json", " code", " "} // behind the last, <|constrain|> follows
	reasons := rules.budget > 0
	opening := [][]int32{{}}
	var all, decided, addressed, lastAddressed [][]int32
	for _, recipient := range recipients {
		name := spell(" to=" + recipient)
		opening = append(opening, name)
		for _, kind := range kinds {
			behind := tok.Encode(slices.Clone(name), kind)
			decided = append(decided, slices.Concat(spell(commentary), behind))
			switch thought := slices.Concat(spell(analysis), behind); {
			case rules.builtin[recipient]: // there they were trained to be called
				decided = append(decided, thought)
			case reasons:
				all = append(all, thought)
			}
		}
	}
	for _, kind := range kinds {
		lastAddressed = append(lastAddressed, spell(commentary, kind))
		addressed = append(addressed, spell(analysis, kind))
	}
	if len(recipients) == 0 {
		rules.final = spell(final)
	}
	switch {
	case wanted.MustCall:
	case wanted.Answer != nil && wanted.Answer.Kind <= grammar.Object:
		decided = append(decided, spell(final, " ")) // <|constrain|>json follows
	default:
		decided = append(decided, spell(final))
	}
	thought := slices.Clone(decided)
	if wanted.Answer == nil { // before a form, a preamble would be part of the text that has it
		thought = append(thought, spell(commentary))
	}
	if reasons {
		all = append(all, spell(analysis))
	}
	rules.opening, rules.channel, rules.thought = mask.NewSpellings(opening), mask.NewSpellings(append(all, thought...)), mask.NewSpellings(thought)
	rules.last, rules.lastAddressed = mask.NewSpellings(decided), mask.NewSpellings(lastAddressed)
	rules.addressed, rules.kind = mask.NewSpellings(append(addressed, lastAddressed...)), mask.NewSpellings([][]int32{spell("json")})
}

func (rules *harmonyRules) constraint() Constraint {
	constraint := &harmonyConstraint{rules: rules, at: rules.begin, said: true}
	switch rules.begin {
	case atOpening:
		constraint.head(atOpening, rules.opening)
	case atAnswer:
		constraint.read(atAnswer, rules.answer)
	default:
		constraint.thinking = rules.goesOn == analysis
	}
	return constraint
}

// A harmonyConstraint is where one answer is.
type harmonyConstraint struct {
	rules   *harmonyRules
	at      harmonyPlace
	words   mask.Spelled     // of the header being read
	text    *grammar.Matcher // of the message being read; nil = any
	header  []byte           // text behind <|start|>assistant
	roles   int              // ids of the role since <|start|>
	detours int              // messages before the answer
	said    bool             // the message being read has text

	thinking bool    // the message being read is reasoning
	spent    int     // ids of reasoning
	forced   []int32 // ids that come next, whatever the text's form allows besides
}

// head begins a part of a header.
func (c *harmonyConstraint) head(at harmonyPlace, texts mask.Spellings) {
	c.at, c.words = at, mask.Begin(texts)
}

// read begins the text of a message.
func (c *harmonyConstraint) read(at harmonyPlace, form *grammar.Grammar) {
	c.at, c.text = at, nil
	if form != nil {
		c.text = form.Matcher()
	}
}

// Mask implements Constraint. In text without a form it is a copy of a mask that the
// format made once, and nothing is allocated.
func (c *harmonyConstraint) Mask(dst []uint64) error {
	if len(c.forced) > 0 {
		clear(dst)
		mask.Allow(dst, c.forced[0])
		return nil
	}
	switch format := c.rules.format; c.at {
	case atEnd:
		mask.All(dst) // what follows, with ignore_eos, is nobody's
	case atGap:
		clear(dst)
		mask.Allow(dst, format.start)
	case atRole:
		clear(dst)
		mask.Allow(dst, c.rules.role[c.roles])
	case atOpening, atChannel, atKind:
		clear(dst)
		c.words.Allow(dst)
		if c.words.Done() {
			exit, other := c.exits()
			mask.Allow(dst, exit, other)
		}
	default:
		if c.at == atThought && c.thinking && c.spent >= c.rules.budget {
			clear(dst)
			mask.Allow(dst, format.end)
			return nil
		}
		end, err := allowText(dst, format.textIDs.Any, c.text)
		if end && c.mayEnd() {
			exit, other := c.exits()
			mask.Allow(dst, exit, other)
		}
		return err
	}
	return nil
}

// mayEnd reports whether the text may end here, as far as its form is not concerned: an
// answer without a word is one that was lost.
func (c *harmonyConstraint) mayEnd() bool { return c.said || c.text != nil || c.at != atAnswer }

// InText implements Framed. What follows an answer counts as text.
func (c *harmonyConstraint) InText() bool { return c.at >= atThought && c.at != atGap }

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

// recipient is whom the header names, "" = nobody.
func (c *harmonyConstraint) recipient() string {
	_, name, _ := strings.Cut(string(c.header), " to=")
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
	// Markers move to another place; ids of text are what c.words or c.text read, below.
	switch {
	case c.at == atEnd:
		return nil
	case c.at == atGap:
		if id != format.start {
			return unexpected(id)
		}
		c.at, c.header, c.roles = atRole, c.header[:0], 0
		return nil
	case c.at == atRole:
		if id != c.rules.role[c.roles] {
			return unexpected(id)
		}
		if c.roles++; c.roles == len(c.rules.role) {
			c.head(atOpening, c.rules.opening)
		}
		return nil
	case format.tok.IsControl(id):
		done := c.text == nil || c.text.Done()
		if c.at <= atKind {
			done = c.words.Done()
		}
		if exit, other := c.exits(); (id != exit && id != other) || !done {
			return unexpected(id)
		}
		return c.leave(id)
	case c.at <= atKind:
		if c.header = append(c.header, format.tok.Text(id)...); !c.words.Accept(id) {
			return unexpected(id)
		}
		return nil
	case c.at == atThought && c.thinking:
		c.spent++
	}
	c.said = true
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
		texts := rules.channel // which channels are open depends on what came before
		switch {
		case name != "":
			if texts = rules.addressed; c.spent >= rules.budget && !rules.builtin[name] {
				texts = rules.lastAddressed
			}
			c.header = append(c.header, '\n') // ends the name
		case c.detours >= maxDetours:
			texts = rules.last
		case c.spent >= rules.budget && rules.budget > 0:
			texts, c.forced = rules.last, rules.final
		case c.detours > 0 && rules.pointed:
			texts = rules.thought
		}
		c.head(atChannel, texts)
	case rules.format.constrain:
		c.header = append(c.header, ' ') // ends the name
		c.head(atKind, rules.kind)
	case rules.format.message:
		c.said = false
		switch header := string(c.header); {
		case name != "":
			form, ok := rules.arguments[name]
			if !ok {
				return unexpected(id) // text of any form must not pass for arguments
			}
			c.read(atCall, form)
		case strings.HasPrefix(header, final):
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
		c.at, c.text = atGap, nil
	default:
		c.at, c.text = atEnd, nil
	}
	return nil
}

// Copy implements Constraint.
func (c *harmonyConstraint) Copy() Constraint {
	out := *c
	out.text, out.header = c.text.Copy(), slices.Clone(c.header)
	return &out
}

// Ahead implements Constraint.
func (c *harmonyConstraint) Ahead(guesses []int32, masks [][]uint64) int {
	return mask.Ahead(c.Copy(), guesses, masks)
}
