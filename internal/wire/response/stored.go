package response

import (
	"bytes"
	"encoding/json"
	"iter"
	"slices"
	"strconv"
	"strings"

	"ossian/internal/limits"
	"ossian/internal/wire"
)

// storedResponse is what Parse has to know of an object.
type storedResponse struct {
	ID         string   `json:"id"`
	Created    int64    `json:"created_at"`
	Completed  int64    `json:"completed_at"`
	Status     string   `json:"status"`
	Background bool     `json:"background"`
	Store      bool     `json:"store"`
	Failure    *Failure `json:"error"`
	Incomplete *struct {
		Reason string `json:"reason"`
	} `json:"incomplete_details"`
	Empty  string            `json:"empty_reason"`
	Output []json.RawMessage `json:"output"`
	Usage  *struct {
		Input        int `json:"input_tokens"`
		InputDetails struct {
			Cached int `json:"cached_tokens"`
		} `json:"input_tokens_details"`
		Output        int `json:"output_tokens"`
		OutputDetails struct {
			Reasoning int `json:"reasoning_tokens"`
			Results   int `json:"tool_output_tokens"`
		} `json:"output_tokens_details"`
		Inputs  []int `json:"input_tokens_per_turn"`
		Caches  []int `json:"cached_tokens_per_turn"`
		Outputs []int `json:"output_tokens_per_turn"`
	} `json:"usage"`
}

// changing are the members that Response keeps in fields.
var changing = map[string]bool{"id": true, "object": true, "created_at": true, "completed_at": true, "status": true, "background": true, "store": true,
	"error": true, "incomplete_details": true, "empty_reason": true, "output": true, "usage": true}

// Parse reads an object that Append wrote: it can be changed and written again.
func Parse(object []byte, lim *limits.Set) (*Response, error) {
	var stored storedResponse
	if err := json.Unmarshal(object, &stored); err != nil {
		return nil, err
	}
	response := &Response{ID: stored.ID, Created: stored.Created, Completed: stored.Completed, Status: stored.Status, Background: stored.Background, Stored: stored.Store, Failure: stored.Failure, Empty: stored.Empty}
	if stored.Incomplete != nil {
		response.Incomplete = stored.Incomplete.Reason
	}
	if usage := stored.Usage; usage != nil {
		all := wire.NewUsage(usage.Input, usage.InputDetails.Cached, usage.Output, usage.OutputDetails.Reasoning)
		if usage.Inputs != nil {
			all.Tools = &wire.ToolUsage{Prompt: usage.Inputs, Cached: usage.Caches, Completion: usage.Outputs, Results: usage.OutputDetails.Results}
		}
		response.Usage = &all
	}
	// Items do not decode what only our own texts have: requests never have any.
	for _, raw := range stored.Output {
		it, err := DecodeItem(raw, lim)
		if err != nil {
			return nil, err
		}
		it.parseTexts(raw)
		response.Output = append(response.Output, it)
	}
	return response, response.parseEcho(object)
}

// parseEcho keeps the members that do not change as they are.
func (r *Response) parseEcho(object []byte) error {
	in := json.NewDecoder(bytes.NewReader(object))
	if _, err := in.Token(); err != nil {
		return err
	}
	// Member by member: a map would lose their order, and numbers their digits.
	for in.More() {
		key, err := in.Token()
		if err != nil {
			return err
		}
		var raw json.RawMessage
		if err := in.Decode(&raw); err != nil {
			return err
		}
		if name, _ := key.(string); !changing[name] {
			r.echo = append(append(wire.AppendString(append(r.echo, ','), name), ':'), raw...)
		}
	}
	r.echo = append(r.echo, '}')
	return nil
}

// parseTexts reads the log probabilities and citations of an output message.
func (it *Item) parseTexts(item []byte) {
	var stored struct {
		Content []struct {
			logprobEntries
			Annotations []citationEntry `json:"annotations"`
		} `json:"content"`
	}
	if it.Type != ItemMessage || json.Unmarshal(item, &stored) != nil {
		return
	}
	for _, part := range stored.Content {
		it.Logprobs = append(it.Logprobs, readLogprobs(part.Logprobs)...)
		for _, entry := range part.Annotations {
			it.Citations = append(it.Citations, entry.citation())
		}
	}
}

