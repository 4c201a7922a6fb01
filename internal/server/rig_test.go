package server

import (
	"bytes"
	"context"
	"flag"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"ossian/internal/chat"
	"ossian/internal/engine"
	"ossian/internal/grammar"
	"ossian/internal/host"
	"ossian/internal/limits"
	"ossian/internal/metrics"
	"ossian/internal/runner"
	"ossian/internal/sample"
	"ossian/internal/sim"
	"ossian/internal/soak"
	"ossian/internal/token"
	"ossian/internal/tools/python"
)

// format is gpt-oss's, of any number of models at once.
var format = sync.OnceValue(func() chat.Format {
	made, err := chat.New(chat.Facts{Family: "gpt-oss", Tokenizer: harmony(), Stops: []int32{200_002, 200_012}})
	if err != nil {
		panic(err)
	}
	return made
})

// harmony is gpt-oss's tokenizer: loading it takes a while, so once.
var harmony = sync.OnceValue(func() *token.BPE {
	tok, err := token.Harmony()
	if err != nil {
		panic(err)
	}
	return tok
})

// vocabulary is what grammars make of it, which takes a while, too.
var vocabulary = sync.OnceValue(func() *grammar.Vocabulary { return grammar.NewVocabulary(harmony()) })

// TestMain waits for every goroutine to end (SOK-3). As an interpreter's helper this program does
// not get that far.
func TestMain(m *testing.M) {
	python.Helper(os.Args[1:])
	soak.Abreast(8) // they wait
	before := goroutines()
	code := m.Run()
	if flag.Lookup("test.fuzz").Value.String() != "" {
		os.Exit(code) // the fuzzer keeps goroutines of its own
	}
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	deadline, left := time.Now().Add(time.Minute), goroutines()
	for ; left > before && time.Now().Before(deadline); left = goroutines() {
		time.Sleep(10 * time.Millisecond)
	}
	if left > before && code == 0 {
		buf := make([]byte, 1<<20)
		os.Stderr.Write(buf[:runtime.Stack(buf, true)])
		os.Stderr.WriteString("goroutines were left behind\n")
		code = 1
	}
	os.Exit(code)
}

// goroutines counts them, but for the one that the sandbox keeps a thread in once it was used, and that
// of the runtime in which what follows the end of values is done: it is listed while it does some.
func goroutines() (n int) {
	buf := make([]byte, 16<<20)
	for stack := range strings.SplitSeq(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
		if !strings.Contains(stack, "tools/python/sandbox.init.") && !strings.Contains(stack, "\nruntime.runCleanups(") {
			n++
		}
	}
	return n
}

// A setup is a server with a scripted model.
type setup struct {
	next   sim.Next // nil = hashes
	reply  string   // instead of next: what the model says, control tokens by name
	cost   time.Duration
	fault  func(step int) error            // of collecting a step
	launch func(step int, b *runner.Batch) // told of each step, before its ids are chosen
	reopen bool                            // runners that failed are replaced
	format chat.Format                     // nil = gpt-oss
	tokens *token.BPE                      // nil = gpt-oss's
	cfg    Config
	limits map[limits.ID]int64
	info   runner.Info
	engine engine.Config
	load   func(context.Context) error // called by Load; nil = at once
	names  []string
	log    io.Writer
}

// A rig is a running server.
type rig struct {
	t      testing.TB
	s      *Server
	url    string
	addr   string
	stop   context.CancelFunc // begins the drain
	served chan error
	client *http.Client
	model  *host.Model
}

const unused = 201_000 // an id without a meaning

// looseHeaders serves scripts that break the format of gpt-oss, which answers are held to otherwise.
var looseHeaders = Config{LooseHeaders: true}

