// Package tools is what the server itself does for a model while it answers: it browses, runs
// Python, and calls servers of the Model Context Protocol. This package has what these have in
// common and nothing of how any of them works; each is a package below.
//
// A request asks for some servers (Offer); for each of its answers they are opened together (Box).
// The model sees their namespaces in its prompt, and calls go to the session of the server that was
// meant. What a call gives is a Result: text for the model, and what the client is shown of it.
//
//	Server → Offer, by the request → Box, for one answer → Session → Result
//
// Whatever comes from a tool is data: it is never read as the model's markup, never part of an
// error that ends the request, and no longer than the limits allow.
package tools

import (
	"context"
	"encoding/json"
)

// A Namespace is how a server shows itself to a model.
type Namespace struct {
	Name        string // an identifier: recipients of calls are "NAME.TOOL", or "NAME" where it has no tools
	Description string // text behind which the tools are declared
	Tools       []Tool // in the order in which they are declared; none: the namespace itself is called
}

// A Tool is one function of a namespace.
type Tool struct {
	Name        string // as the server knows it
	Description string
	Parameters  json.RawMessage // JSON schema as prompts declare it; nil = no parameters
	Listed      json.RawMessage // the schema as the server listed it, for clients; nil = Parameters
	Annotations json.RawMessage // what the server says of it, for clients; nil = nothing
	Unshown     bool            // may be called and is not declared
	ReadOnly    bool            // by its own word it changes nothing
}

// A Server offers one namespace. Its methods may be called by any goroutine.
type Server interface {
	// Name is the name by which requests ask for the server.
	Name() string
	// Namespace returns what it offers, or in one line why it offers nothing now. It waits for a
	// server that is far away no longer than 2 s, whatever ctx allows.
	Namespace(ctx context.Context) (Namespace, error)
	// Open begins a session, or goes on with one. It takes no time: what a session needs is
	// started by its first call.
	Open(chain Chain) Session
	// Status says whether it works.
	Status() Status
}

// A Chain is the conversation that a session belongs to: the responses that go on from one another.
type Chain struct {
	Owner string          // whose it is: sessions of one owner are never another's; "" = nobody's
	ID    string          // the same for all responses of the chain, and for no others
	State json.RawMessage // what Session.State returned behind the response before; nil = this is the first
	Kept  bool            // another response may go on from this one: what State cannot hold is kept for a while
}

// A Session is what the calls of one answer have in common. One goroutine at a time calls it, but
// for what Parallel says.
type Session interface {
	// Call runs one call. It ends at the latest a second behind ctx. Whatever goes wrong is in the
	// result, which the model gets to read.
	Call(ctx context.Context, call Call) Result
	// State returns what the next response of the chain goes on with; nil = nothing.
	State() json.RawMessage
	// Close ends the session: at once, or where the chain is kept, later.
	Close()
}

// A Parallel is a session of which calls of tools that change nothing (Tool.ReadOnly) may run at
// the same time, in any number.
type Parallel interface{ Parallel() }

// A Citer is a session of which displays can be cited (api.md 3.7).
type Citer interface {
	// Cite returns the page that a display shows, given the first line that is cited, from 0; -1 =
	// none is. It is not found where there is no such display, or none of one page.
	Cite(cursor, line int) (Source, bool)
}

// A Call is one call of a tool.
type Call struct {
	ID        string // of this call alone
	Tool      string // "" = the namespace itself
	Arguments string // as the model wrote them: JSON, or text for a namespace without tools
}

// A Result is what a call gave.
type Result struct {
	Text      string   // for the model; valid UTF-8, without control characters but tabs and line breaks
	Output    string   // for the client, where that is more than Text; "" = Text
	Outcome   Outcome  //
	Failure   *Failure // what clients are told of a call that has failed; nil = it has not
	Action    *Action  // of a browser: what was done
	Container string   // of an interpreter: which
}

// An Outcome says how a call ended, in the words of the metrics.
type Outcome uint8

// The outcomes.
const (
	Done      Outcome = iota
	Failed            // the tool says that it could not
	Misused           // the model's call makes no sense: arguments, names
	TimedOut          // the limit of a call was reached
	Cancelled         // nobody wants the result any more
	Broken            // the server of the tool could not be reached, or does not keep its protocol
)

// String returns the outcome as metrics have it.
func (o Outcome) String() string {
	return [...]string{"ok", "failed", "misused", "timeout", "cancelled", "broken"}[o]
}

// A Failure says in the words of the Responses API why a call has failed.
type Failure struct {
	Type    string // mcp_tool_execution_error, http_error or mcp_protocol_error
	Code    int    // of HTTP or JSON-RPC; 0 = none
	Message string
}

// An Action says what a browser did.
type Action struct {
	Type    string   // search, open_page or find_in_page
	Query   string   // search
	Pattern string   // find_in_page
	URL     string   // open_page, find_in_page: the page
	Sources []Source // search: what was found
}

// A Source is a page of the web.
type Source struct{ URL, Title string }

// A Status says how a server is, for operators.
type Status struct {
	Name    string `json:"name"`
	Kind    string `json:"kind"`              // browser, python or mcp
	Backend string `json:"backend,omitempty"` // which of several ways; of mcp: the transport and version
	Address string `json:"address,omitempty"` // of mcp, without secrets
	Works   bool   `json:"works"`
	Problem string `json:"problem,omitempty"` // why it does not, and what would help
	Tools   int    `json:"tools"`             // how many were listed
}
