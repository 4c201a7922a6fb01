package server

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// A text of the metrics is given again for a while, in the format and the form that are asked for;
// then it is made anew, and so is one that failed.
func TestExposition(t *testing.T) {
	now, made, status := time.Unix(1, 0), 0, http.StatusOK
	e := &exposition{age: 40 * time.Millisecond, clock: func() time.Time { return now }, made: map[string]*rendering{},
		render: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			made++
			w.Header().Set("Content-Type", "of "+r.Header.Get("Accept"))
			w.WriteHeader(status)
			fmt.Fprintf(w, "text %d", made)
		})}
	ask := func(accept, encoding string) string {
		r := httptest.NewRequest("GET", "/metrics", nil)
		r.Header.Set("Accept", accept)
		r.Header.Set("Accept-Encoding", encoding)
		w := httptest.NewRecorder()
		e.ServeHTTP(w, r)
		body := w.Body.Bytes()
		if w.Header().Get("Content-Length") != fmt.Sprint(len(body)) {
			t.Errorf("Content-Length %s of %d bytes", w.Header().Get("Content-Length"), len(body))
		}
		if w.Header().Get("Content-Encoding") == "gzip" {
			unpacked, err := gzip.NewReader(bytes.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			if body, err = io.ReadAll(unpacked); err != nil {
				t.Fatal(err)
			}
		} else if strings.Contains(encoding, "gzip") {
			t.Error("not packed")
		}
		return fmt.Sprintf("%d %s %s", w.Code, w.Header().Get("Content-Type"), body)
	}
	for _, step := range []struct {
		wait             time.Duration
		status           int
		accept, encoding string
		want             string
	}{
		{0, 200, "a", "", "200 of a text 1"},
		{39 * time.Millisecond, 200, "a", "gzip", "200 of a text 1"},
		{0, 200, "b", "gzip, br", "200 of b text 2"},
		{0, 200, "a", "", "200 of a text 1"},
		{time.Millisecond, 200, "a", "gzip", "200 of a text 3"}, // 40 ms
		{0, 200, "b", "", "200 of b text 2"},
		{time.Second, 500, "a", "", "500 of a text 4"},
		{0, 200, "a", "", "200 of a text 5"},
		{0, 200, "c", "", "200 of c text 6"},
		{0, 200, "d", "", "200 of d text 7"},
		{0, 200, "e", "", "200 of e text 8"},
		{0, 200, "a", "", "200 of a text 9"}, // only so many are kept
	} {
		now, status = now.Add(step.wait), step.status
		if got := ask(step.accept, step.encoding); got != step.want {
			t.Errorf("%+v: %q", step, got)
		}
	}
	e.age, status = 0, http.StatusOK
	if first, second := ask("a", ""), ask("a", ""); first == second {
		t.Errorf("%s twice, although each is to be made anew", first)
	}
	// Those who ask at once get one text.
	e.age, made = time.Hour, 0
	clear(e.made)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			r := httptest.NewRequest("GET", "/metrics", nil)
			w := httptest.NewRecorder()
			e.ServeHTTP(w, r)
			if w.Body.String() != "text 1" {
				t.Errorf("%q", w.Body)
			}
		})
	}
	all.Wait()
}

// BenchmarkScrape is what a scrape costs a server whose texts are made anew each time.
func BenchmarkScrape(b *testing.B) {
	for _, form := range []string{"", "gzip"} {
		b.Run("form="+form, func(b *testing.B) {
			g := start(b, setup{reply: hello})
			r := httptest.NewRequest("GET", "/metrics", nil)
			r.Header.Set("Accept-Encoding", form)
			for b.Loop() {
				g.s.scraper.ServeHTTP(httptest.NewRecorder(), r)
			}
		})
	}
}
