package mcp

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"ossian/internal/limits"
	"ossian/internal/tools"
)

// A kind says what went wrong between us and a server.
type kind uint8

const (
	nonsense kind = iota // it sent what is no message of the protocol, or too much
	away                 // it cannot be reached, or the connection broke
	refusal              // HTTP says so
	answered             // the protocol says so
	silent               // no answer in time
	dropped              // nobody waits any more
)

// A fault is why a connection or a call failed. Its text names no address, no header and nothing
// of this machine: models and the clients of others read it.
type fault struct {
	kind kind
	code int // of HTTP or JSON-RPC; 0 = none
	text string

	detail  string // for operators: what the process of a server said last
	unheard bool   // the server cannot have run the call
}

// Error implements error.
func (f *fault) Error() string { return f.text }

// failure is the fault in the words of the Responses API.
func (f *fault) failure() *tools.Failure {
	failure := &tools.Failure{Type: "http_error", Code: f.code, Message: f.text}
	if f.kind == nonsense || f.kind == answered {
		failure.Type = "mcp_protocol_error"
	}
	return failure
}

// refused reports whether nothing that could serve the protocol in this way is at the address.
func refused(err error) bool {
	var f *fault
	if !errors.As(err, &f) || f.kind != refusal {
		return false
	}
	return f.code == http.StatusBadRequest || f.code == http.StatusNotFound || f.code == http.StatusMethodNotAllowed
}

// fault says why an exchange failed.
func (c *connection) fault(ctx context.Context, x *exchange, err error) *fault {
	var known *fault
	if errors.As(err, &known) {
		own := *known
		return &own
	}
	seen, cause := x.seen(), c.why()
	switch {
	case errors.Is(cause, errTooLarge), errors.Is(seen.cut, errTooLarge):
		return &fault{kind: nonsense, text: "it sent more than " + limits.Format(limits.Bytes, messageBytes(c.limits)-maxRefusal) + " at once"}
	case seen.status == http.StatusUnauthorized || seen.status == http.StatusForbidden:
		return refusalOf(seen.status)
	case seen.answer != nil:
		return answerOf(seen.answer)
	case seen.status >= 400:
		// The SDK reads the bodies of refusals, of which one may be an error of the protocol.
		var answer *jsonrpc.Error
		if errors.As(err, &answer) && !errors.Is(answer, rejected) {
			return answerOf(answer)
		}
		return refusalOf(seen.status)
	case ctx.Err() != nil && errors.Is(context.Cause(ctx), context.Canceled):
		return &fault{kind: dropped, text: "nobody waits for it any more"}
	case ctx.Err() != nil:
		return &fault{kind: silent, text: "it did not answer in time"}
	case seen.sent != nil:
		return &fault{kind: away, text: unreachable(seen.sent)}
	case seen.cut != nil:
		return &fault{kind: away, text: "the connection broke"}
	case errors.As(cause, &known):
		own := *known
		return &own
	case strings.Contains(err.Error(), "unsupported protocol version"):
		return &fault{kind: nonsense, text: "it speaks a version of the protocol that is not known here"}
	case cause != nil, ended(err):
		return &fault{kind: away, text: "the connection broke"}
	}
	own := *errNonsense
	return &own
}

// errNonsense ends a connection whose server does not keep the protocol.
var errNonsense = &fault{kind: nonsense, text: "what it sent is no message of the protocol"}

// rejected is what the SDK wraps errors in that leave a connection as it is.
var rejected = &jsonrpc.Error{Code: -32005}

// ended reports whether an error of the SDK says no more than that messages come no more.
func ended(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, sdk.ErrConnectionClosed) || errors.Is(err, os.ErrClosed) || errors.Is(err, syscall.EPIPE) ||
		strings.Contains(err.Error(), "terminated without response")
}

func answerOf(answer *jsonrpc.Error) *fault {
	return &fault{kind: answered, code: int(answer.Code), text: oneLine(answer.Message, "it reports an error and says nothing of it")}
}

// invalidParams is the code of JSON-RPC for arguments that are wrong.
const invalidParams = jsonrpc.CodeInvalidParams

// unsent reports whether a request failed before anything was sent.
func unsent(err error) bool {
	var name *net.DNSError
	var dial *net.OpError
	return errors.As(err, &name) || (errors.As(err, &dial) && dial.Op == "dial")
}

func refusalOf(status int) *fault {
	text := fmt.Sprintf("HTTP %d %s", status, http.StatusText(status))
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden:
		text += ": it wants other credentials"
	case http.StatusNotFound, http.StatusMethodNotAllowed:
		text += ": no MCP server is at this address"
	}
	return &fault{kind: refusal, code: status, text: text}
}

// unreachable says why a request was not answered.
func unreachable(err error) string {
	var name *net.DNSError
	var host x509.HostnameError
	var authority x509.UnknownAuthorityError
	var invalid x509.CertificateInvalidError
	var certificate *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	var dial *net.OpError
	// From the particular to the general: an error of a certificate is one of the connection as
	// well.
	switch {
	case errors.Is(err, errElsewhere):
		return err.Error()
	case errors.As(err, &name):
		return "its host name is not known"
	case errors.As(err, &host):
		return "its certificate is for another host"
	case errors.As(err, &authority):
		return "its certificate is not from an authority that is trusted here"
	case errors.As(err, &invalid), errors.As(err, &certificate):
		return "its certificate is not valid"
	case errors.As(err, &record):
		return "it does not speak TLS"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "it cannot be reached: connection refused"
	case errors.As(err, &dial) && dial.Op == "dial":
		return "it cannot be reached"
	}
	return "the connection broke"
}

// oneLine is text of a server as part of a sentence.
func oneLine(text, otherwise string) string {
	text = strings.Join(strings.Fields(strings.ToValidUTF8(text, "\ufffd")), " ")
	if text == "" {
		return otherwise
	}
	const most = 1024
	if len(text) > most {
		text = text[:most]
		for !utf8.ValidString(text) {
			text = text[:len(text)-1]
		}
	}
	return text
}
