package report

import (
	"bytes"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"ossian/internal/lab/ledger"
)

var update = flag.Bool("update", false, "write the golden report anew")

// A maker writes ledgers as the lab does, with figures that are consistent among themselves.
type maker struct {
	t     *testing.T
	lines []ledger.Line
	at    time.Time
	rand  *rand.Rand
	count int
}

func newMaker(t *testing.T) *maker {
	return &maker{t: t, at: time.Date(2026, 3, 4, 10, 0, 0, 0, time.UTC), rand: rand.New(rand.NewPCG(1, 2))}
}

func (m *maker) add(line ledger.Line) {
	m.at = m.at.Add(20 * time.Second)
	line.N, line.At = len(m.lines)+1, m.at
	m.lines = append(m.lines, line)
}

// metrics are those of a run of 100 requests with 128 tokens in and 32 out at so many tokens per second.
func metrics(rate float64) map[string]float64 {
	const completed, input, output = 100, 12800, 3200
	duration := math.Round(100*(input+output)/rate) / 100
	tpot := 1000 * duration / 40
	return map[string]float64{
		"completed": completed, "failed": 0, "duration": duration, "total_input_tokens": input, "total_output_tokens": output,
		"request_throughput": completed / duration, "output_throughput": output / duration, "total_token_throughput": (input + output) / duration,
		"mean_ttft_ms": 300, "median_ttft_ms": 290, "p99_ttft_ms": 800, "mean_tpot_ms": tpot, "median_tpot_ms": tpot, "p99_tpot_ms": 1.5 * tpot,
		"mean_itl_ms": tpot, "median_itl_ms": tpot, "p99_itl_ms": 1.5 * tpot,
	}
}

// trial adds one that went well, and returns its id.
func (m *maker) trial(role, workload string, block int, flags map[string]string, rate float64) string {
	m.count++
	id := fmt.Sprintf("%s-%04d", role, m.count)
	trial := ledger.Trial{Setting: ledger.Setting{Engine: "ossian", Flags: flags}, Model: "gpt-oss-20b", Workload: workload, Role: role, Block: block, State: ledger.StateBegun}
	m.add(ledger.Line{Kind: ledger.KindTrial, ID: id, Key: id, Trial: &trial})
	ended := trial
	ended.State, ended.Metrics, ended.Result = ledger.StateOK, metrics(rate*(1+0.005*m.rand.NormFloat64())), "runs/"+id+".json"
	ended.Command = []string{"ossian", "bench", "serve", "--base-url", "http://127.0.0.1:4711"}
	ended.Predicted = map[string]ledger.Interval{"total_token_throughput": {Value: rate * 1.02, Low: rate * 0.9, High: rate * 1.1}}
	ended.Devices, ended.Seconds = 1, ended.Metrics["duration"]
	m.add(ledger.Line{Kind: ledger.KindTrial, ID: id, Key: id, Trial: &ended})
	return id
}

func (m *maker) decide(decision ledger.Decision) {
	decision.Model, decision.Metric = "gpt-oss-20b", "total_token_throughput"
	if decision.Workload == "" {
		decision.Workload = "chat"
	}
	m.add(ledger.Line{Kind: ledger.KindDecision, ID: fmt.Sprint("decision-", len(m.lines)), Decision: &decision})
}

var (
	seqs  = map[string]string{"max-num-seqs": "64"}
	cache = map[string]string{"kv-cache-dtype": "fp8"}
	big   = map[string]string{"max-num-seqs": "4096"}
	async = map[string]string{"async": "true"}
)

func setting(flags map[string]string) *ledger.Setting {
	return &ledger.Setting{Engine: "ossian", Flags: flags}
}

