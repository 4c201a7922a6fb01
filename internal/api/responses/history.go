package responses

import (
	"cmp"
	"encoding/json"
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
	"ossian/internal/tools"
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

	// Of tools that the server runs.
	offers    []tools.Offer
	gave      map[string]result // what is stored of calls, by ids of their items
	waiting   map[string]string // recipients of calls that waited for the client, by ids of their items
	asked     map[string]*question
	questions []*question     // of these, in order, those that may still wait
	listed    map[string]bool // servers whose tools the conversation has listed
	container string          // of the latest code
	root      string          // the first response that it goes on from; "" = none is known
	state     json.RawMessage // of the tools, behind the latest response
	problem   *wire.Error     // with this request
}

// add adds an item, the given one of the input.
func (past *history) add(it *response.Item, at int) {
	switch {
	case it.Type == response.ItemReasoning:
		past.speak()
		if text := strings.Join(it.Content, "\n"); text != "" {
			past.append(chat.Turn{Role: chat.Assistant, Reasoning: text}, at)
		}
	case it.Type == response.ItemMessage:
		past.message(it, at)
	case it.IsCall():
		past.speak()
		if past.callIDs == nil {
			past.callIDs = map[string]string{}
		}
		past.callIDs[it.ID] = it.CallID
		past.calls(chat.Call{ID: it.CallID, Name: it.FullName(), Arguments: it.Arguments, Text: it.Type == response.ItemCustomCall}, at)
	case it.IsOutput():
		id := it.CallID
		if of, ok := past.callIDs[id]; ok && it.ID == id { // it has the id of the call's item
			id = of
		}
		past.append(chat.Turn{Role: chat.ToolRole, CallID: id, Parts: it.Result()}, at)
	case it.IsServed():
		past.served(it, at)
	case it.Type == response.ItemApprovalRequest:
		past.ask(it, at)
	case it.Type == response.ItemApprovalResponse:
		past.reply(it, at)
	case it.Type == response.ItemMCPTools && it.Served.Problem == "":
		if past.listed == nil {
			past.listed = map[string]bool{}
		}
		past.listed[it.Served.Label] = true
	}
}

// last returns the turn that the assistant may go on with; nil = it has a turn of its own.
func (past *history) last() *chat.Turn {
	if n := len(past.turns); n > 0 && !past.apart && past.turns[n-1].Role == chat.Assistant {
		return &past.turns[n-1]
	}
	return nil
}

// speak comes before what is no result: calls that still wait for the client get none any more.
func (past *history) speak() {
	if last := past.last(); last == nil || !past.asks(last) { // calls of one turn wait together
		past.settleAll()
	}
}

// asks reports whether a turn has calls that wait.
func (past *history) asks(turn *chat.Turn) bool {
	return slices.ContainsFunc(turn.Calls, func(call chat.Call) bool {
		asked := past.asked[call.ID]
		return asked != nil && !asked.settled && !asked.replied
	})
}

// message adds a message.
func (past *history) message(it *response.Item, at int) {
	turn := chat.Turn{Role: generate.Roles[it.Role], Parts: it.Content, Preamble: it.Phase == response.PhaseCommentary}
	if it.Refusal != "" {
		turn.Parts = append(slices.Clone(turn.Parts), it.Refusal)
	}
	if turn.Role != chat.Assistant {
		past.settleAll()
	} else {
		past.speak()
	}
	if last := past.last(); turn.Role == chat.Assistant && last != nil && last.Parts == nil && last.Calls == nil {
		last.Parts, last.Preamble = turn.Parts, turn.Preamble
		return
	}
	past.append(turn, at)
}

// calls adds a call to the assistant's turn.
func (past *history) calls(call chat.Call, at int) {
	if last := past.last(); last != nil {
		last.Calls = append(last.Calls, call)
		return
	}
	past.append(chat.Turn{Role: chat.Assistant, Calls: []chat.Call{call}}, at)
}

func (past *history) append(turn chat.Turn, at int) {
	past.turns, past.from, past.apart = append(past.turns, turn), append(past.from, at), false
}

// said adds the output of a response, from the given item of the input on or -1, with what is
// stored of how it came about.
func (past *history) said(output []response.Item, at int, rec *record) {
	// A response of several steps has ids and results of each: its output is taken apart as it was
	// made.
	ids, counts := [][]int32{rec.ids}, []int{len(output)}
	if len(rec.Steps) > 0 {
		ids, counts = rec.stepIDs(), rec.split(output)
	}
	for i, count := range counts {
		var sampled []int32
		var results []result
		// Records of older versions, or of responses that failed, may have fewer ids or steps than
		// output.
		if i < len(ids) {
			sampled = ids[i]
		}
		if i < len(rec.Steps) {
			results = rec.Steps[i].Results
		}
		past.step(output[:count], at, sampled, results)
		if output = output[count:]; at >= 0 {
			at += count
		}
	}
	past.apart = true
}

