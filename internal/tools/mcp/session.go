package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"ossian/internal/limits"
	"ossian/internal/tools"
)

// grace is how long a call that has to end may take for telling the server.
const grace = 500 * time.Millisecond

// A session is the calls of one answer. They share a connection that no other conversation has, and
// may run on it at the same time.
type session struct {
	server *Server
	chain  tools.Chain

	dialling sync.Mutex  // held while a connection is looked for, so that one is made
	mu       sync.Mutex  // guards what follows
	conn     *connection // nil = none yet, or it was of no more use
	calls    int
}

// Parallel implements tools.Parallel.
func (s *session) Parallel() {}

// State implements tools.Session. What a server keeps is kept with the connection.
func (s *session) State() json.RawMessage { return nil }

// Close implements tools.Session.
func (s *session) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn == nil {
		return
	}
	if !s.chain.Kept || !s.server.keep(s.chain, s.conn) {
		s.server.finish(s.conn)
	}
	s.conn = nil
}

// Call implements tools.Session.
func (s *session) Call(ctx context.Context, call tools.Call) tools.Result {
	name, arguments, err := argumentsOf(call)
	if err != nil {
		text := fmt.Sprintf("Invalid JSON arguments: %v. Send the call again with valid JSON.", err)
		return tools.Result{Text: text, Outcome: tools.Misused, Failure: &tools.Failure{Type: "mcp_protocol_error", Code: invalidParams, Message: text}}
	}
	s.mu.Lock()
	s.calls++
	token := "call-" + strconv.Itoa(s.calls)
	s.mu.Unlock()
	quiet := s.server.opts.Limits().Time(limits.ToolTime)
	ctx, clock, stop := newClock(ctx, token, quiet)
	defer stop()
	result, why := s.run(ctx, clock, name, arguments)
	if why == nil {
		return *result
	}
	gave := failed(ctx, name, quiet, why)
	if s.server.spec.command != nil { // there is no HTTP in it
		gave.Failure.Type = "mcp_protocol_error"
	}
	return gave
}

// argumentsOf returns the tool that is meant and its arguments as a JSON object. A namespace
// without tools is called with code.
func argumentsOf(call tools.Call) (name string, arguments json.RawMessage, err error) {
	if call.Tool == "" {
		arguments, err = json.Marshal(map[string]string{"code": call.Arguments})
		return pythonName, arguments, err
	}
	// What models write may be broken text: JSON wants UTF-8.
	text := strings.TrimSpace(strings.ToValidUTF8(call.Arguments, "\ufffd"))
	if text == "" {
		text = "{}"
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &members); err != nil {
		var kind *json.UnmarshalTypeError
		if errors.As(err, &kind) {
			err = fmt.Errorf("they are a JSON %s and should be an object", kind.Value)
		}
		return "", nil, err
	}
	if members == nil {
		return "", nil, errors.New("they are null and should be an object")
	}
	return call.Tool, json.RawMessage(text), nil
}

// run sends a call. A server that has forgotten the connection, or is there again, gets it once more.
func (s *session) run(ctx context.Context, clock *clock, name string, arguments json.RawMessage) (*tools.Result, *fault) {
	for again := false; ; again = true {
		conn, why := s.connection(ctx)
		if why != nil {
			return nil, why
		}
		params := &sdk.CallToolParams{Name: name, Arguments: arguments}
		params.SetProgressToken(clock.token)
		var result *tools.Result
		conn.run(clock, func() { result, why = conn.call(ctx, params) })
		if why == nil {
			return result, nil
		}
		// An answer that is an error says that the connection is well.
		if why.kind != answered && why.kind != dropped {
			s.drop(conn)
		}
		// Only what the server surely did not act on is sent twice.
		if again || !why.unheard || ctx.Err() != nil {
			return nil, why
		}
	}
}

// connection returns that of the session: the one it has, the one that an earlier answer of the
// conversation had, or a new one.
func (s *session) connection(ctx context.Context) (*connection, *fault) {
	s.dialling.Lock()
	defer s.dialling.Unlock()
	// A session that is open has its connection a moment longer than the server is used: the
	// connection's end comes by its context.
	if s.server.unused() {
		return nil, &fault{kind: away, text: noMore}
	}
	s.mu.Lock()
	if s.conn == nil {
		s.conn = s.server.take(s.chain)
	}
	conn := s.conn
	s.mu.Unlock()
	// Dialling takes long: mu is not held meanwhile, dialling is, so that calls share what comes of
	// it.
	if conn != nil {
		if conn.alive() {
			return conn, nil
		}
		s.drop(conn)
	}
	conn, err := dialer{server: s.server, chain: s.chain.ID}.dial(ctx)
	if err != nil {
		var why *fault
		if !errors.As(err, &why) {
			why = &fault{kind: away, text: "it cannot be reached"}
		}
		return nil, why
	}
	s.mu.Lock()
	s.conn = conn
	s.mu.Unlock()
	return conn, nil
}

