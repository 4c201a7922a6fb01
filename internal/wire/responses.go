package wire

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
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
	Failure    *ResponseFailure // nil = null
	Incomplete string           // reason; "" = null
	Empty      string           // why there is no text, as in ChatChoice
	Output     []Item
	Usage      *Usage                   // nil = null
	Seal       func(text string) string // encrypts reasoning; nil = it is not asked for

	echo   []byte // the members that repeat the request
	seq    int    // of the next event
	open   bool   // item is being made
	item   Item
	text   strings.Builder // of item
	hidden bool            // the log probabilities are not asked for
}

// A ResponseFailure says why a response has failed.
type ResponseFailure struct {
	Code    string `json:"code"` // server_error, rate_limit_exceeded, invalid_prompt
	Message string `json:"message"`
}

// ResponseHead is what a response has besides what was asked for.
type ResponseHead struct {
	ID                string
	Created           int64
	Model             string
	Temperature, TopP float64 // in force
	Truncated         int     // turns left out
	Stored            bool
}

// NewResponse returns the response to a request, of which it keeps nothing.
func NewResponse(h ResponseHead, q *ResponseRequest) *Response {
	r := &Response{ID: h.ID, Created: h.Created, Status: StatusInProgress, Background: q.Background, Stored: h.Stored, hidden: !q.Includes("message.output_text.logprobs") && q.TopLogprobs == nil}
	dst := AppendString([]byte(`,"model":`), h.Model)
	dst = append(dst, `,"instructions":`...)
	if q.Instructions == nil {
		dst = append(dst, "null"...)
	} else {
		dst = AppendString(dst, *q.Instructions)
	}
	dst = appendCount(append(dst, `,"max_output_tokens":`...), q.MaxOutputTokens)
	dst = appendCount(append(dst, `,"max_tool_calls":`...), q.MaxToolCalls)
	dst = append(dst, `,"parallel_tool_calls":`...)
	dst = strconv.AppendBool(dst, q.ParallelToolCalls == nil || *q.ParallelToolCalls)
	dst = appendText(append(dst, `,"previous_response_id":`...), Text(q.Previous))
	dst = appendText(append(dst, `,"prompt_cache_key":`...), Text(q.CacheKey))
	dst = appendText(append(dst, `,"reasoning":{"effort":`...), Text(q.Effort))
	dst = appendText(append(dst, `,"summary":`...), Text(q.Summary))
	if q.Context != "" {
		dst = AppendString(append(dst, `,"context":`...), q.Context)
	}
	dst = appendText(append(dst, `},"safety_identifier":`...), Text(q.SafetyID))
	dst = append(dst, `,"service_tier":"default","temperature":`...)
	dst = strconv.AppendFloat(dst, h.Temperature, 'g', -1, 32)
	dst = q.appendTextOptions(append(dst, `,"text":{"format":`...))
	dst = q.appendTools(dst)
	top := int64(0)
	if q.TopLogprobs != nil {
		top = *q.TopLogprobs
	}
	dst = strconv.AppendInt(append(dst, `,"top_logprobs":`...), top, 10)
	dst = append(dst, `,"top_p":`...)
	dst = strconv.AppendFloat(dst, h.TopP, 'g', -1, 32)
	truncation := "disabled"
	if q.Truncation != "" {
		truncation = q.Truncation
	}
	dst = AppendString(append(dst, `,"truncation":`...), truncation)
	if h.Truncated > 0 {
		dst = strconv.AppendInt(append(dst, `,"truncated_turns":`...), int64(h.Truncated), 10)
	}
	dst = appendText(append(dst, `,"user":`...), Text(q.User))
	metadata := []byte("{}")
	if len(q.Metadata) > 0 {
		metadata, _ = json.Marshal(q.Metadata) // strings can always be written
	}
	dst = appendCompact(append(dst, `,"metadata":`...), metadata)
	r.echo = append(dst, `,"conversation":null,"moderation":null,"prompt":null,"prompt_cache_retention":null}`...)
	return r
}

// lineEnds are what some client takes for the end of a line.
var lineEnds = strings.NewReplacer("\u0085", `\u0085`, "\u2028", `\u2028`, "\u2029", `\u2029`)

