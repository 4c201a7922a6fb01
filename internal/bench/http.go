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

// NoRequestIDs in place of a prefix sends no x-request-id: some servers (llama-cpp-python's) answer 400 to
// one that is no UUID.
const NoRequestIDs = "-"

// HTTPConfig is how queries are sent.
type HTTPConfig struct {
	Access
	Setup    *Setup          // Profile, Backend, Dialect, URL, Model, IgnoreEOS and Stream count here
	Logprobs *int            // nil = none
	Sampling []Member        // of sampling flags that were given
	Extra    json.RawMessage // --extra-body: an object; "" = none
	IDPrefix string          // before a query's ID in x-request-id; NoRequestIDs sends none
}

// HTTP is a Target: a server that speaks one of OpenAI's protocols. It may be used by
// any number of goroutines: but for the dialer and the pools, which look after themselves,
// nothing in it changes.
type HTTP struct {
	setup    *Setup
	api      api
	members  []Member // of the body, with slots for what differs
	head     string   // of a request, up to what differs
	idPrefix string
	dialer   dialer

	buffers   sync.Pool // *[readBuffer]byte
	requests  sync.Pool // *[]byte
	exchanges sync.Pool // *exchange
}

// NewHTTP checks config and returns the target that it describes. No connection is opened.
func NewHTTP(config HTTPConfig) (*HTTP, error) {
	target := &HTTP{setup: config.Setup, idPrefix: config.IDPrefix}
	server, err := parseURL(config.Setup.URL)
	if err != nil {
		return nil, err
	}
	if target.api, err = apiOf(config.Setup.Backend); err != nil {
		return nil, err
	}
	if target.members, err = config.template(target.api); err != nil {
		return nil, err
	}
	target.dialer.address, target.dialer.tls = hostPort(server), config.tls(server)
	if target.dialer.proxy, err = config.proxy(server); err != nil {
		return nil, err
	}
	given, err := config.headers()
	if err != nil {
		return nil, err
	}
	// The head of all requests is written once: ours, replaced by those of the user.
	headers := []Pair{{"Host", server.Host}, {"User-Agent", "ossian-bench"}, {"Accept", "*/*"}, {"Content-Type", "application/json"}}
	for _, header := range given {
		headers = setHeader(headers, header)
	}
	path := server.RequestURI()
	// A proxy takes plain requests itself; for TLS it gets a CONNECT, see dialer.tunnel.
	if target.dialer.proxy != nil && target.dialer.tls == nil {
		path = "http://" + server.Host + path
	}
	var head strings.Builder
	fmt.Fprintf(&head, "POST %s HTTP/1.1\r\n", path)
	for _, field := range headers {
		fmt.Fprintf(&head, "%s: %s\r\n", field.Key, field.Value)
	}
	if target.dialer.tls == nil {
		head.WriteString(proxyAuth(target.dialer.proxy))
	}
	target.head = head.String()
	target.buffers.New = func() any { return new([readBuffer]byte) }
	target.requests.New = func() any { return new([]byte) }
	target.exchanges.New = func() any { return newExchange(target) }
	return target, nil
}

// Close closes the connections that carry no request.
func (h *HTTP) Close() { h.dialer.closeIdle() }

// appendRequest appends the request for a query.
func (h *HTTP) appendRequest(dst []byte, query *dataset.Query) ([]byte, error) {
	scratch := h.requests.Get().(*[]byte)
	defer h.recycle(scratch)
	var err error
	if *scratch, err = h.appendBody((*scratch)[:0], query); err != nil {
		return dst, err
	}
	dst = append(dst, h.head...)
	if query.ID != "" && h.idPrefix != NoRequestIDs {
		dst = append(append(append(append(dst, "x-request-id: "...), h.idPrefix...), query.ID...), "\r\n"...)
	}
	if query.Session != "" {
		dst = append(append(append(append(dst, "x-session-id: "...), h.idPrefix...), query.Session...), "\r\n"...)
	}
	dst = strconv.AppendInt(append(dst, "Content-Length: "...), int64(len(*scratch)), 10)
	return append(append(dst, "\r\n\r\n"...), *scratch...), nil
}

// recycle keeps the memory of a request for another, unless it is large.
func (h *HTTP) recycle(b *[]byte) {
	if cap(*b) <= keptRequest {
		h.requests.Put(b)
	}
}

// Do sends a query and fills its sample with what comes back.
func (h *HTTP) Do(ctx context.Context, query *dataset.Query, sample *Sample, began time.Time, live *Live) {
	exchange := h.exchanges.Get().(*exchange)
	exchange.begin(sample, began, live)
	exchange.request = h.requests.Get().(*[]byte)
	var err error
	*exchange.request, err = h.appendRequest((*exchange.request)[:0], query)
	sample.Sent = time.Since(began) // with the body ready: making it is no time of the server's
	live.Sent.Add(1)
	if err == nil {
		err = h.attempts(ctx, exchange)
	}
	exchange.dropRequest()
	sample.Done = time.Since(began)
	sample.Err = exchange.finish(err)
	exchange.stream.sample, exchange.stream.live = nil, nil
	h.exchanges.Put(exchange)
}

