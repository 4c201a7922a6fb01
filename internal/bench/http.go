package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"ossian/internal/bench/dataset"
	"ossian/internal/bench/http1"
)

const (
	requestLimit = 6 * time.Hour // of one request, as the Python client has it
	answerLimit  = time.Second   // for the answer of a server that stopped reading the request
	maxBody      = 64 << 20      // bytes of a response that is no stream
	maxRefusal   = 1 << 20       // bytes of an error response that are read to use the connection again
	keptRequest  = 1 << 20       // bytes of a request buffer that are kept for another request
	rustAttempts = 4             // of the compiled client, on errors of the connection
)

// HTTPConfig is how queries are sent.
type HTTPConfig struct {
	Access
	Setup    *Setup          // Profile, Backend, Dialect, URL, Model, IgnoreEOS and Stream count here
	Logprobs *int            // nil = none
	Sampling []Member        // of sampling flags that were given
	Extra    json.RawMessage // --extra-body: an object; "" = none
	IDPrefix string          // before a query's ID in x-request-id
}

// HTTP is a Target: a server that speaks one of OpenAI's protocols. It may be used by
// any number of goroutines.
type HTTP struct {
	setup    *Setup
	api      api
	members  []Member // of the body
	head     string   // of a request, up to what differs
	idPrefix string
	dialer   dialer

	buffers   sync.Pool // *[readBuffer]byte
	requests  sync.Pool // *[]byte
	exchanges sync.Pool // *exchange
}

// NewHTTP checks c and returns the target that it describes. No connection is opened.
func NewHTTP(c HTTPConfig) (*HTTP, error) {
	h := &HTTP{setup: c.Setup, idPrefix: c.IDPrefix}
	u, err := parseURL(c.Setup.URL)
	if err != nil {
		return nil, err
	}
	if h.api, err = apiOf(c.Setup.Backend); err != nil {
		return nil, err
	}
	if h.members, err = c.template(h.api); err != nil {
		return nil, err
	}
	h.dialer.address, h.dialer.tls = hostPort(u), c.tls(u)
	if h.dialer.proxy, err = c.proxy(u); err != nil {
		return nil, err
	}
	given, err := c.headers()
	if err != nil {
		return nil, err
	}
	headers := []Pair{{"Host", u.Host}, {"User-Agent", "ossian-bench"}, {"Accept", "*/*"}, {"Content-Type", "application/json"}}
	for _, g := range given {
		headers = setHeader(headers, g)
	}
	path := u.RequestURI()
	if h.dialer.proxy != nil && h.dialer.tls == nil {
		path = "http://" + u.Host + path
	}
	var head strings.Builder
	fmt.Fprintf(&head, "POST %s HTTP/1.1\r\n", path)
	for _, f := range headers {
		fmt.Fprintf(&head, "%s: %s\r\n", f.Key, f.Value)
	}
	if h.dialer.tls == nil {
		head.WriteString(proxyAuth(h.dialer.proxy))
	}
	h.head = head.String()
	h.buffers.New = func() any { return new([readBuffer]byte) }
	h.requests.New = func() any { return new([]byte) }
	h.exchanges.New = func() any { return newExchange(h) }
	return h, nil
}

// Close closes the connections that carry no request.
func (h *HTTP) Close() { h.dialer.closeIdle() }

// appendRequest appends the request for q.
func (h *HTTP) appendRequest(dst []byte, q *dataset.Query) ([]byte, error) {
	scratch := h.requests.Get().(*[]byte)
	defer h.forget(scratch)
	var err error
	if *scratch, err = h.appendBody((*scratch)[:0], q); err != nil {
		return dst, err
	}
	dst = append(dst, h.head...)
	if q.ID != "" {
		dst = append(append(append(append(dst, "x-request-id: "...), h.idPrefix...), q.ID...), "\r\n"...)
	}
	if q.Session != "" {
		dst = append(append(append(append(dst, "x-session-id: "...), h.idPrefix...), q.Session...), "\r\n"...)
	}
	dst = strconv.AppendInt(append(dst, "Content-Length: "...), int64(len(*scratch)), 10)
	return append(append(dst, "\r\n\r\n"...), *scratch...), nil
}

// forget keeps the memory of a request for another, unless it is large.
func (h *HTTP) forget(b *[]byte) {
	if cap(*b) <= keptRequest {
		h.requests.Put(b)
	}
}

// Do sends q and fills s with what comes back.
func (h *HTTP) Do(ctx context.Context, q *dataset.Query, s *Sample, began time.Time, live *Live) {
	x := h.exchanges.Get().(*exchange)
	x.begin(s, began, live)
	x.request = h.requests.Get().(*[]byte)
	var err error
	*x.request, err = h.appendRequest((*x.request)[:0], q)
	s.Sent = time.Since(began)
	live.Sent.Add(1)
	if err == nil {
		err = h.exchange(ctx, x)
	}
	x.drop()
	s.Done = time.Since(began)
	s.Err = x.finish(err)
	x.stream.s, x.stream.live = nil, nil
	h.exchanges.Put(x)
}

