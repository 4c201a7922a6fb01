package source

import (
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

// Web is the web, fetched from here.
type Web struct {
	pages    *http.Client
	endpoint *http.Client
	user     *url.Userinfo // of the endpoint; nil = none
	template string        // "" = there is no search
	fields   Fields
}

// HTTPOptions say what HTTP fetches and asks.
type HTTPOptions struct {
	// Search is the address of a search endpoint that answers GET with JSON, in which {query} stands
	// for the query and {n} for the number of results that are wanted:
	// http://localhost:8888/search?q={query}&format=json. "" = pages are opened and not searched for.
	// Its host may be on the operator's network; this allows searching alone.
	Search string
	Fields Fields           // what the endpoint calls things
	Client outbound.Options // of pages; Version, Time and Bytes also of the endpoint
}

// Fields are the names of an endpoint's JSON, with dots between those of nested objects. "" = as
// SearXNG has them.
type Fields struct {
	Results string // results; where the answer is a list itself, that list
	Title   string // title
	URL     string // url
	Summary string // content
}

// HTTP fetches pages from where they are, and finds them through an endpoint of the operator's.
// The error says what is wrong with the options.
func HTTP(opts HTTPOptions) (*Web, error) {
	if err := outbound.CheckAllow(opts.Client.Allow); err != nil {
		return nil, err
	}
	web := &Web{pages: outbound.Client(opts.Client), fields: Fields{
		cmp.Or(opts.Fields.Results, "results"), cmp.Or(opts.Fields.Title, "title"), cmp.Or(opts.Fields.URL, "url"), cmp.Or(opts.Fields.Summary, "content")}}
	if opts.Search == "" {
		return web, nil
	}
	asked, err := url.Parse(fill(opts.Search, "?", 1))
	switch { // a query in the host would be an address that a model chooses: what is escaped is none there
	case err != nil, asked.Hostname() == "", asked.Scheme != "http" && asked.Scheme != "https":
		return nil, errors.New("the search endpoint is no http or https address, such as http://localhost:8888/search?q={query}&format=json")
	case !strings.Contains(opts.Search, "{query}"):
		return nil, fmt.Errorf("the search endpoint on %.100s has no {query}, the place of the query, such as in http://localhost:8888/search?q={query}&format=json", asked.Host)
	}
	web.user, web.template = asked.User, opts.Search
	options := opts.Client
	options.Allow, options.Proxy = append(options.Allow[:len(options.Allow):len(options.Allow)], asked.Host), true
	web.endpoint = outbound.Client(options)
	return web, nil
}

// Name is http.
func (w *Web) Name() string { return "http" }

// Search asks the endpoint.
func (w *Web) Search(ctx context.Context, query string, n int) ([]Hit, error) {
	if w.endpoint == nil {
		return nil, errors.New("this server has no search endpoint; pages can be opened by their URL")
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, fill(w.template, query, n), nil)
	if err != nil {
		return nil, errors.New("the search endpoint has no valid address")
	}
	// Name and password of the address go into a header, and so into no log of addresses.
	if req.URL.User = nil; w.user != nil {
		password, _ := w.user.Password()
		req.SetBasicAuth(w.user.Username(), password)
	}
	req.Header.Set("Accept", "application/json")
	answer, err := outbound.Fetch(w.endpoint, req)
	if err != nil {
		return nil, ofEndpoint(err)
	}
	hits, err := w.fields.read(answer.Body)
	if err != nil {
		return nil, err
	}
	return tidy(hits, n), nil
}

// fill puts a query into a template, escaped so that it is one value in a path as in a query.
func fill(template, query string, n int) string {
	escaped := strings.ReplaceAll(url.QueryEscape(query), "+", "%20")
	return strings.NewReplacer("{query}", escaped, "{n}", strconv.Itoa(n)).Replace(template)
}

// ofEndpoint says what an operator can do about an error of the endpoint.
func ofEndpoint(err error) error {
	known, _ := errors.AsType[*outbound.Error](err)
	if known == nil {
		return errors.New("the search endpoint failed")
	}
	switch known.Status {
	case http.StatusUnauthorized:
		return errors.New("the search endpoint wants a user name and a password, which the server's settings do not have right (401)")
	case http.StatusForbidden:
		return errors.New("the search endpoint refuses (403); SearXNG does so unless its settings list json under search.formats")
	}
	return fmt.Errorf("the search endpoint failed: %s", known.Reason)
}

// read returns the results of an endpoint's answer.
func (f *Fields) read(body []byte) ([]Hit, error) {
	var answer any
	if err := json.Unmarshal(body, &answer); err != nil {
		return nil, errors.New("the search endpoint's answer is no JSON")
	}
	list, ok := answer.([]any)
	if !ok {
		list, ok = at(answer, f.Results).([]any)
	}
	if !ok {
		return nil, fmt.Errorf("the search endpoint's answer has no list %q", f.Results)
	}
	var hits []Hit
	for _, one := range list {
		hits = append(hits, Hit{Title: str(at(one, f.Title)), URL: str(at(one, f.URL)), Summary: str(at(one, f.Summary))})
	}
	return hits, nil
}

// at returns what is at a path of member names; nil = nothing.
func at(value any, path string) any {
	for name := range strings.SplitSeq(path, ".") {
		object, ok := value.(map[string]any)
		if !ok {
			return nil
		}
		value = object[name]
	}
	return value
}

// str returns a text, or the texts of a list.
func str(value any) string {
	switch value := value.(type) {
	case string:
		return value
	case []any:
		var all []string
		for _, one := range value {
			if text, ok := one.(string); ok {
				all = append(all, text)
			}
		}
		return strings.Join(all, " ")
	}
	return ""
}

// summaryRunes bounds what a service says of a page; it is much more than they say.
const summaryRunes = 4000

// tidy leaves of hits the first n that can be opened, on one line each.
func tidy(hits []Hit, n int) (tidied []Hit) {
	for _, hit := range hits {
		if len(tidied) >= n {
			break
		}
		address, err := outbound.CheckPage(strings.TrimSpace(hit.URL))
		if err != nil {
			continue
		}
		title := clip(line(hit.Title), titleRunes)
		tidied = append(tidied, Hit{cmp.Or(title, address.Host), address.String(), clip(line(hit.Summary), summaryRunes)})
	}
	return tidied
}

// Fetch gets a page.
func (w *Web) Fetch(ctx context.Context, address string) (Document, error) {
	wanted, err := outbound.CheckPage(address)
	if err != nil {
		return Document{}, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, wanted.String(), nil)
	if err != nil {
		return Document{}, errors.New("it is no valid URL")
	}
	req.Header.Set("Accept", "text/html,application/xhtml+xml;q=0.9,text/plain;q=0.8,*/*;q=0.5")
	answer, err := outbound.Fetch(w.pages, req)
	if err != nil {
		return Document{}, err
	}
	document, err := documentOf(answer.Header, answer.Body)
	if at := answer.URL.String(); at != wanted.String() {
		document.URL = at
	}
	return document, err
}

// documentOf reads an answer.
func documentOf(header http.Header, body []byte) (Document, error) {
	if coding := header.Get("Content-Encoding"); coding != "" && !strings.EqualFold(coding, "identity") {
		return Document{}, fmt.Errorf("its content is encoded as %.40q, which was not asked for", coding)
	}
	told := header.Get("Content-Type")
	switch kind, media := kindOf(told, body); {
	case media == "application/pdf":
		return Document{}, errors.New("it is a PDF document, which this browser cannot read")
	case kind == page:
		return Document{HTML: text(body, cmp.Or(told, "text/html"))}, nil
	case kind == plain:
		return Document{Text: text(body, cmp.Or(told, "text/plain"))}, nil
	default:
		return Document{}, fmt.Errorf("it is %.60q, which is no text", cmp.Or(media, told))
	}
}
