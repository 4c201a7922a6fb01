package chat

import (
	"strings"
	"unicode/utf8"

	"ossian/internal/chat/declare"
	"ossian/internal/chat/event"
	"ossian/internal/chat/header"
	"ossian/internal/chat/mend"
)

// A harmonyParser reads what gpt-oss samples, with the salvage rules of harmony.md 9.
type harmonyParser struct {
	format *harmony
	out    event.Writer
	conv   *Conversation
	names  *declare.Names // of the offered tools

	state    harmonyState
	head     header.Reader
	answered bool // there was a final message
	over     bool // the turn has ended
}

// A harmonyState is where in the format the output is: inHeader → inContent →
// expectStart → inHeader …; an answer begins inHeader, since the prompt ends with
// <|start|>assistant, unless there is no prompt, or one that ends in a text. Where a marker is missing, states are skipped, by a Rule.
type harmonyState uint8

const (
	expectStart harmonyState = iota // behind a message
	inHeader                        // behind <|start|>
	inContent                       // behind <|message|>
)

// newHarmonyParser begins where the prompt of conv ends.
func newHarmonyParser(h *harmony, conv *Conversation) *harmonyParser {
	parser := &harmonyParser{format: h, out: event.New(h.tok), conv: conv, names: declare.NewNames(toolNames(conv.offered())), state: inHeader}
	parser.head = header.Reader{Channel: h.channel, Constrain: h.constrain, IsTool: parser.isTool, Text: h.tok.Text}
	switch channel := conv.goesOn(); {
	case channel != "":
		part := Reasoning
		switch channel {
		case final:
			part, parser.answered = Content, true
		case commentary:
			part = Preamble
		}
		parser.state = inContent
		parser.out.Later(part, false, false)
	case conv.NoPrompt:
		parser.state = expectStart
	}
	return parser
}

// Push implements Parser.
func (p *harmonyParser) Push(dst []Event, id int32) []Event {
	p.out.Next()
	format := p.format
	control := format.tok.IsControl(id)
	switch {
	case p.over:
		return p.afterwards(dst, id, control)
	case !control:
		return p.text(dst, id)
	case id == format.start:
		return p.startMarker(dst)
	case id == format.channel || (id == format.constrain && p.state != inContent):
		return p.headerMarker(dst, id)
	case id == format.message && p.state != inContent:
		return p.messageMarker(dst)
	case id == format.end || id == format.ret || id == format.call || id == format.endOfText:
		return p.terminator(dst, id)
	}
	return p.out.Salvage(dst, mend.StrayMarker)
}

// text takes an id that is no marker.
func (p *harmonyParser) text(dst []Event, id int32) []Event {
	switch p.state {
	case inContent:
		return p.out.Text(dst, p.out.Tok.Text(id))
	case expectStart:
		p.enter(false, true)
	}
	if p.head.Len() < header.Max {
		p.head.Hold(p.out.Token, id)
		return dst
	}
	// No header is that long: this is content, of the answer unless there was one.
	rule, channel := mend.EndlessHeader, final
	if p.head.Loose {
		rule = mend.LooseText
	}
	if p.answered {
		channel = analysis
	}
	head := p.head.Read(true)
	dst = p.begin(p.out.Salvage(dst, rule), head, channel)
	return p.out.Text(dst, p.out.Tok.Text(id))
}

// enter begins a header.
func (p *harmonyParser) enter(begun, loose bool) {
	p.state = inHeader
	p.head.Begin(begun, loose)
}

// startMarker takes <|start|>.
func (p *harmonyParser) startMarker(dst []Event) []Event {
	switch {
	case p.state == inContent:
		dst = p.out.Salvage(dst, mend.StartInText)
		dst = p.out.End(dst, false, false)
	case p.state == inHeader && p.head.Loose:
		dst, _ = p.commit(dst, mend.LooseText, analysis)
		dst = p.out.End(dst, false, false)
	case p.state == inHeader:
		dst = p.out.Salvage(dst, mend.DoubledStart)
	}
	p.enter(true, false)
	return dst
}

// headerMarker takes <|channel|> and <|constrain|>.
func (p *harmonyParser) headerMarker(dst []Event, id int32) []Event {
	switch {
	case p.state == inContent:
		dst = p.out.Salvage(dst, mend.ChannelInText)
		dst = p.out.End(dst, false, false)
		p.enter(false, false)
	case p.state == expectStart:
		dst = p.out.Salvage(dst, mend.MissingStart)
		p.enter(false, false)
	case p.head.Loose:
		dst = p.out.Salvage(dst, mend.LooseText)
		p.head.Loose = false
	}
	if p.head.Len() == header.Max {
		head := p.head.Read(true)
		return p.begin(p.out.Salvage(dst, mend.EndlessHeader), head, final)
	}
	p.head.Hold(p.out.Token, id)
	return dst
}

// messageMarker takes <|message|>.
func (p *harmonyParser) messageMarker(dst []Event) []Event {
	if p.state == expectStart {
		dst = p.out.Salvage(dst, mend.MissingStart)
		p.enter(false, false)
	}
	if p.head.Loose {
		dst = p.out.Salvage(dst, mend.LooseText)
	}
	head := p.head.Read(false)
	fallback := final
	if head.Channel == "" && !head.Hidden {
		head.Rules = append(head.Rules, mend.MissingChannel)
		if head.Recipient != "" {
			fallback = commentary
		}
	}
	return p.begin(dst, head, fallback)
}

