package bench

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// Access is how a server is reached.
type Access struct {
	Key      string // bearer token; "" = none
	Header   []Pair // further headers; they replace ours of the same name
	Insecure bool   // do not check certificates

	// Proxy returns the proxy for a request, nil for none, as
	// http.ProxyFromEnvironment does; nil = never one.
	Proxy func(*http.Request) (*url.URL, error)
}

// headers returns the headers of every request, the key's first.
func (a *Access) headers() ([]Pair, error) {
	var all []Pair
	if a.Key != "" {
		all = append(all, Pair{"Authorization", "Bearer " + a.Key})
	}
	for _, h := range a.Header {
		all = setHeader(all, h)
	}
	for _, h := range all {
		if h.Key == "" || strings.ContainsAny(h.Key, " \t\r\n:") || strings.ContainsAny(h.Value, "\r\n\x00") {
			return nil, fmt.Errorf("header %q: want a name without spaces and a value on one line", h.Key)
		}
	}
	return all, nil
}

// setHeader adds h, in the place of a header of that name if there is one.
func setHeader(headers []Pair, h Pair) []Pair {
	for i := range headers {
		if strings.EqualFold(headers[i].Key, h.Key) {
			headers[i] = h
			return headers
		}
	}
	return append(headers, h)
}

// tls is the configuration for host; nil where u is not https.
func (a *Access) tls(u *url.URL) *tls.Config {
	if u.Scheme != "https" {
		return nil
	}
	return &tls.Config{ServerName: u.Hostname(), InsecureSkipVerify: a.Insecure, NextProtos: []string{"http/1.1"}}
}

// proxy returns the proxy for u.
func (a *Access) proxy(u *url.URL) (*url.URL, error) {
	if a.Proxy == nil {
		return nil, nil
	}
	p, err := a.Proxy(&http.Request{URL: u})
	if err == nil && p != nil && p.Scheme != "http" {
		err = fmt.Errorf("proxy %s: only http proxies are supported; set NO_PROXY to reach %s without one", p.Redacted(), u.Host)
	}
	return p, err
}

// parseURL reads the address of a server or an endpoint.
func parseURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Hostname() == "" {
		return nil, fmt.Errorf("%q: want an address such as http://127.0.0.1:8000", text)
	}
	if u.User != nil {
		return nil, errors.New("user and password in the address are not supported; use --header Authorization=…")
	}
	return u, nil
}
