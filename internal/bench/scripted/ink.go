package scripted

import (
	"strconv"
	"time"
)

// An ink is where events are put together; each goroutine that writes has its own.
type ink struct {
	out   []byte // what is to be written
	event []byte // the event at hand
	part  []byte // of an event
}

func (s *stream) newline() string {
	if s.shape.CRLF {
		return "\r\n"
	}
	return "\n"
}

// open begins an event.
func (s *stream) open(k *ink, name string) {
	if s.shape.Comments {
		s.comment(k)
	}
	k.event = k.event[:0]
	if name != "" {
		k.event = append(k.event, "event: "...)
		k.event = append(k.event, name...)
		k.event = append(k.event, s.newline()...)
	}
	k.event = append(k.event, "data: "...)
}

// stampAndClose puts the time of sending, in nanoseconds since the server began, into
// the JSON object at hand and ends the event. Clients pass over members they do not know.
func (s *stream) stampAndClose(k *ink, now time.Duration) {
	k.event = append(k.event, `,"sent_ns":`...)
	k.event = strconv.AppendInt(k.event, int64(now), 10)
	k.event = append(k.event, '}')
	s.close(k)
}

// close ends the event and appends it to out as one chunk of the transfer coding.
func (s *stream) close(k *ink) {
	k.event = append(k.event, s.newline()...)
	k.event = append(k.event, s.newline()...)
	k.out = frame(k.out, k.event)
}

func (s *stream) comment(k *ink) {
	k.event = append(k.event[:0], ": ping"...)
	s.close(k)
}

// frame appends a chunk of the transfer coding (RFC 9112, 7.1).
func frame(b, payload []byte) []byte {
	b = strconv.AppendUint(b, uint64(len(payload)), 16)
	b = append(b, "\r\n"...)
	b = append(b, payload...)
	return append(b, "\r\n"...)
}
