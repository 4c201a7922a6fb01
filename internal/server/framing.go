package server

import (
	"bytes"
	"strconv"
	"sync/atomic"
)

// Where a request ends has to be the same to everybody who passes it on: a proxy that goes
// by Content-Length, and a server that goes by Transfer-Encoding, see two requests in what
// was one. net/http resolves such heads silently, so what a peer sends is looked at here,
// beside it.

// A framing follows the bytes of a connection from request to request and finds heads
// whose end is ambiguous (RFC 9112, 6.1 to 6.3, 5.2): both headers of length, one of them
// twice, any Transfer-Encoding with HTTP/1.0, and folded lines. It changes nothing of what it sees.
//
// Invariant: it stands where the next byte belongs. What it does not understand, net/http
// refuses and closes, or lost says that nothing behind it can be trusted.
//
// Reads of a connection come one after the other; ambiguous may be asked meanwhile.
type framing struct {
	state  frameState
	line   []byte // so far, of a head or of a chunk's size; no longer than mostLine
	long   bool   // the line was longer
	skip   int64  // bytes of a body, or of a chunk with its line end, to come
	first  bool   // the line is the request's own
	old    bool   // HTTP/1.0
	length []byte // Content-Length; nil = none
	coded  int    // Transfer-Encoding headers
	bad    bool   // the head so far is ambiguous

	heads    atomic.Int64 // that have come as a whole
	firstBad atomic.Int64 // number of the first ambiguous head, from 1; 0 = none so far
}

type frameState uint8

const (
	inHead frameState = iota
	inBody
	inChunk   // its bytes
	atChunk   // the line with its size
	inTrailer // behind the last chunk
	lost
)

// mostLine is how much of a line is kept: names and lengths are short.
const mostLine = 256

// ambiguous reports whether the head with the number, from 1, or one before it does not say
// where its request ends.
func (f *framing) ambiguous(number int64) bool {
	first := f.firstBad.Load()
	return first > 0 && number >= first
}

// read looks at what has been read.
func (f *framing) read(data []byte) {
	for len(data) > 0 {
		switch f.state {
		case lost:
			return
		// Bodies are passed over by their length: nothing in them can be taken for a head.
		case inBody, inChunk:
			passed := min(f.skip, int64(len(data)))
			f.skip, data = f.skip-passed, data[passed:]
			if f.skip > 0 {
				return
			}
			f.next()
			continue
		}
		end := bytes.IndexByte(data, '\n')
		if end < 0 {
			f.add(data)
			return
		}
		f.add(data[:end])
		data = data[end+1:]
		f.lineEnds()
	}
}

// add keeps a piece of a line.
func (f *framing) add(piece []byte) {
	room := mostLine - len(f.line)
	f.long = f.long || len(piece) > room
	f.line = append(f.line, piece[:min(room, len(piece))]...)
}

// lineEnds takes the line that is whole.
func (f *framing) lineEnds() {
	line, long := bytes.TrimSuffix(f.line, []byte("\r")), f.long
	f.line, f.long = f.line[:0], false
	switch f.state {
	case inHead:
		f.headLine(line, long)
	case atChunk:
		f.chunkSize(line, long)
	case inTrailer:
		if len(line) == 0 && !long {
			f.begin()
		}
	}
}

// headLine takes a line of a head: its request, a header, or the empty one at its end.
func (f *framing) headLine(line []byte, long bool) {
	switch {
	case f.first && len(line) == 0 && !long: // net/http passes those that old clients send behind a body
	case f.first:
		f.first, f.old = false, bytes.HasSuffix(line, []byte(" HTTP/1.0"))
	case len(line) == 0 && !long:
		f.headEnds()
	case len(line) > 0 && (line[0] == ' ' || line[0] == '\t'):
		f.bad = true
	default:
		name, value, _ := bytes.Cut(line, []byte(":"))
		switch string(bytes.ToLower(bytes.TrimSpace(name))) {
		case "content-length":
			f.bad = f.bad || f.length != nil || f.coded > 0 || long
			f.length = bytes.Clone(bytes.TrimSpace(value))
		case "transfer-encoding":
			f.bad = f.bad || f.length != nil || f.coded > 0 || f.old || long
			f.coded++
		}
	}
}

// headEnds decides what follows a head.
func (f *framing) headEnds() {
	f.heads.Add(1)
	if f.bad {
		f.firstBad.CompareAndSwap(0, f.heads.Load())
		f.state = lost
		return
	}
	// A head with both headers was bad: the order of the cases decides nothing.
	switch {
	case f.coded > 0:
		f.state = atChunk
	case f.length != nil:
		size, err := strconv.ParseUint(string(f.length), 10, 63)
		f.skip, f.state = int64(size), inBody
		if err != nil {
			f.lose()
		} else if size == 0 {
			f.begin()
		}
	default:
		f.begin()
	}
}

// chunkSize takes the line before a chunk.
func (f *framing) chunkSize(line []byte, long bool) {
	digits, _, _ := bytes.Cut(line, []byte(";"))
	size, err := strconv.ParseUint(string(bytes.TrimRight(digits, " \t")), 16, 62)
	switch {
	case err != nil || long:
		f.lose()
	case size == 0:
		f.state = inTrailer
	default:
		f.skip, f.state = int64(size)+2, inChunk // with the line end behind it
	}
}

// next goes on behind a body or a chunk.
func (f *framing) next() {
	if f.state == inChunk {
		f.state = atChunk
		return
	}
	f.begin()
}

// begin waits for the next head.
func (f *framing) begin() {
	f.state, f.first, f.old, f.length, f.coded, f.bad, f.skip = inHead, true, false, nil, 0, false, 0
}

// lose gives up: no head behind this place is trusted.
func (f *framing) lose() {
	f.state = lost
	f.firstBad.CompareAndSwap(0, f.heads.Load()+1)
}
