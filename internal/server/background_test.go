package server

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"ossian/internal/limits"
	"ossian/internal/sim"
	"ossian/internal/store"
	"ossian/internal/wire"
	"ossian/internal/wire/response"
)

// lengthy is a model that reasons for longer than any test lasts.
func lengthy() setup {
	ids := said("<|channel|>analysis<|message|>" + strings.Repeat("on and ", 1500))
	return setup{next: sim.List(ids...), cost: 50 * time.Millisecond}
}

// await polls a response until it has a status.
func (g *rig) await(id, status string) object {
	g.t.Helper()
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(2 * time.Millisecond) {
		r := responded(g.t, g.do("GET", "/v1/responses/"+id, ""))
		if r["status"] == status {
			return r
		}
		if s := r["status"]; (s != "queued" && s != "in_progress") || time.Now().After(end) {
			g.t.Fatalf("status %v, want %s: %v", s, status, r)
		}
	}
}

// A finder counts how often it is told of an item.
type finder struct {
	*store.Memory
	told sync.Map // by id: *atomic.Int32
}

func (f *finder) Update(ctx context.Context, owner, id string, u store.Update) error {
	for _, ref := range u.Refs {
		n, _ := f.told.LoadOrStore(ref, new(atomic.Int32))
		n.(*atomic.Int32).Add(1)
	}
	return f.Memory.Update(ctx, owner, id, u)
}

// The store is told of each item of a background response once, not again with each
// that follows.
func TestBackgroundRefs(t *testing.T) {
	t.Parallel()
	m, err := store.NewMemory(store.Config{Bytes: 64 << 20})
	if err != nil {
		t.Fatal(err)
	}
	f := &finder{Memory: m}
	u := setup{reply: calls, cost: time.Millisecond}
	u.cfg.Archive = f
	g := start(t, u)
	id := responded(t, g.post("/v1/responses", `{"input":"Hi","background":true,`+flat+`}`))["id"].(string)
	out := g.await(id, "completed")["output"].([]any)
	if len(out) != 3 {
		t.Fatalf("output %v", out)
	}
	for i := range out {
		item := at(out, i, "id").(string)
		n, there := f.told.Load(item)
		if found, err := f.Find("local", item); found != id || err != nil || !there || n.(*atomic.Int32).Load() != 1 {
			t.Errorf("item %d, %s: found in %q, %v; told %v", i, item, found, err, n)
		}
	}
}

// What is made in the background is what the same request gets otherwise, polled,
// streamed, or replayed from any event.
func TestBackground(t *testing.T) {
	t.Parallel()
	g := start(t, inMemory(t, setup{reply: calls}))
	const ask = `{"input":"Hi",` + flat
	want := alike(responded(t, g.post("/v1/responses", ask+`}`)))
	first := responded(t, g.post("/v1/responses", ask+`,"background":true}`))
	if first["status"] != "queued" || len(first["output"].([]any)) != 0 || first["background"] != true {
		t.Errorf("accepted as %v", first)
	}
	id := first["id"].(string)
	final := g.await(id, "completed")
	replay := g.do("GET", "/v1/responses/"+id+"?stream=true", "")
	if o := fold(t, streamed(t, replay)); !reflect.DeepEqual(o, final) {
		t.Errorf("replayed %v\nwant %v", o, final)
	}
	if got := typesOf(streamed(t, replay)); got[0] != "created" || got[1] != "queued" || got[2] != "in_progress" {
		t.Errorf("events %v", got)
	}
	all := streamed(t, replay)
	for after := range len(all) + 1 {
		r := g.do("GET", fmt.Sprintf("/v1/responses/%s?stream=true&starting_after=%d", id, after), "")
		if r.status != 200 || (after >= len(all)-1 && r.body != "") {
			t.Errorf("behind the end: %d %q", r.status, r.body)
		}
		if after < len(all)-1 {
			if got := streamed(t, r); !reflect.DeepEqual(got, all[after+1:]) {
				t.Errorf("behind event %d: %v", after, typesOf(got))
			}
		}
	}
	live := fold(t, streamed(t, g.post("/v1/responses", ask+`,"background":true,"stream":true}`)))
	for _, o := range []object{alike(final), alike(live)} {
		o["background"] = false
		if !reflect.DeepEqual(o, want) {
			t.Errorf("in the background %v\nwant %v", o, want)
		}
	}
	chained := `{"previous_response_id":"` + id + `",` + flat + `,"input":[{"type":"function_call_output","call_id":"` + at(g.await(id, "completed"), "output", 2, "call_id").(string) + `","output":"rain"}]}`
	responded(t, g.post("/v1/responses", chained))
	g.idle()
}

