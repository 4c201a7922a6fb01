package server

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"ossian/internal/board"
	"ossian/internal/sim"
)

// A watcher reads GET /requests.
type watcher struct {
	t      *testing.T
	status int
	header http.Header
	lines  *bufio.Reader
	leave  context.CancelFunc
}

// watch begins to read, as whoever has the key.
func (g *rig) watch(t *testing.T, key string) *watcher {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, g.url+"/requests", nil)
	if err != nil {
		t.Fatal(err)
	}
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	res, err := g.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	w := &watcher{t, res.StatusCode, res.Header, bufio.NewReader(res.Body), func() { cancel(); res.Body.Close() }}
	t.Cleanup(w.leave)
	return w
}

// next returns the next snapshot; false = there is none any more.
func (w *watcher) next() (snap snapshot, ok bool) {
	w.t.Helper()
	line, err := w.lines.ReadBytes('\n')
	if err != nil {
		return snap, false
	}
	blank, _ := w.lines.ReadBytes('\n')
	data, found := bytes.CutPrefix(line, []byte("data: "))
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&snap); err != nil || !found || string(blank) != "\n" {
		w.t.Fatalf("%q, %q: %v", line, blank, err)
	}
	return snap, true
}

// until reads snapshots until one is as wanted.
func (w *watcher) until(what string, wanted func(snapshot) bool) snapshot {
	w.t.Helper()
	var last snapshot
	for range 60 {
		snap, ok := w.next()
		if !ok {
			break
		}
		if last = snap; wanted(snap) {
			return snap
		}
	}
	w.t.Fatalf("%s: not seen; last %+v", what, last)
	return last
}

func only(state string) func(snapshot) bool {
	return func(s snapshot) bool { return len(s.Requests) == 1 && s.Requests[0].State == state }
}