// campaign is one with an option of each fate.
func campaign(t *testing.T) *maker {
	m := newMaker(t)
	m.add(ledger.Line{Kind: ledger.KindCampaign, Campaign: &ledger.Campaign{
		Name: "test", Models: []string{"gpt-oss-20b"}, Engines: []string{"ossian"}, Version: "1.0", Plan: "0", Seed: 42,
		Objective: ledger.Objective{Metric: "total_token_throughput", Maximize: true, Workload: "chat", SLA: map[string]float64{"mean_ttft_ms": 5000}},
		Options: []ledger.Option{{Engine: "ossian", Name: "sequences", Flags: map[string][]string{"max-num-seqs": {"64", "4096"}}},
			{Engine: "ossian", Name: "kv-fp8", Flags: map[string][]string{"kv-cache-dtype": {"fp8"}}, Lossy: true},
			{Engine: "ossian", Name: "async", Flags: map[string][]string{"async": {"true"}}}},
		Workloads: []ledger.Workload{{Name: "chat", Dataset: "random", InputLen: 128, OutputLen: 32, NumPrompts: 100, Chat: true, Hash: "0123456789abcdef"},
			{Name: "long|er", Dataset: "random", InputLen: 4000, OutputLen: 200, NumPrompts: 100, Chat: true, Hash: "fedcba9876543210"}},
		Compared: []ledger.Compared{{Source: "published.txt#2", Label: "gpt-oss-20b, vllm", Metrics: metrics(900)}},
		Rules:    map[string]string{"intervals": "t mixture on log ratios within blocks, family-wise 5 %"},
	}})
	m.add(ledger.Line{Kind: ledger.KindMachine, Machine: &ledger.Machine{ID: "m", CPU: "A   CPU <b>", Processors: 2, MemoryBytes: 8e9, OS: "linux/amd64", Power: "not measured", PricePerHour: 2.5}})
	for i, flags := range []map[string]string{nil, seqs, cache, async} {
		argv := []string{"ossian", "serve", "gpt-oss-20b", "--port", "4711"}
		for name, value := range flags {
			argv = append(argv, "--"+name, value)
		}
		m.add(ledger.Line{Kind: ledger.KindStart, ID: fmt.Sprint("start-", i+1), Start: &ledger.Start{Setting: *setting(flags), Model: "gpt-oss-20b", Argv: argv, Env: []string{"A=b c", "HF_TOKEN"}, State: "ok", Version: "ossian 1.0", Seconds: 1, Devices: 1}})
	}
	status := 3
	m.add(ledger.Line{Kind: ledger.KindStart, ID: "start-5", Start: &ledger.Start{Setting: *setting(big), Model: "gpt-oss-20b", State: "failed", Reason: "out of memory: <needs> 9 GB", Exit: &status, Tail: []string{"```", "needs 9 GB"}}})
	m.decide(ledger.Decision{Stage: ledger.StageSmoke, Subject: "sequences 4096", Setting: setting(big), Verdict: ledger.Rejected, Reason: "out of memory: <needs> 9 GB", Rule: "smoke"})
	m.add(ledger.Line{Kind: ledger.KindEquality, ID: "equality-1", Equality: &ledger.Equality{Setting: *setting(cache), Model: "gpt-oss-20b", Against: *setting(nil), Verdict: ledger.Different, Prompts: 32, Same: 30, Differ: 2, By: "token ids", Lossy: true, Text: "prompt 3, token 9"}})
	var ids []string
	for block := range 4 {
		ids = append(ids, m.trial(ledger.RoleRace, "chat", block+1, nil, 1000), m.trial(ledger.RoleRace, "chat", block+1, seqs, 1120), m.trial(ledger.RoleRace, "chat", block+1, cache, 1003), m.trial(ledger.RoleRace, "chat", block+1, async, 990))
	}
	m.decide(ledger.Decision{Stage: ledger.StageRace, Subject: "sequences 64", Setting: setting(seqs), Against: setting(nil), Verdict: ledger.Kept, Effect: &ledger.Interval{Value: 0.12, Low: 0.09, High: 0.15}, Blocks: 4, Trials: ids, Rule: "race", Reason: "the interval excludes 0"})
	m.decide(ledger.Decision{Stage: ledger.StageRace, Subject: "kv-fp8", Setting: setting(cache), Against: setting(nil), Verdict: ledger.NotDecided, Effect: &ledger.Interval{Value: 0.003, Low: -0.02, High: 0.03}, Blocks: 4, Trials: ids, Rule: "race", Reason: "the budget was spent"})
	m.decide(ledger.Decision{Stage: ledger.StageRace, Subject: "async", Setting: setting(async), Against: setting(nil), Verdict: ledger.Rejected, Effect: &ledger.Interval{Value: -0.01, Low: -0.03, High: 0.01}, Blocks: 4, Trials: ids, Rule: "race", Reason: "it cannot gain 1 %"})
	m.decide(ledger.Decision{Stage: ledger.StageWinner, Subject: "ossian", Setting: setting(seqs), Against: setting(nil), Verdict: ledger.Kept, Effect: &ledger.Interval{Value: 0.12, Low: 0.09, High: 0.15}, Blocks: 4, Trials: ids, Rule: "race", Reason: "the largest gain of those that are kept"})
	for block := range 3 {
		m.trial(ledger.RoleGeneralise, "chat", 401+block, nil, 1000)
		m.trial(ledger.RoleGeneralise, "chat", 401+block, seqs, 1118)
		m.trial(ledger.RoleGeneralise, "long|er", 421+block, nil, 2000)
		m.trial(ledger.RoleGeneralise, "long|er", 421+block, seqs, 1900)
	}
	m.decide(ledger.Decision{Stage: ledger.StageGeneralise, Subject: "chat", Workload: "chat", Setting: setting(seqs), Against: setting(nil), Verdict: ledger.Kept, Effect: &ledger.Interval{Value: 0.118, Low: 0.08, High: 0.16}, Blocks: 3, Rule: "race"})
	m.decide(ledger.Decision{Stage: ledger.StageGeneralise, Subject: "long|er", Workload: "long|er", Setting: setting(seqs), Against: setting(nil), Verdict: ledger.Rejected, Effect: &ledger.Interval{Value: -0.05, Low: -0.08, High: -0.02}, Blocks: 3, Rule: "race"})
	m.add(ledger.Line{Kind: ledger.KindNote, Note: &ledger.Note{Text: "resumed after a cut"}})
	return m
}