// Readers come and go; each that comes back gets what it has not had.
func TestBackgroundResumed(t *testing.T) {
	t.Parallel()
	u := inMemory(t, setup{reply: hello, cost: time.Millisecond})
	g := start(t, u)
	id := responded(t, g.post("/v1/responses", `{"input":"Hi","background":true}`))["id"].(string)
	var text strings.Builder
	for n, ended := 0, false; !ended; {
		res, err := g.client.Get(fmt.Sprintf("%s/v1/responses/%s?stream=true&starting_after=%d", g.url, id, max(n-1, 0)))
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 { // the parameter has no value for "from the start"
			text.WriteString("event: response.created\n")
			n = 1
			first := streamed(t, g.do("GET", "/v1/responses/"+id+"?stream=true", ""))[:1]
			text.Reset()
			if typesOf(first)[0] != "created" {
				t.Fatalf("first %v", first)
			}
		}
		lines := bufio.NewScanner(res.Body)
		for got := 0; got < 3 && lines.Scan(); {
			text.WriteString(lines.Text() + "\n")
			if lines.Text() == "" {
				got, n = got+1, n+1
			}
			ended = ended || strings.HasPrefix(lines.Text(), "event: response.completed")
		}
		if ended {
			text.WriteString("\n")
		}
		if err := res.Body.Close(); err != nil {
			t.Fatal(err)
		}
	}
	rest := eventsOf(t, strings.TrimSuffix(text.String(), "\n\n\n")+"\n\n")
	if want := streamed(t, g.do("GET", "/v1/responses/"+id+"?stream=true&starting_after=0", "")); !reflect.DeepEqual(rest, want) {
		t.Errorf("in pieces %v\nat once %v", typesOf(rest), typesOf(want))
	}
}

// Cancelling and deleting end a response at once and for good, in every state.
func TestBackgroundCancelled(t *testing.T) {
	t.Parallel()
	g := start(t, inMemory(t, lengthy()))
	make := func() string {
		return responded(t, g.post("/v1/responses", `{"input":"Hi","background":true}`))["id"].(string)
	}
	cancel := func(id string) object { return responded(t, g.post("/v1/responses/"+id+"/cancel", "")) }
	if r := cancel(make()); r["status"] != "cancelled" || r["error"] != nil {
		t.Errorf("queued, then cancelled: %v", r)
	}
	id := make()
	g.await(id, "in_progress")
	r := cancel(id)
	if again := cancel(id); r["status"] != "cancelled" || !reflect.DeepEqual(r, again) {
		t.Errorf("cancelled %v, again %v", r, again)
	}
	events := streamed(t, g.do("GET", "/v1/responses/"+id+"?stream=true", ""))
	if o := fold(t, events); !reflect.DeepEqual(o, r) || typesOf(events)[len(events)-1] != "failed" {
		t.Errorf("the stream ends with %v", events[len(events)-1])
	}
	id = make()
	g.await(id, "in_progress")
	if r := parsed(t, g.do("DELETE", "/v1/responses/"+id, "").body); !reflect.DeepEqual(r, object{"id": id, "object": "response", "deleted": true}) {
		t.Errorf("deleted: %v", r)
	}
	for _, c := range [][2]string{{"GET", ""}, {"DELETE", ""}, {"POST", "/cancel"}, {"GET", "/input_items"}, {"GET", "?stream=true"}} {
		wantError(t, g.do(c[0], "/v1/responses/"+id+c[1], ""), 404, "invalid_request_error", "response_not_found", "response_id")
	}
	g.idle()
}

// The streams of a response that is deleted end with one event that says so.
func TestBackgroundDeletedStream(t *testing.T) {
	t.Parallel()
	g := start(t, inMemory(t, lengthy()))
	id := responded(t, g.post("/v1/responses", `{"input":"Hi","background":true}`))["id"].(string)
	res, err := g.client.Get(g.url + "/v1/responses/" + id + "?stream=true")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	lines := bufio.NewReader(res.Body)
	first, err := lines.ReadString('\n') // the stream has begun
	if err != nil {
		t.Fatal(err)
	}
	g.do("DELETE", "/v1/responses/"+id, "")
	rest, err := io.ReadAll(lines)
	if err != nil {
		t.Fatal(err)
	}
	events := eventsOf(t, first+string(rest))
	for i, e := range events {
		if e["sequence_number"] != float64(i) || (e["type"] == "error") != (i == len(events)-1) {
			t.Errorf("event %d of %d: %v", i, len(events), e)
		}
	}
	if last := events[len(events)-1]; last["code"] != "response_not_found" || !strings.Contains(last["message"].(string), id) {
		t.Errorf("the stream ends with %v", last)
	}
	g.idle()
}

