package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"ossian/internal/chat"
	"ossian/internal/soak"
	"ossian/internal/token"
)

// A trap is a fault in one place of one request.
type trap struct {
	Where string        `json:"where"`
	What  string        `json:"what"` // panic, error or delay
	After int           `json:"after"`
	Delay time.Duration `json:"delay"`
}

var errTrap = errors.New("secret: the trap has sprung")

// spring is called in a place for the n-th time.
func (tr trap) spring(where string, n int) error {
	if tr.Where != where || n != tr.After {
		return nil
	}
	switch tr.What {
	case "panic":
		panic(errTrap)
	case "delay":
		time.Sleep(tr.Delay)
		return nil
	}
	return errTrap
}

// trapped is a format with the traps that requests bring in their chat_template_kwargs.
type trapped struct{ chat.Format }

func (f trapped) trap(c *chat.Conversation) (tr trap) {
	if len(c.Vars) > 0 {
		_ = json.Unmarshal(c.Vars, &tr)
	}
	return tr
}

func (f trapped) Render(p *token.Prompt, c *chat.Conversation) error {
	if err := f.trap(c).spring("render", 0); err != nil {
		return err
	}
	return f.Format.Render(p, c)
}

func (f trapped) Parser(c *chat.Conversation) chat.Parser {
	tr := f.trap(c)
	_ = tr.spring("parser", 0)
	return &trappedParser{f.Format.Parser(c), tr, 0}
}

type trappedParser struct {
	chat.Parser
	trap   trap
	pushed int
}

func (p *trappedParser) Push(dst []chat.Event, id int32) []chat.Event {
	_ = p.trap.spring("push", p.pushed)
	p.pushed++
	return p.Parser.Push(dst, id)
}

func (p *trappedParser) Close(dst []chat.Event) []chat.Event {
	_ = p.trap.spring("close", 0)
	return p.Parser.Close(dst)
}

// A trappedWriter is the connection of one request.
type trappedWriter struct {
	*httptest.ResponseRecorder
	trap            trap
	writes, flushes int
}

func (w *trappedWriter) WriteHeader(status int) {
	_ = w.trap.spring("header", 0)
	w.ResponseRecorder.WriteHeader(status)
}

func (w *trappedWriter) Write(b []byte) (int, error) {
	if err := w.trap.spring("write", w.writes); err != nil {
		return 0, err
	}
	w.writes++
	return w.ResponseRecorder.Write(b)
}

func (w *trappedWriter) FlushError() error {
	if err := w.trap.spring("flush", w.flushes); err != nil {
		return err
	}
	w.flushes++
	w.ResponseRecorder.Flush()
	return nil
}

func (w *trappedWriter) SetWriteDeadline(time.Time) error { return w.trap.spring("deadline", 0) }
func (w *trappedWriter) SetReadDeadline(time.Time) error  { return nil }

// A trappedBody is what the request sends.
type trappedBody struct {
	io.Reader
	trap  trap
	reads int
}

func (b *trappedBody) Read(p []byte) (int, error) {
	if err := b.trap.spring("body", b.reads); err != nil {
		return 0, err
	}
	b.reads++
	return b.Reader.Read(p[:min(len(p), 64)])
}

func (b *trappedBody) Close() error { return nil }

// A faulty request is one that runs into a trap.
type faulty struct {
	trap   trap
	stream bool
	n      int
}

// faults are all of them.
func faults(delay time.Duration) (all []faulty) {
	for _, place := range []struct {
		where    string
		after    int
		failing  bool // it can return an error, too
		streamed bool // only of streams
	}{
		{"body", 0, true, false}, {"body", 1, true, false}, {"render", 0, true, false}, {"parser", 0, false, false},
		{"push", 0, false, false}, {"push", 5, false, false}, {"close", 0, false, false}, {"header", 0, false, false},
		{"deadline", 0, true, false}, {"write", 0, true, false}, {"write", 3, true, true}, {"flush", 0, true, true}, {"flush", 3, true, true},
	} {
		for _, what := range []string{"panic", "error", "delay"} {
			for _, stream := range []bool{false, true} {
				for _, n := range []int{1, 3} {
					if (what != "error" || place.failing) && (stream || !place.streamed) {
						all = append(all, faulty{trap{place.where, what, place.after, delay}, stream, n})
					}
				}
			}
		}
	}
	return all
}

