package bench

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"
)

const maxHead = 64 << 10 // bytes of a response's head, or of a trailer

// A part says what of a response comes next.
type part uint8

const (
	statusLine part = iota
	headerLines
	sizeLine    // of a chunk
	bodyBytes   // length of them; to the end of the connection if negative
	chunkEnd    // the empty line behind a chunk
	trailers    // behind the last chunk
	nothingMore // complete
)

// A response takes HTTP/1.1 responses apart as their bytes come, and hands the bytes of
// the body on. It is pushed, not read from: so a stream that waits holds no buffer, and
// nothing stands between the kernel's receipt and the handling of an event.
type response struct {
	sink func(p []byte) error // gets the body

	next    part
	line    []byte // of a line that has not ended
	size    int    // bytes of the head so far
	began   bool   // a byte has come
	status  int
	reason  string // behind the status; "" when that is 200
	length  int64  // bytes that the body or the chunk still has; -1 = not known
	chunked bool
	keep    bool // the connection may be used again
}

func (r *response) reset() {
	*r = response{sink: r.sink, line: r.line[:0]}
}

// feed takes in bytes and reports whether the response is complete.
func (r *response) feed(p []byte) (bool, error) {
	r.began = r.began || len(p) > 0
	for len(p) > 0 {
		switch r.next {
		case bodyBytes:
			n := len(p)
			if r.length >= 0 {
				n = int(min(int64(n), r.length))
				r.length -= int64(n)
			}
			if err := r.sink(p[:n]); err != nil {
				return false, err
			}
			p = p[n:]
			r.bodyEnds()
		case nothingMore:
			r.keep = false // what comes unasked belongs to no request
			return true, nil
		default:
			rest, err := r.feedLine(p)
			if err != nil {
				return false, err
			}
			p = rest
		}
	}
	return r.next == nothingMore, nil
}

// bodyEnds goes on when all bytes of the body or of the chunk have come.
func (r *response) bodyEnds() {
	if r.length != 0 {
		return
	}
	r.next = nothingMore
	if r.chunked {
		r.next = chunkEnd
	}
}

// closed reports what it means that the server closed the connection: nil where this
// ends the body.
func (r *response) closed() error {
	switch {
	case r.next == bodyBytes && r.length < 0:
		r.next = nothingMore
		return nil
	case !r.began:
		return errNoResponse
	}
	return fmt.Errorf("the connection was closed within the response: %w", io.ErrUnexpectedEOF)
}

var errNoResponse = errors.New("the connection was closed before a response")

// feedLine takes a line, or what there is of it, and returns what follows.
func (r *response) feedLine(p []byte) ([]byte, error) {
	i := bytes.IndexByte(p, '\n')
	n := i + 1
	if i < 0 {
		n = len(p)
	}
	if r.size += n; r.size > maxHead {
		return nil, fmt.Errorf("the head of the response has more than %d bytes", maxHead)
	}
	if i < 0 {
		r.line = append(r.line, p...)
		return nil, nil
	}
	line := p[:i]
	if len(r.line) > 0 {
		r.line = append(r.line, line...)
		line = r.line
	}
	err := r.readLine(bytes.TrimSuffix(line, []byte("\r")))
	r.line = r.line[:0]
	return p[n:], err
}

func (r *response) readLine(line []byte) error {
	switch r.next {
	case statusLine:
		if len(line) == 0 {
			return nil // RFC 9112 2.2 lets clients skip these
		}
		return r.readStatus(line)
	case headerLines:
		if len(line) == 0 {
			return r.headEnds()
		}
		return r.readHeader(line)
	case sizeLine:
		return r.readSize(line)
	case chunkEnd:
		if len(line) > 0 {
			return fmt.Errorf("%q behind a chunk: want an empty line", brief(line))
		}
		r.next, r.size = sizeLine, 0
	case trailers:
		if len(line) == 0 {
			r.next = nothingMore
		}
	}
	return nil
}

// readStatus reads a line such as HTTP/1.1 200 OK.
func (r *response) readStatus(line []byte) error {
	version, rest, _ := bytes.Cut(line, []byte(" "))
	code, reason, _ := bytes.Cut(rest, []byte(" "))
	status, err := strconv.Atoi(string(code))
	if minor, ok := bytes.CutPrefix(version, []byte("HTTP/1.")); !ok || len(minor) != 1 || len(code) != 3 || err != nil || status < 100 {
		return fmt.Errorf("%q: want a response of HTTP/1.1", brief(line))
	}
	r.status, r.length, r.next = status, -1, headerLines
	r.keep = version[len(version)-1] != '0'
	r.chunked, r.reason = false, ""
	if status != http.StatusOK {
		if r.reason = string(bytes.TrimSpace(reason)); r.reason == "" {
			r.reason = http.StatusText(status)
		}
	}
	return nil
}

func (r *response) readHeader(line []byte) error {
	name, value, ok := bytes.Cut(line, []byte(":"))
	if !ok {
		return fmt.Errorf("%q: want a header", brief(line))
	}
	value = bytes.TrimSpace(value)
	switch {
	case bytes.EqualFold(name, []byte("content-length")):
		n, err := strconv.ParseUint(string(value), 10, 63)
		if err != nil || (r.length >= 0 && r.length != int64(n)) {
			return fmt.Errorf("content-length %q: want one number", brief(value))
		}
		r.length = int64(n)
	case bytes.EqualFold(name, []byte("transfer-encoding")):
		if !bytes.EqualFold(value, []byte("chunked")) {
			return fmt.Errorf("transfer-encoding %q: want chunked", brief(value))
		}
		r.chunked = true
	case bytes.EqualFold(name, []byte("connection")):
		r.keep = !bytes.EqualFold(value, []byte("close")) && (r.keep || bytes.EqualFold(value, []byte("keep-alive")))
	case bytes.EqualFold(name, []byte("content-encoding")):
		if !bytes.EqualFold(value, []byte("identity")) {
			return fmt.Errorf("content-encoding %q: none was asked for", brief(value))
		}
	}
	return nil
}

// headEnds decides how the body is framed (RFC 9112 6.3).
func (r *response) headEnds() error {
	switch {
	case r.status == http.StatusSwitchingProtocols:
		return errors.New("the server wants to switch protocols, which was not asked for")
	case r.status < 200: // the answer is still to come
		r.next = statusLine
	case r.status == http.StatusNoContent || r.status == http.StatusNotModified:
		r.next = nothingMore
	case r.chunked:
		if r.length >= 0 {
			r.keep = false // who sends both may be misunderstood on the way
		}
		r.next, r.size = sizeLine, 0
	case r.length == 0:
		r.next = nothingMore
	default:
		r.keep = r.keep && r.length > 0
		r.next = bodyBytes
	}
	return nil
}

// readSize reads the hexadecimal size of a chunk; extensions behind it are ignored.
func (r *response) readSize(line []byte) error {
	digits, _, _ := bytes.Cut(line, []byte(";"))
	digits = bytes.TrimSpace(digits)
	n, err := strconv.ParseUint(string(digits), 16, 63)
	if err != nil || n > math.MaxInt64/2 {
		return fmt.Errorf("%q: want the size of a chunk", brief(line))
	}
	r.length, r.next, r.size = int64(n), bodyBytes, 0
	if n == 0 {
		r.next = trailers
	}
	return nil
}