// Only what is made in the background can be cancelled, and gone on from when done.
func TestForegroundCancel(t *testing.T) {
	t.Parallel()
	g := start(t, inMemory(t, setup{reply: hello}))
	id := responded(t, g.post("/v1/responses", `{"input":"Hi"}`))["id"].(string)
	wantError(t, g.post("/v1/responses/"+id+"/cancel", ""), 400, "invalid_request_error", "response_not_cancellable", "response_id")
	for query, param := range map[string]string{"?stream=maybe": "stream", "?stream=true&starting_after=x": "starting_after", "/input_items?limit=0": "limit",
		"/input_items?limit=101": "limit", "/input_items?order=up": "order", "/input_items?after=none": "after"} {
		wantError(t, g.do("GET", "/v1/responses/"+id+query, ""), 400, "invalid_request_error", "invalid_value", param)
	}
	for _, path := range []string{"compact", id + "/compact", id + "/cancel/", "a/b"} {
		wantError(t, g.post("/v1/responses/"+path, `{"input":"Hi"}`), 404, "invalid_request_error", "not_found", "")
	}
	if r := g.do("PUT", "/v1/responses/"+id, ""); r.status != 405 || r.header.Get("Allow") != "GET, HEAD, DELETE" {
		t.Errorf("PUT: %d, Allow %q", r.status, r.header.Get("Allow"))
	}
}

func TestBackgroundInProgressChain(t *testing.T) {
	t.Parallel()
	g := start(t, inMemory(t, lengthy()))
	id := responded(t, g.post("/v1/responses", `{"input":"Hi","background":true}`))["id"].(string)
	wantError(t, g.post("/v1/responses", `{"input":"x","previous_response_id":"`+id+`"}`), 400, "invalid_request_error", "response_in_progress", "previous_response_id")
	responded(t, g.post("/v1/responses/"+id+"/cancel", ""))
}

// The items that a response was asked with, in pages.
func TestInputItems(t *testing.T) {
	t.Parallel()
	g := start(t, inMemory(t, setup{reply: hello}))
	id := responded(t, g.post("/v1/responses", `{`+flat+`,"input":[{"id":"msg_own","role":"user","content":"Hi"},{"type":"reasoning","id":"rs_1","summary":[],"content":[{"type":"reasoning_text","text":"Hm"}]},
		{"type":"function_call","call_id":"c","name":"get_weather","arguments":"{}"},{"type":"function_call_output","call_id":"c","output":"rain"},{"role":"assistant","content":"It rains"},
		{"type":"message","role":"user","content":[{"type":"input_text","text":"Thanks"},{"type":"input_text","text":"a lot"}]}]}`))["id"].(string)
	page := func(query string) object {
		t.Helper()
		o := parsed(t, g.do("GET", "/v1/responses/"+id+"/input_items"+query, "").body)
		valid(t, "ItemList", o)
		return o
	}
	all := page("?order=asc")
	items := all["data"].([]any)
	if len(items) != 6 || all["has_more"] != false || all["first_id"] != "msg_own" || at(items, 1, "content", 0, "text") != "Hm" || at(items, 3, "output") != "rain" || at(items, 5, "content", 1, "text") != "a lot" {
		t.Fatalf("items %v", all)
	}
	var back []any
	for after := ""; ; {
		p := page("?limit=4" + after)
		back = append(back, p["data"].([]any)...)
		if p["has_more"] != true {
			break
		}
		after = "&after=" + p["last_id"].(string)
	}
	for i := range back {
		if !reflect.DeepEqual(back[i], items[len(items)-1-i]) {
			t.Errorf("item %d from the end: %v", i, back[i])
		}
	}
	empty := responded(t, g.post("/v1/responses", `{"previous_response_id":"`+id+`","input":[]}`))["id"].(string)
	id = empty
	if p := page(""); len(p["data"].([]any)) != 0 || p["has_more"] != false {
		t.Errorf("no items: %v", p)
	}
}

