package responses

import (
	"errors"
	"fmt"
	"sort"

	"ossian/internal/api"
	"ossian/internal/chat"
	"ossian/internal/generate"
	"ossian/internal/limits"
	"ossian/internal/store"
	"ossian/internal/wire"
	"ossian/internal/wire/response"
)

// converse sets the conversation of a request and what it goes on from: instructions,
// earlier responses, then its input, of which items that are the output of a stored
// response are that.
func (h *Handler) converse(reply *api.Reply, req *request, links []store.Link) (*history, error) {
	past := &history{offers: req.offers}
	if req.Instructions != nil {
		past.append(chat.Turn{Role: chat.Developer, Parts: []string{*req.Instructions}}, -1)
	}
	known := &recaller{h: h, owner: req.owner, looks: h.front.Limits()[limits.Chain]}
	began, err := h.readBack(past, links, known)
	if err != nil {
		return nil, err
	}
	// What the input repeats has its date if nothing earlier has one.
	if repeated := past.read(req.Input, 0, known); began.IsZero() {
		began = repeated
	}
	answered, err := past.agreed()
	if err != nil {
		return nil, err
	}
	if err := req.pending(answered); err != nil {
		return nil, err
	}
	req.state, req.root, req.container, req.told = past.state, past.root, past.container, past.listed
	if err := h.front.Ignored(reply, req.foreign()); err != nil {
		return nil, err
	}
	if began.IsZero() {
		began = h.front.Clock()
	}
	req.conv = &chat.Conversation{Turns: past.turns, Effort: req.Effort, Now: began, NoCalls: req.ToolChoice.Mode == "none", MustCall: generate.MustCall(&req.ToolChoice), KeepReasoning: req.Context == "all_turns", Continue: req.ContinueFinal,
		Response: generate.ResponseFormat(&req.Sampling), Tools: generate.Tools(req.Tools), Builtins: api.Namespaces(req.offers)}
	return past, nil
}

// prompt sets the ids that a request begins with. With truncation auto the oldest turns
// go until there is room for an answer, those of the user together with what followed,
// and never the last.
func (h *Handler) prompt(reply *api.Reply, req *request, past *history) error {
	ids := func() ([]int32, error) {
		prompt, err := h.service.Render(req.model, "input", req.conv)
		if err != nil {
			return nil, inputError(err, past, req.Request)
		}
		ids, dropped, err := h.service.Encode(req.model, prompt, generate.Room{Param: "input", Truncate: req.TruncatePrompt, Output: req.MaxOutputTokens})
		reply.Truncated(dropped)
		return ids, err
	}
	var err error
	if req.ids, err = ids(); err == nil || req.Truncation != "auto" || !tooManyTokens(err) {
		return err
	}
	// The more turns go, the shorter the prompt: the first number of them that fits is
	// searched for, and rendered once more.
	all, starts := past.turns, oldTurns(past.turns)
	fits := sort.Search(len(starts), func(n int) bool {
		req.conv.Turns = without(all, starts, n)
		req.ids, err = ids()
		return err == nil || !tooManyTokens(err)
	})
	if fits == len(starts) {
		return err
	}
	req.conv.Turns = without(all, starts, fits)
	req.truncated = len(all) - len(req.conv.Turns)
	reply.Truncated(req.truncated)
	req.ids, err = ids()
	return err
}

// tooManyTokens reports whether a prompt was refused for its length.
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
func inputError(err error, past *history, asked *response.Request) error {
	problem, ok := errors.AsType[*chat.Error](err)
	if !ok {
		return err
	}
	switch {
	case problem.Turn >= 0 && problem.Turn < len(past.from) && past.from[problem.Turn] >= 0:
		return wire.Invalid(fmt.Sprintf("input[%d]", past.from[problem.Turn]), problem.Problem)
	case problem.Turn < 0 && problem.Tool >= 0:
		return wire.Invalid(asked.ToolPath(problem.Tool), problem.Problem)
	case problem.Tools: // what can be done about it is to send none
		return wire.Unsupported("tools", problem.Problem)
	case problem.Response:
		return wire.Invalid(asked.FormPlace("response_format.json_schema.schema"), problem.Problem)
	}
	return wire.Invalid("input", problem.Problem)
}
