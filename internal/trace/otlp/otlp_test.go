package otlp

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"ossian/internal/trace"
)

// A collector is one that answers as it is told.
type collector struct {
	*httptest.Server
	spans, requests atomic.Int64

	mu      sync.Mutex // guards what follows
	batches []int      // how many spans each body had
}

func collect(t *testing.T, answer func(w http.ResponseWriter)) *collector {
	c := &collector{}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var told struct {
			ResourceSpans []struct {
				ScopeSpans []struct{ Spans []json.RawMessage }
			}
		}
		if err != nil || json.Unmarshal(body, &told) != nil || r.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s: %v: %s", r.URL, err, body)
		}
		c.requests.Add(1)
		if r.URL.Path == "/v1/traces" {
			n := len(told.ResourceSpans[0].ScopeSpans[0].Spans)
			c.spans.Add(int64(n))
			c.mu.Lock()
			c.batches = append(c.batches, n)
			c.mu.Unlock()
		}
		answer(w)
	}))
	t.Cleanup(c.Close)
	return c
}

// tracer returns one that sends there.
func tracer(t *testing.T, url string, log io.Writer) *trace.Tracer {
	cfg, err := trace.FromEnv("test", func(name string) (string, bool) { return url, name == "OTEL_EXPORTER_OTLP_ENDPOINT" })
	if err != nil {
		t.Fatal(err)
	}
	made := New(cfg, slog.New(slog.NewTextHandler(log, nil)))
	t.Cleanup(made.Close)
	return made
}

// Whatever the collector does, every span is exported or counted as dropped, and the log has a few
// lines.
func TestCollectors(t *testing.T) {
	const n = 1500
	for name, c := range map[string]struct {
		answer   func(w http.ResponseWriter)
		exported int // but for what is rejected
		rejects  int // of each batch
		lines    int
	}{
		"takes all":   {func(w http.ResponseWriter) { _, _ = io.WriteString(w, `{"partialSuccess":{}}`) }, n, 0, 0},
		"refuses":     {func(w http.ResponseWriter) { w.WriteHeader(400) }, 0, 0, 1},
		"is broken":   {func(w http.ResponseWriter) { w.WriteHeader(503) }, 0, 0, 1},
		"hangs up":    {func(http.ResponseWriter) { panic(http.ErrAbortHandler) }, 0, 0, 1},
		"takes parts": {func(w http.ResponseWriter) { _, _ = io.WriteString(w, `{"partialSuccess":{"rejectedSpans":"100"}}`) }, n, 100, 0},
		"babbles":     {func(w http.ResponseWriter) { _, _ = io.WriteString(w, strings.Repeat("{", 100_000)) }, n, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			server := collect(t, c.answer)
			server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, 0)
			var log strings.Builder
			traces := tracer(t, server.URL, &log)
			for range n {
				traces.Start("x", trace.Server, trace.Context{}, time.Now()).End(time.Now())
			}
			traces.Close()
			// How many batches there are is a matter of time: one is sent when it is full, and each second.
			server.mu.Lock()
			defer server.mu.Unlock()
			want := c.exported
			for _, batch := range server.batches {
				want -= min(c.rejects, batch)
			}
			if got := traces.Stats(); int(got.Exported) != want || got.Exported+got.Dropped != n {
				t.Errorf("%+v of batches %v, want %d exported of %d", got, server.batches, want, n)
			}
			if lines := strings.Count(log.String(), "\n"); lines != c.lines {
				t.Errorf("%d lines: %s", lines, log.String())
			}
		})
	}
}

// While nobody answers, spans cost nothing but their room in the queue.
func TestQueueIsBounded(t *testing.T) {
	hangs := make(chan bool)
	server := collect(t, func(http.ResponseWriter) { <-hangs })
	defer close(hangs)
	traces := tracer(t, server.URL, io.Discard)
	for i := range 20_000 {
		traces.Start("x", trace.Server, trace.Context{}, time.Now()).End(time.Now())
		if i == 10 {
			for deadline := time.Now().Add(time.Minute); server.requests.Load() == 0 && time.Now().Before(deadline); {
				time.Sleep(time.Millisecond)
			}
		}
	}
	if got := traces.Stats(); got.Dropped < 20_000-2048-512-11 {
		t.Errorf("%+v", got)
	}
}

// FuzzPartly: no reply of a collector does harm.
// TestLastEndsWhatIsSent: a process that ends does not wait for a collector that took a body before
// and does not answer.
func TestLastEndsWhatIsSent(t *testing.T) {
	arrived := make(chan struct{})
	silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // only then is the end of the connection seen
		close(arrived)
		<-r.Context().Done()
	}))
	defer silent.Close()
	s := newSender(trace.Config{Endpoint: silent.URL}, slog.New(slog.DiscardHandler))
	sent := make(chan error)
	go func() {
		_, err := s.Post("/v1/traces", []byte("{}"))
		sent <- err
	}()
	<-arrived
	s.Last()
	if err := <-sent; !errors.Is(err, context.Canceled) {
		t.Errorf("it ended with %v, not because it was told to", err)
	}
	if _, err := s.Post("/v1/traces", []byte("{}")); !errors.Is(err, errNotThere) {
		t.Errorf("the next one ended with %v", err)
	}
}

func FuzzPartly(f *testing.F) {
	for _, seed := range []string{`{"partialSuccess":{"rejectedSpans":"3"}}`, `{"partialSuccess":{"rejectedSpans":3}}`, `{"partialSuccess":{"rejectedSpans":-1}}`, `{"partialSuccess":null}`, `[]`, ``} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, reply []byte) {
		if n := partly(reply); n < 0 {
			t.Errorf("%d spans", n)
		}
	})
}
