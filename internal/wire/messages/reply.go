package messages

import (
	"encoding/json"
	"strconv"
	"strings"

	"ossian/internal/wire"
)

// A Kind says what a block of a reply is.
type Kind uint8

// The kinds.
const (
	Text Kind = iota
	Thinking
	ToolUse
)

// A Reply is one message while it is made: it writes the events of its stream and, at its end, the
// message as a whole. Both say the same: the events put together are the message.
type Reply struct {
	ID, Model   string
	StopReason  string // end_turn, max_tokens, stop_sequence, tool_use; "" = not yet known
	StopText    string // the stop sequence that was met
	InputTokens int    // of the prompt, for the beginning of the stream

	blocks []replyBlock
	open   bool // the last of blocks goes on
}

// A replyBlock is a block of the content.
type replyBlock struct {
	kind     Kind
	id, name string // of a call
	text     strings.Builder
}

// Begin appends the event that opens the message.
func (r *Reply) Begin(dst []byte) []byte {
	dst = event(dst, "message_start")
	usage := wire.NewUsage(r.InputTokens, 0, 0, 0)
	return append(r.append(append(dst, `,"message":`...), &usage), "}\n\n"...)
}

// Start begins a block; what was open before has ended. A block of text or thinking that gets no
// text is not there: requests may not have such ones.
func (r *Reply) Start(dst []byte, kind Kind, id, name string) []byte {
	dst = r.Stop(dst)
	r.blocks, r.open = append(r.blocks, replyBlock{kind: kind, id: id, name: name}), true
	if kind == ToolUse {
		dst = r.start(dst)
	}
	return dst
}

// start appends the event that opens the latest block.
func (r *Reply) start(dst []byte) []byte {
	opened := &r.blocks[len(r.blocks)-1]
	dst = append(r.indexed(dst, "content_block_start"), `,"content_block":`...)
	switch opened.kind {
	case Text:
		dst = append(dst, `{"type":"text","text":""}`...)
	case Thinking:
		dst = append(dst, `{"type":"thinking","thinking":"","signature":""}`...)
	case ToolUse:
		dst = wire.AppendString(append(dst, `{"type":"tool_use","id":`...), opened.id)
		dst = append(wire.AppendString(append(dst, `,"name":`...), opened.name), `,"input":{}}`...)
	}
	return append(dst, "}\n\n"...)
}

// deltas are the types of deltas, and their member, by the kind of the block.
var deltas = [...][2]string{Text: {"text_delta", "text"}, Thinking: {"thinking_delta", "thinking"}, ToolUse: {"input_json_delta", "partial_json"}}

// Add appends the event of more text in the open block.
func (r *Reply) Add(dst []byte, text string) []byte {
	if !r.open || text == "" {
		return dst
	}
	b := &r.blocks[len(r.blocks)-1]
	if b.text.Len() == 0 && b.kind != ToolUse {
		dst = r.start(dst)
	}
	b.text.WriteString(text)
	return r.delta(dst, deltas[b.kind][0], deltas[b.kind][1], text)
}

func (r *Reply) delta(dst []byte, kind, member, text string) []byte {
	dst = append(r.indexed(dst, "content_block_delta"), `,"delta":{"type":"`...)
	dst = append(append(append(append(dst, kind...), `","`...), member...), `":`...)
	return append(wire.AppendString(dst, text), "}}\n\n"...)
}

// unsigned stands where Anthropic's servers sign their thinking: nothing here needs it, and some
// clients send back no thinking without a signature.
const unsigned = "unsigned"

// Stop appends what ends the open block, if there is one.
func (r *Reply) Stop(dst []byte) []byte {
	if !r.open {
		return dst
	}
	r.open = false
	b := &r.blocks[len(r.blocks)-1]
	if b.text.Len() == 0 && b.kind != ToolUse {
		r.blocks = r.blocks[:len(r.blocks)-1]
		return dst
	}
	if b.kind == Thinking {
		dst = r.delta(dst, "signature_delta", "signature", unsigned)
	}
	return append(r.indexed(dst, "content_block_stop"), "}\n\n"...)
}

// Finish appends what ends the stream.
func (r *Reply) Finish(dst []byte, usage *wire.Usage) []byte {
	dst = event(r.Stop(dst), "message_delta")
	dst = wire.AppendText(append(dst, `,"delta":{"stop_reason":`...), wire.Text(r.StopReason))
	dst = wire.AppendText(append(dst, `,"stop_sequence":`...), wire.Text(r.StopText))
	dst = append(appendUsage(append(dst, `},"usage":`...), usage), "}\n\n"...)
	return append(event(dst, "message_stop"), "}\n\n"...)
}

