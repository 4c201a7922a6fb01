package chat

import (
	"slices"
	"strings"

	"ossian/internal/token"
)

// tags are the ids between which families derived from ChatML put reasoning and
// calls; -1 where the vocabulary has none. They are part of the visible text to the
// tokenizer, so only a parser that knows them hides them.
type tags struct {
	open, close         int32 // <think>, </think>
	callOpen, callClose int32 // <tool_call>, </tool_call>
}

func findTags(tok *token.BPE) tags {
	find := func(name string) int32 {
		if id, ok := tok.ID(name); ok {
			return id
		}
		return -1
	}
	t := tags{find("<think>"), find("</think>"), find("<tool_call>"), find("</tool_call>")}
	if t.open < 0 || t.close < 0 {
		t.open, t.close = -1, -1
	}
	if t.callOpen < 0 || t.callClose < 0 {
		t.callOpen, t.callClose = -1, -1
	}
	return t
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
type thinking uint8

const (
	mayThink thinking = iota // the answer may begin with <think>
	thinks                   // inside the reasoning
	thought                  // behind it: think tags are text from here on
)

// A tagParser reads answers with reasoning between think tags and calls, one JSON
// object each, between call tags.
type tagParser struct {
	tags
	w      writer
	stops  []int32
	tools  map[string]bool // nil = none offered: call tags are text
	state  thinking
	inCall bool
	call   callReader
	ended  bool // a stop id was pushed
}

func newTagParser(tok *token.BPE, t tags, stops []int32, c *Conversation, state thinking) *tagParser {
	p := &tagParser{tags: t, w: newWriter(tok), stops: stops, state: state}
	if offered := c.offered(); len(offered) > 0 && t.callOpen >= 0 {
		p.tools = map[string]bool{}
		for _, tool := range offered {
			p.tools[tool.Name] = true
		}
	}
	if state == thinks {
		p.w.later(Reasoning, true, true)
	}
	return p
}

// Push implements Parser.
func (p *tagParser) Push(dst []Event, id int32) []Event {
	p.w.next()
	think := p.state != thought && !p.inCall && p.open >= 0
	switch {
	case think && id == p.open:
		return p.openThinking(dst)
	case think && id == p.close:
		return p.closeThinking(dst)
	case p.tools != nil && p.state != thinks && id == p.callOpen:
		dst = p.endCall(dst, false)
		dst = p.w.end(dst, true, false)
		p.inCall = true
		return dst
	case p.inCall && id == p.callClose:
		return p.endCall(dst, false)
	case slices.Contains(p.stops, id):
		return p.end(dst)
	case p.w.tok.IsControl(id):
		return dst // counts with the next event
	}
	raw := p.w.tok.Text(id)
	if p.inCall {
		return p.callText(dst, raw)
	}
	if !p.w.open {
		p.w.later(Content, p.state == thought || p.w.calls > 0, p.tools != nil)
	}
	return p.w.text(dst, raw)
}

func (p *tagParser) openThinking(dst []Event) []Event {
	if p.state == thinks {
		return p.w.salvage(dst, ruleTag)
	}
	p.state = thinks
	dst = p.w.end(dst, false, false)
	p.w.later(Reasoning, true, true)
	return dst
}

// closeThinking ends the reasoning. Without a <think> there was none.
func (p *tagParser) closeThinking(dst []Event) []Event {
	begun := p.state == thinks
	p.state = thought
	if !begun {
		return p.w.salvage(dst, ruleTag)
	}
	dst = p.w.end(dst, true, false)
	return p.w.skip(dst, Reasoning)
}

// end takes a stop id. What follows one, with ignore_eos, is more content.
func (p *tagParser) end(dst []Event) []Event {
	dst = p.endCall(dst, false)
	dst = p.w.end(dst, false, false)
	if p.ended {
		return dst
	}
	p.ended, p.state = true, thought
	return p.w.emit(dst, Event{Kind: TurnEnd, Part: Content})
}

// Close implements Parser.
func (p *tagParser) Close(dst []Event) []Event {
	dst = p.endCall(dst, true)
	dst = p.w.end(dst, false, true)
	return p.w.skip(dst, Content)
}
