package chat

import "strings"

// A harmonyParser reads what gpt-oss samples, with the salvage rules of harmony.md 9.
type harmonyParser struct {
	h     *harmony
	w     writer
	conv  *Conversation
	names *functionNames // of the offered tools

	state    harmonyState
	head     []headPiece // the header so far
	begun    bool        // it follows a <|start|> that was sampled
	loose    bool        // it may be text: nothing introduced it
	answered bool        // there was a final message
	over     bool        // the turn has ended
}

type harmonyState uint8

const (
	expectStart harmonyState = iota
	inHeader
	inContent
)

func newHarmonyParser(h *harmony, c *Conversation) *harmonyParser {
	p := &harmonyParser{h: h, w: newWriter(h.tok), conv: c, names: newFunctionNames(c.offered()), state: inHeader}
	if c.Continue {
		p.state = inContent
		part := Reasoning
		for _, text := range c.Turns[len(c.Turns)-1].Parts {
			if text != "" {
				part, p.answered = Content, true
			}
		}
		p.w.later(part, false, false)
	}
	return p
}

// Push implements Parser.
func (p *harmonyParser) Push(dst []Event, id int32) []Event {
	p.w.next()
	h := p.h
	control := h.tok.IsControl(id)
	switch {
	case p.over:
		return p.afterwards(dst, id, control)
	case !control:
		return p.text(dst, id)
	case id == h.start:
		return p.startMarker(dst)
	case id == h.channel || (id == h.constrain && p.state != inContent):
		return p.headerMarker(dst, id)
	case id == h.message && p.state != inContent:
		return p.messageMarker(dst)
	case id == h.end || id == h.ret || id == h.call || id == h.eot:
		return p.terminator(dst, id)
	}
	return p.w.salvage(dst, rule13)
}

// text takes an id that is no marker.
func (p *harmonyParser) text(dst []Event, id int32) []Event {
	switch p.state {
	case inContent:
		return p.w.text(dst, p.w.tok.Text(id))
	case expectStart:
		p.enter(false, true)
	}
	if len(p.head) < maxHeader {
		p.hold(id)
		return dst
	}
	rule, channel := rule10, final
	if p.loose {
		rule = rule3
	}
	if p.answered {
		channel = analysis
	}
	d := p.header(true)
	dst = p.begin(p.w.salvage(dst, rule), d, channel)
	return p.w.text(dst, p.w.tok.Text(id))
}

// enter begins a header.
func (p *harmonyParser) enter(begun, loose bool) {
	p.state, p.head, p.begun, p.loose = inHeader, p.head[:0], begun, loose
}

func (p *harmonyParser) startMarker(dst []Event) []Event {
	switch {
	case p.state == inContent:
		dst = p.w.salvage(dst, rule11)
		dst = p.w.end(dst, false, false)
	case p.state == inHeader && p.loose:
		dst, _ = p.commit(dst, rule3, analysis)
		dst = p.w.end(dst, false, false)
	case p.state == inHeader:
		dst = p.w.salvage(dst, rule4)
	}
	p.enter(true, false)
	return dst
}

// headerMarker takes <|channel|> and <|constrain|>.
func (p *harmonyParser) headerMarker(dst []Event, id int32) []Event {
	switch {
	case p.state == inContent:
		dst = p.w.salvage(dst, rule12)
		dst = p.w.end(dst, false, false)
		p.enter(false, false)
	case p.state == expectStart:
		dst = p.w.salvage(dst, rule2)
		p.enter(false, false)
	case p.loose:
		dst = p.w.salvage(dst, rule3)
		p.loose = false
	}
	if len(p.head) == maxHeader {
		d := p.header(true)
		return p.begin(p.w.salvage(dst, rule10), d, final)
	}
	p.hold(id)
	return dst
}

func (p *harmonyParser) messageMarker(dst []Event) []Event {
	if p.state == expectStart {
		dst = p.w.salvage(dst, rule2)
		p.enter(false, false)
	}
	if p.loose {
		dst = p.w.salvage(dst, rule3)
	}
	d := p.header(false)
	none := final
	if d.channel == "" && !d.hidden {
		d.rules = append(d.rules, rule7)
		if d.recipient != "" {
			none = commentary
		}
	}
	return p.begin(dst, d, none)
}

