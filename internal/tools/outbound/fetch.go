package outbound

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"time"
)

// Attempts is how often a request is sent at most.
const Attempts = 3

// pause is between the first attempt and the second; later ones are three times as long as the
// one before.
const pause = 200 * time.Millisecond

// An Answer is the whole of a successful one.
type Answer struct {
	URL    *url.URL // where it came from, behind redirects
	Header http.Header
	Body   []byte
}

// Fetch sends a request and reads its answer. Where the server fails (5xx) or the network does, it
// is tried again, if its method says that this does no harm or, as in net/http, its header has an
// entry Idempotency-Key, which may be empty. The client's time limit holds for all attempts
// together. The error is an *Error.
func Fetch(client *http.Client, req *http.Request) (*Answer, error) {
	ctx := req.Context()
	if client.Timeout > 0 {
		limited, cancel := context.WithTimeout(ctx, client.Timeout)
		defer cancel()
		ctx = limited
	}
	for attempt, wait := 1, pause; ; attempt, wait = attempt+1, wait*3 {
		answer, err := once(ctx, client, req)
		if err == nil {
			return answer, nil
		}
		if attempt == Attempts || !repeatable(req) || !passing(err) || !sleep(ctx, wait) {
			return nil, told(ctx, err)
		}
	}
}

// once is one attempt.
func once(ctx context.Context, client *http.Client, req *http.Request) (*Answer, error) {
	req = req.Clone(ctx)
	// Each attempt needs the body from its beginning.
	if req.GetBody != nil {
		body, err := req.GetBody()
		if err != nil {
			return nil, err
		}
		req.Body = body
	}
	res, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	if res.StatusCode < 200 || res.StatusCode > 299 {
		return nil, status(res.StatusCode)
	}
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return nil, err
	}
	return &Answer{URL: res.Request.URL, Header: res.Header, Body: body}, nil
}

// repeatable reports whether a request may be sent twice.
func repeatable(req *http.Request) bool {
	if req.Body != nil && req.Body != http.NoBody && req.GetBody == nil {
		return false
	}
	switch req.Method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodPut, http.MethodDelete:
		return true
	}
	_, marked := req.Header["Idempotency-Key"]
	return marked
}

// passing reports whether another attempt may end otherwise.
func passing(err error) bool {
	if known, ok := errors.AsType[*Error](err); ok {
		return known.Status >= 500 && known.Status != http.StatusNotImplemented
	}
	known := find(err)
	return known == nil || known.passes
}

// sleep waits, and reports whether there is time left.
func sleep(ctx context.Context, wait time.Duration) bool {
	select {
	case <-time.After(wait):
		return true
	case <-ctx.Done():
		return false
	}
}

// told returns an error as callers get it. Where time is over, how that showed does not matter.
func told(ctx context.Context, err error) *Error {
	if known, ok := errors.AsType[*Error](err); ok {
		return known
	}
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	return &Error{Reason: Reason(err)}
}
