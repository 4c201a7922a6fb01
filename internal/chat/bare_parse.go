package chat

import (
	"strings"

	"ossian/internal/chat/calljson"
	"ossian/internal/chat/event"
	"ossian/internal/chat/mend"
)

// A bareReader finds calls that are written without tags, as the Llama family does, and as
// models are made to whose own way nobody knows: an answer that begins with
//
//	{"name": "N", "parameters": {…}}
//
// calls N if that is a tool, and several follow one another, with a semicolon or a comma
// between them or without, or are in a list. All other text is content, also where it looks like that behind words.
//
// Text is held back as long as it may become a call: bareHead → bareArgs → bareTail →
// bareHead …; bareHead → bareWhole → bareHead where the name comes behind the arguments.
// What is no call goes on as content, and so does all that follows: bareHead → bareOff.
type bareReader struct {
	pieces []event.Piece // of text
	text   []byte        // held back
	state  bareState
	value  calljson.Value // the arguments, what is behind them, or the object
	start  int            // where in text the object begins
	read   int            // how much of text value has read
	again  bool           // a call has ended
	listed bool           // in a list, whose end is no text
	junk   bool           // members follow the arguments
}

// A bareState is where in a call a bareReader is.
type bareState uint8

const (
	bareHead  bareState = iota // name and arguments have not begun
	bareWhole                  // in an object that tells at its end what it is
	bareArgs                   // in the arguments
	bareTail                   // behind them, in the object
	bareOff                    // the rest is content
)

// between returns how much of the text stands between calls.
func (r *bareReader) between() int {
	if !r.again {
		return 0
	}
	separators := ";, \t\r\n"
	if r.listed {
		separators += "]"
	}
	return len(r.text) - len(strings.TrimLeft(string(r.text), separators))
}

// isTool reports whether a tool of that name was offered.
func (p *tagParser) isTool(name string) bool { return p.tools[name] }

// mayCall reports whether the text that comes may be a call without tags.
func (p *tagParser) mayCall() bool {
	return p.bare && p.tools != nil && p.reader.state != bareOff && p.state != insideThinking
}

// bareText reads text that may be a call. One token may end a call and begin another.
func (p *tagParser) bareText(dst []Event, raw string) []Event {
	reader := &p.reader
	for raw != "" {
		switch reader.state {
		case bareHead, bareWhole:
			// Whether this begins a call shows later: tokens are kept whole until then.
			reader.pieces = append(reader.pieces, event.Piece{Token: p.out.Token, Raw: raw, Count: p.out.Owed})
			p.out.Owed = 0
			reader.text = append(reader.text, raw...)
			if reader.state == bareHead {
				dst, raw = p.bareBegin(dst)
			} else {
				dst, raw = p.bareObject(dst)
			}
		case bareArgs:
			size := reader.value.Read(raw)
			if size > 0 {
				dst = p.out.Text(dst, raw[:size])
			}
			raw = raw[size:]
			if reader.value.Ended {
				reader.state, reader.value = bareTail, calljson.Inside()
			}
		case bareTail:
			size := reader.value.Read(raw)
			reader.junk = reader.junk || strings.Trim(raw[:size], "} \t\r\n") != ""
			raw = raw[size:]
			if reader.value.Ended {
				dst = p.bareEnd(dst, false)
			}
		default:
			return p.out.Text(dst, raw)
		}
	}
	return dst
}

// bareBegin looks at what is held back, and returns what of its end is to be read on.
func (p *tagParser) bareBegin(dst []Event) (_ []Event, rest string) {
	reader := &p.reader
	from := reader.between()
	name, at, verdict := calljson.Bare(reader.text[from:], p.isTool)
	reader.listed = reader.listed || calljson.Listed(reader.text[from:])
	switch {
	case verdict == calljson.Begun:
		rest = string(reader.text[from+at:])
		dst = p.startCall(dst, name, reader.pieces)
		p.reader = bareReader{pieces: reader.pieces[:0], text: reader.text[:0], state: bareArgs, listed: reader.listed}
	case verdict == calljson.Whole:
		reader.state, reader.start, reader.read = bareWhole, from+at, from+at
		return p.bareObject(dst)
	case verdict == calljson.Never || len(reader.text) > calljson.MaxHead:
		dst = p.bareContent(dst, Content)
	}
	return dst, rest
}

// bareObject reads an object up to its end, and returns what is behind it.
func (p *tagParser) bareObject(dst []Event) (_ []Event, rest string) {
	reader := &p.reader
	reader.read += reader.value.Read(string(reader.text[reader.read:]))
	if !reader.value.Ended {
		return dst, ""
	}
	name, arguments, ok := calljson.Object(reader.text[reader.start:reader.read], p.isTool)
	if !ok {
		return p.bareContent(dst, Content), ""
	}
	rest = string(reader.text[reader.read:])
	dst = p.startCall(dst, name, reader.pieces)
	dst = p.out.Text(dst, arguments)
	return p.bareEnd(dst, false), rest
}

// bareEnd ends a call.
func (p *tagParser) bareEnd(dst []Event, cut bool) []Event {
	if p.reader.junk {
		dst = p.out.Salvage(dst, mend.BrokenCall)
	}
	p.reader = bareReader{pieces: p.reader.pieces[:0], text: p.reader.text[:0], again: true, listed: p.reader.listed}
	return p.out.End(dst, false, cut)
}

// bareContent makes what was held back text of a message that goes on, and stops looking
// for calls.
func (p *tagParser) bareContent(dst []Event, part Part) []Event {
	reader := &p.reader
	p.out.Later(part, p.state == behindThinking || p.out.Calls > 0, false)
	for _, piece := range reader.pieces {
		dst = p.out.Add(dst, piece)
	}
	p.reader = bareReader{state: bareOff}
	return dst
}

// endBare ends the call that is being read where a tag or the end of the answer is, or
// where the output was cut.
func (p *tagParser) endBare(dst []Event, cut bool) []Event {
	if !p.mayCall() {
		return dst
	}
	reader := &p.reader
	switch reader.state {
	case bareArgs:
		return p.bareEnd(dst, true)
	case bareTail:
		return p.bareEnd(dst, false)
	}
	if len(reader.pieces) == 0 {
		return dst
	}
	// Between calls nothing is lost; a call that has a name was one; else it is text, of
	// which nobody should see half a call that was asked for.
	from := reader.between()
	name, _, verdict := calljson.Bare(reader.text[from:], p.isTool)
	switch {
	case reader.again && from == len(reader.text):
		for _, piece := range reader.pieces {
			p.out.Owed += piece.Count
		}
		p.reader = bareReader{again: true, listed: reader.listed}
		return dst
	case cut && name != "" && verdict != calljson.Never:
		return p.bareEnd(p.startCall(dst, name, reader.pieces), true)
	case cut && p.forced:
		return p.bareContent(p.out.Salvage(dst, mend.BrokenCall), Hidden)
	}
	return p.bareContent(dst, Content)
}
