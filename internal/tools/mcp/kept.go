package mcp

import (
	"time"

	"ossian/internal/limits"
	"ossian/internal/tools"
)

// maxKept is how many connections wait for the next answer of a conversation. Of those that are
// processes of their own no more wait than python-processes allows.
const maxKept = 64

func (s *Server) maxKept() int {
	if s.spec.command == nil {
		return maxKept
	}
	return int(min(maxKept, s.opts.Limits()[limits.PythonProcesses]))
}

// A keeper has the connections of conversations that may go on. The server's mutex guards it.
type keeper struct {
	byChain map[chainKey]*keptConnection
	count   int64 // of what was kept: the order
}

type chainKey struct{ owner, id string }

type keptConnection struct {
	conn  *connection
	order int64
	timer *time.Timer
}

// keep holds a connection for the next answer of a chain for a while. It reports false where it
// does not: the chain has no name, or the server is closed.
func (s *Server) keep(chain tools.Chain, conn *connection) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if chain.ID == "" || s.closed || !conn.alive() {
		return false
	}
	key := chainKey{chain.Owner, chain.ID}
	if old := s.kept.byChain[key]; old != nil {
		s.release(key, old)
	}
	for most := s.maxKept(); len(s.kept.byChain) >= most; { // which may have become fewer
		s.release(s.kept.oldest())
	}
	s.kept.count++
	kept := &keptConnection{conn: conn, order: s.kept.count}
	kept.timer = time.AfterFunc(s.opts.Limits().Time(limits.PythonIdle), func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.kept.byChain[key] == kept {
			s.release(key, kept)
		}
	})
	if s.kept.byChain == nil {
		s.kept.byChain = map[chainKey]*keptConnection{}
	}
	s.kept.byChain[key] = kept
	return true
}

// release ends a connection that was kept. The server's mutex is held.
func (s *Server) release(key chainKey, kept *keptConnection) {
	kept.timer.Stop()
	delete(s.kept.byChain, key)
	s.finishing(kept.conn)
}

func (k *keeper) oldest() (key chainKey, first *keptConnection) {
	for at, kept := range k.byChain {
		if first == nil || kept.order < first.order {
			key, first = at, kept
		}
	}
	return key, first
}

// take returns the connection that was kept for a chain; nil = none was.
func (s *Server) take(chain tools.Chain) *connection {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := chainKey{chain.Owner, chain.ID}
	kept := s.kept.byChain[key]
	if kept == nil {
		return nil
	}
	kept.timer.Stop()
	delete(s.kept.byChain, key)
	return kept.conn
}

// releaseAll ends the connections that were kept. The server's mutex is held.
func (s *Server) releaseAll() {
	for key, kept := range s.kept.byChain {
		s.release(key, kept)
	}
}
