package mcp

import (
	"context"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"ossian/internal/limits"
)

// Versions of the protocol that differ in how a conversation begins.
const (
	stateless  = "2026-07-28" // from here on: server/discover, and nothing before a call
	handshakes = "2025-11-25" // the last with initialize
)

// discovery is how long a server may take to say that it does not know server/discover.
const discovery = 5 * time.Second

// A connection is one to a server, from dial to close. Calls may run on it at the same time.
type connection struct {
	way     way
	limits  *limits.Set
	born    time.Time
	life    context.Context
	cut     context.CancelFunc                            // ends everything at once
	open    func(context.Context) (sdk.Connection, error) // the transport
	session *sdk.ClientSession
	dead    chan struct{}     // closed when messages come no more
	changed chan struct{}     // the server says that its tools changed
	pages   map[string][]byte // of tools, by cursor: what the SDK answers from its cache

	mu       sync.Mutex // guards what follows
	spoken   string     // version of the protocol; "" = not known yet
	cause    error      // why it broke; nil = it did not, or nobody knows
	transfer sdk.Connection
	clocks   map[string]*clock // of the calls that run, by their tokens
}

// version is that of the protocol, "" before it is known.
func (c *connection) version() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.spoken
}

func (c *connection) speaks(version string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.spoken = version
}

// broke notes why the connection breaks; the first cause is kept.
func (c *connection) broke(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cause == nil {
		c.cause = err
	}
}

func (c *connection) why() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cause
}

// alive reports whether messages may still come.
func (c *connection) alive() bool {
	select {
	case <-c.dead:
		return false
	default:
		return true
	}
}

// unheard ends a connection on which changes are not told any more, so that another is made. One
// that was just made stays: its server may never tell.
func (c *connection) unheard() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.born) > slowest {
		go c.transfer.Close()
	}
}

// close ends the connection, which the server is told of. It takes a second at most.
func (c *connection) close() {
	late := time.AfterFunc(time.Second, c.cut)
	_ = c.session.Close() // what is wrong with it does not matter any more
	late.Stop()
	c.cut()
}

// Connect implements sdk.Transport.
func (c *connection) Connect(ctx context.Context) (sdk.Connection, error) {
	transfer, err := c.open(ctx)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	c.transfer = transfer
	c.mu.Unlock()
	return &tap{Connection: transfer, conn: c, waiting: map[jsonrpc.ID]sent{}}, nil
}

// abandon ends what there is of a connection that was never made.
func (c *connection) abandon() {
	c.cut()
	c.mu.Lock()
	transfer := c.transfer
	c.mu.Unlock()
	if transfer != nil {
		_ = transfer.Close()
	}
}
