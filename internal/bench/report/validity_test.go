package report

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"ossian/internal/bench"
	"ossian/internal/bench/dataset"
	"ossian/internal/soak"
)

func TestGoodRunsHaveNoFinding(t *testing.T) {
	for _, p := range profiles {
		for _, backend := range []string{"openai", "openai-chat"} {
			for name, r := range map[string]*bench.Recording{"open": good(p), "closed": closed(p)} {
				r.Setup.Backend = backend
				s := Summarize(r, words)
				if len(s.Ossian.Findings) != 0 || !s.Valid() || s.Ossian.Client.Verdict != "ok" {
					t.Errorf("%v, %s, %s: %+v", p, backend, name, s.Ossian.Findings)
				}
			}
		}
	}
}

// each changes every sample of a run.
func each(r *bench.Recording, change func(i int, s *bench.Sample)) {
	r.Duration = 0
	for i := range r.Samples {
		change(i, &r.Samples[i])
		r.Duration = max(r.Duration, r.Samples[i].Done)
	}
}

// faults plants each fault in an otherwise good run: the twelve of bench.md 6 and
// reliability.md BEN-1 to BEN-3, the early chunk of bench.md 1.5, and logs that lack something.
var faults = []struct {
	id      string
	warning bool
	plant   func(r *bench.Recording)
}{
	{FaultFailures, false, func(r *bench.Recording) {
		each(r, func(i int, s *bench.Sample) {
			if i%10 == 3 {
				fail(s, 0, 503, "Service Unavailable")
			}
		})
	}},
	{FaultBursts, false, func(r *bench.Recording) { // all but the first event together at the end
		each(r, func(_ int, s *bench.Sample) {
			last := s.Chunks[20].At
			for k := 1; k <= 20; k++ {
				s.Chunks[k].At = last + time.Duration(k-20)*500
			}
		})
	}},
	{FaultPeakLow, false, func(r *bench.Recording) { // half of the tokens in usage never came
		each(r, func(_ int, s *bench.Sample) {
			for k := range s.Chunks {
				s.Chunks[k].Tokens = int16(k % 2)
			}
		})
	}},
	{FaultPeakHigh, false, func(r *bench.Recording) {
		each(r, func(_ int, s *bench.Sample) { s.Asked, s.Counts.Completion = 5000, 5000 })
	}},
	{FaultStreamTime, false, func(r *bench.Recording) { // the usage event comes late and ends E2EL
		r.Setup.Profile, r.Setup.Backend = bench.VLLM011, "openai-chat"
		each(r, func(_ int, s *bench.Sample) {
			s.Chunks[21].At += 30 * ms
			s.Chunks[22].At += 30 * ms
			s.Done += 30 * ms
		})
	}},
	{FaultLength, false, func(r *bench.Recording) { r.Samples[17].Counts.Completion = 20 }},
	{FaultRate, true, func(r *bench.Recording) { // no free slot: late, but the client is not to blame
		r.Setup.Arrivals.Concurrency = 2
		each(r, func(_ int, s *bench.Sample) {
			late := s.Scheduled / 3
			released := s.Released
			scheduled := s.Scheduled
			shift(s, late)
			s.Scheduled, s.Released = scheduled, released
		})
	}},
	{FaultLag, true, func(r *bench.Recording) {
		each(r, func(_ int, s *bench.Sample) {
			for k := range s.Chunks {
				s.Chunks[k].Lag = 3_000_000
			}
		})
	}},
	{FaultLate, false, func(r *bench.Recording) {
		each(r, func(_ int, s *bench.Sample) { due := s.Scheduled; shift(s, 9*ms); s.Scheduled = due })
	}},
	{FaultCache, true, func(r *bench.Recording) {
		each(r, func(i int, s *bench.Sample) {
			if i%20 == 0 {
				s.Counts.Cached = 64
			}
		})
	}},
	{FaultRepeats, true, func(r *bench.Recording) { r.Setup.Repeats = 1 }},
	{FaultEmpty, true, func(r *bench.Recording) {
		r.Setup.IgnoreEOS = false // else it is an output of another length
		s := &r.Samples[5]
		s.Chunks = []bench.Chunk{{At: s.Chunks[0].At, Lag: -1, Tokens: -1, Kind: bench.Choices}, {At: s.Done, Lag: -1, Tokens: -1, Kind: bench.Done}}
		s.Text, s.Finish, s.Counts.Completion = "", "stop", 1
	}},
	{FaultEarly, true, func(r *bench.Recording) { // a role event when the request is accepted
		each(r, func(_ int, s *bench.Sample) {
			early := bench.Chunk{At: s.Sent + ms, Lag: 20000, Tokens: -1, Kind: bench.Choices}
			s.Chunks = append([]bench.Chunk{early}, s.Chunks...)
		})
	}},
	{FaultCut, false, func(r *bench.Recording) { r.Interrupted = true }},
	{FaultBroken, false, func(r *bench.Recording) { r.Skipped, r.FirstSkipped = 2, errors.New("line 3: x") }},
}

