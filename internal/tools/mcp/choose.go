package mcp

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// A dialer makes connections to one server.
type dialer struct {
	server *Server
	chain  string // of the conversation; "" = it is for none
	watch  bool   // whether changes of the tools are wanted
}

// dial connects in the way that worked before, else in the first that does.
func (d dialer) dial(ctx context.Context) (*connection, error) {
	server := d.server
	if way := server.choice(); way != nil {
		conn, err := d.connect(ctx, *way)
		if err == nil || !refused(err) {
			return conn, err
		}
		server.choose(nil)
	}
	var first error
	for _, way := range server.spec.ways {
		conn, err := d.connectAny(ctx, way)
		if err == nil {
			way.version = ""
			if conn.version() < stateless {
				way.version = handshakes
			}
			server.choose(&way)
			return conn, nil
		}
		// A refusal means that the way is wrong; any other error would be the same on every way.
		if !refused(err) {
			return nil, err
		}
		if first == nil {
			first = err
		}
	}
	return nil, first
}

// connectAny connects with the newest version of the protocol, and where that meets silence or
// nonsense, with the last of before.
func (d dialer) connectAny(ctx context.Context, way way) (*connection, error) {
	first, cancel := context.WithTimeout(ctx, discovery)
	conn, err := d.connect(first, way)
	cancel()
	var why *fault
	if err == nil || ctx.Err() != nil || !errors.As(err, &why) || (why.kind != silent && why.kind != nonsense) {
		return conn, err
	}
	way.version = handshakes
	return d.connect(ctx, way)
}

// connect makes one connection. An error is a *fault.
func (d dialer) connect(ctx context.Context, w way) (*connection, error) {
	conn := &connection{way: w, born: time.Now(), limits: d.server.opts.Limits(), dead: make(chan struct{}), changed: make(chan struct{}, 1), pages: map[string][]byte{}, clocks: map[string]*clock{}}
	ctx, exchange := newExchange(ctx)
	// The connection outlives the call that opens it: it ends with the server, or when it is cut.
	// Until it stands it ends with the call too.
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	unused := context.AfterFunc(d.server.life, cancel)
	conn.life, conn.cut = life, func() { unused(); cancel() }
	transport, err := d.transport(conn)
	if err != nil {
		conn.cut()
		return nil, &fault{kind: away, text: "its address is no URL"}
	}
	conn.open = transport
	stop := context.AfterFunc(ctx, conn.cut)
	conn.session, err = newProtocol(conn, d.server.opts.Version, d.watch).Connect(ctx, conn, &sdk.ClientSessionOptions{ProtocolVersion: w.version})
	if err == nil && !stop() {
		err = context.Cause(ctx)
	}
	if err != nil {
		why := conn.fault(ctx, exchange, err)
		if why.kind == silent {
			why.text = fmt.Sprintf("it did not answer initialize in %.0f s", time.Since(conn.born).Seconds())
		}
		conn.abandon()
		return nil, why
	}
	conn.speaks(conn.session.InitializeResult().ProtocolVersion)
	go func() {
		_ = conn.session.Wait()
		close(conn.dead)
	}()
	return conn, nil
}

// transport returns how messages of a connection travel.
func (d dialer) transport(conn *connection) (func(context.Context) (sdk.Connection, error), error) {
	if conn.way.transport == stdio {
		return func(context.Context) (sdk.Connection, error) { return startProcess(conn, d.server.spec.command) }, nil
	}
	header := d.server.opts.Header.Clone()
	if header == nil {
		header = http.Header{}
	}
	if token := d.server.opts.Authorization; token != "" {
		header.Set("Authorization", "Bearer "+token)
	}
	if d.chain != "" {
		header.Set("X-Session-Id", d.chain)
	}
	client, err := newClient(conn, d.server.opts.Client, conn.way.url, header)
	if err != nil {
		return nil, err
	}
	size := int(messageBytes(conn.limits)) * 2 // the courier's bound comes first and says what it was
	if conn.way.transport == events {
		carrier := &sdk.SSEClientTransport{Endpoint: conn.way.url, HTTPClient: client, MaxEventSize: size}
		return func(context.Context) (sdk.Connection, error) { return carrier.Connect(conn.life) }, nil // the stream lives as long
	}
	carrier := &sdk.StreamableClientTransport{Endpoint: conn.way.url, HTTPClient: client, MaxEventSize: size, MaxRetries: resumptions, DisableStandaloneSSE: true}
	return carrier.Connect, nil
}

// choice is the way that worked, nil where none did yet.
func (s *Server) choice() *way {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.chosen
}

func (s *Server) choose(w *way) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.chosen = w
}

// newProtocol returns the SDK's part of a connection. It offers the server nothing: no files, no
// questions to a user, no model.
func newProtocol(conn *connection, version string, watch bool) *sdk.Client {
	opts := &sdk.ClientOptions{
		Capabilities:   &sdk.ClientCapabilities{},
		MultiRoundTrip: &sdk.MultiRoundTripOptions{Disabled: true}, // see connection.send
		ProgressNotificationHandler: func(_ context.Context, req *sdk.ProgressNotificationClientRequest) {
			conn.progress(req.Params.ProgressToken)
		},
	}
	if watch {
		opts.ToolListChangedHandler = func(context.Context, *sdk.ToolListChangedRequest) {
			select {
			case conn.changed <- struct{}{}:
			default: // it is known already
			}
		}
	}
	client := sdk.NewClient(&sdk.Implementation{Name: "ossian", Version: version}, opts)
	client.AddReceivingMiddleware(decline)
	return client
}

// decline answers requests of servers for what was not offered.
func decline(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
		switch method {
		case "elicitation/create":
			return &sdk.ElicitResult{Action: "decline"}, nil
		case "sampling/createMessage", "roots/list":
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: method + ": this client does not offer it"}
		}
		return next(ctx, method, req)
	}
}
