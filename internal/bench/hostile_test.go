package bench

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"ossian/internal/bench/dataset"
)

// steering is what moves the cursor, rings the bell, sets the title and turns text round.
const steering = "\x1b[2J\x1b]0;title\x07\u009b31m\u202e\r\n"

// steers is the first character of a text that is not to be printed; "" = none.
func steers(text string) string {
	for _, char := range text {
		if OneLine(string(char)) != string(char) {
			return fmt.Sprintf("%q", char)
		}
	}
	return ""
}

// rawServer answers every connection with the same bytes, as often as write succeeds, and closes
// it.
func rawServer(t *testing.T, head, repeated string, times int) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				request, err := http.ReadRequest(bufio.NewReader(conn))
				if err != nil {
					return
				}
				_, _ = io.Copy(io.Discard, request.Body) // closed with bytes unread, the connection is reset
				_, err = io.WriteString(conn, head)
				for i := 0; i < times && err == nil; i++ {
					_, err = io.WriteString(conn, repeated)
				}
			}()
		}
	}()
	return "http://" + listener.Addr().String()
}

// TestServerErrorsArePrintable: what a server says outside the measured part, its status line
// and its body, comes on one line, cut, without what steers a terminal.
func TestServerErrorsArePrintable(t *testing.T) {
	body := steering + strings.Repeat("endless ", 10_000)
	base := rawServer(t, "HTTP/1.1 500 Bad"+strings.TrimRight(steering, "\r\n")+strings.Repeat("z", 5000)+"\r\nConnection: close\r\nContent-Length: "+fmt.Sprint(len(body))+"\r\n\r\n"+body, "", 0)
	server, err := NewServer(base, Access{})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	_, _, models := server.FirstModel(t.Context())
	_, counters := server.Counters(t.Context())
	_, _, align := server.Align(t.Context(), "x", Workload{{Prompt: "a", Input: 1}})
	for name, err := range map[string]error{"models": models, "counters": counters, "tokenize": align, "cache": server.Post(t.Context(), "/flush_cache"), "profiler": server.Profile(t.Context(), "/start_profile")} {
		if err == nil || !strings.Contains(err.Error(), "500 Bad") || steers(err.Error()) != "" || len(err.Error()) > 1000 {
			t.Errorf("%s: %.400v holds %s", name, err, steers(fmt.Sprint(err)))
		}
	}
}

// TestServerHeadersAreBounded: headers without end are refused before they take memory.
func TestServerHeadersAreBounded(t *testing.T) {
	base := rawServer(t, "HTTP/1.1 200 OK\r\n", "X-More: "+strings.Repeat("a", 1000)+"\r\n", 1<<20)
	server, err := NewServer(base, Access{})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	if _, err := server.Counters(t.Context()); err == nil || !strings.Contains(err.Error(), "header") {
		t.Errorf("headers of a gigabyte: %v", err)
	}
}

// TestAlignIsBounded: a tokenizer whose answers are far larger than the prompts is not one.
func TestAlignIsBounded(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /tokenize", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, `{"tokens":[1,2,3]}`) })
	mux.HandleFunc("POST /detokenize", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"prompt":"%s"}`, strings.Repeat("a", 1<<20))
	})
	work := Workload{{Prompt: "a b c", Input: 2}, {Prompt: "d e f", Input: 2}}
	tokens, changed, err := testServer(t, mux).Align(t.Context(), "x", work)
	if err != nil || tokens != 3 || changed != 0 || work[0].Prompt != "a b c" {
		t.Errorf("%d tokens, %d changed, %v, prompt of %d bytes", tokens, changed, err, len(work[0].Prompt))
	}
	mux = http.NewServeMux()
	mux.HandleFunc("POST /tokenize", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"tokens":[%s1]}`, strings.Repeat("1,", 1<<20))
	})
	if _, _, err := testServer(t, mux).Align(t.Context(), "x", work); err == nil || !strings.Contains(err.Error(), "POST /tokenize: the answer has more than") {
		t.Errorf("a million tokens of five bytes: %v", err)
	}
}

// TestAnswersAreBounded: what is kept of an answer has a bound, whatever comes.
func TestAnswersAreBounded(t *testing.T) {
	long := strings.Repeat("z", 50_000)
	setup := Setup{Backend: "openai", URL: "http://127.0.0.1:9/v1/completions", Stream: true}
	for name, response := range map[string]string{
		"reason":    "HTTP/1.1 500 " + long + "\r\nContent-Length: 0\r\n\r\n",
		"body":      "HTTP/1.1 500 X\r\n\r\n" + long,
		"status":    "HTTP/2 " + long + "\r\n\r\n",
		"header":    "HTTP/1.1 200 OK\r\n" + long + "\r\n\r\n",
		"encoding":  "HTTP/1.1 200 OK\r\nContent-Encoding: " + long + "\r\n\r\n",
		"error":     "HTTP/1.1 200 OK\r\n\r\ndata: {\"error\":\"" + long + "\"}\n\n",
		"garbage":   "HTTP/1.1 200 OK\r\n\r\ndata: {" + long + "}\n\n",
		"chunksize": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + long + "\r\n",
	} {
		sample, _ := play(offline(t, setup), response)
		if sample.Err == "" || len(sample.Err) > 1000 {
			t.Errorf("%s: an error of %d bytes: %.100s", name, len(sample.Err), sample.Err)
		}
	}
	sample, _ := play(offline(t, setup), "HTTP/1.1 200 OK\r\n\r\ndata: {\"choices\":[{\"text\":\"a\",\"finish_reason\":\""+long+"\"}]}\n\n")
	if sample.Err != "" || len(sample.Finish) != maxNoted {
		t.Errorf("finish_reason of %d bytes, %q", len(sample.Finish), sample.Err)
	}
}

