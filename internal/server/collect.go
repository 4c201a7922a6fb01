package server

import (
	"cmp"
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"slices"
	"time"
)

type connKey struct{}

// withConn makes the connection known to its requests.
func withConn(ctx context.Context, c net.Conn) context.Context {
	if secure, ok := c.(*tls.Conn); ok {
		c = secure.NetConn()
	}
	return context.WithValue(ctx, connKey{}, c)
}

// A collection keeps answers until all have ended, then sends them as one reply.
type collection struct {
	j       *job
	w       *reply
	choices []choice
	keep    int // of the choices of each prompt
	enc     codec
}

func newCollection(j *job, keep int, enc codec) *collection {
	return &collection{j: j, w: j.w, choices: make([]choice, len(j.answers)), keep: keep, enc: enc}
}

// probeInterval is how often the connection is looked at while a reply is made:
// nothing is sent that would show whether anyone is there.
const probeInterval = time.Second

func (c *collection) silent() error {
	if c.w.left() {
		return errGone
	}
	return nil
}

func (c *collection) prepare(int) {}

func (c *collection) token(i int) {
	a := c.j.answers[i]
	a.size += 8 // the id, and lists that have grown beyond their end
	for k := range a.deltas {
		c.choices[i].add(&a.deltas[k])
		a.size += a.deltas[k].size()
	}
	clear(a.deltas)
	a.deltas = a.deltas[:0]
}

func (c *collection) sent(int) error { return nil }

func (c *collection) finish() error {
	usage := c.j.usage() // of all, also of those that are not kept
	answers, choices := c.best()
	c.w.json(http.StatusOK, c.enc.reply(make([]byte, 0, 1024+c.j.size*3/2), answers, choices, usage)) // JSON is a little longer: it does not have to grow
	return nil
}

// best returns the choices to keep: of each prompt those whose tokens have the
// highest mean log probability.
func (c *collection) best() ([]*answer, []choice) {
	n := c.j.n
	if c.keep == n {
		return c.j.answers, c.choices
	}
	var answers []*answer
	var choices []choice
	for first := 0; first < len(c.choices); first += n {
		order := make([]int, n)
		for i := range order {
			order[i] = first + i
		}
		slices.SortStableFunc(order, func(x, y int) int { return cmp.Compare(c.j.answers[y].mean(), c.j.answers[x].mean()) })
		for _, i := range order[:c.keep] {
			answers, choices = append(answers, c.j.answers[i]), append(choices, c.choices[i])
		}
	}
	return answers, choices
}
