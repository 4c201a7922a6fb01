package source

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"ossian/internal/tools/outbound"
)

// KeyOptions say how a service is asked.
type KeyOptions struct {
	Key    string           // "" = the constructor returns an error
	URL    string           // "" = the service's own; for tests and gateways
	Client outbound.Options // Proxy and Redirects are set here: no model chooses the address
}

// A service is what services with keys have in common.
type service struct {
	label    string // the service, for errors
	variable string // of the environment, in which its key usually is
	header   string // that the key is sent in
	key      string
	base     string
	client   *http.Client
}

// open returns the service with its options.
func (s service) open(opts KeyOptions) (service, error) {
	if s.key = strings.TrimSpace(opts.Key); s.key == "" {
		return s, fmt.Errorf("there is no key for %s: set %s", s.label, s.variable)
	}
	if strings.ContainsFunc(s.key, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return s, fmt.Errorf("the key for %s in %s has characters that no key has", s.label, s.variable)
	}
	s.base = strings.TrimRight(cmp.Or(opts.URL, s.base), "/")
	base, err := url.Parse(s.base)
	if err != nil || base.Hostname() == "" || (base.Scheme != "https" && base.Scheme != "http") {
		return s, fmt.Errorf("the address of %s is no http or https address", s.label)
	}
	opts.Client.Proxy, opts.Client.Redirects = true, -1 // the key goes nowhere else
	s.client = outbound.Client(opts.Client)
	return s, outbound.CheckAllow(opts.Client.Allow)
}

// call sends a request, with a body that is JSON unless nil, and reads the answer.
func (s *service) call(ctx context.Context, method, path string, body, into any) error {
	content, err := json.Marshal(body)
	if err != nil {
		return errors.New("the request cannot be written as JSON")
	}
	if body == nil {
		content = nil
	}
	req, err := http.NewRequestWithContext(ctx, method, s.base+path, bytes.NewReader(content))
	if err != nil {
		return fmt.Errorf("%s has no valid address", s.label)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
		req.Header["Idempotency-Key"] = nil // to ask twice does no harm
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set(s.header, s.key)
	answer, err := outbound.Fetch(s.client, req)
	if err != nil {
		return s.told(err)
	}
	if err := json.Unmarshal(answer.Body, into); err != nil {
		return fmt.Errorf("%s gave an answer that is not in its documented form", s.label)
	}
	return nil
}

// told says what an error of a service means.
func (s *service) told(err error) error {
	known, _ := errors.AsType[*outbound.Error](err)
	if known == nil {
		return fmt.Errorf("%s failed", s.label)
	}
	switch known.Status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return fmt.Errorf("%s refuses the server's key (%d): whoever runs the server has to check %s", s.label, known.Status, s.variable)
	case http.StatusPaymentRequired:
		return fmt.Errorf("%s wants to be paid (402): the credit of the server's key is used up", s.label)
	case http.StatusTooManyRequests:
		return fmt.Errorf("%s has been asked too often (429): try again later", s.label)
	}
	return fmt.Errorf("%s failed: %s", s.label, known.Reason)
}

// public returns why an address is not named to a service.
func public(address string) error {
	page, err := outbound.CheckPage(address)
	if err != nil {
		return err
	}
	return outbound.CheckPublic(page)
}

// exa is the service of exa.ai (https://exa.ai/docs/reference/search and /get-contents).
type exa struct{ service }

// Exa returns the service of exa.ai as a backend; the error says what is wrong with the options.
func Exa(opts KeyOptions) (Backend, error) {
	opened, err := service{label: "Exa", variable: "EXA_API_KEY", header: "x-api-key", base: "https://api.exa.ai"}.open(opts)
	if err != nil {
		return nil, err
	}
	return &exa{opened}, nil
}

// Name is exa.
func (e *exa) Name() string { return "exa" }

type exaAnswer struct {
	Results []struct {
		Title, URL, Summary, Text string
	}
	Statuses []struct {
		Status string
		Error  struct {
			Tag            string
			HTTPStatusCode int `json:"httpStatusCode"`
		}
	}
}

