package chat

import (
	"slices"
	"strings"

	"ossian/internal/chat/event"
	"ossian/internal/chat/mend"
	"ossian/internal/token"
)

// tags are the ids between which families derived from ChatML put reasoning and
// calls; -1 where the vocabulary has none. They are part of the visible text to the
// tokenizer, so only a parser that knows them hides them.
type tags struct {
	open, close         int32 // <think>, </think>
	callOpen, callClose int32 // <tool_call>, </tool_call>
}

// noTags are those of a vocabulary that has none.
var noTags = tags{-1, -1, -1, -1}

func findTags(tok *token.BPE) tags {
	find := func(name string) int32 {
		if id, ok := tok.ID(name); ok {
			return id
		}
		return -1
	}
	found := tags{find("<think>"), find("</think>"), find("<tool_call>"), find("</tool_call>")}
	if found.open < 0 || found.close < 0 {
		found.open, found.close = -1, -1
	}
	if found.callOpen < 0 || found.callClose < 0 {
		found.callOpen, found.callClose = -1, -1
	}
	return found
}

// splitThinking separates the reasoning that some clients leave in the content from
// the text, as the template of Qwen3 does (models.md 2.5).
func splitThinking(content string) (reasoning, text string) {
	before, _, found := strings.Cut(content, "</think>")
	if !found {
		return "", content
	}
	before = strings.TrimRight(before, "\n")
	before = before[strings.LastIndex(before, "<think>")+1:]
	reasoning = strings.TrimLeft(strings.TrimPrefix(before, "think>"), "\n")
	return reasoning, strings.TrimLeft(content[strings.LastIndex(content, "</think>")+len("</think>"):], "\n")
}

// A thinking says where a prompt leaves the model.
type thinkPlace uint8

const (
	beforeThinking thinkPlace = iota // the answer may begin with <think>
	insideThinking                   // inside the reasoning
	behindThinking                   // behind it: think tags are text from here on
)

// A tagParser reads answers with reasoning between think tags and calls, one JSON
// object each, between call tags, or without any (bareReader). Line breaks beside a tag belong to it and not to the
// text. Tags that mean nothing where they stand are text, or dropped by a Rule.
type tagParser struct {
	tags
	out    event.Writer
	stops  []int32
	tools  map[string]bool // nil = none offered: call tags are text
	state  thinkPlace
	inCall bool
	call   callReader
	bare   bool // calls have no tags
	reader bareReader
	forced bool // the answer has to be a call
	ended  bool // a stop id was pushed
}

// newTagParser begins where the prompt of conv ends, in state. bare says that calls have
// no tags.
func newTagParser(tok *token.BPE, known tags, bare bool, stops []int32, conv *Conversation, state thinkPlace) *tagParser {
	parser := &tagParser{tags: known, out: event.New(tok), stops: stops, state: state, bare: bare, forced: conv.MustCall}
	if conv.continuesText() { // no call begins there
		parser.reader.state = bareOff
	}
	if offered := conv.offered(); len(offered) > 0 && (bare || known.callOpen >= 0) {
		parser.tools = map[string]bool{}
		for _, tool := range offered {
			parser.tools[tool.Name] = true
		}
	}
	if state == insideThinking {
		parser.out.Later(Reasoning, true, true)
	}
	return parser
}

// Push implements Parser.
func (p *tagParser) Push(dst []Event, id int32) []Event {
	p.out.Next()
	think := p.state != behindThinking && !p.inCall && p.open >= 0
	switch {
	case think && id == p.open:
		return p.openThinking(dst)
	case think && id == p.close:
		return p.closeThinking(dst)
	case p.tools != nil && !p.bare && p.state != insideThinking && id == p.callOpen:
		dst = p.endCall(dst, false)
		dst = p.out.End(dst, true, false)
		p.inCall = true
		return dst
	case p.inCall && id == p.callClose:
		return p.endCall(dst, false)
	case slices.Contains(p.stops, id):
		return p.end(dst)
	case p.out.Tok.IsControl(id):
		return dst // counts with the next event
	}
	raw := p.out.Tok.Text(id)
	switch {
	case p.inCall:
		return p.callText(dst, raw)
	case p.mayCall():
		return p.bareText(dst, raw)
	case !p.out.Open:
		p.out.Later(Content, p.state == behindThinking || p.out.Calls > 0, p.tools != nil && !p.bare)
	}
	return p.out.Text(dst, raw)
}

// openThinking takes <think>; a second one is dropped.
func (p *tagParser) openThinking(dst []Event) []Event {
	if p.state == insideThinking {
		return p.out.Salvage(dst, mend.StrayThinkTag)
	}
	dst = p.endBare(dst, false)
	p.state = insideThinking
	dst = p.out.End(dst, false, false)
	p.out.Later(Reasoning, true, true)
	return dst
}

// closeThinking ends the reasoning. Without a <think> there was none.
func (p *tagParser) closeThinking(dst []Event) []Event {
	begun := p.state == insideThinking
	p.state = behindThinking
	if !begun {
		return p.out.Salvage(dst, mend.StrayThinkTag)
	}
	dst = p.out.End(dst, true, false)
	return p.out.Skip(dst, Reasoning)
}

// end takes a stop id. What follows one, with ignore_eos, is more content.
func (p *tagParser) end(dst []Event) []Event {
	dst = p.endCall(dst, false)
	dst = p.endBare(dst, false)
	dst = p.out.End(dst, false, false)
	if p.ended {
		return dst
	}
	p.ended, p.state, p.reader.state = true, behindThinking, bareOff
	return p.out.Emit(dst, Event{Kind: TurnEnd, Part: Content})
}

// Close implements Parser.
func (p *tagParser) Close(dst []Event) []Event {
	dst = p.endCall(dst, true)
	dst = p.endBare(dst, true)
	dst = p.out.End(dst, false, true)
	return p.out.Skip(dst, Content)
}
