package tools

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

// A Kind says as what the calls of a server are shown to clients.
type Kind uint8

// The kinds.
const (
	MCP     Kind = iota // mcp_call
	Browser             // web_search_call
	Python              // code_interpreter_call
)

// An Offer is a server that a request asks for.
type Offer struct {
	Server    Server
	Namespace Namespace              // what the model may call: what the server listed, less what the request leaves out
	Kind      Kind                   // as what the request asked for it
	Label     string                 // of mcp: the name that the request has for it
	Approve   func(tool string) bool // whether the client has to agree to a call; nil = never
}

// A Box is what one answer may use. Calls may run at the same time if they are Independent; its
// other methods may be called meanwhile, Close behind the last call.
type Box struct {
	// Observe is told of every call that has ended, with the recipient, by the goroutine of the call;
	// nil = nobody is.
	Observe func(recipient string, outcome Outcome, took time.Duration)

	offers []Offer
	chain  Chain

	mu       sync.Mutex                 // guards what follows
	sessions []Session                  // [offer]; nil = not used yet
	states   map[string]json.RawMessage // by the name of the server
	displays displays                   // of a browser elsewhere
}

// Open returns the box of an answer. The chain's state is what Box.State returned.
func Open(offers []Offer, chain Chain) *Box {
	box := &Box{offers: offers, sessions: make([]Session, len(offers)), chain: chain, states: map[string]json.RawMessage{}, displays: displays{}}
	if len(chain.State) > 0 {
		_ = json.Unmarshal(chain.State, &box.states) // of another version: sessions begin anew
		_ = json.Unmarshal(box.states[displaysState], &box.displays)
	}
	return box
}

// Offers returns what the box was opened with.
func (b *Box) Offers() []Offer { return b.offers }

// Find returns the offer that the recipient of a call belongs to, and the tool; nil = there is none.
func (b *Box) Find(recipient string) (offer *Offer, tool string) {
	space, tool, _ := strings.Cut(recipient, ".")
	for i := range b.offers {
		if b.offers[i].Namespace.Name == space {
			return &b.offers[i], tool
		}
	}
	return nil, ""
}

// Call runs a call and returns what it gave, in a form that can be shown to a model.
func (b *Box) Call(ctx context.Context, id, recipient, arguments string) Result {
	began := time.Now()
	result := b.call(ctx, id, recipient, arguments)
	result.Text, result.Output = printable(result.Text), printable(result.Output)
	if b.Observe != nil {
		b.Observe(recipient, result.Outcome, time.Since(began))
	}
	return result
}

func (b *Box) call(ctx context.Context, id, recipient, arguments string) Result {
	offer, tool := b.Find(recipient)
	if offer == nil || !offer.has(tool) {
		return Result{Outcome: Misused, Text: fmt.Sprintf("Error: tool %.100s is not available. Available tools: %s", recipient, strings.Join(b.recipients(), ", "))}
	}
	session := b.session(offer)
	result := session.Call(ctx, Call{ID: id, Tool: tool, Arguments: arguments})
	if _, cites := session.(Citer); offer.Kind == Browser && !cites && result.Action == nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		result.Action = b.displays.note(tool, arguments, result.Text)
	}
	return result
}

// Independent reports whether calls of two recipients may run at the same time: those of different
// servers, and of one server of MCP those of tools that change nothing. A browser has its cursors,
// and Python its variables.
func (b *Box) Independent(one, other string) bool {
	offer, tool := b.Find(one)
	second, name := b.Find(other)
	if offer == nil || second == nil || offer != second {
		return true // a call of nobody gets an error
	}
	if offer.Kind != MCP || !offer.readOnly(tool) || !offer.readOnly(name) {
		return false
	}
	_, ok := b.session(offer).(Parallel)
	return ok
}

// readOnly reports whether a tool changes nothing.
func (o *Offer) readOnly(tool string) bool {
	for i := range o.Namespace.Tools {
		if o.Namespace.Tools[i].Name == tool {
			return o.Namespace.Tools[i].ReadOnly
		}
	}
	return false
}

// has reports whether the namespace has a tool, "" for itself.
func (o *Offer) has(tool string) bool {
	if len(o.Namespace.Tools) == 0 {
		return tool == ""
	}
	for i := range o.Namespace.Tools {
		if o.Namespace.Tools[i].Name == tool {
			return true
		}
	}
	return false
}

// recipients returns whom calls can go to.
func (b *Box) recipients() (all []string) {
	for i := range b.offers {
		space := &b.offers[i].Namespace
		if len(space.Tools) == 0 {
			all = append(all, space.Name)
		}
		for k := range space.Tools {
			all = append(all, space.Name+"."+space.Tools[k].Name)
		}
	}
	return all
}

// session returns that of an offer of the box.
func (b *Box) session(offer *Offer) Session {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range b.offers {
		if &b.offers[i] != offer {
			continue
		}
		if b.sessions[i] == nil {
			own := b.chain
			own.State = b.states[offer.Server.Name()]
			b.sessions[i] = offer.Server.Open(own)
		}
		return b.sessions[i]
	}
	return nil
}

// Cite returns the page that a citation is of: the displays are those of the browser, the server's
// own or one elsewhere.
func (b *Box) Cite(cursor, line int) (Source, bool) {
	for i := range b.offers {
		if b.offers[i].Kind != Browser {
			continue
		}
		if citer, ok := b.session(&b.offers[i]).(Citer); ok {
			return citer.Cite(cursor, line)
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		source, ok := b.displays[cursor]
		return source, ok
	}
	return Source{}, false
}

// State returns what the next response of the chain is opened with; nil = nothing.
func (b *Box) State() json.RawMessage {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, session := range b.sessions {
		if session != nil {
			b.states[b.offers[i].Server.Name()] = session.State()
		}
	}
	if len(b.displays) > 0 {
		b.states[displaysState], _ = json.Marshal(b.displays) // of strings
	}
	if len(b.states) == 0 {
		return nil
	}
	state, _ := json.Marshal(b.states) // of valid JSON
	return state
}

// Close ends the sessions.
func (b *Box) Close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, session := range b.sessions {
		if session != nil {
			session.Close()
		}
	}
}

// printable returns text as models and clients may see it: valid UTF-8, and of the control
// characters only tabs and line breaks; others would do something in a terminal.
func printable(text string) string {
	shown := func(r rune) bool {
		return r == '\n' || r == '\t' || (r >= ' ' && r != 0x7f && (r < 0x80 || r > 0x9f))
	}
	if utf8.ValidString(text) && strings.IndexFunc(text, func(r rune) bool { return !shown(r) }) < 0 {
		return text
	}
	text = strings.ReplaceAll(strings.ToValidUTF8(text, "\ufffd"), "\r\n", "\n")
	return strings.Map(func(r rune) rune {
		if shown(r) {
			return r
		}
		return '\ufffd'
	}, text)
}
