package outbound

import (
	"compress/flate"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"syscall"
)

// An Error says why a request was refused or what was wrong with its answer, in words that a model
// and its user may see: they hold no address but one that was asked for.
type Error struct {
	Reason string
	Status int // of HTTP; 0 = it is not about one
}

// Error implements error.
func (e *Error) Error() string { return e.Reason }

func refuse(format string, args ...any) *Error { return &Error{Reason: fmt.Sprintf(format, args...)} }

// notPublic is one text whatever the address was: differences would map the operator's network.
var notPublic = &Error{Reason: "its address is not on the public internet and not allowed here"}

func tooLarge(limit int64) *Error {
	if limit < 1<<20 {
		return refuse("its answer is longer than %d bytes", limit)
	}
	return refuse("its answer is longer than %d MiB", limit>>20)
}

// status says what an HTTP status means.
func status(code int) *Error {
	text := http.StatusText(code)
	return &Error{Reason: strings.TrimSpace(fmt.Sprintf("the server answered %d %s", code, text)), Status: code}
}

// Reason returns in one line what an error of a client means, without addresses of the network that
// it was met in.
func Reason(err error) string {
	if told, ok := errors.AsType[*Error](err); ok {
		return told.Reason
	}
	if known := find(err); known != nil {
		return known.text
	}
	return "the request failed"
}

// A reason is a kind of error that can be told.
type reason struct {
	is     func(error) bool
	passes bool // another attempt may end otherwise
	text   string
}

// reasons are tried in order.
var reasons = []reason{
	{is(context.Canceled), false, "it was cancelled"},
	{timeout, true, "there was no complete answer in time"},
	{unknownHost, false, "there is no host of that name"},
	{of[*net.DNSError], true, "the name of the host cannot be looked up now"},
	{of[x509.HostnameError], false, "its certificate is for another host"},
	{of[x509.UnknownAuthorityError], false, "its certificate is signed by nobody who is known here"},
	{of[x509.CertificateInvalidError], false, "its certificate is not valid, or not any more"},
	{of[*tls.CertificateVerificationError], false, "its certificate cannot be verified"},
	{of[tls.RecordHeaderError], false, "it does not speak TLS"},
	{is(http.ErrSchemeMismatch), false, "it speaks http, not https"},
	{of[tls.AlertError], false, "it refused the TLS connection"},
	{is(syscall.ECONNREFUSED), true, "the server refuses connections"},
	{is(syscall.ECONNRESET, syscall.EPIPE), true, "the server broke the connection off"},
	{is(syscall.EHOSTUNREACH, syscall.ENETUNREACH), true, "the server cannot be reached"},
	{of[flate.CorruptInputError], false, damaged},
	{is(gzip.ErrHeader, gzip.ErrChecksum), false, damaged},
	{is(io.EOF, io.ErrUnexpectedEOF), true, "the connection ended before the answer did"},
	{malformed, false, "its answer is not HTTP"},
}

const damaged = "its compressed content is damaged"

// find returns what is known of an error; nil = nothing.
func find(err error) *reason {
	for i := range reasons {
		if reasons[i].is(err) {
			return &reasons[i]
		}
	}
	return nil
}

func is(targets ...error) func(error) bool {
	return func(err error) bool {
		return slices.ContainsFunc(targets, func(target error) bool { return errors.Is(err, target) })
	}
}

func of[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

func timeout(err error) bool {
	slow, ok := errors.AsType[net.Error](err)
	return errors.Is(err, context.DeadlineExceeded) || (ok && slow.Timeout())
}

func unknownHost(err error) bool {
	name, ok := errors.AsType[*net.DNSError](err)
	return ok && name.IsNotFound && !name.IsTemporary
}

// malformed knows net/http's errors by their text: they have no type.
func malformed(err error) bool { return strings.Contains(err.Error(), "malformed") }
