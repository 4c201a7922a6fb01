package chat

import (
	"encoding/json"
	"strings"

	"ossian/internal/chat/calljson"
	"ossian/internal/chat/event"
	"ossian/internal/chat/mend"
)

// A callReader finds the parts of a call in the text between call tags:
//
//	{"name": "N", "arguments": {…}}
//
// As long as the text begins like that, arguments are given on as they come, byte for
// byte: callHead → callArgs → callTail. Otherwise the whole text waits for its end:
// callHead → callWhole.
type callReader struct {
	pieces []event.Piece // until the call is known
	text   []byte        // of pieces
	state  callState
	value  calljson.Value // the arguments
	junk   bool           // something other than the closing brace follows the arguments
}

// A callState is where in the text of a call a callReader is.
type callState uint8

const (
	callHead  callState = iota // name and arguments have not begun
	callArgs                   // inside the arguments
	callTail                   // behind them
	callWhole                  // not of the usual form: wait for the end
)

// callText reads text between call tags.
func (p *tagParser) callText(dst []Event, raw string) []Event {
	reader := &p.call
	if reader.state == callArgs || reader.state == callTail {
		return p.arguments(dst, raw)
	}
	if raw == "" {
		return dst
	}
	// Neither name nor form is certain yet. The ids are accounted for with what the text
	// turns out to be: a call, or content.
	reader.pieces = append(reader.pieces, event.Piece{Token: p.out.Token, Raw: raw, Count: p.out.Owed})
	p.out.Owed = 0
	reader.text = append(reader.text, raw...)
	if reader.state == callWhole {
		return dst
	}
	name, at, verdict := calljson.Tagged(reader.text)
	switch {
	case verdict == calljson.Begun:
		dst = p.startCall(dst, name, reader.pieces)
		reader.state = callArgs
		return p.arguments(dst, string(reader.text[at:]))
	case verdict == calljson.Never || len(reader.text) > calljson.MaxHead:
		reader.state = callWhole
	}
	return dst
}

// startCall begins a call; the ids of what was read so far count as part of it.
func (p *tagParser) startCall(dst []Event, name string, read []event.Piece) []Event {
	for _, piece := range read {
		p.out.Owed += piece.Count
	}
	part := Calling
	if !p.tools[name] {
		part = Hidden
	}
	return p.out.Start(dst, part, name)
}

// arguments gives on what of raw belongs to the arguments, and looks at what follows them.
func (p *tagParser) arguments(dst []Event, raw string) []Event {
	reader := &p.call
	size := reader.value.Read(raw)
	if reader.value.Ended {
		reader.state = callTail
		reader.junk = reader.junk || strings.Trim(raw[size:], "} \t\r\n") != ""
	}
	if size > 0 {
		return p.out.Text(dst, raw[:size])
	}
	return dst
}

// endCall ends the call that is being read, if one is: at its closing tag, at the
// end of the answer, or where the output was cut.
func (p *tagParser) endCall(dst []Event, cut bool) []Event {
	if !p.inCall {
		return dst
	}
	reader := &p.call
	p.inCall = false
	switch reader.state {
	case callArgs:
		dst = p.out.End(dst, false, cut || !reader.value.Scalar)
	case callTail:
		if reader.junk {
			dst = p.out.Salvage(dst, mend.BrokenCall)
		}
		dst = p.out.End(dst, false, false)
	default:
		dst = p.wholeCall(dst, cut)
	}
	*reader = callReader{pieces: reader.pieces[:0], text: reader.text[:0]}
	return dst
}

// wholeCall reads a call of another form than usual. Text that is no call stays
// content (api.md 2.5), unless the output was cut inside: then it is unfinished.
func (p *tagParser) wholeCall(dst []Event, cut bool) []Event {
	reader := &p.call
	// Members in another order, or others besides: it is a call if it has a name.
	var call struct{ Name, Arguments json.RawMessage }
	var name string
	known := json.Unmarshal(reader.text, &call) == nil && json.Unmarshal(call.Name, &name) == nil
	if cut && !known {
		name, _, _ = calljson.Tagged(reader.text)
	}
	if known || name != "" {
		dst = p.startCall(dst, name, reader.pieces)
		if known && call.Arguments == nil {
			call.Arguments = json.RawMessage("{}")
		}
		dst = p.out.Text(dst, string(call.Arguments))
		return p.out.End(dst, false, !known)
	}
	// No call: the pieces become text as if there had been no tags.
	dst = p.out.Salvage(dst, mend.BrokenCall)
	part := Content
	if cut {
		part = Hidden
	}
	p.out.Later(part, true, true)
	for _, piece := range reader.pieces {
		dst = p.out.Add(dst, piece)
	}
	return p.out.End(dst, true, cut)
}
