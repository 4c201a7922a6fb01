//go:build !linux

package bench

// stamp reports that times of receipt are the client's own here.
func (c *conn) stamp() bool { return false }

// alive cannot be known here; a request that meets a closed connection is sent again.
func (c *conn) alive(bool) bool { return true }

// receive hands to x what the connection brings until the response is complete.
func (c *conn) receive(x *exchange) error { return c.readPlain(x) }
