package http1

import (
	"bytes"
	"testing"
)

// taken is what became of a response.
type taken struct {
	body     string
	status   int
	keep     bool
	complete bool
	err      string
}

func take(pieces ...[]byte) taken {
	var body bytes.Buffer
	r := &Response{Sink: func(p []byte) error { body.Write(p); return nil }}
	r.Reset()
	var out taken
	for _, piece := range pieces {
		done, err := r.Feed(piece)
		if out.complete = done; err != nil {
			out.err = err.Error()
			break
		}
	}
	out.body, out.status, out.keep = body.String(), r.Status, r.Keep
	return out
}

var responses = []struct {
	name, text string
	want       taken
}{
	{"length", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nab", taken{body: "ab", status: 200, keep: true, complete: true}},
	{"chunks", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;x=y\r\na\r\n2\r\nbc\r\n0\r\nT: t\r\n\r\n", taken{body: "abc", status: 200, keep: true, complete: true}},
	{"to the end", "HTTP/1.0 200 OK\r\n\r\nab", taken{body: "ab", status: 200}},
	{"interim", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n", taken{status: 204, keep: true, complete: true}},
	{"unasked", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\nHTTP", taken{status: 200, complete: true}},
	{"no HTTP", "SSH-2.0\r\n", taken{err: `"SSH-2.0": want a response of HTTP/1.1`}},
}

// Every response reads the same however its bytes are cut.
func TestFeed(t *testing.T) {
	for _, c := range responses {
		for cut := range len(c.text) + 1 {
			if got := take([]byte(c.text[:cut]), []byte(c.text[cut:])); got != c.want {
				t.Errorf("%s, cut at %d: %+v, want %+v", c.name, cut, got, c.want)
			}
		}
	}
}

// FuzzFeed: any bytes at any cut give the same body and the same end.
func FuzzFeed(f *testing.F) {
	for i, c := range responses {
		f.Add([]byte(c.text), uint16(5*i))
	}
	f.Fuzz(func(t *testing.T, text []byte, at uint16) {
		cut := min(int(at), len(text))
		if whole, pieces := take(text), take(text[:cut], text[cut:]); whole != pieces {
			t.Fatalf("%q cut at %d: %+v, whole %+v", text, cut, pieces, whole)
		}
	})
}
