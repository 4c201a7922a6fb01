package api

import (
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"ossian/internal/generate"
	"ossian/internal/metrics"
)

// A Reply is a response on its way. Every write has a deadline: a client that stops
// reading holds nothing for long (CON-2). It belongs to the goroutine of its connection.
type Reply struct {
	http.ResponseWriter
	ID     string      // X-Request-Id
	Status int         // 0 = nothing was sent
	Tokens int         // generated, for the log
	Cut    metrics.Cut // why it was broken off, for the log

	control  *http.ResponseController
	conn     syscall.Conn // nil = not known
	stall    time.Duration
	begun    bool // the header has left
	deadline time.Time
}

// NewReply returns the reply to a request. A write may take stall; conn, which may be
// nil, is looked at to find out whether the client is there.
func NewReply(w http.ResponseWriter, id string, stall time.Duration, conn syscall.Conn) *Reply {
	return &Reply{ResponseWriter: w, control: http.NewResponseController(w), ID: id, stall: stall, conn: conn}
}

// Unwrap is for http.ResponseController.
func (w *Reply) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Begun reports whether the header has left: from then on an error cannot have a status.
func (w *Reply) Begun() bool { return w.begun }

// Left reports whether the client has closed the connection, as far as that shows.
func (w *Reply) Left() bool { return w.conn != nil && hungUp(w.conn) }

// probe is Left as an error.
func (w *Reply) probe() error {
	if w.Left() {
		return generate.ErrGone
	}
	return nil
}

// BodyDeadline sets until when the body may be read; the zero time = as long as it takes.
func (w *Reply) BodyDeadline(until time.Time) {
	_ = w.control.SetReadDeadline(until) // a reader without deadlines is a test's
}

// WriteHeader implements http.ResponseWriter.
func (w *Reply) WriteHeader(status int) {
	if !w.begun {
		w.begun, w.Status = true, status
		w.ResponseWriter.WriteHeader(status)
	}
}

// Write implements http.ResponseWriter.
func (w *Reply) Write(data []byte) (n int, err error) {
	w.WriteHeader(http.StatusOK)
	for len(data) > 0 && err == nil {
		part := data[:min(len(data), writeSize)]
		w.extend()
		var written int
		written, err = w.ResponseWriter.Write(part)
		n, data = n+written, data[written:]
	}
	return n, err
}

// extend moves the write deadline, at most once in a tenth of it: that is cheaper
// than for every token.
func (w *Reply) extend() {
	now := time.Now()
	if w.deadline.Sub(now) < w.stall*9/10 {
		w.deadline = now.Add(w.stall)
		_ = w.control.SetWriteDeadline(w.deadline) // a writer without deadlines is a test's
	}
}

// Events sends server-sent events, the header first.
func (w *Reply) Events(events []byte) error {
	if !w.begun {
		header := w.Header()
		header.Set("Content-Type", "text/event-stream; charset=utf-8")
		header.Set("Cache-Control", "no-cache")
		header.Set("X-Accel-Buffering", "no")
		w.WriteHeader(http.StatusOK)
	}
	_, err := w.Write(events)
	if err == nil {
		err = w.control.Flush()
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, os.ErrDeadlineExceeded):
		return errStalled
	}
	return generate.ErrGone
}

// JSON sends a whole reply.
func (w *Reply) JSON(status int, body []byte) {
	header := w.Header()
	header.Set("Content-Type", "application/json")
	header.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body) // whom it does not reach has left
}

// Send sends a value as a whole reply.
func (w *Reply) Send(v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	w.JSON(http.StatusOK, body)
	return nil
}

// mostUnavailable bounds x-ossian-unavailable, in bytes.
const mostUnavailable = 2 << 10

// Unavailable says which servers of tools the answer is made without, and why.
func (w *Reply) Unavailable(listed []Listed) {
	all := ""
	for i := range listed {
		if listed[i].Problem == "" {
			continue
		}
		one := strings.Trim(strconv.QuoteToASCII(listed[i].Label+": "+listed[i].Problem), `"`)
		if all != "" {
			all += "; "
		}
		if all += one; len(all) > mostUnavailable {
			all = all[:mostUnavailable]
			break
		}
	}
	if all != "" {
		w.Header().Set("x-ossian-unavailable", all)
	}
}

// Truncated says how much of a prompt was left out, if any was.
func (w *Reply) Truncated(n int) {
	if n > 0 {
		w.Header().Set("x-ossian-truncated", strconv.Itoa(n))
	}
}
