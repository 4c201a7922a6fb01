package server

import (
	"net/http"
	"strconv"
	"syscall"
	"time"

	"ossian/internal/metrics"
)

// A reply is a response on its way. Every write has a deadline: a client that stops
// reading holds nothing for long (CON-2).
type reply struct {
	http.ResponseWriter
	control *http.ResponseController
	conn    *counted // nil = not known
	id      string   // X-Request-Id
	stall   time.Duration

	begun    bool // the header has left
	status   int
	tokens   int         // generated, for the log
	cut      metrics.Cut // why it was broken off, for the log
	deadline time.Time
}

// Unwrap is for http.ResponseController.
func (w *reply) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// left reports whether the client has closed the connection, as far as that shows.
func (w *reply) left() bool {
	if w.conn == nil {
		return false
	}
	c, ok := w.conn.Conn.(syscall.Conn)
	return ok && hungUp(c)
}

// spare reports whether the connection is one too many.
func (w *reply) spare() bool { return w.conn != nil && !w.conn.until.IsZero() }

// WriteHeader implements http.ResponseWriter.
func (w *reply) WriteHeader(status int) {
	if !w.begun {
		w.begun, w.status = true, status
		w.ResponseWriter.WriteHeader(status)
	}
}

// Write implements http.ResponseWriter.
func (w *reply) Write(p []byte) (n int, err error) {
	w.WriteHeader(http.StatusOK)
	for len(p) > 0 && err == nil {
		part := p[:min(len(p), writeSize)]
		w.extend()
		var m int
		m, err = w.ResponseWriter.Write(part)
		n, p = n+m, p[m:]
	}
	return n, err
}

// extend moves the write deadline, at most once in a tenth of it: that is cheaper
// than for every token.
func (w *reply) extend() {
	now := time.Now()
	if w.deadline.Sub(now) < w.stall*9/10 {
		w.deadline = now.Add(w.stall)
		_ = w.control.SetWriteDeadline(w.deadline) // a writer without deadlines is a test's
	}
}

func (w *reply) flush() error { return w.control.Flush() }

// events sends server-sent events, the header first.
func (w *reply) events(events []byte) error {
	if !w.begun {
		h := w.Header()
		h.Set("Content-Type", "text/event-stream; charset=utf-8")
		h.Set("Cache-Control", "no-cache")
		h.Set("X-Accel-Buffering", "no")
		w.WriteHeader(http.StatusOK)
	}
	_, err := w.Write(events)
	if err == nil {
		err = w.flush()
	}
	switch {
	case err == nil:
		return nil
	case timeout(err):
		return errStalled
	}
	return errGone
}

// json sends a whole reply.
func (w *reply) json(status int, body []byte) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body) // whom it does not reach has left
}
