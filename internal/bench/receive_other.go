//go:build !linux

package bench

import "net"

// pollers are the runtime's own here.
type pollers struct{}

func (*pollers) transport(tcp net.Conn) (transport, error) {
	return &runtimeTransport{Conn: tcp, tcp: tcp}, nil
}

// alive cannot be known here; a request that meets a closed connection is sent again.
func (r *runtimeTransport) alive() bool { return true }
