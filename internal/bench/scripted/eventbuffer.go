package scripted

import (
	"strconv"
	"time"
)

// An eventBuffer is where events are put together; each goroutine that writes has its own.
// An event is opened, filled and closed in event, and then moved to out.
type eventBuffer struct {
	out   []byte // what is to be written
	event []byte // the event at hand
	part  []byte // of an event
}

// newline ends a line.
func (s *stream) newline() string {
	if s.shape.CRLF {
		return "\r\n"
	}
	return "\n"
}

// openEvent begins an event; name is for the Responses API.
func (s *stream) openEvent(buf *eventBuffer, name string) {
	if s.shape.Comments {
		s.comment(buf)
	}
	buf.event = buf.event[:0]
	if name != "" {
		buf.event = append(buf.event, "event: "...)
		buf.event = append(buf.event, name...)
		buf.event = append(buf.event, s.newline()...)
	}
	buf.event = append(buf.event, "data: "...)
}

// stampAndCloseEvent puts the time of sending, in nanoseconds since the server began, into
// the JSON object at hand and ends the event. Clients pass over members they do not know.
func (s *stream) stampAndCloseEvent(buf *eventBuffer, now time.Duration) {
	buf.event = append(buf.event, `,"sent_ns":`...)
	buf.event = strconv.AppendInt(buf.event, int64(now), 10)
	buf.event = append(buf.event, '}')
	s.closeEvent(buf)
}

// closeEvent ends the event and appends it to out as one chunk of the transfer coding.
func (s *stream) closeEvent(buf *eventBuffer) {
	buf.event = append(buf.event, s.newline()...)
	buf.event = append(buf.event, s.newline()...)
	buf.out = appendChunk(buf.out, buf.event)
}

// comment puts a comment, which clients pass over.
func (s *stream) comment(buf *eventBuffer) {
	buf.event = append(buf.event[:0], ": ping"...)
	s.closeEvent(buf)
}

// appendChunk appends a chunk of the transfer coding (RFC 9112, 7.1).
func appendChunk(dst, payload []byte) []byte {
	dst = strconv.AppendUint(dst, uint64(len(payload)), 16)
	dst = append(dst, "\r\n"...)
	dst = append(dst, payload...)
	return append(dst, "\r\n"...)
}
