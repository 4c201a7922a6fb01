package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ossian/internal/bench"
	"ossian/internal/bench/dataset"
	"ossian/internal/bench/scripted"
)

// plays starts a server of one script.
func plays(t *testing.T, script scripted.Script) *scripted.Server {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s, err := scripted.Serve(context.Background(), l, scripted.Options{Scripts: []scripted.Script{script}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// small are options of a run of a few requests to s.
func small(s *scripted.Server) Options {
	o := Defaults(bench.VLLM)
	o.BaseURL, o.Tokenizer = s.URL(), "gpt-oss"
	o.Data.Prompts, o.Data.Random.Input, o.Data.Random.Output = 8, 20, 6
	return o
}

// One call measures a server, and leaves the result and the log of the same run.
func TestMeasure(t *testing.T) {
	s := plays(t, scripted.Script{TTFT: 20 * time.Millisecond, Gap: 4 * time.Millisecond})
	dir := t.TempDir()
	files := Files{Result: filepath.Join(dir, "run.json"), Detailed: true, Log: filepath.Join(dir, "run.jsonl")}
	o := small(s)
	o.Salt = RandomSalt
	result, err := Measure(t.Context(), o, files)
	if err != nil {
		t.Fatal(err)
	}
	// A busy machine reads events late and several at once: only the last of the six cannot seem
	// to have come too early.
	if v := result.Values; v["completed"] != 8 || v["total_output_tokens"] != 48 || !(v["mean_ttft_ms"] >= 20) || !(v["mean_ttft_ms"]+5*v["mean_tpot_ms"] >= 39) {
		t.Errorf("values: %v", v)
	}
	var file map[string]any
	text, err := os.ReadFile(files.Result)
	if err != nil || json.Unmarshal(text, &file) != nil || file["completed"] != 8.0 || len(file["ttfts"].([]any)) != 8 {
		t.Errorf("%v: %.300s", err, text)
	}
	log, err := os.Open(files.Log)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	recording, complete, err := bench.ReadLog(log)
	if err != nil || !complete || len(recording.Samples) != 8 || recording.Duration != result.Recording.Duration {
		t.Errorf("the log: %v, complete %v, %d requests", err, complete, len(recording.Samples))
	}
	if salt := recording.Setup.Salt; salt == "" || strings.HasPrefix(salt, RandomSalt) {
		t.Errorf("the salt is %q, want one that no run had", salt)
	}
}

// A client makes several runs; another one for the same server takes its tokenizer and, if it
// is to, its workload.
func TestClientShared(t *testing.T) {
	s := plays(t, scripted.Script{})
	one, err := New(small(s))
	if err != nil {
		t.Fatal(err)
	}
	defer one.Close()
	for _, step := range []func(context.Context) error{one.Connect, one.Prepare} {
		if err := step(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	o := small(s)
	o.Arrivals.Concurrency = 2
	two, err := one.With(o)
	if err != nil {
		t.Fatal(err)
	}
	two.Adopt(one)
	for index, c := range []*Client{one, one, two} {
		result, err := c.Run(t.Context(), index, Files{})
		if err != nil || result.Values["completed"] != 8 {
			t.Fatalf("run %d: %v, %v", index, err, result)
		}
	}
	if two.Close(); two.Setup().Hash != one.Setup().Hash || two.Setup().Model != one.Setup().Model || two.Count() == nil {
		t.Errorf("%+v\n%+v", two.Setup(), one.Setup())
	}
}

// CacheAuto has the server empty its cache where it can, and salts prompts where it cannot; runs
// record which.
func TestCache(t *testing.T) {
	s := plays(t, scripted.Script{})
	target, err := url.Parse(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	plain := httputil.NewSingleHostReverseProxy(target)
	refuses := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "_cache") {
			http.Error(w, "not here", http.StatusForbidden)
			return
		}
		plain.ServeHTTP(w, r)
	}))
	defer refuses.Close()
	for _, c := range []struct {
		name, base string
		cache      Cache
		salt       bool
		want, err  string
		resets     int // of the server
	}{
		{"auto", s.URL(), CacheAuto, false, "reset", "", 3}, // one to find out
		{"auto, refused", refuses.URL, CacheAuto, false, "salt", "", 0},
		{"reset", s.URL(), CacheReset, false, "reset", "", 2},
		{"reset, refused", refuses.URL, CacheReset, false, "", "did not empty its prefix cache: POST /reset_prefix_cache: 403 Forbidden: not here", 0},
		{"salt", s.URL(), CacheSalt, false, "salt", "", 0},
		{"carry", s.URL(), CacheCarry, false, "carry", "", 0},
		{"nothing", s.URL(), "", false, "", "", 0},
		{"a salt of old", s.URL(), "", true, "salt", "", 0},
		{"both", s.URL(), CacheCarry, true, "", "leave out --salt", 0},
		{"unknown to them", s.URL(), CacheReset, true, "", "leave out --salt", 0},
	} {
		before := s.Calls()["POST /reset_prefix_cache"]
		o := small(s)
		o.BaseURL, o.Cache = c.base, c.cache
		if c.salt {
			o.Salt = "x"
		}
		var notes strings.Builder
		o.Log = &notes
		caches, salts, err := twice(t, o)
		if (err == nil) != (c.err == "") || (err != nil && !strings.Contains(err.Error(), c.err)) {
			t.Errorf("%s: %v, want %q", c.name, err, c.err)
			continue
		}
		if err != nil {
			continue
		}
		if got := s.Calls()["POST /reset_prefix_cache"] - before; got != c.resets || caches != c.want+" "+c.want || (salts > 0) != (c.want == "salt") || (c.want == "salt" && salts != 2) {
			t.Errorf("%s: %d resets, cache %s, %d salts; want %+v", c.name, got, caches, salts, c)
		}
		if (notes.Len() > 0) != (c.cache == CacheAuto) {
			t.Errorf("%s: %s", c.name, notes.String())
		}
	}
}

// twice makes two runs and returns what they record of the cache, and how many salts there were.
func twice(t *testing.T, o Options) (caches string, salts int, err error) {
	t.Helper()
	c, err := New(o)
	if err != nil {
		return "", 0, err
	}
	defer c.Close()
	for _, step := range []func(context.Context) error{c.Connect, c.Prepare} {
		if err := step(t.Context()); err != nil {
			return "", 0, err
		}
	}
	different := map[string]bool{}
	var names []string
	for index := range 2 {
		result, err := c.Run(t.Context(), index, Files{})
		if err != nil {
			return "", 0, err
		}
		if salt := result.Ossian.Workload.Salt; salt != "" {
			different[salt] = true
		}
		names = append(names, result.Ossian.Workload.Cache)
	}
	return strings.Join(names, " "), len(different), nil
}

// What is wrong is said before anything is asked of a server, and a run that is cut gives
// what there is.
func TestMeasureErrors(t *testing.T) {
	s := plays(t, scripted.Script{Gap: time.Hour})
	for _, c := range []struct {
		change func(*Options)
		want   string
	}{
		{func(o *Options) { o.BaseURL = "127.0.0.1:80" }, "want an address"},
		{func(o *Options) { o.Arrivals.Rate = 0 }, "--request-rate"},
		{func(o *Options) { o.Data.Name = "sharegpt" }, "--dataset-path"},
		{func(o *Options) { o.Metrics = []string{"itls"} }, "--percentile-metrics"},
		{func(o *Options) { o.Dialect = "olama" }, "--dialect"},
		{func(o *Options) { o.Tokenizer = "no/such" }, "no tokenizer"},
		{func(o *Options) { o.Data.Prompts = 0 }, "--num-prompts 0"},
	} {
		o := small(s)
		c.change(&o)
		if _, err := Measure(t.Context(), o, Files{}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want %q", err, c.want)
		}
	}
	if calls := s.Calls()["POST /v1/completions"]; calls > 0 {
		t.Errorf("%d requests were sent", calls)
	}
	ctx, cancel := context.WithCancel(t.Context())
	o := small(s)
	o.Watch = func(live *bench.Live) func() {
		go func() {
			for live.Tokens.Load() == 0 && ctx.Err() == nil {
				time.Sleep(time.Millisecond)
			}
			cancel()
		}()
		return func() {}
	}
	result, err := Measure(ctx, o, Files{})
	if !errors.Is(err, context.Canceled) || result == nil || result.Summary.Valid() || result.Values["completed"] != 0 {
		t.Errorf("a run that is cut: %v, %+v", err, result)
	}
}

// The profiles differ in what is not given.
func TestDefaults(t *testing.T) {
	for _, c := range []struct {
		profile bench.Profile
		want    string
	}{
		{bench.VLLM, "random 128 seed 0 warm-ups 0 ready 0s eos true"},
		{bench.VLLM011, "random 128 seed 0 warm-ups 0 ready 10m0s eos false"},
		{bench.LMDeploy, "sharegpt 128 seed 1 warm-ups 1 ready 0s eos true"},
		{bench.SGLang, "sharegpt 1024 seed 1 warm-ups 1 ready 0s eos true"},
	} {
		o := Defaults(c.profile)
		got := fmt.Sprintf("%s %d seed %d warm-ups %d ready %v eos %v", o.Data.Name, o.Data.Random.Output, o.Seed, o.Warmups, o.Ready, o.ignoresEOS())
		if got != c.want {
			t.Errorf("%v: %s, want %s", c.profile, got, c.want)
		}
	}
}

// Requests name LoRA adapters as their model: those that Python's random.choice picks
// behind random.seed(0), one after the other, or one for each conversation.
func TestAdapters(t *testing.T) {
	for _, c := range []struct {
		way   string
		turns int
		want  string
	}{{"random", 1, "bbabcbbb"}, {"round-robin", 1, "abcabcab"}, {"round-robin", 2, "aabbccaa"}} {
		m := &Client{Options: Options{LoRA: []string{"a", "b", "c"}, LoRAAssignment: c.way}, work: make(bench.Workload, 8)}
		for i := range m.work {
			m.work[i] = dataset.Query{Turn: i % c.turns, Body: []byte(`{"min_tokens":2}`)}
		}
		m.work[0].Body = nil
		if err := m.adapters(); err != nil {
			t.Fatal(err)
		}
		var got []string
		for i, q := range m.work {
			got = append(got, strings.SplitN(string(q.Body), `"`, 5)[3])
			if want := fmt.Sprintf(`{"min_tokens":2,"model":%q}`, c.want[i:i+1]); i > 0 && string(q.Body) != want {
				t.Errorf("%s: request %d has %s, want %s", c.way, i, q.Body, want)
			}
		}
		if got[0] != c.want[:1] {
			t.Errorf("%s: the first is %s", c.way, m.work[0].Body)
		}
	}
}

// What a data set's file says of a body stays what it is, with a model.
func FuzzWithModel(f *testing.F) {
	for _, seed := range []string{"", "{}", `{"min_tokens":2}`, `{"model":"x","a":[1,{}]}`, "null", "[]", `{"model":`, `{"a":1e999}`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, members string) {
		out, err := withModel(json.RawMessage(members), json.RawMessage(`"lora"`))
		if err != nil {
			return
		}
		var was, is map[string]json.RawMessage
		if err := json.Unmarshal(out, &is); err != nil {
			t.Fatalf("%q became %q: %v", members, out, err)
		}
		if members == "" {
			members = "{}"
		}
		if err := json.Unmarshal([]byte(members), &was); err != nil {
			t.Fatal(err)
		}
		_, own := was["model"]
		if (!own && string(is["model"]) != `"lora"`) || (own && len(is) != len(was)) || (!own && len(is) != len(was)+1) {
			t.Errorf("%q became %q", members, out)
		}
	})
}

// Advice to salt prompts is for servers that cannot empty their cache; one that is gone takes none.
func TestNotEmptied(t *testing.T) {
	gone := httptest.NewServer(http.NotFoundHandler())
	for _, here := range []bool{true, false} {
		if !here {
			gone.Close()
		}
		server, err := bench.NewServer(gone.URL, bench.Access{})
		if err != nil {
			t.Fatal(err)
		}
		err = notEmptied(server.Post(t.Context(), "/reset_prefix_cache"), "--salt")
		server.Close()
		if strings.Contains(err.Error(), "--salt needs nothing") != here {
			t.Errorf("there %v: %v", here, err)
		}
	}
}
