package api

import (
	"time"

	"ossian/internal/tools"
)

// Box opens what one answer may use of what its request was offered. Its calls are counted.
func (f *Front) Box(offers []tools.Offer, chain tools.Chain) *tools.Box {
	box := tools.Open(offers, chain)
	box.Observe = func(recipient string, outcome tools.Outcome, took time.Duration) {
		f.Metrics.ToolCall(toolLabel(box, recipient), outcome.String(), took)
	}
	return box
}

// toolLabel names a tool in metrics: a function of the browser, else a server that is configured.
// Names that a model or a request made up are no labels.
func toolLabel(box *tools.Box, recipient string) string {
	offer, tool := box.Find(recipient)
	if offer == nil {
		return "unknown"
	}
	name := offer.Server.Status().Name
	if offer.Kind == tools.Browser && (tool == "search" || tool == "open" || tool == "find") {
		return name + "." + tool
	}
	if name == "" { // of the request's own
		return "mcp"
	}
	return name
}

// ToolStatus says how the tools are that the server runs, where its toolbox knows.
func (f *Front) ToolStatus() []tools.Status {
	if box, ok := f.Toolbox.(interface{ Status() []tools.Status }); ok {
		return box.Status()
	}
	return nil
}