// begin starts the message of a header. Without a channel it is on none.
func (p *harmonyParser) begin(dst []Event, d header, none string) []Event {
	for _, rule := range d.rules {
		dst = p.w.salvage(dst, rule)
	}
	if d.channel == "" {
		d.channel = none
	}
	part, name := p.part(d)
	p.answered = p.answered || part == Content
	p.state, p.head = inContent, p.head[:0]
	dst = p.w.start(dst, part, name)
	for _, piece := range d.rest {
		dst = p.w.piece(dst, piece)
	}
	return dst
}

// part decides what a message is for.
func (p *harmonyParser) part(d header) (part Part, tool string) {
	switch {
	case d.hidden:
		return Hidden, ""
	case d.recipient != "":
		return p.tool(d.recipient)
	case d.channel == analysis:
		return Reasoning, ""
	case d.channel == commentary:
		return Preamble, ""
	}
	return Content, ""
}

func (p *harmonyParser) tool(recipient string) (Part, string) {
	if p.conv.builtin(recipient) && !p.conv.NoCalls {
		return Builtin, recipient
	}
	name := strings.TrimPrefix(recipient, "functions.")
	if declared, ok := p.names.find(name); ok {
		return Calling, declared
	}
	return Hidden, name
}

// commit makes a message of a header that nothing but text follows, and reports
// whether there is any.
func (p *harmonyParser) commit(dst []Event, rule Rule, none string) ([]Event, bool) {
	d := p.header(true)
	if len(d.rest) == 0 {
		return dst, false
	}
	if d.channel == "" {
		dst = p.w.salvage(dst, rule7a)
	}
	return p.begin(p.w.salvage(dst, rule), d, none), true
}

// terminator takes an id that ends a message.
func (p *harmonyParser) terminator(dst []Event, id int32) []Event {
	last := id == p.h.ret || id == p.h.eot
	message := p.state == inContent
	if p.state == inHeader {
		none := analysis
		if last {
			none = final
		}
		rule := rule9
		if p.loose {
			rule = rule3
		}
		dst, message = p.commit(dst, rule, none)
	}
	p.state = expectStart
	if !message {
		if !last {
			dst = p.w.salvage(dst, rule1)
			return p.w.skip(dst, Hidden)
		}
		return p.endTurn(dst, Content)
	}
	part := p.w.part
	switch {
	case part == Calling && id != p.h.call:
		dst = p.w.salvage(dst, rule14)
	case id == p.h.call && (part.Visible() || part == Reasoning):
		dst = p.w.salvage(dst, rule15)
	}
	dst = p.w.end(dst, false, false)
	if last || part == Calling || part == Content {
		return p.endTurn(dst, part)
	}
	return dst
}

func (p *harmonyParser) endTurn(dst []Event, part Part) []Event {
	p.over = true
	return p.w.emit(dst, Event{Kind: TurnEnd, Part: part})
}

// afterwards takes what follows the end of the turn: more text of the answer (S17).
func (p *harmonyParser) afterwards(dst []Event, id int32, control bool) []Event {
	if control {
		return dst
	}
	if !p.w.open {
		dst = p.w.salvage(dst, rule17)
		dst = p.w.start(dst, Content, "")
	}
	return p.w.text(dst, p.w.tok.Text(id))
}

// Close implements Parser.
func (p *harmonyParser) Close(dst []Event) []Event {
	if p.state == inHeader && !p.over && (len(p.head) > 0 || p.begun) {
		dst = p.closeHeader(dst)
	}
	dst = p.w.end(dst, false, !p.over)
	return p.w.skip(dst, Hidden)
}

// closeHeader takes the end of the output inside a header. Half a header is dropped
// (S16), text that a model wrote instead of one is its answer (S7a).
func (p *harmonyParser) closeHeader(dst []Event) []Event {
	d := p.header(true)
	var rest strings.Builder
	for _, piece := range d.rest {
		rest.WriteString(piece.raw)
	}
	text := rest.String()
	half := strings.HasPrefix("to=", text) || (d.channels > 0 && !strings.ContainsAny(text, " \n"))
	if !half || (p.loose && text != "") {
		dst, _ = p.commit(dst, rule9, final)
		return dst
	}
	return p.w.salvage(dst, rule16)
}
