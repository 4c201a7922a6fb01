package bench

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"ossian/internal/bench/dataset"
	"ossian/internal/soak"
)

func recording() *Recording {
	return &Recording{
		Setup: Setup{Profile: LMDeploy, Backend: "lmdeploy", Arrivals: Arrivals{Rate: math.Inf(1), Burstiness: 1, Ramp: Ramp{"linear", 1, 2}},
			Percentiles: []float64{99, 99.9}, Goodput: []SLO{{"ttft", time.Second}}, Metadata: []Pair{{"a", "b"}}, Args: []string{"x"}, Seed: -1},
		Began: time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC), Duration: 9,
		Samples: []Sample{
			{Index: 0, Scheduled: 1, Released: 2, Sent: 3, Done: 40, Input: 5, Asked: 6, Status: 200, Counts: Counts{1, 2, -1, 3}, Text: "é<\n", Thought: "t", Finish: "stop",
				Chunks: []Chunk{{At: 10, Lag: -1, Tokens: -1, Kind: both}, {At: 10, Lag: math.MaxInt32, Tokens: math.MaxInt16, Kind: 255}, {At: 39, Lag: 5, Tokens: 0, Kind: Done}}},
			{Index: 2, Status: 500, Err: "500 x", Counts: unknownCounts},
		},
		Probes: []Probe{{1, 2, ""}, {3, 4, "no"}}, RateSteps: []RateStep{{1, time.Date(2026, 1, 2, 3, 4, 5, 7, time.UTC)}},
		Before: map[string]float64{"a": 1}, After: map[string]float64{"a": 2.5},
		Client: Client{CPU: 3, MaxPause: 4, Threads: 2, Kernel: true, Shared: true},
	}
}

func logOf(t testing.TB, r *Recording) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := WriteLog(&b, r); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestLogRoundTrip(t *testing.T) {
	empty := &Recording{Setup: Setup{Arrivals: Arrivals{Rate: 2.5, Burstiness: math.Inf(1)}}}
	for _, want := range []*Recording{recording(), empty} {
		got, complete, err := ReadLog(bytes.NewReader(logOf(t, want)))
		if err != nil || !complete || !reflect.DeepEqual(got, want) {
			t.Errorf("%v, complete %v\n got %+v\nwant %+v", err, complete, got, want)
		}
	}
}

// A log may end anywhere: what is whole is read, and that the end is missing is said.
func TestLogTorn(t *testing.T) {
	want := recording()
	text := logOf(t, want)
	first := bytes.IndexByte(text, '\n') + 1
	for n := range text {
		got, complete, err := ReadLog(bytes.NewReader(text[:n]))
		if n < first {
			if err == nil {
				t.Fatalf("%d bytes: half a header was accepted", n)
			}
			continue
		}
		if err != nil || complete {
			t.Fatalf("%d bytes: %v, complete %v", n, err, complete)
		}
		lines := bytes.Count(text[:n], []byte("\n"))
		if have := 1 + len(got.Samples) + len(got.Probes) + len(got.RateSteps); have != lines {
			t.Fatalf("%d bytes: %d lines read of %d", n, have, lines)
		}
		if !got.Interrupted || got.Client.Kernel != (len(got.Samples) > 0) {
			t.Fatalf("%d bytes: interrupted %v, %+v", n, got.Interrupted, got.Client)
		}
		if len(got.Samples) > 0 && (!reflect.DeepEqual(got.Samples[0], want.Samples[0]) || got.Duration != 40) {
			t.Fatalf("%d bytes: %+v of duration %v", n, got.Samples[0], got.Duration)
		}
	}
}

