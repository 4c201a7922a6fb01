// Package response holds the JSON and events of /v1/responses: requests and their items,
// a response while it is made, and what is read back of one that was stored. Its users
// need not know the order of events, the forms that items have in lists and in streams, or
// how tools that clients run look on the wire.
package response

import (
	"encoding/json"
	"strconv"
	"strings"

	"ossian/internal/wire"
)

// A Response is one response while it is made: it writes the events of its stream and,
// at any time, the object as it is. Events are server-sent events as a whole; those of
// one response in their order give its object. Output has the items that are done.
type Response struct {
	ID         string
	Created    int64 // unix seconds
	Completed  int64 // 0 = null
	Status     string
	Background bool
	Stored     bool
	Failure    *Failure // nil = null
	Incomplete string   // reason; "" = null
	Empty      string   // why there is no text, as in ChatChoice
	Output     []Item
	Usage      *wire.Usage              // nil = null
	SoFar      *wire.Usage              // on every delta; nil = on none
	Seal       func(text string) string // encrypts reasoning; nil = it is not asked for

	echo   []byte // the members that repeat the request
	seq    int    // of the next event
	open   bool   // item is being made
	item   Item
	text   strings.Builder // of item
	phase  phase           // of item, a call that the server runs
	hidden bool            // the log probabilities are not asked for

	summarise bool // reasoning is asked for as a summary, too
}

// A Failure says why a response has failed.
type Failure struct {
	Code    string `json:"code"` // server_error, rate_limit_exceeded, invalid_prompt
	Message string `json:"message"`
}

// A Head is what a response has besides what was asked for.
type Head struct {
	ID                string
	Created           int64
	Model             string
	Temperature, TopP float64 // in force, as the next two
	Presence          float64 // penalty
	Frequency         float64 // penalty
	Truncated         int     // turns left out
	Stored            bool
}

// New returns the response to a request, of which it keeps nothing.
func New(head Head, request *Request) *Response {
	response := &Response{ID: head.ID, Created: head.Created, Status: StatusInProgress, Background: request.Background, Stored: head.Stored, hidden: !request.Includes("message.output_text.logprobs") && request.TopLogprobs == nil,
		summarise: request.Summary != ""}
	dst := wire.AppendString([]byte(`,"model":`), head.Model)
	dst = append(dst, `,"instructions":`...)
	if request.Instructions == nil {
		dst = append(dst, "null"...)
	} else {
		dst = wire.AppendString(dst, *request.Instructions)
	}
	dst = appendCount(append(dst, `,"max_output_tokens":`...), request.MaxOutputTokens)
	dst = appendCount(append(dst, `,"max_tool_calls":`...), request.MaxToolCalls)
	dst = append(dst, `,"parallel_tool_calls":`...)
	dst = strconv.AppendBool(dst, request.ParallelToolCalls == nil || *request.ParallelToolCalls)
	dst = wire.AppendText(append(dst, `,"previous_response_id":`...), wire.Text(request.Previous))
	dst = wire.AppendText(append(dst, `,"prompt_cache_key":`...), wire.Text(request.CacheKey))
	dst = wire.AppendText(append(dst, `,"reasoning":{"effort":`...), wire.Text(request.Effort))
	dst = wire.AppendText(append(dst, `,"summary":`...), wire.Text(request.Summary))
	if request.Context != "" {
		dst = wire.AppendString(append(dst, `,"context":`...), request.Context)
	}
	dst = wire.AppendText(append(dst, `},"safety_identifier":`...), wire.Text(request.SafetyID))
	dst = append(dst, `,"service_tier":"default","temperature":`...)
	dst = strconv.AppendFloat(dst, head.Temperature, 'g', -1, 32)
	dst = strconv.AppendFloat(append(dst, `,"presence_penalty":`...), head.Presence, 'g', -1, 32)
	dst = strconv.AppendFloat(append(dst, `,"frequency_penalty":`...), head.Frequency, 'g', -1, 32)
	dst = request.appendTextOptions(append(dst, `,"text":{"format":`...))
	dst = request.appendTools(dst)
	top := int64(0)
	if request.TopLogprobs != nil {
		top = *request.TopLogprobs
	}
	dst = strconv.AppendInt(append(dst, `,"top_logprobs":`...), top, 10)
	dst = append(dst, `,"top_p":`...)
	dst = strconv.AppendFloat(dst, head.TopP, 'g', -1, 32)
	truncation := "disabled"
	if request.Truncation != "" {
		truncation = request.Truncation
	}
	dst = wire.AppendString(append(dst, `,"truncation":`...), truncation)
	if head.Truncated > 0 {
		dst = strconv.AppendInt(append(dst, `,"truncated_turns":`...), int64(head.Truncated), 10)
	}
	dst = wire.AppendText(append(dst, `,"user":`...), wire.Text(request.User))
	metadata := []byte("{}")
	if len(request.Metadata) > 0 {
		metadata, _ = json.Marshal(request.Metadata) // strings can always be written
	}
	dst = wire.AppendCompact(append(dst, `,"metadata":`...), metadata)
	response.echo = append(dst, `,"conversation":null,"moderation":null,"prompt":null,"prompt_cache_retention":null}`...)
	return response
}

