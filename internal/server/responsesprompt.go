package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"ossian/internal/chat"
	"ossian/internal/limits"
	"ossian/internal/store"
	"ossian/internal/wire"
	"ossian/internal/wire/response"
)

// A history is a conversation in the words of a prompt, from items.
type history struct {
	turns []chat.Turn
	from  []int             // of each turn: the input item it begins with; -1 = not of this request's input
	apart bool              // the next item begins a turn
	ids   map[string]string // of items of calls, to those of the calls
}

// add adds an item, the given one of the input.
func (h *history) add(it *response.Item, at int) {
	var last *chat.Turn // what the assistant may go on with
	if n := len(h.turns); n > 0 && !h.apart && h.turns[n-1].Role == chat.Assistant {
		last = &h.turns[n-1]
	}
	h.apart = false
	switch {
	case it.Type == response.ItemReasoning:
		if text := strings.Join(it.Content, "\n"); text != "" {
			h.append(chat.Turn{Role: chat.Assistant, Reasoning: text}, at)
		}
	case it.Type == response.ItemMessage:
		t := chat.Turn{Role: roles[it.Role], Parts: it.Content, Preamble: it.Phase == response.PhaseCommentary}
		if it.Refusal != "" {
			t.Parts = append(slices.Clone(t.Parts), it.Refusal)
		}
		if t.Role == chat.Assistant && last != nil && last.Parts == nil && last.Calls == nil {
			last.Parts, last.Preamble = t.Parts, t.Preamble
			return
		}
		h.append(t, at)
	case it.IsCall():
		if h.ids == nil {
			h.ids = map[string]string{}
		}
		h.ids[it.ID] = it.CallID
		call := chat.Call{ID: it.CallID, Name: it.FullName(), Arguments: it.Arguments, Text: it.Type == response.ItemCustomCall}
		if last == nil {
			h.append(chat.Turn{Role: chat.Assistant, Calls: []chat.Call{call}}, at)
			return
		}
		last.Calls = append(last.Calls, call)
	case it.IsOutput():
		id := it.CallID
		if of, ok := h.ids[id]; ok && it.ID == id { // it has the id of the call's item
			id = of
		}
		h.append(chat.Turn{Role: chat.ToolRole, CallID: id, Parts: it.Result()}, at)
	}
}

func (h *history) append(t chat.Turn, at int) {
	h.turns, h.from = append(h.turns, t), append(h.from, at)
}

// A kept response is what the store has of one.
type kept struct {
	object []byte
	ids    []int32 // of the output as it was sampled; nil = not known
}

// pack returns the stored form: the object, which is one line, and the ids.
func (k *kept) pack() []byte {
	dst := append(slices.Clip(k.object), '\n')
	for i, id := range k.ids {
		if i > 0 {
			dst = append(dst, ' ')
		}
		dst = strconv.AppendInt(dst, int64(id), 36)
	}
	return dst
}

func unpack(data []byte) kept {
	object, rest, _ := bytes.Cut(data, []byte("\n"))
	k := kept{object: object}
	for field := range bytes.FieldsSeq(rest) {
		id, err := strconv.ParseInt(string(field), 36, 32)
		if err != nil {
			return kept{object: object} // the text is there, too
		}
		k.ids = append(k.ids, int32(id))
	}
	return k
}

// chain returns the responses that a request goes on from, oldest first.
func (s *Server) chain(c *caller, id, owner string) ([]store.Link, error) {
	if id == "" {
		return nil, nil
	}
	if s.cfg.Archive == nil {
		return nil, noResponse("previous_response_id", id)
	}
	links, err := s.cfg.Archive.Chain(owner, id, int(s.lim()[limits.Chain]))
	gone, broken := errors.AsType[*store.MissingError](err)
	switch {
	case broken:
		e := noResponse("previous_response_id", id)
		e.Message = fmt.Sprintf("response %.100q goes on from response %.100q, which was deleted or is too old to be kept: send the conversation as input instead", gone.Before, gone.ID)
		return nil, e
	case errors.Is(err, store.ErrNotFound):
		return nil, noResponse("previous_response_id", id)
	case errors.Is(err, store.ErrTooLong):
		e := wire.Invalid("previous_response_id", "the conversation is longer than the server reads back; the server's --limit "+limits.Chain.String()+"=N allows more responses")
		e.Limit = limits.Chain.String()
		return nil, e
	case err != nil:
		return nil, err
	}
	size := int64(0)
	for i := range links {
		if links[i].State != store.Finished {
			return nil, &wire.Error{Message: fmt.Sprintf("response %.100q is still being made", links[i].ID), Type: wire.TypeInvalidRequest, Param: "previous_response_id", Code: wire.CodeInProgress}
		}
		size += int64(len(links[i].Object))
		for _, it := range links[i].Inputs {
			size += int64(len(it.Data))
		}
	}
	if err := s.hold(size); err != nil {
		return nil, err
	}
	c.held += size
	return links, nil
}

