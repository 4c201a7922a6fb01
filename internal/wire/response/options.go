package response

// What a stream carries besides the events that every response has, for clients that ask for it:
// usage so far on every delta, and how far the prompt is before the first token.

import (
	"strconv"

	"ossian/internal/wire"
)

// readStreamOptions reads stream_options. Usage at the end has every response, asked for or not.
func (r *Request) readStreamOptions(in *wire.Reader) {
	r.StreamOptions = new(wire.StreamOptions)
	in.Object(func(key string) bool {
		switch key {
		case "continuous_usage_stats":
			r.StreamOptions.ContinuousUsage = in.Boolean()
		case "prompt_progress":
			r.PromptProgress = in.Boolean()
		case "include_usage", "include_tool_events", "include_obfuscation": // of chats, or padding that is not done
			in.Boolean()
		default:
			return false
		}
		return true
	})
}

// RunningUsage reports whether deltas are to have usage so far.
func (r *Request) RunningUsage() bool {
	return r.StreamOptions != nil && r.StreamOptions.ContinuousUsage
}

// counted appends usage so far to a delta, if deltas have it.
func (r *Response) counted(dst []byte) []byte {
	if r.SoFar == nil {
		return dst
	}
	return appendUsageOf(append(dst, `,"usage":`...), r.SoFar)
}

// A Progress is how far a response is before its first token.
type Progress struct {
	Prompt, Cached, Done int // tokens of the prompt: all; found in the prefix cache; computed, those among them
	Before               int // requests that came earlier and wait
}

// Progress appends an event that OpenAI does not have.
func (r *Response) Progress(dst []byte, p Progress) []byte {
	dst = r.event(dst, "ossian.progress")
	dst = strconv.AppendInt(append(dst, `,"prompt_tokens":`...), int64(p.Prompt), 10)
	dst = strconv.AppendInt(append(dst, `,"cached_tokens":`...), int64(p.Cached), 10)
	dst = strconv.AppendInt(append(dst, `,"done_tokens":`...), int64(p.Done), 10)
	dst = strconv.AppendInt(append(dst, `,"queued_before":`...), int64(p.Before), 10)
	return append(dst, "}\n\n"...)
}
