//go:build !unix

package scripted

import "net"

// An outlet writes to a connection. Here it waits for the client, so one that does not
// read delays the others of its sender.
type outlet struct{ conn net.Conn }

func newOutlet(conn net.Conn) (*outlet, error) { return &outlet{conn}, nil }

func (o *outlet) write(data []byte) (int, error) { return o.conn.Write(data) }