func noResponse(param, id string) *wire.Error {
	return &wire.Error{Message: fmt.Sprintf("no response has the id %.100q", id), Type: wire.TypeInvalidRequest, Param: param, Code: wire.CodeResponseNotFound}
}

// past adds what earlier responses were asked and answered. It returns when the first
// was made: prompts of one conversation have one date.
func (s *Server) past(h *history, links []store.Link) (began time.Time, err error) {
	for i := range links {
		l := &links[i]
		for _, in := range l.Inputs {
			it, err := response.DecodeItem(in.Data, s.lim())
			if err != nil {
				return began, fmt.Errorf("input of %s: %w", l.ID, err)
			}
			h.add(&it, -1)
		}
		k := unpack(l.Object)
		r, err := response.Parse(k.object, s.lim())
		if err != nil {
			return began, fmt.Errorf("object of %s: %w", l.ID, err)
		}
		if i == 0 {
			began = time.Unix(r.Created, 0)
		}
		h.said(r.Output, -1, k.ids)
	}
	return began, nil
}

// said adds the output of a response, from the given item of the input on or -1, with the
// ids that were sampled.
func (h *history) said(output []response.Item, at int, ids []int32) {
	before := len(h.turns)
	h.apart = true
	for n := range output {
		from := -1
		if at >= 0 {
			from = at + n
		}
		h.add(&output[n], from)
	}
	h.apart = true
	if n := len(h.turns) - before; n > 0 { // what was sampled says the same
		h.turns[before].Output, h.turns[before].OutputTurns = ids, n
	}
}

// A recaller finds the responses whose output a client sends back.
type recaller struct {
	s     *Server
	owner string
	looks int64 // into stored responses, that are left
}

// recallItems is how many items of an output are looked for: clients may leave out ids,
// but calls have theirs.
const recallItems = 4

// recall finds out whether items begin with the whole output of a stored response: then
// the prompt has that and the ids that were sampled, as with previous_response_id. Without
// output nothing is known.
func (r *recaller) recall(items []response.Item) (output []response.Item, ids []int32, created time.Time) {
	for i := 0; i < min(len(items), recallItems) && items[i].Made() && r.s.cfg.Archive != nil; i++ {
		for _, name := range []string{items[i].ID, items[i].CallID} {
			of, err := r.s.cfg.Archive.Find(r.owner, name)
			if err == nil {
				return r.read(of, items)
			}
		}
	}
	return nil, nil, created
}

// read compares items with the output of a response. Where something is wrong with it, the
// items have the text.
func (r *recaller) read(of string, items []response.Item) (output []response.Item, ids []int32, created time.Time) {
	if r.looks--; r.looks < 0 {
		return nil, nil, created
	}
	rec, err := r.s.cfg.Archive.Get(r.owner, of)
	if err != nil {
		return nil, nil, created
	}
	k := unpack(rec.Object)
	stored, err := response.Parse(k.object, r.s.lim())
	if err != nil || len(stored.Output) > len(items) {
		return nil, nil, created
	}
	for at := range stored.Output {
		if !stored.Output[at].Says(&items[at]) {
			return nil, nil, created
		}
	}
	for at := range stored.Output {
		if id := items[at].ID; id != "" { // results may name it
			stored.Output[at].ID = id
		}
	}
	return stored.Output, k.ids, time.Unix(stored.Created, 0)
}

// resolve replaces references to items of earlier responses, and opens reasoning that
// came encrypted.
func (s *Server) resolve(items []response.Item, owner string, m string) error {
	for i := range items {
		it := &items[i]
		switch {
		case it.Type == response.ItemReference:
			found, err := s.lookUp(it.ID, owner)
			if err != nil {
				return err
			}
			if found == nil {
				return &wire.Error{Message: fmt.Sprintf("no item has the id %.100q", it.ID), Type: wire.TypeInvalidRequest, Param: fmt.Sprintf("input[%d].id", i), Code: wire.CodeNotFound}
			}
			*it = *found
		case it.Type == response.ItemReasoning && len(it.Content) == 0 && it.Encrypted != "":
			text, ok := s.unseal(it.Encrypted, owner, m)
			if !ok {
				return &wire.Error{Message: "this server did not write the encrypted content, or for another model or key", Type: wire.TypeInvalidRequest,
					Param: fmt.Sprintf("input[%d].encrypted_content", i), Code: wire.CodeEncrypted}
			}
			it.Content = wire.Content{text}
		}
	}
	return nil
}

