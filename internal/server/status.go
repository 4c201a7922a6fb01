package server

import (
	"errors"
	"net/http"
	"strconv"
	"strings"

	"ossian/internal/api"
	"ossian/internal/engine"
	"ossian/internal/wire"
	"ossian/internal/wire/messages"
)

// fail answers with an error; nothing has been sent yet.
func (s *Server) fail(reply *api.Reply, r *http.Request, err error) {
	told := s.front.Explain(reply.ID, err)
	status, retry := statusOf(told)
	header := reply.Header()
	header.Del("Content-Length")
	if retry > 0 {
		header.Set("Retry-After", strconv.Itoa(retry))
	}
	if status == http.StatusInternalServerError && !errors.Is(err, engine.ErrInterrupted) {
		header.Set("x-should-retry", "false") // sending the request again would fail again
	}
	if ofMessages(r) {
		reply.JSON(status, messages.AppendError(nil, told, reply.ID))
		return
	}
	reply.JSON(status, wire.AppendError(nil, told))
}

// ofMessages reports whether a request is one of the Messages API, whose clients want errors in
// another form.
func ofMessages(r *http.Request) bool {
	return r.Header.Get("Anthropic-Version") != "" || r.URL.Path == "/v1/messages" || strings.HasPrefix(r.URL.Path, "/v1/messages/")
}

// statusOf is the only table from code to HTTP status, with the seconds after which
// to try again.
func statusOf(told *wire.Error) (status, retry int) {
	switch told.Code {
	case wire.CodeInvalidKey:
		return http.StatusUnauthorized, 0
	case wire.CodeModelNotFound, wire.CodeNotFound, wire.CodeResponseNotFound, messages.CodeThread:
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
	case wire.CodeLoadFailed:
		return http.StatusServiceUnavailable, max(told.Retry, 1)
	case wire.CodeUnloaded: // until somebody starts the server anew
		return http.StatusServiceUnavailable, 60
	case wire.CodeInternal, wire.CodeDamaged:
		return http.StatusInternalServerError, 0
	case wire.CodeVersion:
		return http.StatusHTTPVersionNotSupported, 0
	}
	if told.Type == wire.TypePermission {
		return http.StatusForbidden, 0
	}
	return http.StatusBadRequest, 0
}
