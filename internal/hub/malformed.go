package hub

// Answers that are no HTTP. An endpoint, or a proxy before it, that writes one writes it again:
// to ask once more only makes its user wait. A connection that broke looks otherwise.

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/textproto"
	"net/url"
	"strings"
)

// malformedWords are what the client of the standard library says of answers that it cannot
// take apart where it has no type for it; TestMalformed holds them.
var malformedWords = []string{"malformed HTTP ", "malformed chunked encoding", "invalid byte in chunk length", "bad Content-Length", "multiple Content-Length headers",
	"unsupported transfer encoding", "response headers exceeded", "unsupported protocol scheme", badLocation}

// badLocation begins what is said of a redirection to what is no address; it goes on with that.
const badLocation = "failed to parse Location header"

// malformed makes of err, which ended a request or the reading of its answer, one that is
// not tried again and that shows what came in a form that a terminal can take; nil where the
// answer was none, or sound as far as it came.
func malformed(err error) error {
	if err == nil {
		return nil
	}
	var header textproto.ProtocolError
	var record tls.RecordHeaderError
	var outer *url.Error
	text := err.Error()
	if errors.As(err, &outer) { // its text begins with the address, which may hold a signature
		text = outer.Err.Error()
	}
	bad := errors.As(err, &header) || errors.As(err, &record) || errors.Is(err, http.ErrSchemeMismatch)
	for _, words := range malformedWords {
		bad = bad || strings.Contains(text, words)
	}
	if !bad {
		return nil
	}
	if strings.HasPrefix(text, badLocation) { // that may hold one, too
		text = badLocation
	}
	return permanentError{fmt.Errorf("the answer is not HTTP as it has to be: %.200q; ask who runs the endpoint, or the proxy before it", text)}
}