// constants are the values of the names that begin with Fault, in their order.
func constants(t *testing.T) []string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "validity.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	ast.Inspect(file, func(n ast.Node) bool {
		if s, ok := n.(*ast.ValueSpec); ok && strings.HasPrefix(s.Names[0].Name, "Fault") {
			id, err := strconv.Unquote(s.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, id)
		}
		return true
	})
	return out
}

func TestFaults(t *testing.T) {
	var planted []string
	for _, f := range faults {
		planted = append(planted, f.id)
	}
	if want := constants(t); !slices.Equal(planted, want) || len(want) < 12 {
		t.Fatalf("planted are %q, validity.go finds %q", planted, want)
	}
	for _, f := range faults {
		t.Run(f.id, func(t *testing.T) {
			r := good(bench.VLLM)
			f.plant(r)
			s := Summarize(r, words)
			found := s.Ossian.Findings
			if len(found) != 1 || found[0].ID != f.id || found[0].Warning != f.warning {
				t.Fatalf("found %+v", found)
			}
			if s.Valid() != f.warning {
				t.Errorf("valid is %v", s.Valid())
			}
			bound := f.id == FaultLag || f.id == FaultLate
			if (s.Ossian.Client.Verdict == "client-bound") != bound || (bound && len(s.Ossian.Client.Reasons) != 1) {
				t.Errorf("verdict on the client: %q, %q", s.Ossian.Client.Verdict, s.Ossian.Client.Reasons)
			}
		})
	}
}

// TestKilledRun: a log that lost its end gets no better verdict than the whole one: the lag
// is that of the events, and what only the end says is not known.
func TestKilledRun(t *testing.T) {
	r := good(bench.VLLM)
	each(r, func(_ int, s *bench.Sample) {
		for k := range s.Chunks {
			s.Chunks[k].Lag = 1_000_000_000
		}
	})
	var b bytes.Buffer
	if err := bench.WriteLog(&b, r); err != nil {
		t.Fatal(err)
	}
	text := bytes.TrimSuffix(b.Bytes(), []byte("\n"))
	var lags []Dist
	for _, c := range []struct {
		text  []byte
		found []string
		rows  string
	}{
		{b.Bytes(), []string{FaultLag}, `CPU \(% of one core\): +\d+\.\d\d `},
		{text[:bytes.LastIndexByte(text, '\n')+1], []string{FaultCut, FaultLag}, `CPU \(% of one core\): +not known`},
	} {
		rec, _, err := bench.ReadLog(bytes.NewReader(c.text))
		if err != nil {
			t.Fatal(err)
		}
		s := Summarize(rec, words)
		var found []string
		for _, f := range s.Ossian.Findings {
			found = append(found, f.ID)
		}
		if !slices.Equal(found, c.found) || s.Valid() || s.Ossian.Client.Verdict != "client-bound" {
			t.Errorf("found %q, want %q; valid %v, %s", found, c.found, s.Valid(), s.Ossian.Client.Verdict)
		}
		if text := s.OssianConsole(); !regexp.MustCompile(c.rows).MatchString(text) {
			t.Errorf("no row %s in\n%s", c.rows, text)
		}
		lags = append(lags, s.Ossian.Client.Lag)
	}
	if lags[0].N == 0 || !reflect.DeepEqual(lags[0], lags[1]) {
		t.Errorf("lag %+v, without the end %+v", lags[0], lags[1])
	}
}