// attempts sends the request of an exchange and reads its response, on a new connection again if
// an idle one turned out to be closed: that is no fault of the server. The compiled
// client tries again on every error of the connection, its clock starting anew.
func (h *HTTP) attempts(ctx context.Context, exchange *exchange) error {
	fresh := h.setup.Profile.plain()
	for attempt := 1; ; attempt++ {
		conn, err := h.dialer.get(ctx, fresh)
		stale := false
		if err == nil {
			stale = conn.reused // afterwards conn may be another's
			err = h.roundTrip(ctx, conn, exchange)
		}
		// Once a byte of the response has come it may not be sent again: the server has begun.
		again := stale || (h.setup.Profile == VLLMRust && attempt < rustAttempts)
		if err != nil && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err == nil || exchange.response.Began || !again {
			return err
		}
		fresh = true
		exchange.response.Reset()
		if !stale {
			exchange.stream.sample.Sent = time.Since(exchange.stream.began)
		}
	}
}

// roundTrip carries an exchange over conn, and keeps conn if it can carry another.
func (h *HTTP) roundTrip(ctx context.Context, conn *connection, exchange *exchange) error {
	if err := conn.SetDeadline(time.Now().Add(requestLimit)); err != nil {
		conn.Close()
		return err
	}
	stop := context.AfterFunc(ctx, func() { conn.SetDeadline(past) })
	_, failed := conn.Write(*exchange.request)
	if failed != nil {
		// It may have answered before it stopped reading: too large, or no access.
		conn.SetDeadline(time.Now().Add(answerLimit))
	} else if !conn.reused && h.setup.Profile != VLLMRust {
		exchange.dropRequest() // long prompts of many streams are a lot of memory, and this one has gone out
	}
	err := conn.receive(exchange)
	if failed != nil && err != nil {
		err = failed
	}
	stopped := !stop() // else the end of ctx might still spoil the connection for the next request
	if err == nil && failed == nil && !stopped && exchange.response.Keep && !h.setup.Profile.plain() {
		h.dialer.put(conn)
	} else {
		conn.Close()
	}
	return err
}

// An exchange is a request and its response. Exchanges are used again, with their
// buffers.
//
// Bytes go received → response → takeBody → stream, all on the goroutine of the transport.
type exchange struct {
	http     *HTTP
	response http1.Response
	stream   stream
	request  *[]byte // nil once it is not needed any more
	body     []byte  // of a response that is no stream; of an error its beginning
	bodySize int     // bytes of the body so far, kept or not
}

func newExchange(h *HTTP) *exchange {
	x := &exchange{http: h}
	x.response.Sink = x.takeBody
	return x
}

// begin makes x ready for the request behind a sample.
func (x *exchange) begin(sample *Sample, began time.Time, live *Live) {
	sample.Counts = unknownCounts
	x.response.Reset()
	x.stream.reset(sample, live, began, x.http.api == responses)
	x.body, x.bodySize = x.body[:0], 0
}

// dropRequest gives back the memory of the request.
func (x *exchange) dropRequest() {
	if x.request != nil {
		x.http.recycle(x.request)
		x.request = nil
	}
}

// received takes in bytes that the kernel had since lag before now (-1 = not known) and
// reports whether the response is complete.
func (x *exchange) received(part []byte, lag time.Duration) (bool, error) {
	x.dropRequest()
	x.stream.lag, x.stream.readAt = lag, time.Since(x.stream.began)
	return x.response.Feed(part)
}

// ended reports what it means that reading failed.
func (x *exchange) ended(err error) error {
	if err == io.EOF {
		return x.response.Closed()
	}
	return err
}

// takeBody gets the bytes of the body.
func (x *exchange) takeBody(part []byte) error {
	x.bodySize += len(part)
	streams := x.http.setup.Stream
	switch ok := x.response.Status == http.StatusOK; {
	case ok && streams && x.bodySize > maxStream:
		return fmt.Errorf("a stream of more than %d bytes", maxStream)
	case ok && streams:
		return x.stream.feed(part)
	case ok && x.bodySize > maxBody:
		return fmt.Errorf("a response of more than %d bytes", maxBody)
	case ok:
		x.body = append(x.body, part...)
	case len(x.body) < maxError:
		x.body = append(x.body, part[:min(len(part), maxError-len(x.body))]...)
	case x.bodySize > maxRefusal:
		return errors.New("the body of the error goes on")
	}
	return nil
}

// finish ends the sample and says why it failed; "" = it did not.
func (x *exchange) finish(err error) string {
	sample, response := x.stream.sample, &x.response
	sample.Status = response.Status
	if response.Status > 200 {
		return strings.TrimSuffix(fmt.Sprintf("%d %s: %s", response.Status, response.Reason, brief(x.body)), ": ")
	}
	if err == nil {
		if x.http.setup.Stream {
			err = x.stream.end()
		} else {
			err = x.stream.document(x.body)
		}
	}
	// What went wrong with the bytes comes before what the server said about itself.
	fault := x.stream.finish()
	switch {
	case err != nil:
		return err.Error()
	case fault == "" && x.http.api == responses && !x.stream.saidCompleted:
		return "the stream ended without response.completed"
	}
	return fault
}
