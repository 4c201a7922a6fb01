package api

import (
	"context"

	"ossian/internal/tools"
	"ossian/internal/wire"
)

// A Toolbox knows which tools the server itself runs. Handlers know none of them: they hand on
// what a request asks for, and get what its answers may use.
type Toolbox interface {
	// Offers returns what a request gets of the tools that it asks for; nil = it says nothing of
	// tools. The error is a *wire.Error, with the place in the request. With strict, what is not
	// there is an error; else it is left out and named.
	Offers(ctx context.Context, asked []wire.ServerTool, strict bool) (Offered, error)
}

// An Offered is what a request gets.
type Offered struct {
	Offers  []tools.Offer
	Listed  []Listed
	Ignored []string // what was left out, as x-ossian-ignored has it: tools.web_search
}

// A Listed is what a server of the Model Context Protocol has, for the client.
type Listed struct {
	Label   string // the request's name for the server
	Tools   []tools.Tool
	Problem string // why there are none, in one line; "" = there are
}