// appendCompact appends JSON that somebody else wrote, on one line.
func appendCompact(dst []byte, raw json.RawMessage) []byte {
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil {
		return append(dst, "null"...) // what was decoded before is JSON
	}
	return append(dst, lineEnds.Replace(b.String())...)
}

func appendCount(dst []byte, n *int64) []byte {
	if n == nil {
		return append(dst, "null"...)
	}
	return strconv.AppendInt(dst, *n, 10)
}

// appendTextOptions writes the rest of text, behind its format's name.
func (q *ResponseRequest) appendTextOptions(dst []byte) []byte {
	switch f := q.ResponseFormat; {
	case f == nil || f.Type == "text":
		dst = append(dst, `{"type":"text"}`...)
	case f.Type == "json_schema":
		s := f.JSONSchema
		dst = AppendString(append(dst, `{"type":"json_schema","name":`...), s.Name)
		if s.Description != "" { // null is not one, to OpenAI's schema
			dst = AppendString(append(dst, `,"description":`...), s.Description)
		}
		dst = appendCompact(append(dst, `,"schema":`...), s.Schema)
		dst = append(strconv.AppendBool(append(dst, `,"strict":`...), s.Strict), '}')
	default:
		dst = append(AppendString(append(dst, `{"type":`...), f.Type), '}')
	}
	if q.Verbosity != "" {
		dst = AppendString(append(dst, `,"verbosity":`...), q.Verbosity)
	}
	return append(dst, '}')
}

func (q *ResponseRequest) appendTools(dst []byte) []byte {
	dst = append(dst, `,"tool_choice":`...)
	if q.choice == nil {
		dst = append(dst, `"auto"`...)
	} else {
		dst = appendCompact(dst, q.choice)
	}
	dst = append(dst, `,"tools":[`...)
	for i, t := range q.tools {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendCompact(dst, t)
	}
	return append(dst, ']')
}

// Append appends the object as it is now: items that are not done are not in it.
func (r *Response) Append(dst []byte) []byte {
	dst = AppendString(append(dst, `{"id":`...), r.ID)
	dst = strconv.AppendInt(append(dst, `,"object":"response","created_at":`...), r.Created, 10)
	dst = append(dst, `,"completed_at":`...)
	if r.Completed == 0 {
		dst = append(dst, "null"...)
	} else {
		dst = strconv.AppendInt(dst, r.Completed, 10)
	}
	dst = AppendString(append(dst, `,"status":`...), r.Status)
	dst = strconv.AppendBool(append(dst, `,"background":`...), r.Background)
	dst = strconv.AppendBool(append(dst, `,"store":`...), r.Stored)
	dst = append(dst, `,"error":`...)
	if r.Failure == nil {
		dst = append(dst, "null"...)
	} else {
		dst = AppendString(append(dst, `{"code":`...), r.Failure.Code)
		dst = append(AppendString(append(dst, `,"message":`...), r.Failure.Message), '}')
	}
	dst = append(dst, `,"incomplete_details":`...)
	if r.Incomplete == "" {
		dst = append(dst, "null"...)
	} else {
		dst = append(AppendString(append(dst, `{"reason":`...), r.Incomplete), '}')
	}
	dst = append(dst, `,"output":[`...)
	for i := range r.Output {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = r.Output[i].append(dst)
	}
	dst = append(dst, `],"usage":`...)
	dst = r.Usage.appendResponse(dst)
	dst = appendEmpty(dst, r.Empty)
	return append(dst, r.echo...)
}

