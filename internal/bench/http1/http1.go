// Package http1 takes HTTP/1.1 responses apart as their bytes come (RFC 9112). It is pushed
// and not read from: so a stream that waits holds no buffer, and nothing stands between the
// kernel's receipt of some bytes and the handling of the event in them. It knows no
// connection; whoever has one says what came and when it ended.
package http1

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"
)

const (
	maxHead  = 64 << 10 // bytes of a response's head, or of a trailer
	maxQuote = 300      // bytes of a line that an error repeats
)

// A part says what of a response comes next:
//
//	statusLine → headerLines → bodyBytes → nothingMore
//	                         → nothingMore, where there is no body
//	                         → sizeLine → bodyBytes → chunkEnd → sizeLine …
//	                                    → trailers → nothingMore
//
// An interim response (status 1xx) leads from headerLines back to statusLine.
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

// A Response is one response as far as it has come, and the memory for the next one:
// Reset begins it. It belongs to one goroutine.
type Response struct {
	Sink func(p []byte) error // gets the bytes of the body; its error ends Feed

	Began  bool   // a byte has come
	Status int    // of the last status line; 0 = none came
	Reason string // behind the status, at most some hundred bytes of it; "" when that is 200
	Keep   bool   // of a complete response: the connection may carry another request

	next    part
	line    []byte // of a line that has not ended
	size    int    // bytes of the head so far
	length  int64  // bytes that the body or the chunk still has; -1 = not known
	chunked bool
}

// Reset makes r ready for another response; the sink and the memory stay.
func (r *Response) Reset() {
	*r = Response{Sink: r.Sink, line: r.line[:0]}
}

// Feed takes in bytes and reports whether the response is complete. It fails if they are no
// response of HTTP/1.1, or if the sink fails; the connection is of no use then.
func (r *Response) Feed(part []byte) (bool, error) {
	r.Began = r.Began || len(part) > 0
	for len(part) > 0 {
		switch r.next {
		case bodyBytes:
			length := len(part)
			if r.length >= 0 {
				length = int(min(int64(length), r.length))
				r.length -= int64(length)
			}
			if err := r.Sink(part[:length]); err != nil {
				return false, err
			}
			part = part[length:]
			r.bodyEnds()
		case nothingMore:
			r.Keep = false // what comes unasked belongs to no request
			return true, nil
		default:
			rest, err := r.feedLine(part)
			if err != nil {
				return false, err
			}
			part = rest
		}
	}
	return r.next == nothingMore, nil
}

// bodyEnds goes on when all bytes of the body or of the chunk have come.
func (r *Response) bodyEnds() {
	if r.length != 0 {
		return
	}
	r.next = nothingMore
	if r.chunked {
		r.next = chunkEnd
	}
}

// Closed reports what it means that the server closed the connection: nil where this
// ends the body.
func (r *Response) Closed() error {
	switch {
	case r.next == bodyBytes && r.length < 0:
		r.next = nothingMore
		return nil
	case !r.Began:
		return errNoResponse
	}
	return fmt.Errorf("the connection was closed within the response: %w", io.ErrUnexpectedEOF)
}

var errNoResponse = errors.New("the connection was closed before a response")

// feedLine takes a line, or what there is of it, and returns what follows.
func (r *Response) feedLine(part []byte) ([]byte, error) {
	end := bytes.IndexByte(part, '\n')
	length := end + 1
	if end < 0 {
		length = len(part)
	}
	// A line without an end would otherwise take all memory.
	if r.size += length; r.size > maxHead {
		return nil, fmt.Errorf("the head of the response has more than %d bytes", maxHead)
	}
	if end < 0 {
		r.line = append(r.line, part...)
		return nil, nil
	}
	line := part[:end] // without a copy, where it came in one piece
	if len(r.line) > 0 {
		r.line = append(r.line, line...)
		line = r.line
	}
	err := r.readLine(bytes.TrimSuffix(line, []byte("\r")))
	r.line = r.line[:0]
	return part[length:], err
}