// drop ends a connection that is of no more use, once.
func (s *session) drop(conn *connection) {
	s.mu.Lock()
	dropped := s.conn == conn
	if dropped {
		s.conn = nil
	}
	s.mu.Unlock()
	if dropped {
		s.server.drop(conn)
	}
}

// call sends one call and waits for its end, or for that of ctx and a little longer.
func (c *connection) call(ctx context.Context, params *sdk.CallToolParams) (*tools.Result, *fault) {
	type end struct {
		result *tools.Result
		why    *fault
	}
	done := make(chan end, 1)
	ctx, exchange := newExchange(ctx)
	go func() {
		result, why := c.send(ctx, exchange, params)
		done <- end{result, why}
	}()
	select {
	case ended := <-done:
		return ended.result, ended.why
	case <-ctx.Done():
	}
	late := time.After(grace)
	select {
	case ended := <-done:
		// The other goroutine may still be telling the server that the call is cancelled.
		if ended.why != nil {
			select {
			case <-exchange.told:
			case <-late:
			}
		}
		return ended.result, ended.why
	case <-late: // what is sent is not taken, as by a process that does not read
		c.cut()
		return nil, c.fault(ctx, exchange, ctx.Err())
	}
}

// send sends a call, and once more where the server wants to ask a user something first.
func (c *connection) send(ctx context.Context, exchange *exchange, params *sdk.CallToolParams) (*tools.Result, *fault) {
	for declined := false; ; declined = true {
		_, err := c.session.CallTool(ctx, params)
		if err != nil {
			why := c.fault(ctx, exchange, err)
			why.unheard = unheard(exchange.seen(), err)
			return nil, why
		}
		answer, why := readAnswer(exchange.seen().raw)
		if why != nil {
			return nil, why
		}
		if answer.Type != "input_required" {
			result := answer.result()
			return &result, nil
		}
		// A question to the user is declined once; who asks again gets an error.
		responses, ok := answer.declined()
		if !ok || declined {
			return nil, &fault{kind: answered, text: "it asks for input that is not given here"}
		}
		params.InputResponses, params.RequestState = responses, answer.RequestState
	}
}

// unheard reports whether the server cannot have run a call.
func unheard(seen wire, err error) bool {
	return seen.status == http.StatusNotFound || (seen.answer == nil && errors.Is(err, sdk.ErrConnectionClosed)) ||
		(seen.sent != nil && unsent(seen.sent))
}

// failed is the result of a call that gave none.
func failed(ctx context.Context, name string, quiet time.Duration, why *fault) tools.Result {
	result := tools.Result{Outcome: tools.Broken}
	switch {
	case why.kind == dropped:
		result.Outcome = tools.Cancelled
	case why.kind == silent:
		result.Outcome = tools.TimedOut
		if context.Cause(ctx) == errLate {
			why.text = fmt.Sprintf("it said nothing for %v", quiet)
		}
	case why.kind == answered && why.code == invalidParams:
		result.Outcome = tools.Misused
	case why.kind == answered:
		result.Outcome = tools.Failed
	}
	result.Failure = why.failure()
	result.Text = fmt.Sprintf("Error calling tool %.100s: %s", name, why.text)
	return result
}

// cleanup is the tool by which servers are told that a conversation has ended.
const cleanup = "cleanup_session"

// finish ends a connection in the background, and tells the server where that lists a tool for it.
func (s *Server) finish(conn *connection) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.finishing(conn)
}

// finishing is finish where the server's mutex is held.
func (s *Server) finishing(conn *connection) {
	cleans := s.listed != nil && s.listed.cleans
	s.background(conn, func() {
		if conn.alive() && cleans {
			ctx, cancel := context.WithTimeout(s.life, patience)
			_, _ = conn.call(ctx, &sdk.CallToolParams{Name: cleanup, Arguments: json.RawMessage("{}")}) // nobody reads what it says
			cancel()
		}
		conn.close()
	})
}

// drop ends a connection that is of no more use.
func (s *Server) drop(conn *connection) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.background(conn, conn.close)
}

// background has the end of a connection waited for by Close. Behind that connections are cut first,
// and servers are told nothing. The mutex is held.
func (s *Server) background(conn *connection, end func()) {
	if s.closed {
		conn.cut()
		conn.close()
		return
	}
	s.ending.Go(end)
}