func start(t testing.TB, u setup) *rig {
	t.Helper()
	tok := harmony()
	u.info.Vocab = 201_088
	if u.tokens != nil {
		tok, u.info.Vocab = u.tokens, u.tokens.Vocab()
	}
	if u.reply != "" {
		u.next = sim.List(said(u.reply)...)
	}
	if u.info.MaxLen == 0 {
		u.info.MaxLen = 4096
	}
	script := sim.Config{Info: u.info, Next: u.next}
	if u.cost > 0 {
		script.Cost = func(*runner.Batch) time.Duration { return u.cost }
	}
	if u.launch != nil {
		script.OnLaunch = func(step int, b *runner.Batch) error { u.launch(step, b); return nil }
	}
	if u.fault != nil {
		script.OnCollect = func(step int, _ *runner.Batch) error { return u.fault(step) }
	}
	if u.reopen {
		u.engine.Open = func(context.Context) (runner.Runner, error) { return sim.NewScript(script) }
	}
	run, err := sim.NewScript(script)
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	if u.log != nil {
		log = slog.New(slog.NewTextHandler(u.log, nil))
	}
	e, err := engine.New(run, u.engine, log)
	if err != nil {
		t.Fatal(err)
	}
	f := u.format
	if f == nil {
		f = format()
	}
	if u.names == nil {
		u.names = []string{"test-model", "alias/of it"}
	}
	h, err := host.New(host.Config{}, host.Card{Names: u.names, Root: "root", Created: time.Unix(1_700_000_000, 0), MaxLen: 4096})
	if err != nil {
		t.Fatal(err)
	}
	u.cfg.Version, u.cfg.Revision = "1.2.3", "abc"
	u.cfg.Limits = limits.Defaults()
	u.cfg.Limits[limits.CompileTime] = limits.CompileTime.Info().Max // tests may run on a slow machine
	for id, v := range u.limits {
		u.cfg.Limits[id] = v
	}
	if u.cfg.DrainTimeout == 0 {
		u.cfg.DrainTimeout = 5 * time.Second
	}
	u.cfg.Clock = func() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) }
	var mu sync.Mutex
	rng := rand.New(rand.NewPCG(1, 2))
	u.cfg.Random = func() uint64 { mu.Lock(); defer mu.Unlock(); return rng.Uint64() }
	ms := metrics.New(metrics.Config{})
	shared := func(*token.BPE) *grammar.Vocabulary { return vocabulary() }
	if u.tokens != nil {
		shared = nil
	}
	g := &rig{t: t, s: newServer(u.cfg, h, log, ms, shared), served: make(chan error, 1), client: &http.Client{Transport: &http.Transport{DisableCompression: true}}}
	g.model = &host.Model{Engine: e, Tokenizer: tok, Format: f, Stops: f.Stops(), Vocab: u.info.Vocab,
		Defaults: sample.Params{Temperature: 1}, Fingerprint: "os-test",
		Facts: host.Facts{Family: "gpt-oss", Parameters: 20_914_757_184, Quantization: "mxfp4", Device: "sim", Efforts: chat.Efforts(f, tok),
			Memory: host.Memory{Planned: 16_000_000_000, Weights: 12_000_000_000, KV: 3_000_000_000}}}
	if u.tokens == nil {
		g.model.Unused = []int32{unused}
	}
	g.model.Metrics = ms.Model(metrics.ModelConfig{Name: "test-model", MaxLen: 4096, BlockSize: 16, Blocks: 8, Snapshot: func() metrics.Snapshot { return host.Snapshot(e) }})
	ctx, cancel := context.WithCancel(context.Background())
	g.stop = cancel
	hosted := make(chan error, 1)
	hostCtx, end := context.WithCancel(context.Background())
	go func() {
		hosted <- h.Run(hostCtx, func(ctx context.Context, _ *host.Card) (*host.Model, error) {
			if u.load != nil {
				if err := u.load(ctx); err != nil {
					return nil, err
				}
			}
			return g.model, nil
		})
	}()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g.addr = l.Addr().String()
	g.url = "http://" + g.addr
	if u.cfg.TLS != nil {
		g.url = "https://" + g.addr
		g.client.Transport.(*http.Transport).TLSClientConfig = trusting(u.cfg.TLS)
	}
	go func() { g.served <- g.s.Serve(ctx, l) }()
	t.Cleanup(func() {
		g.client.CloseIdleConnections()
		cancel()
		if err := <-g.served; err != nil {
			t.Errorf("Serve: %v", err)
		}
		end()
		if err := <-hosted; err != nil && u.load == nil && u.fault == nil {
			t.Errorf("host: %v", err)
		}
		if n := g.s.bodies.Load(); n != 0 {
			t.Errorf("%d bytes of bodies are still accounted for", n)
		}
	})
	if u.load == nil {
		for !h.Available() {
			time.Sleep(time.Millisecond)
		}
	}
	return g
}