// lookUp returns an output item of an earlier response, nil if there is none.
func (s *Server) lookUp(id, owner string) (*response.Item, error) {
	if s.cfg.Archive == nil {
		return nil, nil
	}
	of, err := s.cfg.Archive.Find(owner, id)
	if err == nil {
		var rec store.Record
		if rec, err = s.cfg.Archive.Get(owner, of); err == nil {
			var r *response.Response
			if r, err = response.Parse(unpack(rec.Object).object, s.lim()); err == nil {
				if n := slices.IndexFunc(r.Output, func(it response.Item) bool { return it.ID == id }); n >= 0 {
					return &r.Output[n], nil
				}
			}
		}
	}
	if errors.Is(err, store.ErrNotFound) {
		err = nil
	}
	return nil, err
}

// converse translates a request and what it goes on from.
func (s *Server) converse(q *response.Request, links []store.Link, owner string) (*chat.Conversation, *history, error) {
	h := &history{}
	if q.Instructions != nil {
		h.append(chat.Turn{Role: chat.Developer, Parts: []string{*q.Instructions}}, -1)
	}
	began, err := s.past(h, links)
	if err != nil {
		return nil, nil, err
	}
	known := recaller{s: s, owner: owner, looks: s.lim()[limits.Chain]}
	for i := 0; i < len(q.Input); i++ {
		output, ids, created := known.recall(q.Input[i:])
		if len(output) == 0 {
			h.add(&q.Input[i], i)
			continue
		}
		if began.IsZero() {
			began = created
		}
		h.said(output, i, ids)
		i += len(output) - 1
	}
	if began.IsZero() {
		began = s.cfg.Clock()
	}
	c := &chat.Conversation{Turns: h.turns, Effort: q.Effort, Now: began, NoCalls: q.ToolChoice.Mode == "none", KeepReasoning: q.Context == "all_turns"}
	for i := range q.Tools {
		c.Tools = append(c.Tools, chatTool(&q.Tools[i]))
	}
	if f := q.ResponseFormat; f != nil && f.Type == "json_schema" {
		c.Response = &chat.ResponseFormat{Name: f.JSONSchema.Name, Description: f.JSONSchema.Description, Schema: json.RawMessage(f.JSONSchema.Schema)}
	}
	return c, h, nil
}

// prompt sets the ids that a request begins with. With truncation auto the oldest turns
// go until there is room for an answer, those of the user together with what followed,
// and never the last.
func (s *Server) prompt(w *reply, a *asked, h *history) error {
	q := a.q
	ids := func() ([]int32, error) {
		p, err := s.write(a.m, "input", a.conv)
		if err != nil {
			return nil, inputError(err, h, q)
		}
		return s.encode(w, a.m, "input", p, q.TruncatePrompt, q.MaxOutputTokens)
	}
	var err error
	if a.ids, err = ids(); err == nil || q.Truncation != "auto" || !tooManyTokens(err) {
		return err
	}
	all, starts := h.turns, oldTurns(h.turns)
	fits := sort.Search(len(starts), func(n int) bool {
		a.conv.Turns = without(all, starts, n)
		a.ids, err = ids()
		return err == nil || !tooManyTokens(err)
	})
	if fits == len(starts) {
		return err
	}
	a.conv.Turns = without(all, starts, fits)
	a.truncated = len(all) - len(a.conv.Turns)
	w.Header().Set("x-ossian-truncated", strconv.Itoa(a.truncated))
	a.ids, err = ids()
	return err
}

func tooManyTokens(err error) bool {
	e, ok := errors.AsType[*wire.Error](err)
	return ok && e.Code == wire.CodeContextLength
}

// oldTurns returns where the user's turns begin, without the last; dropping the first
// n+1 of them is what is tried at n.
func oldTurns(turns []chat.Turn) []int {
	var starts []int
	for i := range turns {
		if turns[i].Role == chat.User {
			starts = append(starts, i)
		}
	}
	return starts[:max(len(starts)-1, 0)]
}

// without drops what belongs to the user's turns up to number n, but nothing that a
// developer said.
func without(turns []chat.Turn, starts []int, n int) []chat.Turn {
	end := len(turns)
	for i := starts[min(n, len(starts)-1)] + 1; i < end; i++ {
		if turns[i].Role == chat.User {
			end = i
		}
	}
	var rest []chat.Turn
	for i := range turns {
		if i >= end || turns[i].Role <= chat.Developer {
			rest = append(rest, turns[i])
		}
	}
	return rest
}

// inputError says which item a turn that cannot be rendered came from.
func inputError(err error, h *history, q *response.Request) error {
	e, ok := errors.AsType[*chat.Error](err)
	if !ok {
		return err
	}
	switch {
	case e.Turn >= 0 && e.Turn < len(h.from) && h.from[e.Turn] >= 0:
		return wire.Invalid(fmt.Sprintf("input[%d]", h.from[e.Turn]), e.Problem)
	case e.Turn < 0 && e.Tool >= 0:
		return wire.Invalid(q.ToolPath(e.Tool), e.Problem)
	case e.Response:
		return wire.Invalid("text.format.schema", e.Problem)
	}
	return wire.Invalid("input", e.Problem)
}