// A citationEntry is a citation as Citation.append writes it.
type citationEntry struct {
	Start int    `json:"start_index"`
	End   int    `json:"end_index"`
	URL   string `json:"url"`
	Title string `json:"title"`
}

func (e *citationEntry) citation() Citation {
	return Citation{Start: e.Start, End: e.End, URL: e.URL, Title: e.Title}
}

// logprobEntries are the log probabilities of a text, as appendTokenLogprobs writes them.
type logprobEntries struct {
	Logprobs []logprobEntry `json:"logprobs"`
}

type logprobEntry struct {
	Token   string         `json:"token"`
	Logprob float32        `json:"logprob"`
	Bytes   []int          `json:"bytes"`
	Top     []logprobEntry `json:"top_logprobs"`
}

func readLogprobs(all []logprobEntry) (out []wire.TokenLogprob) {
	for _, entry := range all {
		text := make([]byte, len(entry.Bytes))
		for i, v := range entry.Bytes {
			text[i] = byte(v)
		}
		out = append(out, wire.TokenLogprob{Token: entry.Token, Logprob: entry.Logprob, Bytes: string(text), Top: readLogprobs(entry.Top)})
	}
	return out
}

// Replay appends the events of a stream that gives a parsed response that has ended:
// each text at once, where the stream that made it may have had pieces.
func (r *Response) Replay(dst []byte) []byte {
	now := &Response{ID: r.ID, Created: r.Created, Status: StatusInProgress, Background: r.Background, Stored: r.Stored, echo: r.echo}
	dst = now.Tell(now.Tell(dst, "created"), "in_progress")
	for i := range r.Output {
		dst = now.replay(dst, &r.Output[i])
	}
	now.Completed, now.Status, now.Failure, now.Incomplete, now.Empty, now.Usage = r.Completed, r.Status, r.Failure, r.Incomplete, r.Empty, r.Usage
	return now.Tell(dst, now.Ending())
}

// replay appends the events of an item.
func (r *Response) replay(dst []byte, it *Item) []byte {
	blank, status := *it, it.Status
	blank.Content, blank.Summary, blank.Arguments, blank.Logprobs, blank.Citations = nil, nil, "", nil, nil
	r.summarise = len(it.Summary) > 0
	dst = r.Begin(dst, blank)
	for _, text := range it.Content {
		dst = r.Add(dst, text, it.Logprobs)
	}
	if it.Arguments != "" {
		dst = r.Add(dst, it.Arguments, nil)
	}
	for _, citation := range it.Citations {
		dst = r.Cite(dst, citation)
	}
	switch {
	case it.IsServed() && status != StatusIncomplete:
		dst = r.Run(dst, "")
	case it.Served != nil && !it.IsServed():
		status = StatusCompleted // it has none
	}
	return r.End(dst, status)
}

// Tells reports whether an event of a stream has an item that is done, or all of them.
func Tells(event []byte) bool {
	switch eventKind(event) {
	case "output_item.done", StatusCompleted, StatusIncomplete, StatusFailed:
		return true
	}
	return false
}

// Revise returns an event that Response wrote with its items changed, those of which Tells says
// that it has them.
func Revise(event []byte, lim *limits.Set, change func(it *Item)) ([]byte, error) {
	if !Tells(event) {
		return event, nil
	}
	member := `,"response":`
	if eventKind(event) == "output_item.done" {
		member = `,"item":`
	}
	head, raw, ok := bytes.Cut(event, []byte(member)) // there is no text before it
	raw, end := bytes.CutSuffix(raw, []byte("}\n\n"))
	if !ok || !end {
		return event, nil
	}
	dst := append(slices.Clip(head), member...)
	if member == `,"response":` {
		object, err := Parse(raw, lim)
		if err != nil {
			return nil, err
		}
		for i := range object.Output {
			change(&object.Output[i])
		}
		return append(object.Append(dst), "}\n\n"...), nil
	}
	it, err := DecodeItem(raw, lim)
	if err != nil {
		return nil, err
	}
	it.parseTexts(raw)
	change(&it)
	return append(it.append(dst), "}\n\n"...), nil
}

// Ending returns the kind of the event that ends a stream with the status.
func (r *Response) Ending() string {
	switch r.Status {
	case StatusCompleted, StatusIncomplete:
		return r.Status
	}
	return StatusFailed // of a cancelled one, too: there is no event for that
}