// TestStreamsAreBounded: neither bytes nor events come without end. The bounds are those of real
// streams; the test begins just below them.
func TestStreamsAreBounded(t *testing.T) {
	h := offline(t, Setup{Backend: "openai", URL: "http://127.0.0.1:9/v1/completions", Stream: true})
	begin := func() *exchange {
		x := newExchange(h)
		x.begin(&Sample{Index: 1}, time.Now(), new(Live))
		if _, err := x.received([]byte("HTTP/1.1 200 OK\r\n\r\n"), -1); err != nil {
			t.Fatal(err)
		}
		return x
	}
	x := begin()
	x.bodySize = maxStream - 12
	if _, err := x.received([]byte(": comment\n\n"), -1); err != nil {
		t.Errorf("below the bound: %v", err)
	}
	if _, err := x.received([]byte(": comment\n\n"), -1); err == nil || !strings.Contains(err.Error(), "a stream of more than 1073741824 bytes") {
		t.Errorf("beyond the bound of bytes: %v", err)
	}
	x = begin()
	x.stream.sample.Chunks = make([]Chunk, maxEvents-1, maxEvents)
	if _, err := x.received([]byte("data: {}\n\n"), -1); err != nil {
		t.Errorf("below the bound: %v", err)
	}
	if _, err := x.received([]byte("data: {}\n\n"), -1); err == nil || !strings.Contains(err.Error(), "a stream of more than 4194304 events") {
		t.Errorf("beyond the bound of events: %v", err)
	}
}

// TestManyPartsOfResponses: a response of very many parts takes time in proportion to its size.
func TestManyPartsOfResponses(t *testing.T) {
	const parts = 400_000
	body := `{"output":[{"content":[` + strings.Repeat(`{"type":"output_text","text":"12345678"},`, parts-1) + `{"type":"output_text","text":"12345678"}]}]}`
	began := time.Now()
	visible, thought, err := outputTexts([]byte(body))
	if err != nil || len(visible) != 8*parts || thought != "" {
		t.Errorf("%d and %d bytes, %v", len(visible), len(thought), err)
	}
	if spent := time.Since(began); spent > 20*time.Second { // adding text to text takes minutes
		t.Errorf("%v for %d bytes", spent, len(body))
	}
	if _, _, err := outputTexts([]byte(`{"output":5}`)); err == nil {
		t.Error("output is a number, and no error")
	}
}

// TestProxyIsBounded: a proxy is a stranger too.
func TestProxyIsBounded(t *testing.T) {
	for name, c := range map[string]struct{ head, repeated, want string }{
		"status":  {"HTTP/1.1 403 No" + strings.TrimRight(steering, "\r\n") + "\r\n\r\n", "", "403 No"},
		"headers": {"HTTP/1.1 200 OK\r\n", "X-More: a\r\n", "its answer to CONNECT has more than 65536 bytes"},
	} {
		base := rawServer(t, c.head, c.repeated, 1<<20)
		proxy, err := parseURL(base)
		if err != nil {
			t.Fatal(err)
		}
		d := &dialer{address: "127.0.0.1:443", proxy: proxy}
		conn, err := (&net.Dialer{}).DialContext(context.Background(), "tcp", proxy.Host)
		if err != nil {
			t.Fatal(err)
		}
		err = d.tunnel(conn)
		conn.Close()
		if err == nil || !strings.Contains(err.Error(), c.want) || steers(err.Error()) != "" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestFailureIsPrintable: what a server said last is in the error when it never became ready.
func TestFailureIsPrintable(t *testing.T) {
	t.Parallel() // it waits
	base := rawServer(t, "HTTP/1.1 503 Busy\r\n\r\n"+steering, "", 0)
	setup := Setup{Backend: "openai", URL: base + "/v1/completions", Stream: true, Arrivals: Arrivals{Rate: math.Inf(1), Burstiness: 1}}
	h, err := NewHTTP(HTTPConfig{Setup: &setup})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	_, err = Run(t.Context(), h, Workload{dataset.Query{Prompt: "a", Output: 1}}, Options{Setup: setup, Ready: 2 * time.Second, ReadyEvery: 3 * time.Second})
	if err == nil || !strings.Contains(err.Error(), "503 Busy") || steers(err.Error()) != "" {
		t.Errorf("%q", err)
	}
}