// said returns the ids of what a model says, control tokens by name.
func said(markup string) []int32 {
	p := harmony().Prompt()
	p.Markup(markup)
	return p.IDs()
}

// A got is a reply.
type got struct {
	status int
	header http.Header
	body   string
}

func (g *rig) do(method, path, body string, header ...string) got {
	g.t.Helper()
	req, err := http.NewRequest(method, g.url+path, strings.NewReader(body))
	if err != nil {
		g.t.Fatal(err)
	}
	if method == http.MethodPost {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(header); i += 2 {
		if header[i] == "Host" {
			req.Host = header[i+1]
			continue
		}
		req.Header.Set(header[i], header[i+1])
	}
	res, err := g.client.Do(req)
	if err != nil {
		g.t.Fatal(err)
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		g.t.Fatalf("%s %s: %v after %q", method, path, err, data)
	}
	return got{res.StatusCode, res.Header, string(data)}
}

func (g *rig) post(path, body string, header ...string) got {
	g.t.Helper()
	return g.do(http.MethodPost, path, body, header...)
}

// idle waits until the engine has nothing to do.
func (g *rig) idle() {
	g.t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		st := g.model.Engine.Stats()
		if st.Running == 0 && st.Waiting == 0 && st.KV.Held == 0 && g.s.load.Load() == 0 {
			return
		}
		if time.Now().After(deadline) {
			g.t.Fatalf("after a minute: %+v, load %d", st, g.s.load.Load())
		}
		time.Sleep(time.Millisecond)
	}
}

// within holds a time to the number of reliability.md where figures are taken, on a
// quiet machine, and to what no machine should exceed elsewhere.
func within(t testing.TB, what string, got, spec, patience time.Duration) {
	t.Helper()
	bound := patience
	if soaking() {
		bound = spec
	}
	if got > bound {
		t.Errorf("%s: %v, at most %v wanted", what, got, bound)
	}
}

// soaking reports whether figures are taken: counts and times are those of a release.
func soaking() bool { return os.Getenv(soak.Env) != "" }

// p99 returns the time that one of a hundred exceeds, and sorts.
func p99(times []time.Duration) time.Duration {
	if len(times) == 0 {
		return 0
	}
	slices.Sort(times)
	return times[len(times)*99/100]
}

// A ledger is an access log that tells when the server was done with a request.
type ledger struct {
	mu   sync.Mutex
	done map[string]chan settled
}

type settled struct {
	at             time.Time
	status, tokens int
	cut            string
}

// Write takes one line of the log.
func (l *ledger) Write(line []byte) (int, error) {
	s, id := settled{at: time.Now()}, ""
	for part := range strings.FieldsSeq(string(line)) {
		switch name, value, _ := strings.Cut(part, "="); name {
		case "req":
			id = value
		case "status":
			s.status, _ = strconv.Atoi(value)
		case "tokens":
			s.tokens, _ = strconv.Atoi(value)
		case "cut":
			s.cut = value
		}
	}
	if s.status != 0 {
		select {
		case l.of(id) <- s:
		default: // an id that was used before
		}
	}
	return len(line), nil
}

func (l *ledger) of(id string) chan settled {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.done == nil {
		l.done = make(map[string]chan settled)
	}
	if l.done[id] == nil {
		l.done[id] = make(chan settled, 1)
	}
	return l.done[id]
}

// settled waits until the server is done with a request.
func (l *ledger) settled(t testing.TB, id string) settled {
	select {
	case s := <-l.of(id):
		l.mu.Lock()
		delete(l.done, id)
		l.mu.Unlock()
		return s
	case <-time.After(2 * time.Minute):
		t.Errorf("the server still works on request %s", id)
		return settled{at: time.Now()}
	}
}

// A log is a buffer for any number of writers.
type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}