func appendCount(dst []byte, count *int64) []byte {
	if count == nil {
		return append(dst, "null"...)
	}
	return strconv.AppendInt(dst, *count, 10)
}

// appendTextOptions writes the rest of text, behind its format's name.
func (r *Request) appendTextOptions(dst []byte) []byte {
	switch format := r.ResponseFormat; {
	case format == nil || format.Type == "text":
		dst = append(dst, `{"type":"text"}`...)
	case format.Type == "json_schema":
		schema := format.JSONSchema
		dst = wire.AppendString(append(dst, `{"type":"json_schema","name":`...), schema.Name)
		dst = wire.AppendText(append(dst, `,"description":`...), wire.Text(schema.Description))
		dst = wire.AppendCompact(append(dst, `,"schema":`...), schema.Schema)
		dst = append(strconv.AppendBool(append(dst, `,"strict":`...), schema.Strict), '}')
	default:
		dst = append(wire.AppendString(append(dst, `{"type":`...), format.Type), '}')
	}
	if r.Verbosity != "" {
		dst = wire.AppendString(append(dst, `,"verbosity":`...), r.Verbosity)
	}
	return append(dst, '}')
}

func (r *Request) appendTools(dst []byte) []byte {
	dst = append(dst, `,"tool_choice":`...)
	if r.choice == nil {
		dst = append(dst, `"auto"`...)
	} else {
		dst = wire.AppendCompact(dst, r.choice)
	}
	dst = append(dst, `,"tools":[`...)
	for i, tool := range r.tools {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = wire.AppendCompact(dst, tool.raw)
	}
	return append(dst, ']')
}

// Append appends the object as it is now: items that are not done are not in it.
func (r *Response) Append(dst []byte) []byte {
	dst = wire.AppendString(append(dst, `{"id":`...), r.ID)
	dst = strconv.AppendInt(append(dst, `,"object":"response","created_at":`...), r.Created, 10)
	dst = append(dst, `,"completed_at":`...)
	if r.Completed == 0 {
		dst = append(dst, "null"...)
	} else {
		dst = strconv.AppendInt(dst, r.Completed, 10)
	}
	dst = wire.AppendString(append(dst, `,"status":`...), r.Status)
	dst = strconv.AppendBool(append(dst, `,"background":`...), r.Background)
	dst = strconv.AppendBool(append(dst, `,"store":`...), r.Stored)
	dst = append(dst, `,"error":`...)
	if r.Failure == nil {
		dst = append(dst, "null"...)
	} else {
		dst = wire.AppendString(append(dst, `{"code":`...), r.Failure.Code)
		dst = append(wire.AppendString(append(dst, `,"message":`...), r.Failure.Message), '}')
	}
	dst = append(dst, `,"incomplete_details":`...)
	if r.Incomplete == "" {
		dst = append(dst, "null"...)
	} else {
		dst = append(wire.AppendString(append(dst, `{"reason":`...), r.Incomplete), '}')
	}
	// The open item is not in it: events tell of it.
	dst = append(dst, `,"output":[`...)
	for i := range r.Output {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = r.Output[i].append(dst)
	}
	dst = append(dst, `],"usage":`...)
	dst = appendUsageOf(dst, r.Usage)
	dst = wire.AppendEmpty(dst, r.Empty)
	return append(dst, r.echo...)
}

