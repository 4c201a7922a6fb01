package browsertest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"
)

// object is a JSON object.
type object = map[string]any

// A script is a server between browser and ossian. What a test has scripted it answers itself;
// all else, the page above all, is ossian's.
type script struct {
	*httptest.Server
	mu     sync.Mutex // guards what follows
	own    map[string]http.HandlerFunc
	bodies []object // of the requests for answers
}

func newScript(t testing.TB) *script {
	t.Helper()
	upstream, err := url.Parse(tiny(t).url)
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(upstream)
		r.Out.Header.Del("Origin") // it is the script's
	}}
	s := &script{own: map[string]http.HandlerFunc{}}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		own := s.own[r.URL.Path]
		s.mu.Unlock()
		if own != nil {
			own(w, r)
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

// on scripts a path; nil gives it back to ossian.
func (s *script) on(path string, answer http.HandlerFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.own[path] = answer
}

// asked are the bodies of the requests for answers so far.
func (s *script) asked() []object {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]object(nil), s.bodies...)
}

// answers scripts all answers. turn counts them from 0.
func (s *script) answers(play func(turn int, body object, e *events)) {
	s.on("/v1/responses", func(w http.ResponseWriter, r *http.Request) {
		var body object
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		s.mu.Lock()
		turn := len(s.bodies)
		s.bodies = append(s.bodies, body)
		s.mu.Unlock()
		play(turn, body, &events{w: w, gone: r.Context().Done()})
	})
}

// refuse answers with an error in the API's form.
func refuse(w http.ResponseWriter, status int, fields object) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(object{"error": fields})
}

// info scripts GET /info: what ossian says, changed.
func (s *script) info(t testing.TB, change func(object)) {
	t.Helper()
	var told object
	if err := json.Unmarshal([]byte(fetch(t, tiny(t).url+"/info")), &told); err != nil {
		t.Fatal(err)
	}
	change(told)
	s.on("/info", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(told)
	})
}

// events is the stream of one answer, as the Responses API sends it.
type events struct {
	w       http.ResponseWriter
	gone    <-chan struct{}
	begun   bool
	seq     int
	tokens  int
	output  []object
	writing bool // what is sent waits for more
}

// send sends an event. The first one begins the stream.
func (e *events) send(kind string, fields object) {
	if !e.begun {
		e.begun = true
		e.w.Header().Set("Content-Type", "text/event-stream")
		e.send("response.created", object{"response": object{"id": "resp_1", "model": "scripted", "status": "in_progress", "output": []any{}}})
	}
	event := object{"type": kind, "sequence_number": e.seq}
	for name, value := range fields {
		event[name] = value
	}
	e.seq++
	data, err := json.Marshal(event)
	if err != nil {
		panic(err) // a test's own mistake
	}
	e.raw(fmt.Sprintf("event: %s\ndata: %s\n\n", kind, data))
}

// raw sends bytes that need not be an event.
func (e *events) raw(text string) {
	_, _ = e.w.Write([]byte(text))
	if !e.writing {
		e.flush()
	}
}

func (e *events) flush() { _ = http.NewResponseController(e.w).Flush() }

// hold waits until the client has left.
func (e *events) hold() { <-e.gone }

func (e *events) usage() object {
	return object{"input_tokens": 90, "output_tokens": e.tokens, "input_tokens_details": object{"cached_tokens": 64}, "output_tokens_details": object{"reasoning_tokens": 3}}
}

// begin adds an item and returns its place.
func (e *events) begin(item object) int {
	e.output = append(e.output, item)
	e.send("response.output_item.added", object{"output_index": len(e.output) - 1, "item": item})
	return len(e.output) - 1
}

// done says what an item has become.
func (e *events) done(at int, item object) {
	e.output[at] = item
	e.send("response.output_item.done", object{"output_index": at, "item": item})
}

// write streams text into an item, piece by piece.
func (e *events) write(at int, kind string, pieces ...string) {
	e.send("response.content_part.added", object{"output_index": at, "content_index": 0, "part": object{"type": kind, "text": "", "annotations": []any{}}})
	e.writing = len(pieces) > 50 // those of a great many are sent together
	defer func() { e.writing = false }()
	for _, piece := range pieces {
		e.tokens++
		e.send("response."+kind+".delta", object{"output_index": at, "content_index": 0, "delta": piece, "usage": e.usage()})
	}
	e.flush()
}

func (e *events) reasoning(pieces ...string) {
	id := fmt.Sprintf("rs_%d", len(e.output))
	at := e.begin(object{"type": "reasoning", "id": id, "status": "in_progress", "summary": []any{}, "content": []any{}})
	e.write(at, "reasoning_text", pieces...)
	e.done(at, object{"type": "reasoning", "id": id, "status": "completed", "summary": []any{}, "content": []any{object{"type": "reasoning_text", "text": strings.Join(pieces, "")}}})
}

// open begins a message.
func (e *events) open() int {
	return e.begin(object{"type": "message", "id": fmt.Sprintf("msg_%d", len(e.output)), "role": "assistant", "status": "in_progress", "phase": "final_answer", "content": []any{}})
}

// message says a text, with citations.
func (e *events) message(text string, annotations ...any) {
	at := e.open()
	e.write(at, "output_text", strings.SplitAfter(text, "\n")...)
	if annotations == nil {
		annotations = []any{}
	}
	e.done(at, object{"type": "message", "id": fmt.Sprintf("msg_%d", at), "role": "assistant", "status": "completed", "phase": "final_answer",
		"content": []any{object{"type": "output_text", "text": text, "annotations": annotations}}})
}

// call goes through the phases of a built-in tool's call and ends with its item.
func (e *events) call(item object, phases ...string) {
	begun := object{}
	for name, value := range item {
		begun[name] = value
	}
	begun["status"] = "in_progress"
	at := e.begin(begun)
	for _, phase := range phases {
		e.send(fmt.Sprintf("response.%s.%s", item["type"], phase), object{"output_index": at, "item_id": item["id"]})
	}
	e.done(at, item)
}

// end ends the answer as completed, incomplete or failed.
func (e *events) end(state string, fields object) {
	response := object{"id": "resp_1", "model": "scripted", "status": state, "output": e.output, "usage": e.usage(), "temperature": 1, "top_p": 1}
	for name, value := range fields {
		response[name] = value
	}
	e.send("response."+state, object{"response": response})
	e.raw("data: [DONE]\n\n")
}