// TestClientTooSlow: without a bound on concurrency nobody but the client can miss the
// rate, and events of a stream that it reads together have one time: such runs do not count.
func TestClientTooSlow(t *testing.T) {
	for _, c := range []struct {
		want  string
		plant func(r *bench.Recording)
	}{
		{FaultRate + " " + FaultLate, func(r *bench.Recording) {
			each(r, func(_ int, s *bench.Sample) { due := s.Scheduled; shift(s, due/3); s.Scheduled = due })
		}},
		{FaultLag, func(r *bench.Recording) {
			each(r, func(_ int, s *bench.Sample) {
				for k := range s.Chunks {
					s.Chunks[k].Lag = 1_000_000_000
				}
			})
		}},
	} {
		r := good(bench.VLLM)
		c.plant(r)
		s := Summarize(r, words)
		var found []string
		for _, f := range s.Ossian.Findings {
			if !f.Warning {
				found = append(found, f.ID)
			}
		}
		if strings.Join(found, " ") != c.want || s.Valid() || s.Ossian.Client.Verdict != "client-bound" {
			t.Errorf("found %q, want %s; valid %v, %s", found, c.want, s.Valid(), s.Ossian.Client.Verdict)
		}
	}
}

// TestBurstsOfGuesses: a server that guesses sends several tokens of a step together. That is no
// fault where as many guesses held as half of the gaps, by its counters.
func TestBurstsOfGuesses(t *testing.T) {
	for _, c := range []struct {
		held  float64 // of the gaps
		valid bool
	}{{0, false}, {0.4, false}, {0.8, true}} {
		r := good(bench.VLLM)
		faults[1].plant(r)
		accepted := c.held * float64(20*len(r.Samples))
		r.Before = map[string]float64{specPrefix + "num_drafts_total": 0}
		r.After = map[string]float64{specPrefix + "num_drafts_total": float64(len(r.Samples)), specPrefix + "num_draft_tokens_total": 2 * accepted, specPrefix + "num_accepted_tokens_total": accepted}
		x := Summarize(r, words).Ossian
		if len(x.Findings) != 1 || x.Findings[0].ID != FaultBursts || x.Findings[0].Warning != c.valid || x.Valid != c.valid {
			t.Errorf("%.0f %% of the gaps are guesses that held: %+v, valid %v", 100*c.held, x.Findings, x.Valid)
		}
		if c.valid && !slices.Equal(x.Findings[0].Touches, []string{"itl"}) {
			t.Errorf("touches %v", x.Findings[0].Touches)
		}
	}
}

// TestOneToken: answers of one token have no pace that the client could be slower than; what
// is left to be late for is the next answer.
func TestOneToken(t *testing.T) {
	for _, c := range []struct {
		lag   int32 // ns, with an end of the stream 50 us behind the token
		found string
	}{{200_000, ""}, {3_000_000, ""}, {6_000_000, FaultLag}} {
		r := good(bench.VLLM)
		r.Setup.Args[len(r.Setup.Args)-1] = "--random-output-len=1"
		each(r, func(_ int, s *bench.Sample) {
			end := s.Chunks[len(s.Chunks)-2:]
			s.Chunks = append(s.Chunks[:1:1], end...)
			for k := range s.Chunks {
				s.Chunks[k].At, s.Chunks[k].Lag = s.Chunks[0].At+time.Duration(k)*50*time.Microsecond, c.lag
			}
			s.Chunks[1].Kind = bench.Choices // as servers do that end a stream without text
			s.Done, s.Asked, s.Counts.Completion = s.Chunks[2].At, 1, 1
		})
		x := Summarize(r, words).Ossian
		var found []string
		for _, f := range x.Findings {
			found = append(found, f.ID)
		}
		if !x.Valid || strings.Join(found, " ") != c.found || (x.Client.Verdict == "ok") != (c.found == "") {
			t.Errorf("lag of %d ns: %+v, %s", c.lag, x.Findings, x.Client.Verdict)
		}
	}
}