// A response is its owner's: to others it is what an unknown one is (DUR-7).
func TestDUR7(t *testing.T) {
	t.Parallel()
	g := start(t, inMemory(t, setup{reply: hello, cfg: Config{Keys: []string{"anna", "bert"}}}))
	key := func(name string) []string { return []string{"Authorization", "Bearer " + name} }
	var ids []string
	for _, body := range []string{`{"input":"Hi"}`, `{"input":"Hi","background":true}`} {
		ids = append(ids, responded(t, g.post("/v1/responses", body, key("anna")...))["id"].(string))
	}
	item := at(responded(t, g.do("GET", "/v1/responses/"+ids[0], "", key("anna")...)), "output", 0, "id").(string)
	operations := map[string]func(id string, header []string) got{
		"get":    func(id string, h []string) got { return g.do("GET", "/v1/responses/"+id, "", h...) },
		"stream": func(id string, h []string) got { return g.do("GET", "/v1/responses/"+id+"?stream=true", "", h...) },
		"items":  func(id string, h []string) got { return g.do("GET", "/v1/responses/"+id+"/input_items", "", h...) },
		"cancel": func(id string, h []string) got { return g.do("POST", "/v1/responses/"+id+"/cancel", "", h...) },
		"delete": func(id string, h []string) got { return g.do("DELETE", "/v1/responses/"+id, "", h...) },
		"chain": func(id string, h []string) got {
			return g.post("/v1/responses", `{"input":"x","previous_response_id":"`+id+`"}`, h...)
		},
	}
	leaks := 0
	for name, do := range operations {
		unknown := do("resp_unknown", key("bert"))
		for _, id := range append(ids, strings.ToUpper(ids[0]), ids[0]+"x", ids[0][5:], item) {
			r := do(id, key("bert"))
			if r.status != 404 || strings.ReplaceAll(r.body, id, "ID") != strings.ReplaceAll(unknown.body, "resp_unknown", "ID") {
				t.Errorf("%s of %s: %d %s", name, id, r.status, r.body)
				leaks++
			}
		}
		for _, id := range ids {
			if r := do(id, nil); r.status != 401 {
				t.Errorf("%s without a key: %d", name, r.status)
			}
		}
	}
	wantError(t, g.post("/v1/responses", `{"input":[{"type":"item_reference","id":"`+item+`"}]}`, key("bert")...), 404, "invalid_request_error", "not_found", "input[0].id")
	for _, id := range ids {
		if r := operations["get"](id, key("anna")); r.status != 200 {
			t.Errorf("the owner gets %d", r.status)
		}
	}
	g.s.Reload([]string{"carl", "bert", "anna"}, nil) // keys move, owners stay
	if r := operations["get"](ids[0], key("anna")); r.status != 200 {
		t.Errorf("after the keys were arranged anew the owner gets %d", r.status)
	}
	t.Logf("DUR-7: %d operations, %d leaks", len(operations), leaks)
}