// remember takes over what is stored of a response for what follows.
func (past *history) remember(rec *record, id string) {
	if rec.Chain != "" || past.root == "" {
		past.root = cmp.Or(rec.Chain, id)
	}
	if rec.State != nil {
		past.state = rec.State
	}
	for id, recipient := range rec.Asked {
		if past.waiting == nil {
			past.waiting = map[string]string{}
		}
		past.waiting[id] = recipient
	}
}

// step adds what was sampled in one go, with its ids, then what its calls gave.
func (past *history) step(items []response.Item, at int, ids []int32, results []result) {
	before := len(past.turns)
	past.apart = true
	calls := map[string]*response.Item{}
	for i := range items {
		calls[items[i].ID] = &items[i]
	}
	given := map[string]string{} // recipients of calls with results
	for _, gave := range results {
		given[gave.Item] = gave.Recipient
	}
	delete(calls, "")
	delete(given, "")
	// Calls of one step come before all of its results.
	for i := range items {
		it, from := &items[i], -1
		if at >= 0 {
			from = at + i
		}
		recipient, answered := given[it.ID]
		past.placed(it)
		switch asked := past.asked[it.Approval()]; {
		case !answered || !it.IsServed():
			past.add(it, from)
		case asked == nil:
			past.call(it, recipient, from)
		}
	}
	unknown := past.unknown(ids, results)
	if n := len(past.turns) - before; n > 0 { // what was sampled says the same
		past.turns[before].Output, past.turns[before].OutputTurns = ids, n
	}
	for i, gave := range results {
		id := gave.Item
		if it := calls[id]; it == nil {
			id = unknown[i]
		} else if asked := past.asked[it.Approval()]; asked != nil {
			past.settle(asked, gave.Text)
			continue
		}
		if id != "" {
			past.append(chat.Turn{Role: chat.ToolRole, CallID: id, Parts: []string{gave.Text}}, -1)
		}
	}
	past.apart = true
}

// unknown adds calls of tools that nobody offered, which have no items, and returns their ids by
// the index of the result. Only ids say what they were.
func (past *history) unknown(ids []int32, results []result) map[int]string {
	added := map[int]string{}
	for i, gave := range results {
		if gave.Item == "" && ids != nil {
			added[i] = fmt.Sprintf("turn%d.%d", len(past.turns), i)
			past.calls(chat.Call{ID: added[i], Name: gave.Recipient, Builtin: strings.Contains(gave.Recipient, ".")}, -1)
		}
	}
	return added
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
func (h *Handler) readBack(past *history, links []store.Link, known *recaller) (began time.Time, err error) {
	for i := range links {
		link := &links[i]
		var inputs []response.Item
		for _, in := range link.Inputs {
			it, err := response.DecodeItem(in.Data, h.front.Limits())
			if err != nil {
				return began, fmt.Errorf("input of %s: %w", link.ID, err)
			}
			inputs = append(inputs, it)
		}
		repeated := past.read(inputs, -1, known)
		// The ids that were sampled go into the prompt as they are, the text for where they
		// cannot.
		rec := unpack(link.Object)
		object, err := response.Parse(rec.object, h.front.Limits())
		if err != nil {
			return began, fmt.Errorf("object of %s: %w", link.ID, err)
		}
		if i == 0 {
			if began = repeated; began.IsZero() {
				began = time.Unix(object.Created, 0)
			}
		}
		past.remember(&rec, link.ID)
		past.said(object.Output, -1, &rec)
	}
	return began, nil
}

// read adds input, of this request from the given item on or -1. Items that are the output of a
// stored response have its ids. It returns when the first such response was made.
func (past *history) read(input []response.Item, at int, known *recaller) (began time.Time) {
	for i := 0; i < len(input); i++ {
		from := -1
		if at >= 0 {
			from = at + i
		}
		// Clients send earlier output back as input: where it is that of a stored response, its ids
		// go into the prompt as they were sampled.
		found := known.recall(input[i:])
		if found.count == 0 {
			if it := &input[i]; it.IsServed() {
				known.gave(past, it.ID)
			}
			past.add(&input[i], from)
			continue
		}
		if began.IsZero() {
			began = found.created
		}
		past.remember(&found.record, found.id)
		past.said(found.output, from, &found.record)
		i += found.count - 1
	}
	return began
}