// TestRequestsWatched: a request is seen while it runs and after it has ended, by its own key; to
// other keys it is a number. No text of it is seen by anybody.
func TestRequestsWatched(t *testing.T) {
	t.Parallel()
	g := start(t, setup{cost: 5 * time.Millisecond, cfg: Config{Keys: []string{"a", "b"}}})
	mine, theirs := g.watch(t, "a"), g.watch(t, "b")
	if first, _ := mine.next(); len(first.Requests) != 0 || first.Requests == nil {
		t.Errorf("requests before the first: %+v", first.Requests)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	body := `{"prompt":"a secret thing","stream":true,"ignore_eos":true,"max_tokens":4000}`
	req, _ := http.NewRequestWithContext(ctx, http.MethodPost, g.url+"/v1/completions", strings.NewReader(body))
	for name, value := range map[string]string{"Content-Type": "application/json", "Authorization": "Bearer a", "X-Request-Id": "mine-1"} {
		req.Header.Set(name, value)
	}
	res, err := g.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	writes := func(s snapshot) bool { // the first of its tokens may be told of later than that it writes
		return only(board.Writing)(s) && s.Requests[0].TTFT != nil && s.Requests[0].Output >= 1
	}
	seen := mine.until("a request that writes", writes).Requests[0]
	if seen.ID != "mine-1" || seen.Route != "/v1/completions" || seen.Model != "test-model" || seen.Prompt != 3 || seen.Done != 3 || *seen.TTFT <= 0 || seen.End != nil {
		t.Errorf("while it runs: %+v", seen)
	}
	more := func(s snapshot) bool { return only(board.Writing)(s) && s.Requests[0].Output > seen.Output } // two may be told of one snapshot
	if later := mine.until("more tokens", more).Requests[0]; later.Age <= seen.Age || later.Rate == nil {
		t.Errorf("later: %+v, before %+v", later, seen)
	}
	other := theirs.until("a number of another key", func(s snapshot) bool { return s.Others.Running == 1 && s.Gauges.Running == 1 })
	if len(other.Requests) != 0 {
		t.Errorf("to another key: %+v", other)
	}
	cancel()
	ended := mine.until("its end", only(board.Ended)).Requests[0]
	if ended.End == nil || *ended.End != "abort" || ended.Output < seen.Output {
		t.Errorf("ended: %+v", ended)
	}
	other = theirs.until("its end as a number", func(s snapshot) bool { return s.Others.Ended == 1 })
	if len(other.Requests) != 0 || other.Others.Running != 0 {
		t.Errorf("to another key: %+v", other)
	}
}

// TestRequestsEqual: what is told of requests that have ended is what their clients were told.
func TestRequestsEqual(t *testing.T) {
	t.Parallel()
	g := start(t, inMemory(t, setup{reply: hello}))
	want := map[string]string{}
	ask := func(i int, path, body, usage, in, out string) {
		id := fmt.Sprint("req-", i)
		r := g.post(path, body, "X-Request-Id", id)
		u := at(parsed(t, r.body), usage).(object)
		want[id] = fmt.Sprint(path, u[in], u[out])
	}
	for i := 0; i < board.Kept+8; i += 4 {
		ask(i, "/v1/chat/completions", `{`+hi+`,"n":2}`, "usage", "prompt_tokens", "completion_tokens")
		ask(i+1, "/v1/completions", `{"prompt":["a b","c"],"max_tokens":3}`, "usage", "prompt_tokens", "completion_tokens")
		ask(i+2, "/v1/responses", `{"input":"Hi"}`, "usage", "input_tokens", "output_tokens")
		ask(i+3, "/v1/messages", `{"model":"test-model","max_tokens":40,`+hi+`}`, "usage", "input_tokens", "output_tokens")
	}
	g.post("/v1/completions", `{"prompt":"a","max_tokens":0}`)  // nothing to generate
	g.post("/v1/completions", `{"prompt":"a","max_tokens":-5}`) // refused
	g.idle()
	rows := g.watch(t, "").until("the end of all", func(s snapshot) bool { return len(s.Requests) == board.Kept }).Requests
	for i, row := range rows {
		if id := fmt.Sprint("req-", board.Kept+7-i); row.ID != id || row.State != board.Ended || row.End == nil {
			t.Errorf("row %d: %+v, %s wanted", i, row, id)
		}
		prompt := row.Prompt
		if row.Route == "/v1/messages" { // there the cached ones are told apart
			prompt -= row.Cached
		}
		if got := fmt.Sprint(row.Route, prompt, row.Output); got != want[row.ID] {
			t.Errorf("%s: told %s, the client was told %s", row.ID, got, want[row.ID])
		}
	}
}

// TestRequestsPlaces: eight may watch, the ninth is refused until one leaves.
func TestRequestsPlaces(t *testing.T) {
	t.Parallel()
	g := start(t, setup{reply: hello})
	var all []*watcher
	for range maxWatchers {
		all = append(all, g.watch(t, ""))
	}
	for i, w := range all {
		if _, ok := w.next(); !ok || w.status != 200 || w.header.Get("Content-Type") != "text/event-stream; charset=utf-8" {
			t.Errorf("watcher %d: %d, %v", i, w.status, w.header)
		}
	}
	if ninth := g.watch(t, ""); ninth.status != 503 || ninth.header.Get("Retry-After") == "" {
		t.Errorf("the ninth: %d, %v", ninth.status, ninth.header)
	}
	if r := g.do("GET", "/metrics", ""); !strings.Contains(r.body, `http_requests_total{handler="/requests",method="GET",status="5xx"} 1`) {
		t.Error("the refusal is not counted")
	}
	all[3].leave()
	for try := 0; ; try++ {
		if g.watch(t, "").status == 200 {
			break
		}
		if try == 600 {
			t.Fatal("the place of one that left stays taken")
		}
		time.Sleep(50 * time.Millisecond)
	}
	if r := g.do("GET", "/metrics", ""); strings.Contains(r.body, `ossian_streams_cut_total{reason="disconnect"} 1`) {
		t.Error("a watcher that leaves counts as a stream that was cut")
	}
}

// TestRequestsEnd: watching ends with the key and with the server, and nobody of another origin
// takes a place.
func TestRequestsEnd(t *testing.T) {
	t.Parallel()
	g := start(t, setup{reply: hello, cfg: Config{Keys: []string{"a", "b"}}})
	withdrawn, stays := g.watch(t, "a"), g.watch(t, "b")
	for _, w := range []*watcher{withdrawn, stays} {
		if _, ok := w.next(); !ok {
			t.Fatal("nothing to see")
		}
	}
	g.s.Reload([]string{"b"}, nil)
	for i := 0; ; i++ {
		if _, ok := withdrawn.next(); !ok {
			break
		}
		if i == 60 {
			t.Fatal("a key that was taken away still watches")
		}
	}
	if r := g.do("GET", "/requests", "", "Authorization", "Bearer b", "Origin", "https://evil.example"); r.status != 403 {
		t.Errorf("from a foreign page: %d", r.status)
	}
	if r := g.do("GET", "/requests", "", "Authorization", "Bearer b", "Sec-Fetch-Site", "cross-site"); r.status != 403 {
		t.Errorf("from a foreign page that hides its origin: %d", r.status)
	}
	g.stop()
	for i := 0; ; i++ {
		if _, ok := stays.next(); !ok {
			break
		}
		if i == 60 {
			t.Fatal("watching goes on while the server drains")
		}
	}
}

// TestRequestsShared: however many watch, one snapshot is taken in an interval, and one text is
// made for each key.
func TestRequestsShared(t *testing.T) {
	var v watching
	taken := 0
	take := func(time.Time) (snapshot, []board.Entry) {
		taken++
		return snapshot{}, []board.Entry{{Label: board.Label{ID: "a"}, Tenant: 1, State: board.Waiting}, {Label: board.Label{ID: "b"}, Tenant: 2, State: board.Writing}}
	}
	now := time.Unix(1_700_000_000, 0)
	var events sync.Map
	var all sync.WaitGroup
	for i := range 64 {
		all.Go(func() {
			events.Store(string(v.event(now.Add(time.Duration(i)*time.Millisecond), uint32(i%3), take)), true)
		})
	}
	all.Wait()
	distinct := 0
	events.Range(func(_, _ any) bool { distinct++; return true })
	if taken != 1 || distinct != 3 {
		t.Errorf("%d snapshots, %d texts; 1 and 3 wanted", taken, distinct)
	}
	if v.event(now.Add(watchInterval), 0, take); taken != 2 {
		t.Errorf("%d snapshots after the interval", taken)
	}
	many := make([]board.Entry, maxGoingOn+7)
	if s := (snapshot{}).of(0, append(many, board.Entry{State: board.Ended, End: "stop"})); len(s.Requests) != maxGoingOn+1 || s.LeftOut != 7 {
		t.Errorf("%d rows, %d left out", len(s.Requests), s.LeftOut)
	}
}

var (
	times      = regexp.MustCompile(`"(time|uptime|age|ttft|tokens_per_second)":(?:null|[0-9.e-]+)`)
	limitsTold = regexp.MustCompile(`"limits":\{.*?\}\}`)
)

// TestLiveShapes holds the replies of both routes to testdata/live.golden, which -update rewrites;
// times are replaced by 0, limits by one.
func TestLiveShapes(t *testing.T) {
	t.Parallel()
	g := start(t, setup{next: sim.List(said(hello)...), names: []string{"test-model", "alias"}})
	g.post("/v1/chat/completions", `{`+hi+`}`, "X-Request-Id", "one")
	g.idle()
	w := g.watch(t, "")
	line, err := w.lines.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	info := g.do("GET", "/info", "")
	if got := limitsTold.FindString(info.body); !strings.Contains(got, `"request-body":{"value":33554432,"unit":"bytes"}`) || strings.Contains(got, "connections") {
		t.Errorf("limits of requests: %s", got)
	}
	text := "The replies of GET /info and an event of GET /requests, with times set to 0; go test ./internal/server -run TestLiveShapes -update wrote them.\n\n" +
		limitsTold.ReplaceAllString(info.body, `"limits":{"request-body":{"value":33554432,"unit":"bytes"}}`) + "\n\n" + line
	text = times.ReplaceAllString(text, `"$1":0`)
	const golden = "testdata/live.golden"
	if *update {
		if err := os.WriteFile(golden, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil || string(want) != text {
		t.Errorf("%v\ngot  %s\nwant %s", err, text, want)
	}
}

// TestInfo: it is there while the model loads, needs the key, and says what is true.
func TestInfo(t *testing.T) {
	t.Parallel()
	loading := make(chan struct{})
	g := start(t, setup{reply: hello, cfg: Config{Keys: []string{"k"}}, load: func(context.Context) error { <-loading; return nil }})
	if r := g.do("GET", "/info", ""); r.status != 401 {
		t.Errorf("without a key: %d", r.status)
	}
	info := func() object {
		r := g.do("GET", "/info", "", "Authorization", "Bearer k")
		if r.status != 200 {
			t.Fatalf("%d %s", r.status, r.body)
		}
		return parsed(t, r.body)
	}
	before := info()
	if before["device"] != nil || at(before, "models", 0, "family") != nil || at(before, "models", 0, "id") != "test-model" || at(before, "auth", "required") != true {
		t.Errorf("while it loads: %v", before)
	}
	close(loading)
	for range 600 {
		if at(info(), "device") != nil {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	after := info()
	if got := fmt.Sprint(at(after, "models", 1, "efforts"), at(after, "models", 0, "capabilities")); got != "[none low medium high] [completion chat tools]" {
		t.Errorf("of a loaded model: %s", got)
	}
	if at(after, "models", 0, "max_model_len") != 4096.0 || at(after, "version") != "1.2.3" {
		t.Errorf("of a loaded model: %v", after)
	}
}

// BenchmarkWatched is what eight watchers of eight keys cost in a second, with as many rows as
// there can be.
func BenchmarkWatched(b *testing.B) {
	g := start(b, setup{reply: hello})
	now := time.Now()
	for i := range maxGoingOn + board.Kept {
		r := g.s.board.Add(&board.Request{Label: board.Label{ID: fmt.Sprintf("req_%024d", i), Route: "/v1/responses", Model: "test-model"}, Tenant: uint32(i%maxWatchers + 1), Received: now, Sequences: make([]board.Sequence, 1), PerPrompt: 1})
		r.Sequences[0].Queue(1000)
		r.Output(2, now.Add(time.Second))
		if i >= maxGoingOn {
			r.End("stop", 1000, 500, 300, now.Add(2*time.Second))
		}
	}
	bytes := 0
	for b.Loop() {
		now, bytes = now.Add(watchInterval), 0
		for tenant := range uint32(maxWatchers) {
			bytes += len(g.s.watching.event(now, tenant+1, g.s.take))
		}
	}
	b.ReportMetric(float64(bytes), "bytes")
}
