package server

import (
	"context"
	"net"
	"net/http"
	"syscall"
	"time"
)

type connKey struct{}

// withConn makes the connection known to its requests.
func withConn(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}

// A collection keeps answers until all have ended, then sends them as one reply.
type collection struct {
	j       *job
	w       *reply
	conn    syscall.Conn // nil = not known
	choices []choice
	enc     codec
}

func (s *Server) collection(ctx context.Context, j *job, w *reply, enc codec) *collection {
	c := &collection{j: j, w: w, choices: make([]choice, len(j.answers)), enc: enc}
	if conn, ok := ctx.Value(connKey{}).(*counted); ok {
		c.conn, _ = conn.Conn.(syscall.Conn)
	}
	return c
}

// probeInterval is how often the connection is looked at while a reply is made:
// nothing is sent that would show whether anyone is there.
const probeInterval = time.Second

func (c *collection) silent() error {
	if c.conn != nil && hungUp(c.conn) {
		return errGone
	}
	return nil
}

func (c *collection) prepare(int) {}

func (c *collection) token(i int) {
	a := c.j.answers[i]
	for k := range a.deltas {
		c.choices[i].add(&a.deltas[k])
	}
	clear(a.deltas)
	a.deltas = a.deltas[:0]
}

func (c *collection) sent(int) error { return nil }

func (c *collection) finish() error {
	c.w.json(http.StatusOK, c.enc.reply(nil, c.j.answers, c.choices, c.j.usage()))
	return nil
}
