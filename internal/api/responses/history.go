package responses

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"ossian/internal/api"
	"ossian/internal/chat"
	"ossian/internal/generate"
	"ossian/internal/limits"
	"ossian/internal/store"
	"ossian/internal/wire"
	"ossian/internal/wire/response"
)

// A history makes turns of items. One turn of the assistant may have several: reasoning,
// then a message, then calls.
type history struct {
	turns   []chat.Turn
	from    []int             // of each turn: the input item it begins with; -1 = not of this request's input
	apart   bool              // the next item begins a turn
	callIDs map[string]string // of items of calls, to those of the calls
}

// add adds an item, the given one of the input.
func (past *history) add(it *response.Item, at int) {
	var last *chat.Turn // what the assistant may go on with; nil = a turn of its own
	if n := len(past.turns); n > 0 && !past.apart && past.turns[n-1].Role == chat.Assistant {
		last = &past.turns[n-1]
	}
	past.apart = false
	switch {
	case it.Type == response.ItemReasoning:
		if text := strings.Join(it.Content, "\n"); text != "" {
			past.append(chat.Turn{Role: chat.Assistant, Reasoning: text}, at)
		}
	case it.Type == response.ItemMessage:
		turn := chat.Turn{Role: generate.Roles[it.Role], Parts: it.Content, Preamble: it.Phase == response.PhaseCommentary}
		if it.Refusal != "" {
			turn.Parts = append(slices.Clone(turn.Parts), it.Refusal)
		}
		if turn.Role == chat.Assistant && last != nil && last.Parts == nil && last.Calls == nil {
			last.Parts, last.Preamble = turn.Parts, turn.Preamble
			return
		}
		past.append(turn, at)
	case it.IsCall():
		if past.callIDs == nil {
			past.callIDs = map[string]string{}
		}
		past.callIDs[it.ID] = it.CallID
		call := chat.Call{ID: it.CallID, Name: it.FullName(), Arguments: it.Arguments, Text: it.Type == response.ItemCustomCall}
		if last == nil {
			past.append(chat.Turn{Role: chat.Assistant, Calls: []chat.Call{call}}, at)
			return
		}
		last.Calls = append(last.Calls, call)
	case it.IsOutput():
		id := it.CallID
		if of, ok := past.callIDs[id]; ok && it.ID == id { // it has the id of the call's item
			id = of
		}
		past.append(chat.Turn{Role: chat.ToolRole, CallID: id, Parts: it.Result()}, at)
	}
}

func (past *history) append(turn chat.Turn, at int) {
	past.turns, past.from = append(past.turns, turn), append(past.from, at)
}

// said adds the output of a response, from the given item of the input on or -1, with the
// ids that were sampled.
func (past *history) said(output []response.Item, at int, ids []int32) {
	before := len(past.turns)
	past.apart = true
	for i := range output {
		from := -1
		if at >= 0 {
			from = at + i
		}
		past.add(&output[i], from)
	}
	past.apart = true
	if n := len(past.turns) - before; n > 0 { // what was sampled says the same
		past.turns[before].Output, past.turns[before].OutputTurns = ids, n
	}
}

// chain returns the responses that a request goes on from, oldest first.
func (h *Handler) chain(caller *api.Caller, id, owner string) ([]store.Link, error) {
	if id == "" {
		return nil, nil
	}
	if h.archive == nil {
		return nil, noResponse("previous_response_id", id)
	}
	links, err := h.archive.Chain(owner, id, int(h.front.Limits()[limits.Chain]))
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
	// What is read back counts as the request does.
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
	if err := caller.Reserve(size); err != nil {
		return nil, err
	}
	return links, nil
}

func noResponse(param, id string) *wire.Error {
	return &wire.Error{Message: fmt.Sprintf("no response has the id %.100q", id), Type: wire.TypeInvalidRequest, Param: param, Code: wire.CodeResponseNotFound}
}

// readBack adds what earlier responses were asked and answered. It returns when the first
// was made: prompts of one conversation have one date.
func (h *Handler) readBack(past *history, links []store.Link) (began time.Time, err error) {
	for i := range links {
		link := &links[i]
		for _, in := range link.Inputs {
			it, err := response.DecodeItem(in.Data, h.front.Limits())
			if err != nil {
				return began, fmt.Errorf("input of %s: %w", link.ID, err)
			}
			past.add(&it, -1)
		}
		// The ids that were sampled go into the prompt as they are, the text for where they
		// cannot.
		rec := unpack(link.Object)
		object, err := response.Parse(rec.object, h.front.Limits())
		if err != nil {
			return began, fmt.Errorf("object of %s: %w", link.ID, err)
		}
		if i == 0 {
			began = time.Unix(object.Created, 0)
		}
		past.said(object.Output, -1, rec.ids)
	}
	return began, nil
}
