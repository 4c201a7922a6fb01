package wire

import "strconv"

// ChatStream encodes the chunks of one streamed chat reply as SSE events. What
// they have in common is encoded once.
type ChatStream struct {
	head    []byte // data: {"id":…,"choices":[
	options StreamOptions
	field   ReasoningField
}

// NewChatStream returns the encoder of a reply; options may be nil.
func NewChatStream(head Head, options *StreamOptions, field ReasoningField) *ChatStream {
	stream := &ChatStream{head: append(head.append([]byte("data: "), "chat.completion.chunk"), `,"choices":[`...), field: field}
	if options != nil {
		stream.options = *options
	}
	return stream
}

// Delta is what a chunk adds to one choice. At most one of Role, Reasoning,
// Content, Call and ToolEvent is set; all may be missing, in the chunk that only finishes.
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

	Annotations []URLCitation // of the whole message, with Finish
	ToolEvent   *ToolEvent
}

// CallDelta is a piece of a tool call. The first piece has the id and the name;
// clients join repeated strings, so they come only there.
type CallDelta struct {
	Index     int
	ID, Name  string // the first piece
	Arguments string // the later ones
	Custom    bool   // as in ToolCall; all of them
	Legacy    bool   // as in ChatReply; all of them
}

// Append appends one chunk. usage is written if the request asked for running
// usage; it may be nil if not.
func (s *ChatStream) Append(dst []byte, delta *Delta, usage *Usage) []byte {
	dst = append(dst, s.head...)
	dst = append(dst, `{"index":`...)
	dst = strconv.AppendInt(dst, int64(delta.Index), 10)
	dst = append(dst, `,"delta":{`...)
	// A delta adds to one member; which, shows in what is set.
	switch {
	case delta.Role:
		dst = append(dst, `"role":"assistant","content":""`...)
	case delta.Reasoning != "":
		dst = s.field.append(dst, delta.Reasoning)
	case delta.Content != "":
		dst = append(dst, `"content":`...)
		dst = AppendString(dst, delta.Content)
	case delta.Call != nil:
		dst = appendCallDelta(dst, delta.Call)
	case delta.ToolEvent != nil:
		dst = delta.ToolEvent.append(append(dst, `"x_tool_event":`...))
	case len(delta.Annotations) > 0:
		dst = appendCitations(append(dst, `"annotations":`...), delta.Annotations)
	}
	dst = append(dst, `},"logprobs":`...)
	dst = appendChatLogprobs(dst, delta.Logprobs)
	dst = appendFinish(dst, delta.Finish, delta.Stop)
	dst = AppendEmpty(dst, delta.Empty)
	dst = appendIDs(dst, `,"token_ids":`, delta.TokenIDs)
	dst = appendIDs(append(dst, "}]"...), `,"prompt_token_ids":`, delta.PromptIDs)
	return s.options.close(dst, usage)
}

// AppendUsage appends the chunk without choices that ends a stream with
// include_usage; nothing if the request did not ask for it.
func (s *ChatStream) AppendUsage(dst []byte, usage *Usage) []byte {
	return s.options.appendUsage(dst, s.head, usage)
}

func appendCallDelta(dst []byte, call *CallDelta) []byte {
	if call.Legacy {
		dst = append(dst, `"function_call":{`...)
		// Name and id come with the first piece of a call alone, as OpenAI sends them.
		if call.Name != "" {
			dst = append(AppendString(append(dst, `"name":`...), call.Name), ',')
		}
		return append(AppendString(append(dst, `"arguments":`...), call.Arguments), '}')
	}
	dst = append(dst, `"tool_calls":[{"index":`...)
	dst = strconv.AppendInt(dst, int64(call.Index), 10)
	kind, text := "function", "arguments"
	if call.Custom {
		kind, text = "custom", "input"
	}
	if call.Name != "" {
		dst = AppendString(append(dst, `,"id":`...), call.ID)
		dst = append(append(append(dst, `,"type":"`...), kind...), '"')
	}
	dst = append(append(append(dst, `,"`...), kind...), `":{`...)
	if call.Name != "" {
		dst = append(AppendString(append(dst, `"name":`...), call.Name), ',')
	}
	dst = AppendString(append(append(append(dst, '"'), text...), `":`...), call.Arguments)
	return append(dst, "}}]"...)
}

func appendFinish(dst []byte, finish string, stop StopReason) []byte {
	dst = append(dst, `,"finish_reason":`...)
	dst = AppendText(dst, Text(finish))
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
func (options *StreamOptions) close(dst []byte, usage *Usage) []byte {
	switch {
	case options.ContinuousUsage && usage != nil:
		dst = append(dst, `,"usage":`...)
		dst = appendUsage(dst, usage)
	case options.IncludeUsage:
		dst = append(dst, `,"usage":null`...)
	}
	return append(dst, "}\n\n"...)
}

func (options *StreamOptions) appendUsage(dst, head []byte, usage *Usage) []byte {
	if !options.IncludeUsage {
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

// NewCompletionStream returns the encoder of a reply; options may be nil.
func NewCompletionStream(head Head, options *StreamOptions) *CompletionStream {
	stream := &CompletionStream{head: append(head.append([]byte("data: "), "text_completion"), `,"choices":[`...)}
	if options != nil {
		stream.options = *options
	}
	return stream
}

// Append appends one chunk: the choice's text is what is new, and its finish
// reason is empty before the last. usage is as for ChatStream.
func (s *CompletionStream) Append(dst []byte, index int, choice *CompletionChoice, usage *Usage) []byte {
	dst = append(dst, s.head...)
	dst = appendCompletion(dst, index, choice)
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
