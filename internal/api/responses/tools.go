package responses

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"ossian/internal/api"
	"ossian/internal/generate"
	"ossian/internal/tools"
	"ossian/internal/wire"
)

// offer finds out which tools of the server a request gets. With tool_choice none it gets none.
func (h *Handler) offer(ctx context.Context, reply *api.Reply, req *request) error {
	asked := req.ServerTools
	if h.front.Toolbox == nil || req.ToolChoice.Mode == "none" || (asked != nil && len(asked) == 0) {
		return req.checkChoices()
	}
	offered, err := h.front.Toolbox.Offers(ctx, asked, h.front.Strict)
	if err != nil {
		return err
	}
	if err := h.front.Ignored(reply, offered.Ignored); err != nil {
		return err
	}
	req.offers, req.listed = offered.Offers, offered.Listed
	req.Show(func(tool *wire.ServerTool) bool {
		listed := func(l api.Listed) bool { return tool.Type == "mcp" && l.Label == tool.Label }
		return slices.ContainsFunc(req.listed, listed) || slices.ContainsFunc(req.offers, func(offer tools.Offer) bool { return isOf(&offer, tool.Type, tool.Label) })
	})
	return req.checkChoices()
}

// foreign returns where the request names a container that is not its conversation's: its code runs
// in that, or in a new one.
func (req *request) foreign() (places []string) {
	for i := range req.ServerTools {
		if tool := &req.ServerTools[i]; tool.Container != "" && tool.Container != req.container {
			places = append(places, tool.Path+".container")
		}
	}
	return places
}

// isOf reports whether an offer is of a tool that a request names so.
func isOf(offer *tools.Offer, kind, label string) bool {
	switch kind {
	case "mcp":
		return offer.Kind == tools.MCP && offer.Label == label
	case "code_interpreter":
		return offer.Kind == tools.Python
	}
	return offer.Kind == tools.Browser
}

// checkChoices refuses a choice of tools that the request does not get.
func (req *request) checkChoices() error {
	for i := range req.ToolChoice.Served {
		if choice := &req.ToolChoice.Served[i]; len(req.chosen(choice)) == 0 {
			if problem := api.Unusable(req.listed, choice); problem != "" {
				return wire.Invalid("tool_choice", problem)
			}
			if req.askedFor(choice.Type) { // and it is not there
				return wire.Unserved(choice.Type, "tool_choice")
			}
			name := choice.Type
			for _, part := range []string{choice.Label, choice.Name} {
				if part != "" {
					name += " " + part
				}
			}
			return wire.Invalid("tool_choice", fmt.Sprintf("the request has no tool %.200s that the server could run: name it in tools, or choose another", name))
		}
	}
	if len(req.ServerTools) > 0 && len(req.offers) == 0 && len(req.Tools) == 0 && generate.MustCall(&req.ToolChoice) {
		return wire.Invalid("tool_choice", "a call is required, and the server has none of the tools of the request")
	}
	return nil
}

// askedFor reports whether a type of tools without labels is among the request's.
func (req *request) askedFor(kind string) bool {
	return kind != "mcp" && slices.ContainsFunc(req.ServerTools, func(tool wire.ServerTool) bool { return tool.Type == kind })
}

// chosen returns the recipients that a choice is of.
func (req *request) chosen(choice *wire.ServerChoice) (recipients []string) {
	for i := range req.offers {
		offer := &req.offers[i]
		has := func(tool tools.Tool) bool { return tool.Name == choice.Name }
		switch space := &offer.Namespace; {
		case !isOf(offer, choice.Type, choice.Label):
		case choice.Name == "":
			recipients = append(recipients, space.Name)
		case slices.ContainsFunc(space.Tools, has):
			recipients = append(recipients, space.Name+"."+choice.Name)
		}
	}
	return recipients
}

// callable returns which of the server's tools may be called: nil = all.
func (req *request) callable() []string {
	choice := &req.ToolChoice
	if choice.Mode != "named" && choice.Allowed == nil {
		return nil
	}
	all := []string{}
	for i := range choice.Served {
		all = append(all, req.chosen(&choice.Served[i])...)
	}
	return all
}

// pending takes the calls to which the client has agreed, or has not.
func (req *request) pending(answered []*question) error {
	for _, asked := range answered {
		offered := func(offer tools.Offer) bool {
			space, _, _ := strings.Cut(asked.recipient, ".")
			return offer.Namespace.Name == space
		}
		if !slices.ContainsFunc(req.offers, offered) {
			return wire.Invalid(asked.path, fmt.Sprintf("the call is one of the server %.100q, which is not among the tools of this request: send the tool again", asked.label))
		}
		req.answered = append(req.answered, generate.Pending{Recipient: asked.recipient, Arguments: asked.arguments, ID: asked.id, Declined: !asked.agreed, Reason: asked.reason})
	}
	return nil
}

// builtin returns what the answer to a request may call of the server; nil = nothing. id is the
// response's.
func (req *request) builtin(front *api.Front, id string) *generate.Builtin {
	if len(req.offers) == 0 {
		return nil
	}
	offers, chain := req.offers, tools.Chain{Owner: req.owner, ID: id, State: req.state, Kept: req.store}
	if req.root != "" {
		chain.ID = req.root
	}
	return &generate.Builtin{Conversation: req.conv, Rules: *req.rules, Places: req.places, Open: func(int) *tools.Box { return front.Box(offers, chain) },
		Pending: req.answered, MaxCalls: req.MaxToolCalls, Waits: !req.Background, Links: front.CitationLinks}
}
