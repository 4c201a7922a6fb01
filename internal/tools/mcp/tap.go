package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// maxAsked is how many requests of a server may wait for an answer.
const maxAsked = 64

// A tap stands between the SDK and a transport and sees messages as they came: the SDK's types have
// no place for some members of a tool, and refuse contents that are new to them.
type tap struct {
	sdk.Connection
	conn *connection

	mu      sync.Mutex // guards what follows
	waiting map[jsonrpc.ID]sent
	asked   int // requests of the server without an answer
}

// A sent request.
type sent struct {
	*exchange
	method string
}

// Write implements sdk.Connection.
func (t *tap) Write(ctx context.Context, msg jsonrpc.Message) error {
	req, isRequest := msg.(*jsonrpc.Request)
	switch {
	case !isRequest:
		t.mu.Lock()
		t.asked--
		t.mu.Unlock()
	case req.Method == "notifications/cancelled":
		return t.cancel(ctx, req)
	case req.IsCall():
		t.mu.Lock()
		t.waiting[req.ID] = sent{exchangeOf(ctx), req.Method}
		t.mu.Unlock()
	}
	err := t.Connection.Write(ctx, msg)
	if seen := exchangeOf(ctx).seen(); err != nil && ctx.Err() == nil && seen.sent == nil && seen.status/100 == 2 {
		t.conn.broke(errNonsense) // such as a page for people
	}
	if err != nil && ctx.Err() == nil && isRequest && req.IsCall() { // else it is cancelled next
		t.take(req.ID)
	}
	return err
}

// cancel tells the server that nobody waits for a call any more. Since 2026 the end of the stream
// says so.
func (t *tap) cancel(ctx context.Context, req *jsonrpc.Request) error {
	var params struct {
		RequestID any `json:"requestId"`
	}
	_ = json.Unmarshal(req.Params, &params) // the SDK wrote it
	id, _ := jsonrpc.MakeID(params.RequestID)
	call, ok := t.take(id)
	if ok {
		defer call.cancelled()
	}
	if t.conn.way.transport == streamable && t.conn.version() >= stateless {
		return nil
	}
	return t.Connection.Write(ctx, req)
}

func (t *tap) take(id jsonrpc.ID) (sent, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	call, ok := t.waiting[id]
	delete(t.waiting, id)
	return call, ok
}

// Read implements sdk.Connection.
func (t *tap) Read(ctx context.Context) (jsonrpc.Message, error) {
	msg, err := t.Connection.Read(ctx)
	if err != nil {
		if !ended(err) && ctx.Err() == nil && !errors.Is(err, sdk.ErrSessionMissing) {
			t.conn.broke(errNonsense)
		}
		return nil, err
	}
	switch msg := msg.(type) {
	case *jsonrpc.Request:
		if msg.IsCall() && !t.ask() {
			t.conn.broke(errNonsense)
			return nil, errNonsense
		}
	case *jsonrpc.Response:
		return t.response(msg), nil
	}
	return msg, nil
}

func (t *tap) ask() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.asked++
	return t.asked <= maxAsked
}

// response hands a result to whom it is for. Of a call the SDK gets an empty one.
func (t *tap) response(msg *jsonrpc.Response) jsonrpc.Message {
	call, ok := t.take(msg.ID)
	if !ok {
		return msg
	}
	if msg.Error != nil {
		answer, _ := msg.Error.(*jsonrpc.Error) // else the SDK's own, for a stream that ended
		if answer == nil && call.method == "subscriptions/listen" {
			t.conn.unheard()
		}
		call.note(func(w *wire) { w.answer = answer })
		return msg
	}
	call.note(func(w *wire) { w.raw = msg.Result })
	switch call.method {
	case "initialize":
		var result struct {
			ProtocolVersion string `json:"protocolVersion"`
		}
		_ = json.Unmarshal(msg.Result, &result) // the SDK says what is wrong with it
		t.conn.speaks(result.ProtocolVersion)
	case "tools/call":
		empty := *msg
		empty.Result = json.RawMessage(`{"content":[]}`)
		return &empty
	}
	return msg
}
