package api

import (
	"errors"
	"fmt"
	"strings"

	"ossian/internal/chat"
	"ossian/internal/engine"
	"ossian/internal/generate"
	"ossian/internal/host"
	"ossian/internal/metrics"
	"ossian/internal/store"
	"ossian/internal/wire"
)

// A cutError ends a stream whose client is there, but does not take what is sent. For
// the job that is the same as one that has left (generate.ErrGone).
type cutError struct {
	reason metrics.Cut
	text   string
}

var (
	errStalled = &cutError{metrics.CutStalled, "server: the client does not read"}
	errPending = &cutError{metrics.CutPending, "server: the client reads too slowly"}
)

// Error implements error.
func (e *cutError) Error() string { return e.text }

// Is makes a cutError a generate.ErrGone.
func (e *cutError) Is(target error) bool { return target == generate.ErrGone }

// CutReason is why a stream was cut, for the metrics.
func CutReason(err error) metrics.Cut {
	if e, ok := errors.AsType[*cutError](err); ok {
		return e.reason
	}
	return metrics.CutGone
}

// Explain returns what a client is told about err. What is not in the table is our own
// fault: it gets a fixed body, and the log has the rest under the request's id.
func (f *Front) Explain(requestID string, err error) *wire.Error {
	told := Public(err)
	if told == nil {
		f.Log.Error("request failed", "req", requestID, "error", err)
		return InternalError(requestID)
	}
	if told.Limit != "" {
		f.Metrics.Refused(told.Limit)
	}
	return told
}

// InternalError is what a client is told about a fault of our own.
func InternalError(requestID string) *wire.Error {
	return &wire.Error{Message: "internal error; the server's log has more under request id " + requestID, Type: wire.TypeServer, Code: wire.CodeInternal}
}

// Public is what a client is told about err; nil for an error of our own.
func Public(err error) *wire.Error {
	// Errors with something to say of the request, then those that say what state the
	// server is in.
	if e, ok := errors.AsType[*wire.Error](err); ok {
		return e
	}
	if e, ok := errors.AsType[*chat.Error](err); ok {
		return Unrenderable(e, "tools")
	}
	if _, ok := errors.AsType[*store.ReadOnlyError](err); ok {
		return &wire.Error{Message: "responses cannot be stored or deleted now; try again", Type: wire.TypeOverloaded, Code: wire.CodeStoreFailed}
	}
	if e, ok := errors.AsType[*store.DamageError](err); ok { // where in the record is for the log, which the store wrote
		return damagedResponse(e.ID)
	}
	if e, ok := errors.AsType[*host.WithdrawnError](err); ok {
		return &wire.Error{Message: e.Error(), Type: wire.TypeOverloaded, Code: wire.CodeUnloaded}
	}
	if e, ok := errors.AsType[*host.LoadError](err); ok {
		return &wire.Error{Message: e.Error(), Type: wire.TypeOverloaded, Code: wire.CodeLoadFailed, Retry: e.Seconds()}
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
		{host.ErrQueueFull, wire.TypeRateLimit, wire.CodeQueueFull, "too many requests wait for their model; try again"},
		{engine.ErrRestarting, wire.TypeOverloaded, wire.CodeOverloaded, "the engine restarts after a fault; try again"},
		{engine.ErrDraining, wire.TypeOverloaded, wire.CodeDraining, "the server is shutting down; try again"},
		{engine.ErrStopped, wire.TypeOverloaded, wire.CodeDraining, "the server is shutting down; try again"},
		{engine.ErrInterrupted, wire.TypeServer, wire.CodeInternal, "a fault interrupted the generation; try again"},
		{host.ErrLoading, wire.TypeOverloaded, wire.CodeLoading, "the model is being loaded; try again"},
		{store.ErrFull, wire.TypeOverloaded, wire.CodeStoreFailed, "the responses that are being made fill what may be stored; try again"},
		{store.ErrTooLarge, wire.TypeInvalidRequest, wire.CodeTooLarge, "the input is larger than what can be stored: shorten it and its ids; store: false without background stores nothing"},
		{store.ErrClosed, wire.TypeOverloaded, wire.CodeDraining, "the server is shutting down; try again"},
		{generate.ErrWaited, wire.TypeOverloaded, wire.CodeOverloaded, "the request waited too long for its turn; try again"},
		{generate.ErrTooLong, wire.TypeOverloaded, wire.CodeOverloaded, "the request took longer than requests may"},
	} {
		if errors.Is(err, row.err) {
			return &wire.Error{Message: row.message, Type: row.kind, Code: row.code}
		}
	}
	return nil
}

// damagedResponse says that a stored response is not what was stored, and what its owner
// can do. An empty id is one that could not be told.
func damagedResponse(id string) *wire.Error {
	which := "a stored response"
	if id != "" {
		which = fmt.Sprintf("the stored response %.100q", id)
	}
	return &wire.Error{Message: which + " is damaged on the server's disk and cannot be read: delete it, or have the operator restore the store from a copy", Type: wire.TypeServer, Code: wire.CodeDamaged}
}

// Unrenderable names what a format cannot write with the words of the Chat API; tools is
// the field that brought the tools.
func Unrenderable(problem *chat.Error, tools string) *wire.Error {
	param := "messages"
	switch {
	case problem.Tools: // what can be done about it is to send none
		return wire.Unsupported(tools, problem.Problem)
	case problem.Turn >= 0:
		param = fmt.Sprintf("messages[%d]", problem.Turn)
	case problem.Tool >= 0:
		param = fmt.Sprintf("%s[%d]", tools, problem.Tool)
	case problem.Response:
		param = "response_format.json_schema.schema"
	}
	return wire.Invalid(param, problem.Problem)
}