// readLine reads a line without its end.
func (r *Response) readLine(line []byte) error {
	switch r.next { // bodies are no lines
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
			return fmt.Errorf("%q behind a chunk: want an empty line", quote(line))
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
func (r *Response) readStatus(line []byte) error {
	version, rest, _ := bytes.Cut(line, []byte(" "))
	code, reason, _ := bytes.Cut(rest, []byte(" "))
	status, err := strconv.Atoi(string(code))
	if minor, ok := bytes.CutPrefix(version, []byte("HTTP/1.")); !ok || len(minor) != 1 || len(code) != 3 || err != nil || status < 100 {
		return fmt.Errorf("%q: want a response of HTTP/1.1", quote(line))
	}
	r.Status, r.length, r.next = status, -1, headerLines
	r.Keep = version[len(version)-1] != '0'
	r.chunked, r.Reason = false, ""
	if status != http.StatusOK {
		if r.Reason = quote(bytes.TrimSpace(reason)); r.Reason == "" {
			r.Reason = http.StatusText(status)
		}
	}
	return nil
}

// readHeader reads what frames the body and says whether the connection stays; other
// headers are of no interest.
func (r *Response) readHeader(line []byte) error {
	name, value, ok := bytes.Cut(line, []byte(":"))
	if !ok {
		return fmt.Errorf("%q: want a header", quote(line))
	}
	// What cannot be read as it was meant is an error: a body framed wrongly would be taken for
	// events, or for the next response.
	value = bytes.TrimSpace(value)
	switch {
	case bytes.EqualFold(name, []byte("content-length")):
		length, err := strconv.ParseUint(string(value), 10, 63)
		if err != nil || (r.length >= 0 && r.length != int64(length)) {
			return fmt.Errorf("content-length %q: want one number", quote(value))
		}
		r.length = int64(length)
	case bytes.EqualFold(name, []byte("transfer-encoding")):
		if !bytes.EqualFold(value, []byte("chunked")) {
			return fmt.Errorf("transfer-encoding %q: want chunked", quote(value))
		}
		r.chunked = true
	case bytes.EqualFold(name, []byte("connection")):
		r.Keep = !bytes.EqualFold(value, []byte("close")) && (r.Keep || bytes.EqualFold(value, []byte("keep-alive")))
	case bytes.EqualFold(name, []byte("content-encoding")):
		if !bytes.EqualFold(value, []byte("identity")) {
			return fmt.Errorf("content-encoding %q: none was asked for", quote(value))
		}
	}
	return nil
}

// headEnds decides how the body is framed (RFC 9112 6.3).
func (r *Response) headEnds() error {
	switch {
	case r.Status == http.StatusSwitchingProtocols:
		return errors.New("the server wants to switch protocols, which was not asked for")
	case r.Status < 200: // the answer is still to come
		r.next = statusLine
	case r.Status == http.StatusNoContent || r.Status == http.StatusNotModified:
		r.next = nothingMore
	case r.chunked:
		if r.length >= 0 {
			r.Keep = false // who sends both may be misunderstood on the way
		}
		r.next, r.size = sizeLine, 0
	case r.length == 0:
		r.next = nothingMore
	default:
		r.Keep = r.Keep && r.length > 0
		r.next = bodyBytes
	}
	return nil
}

// readSize reads the hexadecimal size of a chunk; extensions behind it are ignored.
func (r *Response) readSize(line []byte) error {
	digits, _, _ := bytes.Cut(line, []byte(";"))
	digits = bytes.TrimSpace(digits)
	size, err := strconv.ParseUint(string(digits), 16, 63)
	if err != nil || size > math.MaxInt64/2 {
		return fmt.Errorf("%q: want the size of a chunk", quote(line))
	}
	r.length, r.next, r.size = int64(size), bodyBytes, 0
	if size == 0 {
		r.next = trailers
	}
	return nil
}

// quote cuts a line of the server to a length that fits an error.
func quote(line []byte) string {
	return strings.ToValidUTF8(string(line[:min(len(line), maxQuote)]), "\uFFFD")
}