func TestLogBroken(t *testing.T) {
	lines := strings.SplitAfter(string(logOf(t, recording())), "\n")
	join := func(change func(l []string) []string) string {
		return strings.Join(change(append([]string(nil), lines...)), "")
	}
	put := func(i int, text string) string {
		return join(func(l []string) []string { l[i] = text + "\n"; return l })
	}
	skipped := map[string]bool{"not JSON": true, "empty line": true, "zeros": true, "of no kind": true, "of two kinds": true, "chunks": true, "kind": true, "index": true}
	for _, c := range []struct{ name, text, want string }{
		{"nothing", "", "line 1: no run in this log"},
		{"no header", lines[2], "line 1: a log begins with a line of run"},
		{"other version", `{"run":{"version":2}}` + "\n", "line 1: version 2"},
		{"not JSON", put(2, "oops"), "line 3: not JSON: invalid character"},
		{"empty line", put(2, ""), "line 3: "},
		{"zeros", put(2, "\x00\x00"), "line 3: "},
		{"of no kind", put(2, "{}"), "line 3: want an object with one of"},
		{"of two kinds", put(2, `{"probe":{},"sample":{}}`), "line 3: want an object with one of"},
		{"second header", join(func(l []string) []string { return append(l[:2], append([]string{l[0]}, l[2:]...)...) }), "line 3: a second run"},
		{"sample twice", join(func(l []string) []string { return append(l[:3], append([]string{l[2]}, l[3:]...)...) }), "line 4: sample 0 a second time"},
		{"after the end", strings.Join(lines, "") + lines[3], "line 8: more after the end"},
		{"chunks", put(2, `{"sample":{"Chunks":[1,2,3]}}`), "line 3: sample 0: 3 numbers"},
		{"kind", put(2, `{"sample":{"Chunks":[1,2,3,256]}}`), "line 3: sample 0: chunk 0"},
		{"index", put(2, `{"sample":{"Index":-1}}`), "line 3: sample -1"},
		{"profile", `{"run":{"version":1,"setup":{"Profile":"tgi"}}}` + "\n", `profile "tgi"`},
	} {
		rec, complete, err := ReadLog(strings.NewReader(c.text))
		if skipped[c.name] {
			if err != nil || !complete || rec.Skipped != 1 || len(rec.Samples) != 1 {
				t.Errorf("%s: %v, complete %v, %+v; want a line skipped", c.name, err, complete, rec)
				continue
			}
			err = rec.FirstSkipped
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, %v; want an error with %q", c.name, rec, err, c.want)
		}
	}
	// A broken last line is what a loss of power leaves.
	if rec, complete, err := ReadLog(strings.NewReader(lines[0] + lines[2] + "\x00\x00\n")); err != nil || complete || len(rec.Samples) != 1 {
		t.Errorf("broken end: %v, complete %v, %v", err, complete, rec)
	}
}

func FuzzReadLog(f *testing.F) {
	f.Add(logOf(f, recording()))
	f.Add([]byte(`{"run":{"version":1,"setup":{"Arrivals":{"Rate":"inf"}}}}` + "\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		rec, _, err := ReadLog(bytes.NewReader(text))
		if err != nil {
			return
		}
		again, complete, err := ReadLog(bytes.NewReader(logOf(t, rec)))
		if err != nil || complete == rec.Interrupted || !bytes.Equal(logOf(t, again), logOf(t, rec)) {
			t.Fatalf("%v: written and read again:\n%+v\n%+v", err, rec, again)
		}
	})
}

// What Run gives and what its log holds are the same.
func TestRunLogs(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	setup := Setup{Arrivals: Arrivals{Rate: math.Inf(1), Burstiness: math.Inf(1), Ramp: Ramp{"linear", 100, 110}}}
	want, err := Run(context.Background(), &fakeTarget{takes: 5 * time.Millisecond}, queries(50), Options{Setup: setup, LogTo: file, ProbeRate: 50})
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	got, complete, err := ReadLog(bytes.NewReader(text))
	if err != nil || !complete {
		t.Fatalf("%v, complete %v", err, complete)
	}
	// Times of day carry a zone that is written as an offset.
	for _, r := range []*Recording{got, want} {
		r.Began = r.Began.UTC()
		for i := range r.RateSteps {
			r.RateSteps[i].At = r.RateSteps[i].At.UTC()
		}
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("the log has\n%+v\nthe run has\n%+v", got, want)
	}
}

// A full disk ends the log, not the run.
type fullDisk struct{}

var errFull = errors.New("disk full")

func (fullDisk) Write([]byte) (int, error) { return 0, errFull }
func (fullDisk) Sync() error               { return errFull }

func TestRunSurvivesTheLog(t *testing.T) {
	rec, err := Run(context.Background(), &fakeTarget{}, queries(5), Options{Setup: allAtOnce(0), LogTo: fullDisk{}})
	if !errors.Is(err, errFull) || rec == nil || len(rec.Samples) != 5 {
		t.Errorf("got %v, %v", rec, err)
	}
}

// A pipe, whose bytes lie on no disk, gets the log as a file does.
func TestLogToPipe(t *testing.T) {
	from, to, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	read := make(chan *Recording, 1)
	go func() {
		got, complete, err := ReadLog(bufio.NewReader(from))
		if err != nil || !complete {
			t.Errorf("%v, complete %v", err, complete)
		}
		read <- got
	}()
	if _, err := Run(context.Background(), &fakeTarget{}, queries(5), Options{Setup: allAtOnce(0), LogTo: to}); err != nil {
		t.Error(err)
	}
	to.Close()
	if got := <-read; got == nil || len(got.Samples) != 5 {
		t.Errorf("read: %+v", got)
	}
}