// exchange sends the request of x and reads its response, on a new connection again if
// an idle one turned out to be closed: that is no fault of the server. The compiled
// client tries again on every error of the connection, its clock starting anew.
func (h *HTTP) exchange(ctx context.Context, x *exchange) error {
	fresh := h.setup.Profile.plain()
	for try := 1; ; try++ {
		c, err := h.dialer.get(ctx, fresh)
		stale := false
		if err == nil {
			stale = c.reused // afterwards c may be another's
			err = h.roundTrip(ctx, c, x)
		}
		again := stale || (h.setup.Profile == VLLMRust && try < rustAttempts)
		if err != nil && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err == nil || x.response.Began || !again {
			return err
		}
		fresh = true
		x.response.Reset()
		if !stale {
			x.stream.s.Sent = time.Since(x.stream.began)
		}
	}
}

// roundTrip carries x over c, and keeps c if it can carry another.
func (h *HTTP) roundTrip(ctx context.Context, c *conn, x *exchange) error {
	if err := c.SetDeadline(time.Now().Add(requestLimit)); err != nil {
		c.Close()
		return err
	}
	stop := context.AfterFunc(ctx, func() { c.SetDeadline(past) })
	_, failed := c.Write(*x.request)
	if failed != nil {
		// It may have answered before it stopped reading: too large, or no access.
		c.SetDeadline(time.Now().Add(answerLimit))
	} else if !c.reused && h.setup.Profile != VLLMRust {
		x.drop() // long prompts of many streams are a lot of memory, and this one has gone out
	}
	err := c.receive(x)
	if failed != nil && err != nil {
		err = failed
	}
	stopped := !stop()
	if err == nil && failed == nil && !stopped && x.response.Keep && !h.setup.Profile.plain() {
		h.dialer.put(c)
	} else {
		c.Close()
	}
	return err
}

// An exchange is a request and its response. Exchanges are used again, with their
// buffers.
type exchange struct {
	h        *HTTP
	response http1.Response
	stream   stream
	request  *[]byte // nil once it is not needed any more
	body     []byte  // of a response that is no stream
	bodySize int
}

func newExchange(h *HTTP) *exchange {
	x := &exchange{h: h}
	x.response.Sink = x.take
	return x
}

func (x *exchange) begin(s *Sample, began time.Time, live *Live) {
	s.Counts = unknown
	x.response.Reset()
	x.stream.reset(s, live, began, x.h.api == responses)
	x.body, x.bodySize = x.body[:0], 0
}

func (x *exchange) drop() {
	if x.request != nil {
		x.h.forget(x.request)
		x.request = nil
	}
}

// received takes in bytes that the kernel had since lag before now (-1 = not known) and
// reports whether the response is complete.
func (x *exchange) received(p []byte, lag time.Duration) (bool, error) {
	x.drop()
	x.stream.lag, x.stream.read = lag, time.Since(x.stream.began)
	return x.response.Feed(p)
}

// ended reports what it means that reading failed.
func (x *exchange) ended(err error) error {
	if err == io.EOF {
		return x.response.Closed()
	}
	return err
}

// take gets the bytes of the body.
func (x *exchange) take(p []byte) error {
	x.bodySize += len(p)
	streams := x.h.setup.Stream
	switch ok := x.response.Status == http.StatusOK; {
	case ok && streams:
		return x.stream.feed(p)
	case ok && x.bodySize > maxBody:
		return fmt.Errorf("a response of more than %d bytes", maxBody)
	case ok:
		x.body = append(x.body, p...)
	case len(x.body) < maxError:
		x.body = append(x.body, p[:min(len(p), maxError-len(x.body))]...)
	case x.bodySize > maxRefusal:
		return errors.New("the body of the error goes on")
	}
	return nil
}

// finish ends the sample and says why it failed; "" = it did not.
func (x *exchange) finish(err error) string {
	s, r := x.stream.s, &x.response
	s.Status = r.Status
	if r.Status > 200 {
		return strings.TrimSuffix(fmt.Sprintf("%d %s: %s", r.Status, r.Reason, brief(x.body)), ": ")
	}
	if err == nil {
		if x.h.setup.Stream {
			err = x.stream.end()
		} else {
			err = x.stream.document(x.body)
		}
	}
	fault := x.stream.finish()
	switch {
	case err != nil:
		return err.Error()
	case fault == "" && x.h.api == responses && !x.stream.completed:
		return "the stream ended without response.completed"
	}
	return fault
}
