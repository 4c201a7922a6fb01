package web

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
)

// entry is what the list of files, made with them, says of one.
type entry struct {
	Name   string
	Size   int
	Packed int
	First  bool
}

// listed reads the list of files.
func listed(t *testing.T) (all []entry) {
	t.Helper()
	text, err := dist.ReadFile("dist/manifest.json")
	if err == nil {
		err = json.Unmarshal(text, &all)
	}
	if err != nil || len(all) == 0 {
		t.Fatalf("dist/manifest.json: %d files, %v", len(all), err)
	}
	return all
}

// ask has a new page answer.
func ask(method, path string, header ...string) (served bool, rec *httptest.ResponseRecorder) {
	r := httptest.NewRequest(method, path, nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	rec = httptest.NewRecorder()
	return New().Serve(rec, r), rec
}

// address is where a listed file is.
func (e entry) address() string {
	if e.Name == "index.html" {
		return "/"
	}
	return "/" + e.Name
}

// TestFiles: every file that is listed is there as listed, packed for those who take that and
// unpacked for others, and nothing else is embedded.
func TestFiles(t *testing.T) {
	all := listed(t)
	if got := len(New().files); got != len(all) {
		t.Errorf("%d files are embedded, %d are listed", got, len(all))
	}
	for _, e := range all {
		served, packed := ask("GET", e.address(), "Accept-Encoding", "br, gzip")
		if !served || packed.Header().Get("Content-Encoding") != "gzip" || packed.Body.Len() != e.Packed {
			t.Errorf("%s: %v, %q, %d bytes, %d expected", e.Name, served, packed.Header().Get("Content-Encoding"), packed.Body.Len(), e.Packed)
			continue
		}
		_, plain := ask("GET", e.address())
		if plain.Header().Get("Content-Encoding") != "" || plain.Body.Len() != e.Size || !bytes.Equal(plain.Body.Bytes(), unpack(packed.Body.Bytes())) {
			t.Errorf("%s unpacked: %d bytes, %d expected", e.Name, plain.Body.Len(), e.Size)
		}
		served, head := ask("HEAD", e.address())
		if !served || head.Body.Len() != 0 || head.Header().Get("Content-Length") != plain.Header().Get("Content-Length") {
			t.Errorf("HEAD %s: %d bytes, length %s", e.Name, head.Body.Len(), head.Header().Get("Content-Length"))
		}
	}
}

// TestHeaders: all files carry what keeps others, and what a model writes, from acting as the
// page; the page is asked for again each time, its files never.
func TestHeaders(t *testing.T) {
	for _, e := range listed(t) {
		_, rec := ask("GET", e.address())
		cached := "public, max-age=31536000, immutable"
		if e.address() == "/" {
			cached = "no-cache"
		}
		for name, want := range map[string]string{
			"Cache-Control": cached, "Vary": "Accept-Encoding", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer",
			"Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin",
			"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
		} {
			if got := rec.Header().Get(name); got != want {
				t.Errorf("%s: %s is %q, want %q", e.Name, name, got, want)
			}
		}
		if kind := rec.Header().Get("Content-Type"); !strings.HasSuffix(kind, "; charset=utf-8") && kind != "font/woff2" {
			t.Errorf("%s: Content-Type %q", e.Name, kind)
		}
	}
}

// TestUnchanged: a browser that has the page is told so.
func TestUnchanged(t *testing.T) {
	_, first := ask("GET", "/")
	tag := first.Header().Get("ETag")
	if _, again := ask("GET", "/", "If-None-Match", "W/"+tag); tag == "" || again.Code != http.StatusNotModified || again.Body.Len() != 0 {
		t.Errorf("tag %q: %d, %d bytes", tag, again.Code, again.Body.Len())
	}
	if _, other := ask("GET", "/", "If-None-Match", `"x"`); other.Code != http.StatusOK {
		t.Errorf("another tag: %d", other.Code)
	}
}

func TestUnknown(t *testing.T) {
	for _, path := range []string{"/ui/", "/ui", "/ui/x.js", "/index.html", "/ui/../ui", "/manifest.json", "/ui/page.js", "/dist/manifest.json", "//"} {
		r := &http.Request{Method: "GET", URL: httptest.NewRequest("GET", "/", nil).URL, Header: http.Header{}}
		r.URL.Path = path
		rec := httptest.NewRecorder()
		if New().Serve(rec, r) || len(rec.Header()) != 0 {
			t.Errorf("%s is served: %v", path, rec.Header())
		}
	}
}

func TestAcceptsGzip(t *testing.T) {
	for value, want := range map[string]bool{
		"": false, "gzip": true, "GZIP": true, "x-gzip": true, "br": false, "br, gzip": true, "gzip;q=0": false, "gzip;q=0.0": false, "gzip; q=0.1": true, "gzip;Q=1": true,
		"*": true, "*;q=0": false, "*, gzip;q=0": false, "gzip;q=0, *": false, "identity": false, "gzip;level=1": false, "gzipped": false, "gzip;q=x": false,
	} {
		if got := AcceptsGzip([]string{value}); got != want {
			t.Errorf("Accept-Encoding %q: %v", value, got)
		}
	}
}

// TestBudgets: the page is small, and what the first view needs smaller still (bytes by gzip).
func TestBudgets(t *testing.T) {
	all, first := 0, 0
	for _, e := range listed(t) {
		all += e.Packed
		if e.First {
			first += e.Packed
		}
	}
	if all > 200_000 || first > 80_000 || first == 0 {
		t.Errorf("%d bytes in all, %d of them for the first view; 200000 and 80000 at most", all, first)
	}
}

// TestNothingInline: the policy forbids inline scripts, styles and handlers, so the page has
// none, and every address in it is that of a file it comes with.
func TestNothingInline(t *testing.T) {
	_, rec := ask("GET", "/")
	page := rec.Body.String()
	for _, pattern := range []string{`<script[^>]*>[^<]`, `<style`, `\son\w+=`, `style=`, `https?://[^w]`} {
		if found := regexp.MustCompile(pattern).FindString(page); found != "" {
			t.Errorf("the page has %q", found)
		}
	}
	addresses := regexp.MustCompile(`(?:src|href)="(/[^"]*)"`).FindAllStringSubmatch(page, -1)
	if len(addresses) < 2 {
		t.Fatalf("script and style expected, found %v", addresses)
	}
	for _, address := range addresses {
		if served, _ := ask("GET", address[1]); !served {
			t.Errorf("%s is not there", address[1])
		}
	}
}
