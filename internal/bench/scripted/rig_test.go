package scripted

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
)

// Nothing that the package starts may outlive its tests.
func TestMain(m *testing.M) {
	before := runtime.NumGoroutine()
	code := m.Run()
	if flag.Lookup("test.fuzz").Value.String() != "" {
		os.Exit(code) // what starts fuzzing has goroutines of its own
	}
	http.DefaultClient.CloseIdleConnections()
	for end := time.Now().Add(10 * time.Second); runtime.NumGoroutine() > before && time.Now().Before(end); {
		time.Sleep(10 * time.Millisecond)
	}
	if n := runtime.NumGoroutine(); n > before && code == 0 {
		fmt.Fprintf(os.Stderr, "%d goroutines after the tests, %d before\n", n, before)
		code = 1
	}
	os.Exit(code)
}

func serve(t testing.TB, opt Options) *Server {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv, err := Serve(context.Background(), ln, opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := srv.Close(); err != nil {
			t.Error(err)
		}
	})
	return srv
}

// paths are those of the three interfaces.
var paths = map[api]string{completions: "/v1/completions", chat: "/v1/chat/completions", responses: "/v1/responses"}

func newRequest(t testing.TB, srv *Server, path, id, body string) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, srv.URL()+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if id != "" {
		req.Header.Set("x-request-id", id)
	}
	return req
}

// post sends a request and reads the whole answer; err is that of the reading.
func post(t testing.TB, srv *Server, path, id, body string) (res *http.Response, text string, err error) {
	t.Helper()
	res, err = http.DefaultClient.Do(newRequest(t, srv, path, id, body))
	if err != nil {
		return nil, "", err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	return res, string(b), err
}

// A chunk is what the tests read of an event.
type chunk struct {
	at      time.Duration // when it came, by the server's clock
	Type    string        // of Responses
	Sent    int64         `json:"sent_ns"`
	Choices []struct {
		Text         string
		TokenIDs     []int  `json:"token_ids"`
		FinishReason string `json:"finish_reason"`
		Delta        struct{ Role, Content string }
	}
	Usage *struct {
		Prompt     int `json:"prompt_tokens"`
		Completion int `json:"completion_tokens"`
		Details    struct {
			Cached int `json:"cached_tokens"`
		} `json:"prompt_tokens_details"`
	}
}

// counts reports whether the server puts the event into its record.
func (c *chunk) counts() bool { return len(c.Choices) > 0 || strings.HasSuffix(c.Type, "_text.delta") }

// play sends a request as a plain client would and returns the events as they came.
func play(t testing.TB, srv *Server, path, id, body string) []chunk {
	t.Helper()
	res, err := http.DefaultClient.Do(newRequest(t, srv, path, id, body))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		t.Fatalf("status %d", res.StatusCode)
	}
	var out []chunk
	lines := bufio.NewScanner(res.Body)
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok || data == "[DONE]" {
			continue
		}
		c := chunk{at: srv.now()}
		if err := json.Unmarshal([]byte(data), &c); err != nil {
			t.Fatalf("event %q: %v", data, err)
		}
		out = append(out, c)
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}

// settled waits until n requests have ended and returns the log.
func settled(t testing.TB, srv *Server, n int) *Log {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if l := srv.Log(); len(l.Records) >= n {
			return l
		}
	}
	t.Fatalf("%d requests ended within 30 s, %d expected", len(srv.Log().Records), n)
	return nil
}
