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
	for _, header := range a.Header {
		all = setHeader(all, header)
	}
	for _, header := range all {
		if header.Key == "" || strings.ContainsAny(header.Key, " \t\r\n:") || strings.ContainsAny(header.Value, "\r\n\x00") {
			return nil, fmt.Errorf("header %q: want a name without spaces and a value on one line", header.Key)
		}
	}
	return all, nil
}

// setHeader adds a header, in the place of a header of that name if there is one.
func setHeader(headers []Pair, header Pair) []Pair {
	for i := range headers {
		if strings.EqualFold(headers[i].Key, header.Key) {
			headers[i] = header
			return headers
		}
	}
	return append(headers, header)
}

// tls is the configuration for a server; nil where it is not reached by https.
func (a *Access) tls(server *url.URL) *tls.Config {
	if server.Scheme != "https" {
		return nil
	}
	return &tls.Config{ServerName: server.Hostname(), InsecureSkipVerify: a.Insecure, NextProtos: []string{"http/1.1"}}
}

// proxy returns the proxy for a server; nil = none.
func (a *Access) proxy(server *url.URL) (*url.URL, error) {
	if a.Proxy == nil {
		return nil, nil
	}
	proxy, err := a.Proxy(&http.Request{URL: server})
	if err == nil && proxy != nil && proxy.Scheme != "http" {
		err = fmt.Errorf("proxy %s: only http proxies are supported; set NO_PROXY to reach %s without one", proxy.Redacted(), server.Host)
	}
	return proxy, err
}

// parseURL reads the address of a server or an endpoint.
func parseURL(text string) (*url.URL, error) {
	address, err := url.Parse(text)
	if err != nil || (address.Scheme != "http" && address.Scheme != "https") || address.Hostname() == "" {
		return nil, fmt.Errorf("%q: want an address such as http://127.0.0.1:8000", text)
	}
	if address.User != nil {
		return nil, errors.New("user and password in the address are not supported; use --header Authorization=…")
	}
	return address, nil
}