// run sends the request past the network, and returns what the client would have.
func (f *faulty) run(s *Server) (got *httptest.ResponseRecorder) {
	kwargs, err := json.Marshal(f.trap)
	if err != nil {
		panic(err)
	}
	body := fmt.Sprintf(`{%s,"chat_template_kwargs":%s,"stream":%v,"n":%d,"max_tokens":12,"seed":1}`, hi, kwargs, f.stream, f.n)
	r := httptest.NewRequest("POST", "/v1/chat/completions", &trappedBody{Reader: strings.NewReader(body), trap: f.trap})
	r.Host = "localhost"
	r.Header.Set("Content-Type", "application/json")
	got = httptest.NewRecorder()
	w := &trappedWriter{ResponseRecorder: got, trap: f.trap}
	defer func() {
		if p := recover(); p != nil && p != http.ErrAbortHandler && p != errTrap { // net/http takes those
			panic(p)
		}
	}()
	s.ServeHTTP(w, r)
	return got
}

// TestHLT4 lets requests run into every fault while others stream: nobody else
// notices, nothing is left behind, and nobody is told what went wrong inside.
func TestHLT4(t *testing.T) {
	rounds := soak.Cases(t, 1, 20)
	delay := 50 * time.Millisecond
	if soaking() {
		delay = 5 * time.Second
	}
	f, err := chat.New(chat.Facts{Family: "gpt-oss", Tokenizer: harmony(), Stops: []int32{200_002, 200_012}})
	if err != nil {
		t.Fatal(err)
	}
	g := start(t, setup{format: trapped{f}, cost: time.Millisecond})
	others := []string{`{"prompt":"one","max_tokens":40,"stream":true,"seed":1}`, `{"prompt":["two","three"],"n":2,"max_tokens":20,"seed":1}`}
	alone := map[string]string{}
	for _, body := range others {
		alone[body] = anonymous(g.post("/v1/completions", body).body)
	}
	stop := make(chan struct{})
	compared := make([]int, len(others))
	var bystanders sync.WaitGroup
	for i, body := range others {
		bystanders.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				res, err := g.client.Post(g.url+"/v1/completions", "application/json", strings.NewReader(body))
				if err != nil {
					t.Error(err)
					return
				}
				got, err := io.ReadAll(res.Body)
				res.Body.Close()
				if text := anonymous(string(got)); err != nil || text != alone[body] {
					t.Errorf("%s: got %.300s %v\nalone %.300s", body, text, err, alone[body])
					return
				}
				compared[i]++
			}
		})
	}
	points := faults(delay)
	most := make(chan struct{}, 64)
	var requests sync.WaitGroup
	for range rounds {
		for i := range points {
			most <- struct{}{}
			requests.Go(func() {
				defer func() { <-most }()
				p := &points[i]
				w := p.run(g.s)
				if early := p.trap.Where == "render" || p.trap.Where == "parser" || p.trap.Where == "body"; early && p.trap.What == "panic" && w.Code != 500 {
					t.Errorf("%+v: %d, want 500", *p, w.Code)
				}
				if text := w.Body.String(); strings.Contains(text, "secret") || (p.trap.What == "delay" && (w.Code != 200 || (p.stream && !strings.HasSuffix(text, "data: [DONE]\n\n")))) {
					t.Errorf("%+v: %d %s", *p, w.Code, text)
				}
			})
		}
	}
	requests.Wait()
	close(stop)
	bystanders.Wait()
	if r := g.post("/v1/chat/completions", `{`+hi+`,"max_tokens":3}`); r.status != 200 {
		t.Errorf("afterwards: %d %s", r.status, r.body)
	}
	g.idle()
	if st := g.model.Engine.Stats(); st.Starts != 1 {
		t.Errorf("the engine was started %d times", st.Starts)
	}
	n := 0
	for i := range compared {
		n += compared[i]
	}
	if n == 0 {
		t.Error("nothing was compared")
	}
	t.Logf("HLT-4: %d fault points, %d requests with delays of %v; %d replies of others beside them, 0 differ", len(points), rounds*len(points), delay, n)
}