// Interrupt ends a parsed response that was not finished, because of a restart or at
// somebody's wish. Its items are those of the events that were sent, n in all; what was
// open is closed. It returns the events that follow.
func (r *Response) Interrupt(events iter.Seq[[]byte], n int, cancelled bool, lim *limits.Set) []byte {
	r.Output, r.seq = nil, n
	var since [][]byte // events of the open item
	for event := range events {
		switch kind := eventKind(event); {
		case kind == "output_item.added":
			since = [][]byte{event}
		case kind == "output_item.done":
			since = nil
			r.again(event, lim)
		case since != nil:
			since = append(since, event)
		}
	}
	for _, event := range since {
		r.again(event, lim)
	}
	r.Status = StatusCancelled
	if !cancelled {
		r.Status, r.Failure = StatusFailed, &Failure{Code: "server_error", Message: "the server was restarted while it made this response; send the request again"}
	}
	return r.Tell(r.End(nil, StatusIncomplete), r.Ending())
}

// eventKind returns what stands behind "response." in the type of an event.
func eventKind(event []byte) string {
	line, _, _ := bytes.Cut(event, []byte("\n"))
	return strings.TrimPrefix(string(line), "event: response.")
}

// again does to r what an event of an item that was sent says. Events that say again what
// others do change nothing.
func (r *Response) again(event []byte, lim *limits.Set) {
	var sent struct {
		Item       json.RawMessage `json:"item"`
		Delta      string          `json:"delta"`
		Annotation citationEntry   `json:"annotation"`
		logprobEntries
	}
	_, data, _ := bytes.Cut(event, []byte("\ndata: "))
	if json.Unmarshal(data, &sent) != nil {
		return
	}
	switch kind := eventKind(event); {
	case sent.Item != nil:
		r.itemAgain(sent.Item, kind == "output_item.done", lim)
	case kind == "reasoning_summary_part.added":
		r.summarise = true
	case strings.HasPrefix(kind, summaryEvents):
	case strings.HasSuffix(kind, ".delta"): // adds to the item that the latest event has opened
		r.text.WriteString(sent.Delta)
		r.item.Logprobs = append(r.item.Logprobs, readLogprobs(sent.Logprobs)...)
	case kind == "output_text.annotation.added":
		r.item.Citations = append(r.item.Citations, sent.Annotation.citation())
	case r.item.Served != nil && !strings.HasSuffix(kind, "."+StatusInProgress):
		r.phaseAgain(kind)
	}
}

// phaseAgain takes what an event says of how far the open call has come.
func (r *Response) phaseAgain(kind string) {
	r.phase, r.item.Arguments = running, r.text.String()
	if strings.HasSuffix(kind, "."+StatusCompleted) || strings.HasSuffix(kind, "."+StatusFailed) {
		r.phase = ended
	}
}

// itemAgain takes an item that was added, or that is done: that needs none of the events before.
func (r *Response) itemAgain(raw json.RawMessage, done bool, lim *limits.Set) {
	it, err := DecodeItem(raw, lim)
	if err != nil || it.Type == "" {
		return
	}
	it.parseTexts(raw)
	if done {
		r.Output = append(r.Output, it)
		return
	}
	r.open, r.item, r.phase = true, it, sampled
	r.text.Reset()
	if it.Type == ItemApprovalRequest { // whole when it is added
		r.phase = running
	}
}

// ItemList is a page of items as GET /v1/responses/{id}/input_items sends it.
type ItemList struct {
	Data            [][]byte // as MarshalJSON wrote them
	FirstID, LastID string
	HasMore         bool
}

// Append appends the body.
func (list *ItemList) Append(dst []byte) []byte {
	dst = append(append(dst, `{"object":"list","data":[`...), bytes.Join(list.Data, []byte(","))...)
	dst = wire.AppendString(append(dst, `],"first_id":`...), list.FirstID)
	dst = wire.AppendString(append(dst, `,"last_id":`...), list.LastID)
	return append(strconv.AppendBool(append(dst, `,"has_more":`...), list.HasMore), '}')
}

// Deleted is the reply of DELETE /v1/responses/{id}.
type Deleted struct {
	ID      string `json:"id"`
	Object  string `json:"object"` // response
	Deleted bool   `json:"deleted"`
}

// InputTokens is the reply of POST /v1/responses/input_tokens.
type InputTokens struct {
	Object string `json:"object"` // response.input_tokens
	Tokens int    `json:"input_tokens"`
}
