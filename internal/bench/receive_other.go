//go:build !linux

package bench

import "net"

// pollers are the runtime's own here.
type pollers struct{}

func (*pollers) link(tcp net.Conn) (link, error) { return &ordinary{Conn: tcp, tcp: tcp}, nil }

// alive cannot be known here; a request that meets a closed connection is sent again.
func (o *ordinary) alive() bool { return true }