// appendUsageOf writes usage in the words of the Responses API, null for nil.
func appendUsageOf(dst []byte, usage *wire.Usage) []byte {
	if usage == nil {
		return append(dst, "null"...)
	}
	dst = strconv.AppendInt(append(dst, `{"input_tokens":`...), int64(usage.Prompt), 10)
	dst = strconv.AppendInt(append(dst, `,"input_tokens_details":{"cached_tokens":`...), int64(usage.PromptOf.Cached), 10)
	dst = append(dst, `,"cache_write_tokens":0`...)
	dst = strconv.AppendInt(append(dst, `},"output_tokens":`...), int64(usage.Completion), 10)
	dst = strconv.AppendInt(append(dst, `,"output_tokens_details":{"reasoning_tokens":`...), int64(usage.Details.Reasoning), 10)
	dst = usage.Tools.AppendResults(dst)
	dst = usage.Tools.AppendSteps(strconv.AppendInt(append(dst, `},"total_tokens":`...), int64(usage.Total), 10))
	return append(dst, '}')
}

// Tell appends an event that carries the whole object: response.KIND.
func (r *Response) Tell(dst []byte, kind string) []byte {
	dst = r.event(dst, kind)
	return append(r.Append(append(dst, `,"response":`...)), "}\n\n"...)
}

// Begin appends what starts an item, which has everything but its text, and ends the one
// before.
func (r *Response) Begin(dst []byte, it Item) []byte {
	dst = r.End(dst, StatusCompleted)
	r.open, r.item = true, it
	r.item.Status = StatusInProgress
	r.text.Reset()
	if clientTools[it.Type] != nil {
		return dst // what it asks for shows at its end
	}
	if ofServer(it.Type) {
		return r.beginServed(dst)
	}
	dst = r.itemEvent(dst, "added")
	if kind := r.part(); kind != "" {
		dst = r.inPart(r.event(dst, "content_part.added"))
		dst = append(r.appendPart(append(dst, `,"part":`...), kind, ""), "}\n\n"...)
	}
	if r.summarised() {
		dst = r.summaryPart(dst, "added", "")
	}
	return dst
}

// part returns the type of the parts that the open item's text is in, "" = none.
func (r *Response) part() string {
	switch r.item.Type {
	case ItemMessage:
		return "output_text"
	case ItemReasoning:
		return "reasoning_text"
	}
	return ""
}

func (r *Response) appendPart(dst []byte, kind, text string) []byte {
	if kind == "output_text" {
		return r.item.appendOutputText(dst, text)
	}
	return appendParts(dst, kind, wire.Content{text}, "")
}

// itemEvents are the events that add to an item's text, by its type.
var itemEvents = map[string]string{ItemMessage: "output_text.", ItemReasoning: "reasoning_text.", ItemFunctionCall: "function_call_arguments.", ItemCustomCall: "custom_tool_call_input.",
	ItemMCPCall: "mcp_call_arguments.", ItemCode: "code_interpreter_call_code."}

// Add appends the event of more text for the open item.
func (r *Response) Add(dst []byte, text string, logprobs []wire.TokenLogprob) []byte {
	if !r.open {
		return dst
	}
	r.text.WriteString(text)
	if r.hidden || r.item.Type != ItemMessage {
		logprobs = nil
	}
	r.item.Logprobs = append(r.item.Logprobs, logprobs...)
	if itemEvents[r.item.Type] == "" {
		return dst
	}
	dst = r.inPart(r.event(dst, itemEvents[r.item.Type]+"delta"))
	dst = wire.AppendString(append(dst, `,"delta":`...), text)
	dst = r.closeText(r.counted(dst), logprobs)
	if r.summarised() {
		dst = r.summaryText(dst, "delta", "delta", text)
	}
	return dst
}

