//go:build !unix

package scripted

import "net"

// An outlet writes to a connection. Here it waits for the client, so one that does not
// read delays the others of its sender.
type outlet struct{ conn net.Conn }

func newOutlet(c net.Conn) (*outlet, error) { return &outlet{c}, nil }

func (o *outlet) write(b []byte) (int, error) { return o.conn.Write(b) }
