package wire

import "strconv"

// ChatStream encodes the chunks of one streamed chat reply as SSE events. What
// they have in common is encoded once.
type ChatStream struct {
	head    []byte // data: {"id":…,"choices":[
	options StreamOptions
	field   ReasoningField
}

// NewChatStream returns the encoder of a reply; o may be nil.
func NewChatStream(h Head, o *StreamOptions, f ReasoningField) *ChatStream {
	s := &ChatStream{head: append(h.append([]byte("data: "), "chat.completion.chunk"), `,"choices":[`...), field: f}
	if o != nil {
		s.options = *o
	}
	return s
}

// Delta is what a chunk adds to one choice. At most one of Role, Reasoning,
// Content and Call is set; all may be missing, in the chunk that only finishes.
type Delta struct {
	Index     int
	Role      bool // the first of a choice: "role":"assistant","content":""
	Reasoning string
	Content   string
	Call      *CallDelta
	Logprobs  []TokenLogprob // nil = null
	Finish    string         // "" = null
	Stop      StopReason
	Empty     string  // with Finish, as in ChatChoice
	TokenIDs  []int32 // nil = not asked for
	PromptIDs []int32 // nil = not asked for or sent before
}

// CallDelta is a piece of a tool call. The first piece has the id and the name;
// clients join repeated strings, so they come only there.
type CallDelta struct {
	Index     int
	ID, Name  string // the first piece
	Arguments string // the later ones
	Custom    bool   // as in ToolCall; all of them
}

// Append appends one chunk. usage is written if the request asked for running
// usage; it may be nil if not.
func (s *ChatStream) Append(dst []byte, d *Delta, usage *Usage) []byte {
	dst = append(dst, s.head...)
	dst = append(dst, `{"index":`...)
	dst = strconv.AppendInt(dst, int64(d.Index), 10)
	dst = append(dst, `,"delta":{`...)
	switch {
	case d.Role:
		dst = append(dst, `"role":"assistant","content":""`...)
	case d.Reasoning != "":
		dst = s.field.append(dst, d.Reasoning)
	case d.Content != "":
		dst = append(dst, `"content":`...)
		dst = AppendString(dst, d.Content)
	case d.Call != nil:
		dst = appendCallDelta(dst, d.Call)
	}
	dst = append(dst, `},"logprobs":`...)
	dst = appendChatLogprobs(dst, d.Logprobs)
	dst = appendFinish(dst, d.Finish, d.Stop)
	dst = appendEmpty(dst, d.Empty)
	dst = appendIDs(dst, `,"token_ids":`, d.TokenIDs)
	dst = appendIDs(append(dst, "}]"...), `,"prompt_token_ids":`, d.PromptIDs)
	return s.options.close(dst, usage)
}

// AppendUsage appends the chunk without choices that ends a stream with
// include_usage; nothing if the request did not ask for it.
func (s *ChatStream) AppendUsage(dst []byte, usage *Usage) []byte {
	return s.options.appendUsage(dst, s.head, usage)
}

func appendCallDelta(dst []byte, c *CallDelta) []byte {
	dst = append(dst, `"tool_calls":[{"index":`...)
	dst = strconv.AppendInt(dst, int64(c.Index), 10)
	kind, text := "function", "arguments"
	if c.Custom {
		kind, text = "custom", "input"
	}
	if c.Name != "" {
		dst = AppendString(append(dst, `,"id":`...), c.ID)
		dst = append(append(append(dst, `,"type":"`...), kind...), '"')
	}
	dst = append(append(append(dst, `,"`...), kind...), `":{`...)
	if c.Name != "" {
		dst = append(AppendString(append(dst, `"name":`...), c.Name), ',')
	}
	dst = AppendString(append(append(append(dst, '"'), text...), `":`...), c.Arguments)
	return append(dst, "}}]"...)
}

func appendFinish(dst []byte, finish string, stop StopReason) []byte {
	dst = append(dst, `,"finish_reason":`...)
	dst = appendText(dst, Text(finish))
	if finish != "" {
		dst = append(dst, `,"stop_reason":`...)
		dst = appendStopReason(dst, stop)
	}
	return dst
}

// appendIDs writes a member, none for nil.
func appendIDs(dst []byte, member string, ids []int32) []byte {
	if ids == nil {
		return dst
	}
	return appendInts(append(dst, member...), ids)
}

// close ends a chunk: with include_usage every one has usage, null except for the
// last; continuous usage puts it on all.
func (o *StreamOptions) close(dst []byte, usage *Usage) []byte {
	switch {
	case o.ContinuousUsage && usage != nil:
		dst = append(dst, `,"usage":`...)
		dst = appendUsage(dst, usage)
	case o.IncludeUsage:
		dst = append(dst, `,"usage":null`...)
	}
	return append(dst, "}\n\n"...)
}

func (o *StreamOptions) appendUsage(dst, head []byte, usage *Usage) []byte {
	if !o.IncludeUsage {
		return dst
	}
	dst = append(dst, head...)
	dst = append(dst, `],"usage":`...)
	dst = appendUsage(dst, usage)
	return append(dst, "}\n\n"...)
}

// CompletionStream encodes the chunks of one streamed completion as SSE events.
type CompletionStream struct {
	head    []byte
	options StreamOptions
}

// NewCompletionStream returns the encoder of a reply; o may be nil.
func NewCompletionStream(h Head, o *StreamOptions) *CompletionStream {
	s := &CompletionStream{head: append(h.append([]byte("data: "), "text_completion"), `,"choices":[`...)}
	if o != nil {
		s.options = *o
	}
	return s
}

// Append appends one chunk: the choice's text is what is new, and its finish
// reason is empty before the last. usage is as for ChatStream.
func (s *CompletionStream) Append(dst []byte, index int, c *CompletionChoice, usage *Usage) []byte {
	dst = append(dst, s.head...)
	dst = appendCompletion(dst, index, c)
	return s.options.close(append(dst, ']'), usage)
}

// AppendUsage appends the chunk without choices that ends a stream with
// include_usage; nothing if the request did not ask for it.
func (s *CompletionStream) AppendUsage(dst []byte, usage *Usage) []byte {
	return s.options.appendUsage(dst, s.head, usage)
}

// What streams consist of besides chunks.
const (
	Ping = ": ping\n\n"       // after a time of silence
	Done = "data: [DONE]\n\n" // the end of chat and completion streams
)

// AppendErrorEvent appends an error inside a stream; Done follows it.
func AppendErrorEvent(dst []byte, e *Error) []byte {
	dst = append(dst, "data: "...)
	dst = AppendError(dst, e)
	return append(dst, "\n\n"...)
}