// Search asks for pages with their summaries.
func (e *exa) Search(ctx context.Context, query string, n int) ([]Hit, error) {
	return e.SearchWithin(ctx, query, n, nil)
}

// SearchWithin implements Filterer.
func (e *exa) SearchWithin(ctx context.Context, query string, n int, domains []string) ([]Hit, error) {
	asked := map[string]any{"query": query, "numResults": n, "contents": map[string]any{"text": true, "summary": true}}
	if domains != nil {
		asked["includeDomains"] = domains
	}
	var answer exaAnswer
	err := e.call(ctx, http.MethodPost, "/search", asked, &answer)
	if err != nil {
		return nil, err
	}
	var hits []Hit
	for _, one := range answer.Results {
		hits = append(hits, Hit{one.Title, one.URL, cmp.Or(one.Summary, clip(one.Text, passageRunes))})
	}
	return tidy(hits, n), nil
}

// Fetch asks for a page.
func (e *exa) Fetch(ctx context.Context, address string) (Document, error) {
	if err := public(address); err != nil {
		return Document{}, err
	}
	var answer exaAnswer
	err := e.call(ctx, http.MethodPost, "/contents", map[string]any{"urls": []string{address},
		"text": map[string]any{"includeHtmlTags": true}}, &answer)
	switch {
	case err != nil:
		return Document{}, err
	case len(answer.Results) > 0 && answer.Results[0].Text != "":
		return Document{Title: clip(line(answer.Results[0].Title), titleRunes), HTML: answer.Results[0].Text}, nil
	case len(answer.Statuses) > 0 && answer.Statuses[0].Error.Tag != "":
		return Document{}, fmt.Errorf("the service Exa could not get it (%.60q)", answer.Statuses[0].Error.Tag)
	}
	return Document{}, errors.New("the service Exa has no content of it")
}

// youCom is the service of you.com (https://you.com/docs: Search API, Contents API).
type youCom struct{ service }

// YouCom returns the service of you.com as a backend; the error says what is wrong with the options.
func YouCom(opts KeyOptions) (Backend, error) {
	opened, err := service{label: "You.com", variable: "YDC_API_KEY", header: "X-API-Key", base: "https://api.ydc-index.io"}.open(opts)
	if err != nil {
		return nil, err
	}
	return &youCom{opened}, nil
}

// Name is youcom.
func (y *youCom) Name() string { return "youcom" }

// Search asks for pages and news, in this order.
func (y *youCom) Search(ctx context.Context, query string, n int) ([]Hit, error) {
	type result struct {
		Title, URL, Description string
		Snippets                []string
	}
	var answer struct {
		Results struct{ Web, News []result }
	}
	asked := url.Values{"query": {query}, "count": {strconv.Itoa(n)}}
	if err := y.call(ctx, http.MethodGet, "/v1/search?"+asked.Encode(), nil, &answer); err != nil {
		return nil, err
	}
	var hits []Hit
	for _, one := range append(answer.Results.Web, answer.Results.News...) {
		hits = append(hits, Hit{one.Title, one.URL, cmp.Or(strings.Join(one.Snippets, " "), one.Description)})
	}
	return tidy(hits, n), nil
}

// Fetch asks for a page.
func (y *youCom) Fetch(ctx context.Context, address string) (Document, error) {
	if err := public(address); err != nil {
		return Document{}, err
	}
	var answer []struct{ Title, HTML, Markdown string }
	err := y.call(ctx, http.MethodPost, "/v1/contents", map[string]any{"urls": []string{address}, "formats": []string{"html"}}, &answer)
	switch {
	case err != nil:
		return Document{}, err
	case len(answer) > 0 && answer[0].HTML != "":
		return Document{Title: clip(line(answer[0].Title), titleRunes), HTML: answer[0].HTML}, nil
	case len(answer) > 0 && answer[0].Markdown != "":
		return Document{Title: clip(line(answer[0].Title), titleRunes), Text: answer[0].Markdown}, nil
	}
	return Document{}, errors.New("the service You.com has no content of it")
}
