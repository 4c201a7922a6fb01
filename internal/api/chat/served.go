package chat

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"

	"ossian/internal/api"
	"ossian/internal/generate"
	"ossian/internal/host"
	"ossian/internal/tools"
	"ossian/internal/wire"
)

// Tools that the server runs while it answers. A chat has no messages for them: what its client
// gets is the answer, where its parts are from, and what all of it took.

// offers returns what a request gets of the server's tools, and takes those that it asks for out
// of its others.
func (h *Handler) offers(ctx context.Context, reply *api.Reply, model *host.Model, req *wire.ChatRequest) ([]tools.Offer, error) {
	if h.front.Toolbox == nil {
		return nil, nil
	}
	known := len(req.Ignored)
	asked, err := req.TakeServed(h.front.Limits())
	if err != nil {
		return nil, err
	}
	if err := h.front.Unknown(reply, req.Ignored[known:]); err != nil {
		return nil, err
	}
	if err := refuse(asked); err != nil {
		return nil, err
	}
	shown := model.Format != nil && model.Format.Tools() // else tools that nobody asked for would be an error
	if req.ToolChoice.Mode == "none" || (asked == nil && !shown) || (asked != nil && len(asked) == 0) {
		return nil, nil
	}
	offered, err := h.front.Toolbox.Offers(ctx, asked, true)
	if err != nil {
		return nil, err
	}
	if err := h.front.Ignored(reply, offered.Ignored); err != nil {
		return nil, err
	}
	reply.Unavailable(offered.Listed)
	offers, err := unasked(offered.Offers, asked)
	if err != nil {
		return nil, err
	}
	return offers, checkChoice(req, offers, offered.Listed)
}

// refuse refuses what only conversations have that the server keeps.
func refuse(asked []wire.ServerTool) error {
	for i := range asked {
		if asked[i].Container != "" {
			return wire.Invalid(asked[i].Path+".container", `a chat begins with a new container: send {"type":"auto"}; /v1/responses goes on with those of earlier responses`)
		}
	}
	return nil
}

// unasked leaves out the tools of which the client wants to be asked before each call: a chat has
// no message for the question. Where nothing is left, the client has to say otherwise.
func unasked(offers []tools.Offer, asked []wire.ServerTool) (kept []tools.Offer, err error) {
	for _, offer := range offers {
		ask := offer.Approve
		if ask == nil {
			kept = append(kept, offer)
			continue
		}
		bare := len(offer.Namespace.Tools) == 0 // the namespace itself is called
		offer.Approve, offer.Namespace.Tools = nil, slices.DeleteFunc(slices.Clone(offer.Namespace.Tools), func(tool tools.Tool) bool { return ask(tool.Name) })
		if len(offer.Namespace.Tools) == 0 && (!bare || ask("")) {
			return nil, wire.Invalid(placeOf(&offer, asked)+".require_approval", `every call of this server would need your approval, for which a chat cannot ask: send "require_approval":"never", or use /v1/responses`)
		}
		kept = append(kept, offer)
	}
	return kept, nil
}

// placeOf returns where a request asks for what it is offered.
func placeOf(offer *tools.Offer, asked []wire.ServerTool) string {
	for i := range asked {
		if asked[i].Label == offer.Label && asked[i].Type == "mcp" {
			return asked[i].Path
		}
	}
	return "tools"
}

// checkChoice refuses a choice of tools that the request does not get.
func checkChoice(req *wire.ChatRequest, offers []tools.Offer, listed []api.Listed) error {
	for i := range req.ToolChoice.Served {
		if choice := &req.ToolChoice.Served[i]; len(api.Chosen(offers, choice)) == 0 {
			none := fmt.Sprintf("the request gets no tool of type %s%s: choose another", choice.Type, named(choice))
			return wire.Invalid(req.ChoiceField(), cmp.Or(api.Unusable(listed, choice), none))
		}
	}
	if len(offers) == 0 && len(req.Tools) == 0 && generate.MustCall(&req.ToolChoice) {
		return wire.Invalid(req.ChoiceField(), "a call is required, and none of the tools of the request can be used now")
	}
	return nil
}

// named says which server and tool of it a choice names.
func named(choice *wire.ServerChoice) string {
	switch {
	case choice.Label == "":
		return ""
	case choice.Name == "":
		return fmt.Sprintf(" of the server %.100q", choice.Label)
	}
	return fmt.Sprintf(" that is %.100q of the server %.100q", choice.Name, choice.Label)
}

// callable returns which of the server's tools may be called; nil = all that are offered.
func callable(req *wire.ChatRequest, offers []tools.Offer) []string {
	if choice := &req.ToolChoice; choice.Mode != "named" && choice.Allowed == nil {
		return nil
	}
	all := []string{}
	for i := range req.ToolChoice.Served {
		all = append(all, api.Chosen(offers, &req.ToolChoice.Served[i])...)
	}
	return all
}

// opener returns what opens the tools of a choice. Choices share no pages and no variables.
func (h *Handler) opener(caller *api.Caller, offers []tools.Offer) func(int) *tools.Box {
	id, owner := h.front.NewID("chat_"), "key "+strconv.FormatUint(uint64(caller.Tenant), 10)
	return func(choice int) *tools.Box {
		return h.front.Box(offers, tools.Chain{Owner: owner, ID: id + "_" + strconv.Itoa(choice)})
	}
}

// PromptIDs returns the ids of the prompt of a request, without room for an answer.
func (h *Handler) PromptIDs(ctx context.Context, w *api.Reply, model *host.Model, req *wire.ChatRequest) ([]int32, error) {
	offers, err := h.offers(ctx, w, model, req)
	if err != nil {
		return nil, err
	}
	prompt, err := h.service.Render(model, "messages", conversation(req, h.front.Clock(), offers))
	if err != nil {
		return nil, Unrenderable(err, req)
	}
	return prompt.IDs(), nil
}
