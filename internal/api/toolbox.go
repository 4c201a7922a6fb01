package api

import (
	"cmp"
	"context"
	"fmt"

	"ossian/internal/chat"
	"ossian/internal/tools"
	"ossian/internal/wire"
)

// A Toolbox knows the tools that the server runs, and what becomes of a request's wish for some.
type Toolbox interface {
	// Offers returns the servers that a request asks for; nil = it says nothing of tools at all.
	// What the request has no right to, or says wrongly, is a *wire.Error; strict makes one of what
	// is left out otherwise. It waits for no server longer than 2 s.
	Offers(ctx context.Context, asked []wire.ServerTool, strict bool) (Offered, error)
}

// Offered is what a request gets of what it asked for.
type Offered struct {
	Offers  []tools.Offer
	Listed  []Listed // of each server that was asked for as mcp, in the order of the request
	Ignored []string // for x-ossian-ignored: what nothing here serves (tools.web_search), or has (tools[0].allowed_tools)
}

// Listed says what a server lists, or why it lists nothing.
type Listed struct {
	Label   string
	Tools   []tools.Tool // those that the request lets the model call
	Problem string       // in one line; "" = there is none
}

// Unusable says why a server that a tool choice names offers nothing now; "" = it does, or nobody
// asked for it.
func Unusable(listed []Listed, choice *wire.ServerChoice) string {
	for i := range listed {
		if of := &listed[i]; of.Problem != "" && of.Label == cmp.Or(choice.Label, choice.Type) {
			return fmt.Sprintf("the server %.100q cannot be used now: %s", of.Label, of.Problem)
		}
	}
	return ""
}

// Namespaces returns offers as models are told of them.
func Namespaces(offers []tools.Offer) (all []chat.Namespace) {
	for i := range offers {
		space := &offers[i].Namespace
		told := chat.Namespace{Name: space.Name, Description: space.Description}
		for k := range space.Tools {
			tool := &space.Tools[k]
			told.Tools = append(told.Tools, chat.Tool{Name: tool.Name, Description: tool.Description, Parameters: tool.Parameters, Unshown: tool.Unshown})
		}
		all = append(all, told)
	}
	return all
}

// Chosen returns the recipients of calls that a tool choice names; none = it is not offered.
func Chosen(offers []tools.Offer, choice *wire.ServerChoice) (recipients []string) {
	for i := range offers {
		offer := &offers[i]
		if kindOf(choice.Type) != offer.Kind || (offer.Kind == tools.MCP && offer.Label != choice.Label) {
			continue
		}
		if choice.Name == "" {
			recipients = append(recipients, offer.Namespace.Name)
		}
		for k := range offer.Namespace.Tools {
			if offer.Namespace.Tools[k].Name == choice.Name {
				recipients = append(recipients, offer.Namespace.Name+"."+choice.Name)
			}
		}
	}
	return recipients
}

// kindOf is the kind of a type of tool that the server runs.
func kindOf(kind string) tools.Kind {
	switch kind {
	case "mcp":
		return tools.MCP
	case "code_interpreter":
		return tools.Python
	}
	return tools.Browser
}