// TestSharedProcess: of a run with its server in the same process only those faults are
// warnings that come from the time which the server takes, or from its speed.
func TestSharedProcess(t *testing.T) {
	mild := []string{FaultBursts, FaultPeakHigh, FaultStreamTime, FaultLag, FaultLate}
	for _, f := range faults {
		r := good(bench.VLLM)
		f.plant(r)
		r.Client.Shared = true
		found := Summarize(r, words).Ossian.Findings
		if want := f.warning || slices.Contains(mild, f.id); len(found) != 1 || found[0].ID != f.id || found[0].Warning != want {
			t.Errorf("%s: found %+v", f.id, found)
		}
	}
}

// TestFindingsAreDocumented: the table of docs/reference/benchmark.md has a row for every finding,
// in their order, and says which of them are warnings.
func TestFindingsAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../../docs/reference/benchmark.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile("(?m)^\\| `([a-z-]+)` \\| (invalid|warning)").FindAllStringSubmatch(string(text), -1)
	if len(rows) != len(faults) {
		t.Fatalf("%d rows, want %d", len(rows), len(faults))
	}
	for i, f := range faults {
		if rows[i][1] != f.id || (rows[i][2] == "warning") != f.warning {
			t.Errorf("row %d is %q, want %s, warning %v", i+1, rows[i][0], f.id, f.warning)
		}
	}
}

// TestRateOfConversations: where no rate was offered, none can be missed: turns that wait
// for a slot were due when the turn before was answered.
func TestRateOfConversations(t *testing.T) {
	r := closed(bench.VLLMRust)
	r.Setup.MultiTurn = &bench.MultiTurn{Turns: 2}
	each(r, func(i int, s *bench.Sample) {
		s.Session, s.Turn = strconv.Itoa(i%150), i/150
		s.Scheduled = s.Sent * time.Duration(s.Turn) / 2
		s.Released = s.Scheduled
	})
	if s := Summarize(r, words); !s.Valid() || strings.Contains(s.OssianConsole(), "since due") {
		t.Errorf("%+v", s.Ossian.Findings)
	}
}

// TestNothingInstead: where the end of the text is to be ignored, answers without a token
// are too short, even under a profile that takes them for what was asked for. One token
// may have no text.
func TestNothingInstead(t *testing.T) {
	for _, c := range []struct {
		asked, usage int
		valid        bool
	}{{21, 0, false}, {21, -1, false}, {21, 1, false}, {1, 1, true}} {
		r := good(bench.LMDeploy)
		each(r, func(_ int, s *bench.Sample) {
			s.Chunks, s.Text, s.Asked, s.Counts.Completion = s.Chunks[len(s.Chunks)-1:], "", c.asked, c.usage
		})
		s := Summarize(r, words)
		if o := s.Ossian.Outcomes; s.Completed != 300 || o.Empty != 300 || s.Valid() != c.valid {
			t.Errorf("%+v: completed %d, %+v, valid %v, %+v", c, s.Completed, o, s.Valid(), s.Ossian.Findings)
		}
	}
}

// TestTokensWithoutText: tokens that the server counts in events without text, such as
// parts of a character, came as well.
func TestTokensWithoutText(t *testing.T) {
	r := good(bench.VLLM)
	each(r, func(_ int, s *bench.Sample) {
		for k := range s.Chunks[:21] {
			s.Chunks[k].Tokens = 1
			if k%3 > 0 {
				s.Chunks[k].Kind &^= bench.Text
			}
		}
	})
	x := Summarize(r, words).Ossian
	if len(x.Findings) != 0 || !x.Stream.Counted || x.Stream.Tokens != 6300 || x.Stream.Chunks != 6300 || x.Stream.TokensPerChunk != 1 {
		t.Errorf("%+v, %+v", x.Findings, x.Stream)
	}
}