// appendResponse writes usage in the words of the Responses API, null for nil.
func (u *Usage) appendResponse(dst []byte) []byte {
	if u == nil {
		return append(dst, "null"...)
	}
	dst = strconv.AppendInt(append(dst, `{"input_tokens":`...), int64(u.Prompt), 10)
	dst = strconv.AppendInt(append(dst, `,"input_tokens_details":{"cached_tokens":`...), int64(u.PromptOf.Cached), 10)
	dst = strconv.AppendInt(append(dst, `,"cache_write_tokens":0},"output_tokens":`...), int64(u.Completion), 10)
	dst = strconv.AppendInt(append(dst, `,"output_tokens_details":{"reasoning_tokens":`...), int64(u.Details.Reasoning), 10)
	dst = strconv.AppendInt(append(dst, `},"total_tokens":`...), int64(u.Total), 10)
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
	dst = r.indexed(r.event(dst, "output_item.added"))
	dst = append(r.item.append(append(dst, `,"item":`...)), "}\n\n"...)
	if kind := r.part(); kind != "" {
		dst = r.inPart(r.event(dst, "content_part.added"))
		dst = append(r.appendPart(append(dst, `,"part":`...), kind, ""), "}\n\n"...)
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
		return appendOutputText(dst, text, r.item.Logprobs)
	}
	return appendParts(dst, kind, Content{text}, "")
}

// itemEvents are the events that add to an item's text, by its type.
var itemEvents = map[string]string{ItemMessage: "output_text.", ItemReasoning: "reasoning_text.", ItemFunctionCall: "function_call_arguments.", ItemCustomCall: "custom_tool_call_input."}

// Add appends the event of more text for the open item.
func (r *Response) Add(dst []byte, text string, logprobs []TokenLogprob) []byte {
	if !r.open {
		return dst
	}
	r.text.WriteString(text)
	if r.hidden || r.item.Type != ItemMessage {
		logprobs = nil
	}
	r.item.Logprobs = append(r.item.Logprobs, logprobs...)
	if clientTools[r.item.Type] != nil {
		return dst
	}
	dst = r.inPart(r.event(dst, itemEvents[r.item.Type]+"delta"))
	dst = AppendString(append(dst, `,"delta":`...), text)
	return r.closeText(dst, logprobs)
}

// closeText ends an event of text: those of messages have log probabilities.
func (r *Response) closeText(dst []byte, logprobs []TokenLogprob) []byte {
	if r.item.Type == ItemMessage {
		dst = appendTokenLogprobs(append(dst, `,"logprobs":`...), logprobs)
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
	if c := clientTools[it.Type]; c != nil {
		return r.endClientCall(dst, c, text, status)
	}
	name := "text"
	switch it.Type {
	case ItemFunctionCall:
		it.Arguments, name = text, "arguments"
	case ItemCustomCall:
		it.Arguments, name = text, "input"
	default:
		it.Content = Content{text}
	}
	if it.Type == ItemReasoning && r.Seal != nil {
		it.Encrypted = r.Seal(text)
	}
	dst = r.inPart(r.event(dst, itemEvents[it.Type]+"done"))
	if it.Type == ItemFunctionCall {
		dst = AppendString(append(dst, `,"name":`...), it.Name)
	}
	dst = append(append(append(dst, `,"`...), name...), `":`...)
	dst = r.closeText(AppendString(dst, text), it.Logprobs)
	if kind := r.part(); kind != "" {
		dst = r.inPart(r.event(dst, "content_part.done"))
		dst = append(r.appendPart(append(dst, `,"part":`...), kind, text), "}\n\n"...)
	}
	dst = r.indexed(r.event(dst, "output_item.done"))
	dst = append(it.append(append(dst, `,"item":`...)), "}\n\n"...)
	r.Output = append(r.Output, *it)
	return dst
}

// endClientCall is End of a call that clients run. One that says only half of what is to
// be done is given as the function call that the model made.
func (r *Response) endClientCall(dst []byte, c *clientTool, text, status string) []byte {
	it := &r.item
	action, ok := c.readText(text)
	if !ok || status != StatusCompleted {
		it.Type, it.Name = ItemFunctionCall, c.name
		dst = r.Begin(dst, *it)
		return r.End(r.Add(dst, text, nil), status)
	}
	it.Name, it.Arguments = c.name, action
	for _, e := range []struct{ event, status string }{{"output_item.added", StatusInProgress}, {"output_item.done", status}} {
		it.Status = e.status
		dst = r.indexed(r.event(dst, e.event))
		dst = append(it.append(append(dst, `,"item":`...)), "}\n\n"...)
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
	dst = AppendString(append(r.indexed(dst), `,"item_id":`...), r.item.ID)
	if r.part() != "" {
		dst = append(dst, `,"content_index":0`...)
	}
	return dst
}
