package api

import (
	"context"

	"ossian/internal/tools"
	"ossian/internal/wire"
)

// A Toolbox knows the tools that the server runs, and what becomes of a request's wish for some.
type Toolbox interface {
	// Offers returns the servers that a request asks for. What the request has no right to, or
	// says wrongly, is a *wire.Error; strict makes one of what is left out otherwise. It waits for
	// no server longer than 2 s.
	Offers(ctx context.Context, asked []wire.ServerTool, strict bool) (Offered, error)
}

// Offered is what a request gets of what it asked for.
type Offered struct {
	Offers  []tools.Offer
	Listed  []Listed // of each server that was asked for as mcp, in the order of the request
	Ignored []string // places in the request of what nothing here serves, for x-ossian-ignored
}

// Listed says what a server lists, or why it lists nothing.
type Listed struct {
	Label   string
	Tools   []tools.Tool // those that the request lets the model call
	Problem string       // in one line; "" = there is none
}
