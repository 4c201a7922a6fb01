package api

import (
	"context"
	"time"

	"ossian/internal/board"
	"ossian/internal/generate"
	"ossian/internal/host"
	"ossian/internal/limits"
	"ossian/internal/wire"
)

// A Caller is who sent a request, and when, and what of it is in memory.
type Caller struct {
	board.Label        // of the request; its model is known once that is in memory
	Tenant      uint32 // which key, from 1; 0 = no keys are configured
	Received    time.Time
	Observer    generate.Observer // of the request that is made of it; nil = nobody
	front       *Front
	held        int64       // bytes: the body, and what is read for it, until Release
	lease       *host.Lease // of the request's model, until Leave; nil = none yet
}

// NewCaller returns who sent a request that came at this time.
func (f *Front) NewCaller(received time.Time) *Caller { return &Caller{front: f, Received: received} }

// Reserve makes room for more bytes of the request, or refuses them where requests in
// memory take too many. What is refused is never counted: others that come at this moment find the
// room that there is.
func (c *Caller) Reserve(bytes int64) error {
	for {
		total := c.front.Bodies.Load()
		if bytes > 0 && total+bytes > c.front.Limits()[limits.BodiesInFlight] {
			return &wire.Error{Message: "too many request bodies at once; try again", Type: wire.TypeOverloaded, Code: wire.CodeOverloaded, Limit: limits.BodiesInFlight.String()}
		}
		if c.front.Bodies.CompareAndSwap(total, total+bytes) {
			break
		}
	}
	c.front.Metrics.Bodies(bytes)
	c.held += bytes
	return nil
}

// Release says that the request is not needed in memory any more.
func (c *Caller) Release() {
	if c.held > 0 {
		_ = c.Reserve(-c.held) // only taking can fail
	}
}

// Model returns the model of that name, which stays in memory until Leave. It may wait for it. A
// request has one: another name is not looked at once there is a model.
func (c *Caller) Model(ctx context.Context, service *generate.Service, name string) (*host.Model, error) {
	if c.lease == nil {
		lease, err := service.Find(ctx, name, board.Caller{Label: c.Label, Tenant: c.Tenant, Received: c.Received})
		if err != nil {
			return nil, err
		}
		c.lease, c.Label.Model = lease, lease.Name
	}
	return c.lease.Model, nil
}

// Leave says that the request is over: neither it nor its model is needed any more.
func (c *Caller) Leave() {
	c.Release()
	if c.lease != nil {
		c.lease.Release()
	}
}

// HandOver returns the caller for work that goes on behind the request. From now on that
// one holds what this one held.
func (c *Caller) HandOver() *Caller {
	own := *c
	c.held, c.lease = 0, nil
	return &own
}
