package mcp

import (
	"context"
	"errors"
	"time"
)

// watch keeps what is known of the server in force: it lists the tools again when the list is old,
// when the server says that they changed and when somebody waits, and connects again when the
// connection breaks. While the server is down it tries more and more rarely.
func (s *Server) watch() {
	defer close(s.watched)
	var conn *connection
	defer func() {
		if conn != nil {
			conn.close()
		}
	}()
	wait := pace
	for s.life.Err() == nil {
		var next time.Duration
		var err error
		conn, next, err = s.refresh(conn)
		// Pauses double while it fails, and begin anew once it answers.
		if err != nil {
			next, wait = wait, min(2*wait, slowest)
		} else {
			wait = pace
		}
		s.sleep(conn, next)
	}
}

// sleep waits until there is a reason for the next attempt, and for a second at least.
func (s *Server) sleep(conn *connection, next time.Duration) {
	var changed, dead chan struct{}
	if conn != nil {
		changed, dead = conn.changed, conn.dead
	}
	select {
	case <-s.life.Done():
	case <-s.pause(pace):
	}
	select {
	case <-s.life.Done():
	case <-s.pause(next - pace):
	case <-s.wake:
	case <-changed:
	case <-dead:
	}
}

// refresh lists the tools, over a connection that is there or over a new one, and says how long
// the list is good for.
func (s *Server) refresh(conn *connection) (*connection, time.Duration, error) {
	ctx, cancel := context.WithTimeout(s.life, attempt)
	defer cancel()
	listed, conn, err := s.look(ctx, conn)
	if err != nil && conn != nil {
		conn.close()
		conn = nil
	}
	if s.life.Err() != nil {
		return conn, 0, s.life.Err()
	}
	s.learn(listed, err)
	if err != nil {
		return nil, 0, err
	}
	return conn, listed.fresh, nil
}

// look lists the tools. What has been connected may be of no use any more: then it connects anew.
func (s *Server) look(ctx context.Context, conn *connection) (*listing, *connection, error) {
	if conn != nil {
		listed, err := conn.list(ctx, s.opts.Name)
		var why *fault
		if err == nil || !errors.As(err, &why) || why.kind == silent {
			return listed, conn, err
		}
		conn.close()
	}
	conn, err := dialer{server: s, watch: true}.dial(ctx)
	if err != nil {
		return nil, nil, err
	}
	listed, err := conn.list(ctx, s.opts.Name)
	return listed, conn, err
}

// learn notes what an attempt gave, and tells those who wait for it.
func (s *Server) learn(listed *listing, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.attempts++
	s.problem = err
	if err == nil {
		s.listed = listed
	}
	close(s.tried)
	s.tried = make(chan struct{})
}
