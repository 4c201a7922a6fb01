package wire

import (
	"bytes"
	"encoding/json"
	"iter"
	"strconv"
	"strings"

	"ossian/internal/limits"
)

// storedResponse is what ParseResponse has to know of an object.
type storedResponse struct {
	ID         string           `json:"id"`
	Created    int64            `json:"created_at"`
	Completed  int64            `json:"completed_at"`
	Status     string           `json:"status"`
	Background bool             `json:"background"`
	Store      bool             `json:"store"`
	Failure    *ResponseFailure `json:"error"`
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
		} `json:"output_tokens_details"`
	} `json:"usage"`
}

// changing are the members that Response keeps in fields.
var changing = map[string]bool{"id": true, "object": true, "created_at": true, "completed_at": true, "status": true, "background": true, "store": true,
	"error": true, "incomplete_details": true, "empty_reason": true, "output": true, "usage": true}

// ParseResponse reads an object that Append wrote: it can be changed and written again.
func ParseResponse(object []byte, lim *limits.Set) (*Response, error) {
	var s storedResponse
	if err := json.Unmarshal(object, &s); err != nil {
		return nil, err
	}
	r := &Response{ID: s.ID, Created: s.Created, Completed: s.Completed, Status: s.Status, Background: s.Background, Stored: s.Store, Failure: s.Failure, Empty: s.Empty}
	if s.Incomplete != nil {
		r.Incomplete = s.Incomplete.Reason
	}
	if u := s.Usage; u != nil {
		all := NewUsage(u.Input, u.InputDetails.Cached, u.Output, u.OutputDetails.Reasoning)
		r.Usage = &all
	}
	for _, raw := range s.Output {
		it, err := DecodeItem(raw, lim)
		if err != nil {
			return nil, err
		}
		it.Logprobs = parseLogprobs(raw)
		r.Output = append(r.Output, it)
	}
	return r, r.parseEcho(object)
}

// parseEcho keeps the members that do not change as they are.
func (r *Response) parseEcho(object []byte) error {
	d := json.NewDecoder(bytes.NewReader(object))
	if _, err := d.Token(); err != nil {
		return err
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return err
		}
		var raw json.RawMessage
		if err := d.Decode(&raw); err != nil {
			return err
		}
		if name, _ := key.(string); !changing[name] {
			r.echo = append(append(AppendString(append(r.echo, ','), name), ':'), raw...)
		}
	}
	r.echo = append(r.echo, '}')
	return nil
}

// parseLogprobs reads the log probabilities of an output message.
func parseLogprobs(item []byte) (out []TokenLogprob) {
	var it struct {
		Content []logprobEntries `json:"content"`
	}
	if json.Unmarshal(item, &it) != nil {
		return nil
	}
	for _, part := range it.Content {
		out = append(out, readLogprobs(part.Logprobs)...)
	}
	return out
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

func readLogprobs(all []logprobEntry) (out []TokenLogprob) {
	for _, e := range all {
		b := make([]byte, len(e.Bytes))
		for i, v := range e.Bytes {
			b[i] = byte(v)
		}
		out = append(out, TokenLogprob{Token: e.Token, Logprob: e.Logprob, Bytes: string(b), Top: readLogprobs(e.Top)})
	}
	return out
}

// Replay appends the events of a stream that gives a parsed response that has ended:
// each text at once, where the stream that made it may have had pieces.
func (r *Response) Replay(dst []byte) []byte {
	now := &Response{ID: r.ID, Created: r.Created, Status: StatusInProgress, Background: r.Background, Stored: r.Stored, echo: r.echo}
	dst = now.Tell(now.Tell(dst, "created"), "in_progress")
	for _, it := range r.Output {
		blank := it
		blank.Content, blank.Arguments, blank.Logprobs = nil, "", nil
		dst = now.Begin(dst, blank)
		for _, text := range it.Content {
			dst = now.Add(dst, text, it.Logprobs)
		}
		if it.Arguments != "" {
			dst = now.Add(dst, it.Arguments, nil)
		}
		dst = now.End(dst, it.Status)
	}
	now.Completed, now.Status, now.Failure, now.Incomplete, now.Empty, now.Usage = r.Completed, r.Status, r.Failure, r.Incomplete, r.Empty, r.Usage
	return now.Tell(dst, now.Ending())
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
	for e := range events {
		switch kind := eventKind(e); {
		case kind == "output_item.added":
			since = [][]byte{e}
		case kind == "output_item.done":
			since = nil
			r.again(e, lim)
		case since != nil && strings.HasSuffix(kind, ".delta"):
			since = append(since, e)
		}
	}
	for _, e := range since {
		r.again(e, lim)
	}
	r.Status = StatusCancelled
	if !cancelled {
		r.Status, r.Failure = StatusFailed, &ResponseFailure{Code: "server_error", Message: "the server was restarted while it made this response; send the request again"}
	}
	return r.Tell(r.End(nil, StatusIncomplete), r.Ending())
}

// eventKind returns what stands behind "response." in the type of an event.
func eventKind(event []byte) string {
	line, _, _ := bytes.Cut(event, []byte("\n"))
	return strings.TrimPrefix(string(line), "event: response.")
}

// again does to r what an event of an item that was sent says.
func (r *Response) again(event []byte, lim *limits.Set) {
	var e struct {
		Item  json.RawMessage `json:"item"`
		Delta string          `json:"delta"`
		logprobEntries
	}
	_, data, _ := bytes.Cut(event, []byte("\ndata: "))
	if json.Unmarshal(data, &e) != nil {
		return
	}
	if e.Item == nil {
		r.text.WriteString(e.Delta)
		r.item.Logprobs = append(r.item.Logprobs, readLogprobs(e.Logprobs)...)
		return
	}
	it, err := DecodeItem(e.Item, lim)
	if err != nil || it.Type == "" {
		return
	}
	it.Logprobs = parseLogprobs(e.Item)
	if it.Status != StatusInProgress {
		r.Output = append(r.Output, it)
		return
	}
	r.open, r.item = true, it
	r.text.Reset()
}

// ItemList is a page of items as GET /v1/responses/{id}/input_items sends it.
type ItemList struct {
	Data            [][]byte // as MarshalJSON wrote them
	FirstID, LastID string
	HasMore         bool
}

// Append appends the body.
func (l *ItemList) Append(dst []byte) []byte {
	dst = append(append(dst, `{"object":"list","data":[`...), bytes.Join(l.Data, []byte(","))...)
	dst = AppendString(append(dst, `],"first_id":`...), l.FirstID)
	dst = AppendString(append(dst, `,"last_id":`...), l.LastID)
	return append(strconv.AppendBool(append(dst, `,"has_more":`...), l.HasMore), '}')
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