// begin starts the message of a header, on channel fallback if the header names none.
func (p *harmonyParser) begin(dst []Event, head header.Header, fallback string) []Event {
	for _, rule := range head.Rules {
		dst = p.out.Salvage(dst, rule)
	}
	if head.Channel == "" {
		head.Channel = fallback
	}
	part, name := p.part(head)
	p.answered = p.answered || part == Content
	p.state = inContent
	p.head.Begin(false, false)
	dst = p.out.Start(dst, part, name)
	for _, piece := range head.Content {
		dst = p.out.Add(dst, piece)
	}
	return dst
}

// part decides what a message is for.
func (p *harmonyParser) part(head header.Header) (part Part, tool string) {
	switch {
	case head.Hidden:
		return Hidden, ""
	case head.Recipient != "":
		return p.tool(head.Recipient)
	case head.Channel == analysis:
		return Reasoning, ""
	case head.Channel == commentary:
		return Preamble, ""
	}
	return Content, ""
}

// tool decides whose call a message to a recipient is.
func (p *harmonyParser) tool(recipient string) (Part, string) {
	if p.conv.builtin(recipient) && !p.conv.NoCalls {
		return Builtin, p.conv.findBuiltin(recipient)
	}
	name := strings.TrimPrefix(recipient, "functions.")
	if declared, ok := p.names.Find(name); ok {
		return Calling, declared
	}
	return Hidden, name
}

// commit makes a message of a header that nothing but text follows, and reports
// whether there is any.
func (p *harmonyParser) commit(dst []Event, rule mend.Rule, fallback string) ([]Event, bool) {
	head := p.head.Read(true)
	if len(head.Content) == 0 {
		return dst, false
	}
	if head.Channel == "" {
		dst = p.out.Salvage(dst, mend.TextForHeader)
	}
	return p.begin(p.out.Salvage(dst, rule), head, fallback), true
}

// terminator takes an id that ends a message.
func (p *harmonyParser) terminator(dst []Event, id int32) []Event {
	last := id == p.format.ret || id == p.format.endOfText
	// A header whose <|message|> is missing may hold a message all the same.
	message := p.state == inContent
	if p.state == inHeader {
		fallback := analysis
		if last {
			fallback = final
		}
		rule := mend.MissingMessage
		if p.head.Loose {
			rule = mend.LooseText
		}
		dst, message = p.commit(dst, rule, fallback)
	}
	p.state = expectStart
	if !message {
		if !last {
			dst = p.out.Salvage(dst, mend.StrayEnd)
			return p.out.Skip(dst, Hidden)
		}
		return p.endTurn(dst, Content)
	}
	// Each part has an end of its own; the others end it, too.
	part := p.out.Part
	switch {
	case (part == Calling || part == Builtin) && id != p.format.call:
		dst = p.out.Salvage(dst, mend.CallEnd)
	case id == p.format.call && (part.Visible() || part == Reasoning):
		dst = p.out.Salvage(dst, mend.NoCall)
	}
	dst = p.out.End(dst, false, false)
	if last || part == Calling || part == Builtin || part == Content {
		return p.endTurn(dst, part)
	}
	return dst
}

// endTurn reports that the answer is complete; what still comes is text (S17).
func (p *harmonyParser) endTurn(dst []Event, part Part) []Event {
	p.over = true
	return p.out.Emit(dst, Event{Kind: TurnEnd, Part: part})
}

// afterwards takes what follows the end of the turn: more text of the answer (S17).
func (p *harmonyParser) afterwards(dst []Event, id int32, control bool) []Event {
	if control {
		return dst
	}
	if !p.out.Open {
		dst = p.out.Salvage(dst, mend.TextAfterTurn)
		dst = p.out.Start(dst, Content, "")
	}
	return p.out.Text(dst, p.out.Tok.Text(id))
}

// Close implements Parser.
func (p *harmonyParser) Close(dst []Event) []Event {
	if p.state == inHeader && !p.over && (p.head.Len() > 0 || p.head.Begun) {
		dst = p.closeHeader(dst)
	}
	dst = p.out.End(dst, false, !p.over)
	return p.out.Skip(dst, Hidden)
}

// closeHeader takes the end of the output inside a header. Half a header is dropped
// (S16), text that a model wrote instead of one is its answer (S7a).
func (p *harmonyParser) closeHeader(dst []Event) []Event {
	head := p.head.Read(true)
	var rest strings.Builder
	for _, piece := range head.Content {
		rest.WriteString(piece.Raw)
	}
	text := rest.String()
	half := strings.HasPrefix("to=", text) || (head.Channels > 0 && !strings.ContainsAny(text, " \n"))
	if !half || (p.head.Loose && text != "") {
		dst, _ = p.commit(dst, mend.MissingMessage, final)
		return dst
	}
	return p.out.Salvage(dst, mend.HalfHeader)
}

// isTool reports whether a word of a header names a function or an offered tool.
func (p *harmonyParser) isTool(word string) bool {
	if !utf8.ValidString(word) {
		return false
	}
	if strings.HasPrefix(word, "functions.") || p.conv.builtin(word) {
		return true
	}
	_, ok := p.names.Find(word)
	return ok
}