// Append appends the message as a whole.
func (r *Reply) Append(dst []byte, usage *wire.Usage) []byte { return r.append(dst, usage) }

func (r *Reply) append(dst []byte, usage *wire.Usage) []byte {
	dst = wire.AppendString(append(dst, `{"id":`...), r.ID)
	dst = wire.AppendString(append(dst, `,"type":"message","role":"assistant","model":`...), r.Model)
	dst = append(dst, `,"content":[`...)
	for i := range r.blocks {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = r.blocks[i].append(dst)
	}
	dst = wire.AppendText(append(dst, `],"stop_reason":`...), wire.Text(r.StopReason))
	dst = wire.AppendText(append(dst, `,"stop_sequence":`...), wire.Text(r.StopText))
	return append(appendUsage(append(dst, `,"usage":`...), usage), '}')
}

// invalidInput is the member that wraps arguments which are no JSON object, as a block has room for
// an object only. Requests that repeat it get the text back (arguments).
const invalidInput = "INVALID_JSON"

func (b *replyBlock) append(dst []byte) []byte {
	text := b.text.String()
	switch b.kind {
	case Text:
		return append(wire.AppendString(append(dst, `{"type":"text","text":`...), text), '}')
	case Thinking:
		dst = wire.AppendString(append(dst, `{"type":"thinking","thinking":`...), text)
		return append(wire.AppendString(append(dst, `,"signature":`...), unsigned), '}')
	}
	dst = wire.AppendString(append(dst, `{"type":"tool_use","id":`...), b.id)
	dst = append(wire.AppendString(append(dst, `,"name":`...), b.name), `,"input":`...)
	var object map[string]json.RawMessage
	// Input must be an object: text that is none is kept within one.
	switch {
	case text == "":
		dst = append(dst, "{}"...)
	case json.Unmarshal([]byte(text), &object) != nil || object == nil:
		dst = append(wire.AppendString(append(dst, `{"`+invalidInput+`":`...), text), '}')
	default:
		dst = wire.AppendCompact(dst, []byte(text))
	}
	return append(dst, '}')
}

// appendUsage writes usage in the words of this API, where what was cached is not part of the
// input.
func appendUsage(dst []byte, usage *wire.Usage) []byte {
	dst = strconv.AppendInt(append(dst, `{"input_tokens":`...), int64(usage.Prompt-usage.PromptOf.Cached), 10)
	dst = strconv.AppendInt(append(dst, `,"cache_creation_input_tokens":0,"cache_read_input_tokens":`...), int64(usage.PromptOf.Cached), 10)
	return append(strconv.AppendInt(append(dst, `,"output_tokens":`...), int64(usage.Completion), 10), '}')
}

// event appends the beginning of an event.
func event(dst []byte, kind string) []byte {
	dst = append(append(append(dst, "event: "...), kind...), "\ndata: {\"type\":\""...)
	return append(append(dst, kind...), '"')
}

// indexed appends the beginning of an event about the latest block.
func (r *Reply) indexed(dst []byte, kind string) []byte {
	return strconv.AppendInt(append(event(dst, kind), `,"index":`...), int64(len(r.blocks)-1), 10)
}

// kinds are the types of errors, by those of the other APIs.
var kinds = map[string]string{wire.TypeInvalidRequest: "invalid_request_error", wire.TypePermission: "permission_error", wire.TypeRateLimit: "rate_limit_error",
	wire.TypeServer: "api_error", wire.TypeOverloaded: "overloaded_error"}

// coded are types that this API has for some codes.
var coded = map[string]string{wire.CodeInvalidKey: "authentication_error", wire.CodeModelNotFound: "not_found_error", wire.CodeNotFound: "not_found_error",
	wire.CodeTooLarge: "request_too_large", CodeThread: "not_found_error"}

// AppendError appends the body of a request that failed.
func AppendError(dst []byte, fault *wire.Error, requestID string) []byte {
	kind := coded[fault.Code]
	if kind == "" {
		kind = kinds[fault.Type]
	}
	dst = wire.AppendString(append(dst, `{"type":"error","error":{"type":`...), kind)
	dst = wire.AppendString(append(dst, `,"message":`...), fault.Error())
	if fault.Code == CodeThread {
		dst = append(dst, `,"details":{"error_code":"`+CodeThread+`"}`...)
	}
	return append(wire.AppendString(append(dst, `},"request_id":`...), requestID), '}')
}

// AppendErrorEvent appends what ends a stream that an error cuts off.
func AppendErrorEvent(dst []byte, e *wire.Error, requestID string) []byte {
	return append(AppendError(append(dst, "event: error\ndata: "...), e, requestID), "\n\n"...)
}
