package trace

import (
	"encoding/hex"
	"strings"
)

// TraceID and SpanID are the identifiers of W3C Trace Context; zeros = none.
type (
	TraceID [16]byte
	SpanID  [8]byte
)

// A Context is by what a span is known to others.
type Context struct {
	Trace   TraceID
	Span    SpanID
	Sampled bool
	State   string // of other vendors, handed on; at most mostState bytes
}

// mostState bounds a tracestate: what others have to hand on, at least.
const mostState = 512

// ParseContext reads the headers traceparent and tracestate of a request, which may each be there
// several times. Anything malformed is the zero Context: the trace begins here.
func ParseContext(traceparent, tracestate []string) Context {
	if len(traceparent) != 1 {
		return Context{}
	}
	text := traceparent[0]
	// version "-" trace "-" parent "-" flags; later versions may have more behind.
	if len(text) < 55 || text[2] != '-' || text[35] != '-' || text[52] != '-' {
		return Context{}
	}
	version, ok := lowerHex(text[:2])
	if !ok || version[0] == 0xff || (len(text) > 55 && (version[0] == 0 || text[55] != '-')) {
		return Context{}
	}
	trace, okTrace := lowerHex(text[3:35])
	span, okSpan := lowerHex(text[36:52])
	flags, okFlags := lowerHex(text[53:55])
	if !okTrace || !okSpan || !okFlags {
		return Context{}
	}
	found := Context{Trace: TraceID(trace), Span: SpanID(span), Sampled: flags[0]&1 != 0, State: cutState(strings.Join(tracestate, ","))}
	if found.Trace == (TraceID{}) || found.Span == (SpanID{}) {
		return Context{}
	}
	return found
}

// lowerHex decodes what must not have capitals.
func lowerHex(text string) ([]byte, bool) {
	raw, err := hex.DecodeString(text)
	return raw, err == nil && text == strings.ToLower(text)
}

// cutState leaves out the last members of a tracestate until it is short enough, and all of one
// that has characters no header should have.
func cutState(text string) string {
	for len(text) > mostState {
		text = text[:max(strings.LastIndexByte(text, ','), 0)]
	}
	if strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' }) {
		return ""
	}
	return strings.Trim(text, " ,")
}
