package api

import (
	"time"

	"ossian/internal/board"
)

// progressInterval is how often a stream tells how far its prompt is.
const progressInterval = 500 * time.Millisecond

// Running puts usage so far on every delta of a stream.
func (d *Delivery) Running() {
	if s, ok := d.out.(*stream); ok {
		s.running = true
	}
}

// Progress has a stream to a client tell how far the prompt is, as tell writes it, until the first
// token comes.
func (d *Delivery) Progress(tell func(dst []byte, p board.Progress) []byte) {
	if s, ok := d.out.(*stream); ok {
		s.progress = func(dst []byte) []byte { return tell(dst, d.job.Progress()) }
		d.idle = min(d.idle, progressInterval)
	}
}

// waits is Idle of a stream that tells of its prompt. Once tokens come it is Idle of any other,
// and no oftener.
func (s *stream) waits() error {
	for _, answer := range s.job.Answers() {
		if answer.Tokens > 0 {
			if time.Since(s.wrote) < s.front.pingInterval() {
				return nil
			}
			return s.ping()
		}
	}
	s.Open(0) // what begins the stream comes first
	*s.buf = s.progress(*s.buf)
	return s.Flush(0)
}
