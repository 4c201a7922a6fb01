package chat

import "encoding/json"

// A callReader finds the parts of a call in the text between call tags:
//
//	{"name": "N", "arguments": {…}}
//
// As long as the text begins like that, arguments are given on as they come, byte for
// byte: callHead → callArgs → callTail. Otherwise the whole text waits for its end:
// callHead → callWhole.
type callReader struct {
	pieces []piece // until the call is known
	text   []byte  // of pieces
	state  callState
	depth  int  // open brackets in the arguments
	quoted bool // inside a string of theirs
	escape bool // behind a backslash in it
	scalar bool // the arguments are neither object nor array nor string
	junk   bool // something other than the closing brace follows the arguments
}

// A callState is where in the text of a call a callReader is.
type callState uint8

const (
	callHead  callState = iota // name and arguments have not begun
	callArgs                   // inside the arguments
	callTail                   // behind them
	callWhole                  // not of the usual form: wait for the end
)

// maxCallHead is how many bytes a name may take before its call is read as a whole.
const maxCallHead = 4096

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
	reader.pieces = append(reader.pieces, piece{p.out.token, raw, p.out.owed})
	p.out.owed = 0
	reader.text = append(reader.text, raw...)
	if reader.state == callWhole {
		return dst
	}
	name, at, whole := readCallHead(reader.text)
	switch {
	case whole:
		dst = p.startCall(dst, name)
		reader.state = callArgs
		return p.arguments(dst, string(reader.text[at:]))
	case at < 0 || len(reader.text) > maxCallHead:
		reader.state = callWhole
	}
	return dst
}

// startCall begins a call; the ids read so far count as part of it.
func (p *tagParser) startCall(dst []Event, name string) []Event {
	for _, piece := range p.call.pieces {
		p.out.owed += piece.count
	}
	part := Calling
	if !p.tools[name] {
		part = Hidden
	}
	return p.out.start(dst, part, name)
}

// arguments gives on what of raw belongs to the arguments.
func (p *tagParser) arguments(dst []Event, raw string) []Event {
	n := p.call.scan(raw)
	if n > 0 {
		return p.out.text(dst, raw[:n])
	}
	return dst
}

// scan returns how many bytes of text belong to the arguments.
func (r *callReader) scan(text string) (size int) {
	for at := range len(text) {
		if r.state == callTail {
			r.junk = r.junk || (text[at] != '}' && !isSpace(text[at]))
			continue
		}
		if r.scalar && (text[at] == '}' || text[at] == ',' || isSpace(text[at])) {
			r.state = callTail
			continue
		}
		// Brackets count outside of strings alone.
		size = at + 1
		switch char := text[at]; {
		case r.escape:
			r.escape = false
		case r.quoted && char == '\\':
			r.escape = true
		case char == '"':
			r.quoted = !r.quoted
		case r.quoted:
		case char == '{' || char == '[':
			r.depth++
		case char == '}' || char == ']':
			r.depth--
		case r.depth == 0:
			r.scalar = true
		}
		if r.depth <= 0 && !r.quoted && !r.scalar {
			r.state = callTail
		}
	}
	return size
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
		dst = p.out.end(dst, false, cut || !reader.scalar)
	case callTail:
		if reader.junk {
			dst = p.out.salvage(dst, ruleBrokenCall)
		}
		dst = p.out.end(dst, false, false)
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
		name, _, _ = readCallHead(reader.text)
	}
	if known || name != "" {
		dst = p.startCall(dst, name)
		if known && call.Arguments == nil {
			call.Arguments = json.RawMessage("{}")
		}
		dst = p.out.text(dst, string(call.Arguments))
		return p.out.end(dst, false, !known)
	}
	// No call: the pieces become text as if there had been no tags.
	dst = p.out.salvage(dst, ruleBrokenCall)
	part := Content
	if cut {
		part = Hidden
	}
	p.out.later(part, true, true)
	for _, piece := range reader.pieces {
		dst = p.out.piece(dst, piece)
	}
	return p.out.end(dst, true, cut)
}

// readCallHead reads {"name": "N", "arguments": up to the first byte of the
// arguments. whole says that it is all there, at where they begin; otherwise at is
// negative if text cannot become one. The name is "" until it is complete.
func readCallHead(text []byte) (name string, at int, whole bool) {
	scan := headScanner{text: text}
	scan.literal("{")
	scan.literal(`"name"`)
	scan.literal(":")
	name = scan.str()
	scan.literal(",")
	scan.literal(`"arguments"`)
	scan.literal(":")
	scan.space()
	switch {
	case scan.bad:
		return name, -1, false
	case scan.at >= len(text):
		return name, 0, false
	}
	return name, scan.at, true
}

// A headScanner goes through text and stays where it does not fit or ends.
type headScanner struct {
	text []byte
	at   int
	bad  bool // text does not fit
}

// space passes over white space.
func (s *headScanner) space() {
	for s.at < len(s.text) && isSpace(s.text[s.at]) {
		s.at++
	}
}

// literal passes over want, or the beginning of it that ends the text.
func (s *headScanner) literal(want string) {
	if s.space(); s.bad {
		return
	}
	size := min(len(want), len(s.text)-s.at)
	if s.bad = string(s.text[s.at:s.at+size]) != want[:size]; !s.bad {
		s.at += size
		if size < len(want) {
			s.at = len(s.text)
		}
	}
}

// str reads a JSON string, "" if it is not complete.
func (s *headScanner) str() (text string) {
	if s.space(); s.bad || s.at == len(s.text) {
		return ""
	}
	if s.text[s.at] != '"' {
		s.bad = true
		return ""
	}
	end := s.at + 1 // of the string: a quote without a backslash before it
	for end < len(s.text) && s.text[end] != '"' {
		if s.text[end] == '\\' {
			end++
		}
		end++
	}
	if end >= len(s.text) {
		s.at = len(s.text)
		return ""
	}
	s.bad = json.Unmarshal(s.text[s.at:end+1], &text) != nil || text == ""
	s.at = end + 1
	return text
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\r' || c == '\n' }
