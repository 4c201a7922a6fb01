package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"

	"ossian/internal/chat"
	"ossian/internal/engine"
	"ossian/internal/host"
	"ossian/internal/metrics"
	"ossian/internal/store"
	"ossian/internal/wire"
)

var (
	errGone    = errors.New("server: the client is gone")
	errWaited  = errors.New("server: waited too long in the queue")
	errTooLong = errors.New("server: the request took too long")
	errUnsaved = errors.New("server: the store is too slow")
)

// A problem is an error as the client gets it.
type problem struct {
	status int
	body   *wire.Error
	retry  int  // seconds for Retry-After, 0 = none
	final  bool // sending the request again would fail again
}

// problem translates err. What is not in the table is our own fault: it gets a
// fixed body, and the log has the rest under the request's id.
func (s *Server) problem(w *reply, err error) problem {
	if body := public(err); body != nil {
		status, retry := statusOf(body)
		if body.Limit != "" {
			s.metrics.Refused(body.Limit)
		}
		return problem{status: status, body: body, retry: retry, final: status == http.StatusInternalServerError && !errors.Is(err, engine.ErrInterrupted)}
	}
	s.log.Error("request failed", "req", w.id, "error", err)
	return problem{http.StatusInternalServerError, internalError(w.id), 0, true}
}

func internalError(id string) *wire.Error {
	return &wire.Error{Message: "internal error; the server's log has more under request id " + id, Type: wire.TypeServer, Code: wire.CodeInternal}
}

// statusOf is the only table from code to HTTP status, with the seconds after which
// to try again.
func statusOf(e *wire.Error) (status, retry int) {
	switch e.Code {
	case wire.CodeInvalidKey:
		return http.StatusUnauthorized, 0
	case wire.CodeModelNotFound, wire.CodeNotFound, wire.CodeResponseNotFound:
		return http.StatusNotFound, 0
	case wire.CodeMethod:
		return http.StatusMethodNotAllowed, 0
	case wire.CodeTooLarge:
		return http.StatusRequestEntityTooLarge, 0
	case wire.CodeMediaType:
		return http.StatusUnsupportedMediaType, 0
	case wire.CodeRateLimit, wire.CodeQueueFull:
		return http.StatusTooManyRequests, 1
	case wire.CodeOverloaded, wire.CodeStoreFailed:
		return http.StatusServiceUnavailable, 1
	case wire.CodeLoading, wire.CodeDraining:
		return http.StatusServiceUnavailable, 5
	case wire.CodeInternal:
		return http.StatusInternalServerError, 0
	case wire.CodeVersion:
		return http.StatusHTTPVersionNotSupported, 0
	}
	if e.Type == wire.TypePermission {
		return http.StatusForbidden, 0
	}
	return http.StatusBadRequest, 0
}

// public is what a client is told about err; nil for an error of our own.
func public(err error) *wire.Error {
	if e, ok := errors.AsType[*wire.Error](err); ok {
		return e
	}
	if e, ok := errors.AsType[*chat.Error](err); ok {
		return unrenderable(e)
	}
	if _, ok := errors.AsType[*store.ReadOnlyError](err); ok {
		return &wire.Error{Message: "responses cannot be stored or deleted now; try again", Type: wire.TypeOverloaded, Code: wire.CodeStoreFailed}
	}
	if errors.Is(err, engine.ErrInvalid) {
		_, why, _ := strings.Cut(err.Error(), engine.ErrInvalid.Error()+": ")
		return wire.Invalid("", why)
	}
	for _, row := range [...]struct {
		err                 error
		kind, code, message string
	}{
		{engine.ErrQueueFull, wire.TypeRateLimit, wire.CodeQueueFull, "too many requests wait; try again"},
		{engine.ErrQueueTokens, wire.TypeRateLimit, wire.CodeQueueFull, "too many prompt tokens wait; try again"},
		{engine.ErrRestarting, wire.TypeOverloaded, wire.CodeOverloaded, "the engine restarts after a fault; try again"},
		{engine.ErrDraining, wire.TypeOverloaded, wire.CodeDraining, "the server is shutting down; try again"},
		{engine.ErrStopped, wire.TypeOverloaded, wire.CodeDraining, "the server is shutting down; try again"},
		{engine.ErrInterrupted, wire.TypeServer, wire.CodeInternal, "a fault interrupted the generation; try again"},
		{host.ErrLoading, wire.TypeOverloaded, wire.CodeLoading, "the model is being loaded; try again"},
		{store.ErrFull, wire.TypeOverloaded, wire.CodeStoreFailed, "the responses that are being made fill what may be stored; try again"},
		{store.ErrTooLarge, wire.TypeInvalidRequest, wire.CodeTooLarge, "the input is larger than what can be stored: shorten it and its ids; store: false without background stores nothing"},
		{store.ErrClosed, wire.TypeOverloaded, wire.CodeDraining, "the server is shutting down; try again"},
		{errUnsaved, wire.TypeOverloaded, wire.CodeStoreFailed, "the response could not be stored in time; try again"},
		{errWaited, wire.TypeOverloaded, wire.CodeOverloaded, "the request waited too long for its turn; try again"},
		{errTooLong, wire.TypeOverloaded, wire.CodeOverloaded, "the request took longer than requests may"},
	} {
		if errors.Is(err, row.err) {
			return &wire.Error{Message: row.message, Type: row.kind, Code: row.code}
		}
	}
	return nil
}

// tooLong refuses a prompt that leaves no room for output, with the counts (LIF-7). It
// begins as OpenAI's message does: clients that cannot see the code look for those words.
func (s *Server) tooLong(m *host.Model, param, tokens string, most *int64) *wire.Error {
	s.reject(m, metrics.RejectTooLong, 0)
	asked := "as many as fit"
	if most != nil {
		asked = strconv.FormatInt(*most, 10)
	}
	return &wire.Error{Message: fmt.Sprintf("This model's maximum context length is %d tokens, prompt and output together. The prompt has %s tokens and %s of output were asked for: shorten the prompt, so that there is room for at least one", m.Engine.Capacity(), tokens, asked),
		Type: wire.TypeInvalidRequest, Param: param, Code: wire.CodeContextLength}
}

func unrenderable(e *chat.Error) *wire.Error {
	param := "messages"
	switch {
	case e.Turn >= 0:
		param = fmt.Sprintf("messages[%d]", e.Turn)
	case e.Tool >= 0:
		param = fmt.Sprintf("tools[%d]", e.Tool)
	case e.Response:
		param = "response_format.json_schema.schema"
	}
	return wire.Invalid(param, e.Problem)
}

// fail answers with an error; nothing has been sent yet.
func (s *Server) fail(w *reply, err error) {
	p := s.problem(w, err)
	h := w.Header()
	h.Del("Content-Length")
	if p.retry > 0 {
		h.Set("Retry-After", strconv.Itoa(p.retry))
	}
	if p.final {
		h.Set("x-should-retry", "false")
	}
	w.json(p.status, wire.AppendError(nil, p.body))
}

// gone reports whether err means that nobody reads the reply any more.
func gone(err error) bool {
	return errors.Is(err, errGone) || errors.Is(err, errStalled) || errors.Is(err, errPending) || errors.Is(err, context.Canceled)
}

func timeout(err error) bool { return errors.Is(err, os.ErrDeadlineExceeded) }