func (m *maker) finish() *maker {
	m.add(ledger.Line{Kind: ledger.KindEnd, End: &ledger.End{State: "done", Winner: map[string]ledger.Setting{"gpt-oss-20b": *setting(seqs)}}})
	return m
}

func (m *maker) report() *Report {
	m.t.Helper()
	made, err := Make(m.lines, nil)
	if err != nil {
		m.t.Fatal(err)
	}
	return made
}

// TestGolden compares a whole report with the one that was looked at. `go test -run Golden -update` writes
// it anew.
func TestGolden(t *testing.T) {
	made := campaign(t).finish().report()
	golden := filepath.Join("testdata", "report.md")
	if *update {
		if err := os.WriteFile(golden, made.Markdown, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(made.Markdown, want) {
		t.Errorf("the report differs from %s; look at it, then go test -run Golden -update\n%s", golden, made.Markdown)
	}
	for _, name := range []string{"conclusion.svg", "conclusion.png", "options.svg", "frontier.svg", "drift.png"} {
		if len(made.Figures[name]) < 500 {
			t.Errorf("%s has %d bytes", name, len(made.Figures[name]))
		}
	}
}

// TestSameBytes writes a report twice, and once from a ledger that was written and read.
func TestSameBytes(t *testing.T) {
	m := campaign(t).finish()
	first, second := m.report(), m.report()
	dir := t.TempDir()
	book, _, _, err := ledger.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range m.lines {
		if _, err := book.Append(line.At, line); err != nil {
			t.Fatal(err)
		}
	}
	if err := book.Close(); err != nil {
		t.Fatal(err)
	}
	path, err := Write(dir)
	if err != nil {
		t.Fatal(err)
	}
	written, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(dir, HTMLName))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(first.Markdown, second.Markdown) || !bytes.Equal(first.HTML, second.HTML) || !bytes.Equal(first.Markdown, written) || !bytes.Equal(first.HTML, page) {
		t.Error("the same ledger gives other bytes")
	}
	for name := range first.Figures {
		if !bytes.Equal(first.Figures[name], second.Figures[name]) {
			t.Errorf("%s differs", name)
		}
	}
}

// TestPercentagesFollow computes every percentage of the table of before and after from its own numbers.
func TestPercentagesFollow(t *testing.T) {
	text := string(campaign(t).finish().report().Markdown)
	pairs := regexp.MustCompile(`Total TPS: ([0-9.]+)<br>[^|]*\|[^|]*Total TPS: ([0-9.]+) \(([-+][0-9.]+)%\)`).FindAllStringSubmatch(text, -1)
	if len(pairs) != 2 {
		t.Fatalf("%d pairs in\n%s", len(pairs), text)
	}
	for _, pair := range pairs {
		var before, after, printed float64
		fmt.Sscan(pair[1], &before)
		fmt.Sscan(pair[2], &after)
		fmt.Sscan(strings.TrimPrefix(pair[3], "+"), &printed)
		if math.Abs(100*(after/before-1)-printed) > 0.0501 {
			t.Errorf("%s → %s is not %s %%", pair[1], pair[2], pair[3])
		}
	}
}

// TestSays looks for what must stand in the conclusion and in the first lines.
func TestSays(t *testing.T) {
	done := campaign(t).finish().report()
	for _, want := range []string{"**Worse on long|er**", "**not decided**", "A='b c' ossian serve", "HF_TOKEN"} {
		if has := strings.Contains(string(done.Markdown), want); has == (want == "HF_TOKEN") {
			t.Errorf("%q: %v", want, has)
		}
	}
	open := campaign(t)
	open.lines = append(open.lines, ledger.Line{Kind: ledger.KindTrial, ID: "race-x", Trial: &ledger.Trial{State: ledger.StateBegun}})
	text := string(open.report().Markdown)
	if lines := strings.SplitN(text, "\n", 4); !strings.Contains(lines[2], "not finished") || !strings.Contains(lines[2], "1 under way") {
		t.Errorf("an unfinished campaign begins\n%.300s", text)
	}
	broken, err := Make(open.lines, &ledger.BrokenError{File: "x", Line: 7, Why: "changed"})
	if err != nil || !strings.Contains(string(broken.Markdown), "breaks off in line 7") {
		t.Errorf("%v, a broken ledger gives\n%.300s", err, broken.Markdown)
	}
	if _, err := Make(nil, nil); err == nil {
		t.Error("a report of nothing was made")
	}
}

// TestHostile puts markup into every text of a ledger.
func TestHostile(t *testing.T) {
	m := campaign(t).finish()
	const evil = "<script>alert(1)</script>\"'`|\n# x"
	for i := range m.lines {
		line := &m.lines[i]
		switch {
		case line.Campaign != nil:
			line.Campaign.Models[0], line.Campaign.Options[0].Name, line.Campaign.Version = evil, evil, evil
			line.Campaign.Rules = map[string]string{evil: evil}
		case line.Machine != nil:
			line.Machine.CPU, line.Machine.OS, line.Machine.Governor = evil, evil, evil
		case line.Start != nil:
			line.Start.Model, line.Start.Reason, line.Start.Tail, line.Start.Version = evil, evil, []string{evil[:20]}, evil
		case line.Trial != nil:
			line.Trial.Model, line.Trial.Reason, line.Trial.Result, line.Trial.Command = evil, evil, evil, []string{evil}
		case line.Decision != nil:
			line.Decision.Model, line.Decision.Subject, line.Decision.Reason = evil, evil, evil
		case line.Equality != nil:
			line.Equality.Model, line.Equality.Text = evil, evil
		case line.Note != nil:
			line.Note.Text = evil
		}
	}
	made := m.report()
	fenced := regexp.MustCompile("(?ms)^(```+)[a-z]+$.*?^```+$")
	outside := fenced.ReplaceAllString(string(made.Markdown), "")
	for _, shown := range []string{evil, "ossian bench " + evil, strings.ReplaceAll(evil, "|", `\|`)} { // between backticks it is text
		outside = strings.ReplaceAll(outside, codeSpan(shown), "")
	}
	if strings.Contains(outside, "\n# x") || strings.Contains(outside, "<script") {
		at := max(strings.Index(outside, "\n# x"), strings.Index(outside, "<script"))
		t.Errorf("markup of the ledger is markup of the report:\n%s", outside[max(0, at-200):min(len(outside), at+100)])
	}
	page := string(made.HTML)
	if strings.Contains(page, "<script") || strings.Contains(page, "alert(1)</script>\"") {
		t.Error("markup of the ledger is markup of the page")
	}
}

// TestEmptyParts makes reports of ledgers that were cut after each line.
func TestEmptyParts(t *testing.T) {
	lines := campaign(t).finish().lines
	for n := 1; n <= len(lines); n += 7 {
		if _, err := Make(lines[:n], nil); err != nil {
			t.Errorf("after %d lines: %v", n, err)
		}
	}
}

// BenchmarkReport writes the report of 200 trials (lab.md 10, L10: at most 2 s and 2 MB).
func BenchmarkReport(b *testing.B) {
	t := &testing.T{}
	m := campaign(t)
	for block := range 42 {
		for _, flags := range []map[string]string{nil, seqs, cache, async} {
			m.trial(ledger.RoleRace, "chat", 5+block, flags, 1000)
		}
	}
	m.finish()
	for b.Loop() {
		made, err := Make(m.lines, nil)
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(len(made.HTML)), "html-bytes")
	}
}