// openStore opens the store in dir as a server does after a crash.
func openStore(t *testing.T, dir string) *store.Store {
	t.Helper()
	s, err := store.Open(store.Config{Dir: dir, Interrupted: Interrupted})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// objectOf returns the object of a stored response: the first line.
func objectOf(rec store.Record) string {
	line, _, _ := strings.Cut(string(rec.Object), "\n")
	return line
}

// What was unfinished when the process ended says so after the next start (DUR-5), and
// what was finished is still there.
func TestBackgroundAfterCrash(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := openStore(t, dir)
	ctx := t.Context()
	for _, id := range []string{"resp_a", "resp_b"} {
		q, err := response.Decode([]byte(`{"input":"Hi","background":true,"instructions":"Be kind"}`), limits.Defaults(), false)
		if err != nil {
			t.Fatal(err)
		}
		r := response.New(response.Head{ID: id, Created: 1_700_000_000, Model: "test-model", Temperature: 1, TopP: 1, Stored: true}, q)
		r.Status = response.StatusQueued
		n := store.New{ID: id, Owner: "local", Background: true, Events: [][]byte{r.Tell(nil, "created"), r.Tell(nil, "queued")}}
		n.Object = append(r.Append(nil), '\n')
		if err := s.Create(ctx, n); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Cancel(ctx, "local", "resp_b"); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = openStore(t, dir)
	g := start(t, setup{reply: hello, cfg: Config{Archive: s}})
	t.Cleanup(func() { // before the server's, which is harmless
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	for id, want := range map[string]string{"resp_a": "failed", "resp_b": "cancelled"} {
		r := responded(t, g.do("GET", "/v1/responses/"+id, ""))
		if r["status"] != want || (at(r, "error", "code") == "server_error") != (want == "failed") || r["instructions"] != "Be kind" {
			t.Errorf("%s is %v", id, r)
		}
		if o := fold(t, streamed(t, g.do("GET", "/v1/responses/"+id+"?stream=true", ""))); !reflect.DeepEqual(o, r) {
			t.Errorf("%s: events give %v, want %v", id, o, r)
		}
	}
	id := responded(t, g.post("/v1/responses", `{"input":"Hi"}`))["id"].(string)
	if r := responded(t, g.post("/v1/responses", `{"input":"Hi","previous_response_id":"`+id+`"}`)); r["status"] != "completed" {
		t.Errorf("chained: %v", r)
	}
}

// A diary is an archive that remembers what was done to one response.
type diary struct {
	*store.Memory
	mu  sync.Mutex
	new store.New
	all []store.Update
}

func (d *diary) Create(ctx context.Context, n store.New) error {
	d.mu.Lock()
	d.new = n
	d.mu.Unlock()
	return d.Memory.Create(ctx, n)
}

func (d *diary) Update(ctx context.Context, owner, id string, all store.Update) error {
	u := all
	d.mu.Lock()
	for i := 1; i < len(u.Events); i++ { // as if each delta had come alone, which is a matter of time
		if line, _, _ := bytes.Cut(u.Events[i], []byte("\n")); bytes.HasSuffix(line, []byte(".delta")) {
			d.all = append(d.all, store.Update{Events: u.Events[:i]})
			u.Events, i = u.Events[i:], 0
		}
	}
	d.all = append(d.all, u)
	d.mu.Unlock()
	return d.Memory.Update(ctx, owner, id, all)
}

// replay does to s the first n updates of the response, under another id of that length.
func (d *diary) replay(t *testing.T, s *store.Store, id string, n int) {
	t.Helper()
	rename := func(b []byte) []byte { return bytes.ReplaceAll(b, []byte(d.new.ID), []byte(id)) }
	renamed := func(events [][]byte) (out [][]byte) {
		for _, e := range events {
			out = append(out, rename(e))
		}
		return out
	}
	nu := d.new
	nu.ID, nu.Refs, nu.Object, nu.Events = id, nil, rename(nu.Object), renamed(nu.Events)
	if err := s.Create(t.Context(), nu); err != nil {
		t.Fatal(err)
	}
	for _, u := range d.all[:n] {
		u.Refs, u.Events = nil, renamed(u.Events)
		if u.Object != nil {
			u.Object = rename(u.Object)
		}
		if err := s.Update(t.Context(), "local", id, u); err != nil {
			t.Fatal(err)
		}
	}
}

// Wherever a crash cuts a response off, the events that were sent and those that follow
// give the object, with what was open closed, and the usage is that of what was sent
// (DUR-5).
func TestBackgroundAnyCrash(t *testing.T) {
	t.Parallel()
	m, err := store.NewMemory(store.Config{Bytes: 64 << 20})
	if err != nil {
		t.Fatal(err)
	}
	d := &diary{Memory: m}
	u := setup{reply: calls, cost: time.Millisecond}
	u.cfg.Archive = d
	g := start(t, u)
	id := responded(t, g.post("/v1/responses", `{"input":"Hi","background":true,"top_logprobs":2,`+flat+`}`))["id"].(string)
	whole := g.await(id, "completed")
	g.idle()

	dir := t.TempDir()
	s := openStore(t, dir)
	cut := func(n int) string { return fmt.Sprintf("resp_%0*d", len(id)-len("resp_"), n) }
	for n := range d.all {
		d.replay(t, s, cut(n), n)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = openStore(t, dir)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	g = start(t, setup{reply: hello, cfg: Config{Archive: s}})
	inItem, before := 0, 0.0
	for n := range d.all {
		r := responded(t, g.do("GET", "/v1/responses/"+cut(n), ""))
		events := streamed(t, g.do("GET", "/v1/responses/"+cut(n)+"?stream=true", ""))
		if o := fold(t, events); !reflect.DeepEqual(o, r) || r["status"] != "failed" {
			t.Errorf("after %d updates: events give %v\nwant %v", n, o, r)
		}
		tokens, _ := at(r, "usage", "output_tokens").(float64)
		if in := at(r, "usage", "input_tokens"); in != at(whole, "usage", "input_tokens") || tokens < before || tokens > at(whole, "usage", "output_tokens").(float64) {
			t.Errorf("after %d updates: usage %v, %v tokens before, in the end %v", n, r["usage"], before, whole["usage"])
		}
		before = tokens
		out := r["output"].([]any)
		if len(out) == 0 {
			continue
		}
		last := out[len(out)-1]
		if at(last, "status") == "incomplete" {
			inItem++
			if found, err := s.Find("local", at(last, "id").(string)); err != nil || found == "" {
				t.Errorf("after %d updates: the item that was open is not found: %v", n, err)
			}
		}
	}
	if inItem < 10 || before == 0 {
		t.Errorf("%d of %d crashes in an item, %v tokens", inItem, len(d.all), before)
	}
}

// How a response has ended is told once and for all: whoever could read that, in the
// object or in the events, reads the same after a crash at that moment, and until then
// nothing of it (DUR-1).
func TestBackgroundToldIsKept(t *testing.T) {
	t.Parallel()
	broken := setup{reply: hello, fault: func(step int) error {
		if step > 5 {
			return errors.New("broken")
		}
		return nil
	}}
	for _, tt := range []struct {
		status, more string
		u            setup
	}{
		{"completed", "", setup{reply: calls, cost: time.Millisecond}},
		{"incomplete", `,"max_output_tokens":6`, setup{reply: hello, cost: time.Millisecond}},
		{"cancelled", "", lengthy()},
		{"failed", "", broken},
	} {
		t.Run(tt.status, func(t *testing.T) {
			t.Parallel()
			toldIsKept(t, tt.u, `{"input":"Hi","background":true,`+flat+tt.more+`}`, tt.status)
		})
	}
}

func toldIsKept(t *testing.T, u setup, request, status string) {
	t.Helper()
	m, err := store.NewMemory(store.Config{Bytes: 64 << 20})
	if err != nil {
		t.Fatal(err)
	}
	d := &diary{Memory: m}
	u.cfg.Archive = d
	g := start(t, u)
	id := responded(t, g.post("/v1/responses", request))["id"].(string)
	if status == "cancelled" {
		g.await(id, "in_progress")
		responded(t, g.post("/v1/responses/"+id+"/cancel", ""))
	}
	for g.s.load.Load() > 0 { // nothing follows, in the store either
		time.Sleep(time.Millisecond)
	}
	g.await(id, status)

	cfg := store.Config{Dir: t.TempDir(), Interrupted: Interrupted}
	s, err := store.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	cut := func(n int) string { return fmt.Sprintf("resp_%0*d", len(id)-len("resp_"), n) }
	ended := func(status any) bool { return status != "queued" && status != "in_progress" }
	read := func(n int) (r object, finished bool, last string) {
		rec, err := s.Get("local", cut(n))
		if err != nil {
			t.Fatal(err)
		}
		for after := -1; after+1 < rec.Events; {
			events, _, err := s.Events(t.Context(), "local", cut(n), after)
			if err != nil {
				t.Fatal(err)
			}
			after += len(events)
			line, _, _ := strings.Cut(string(events[len(events)-1]), "\n")
			last = strings.TrimPrefix(line, "event: response.")
		}
		return parsed(t, objectOf(rec)), rec.State == store.Finished, last
	}
	var before []object
	for n := range len(d.all) + 1 { // after n updates
		d.replay(t, s, cut(n), n)
		r, finished, last := read(n)
		before = append(before, r)
		told := last == "completed" || last == "incomplete" || last == "failed"
		if ended(r["status"]) != finished || told != finished {
			t.Errorf("after %d of %d updates: status %v, last event %s, finished in the store: %v", n, len(d.all), r["status"], last, finished)
		}
		if ended(r["status"]) && (r["usage"] == nil || (r["completed_at"] != nil) != (status == "completed")) {
			t.Errorf("after %d of %d updates: %v with usage %v, completed at %v", n, len(d.all), r["status"], r["usage"], r["completed_at"])
		}
	}
	if got := before[len(d.all)]["status"]; got != status || len(d.all) < 2 {
		t.Errorf("%d updates, the last says %v, want %s", len(d.all), got, status)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err = store.Open(cfg); err != nil {
		t.Fatal(err)
	}
	for n := range before {
		if r, finished, _ := read(n); !finished || (ended(before[n]["status"]) && !reflect.DeepEqual(r, before[n])) {
			t.Errorf("before the crash\n%v\nafter it\n%v", before[n], r)
		}
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// A server that is told to end cuts off what is made in the background, and says so.
func TestBackgroundShutdown(t *testing.T) {
	t.Parallel()
	u := inMemory(t, lengthy())
	u.cfg.DrainTimeout = 50 * time.Millisecond
	g := start(t, u)
	id := responded(t, g.post("/v1/responses", `{"input":"Hi","background":true}`))["id"].(string)
	g.await(id, "in_progress")
	g.stop()
	for end := time.Now().Add(time.Minute); g.s.load.Load() > 0 && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	rec, err := u.cfg.Archive.Get("local", id)
	if err != nil || rec.State != store.Finished {
		t.Fatalf("%+v, %v", rec, err)
	}
	if r := parsed(t, objectOf(rec)); r["status"] != "failed" || at(r, "error", "code") != "server_error" {
		t.Errorf("stored: %v", r)
	}
}

// A weak archive fails when it is told to.
type weak struct {
	Archive
	known, fails bool
}

func (w *weak) Stats() store.Stats {
	st := w.Archive.Stats()
	if w.known {
		st.Failure = errors.New("no space left on device")
	}
	return st
}

func (w *weak) Create(ctx context.Context, n store.New) error {
	if w.fails {
		return &store.ReadOnlyError{Cause: errors.New("no space left on device")}
	}
	return w.Archive.Create(ctx, n)
}

// A disk that fails takes nothing away but what it was to keep (DUR-3): the object says
// what is stored, and who needs that learns why not.
func TestDUR3Responses(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name         string
		known, fails bool
	}{{"known before", true, true}, {"found out", false, true}} {
		u := inMemory(t, setup{reply: hello})
		w := &weak{u.cfg.Archive, tt.known, tt.fails}
		u.cfg.Archive = w
		g := start(t, u)
		r := g.post("/v1/responses", `{"input":"Hi"}`)
		if o := responded(t, r); o["store"] != false || o["status"] != "completed" {
			t.Errorf("%s: %v", tt.name, o)
		}
		if h := r.header.Get("x-ossian-not-stored"); (h != "") != tt.known {
			t.Errorf("%s: header %q", tt.name, h)
		}
		if o := fold(t, streamed(t, g.post("/v1/responses", `{"input":"Hi","stream":true}`))); o["store"] != false {
			t.Errorf("%s: streamed %v", tt.name, o)
		}
		param := ""
		if tt.known {
			param = "background"
			wantError(t, g.post("/v1/responses", `{"input":"Hi","store":true}`), 503, "overloaded_error", "store_unavailable", "store")
		}
		wantError(t, g.post("/v1/responses", `{"input":"Hi","background":true}`), 503, "overloaded_error", "store_unavailable", param)
		w.known, w.fails = false, false
		if o := responded(t, g.post("/v1/responses", `{"input":"Hi"}`)); o["store"] != true {
			t.Errorf("%s: afterwards %v", tt.name, o)
		}
		g.idle()
	}
	g := start(t, setup{reply: hello})
	if o := responded(t, g.post("/v1/responses", `{"input":"Hi"}`)); o["store"] != false {
		t.Errorf("without an archive: %v", o)
	}
	wantError(t, g.post("/v1/responses", `{"input":"Hi","background":true}`), 400, "invalid_request_error", "unsupported_parameter", "background")
	wantError(t, g.do(http.MethodDelete, "/v1/responses/resp_1", ""), 404, "invalid_request_error", "response_not_found", "response_id")
}

// What the store has no room for is the request's fault, or that of the moment.
func TestBackgroundTooLarge(t *testing.T) {
	t.Parallel()
	g := start(t, inMemory(t, setup{reply: hello}))
	r := g.post("/v1/responses", `{"background":true,"input":[{"role":"user","content":"hi","id":"`+strings.Repeat("x", 70_000)+`"}]}`)
	wantError(t, r, 413, "invalid_request_error", "request_too_large", "")
	if e := g.s.front.Explain("", fmt.Errorf("a: %w", store.ErrFull)); e == nil || e.Code != wire.CodeStoreFailed {
		t.Errorf("a full store: %v", e)
	}
	g.idle()
}
