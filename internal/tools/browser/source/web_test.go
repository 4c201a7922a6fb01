package source

import (
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	"ossian/internal/tools/outbound"
)

// serve starts a server and returns HOST:PORT.
func serve(t *testing.T, handle http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewServer(handle)
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

// web is HTTP for pages of one server.
func web(t *testing.T, at, template string, fields Fields) *Web {
	t.Helper()
	made, err := HTTP(HTTPOptions{Search: template, Fields: fields, Client: outbound.Options{Version: "9", Allow: []string{at}, Time: time.Hour}})
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func TestWebFetch(t *testing.T) {
	answers := map[string]struct{ contentType, body string }{
		"/html":      {"text/html; charset=utf-8", "<title>é</title>"},
		"/xhtml":     {"application/xhtml+xml", "<html/>"},
		"/latin1":    {"text/html; charset=iso-8859-1", "caf\xe9"},
		"/meta":      {"text/html", "<meta charset=\"shift_jis\"><p>\x93\xfa\x96\x7b"},
		"/bom":       {"text/html; charset=iso-8859-1", "\xef\xbb\xbfé"},
		"/utf16":     {"text/plain; charset=utf-16le", "h\x00\xe9\x00"},
		"/gb":        {"text/plain; charset=gb18030", "\xd6\xd0\xce\xc4"},
		"/unknown":   {"text/plain; charset=klingon", "plain é"},
		"/none":      {"text/plain", "plain é"},
		"/1252":      {"text/plain", "\x93quoted\x94"},
		"/json":      {"application/json; charset=iso-8859-1", `{"a":"é"}`},
		"/feed":      {"application/rss+xml", "<rss>"},
		"/ld":        {"application/ld+json", "[1]"},
		"/untold":    {"", "<!DOCTYPE html><p>x"},
		"/octets":    {"application/octet-stream", "just text"},
		"/empty":     {"text/html", ""},
		"/bad":       {"text/html; charset=", "x"},
		"/png":       {"image/png", "\x89PNG\r\n\x1a\n"},
		"/pdf":       {"application/pdf", "%PDF-1.7"},
		"/pdfuntold": {"application/octet-stream", "%PDF-1.7"},
		"/zip":       {"application/zip", "PK\x03\x04"},
		"/unsaid":    {"application/octet-stream", "a\x00\x01b"},
		"/brotli":    {"text/html", "x"},
	}
	at := serve(t, func(w http.ResponseWriter, req *http.Request) {
		answer, ok := answers[req.URL.Path]
		if !ok || req.UserAgent() != "ossian/9" {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		if req.URL.Path == "/brotli" {
			w.Header().Set("Content-Encoding", "br")
		}
		w.Header()["Content-Type"] = nil
		if answer.contentType != "" {
			w.Header().Set("Content-Type", answer.contentType)
		}
		io.WriteString(w, answer.body)
	})
	for path, want := range map[string]struct {
		doc Document
		err string
	}{
		"/html":      {doc: Document{HTML: "<title>é</title>"}},
		"/xhtml":     {doc: Document{HTML: "<html/>"}},
		"/latin1":    {doc: Document{HTML: "café"}},
		"/meta":      {doc: Document{HTML: "<meta charset=\"shift_jis\"><p>日本"}},
		"/bom":       {doc: Document{HTML: "é"}},
		"/utf16":     {doc: Document{Text: "hé"}},
		"/gb":        {doc: Document{Text: "中文"}},
		"/unknown":   {doc: Document{Text: "plain é"}},
		"/none":      {doc: Document{Text: "plain é"}},
		"/1252":      {doc: Document{Text: "“quoted”"}},
		"/json":      {doc: Document{Text: `{"a":"é"}`}},
		"/feed":      {doc: Document{Text: "<rss>"}},
		"/ld":        {doc: Document{Text: "[1]"}},
		"/untold":    {doc: Document{HTML: "<!DOCTYPE html><p>x"}},
		"/octets":    {doc: Document{Text: "just text"}},
		"/empty":     {},
		"/bad":       {doc: Document{HTML: "x"}},
		"/png":       {err: `it is "image/png", which is no text`},
		"/pdf":       {err: "it is a PDF document, which this browser cannot read"},
		"/pdfuntold": {err: "it is a PDF document, which this browser cannot read"},
		"/zip":       {err: `it is "application/zip", which is no text`},
		"/unsaid":    {err: `it is "application/octet-stream", which is no text`},
		"/brotli":    {err: `its content is encoded as "br", which was not asked for`},
		"/missing":   {err: "the server answered 404 Not Found"},
	} {
		got, err := web(t, at, "", Fields{}).Fetch(t.Context(), "http://"+at+path)
		if got != want.doc || (err != nil) != (want.err != "") || (err != nil && err.Error() != want.err) {
			t.Errorf("%s: %q, %v; want %q, %q", path, got, err, want.doc, want.err)
		}
	}
}

// TestWebRefuses: pages and addresses that mean harm end in an error that says why.
func TestWebRefuses(t *testing.T) {
	inside := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("what is not allowed was asked") })
	at := serve(t, func(w http.ResponseWriter, req *http.Request) {
		switch req.URL.Path {
		case "/bomb":
			w.Header().Set("Content-Encoding", "gzip")
			w.Header().Set("Content-Type", "text/html")
			packed := gzip.NewWriter(w)
			for range 16 {
				packed.Write(make([]byte, 1<<20))
			}
			packed.Close()
		case "/endless":
			for req.Context().Err() == nil {
				if _, err := io.WriteString(w, strings.Repeat("<p>more", 1000)); err != nil {
					return
				}
			}
		case "/here":
			io.WriteString(w, "here")
		case "/loop":
			http.Redirect(w, req, "/loop", http.StatusFound)
		default:
			w.Header().Set("Location", req.URL.Query().Get("to"))
			w.WriteHeader(http.StatusFound)
		}
	})
	notPublic := "its address is not on the public internet and not allowed here"
	for address, want := range map[string]string{
		"http://" + at + "/bomb":                   "its answer is longer than 10 MiB",
		"http://" + at + "/endless":                "its answer is longer than 10 MiB",
		"http://" + at + "/loop":                   "more than 5 redirects",
		"http://" + at + "/?to=http://" + inside:   notPublic,
		"http://" + at + "/?to=file:///etc/passwd": `only http and https addresses are opened, not "file:"`,
		"http://" + at + "/?to=gopher://" + inside: `only http and https addresses are opened, not "gopher:"`,
		"http://" + inside:                         notPublic,
		"http://169.254.169.254/latest/meta-data/": notPublic,
		"file:///etc/passwd":                       `only http and https addresses are opened, not "file:"`,
		"http://user:password@" + at:               "a URL with a user name is not opened",
		"http://" + at + "/ bad\n":                 "it is no valid URL",
		"view-source:http://" + at:                 `only http and https addresses are opened, not "view-source:"`,
	} {
		_, err := web(t, at, "", Fields{}).Fetch(t.Context(), address)
		if err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %q", address, err, want)
		}
	}
	moved, err := web(t, at, "", Fields{}).Fetch(t.Context(), "http://"+at+"/?to=/here")
	if err != nil || moved.URL != "http://"+at+"/here" {
		t.Errorf("behind a redirect: %+v, %v", moved, err)
	}
	slow := serve(t, func(w http.ResponseWriter, req *http.Request) {
		for req.Context().Err() == nil {
			io.WriteString(w, "<")
			w.(http.Flusher).Flush()
			time.Sleep(5 * time.Millisecond)
		}
	})
	made, err := HTTP(HTTPOptions{Client: outbound.Options{Allow: []string{slow}, Time: 50 * time.Millisecond}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := made.Fetch(t.Context(), "http://"+slow); err == nil || err.Error() != "there was no complete answer in time" {
		t.Errorf("a page that drips: %v", err)
	}
}

// searxng is an answer of SearXNG's, shortened (searx/webutils.py, get_json_response).
const searxng = `{"query":"krill","number_of_results":0,"results":[
	{"url":"https://a.example/1","title":"One\n<b>","content":"first  summary","engine":"x","score":1.0},
	{"url":"javascript:alert(1)","title":"no page","content":""},
	{"url":"https://a.example/2","title":"","content":null},
	{"title":"no address"}, "no object",
	{"url":" https://a.example/3#f ","title":"Three","content":["a","b"]}],"answers":[],"suggestions":[]}`

func TestWebSearch(t *testing.T) {
	asked := make(chan *http.Request, 1)
	answer := searxng
	at := serve(t, func(w http.ResponseWriter, req *http.Request) { asked <- req; io.WriteString(w, answer) })
	want := []Hit{{"One <b>", "https://a.example/1", "first summary"}, {"a.example", "https://a.example/2", ""}, {"Three", "https://a.example/3", "a b"}}

	// The endpoint's own host needs no allowance, and gets none for pages.
	made := web(t, "192.0.2.1", "http://me:secret@"+at+"/search?q={query}&format=json&n={n}", Fields{})
	hits := search(t, made, "krill & {n} ä", 20)
	if !reflect.DeepEqual(hits, want) {
		t.Errorf("%q, want %q", hits, want)
	}
	req := <-asked
	if user, password, _ := req.BasicAuth(); req.RequestURI != "/search?q=krill%20%26%20%7Bn%7D%20%C3%A4&format=json&n=20" || user != "me" || password != "secret" {
		t.Errorf("asked %s as %s:%s", req.RequestURI, user, password)
	}
	if hits := search(t, made, "x", 1); len(hits) != 1 {
		t.Errorf("one was asked for: %q", hits)
	}
	<-asked
	if _, err := made.Fetch(t.Context(), "http://"+at); err == nil {
		t.Error("a page was fetched from the endpoint's host")
	}
	for _, c := range []struct {
		answer string
		fields Fields
		want   []Hit
	}{
		{`[{"title":"a","url":"http://b/","content":"c"}]`, Fields{}, []Hit{{"a", "http://b/", "c"}}},
		{`{"data":{"items":[{"name":"a","link":{"href":"http://b/"},"snippet":"c"}]}}`, Fields{"data.items", "name", "link.href", "snippet"}, []Hit{{"a", "http://b/", "c"}}},
		{`{"results":[]}`, Fields{}, nil},
	} {
		answer = c.answer
		hits := search(t, web(t, at, "http://"+at+"/?q={query}", c.fields), "q", 5)
		<-asked
		if !reflect.DeepEqual(hits, c.want) {
			t.Errorf("%s: %q, want %q", c.answer, hits, c.want)
		}
	}
	for bad, want := range map[string]string{
		"":               "the search endpoint's answer is no JSON",
		"<html>":         "the search endpoint's answer is no JSON",
		`{"a":1}`:        `the search endpoint's answer has no list "results"`,
		`{"results":{}}`: `the search endpoint's answer has no list "results"`,
		`null`:           `the search endpoint's answer has no list "results"`,
	} {
		answer = bad
		_, err := web(t, at, "http://"+at+"/?q={query}", Fields{}).Search(t.Context(), "q", 5)
		<-asked
		if err == nil || err.Error() != want {
			t.Errorf("%q: %v, want %q", bad, err, want)
		}
	}
}

func TestWebSearchFails(t *testing.T) {
	var code, times atomic.Int64
	at := serve(t, func(w http.ResponseWriter, req *http.Request) { times.Add(1); w.WriteHeader(int(code.Load())) })
	made := web(t, at, "http://"+at+"/?q={query}", Fields{})
	for status, c := range map[int64]struct {
		times int64
		want  string
	}{
		401: {1, "the search endpoint wants a user name and a password, which the server's settings do not have right (401)"},
		403: {1, "the search endpoint refuses (403); SearXNG does so unless its settings list json under search.formats"},
		404: {1, "the search endpoint failed: the server answered 404 Not Found"},
		502: {3, "the search endpoint failed: the server answered 502 Bad Gateway"},
	} {
		code.Store(status)
		times.Store(0)
		if _, err := made.Search(t.Context(), "q", 5); err == nil || err.Error() != c.want || times.Load() != c.times {
			t.Errorf("%d: %v after %d requests, want %q after %d", status, err, times.Load(), c.want, c.times)
		}
	}
	if _, err := web(t, at, "", Fields{}).Search(t.Context(), "q", 5); err == nil {
		t.Error("searched without an endpoint")
	}
}

func TestHTTPOptions(t *testing.T) {
	for _, bad := range []HTTPOptions{
		{Search: "http://localhost:8888/search?format=json"},
		{Search: "localhost:8888/{query}"},
		{Search: "ftp://x/{query}"},
		{Search: "http://{query}/"},
		{Search: "http://{query}.example/"},
		{Search: "http://x.example:{query}/"},
		{Search: "http://[::1/{query}"},
		{Client: outbound.Options{Allow: []string{"http://x"}}},
	} {
		if made, err := HTTP(bad); err == nil || made != nil || strings.Contains(err.Error(), "\n") {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}

func keyed(at string) KeyOptions {
	return KeyOptions{Key: "key-1", URL: "http://" + at + "/", Client: outbound.Options{Allow: []string{at}, Time: time.Hour}}
}

// service plays a service with a key: answers by path.
func played(t *testing.T, header string, answers map[string]string, bodies chan<- string) string {
	return serve(t, func(w http.ResponseWriter, req *http.Request) {
		if req.Header.Get(header) != "key-1" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		body, _ := io.ReadAll(req.Body)
		bodies <- req.Method + " " + req.RequestURI + " " + string(body)
		io.WriteString(w, answers[req.URL.Path])
	})
}

func TestExa(t *testing.T) {
	bodies := make(chan string, 1)
	answers := map[string]string{
		"/search": `{"requestId":"r","results":[{"id":"https://a.example/","title":"A","url":"https://a.example/","publishedDate":null,"author":null,"text":"long","summary":"short"},
			{"title":null,"url":"https://b.example/","text":"only text"}],"costDollars":{"total":0.1}}`,
		"/contents": `{"results":[{"title":"A","url":"https://a.example/","text":"<p>a</p>"}],"statuses":[{"id":"https://a.example/","status":"success"}]}`,
	}
	exa, err := Exa(keyed(played(t, "x-api-key", answers, bodies)))
	if err != nil || exa.Name() != "exa" {
		t.Fatal(err)
	}
	want := []Hit{{"A", "https://a.example/", "short"}, {"b.example", "https://b.example/", "only text"}}
	if hits := search(t, exa, "q", 7); !reflect.DeepEqual(hits, want) {
		t.Errorf("%q", hits)
	}
	if got := <-bodies; got != `POST /search {"contents":{"summary":true,"text":true},"numResults":7,"query":"q"}` {
		t.Error(got)
	}
	if _, err := exa.(Filterer).SearchWithin(t.Context(), "q", 7, []string{"a.example"}); err != nil {
		t.Error(err)
	}
	if got := <-bodies; got != `POST /search {"contents":{"summary":true,"text":true},"includeDomains":["a.example"],"numResults":7,"query":"q"}` {
		t.Error(got)
	}
	doc, err := exa.Fetch(t.Context(), "https://a.example/")
	if err != nil || doc != (Document{Title: "A", HTML: "<p>a</p>"}) {
		t.Errorf("%q, %v", doc, err)
	}
	if got := <-bodies; got != `POST /contents {"text":{"includeHtmlTags":true},"urls":["https://a.example/"]}` {
		t.Error(got)
	}
	for answer, want := range map[string]string{
		`{"results":[],"statuses":[{"id":"x","status":"error","error":{"tag":"CRAWL_NOT_FOUND","httpStatusCode":404}}]}`: `the service Exa could not get it ("CRAWL_NOT_FOUND")`,
		`{"results":[]}`: "the service Exa has no content of it",
		`{"results":7}`:  "Exa gave an answer that is not in its documented form",
		`[`:              "Exa gave an answer that is not in its documented form",
	} {
		answers["/contents"] = answer
		_, err := exa.Fetch(t.Context(), "https://a.example/")
		<-bodies
		if err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %q", answer, err, want)
		}
	}
}

func TestYouCom(t *testing.T) {
	bodies := make(chan string, 1)
	answers := map[string]string{
		"/v1/search": `{"results":{"web":[{"url":"https://a.example/","title":"A","description":"d","snippets":["s1","s2"],"authors":[]}],
			"news":[{"url":"https://n.example/","title":"N","description":"news"}]},"metadata":{"query":"q"}}`,
		"/v1/contents": `[{"url":"https://a.example/","title":"A","html":"<p>a</p>","markdown":null}]`,
	}
	you, err := YouCom(keyed(played(t, "X-API-Key", answers, bodies)))
	if err != nil || you.Name() != "youcom" {
		t.Fatal(err)
	}
	want := []Hit{{"A", "https://a.example/", "s1 s2"}, {"N", "https://n.example/", "news"}}
	if hits := search(t, you, "q & r", 7); !reflect.DeepEqual(hits, want) {
		t.Errorf("%q", hits)
	}
	if got := <-bodies; got != `GET /v1/search?count=7&query=q+%26+r ` {
		t.Error(got)
	}
	doc, err := you.Fetch(t.Context(), "https://a.example/")
	if err != nil || doc != (Document{Title: "A", HTML: "<p>a</p>"}) {
		t.Errorf("%q, %v", doc, err)
	}
	if got := <-bodies; got != `POST /v1/contents {"formats":["html"],"urls":["https://a.example/"]}` {
		t.Error(got)
	}
	answers["/v1/contents"] = `[{"title":"A","html":null,"markdown":"# a"}]`
	if doc, err := you.Fetch(t.Context(), "https://a.example/"); err != nil || doc.Text != "# a" {
		t.Errorf("%q, %v", doc, err)
	}
	<-bodies
	for answer, want := range map[string]string{
		`[]`: "the service You.com has no content of it", `{}`: "You.com gave an answer that is not in its documented form",
	} {
		answers["/v1/contents"] = answer
		_, err := you.Fetch(t.Context(), "https://a.example/")
		<-bodies
		if err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %q", answer, err, want)
		}
	}
}

// TestKeys: keys that are missing, refused, or would go elsewhere; nothing of them is told.
func TestKeys(t *testing.T) {
	elsewhere := serve(t, func(_ http.ResponseWriter, req *http.Request) { t.Errorf("a key went elsewhere: %v", req.Header) })
	var code, times atomic.Int64
	at := serve(t, func(w http.ResponseWriter, req *http.Request) {
		times.Add(1)
		w.Header().Set("Location", "http://"+elsewhere)
		w.WriteHeader(int(code.Load()))
	})
	for name, open := range map[string]func(KeyOptions) (Backend, error){"Exa": Exa, "You.com": YouCom} {
		variable := map[string]string{"Exa": "EXA_API_KEY", "You.com": "YDC_API_KEY"}[name]
		for key, want := range map[string]string{
			"": "there is no key for " + name + ": set " + variable, " \n": "there is no key for " + name + ": set " + variable,
			"a\nb": "the key for " + name + " in " + variable + " has characters that no key has",
		} {
			if made, err := open(KeyOptions{Key: key}); err == nil || err.Error() != want || made != nil {
				t.Errorf("%q: %v, want %q", key, err, want)
			}
		}
		if _, err := open(KeyOptions{Key: "k", URL: "localhost"}); err == nil {
			t.Error("an address without a scheme is taken")
		}
		options := keyed(at)
		options.Client.Allow = append(options.Client.Allow, elsewhere)
		made, err := open(options)
		if err != nil {
			t.Fatal(err)
		}
		for status, c := range map[int64]struct {
			times int64
			want  string
		}{
			401: {1, name + " refuses the server's key (401): whoever runs the server has to check " + variable},
			403: {1, name + " refuses the server's key (403): whoever runs the server has to check " + variable},
			402: {1, name + " wants to be paid (402): the credit of the server's key is used up"},
			429: {1, name + " has been asked too often (429): try again later"},
			307: {1, name + " failed: it redirects elsewhere, which is not followed here"},
			400: {1, name + " failed: the server answered 400 Bad Request"},
			503: {3, name + " failed: the server answered 503 Service Unavailable"},
		} {
			code.Store(status)
			for what, call := range map[string]func() error{
				"search": func() error { _, err := made.Search(t.Context(), "q", 3); return err },
				"fetch":  func() error { _, err := made.Fetch(t.Context(), "https://a.example/"); return err },
			} {
				times.Store(0)
				if err := call(); err == nil || err.Error() != c.want || times.Load() != c.times {
					t.Errorf("%s: %v after %d requests, want %q after %d", what, err, times.Load(), c.want, c.times)
				}
			}
		}
		times.Store(0)
		for _, address := range []string{"http://10.0.0.1/token", "http://intranet/", "http://localhost:80/", "file:///etc/passwd", "http://u:p@x.example/", "x"} {
			if _, err := made.Fetch(t.Context(), address); err == nil || times.Load() != 0 {
				t.Errorf("%s was told %s: %v", name, address, err)
			}
		}
	}
}

// FuzzAnswers: whatever endpoints and services answer, hits can be opened and are on one line.
func FuzzAnswers(f *testing.F) {
	f.Add(searxng, "results", "url")
	f.Add(`[[{"a":{"b":"http://x/"}}]]`, "", "a.b")
	f.Add(`{"results":[{"url":"//x"},{"url":"http://u@x"}]}`, "results", "url")
	f.Fuzz(func(t *testing.T, body, results, address string) {
		fields := Fields{results, "title", address, "content"}
		hits, err := fields.read([]byte(body))
		if err != nil && len(err.Error()) > 1024+len(results)*4 {
			t.Error(err)
		}
		var answer exaAnswer
		if json.Unmarshal([]byte(body), &answer) == nil {
			for _, one := range answer.Results {
				hits = append(hits, Hit{one.Title, one.URL, one.Summary})
			}
		}
		for _, hit := range tidy(hits, 20) {
			if page, err := url.Parse(hit.URL); err != nil || page.Host == "" || page.User != nil || line(hit.Title) != hit.Title || hit.Title == "" || line(hit.Summary) != hit.Summary {
				t.Errorf("%q", hit)
			}
		}
	})
}

// FuzzDocument: whatever a server sends is UTF-8 or an error of one line.
func FuzzDocument(f *testing.F) {
	f.Add("text/html; charset=utf-16", []byte("\xfe\xff\x00a"))
	f.Add("", []byte("%PDF-1"))
	f.Add("text/plain;charset=\"iso-2022-jp\"", []byte("\x1b$B\x00"))
	f.Fuzz(func(t *testing.T, contentType string, body []byte) {
		doc, err := documentOf(http.Header{"Content-Type": {contentType}}, body)
		if err != nil && (len(err.Error()) > 1024 || strings.Contains(err.Error(), "\n")) {
			t.Errorf("%v", err)
		}
		if !utf8.ValidString(doc.HTML) || !utf8.ValidString(doc.Text) || (doc.HTML != "" && doc.Text != "") {
			t.Errorf("%q", fmt.Sprint(doc))
		}
	})
}