// TestSecondsWithoutSuccess: the peak is of a second, also where the profile calls every
// request a failure.
func TestSecondsWithoutSuccess(t *testing.T) {
	r := good(bench.VLLM)
	r.Setup.Backend = "openai-chat"
	r.Samples = []bench.Sample{r.Samples[0], r.Samples[100], r.Samples[200]}
	each(r, func(_ int, s *bench.Sample) {
		for k := range s.Chunks[:21] {
			s.Chunks[k].Kind = bench.Choices
		}
	})
	if s := Summarize(r, words); s.Completed != 0 || s.Ossian.Outcomes.Output != 3 || s.Ossian.Stream.Peak != 21 {
		t.Errorf("completed %d, %+v, %+v", s.Completed, s.Ossian.Outcomes, s.Ossian.Stream)
	}
}

// TestBEN2Contamination: every run of random prompts in which at least 1 % of the prompt
// tokens were cached is found, by usage or by the server's counters.
func TestBEN2Contamination(t *testing.T) {
	n := soak.Cases(t, 20, 500)
	for seed := range n {
		r := good(profiles[seed%len(profiles)])
		if seed%2 == 0 {
			r.After[`vllm:prefix_cache_hits_total{model_name="m"}`] += 300 + float64(seed)
		} else {
			for i := range 3 + seed%7 {
				r.Samples[(seed*31+i*7)%300].Counts.Cached = 101
			}
		}
		if s := Summarize(r, nil); len(s.Ossian.Findings) != 1 || s.Ossian.Findings[0].ID != FaultCache {
			t.Fatalf("seed %d: %+v, cache %+v", seed, s.Ossian.Findings, s.Ossian.Cache)
		}
	}
	t.Logf("BEN-2: %d runs with cached prompts, all found", n)
}

// TestBEN3Outcomes: failures are counted exactly, by kind, and enter no latency.
func TestBEN3Outcomes(t *testing.T) {
	r := good(bench.VLLM)
	clean := Summarize(r, words)
	each(r, func(i int, s *bench.Sample) {
		switch {
		case i%10 == 0 && i < 150:
			fail(s, 0, 500, "boom")
		case i%10 == 0 && i < 290:
			fail(s, 7, 200, "connection reset")
		case i%10 == 0:
			fail(s, 0, 0, "dial tcp: refused")
		}
	})
	s := Summarize(r, words)
	o := s.Ossian.Outcomes
	if s.Completed != 270 || s.Failed != 30 || o.Output != 270 || o.Refused != 16 || o.Aborted != 14 || o.Empty != 0 {
		t.Errorf("completed %d, failed %d, outcomes %+v", s.Completed, s.Failed, o)
	}
	if want := "map[HTTP 500:15 connection reset:14 dial tcp: refused:1]"; fmt.Sprint(o.Causes) != want {
		t.Errorf("causes %v, want %s", o.Causes, want)
	}
	for name, d := range map[string]Dist{"ttft": s.TTFT, "e2el": s.E2EL, "first token": s.Ossian.FirstToken, "queue": s.Ossian.QueueWait} {
		if d.N != 270 {
			t.Errorf("%s has %d values, want 270", name, d.N)
		}
	}
	if s.TTFT.Max > clean.TTFT.Max {
		t.Errorf("failures raised the largest TTFT from %v to %v", clean.TTFT.Max, s.TTFT.Max)
	}
}

func TestRepeats(t *testing.T) {
	w := bench.Workload{{Prompt: "a"}, {Prompt: "b"}, {Prompt: "a"}, {IDs: []int32{1, 2}}, {IDs: []int32{1, 2}}, {IDs: []int32{12}},
		{Messages: []byte(`[{"role":"user"}]`)}, {Messages: []byte(`[{"role":"user"}]`)}, {Prompt: "a"}}
	if got := Repeats(w); got != 4 {
		t.Errorf("%d repeats, want 4", got)
	}
	if got := Repeats(bench.Workload{dataset.Query{Prompt: "x"}}); got != 0 {
		t.Errorf("%d repeats of one query", got)
	}
}
