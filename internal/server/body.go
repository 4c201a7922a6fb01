package server

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"time"

	"ossian/internal/api"
	"ossian/internal/generate"
	"ossian/internal/limits"
	"ossian/internal/wire"
)

// body reads a JSON body within its limits. Memory is taken as bytes come, not as
// their number is announced; the caller holds it until Release.
func (s *Server) body(reply *api.Reply, r *http.Request, caller *api.Caller) ([]byte, error) {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if coding := r.Header.Get("Content-Encoding"); err != nil || kind != "application/json" || (coding != "" && coding != "identity") {
		return nil, &wire.Error{Message: "Content-Type application/json expected, without Content-Encoding", Type: wire.TypeInvalidRequest, Code: wire.CodeMediaType}
	}
	lim := s.lim()
	most := lim[limits.RequestBody]
	if r.ContentLength > most {
		return nil, tooLarge(most)
	}
	reply.BodyDeadline(caller.Received.Add(lim.Time(limits.BodyRead)))
	s.roster.await(connOf(r), true)
	defer s.roster.await(connOf(r), false)
	var buf []byte
	size, held := int64(4<<10), int64(0)
	if r.ContentLength >= 0 && r.ContentLength < 64<<10 {
		size = r.ContentLength + 1 // one more, so that the end shows
	}
	for ; ; size *= 2 {
		size = min(size, most+1)
		if err := caller.Reserve(size - held); err != nil {
			return nil, err
		}
		held = size
		buf = append(make([]byte, 0, size), buf...)
		for err == nil && len(buf) < cap(buf) {
			var n int
			n, err = r.Body.Read(buf[len(buf):cap(buf)])
			buf = buf[:len(buf)+n]
		}
		if int64(len(buf)) > most {
			return buf, tooLarge(most)
		}
		if err != nil {
			return buf, s.bodyEnd(reply, err)
		}
	}
}

// bodyEnd says what the error that ended a body means; nil for its proper end.
func (s *Server) bodyEnd(w *api.Reply, err error) error {
	switch {
	case err == io.EOF:
		w.BodyDeadline(time.Time{})
		return nil
	case errors.Is(err, os.ErrDeadlineExceeded):
		w.Header().Set("Connection", "close")
		return &wire.Error{Message: fmt.Sprintf("the body did not arrive within %v", s.lim().Time(limits.BodyRead)), Type: wire.TypeInvalidRequest,
			Code: wire.CodeInvalidValue, Limit: limits.BodyRead.String()}
	case err == io.ErrUnexpectedEOF:
		return generate.ErrGone
	}
	return wire.Invalid("", "the body could not be read")
}

func tooLarge(most int64) *wire.Error {
	return &wire.Error{Message: fmt.Sprintf("the body has more than %d bytes", most), Type: wire.TypeInvalidRequest, Code: wire.CodeTooLarge, Limit: limits.RequestBody.String()}
}