const crashEnv = "OSSIAN_BENCH_CRASH"

// TestMain lets a process that a test started be what the test needs: a run that is
// killed, or a server.
func TestMain(m *testing.M) {
	if path := os.Getenv(crashEnv); path != "" {
		crashing(path)
		return
	}
	if script := os.Getenv(serverEnv); script != "" {
		serving(script)
		return
	}
	soak.Abreast(8) // they wait
	before := runtime.NumGoroutine()
	code := m.Run()
	if flag.Lookup("test.fuzz").Value.String() != "" {
		before++ // the fuzzer keeps one of its own
	}
	for end := time.Now().Add(10 * time.Second); runtime.NumGoroutine() > before && time.Now().Before(end); {
		time.Sleep(10 * time.Millisecond)
	}
	if n := runtime.NumGoroutine(); n > before && code == 0 {
		fmt.Fprintf(os.Stderr, "%d goroutines after the tests, %d before\n", n, before)
		code = 1
	}
	os.Exit(code)
}

// A reporter says on standard output which queries are done, and when.
type reporter struct{}

func (r *reporter) Do(ctx context.Context, q *dataset.Query, s *Sample, began time.Time, live *Live) {
	time.Sleep(time.Millisecond)
	s.Sent, s.Status = time.Since(began), 200
	for range 20 {
		s.Chunks = append(s.Chunks, Chunk{At: time.Since(began), Kind: Choices})
	}
	s.Done = time.Since(began)
	fmt.Printf("%d %d\n", s.Index, time.Now().UnixNano())
}

// crashing runs a benchmark until it is killed, or for a minute.
func crashing(path string) {
	file, err := os.Create(path)
	if err != nil {
		panic(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	_, err = Run(ctx, &reporter{}, queries(100_000), Options{Setup: allAtOnce(2), LogTo: file})
	fmt.Println("ended", err)
}

// BEN-4: whenever a run is killed, its log can be read and misses at most the last second.
// A busy machine may let the process wait: there the bound is 5 s, of 5.5.
func TestCrash(t *testing.T) {
	soak.Beside(t)
	r := rand.New(rand.NewPCG(5, 6))
	allowed := time.Second
	var mu sync.Mutex // guards lost
	lost := time.Duration(0)
	n := soak.Cases(t, 2, 100)
	t.Run("kills", func(t *testing.T) { // whose subtests have ended when it has
		for i := range n {
			after := time.Duration(r.Int64N(int64(1500 * time.Millisecond)))
			if os.Getenv(soak.Env) == "" {
				after, allowed = 5500*time.Millisecond, 5*time.Second
			}
			t.Run(strconv.Itoa(i), func(t *testing.T) {
				soak.Beside(t)
				once := crashOnce(t, filepath.Join(t.TempDir(), "log"), after)
				mu.Lock()
				lost = max(lost, once)
				mu.Unlock()
			})
		}
	})
	t.Logf("BEN-4: %d kills, the oldest lost sample was %v old when its process was killed", n, lost)
	if lost > allowed {
		t.Errorf("lost samples of the last %v, want at most %v", lost, allowed)
	}
}

// crashOnce kills a run some time after its first sample and returns the age of the
// oldest sample that its log lacks.
func crashOnce(t *testing.T, path string, after time.Duration) (lost time.Duration) {
	t.Helper()
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), crashEnv+"="+path)
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	var killed atomic.Int64
	var timer *time.Timer
	done := map[int]time.Time{}
	for lines := bufio.NewScanner(out); lines.Scan(); {
		var index int
		var at int64
		if n, _ := fmt.Sscan(lines.Text(), &index, &at); n != 2 {
			continue
		}
		if timer == nil {
			timer = time.AfterFunc(after, func() { killed.Store(time.Now().UnixNano()); c.Process.Kill() })
		}
		done[index] = time.Unix(0, at)
	}
	if err := c.Wait(); err == nil || timer == nil {
		t.Fatalf("the run was not killed: %v, %d samples", err, len(done))
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	rec, _, err := ReadLog(file)
	if err != nil {
		if !strings.Contains(err.Error(), "no run in this log") {
			t.Fatalf("killed after %v: %v", after, err)
		}
		rec = new(Recording) // not even the header: all samples are lost
	}
	for _, s := range rec.Samples {
		if len(s.Chunks) != 20 {
			t.Errorf("sample %d has %d chunks", s.Index, len(s.Chunks))
		}
		delete(done, s.Index)
	}
	for _, at := range done {
		lost = max(lost, time.Unix(0, killed.Load()).Sub(at))
	}
	return lost
}