// closeText ends an event of text: those of messages have log probabilities.
func (r *Response) closeText(dst []byte, logprobs []wire.TokenLogprob) []byte {
	if r.item.Type == ItemMessage {
		dst = wire.AppendTokenLogprobs(append(dst, `,"logprobs":`...), logprobs)
	}
	return append(dst, "}\n\n"...)
}

// End appends what ends the open item, if there is one, with its status.
func (r *Response) End(dst []byte, status string) []byte {
	if !r.open {
		return dst
	}
	r.open = false
	it := &r.item
	it.Status = status
	text := r.text.String()
	if tool := clientTools[it.Type]; tool != nil {
		return r.endClientCall(dst, tool, text, status)
	}
	if it.Served != nil {
		return r.endServed(dst, text, status)
	}
	// The text goes where the item's type has it.
	name := "text"
	switch it.Type {
	case ItemFunctionCall:
		it.Arguments, name = text, "arguments"
	case ItemCustomCall:
		it.Arguments, name = text, "input"
	default:
		it.Content = wire.Content{text}
	}
	if r.summarised() {
		it.Summary = wire.Content{text}
		dst = r.summaryPart(r.summaryText(dst, "done", "text", text), "done", text)
	}
	if it.Type == ItemReasoning && r.Seal != nil {
		it.Encrypted = r.Seal(text)
	}
	dst = r.inPart(r.event(dst, itemEvents[it.Type]+"done"))
	if it.Type == ItemFunctionCall {
		dst = wire.AppendString(append(dst, `,"name":`...), it.Name)
	}
	dst = append(append(append(dst, `,"`...), name...), `":`...)
	dst = r.closeText(wire.AppendString(dst, text), it.Logprobs)
	// Messages and reasoning close their part before the item.
	if kind := r.part(); kind != "" {
		dst = r.inPart(r.event(dst, "content_part.done"))
		dst = append(r.appendPart(append(dst, `,"part":`...), kind, text), "}\n\n"...)
	}
	dst = r.itemEvent(dst, "done")
	r.Output = append(r.Output, *it)
	return dst
}

// itemEvent appends the event that the open item begins or is done.
func (r *Response) itemEvent(dst []byte, change string) []byte {
	dst = r.indexed(r.event(dst, "output_item."+change))
	return append(r.item.append(append(dst, `,"item":`...)), "}\n\n"...)
}

// endClientCall is End of a call that clients run. One that says only half of what is to
// be done is given as the function call that the model made.
func (r *Response) endClientCall(dst []byte, tool *clientTool, text, status string) []byte {
	it := &r.item
	action, ok := tool.readText(text)
	if !ok || status != StatusCompleted {
		it.Type, it.Name = ItemFunctionCall, tool.name
		dst = r.Begin(dst, *it)
		return r.End(r.Add(dst, text, nil), status)
	}
	it.Name, it.Arguments = tool.name, action
	for _, event := range []struct{ change, status string }{{"added", StatusInProgress}, {"done", status}} {
		it.Status = event.status
		dst = r.itemEvent(dst, event.change)
	}
	r.Output = append(r.Output, *it)
	return dst
}

// Sequence returns the number of the next event.
func (r *Response) Sequence() int { return r.seq }

// event appends the beginning of an event.
func (r *Response) event(dst []byte, kind string) []byte {
	dst = append(append(dst, "event: response."...), kind...)
	dst = append(append(dst, "\ndata: {\"type\":\"response."...), kind...)
	dst = strconv.AppendInt(append(dst, `","sequence_number":`...), int64(r.seq), 10)
	r.seq++
	return dst
}

func (r *Response) indexed(dst []byte) []byte {
	return strconv.AppendInt(append(dst, `,"output_index":`...), int64(len(r.Output)), 10)
}

// inPart says which item an event is about, and which part of it.
func (r *Response) inPart(dst []byte) []byte {
	dst = wire.AppendString(append(r.indexed(dst), `,"item_id":`...), r.item.ID)
	if r.part() != "" {
		dst = append(dst, `,"content_index":0`...)
	}
	return dst
}
