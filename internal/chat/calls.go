package chat

import "encoding/json"

// A callReader finds the parts of a call in the text between call tags:
//
//	{"name": "N", "arguments": {…}}
//
// As long as the text begins like that, arguments are given on as they come;
// otherwise the whole text waits for its end.
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
	r := &p.call
	if r.state == callArgs || r.state == callTail {
		return p.arguments(dst, raw)
	}
	if raw == "" {
		return dst
	}
	r.pieces = append(r.pieces, piece{p.w.token, raw, p.w.owed})
	p.w.owed = 0
	r.text = append(r.text, raw...)
	if r.state == callWhole {
		return dst
	}
	name, at, whole := readCallHead(r.text)
	switch {
	case whole:
		dst = p.startCall(dst, name)
		r.state = callArgs
		return p.arguments(dst, string(r.text[at:]))
	case at < 0 || len(r.text) > maxCallHead:
		r.state = callWhole
	}
	return dst
}

// startCall begins a call; the ids read so far count as part of it.
func (p *tagParser) startCall(dst []Event, name string) []Event {
	for _, piece := range p.call.pieces {
		p.w.owed += piece.count
	}
	part := Calling
	if !p.tools[name] {
		part = Hidden
	}
	return p.w.start(dst, part, name)
}

// arguments gives on what of raw belongs to the arguments.
func (p *tagParser) arguments(dst []Event, raw string) []Event {
	n := p.call.scan(raw)
	if n > 0 {
		return p.w.text(dst, raw[:n])
	}
	return dst
}

// scan returns how many bytes of s belong to the arguments.
func (r *callReader) scan(s string) (n int) {
	for i := range len(s) {
		if r.state == callTail {
			r.junk = r.junk || (s[i] != '}' && !isSpace(s[i]))
			continue
		}
		if r.scalar && (s[i] == '}' || s[i] == ',' || isSpace(s[i])) {
			r.state = callTail
			continue
		}
		n = i + 1
		switch c := s[i]; {
		case r.escape:
			r.escape = false
		case r.quoted && c == '\\':
			r.escape = true
		case c == '"':
			r.quoted = !r.quoted
		case r.quoted:
		case c == '{' || c == '[':
			r.depth++
		case c == '}' || c == ']':
			r.depth--
		case r.depth == 0:
			r.scalar = true
		}
		if r.depth <= 0 && !r.quoted && !r.scalar {
			r.state = callTail
		}
	}
	return n
}

// endCall ends the call that is being read, if one is: at its closing tag, at the
// end of the answer, or where the output was cut.
func (p *tagParser) endCall(dst []Event, cut bool) []Event {
	if !p.inCall {
		return dst
	}
	r := &p.call
	p.inCall = false
	switch r.state {
	case callArgs:
		dst = p.w.end(dst, false, cut || !r.scalar)
	case callTail:
		if r.junk {
			dst = p.w.salvage(dst, ruleCall)
		}
		dst = p.w.end(dst, false, false)
	default:
		dst = p.wholeCall(dst, cut)
	}
	*r = callReader{pieces: r.pieces[:0], text: r.text[:0]}
	return dst
}

// wholeCall reads a call of another form than usual. Text that is no call stays
// content (api.md 2.5), unless the output was cut inside: then it is unfinished.
func (p *tagParser) wholeCall(dst []Event, cut bool) []Event {
	r := &p.call
	var call struct{ Name, Arguments json.RawMessage }
	var name string
	known := json.Unmarshal(r.text, &call) == nil && json.Unmarshal(call.Name, &name) == nil
	if cut && !known {
		name, _, _ = readCallHead(r.text)
	}
	if known || name != "" {
		dst = p.startCall(dst, name)
		if known && call.Arguments == nil {
			call.Arguments = json.RawMessage("{}")
		}
		dst = p.w.text(dst, string(call.Arguments))
		return p.w.end(dst, false, !known)
	}
	dst = p.w.salvage(dst, ruleCall)
	part := Content
	if cut {
		part = Hidden
	}
	p.w.later(part, true, true)
	for _, piece := range r.pieces {
		dst = p.w.piece(dst, piece)
	}
	return p.w.end(dst, true, cut)
}

// readCallHead reads {"name": "N", "arguments": up to the first byte of the
// arguments. whole says that it is all there, at where they begin; otherwise at is
// negative if b cannot become one. The name is "" until it is complete.
func readCallHead(b []byte) (name string, at int, whole bool) {
	s := headScanner{b: b}
	s.literal("{")
	s.literal(`"name"`)
	s.literal(":")
	name = s.str()
	s.literal(",")
	s.literal(`"arguments"`)
	s.literal(":")
	s.space()
	switch {
	case s.bad:
		return name, -1, false
	case s.at >= len(b):
		return name, 0, false
	}
	return name, s.at, true
}

// A headScanner goes through b and stays where b does not fit or ends.
type headScanner struct {
	b   []byte
	at  int
	bad bool // b does not fit
}

func (s *headScanner) space() {
	for s.at < len(s.b) && isSpace(s.b[s.at]) {
		s.at++
	}
}

func (s *headScanner) literal(want string) {
	if s.space(); s.bad {
		return
	}
	n := min(len(want), len(s.b)-s.at)
	if s.bad = string(s.b[s.at:s.at+n]) != want[:n]; !s.bad {
		s.at += n
		if n < len(want) {
			s.at = len(s.b)
		}
	}
}

// str reads a JSON string, "" if it is not complete.
func (s *headScanner) str() (text string) {
	if s.space(); s.bad || s.at == len(s.b) {
		return ""
	}
	if s.b[s.at] != '"' {
		s.bad = true
		return ""
	}
	end := s.at + 1
	for end < len(s.b) && s.b[end] != '"' {
		if s.b[end] == '\\' {
			end++
		}
		end++
	}
	if end >= len(s.b) {
		s.at = len(s.b)
		return ""
	}
	s.bad = json.Unmarshal(s.b[s.at:end+1], &text) != nil || text == ""
	s.at = end + 1
	return text
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\r' || c == '\n' }
