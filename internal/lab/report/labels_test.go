package report

import (
	"strings"
	"testing"

	"ossian/internal/bench/chart"
	"ossian/internal/lab/ledger"
	"ossian/internal/lab/verify/verifytest"
)

// TestShorten: names that are cut are still told apart, wherever they differ.
func TestShorten(t *testing.T) {
	same := strings.Repeat("x", 30)
	for name, c := range map[string]struct{ in, want []string }{
		"short ones stay":       {[]string{"a", "b"}, []string{"a", "b"}},
		"they differ at an end": {[]string{same + "=1", same + "=2"}, []string{"xxxxxxxxx…xxxxxxxx=1", "xxxxxxxxx…xxxxxxxx=2"}},
		"or in the middle":      {[]string{same + "1" + same, same + "2" + same, "a"}, []string{same + "1" + same, same + "2" + same, "a"}},
		"the same name twice":   {[]string{same, same}, []string{"xxxxxxxxx…xxxxxxxxxx", "xxxxxxxxx…xxxxxxxxxx"}},
	} {
		if got := Shorten(c.in, 20); strings.Join(got, "|") != strings.Join(c.want, "|") {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	long := []string{same + "1" + same, same + "2" + same}
	if got := labels(long, 20); got[0] == got[1] || len([]rune(got[0])) > 20 {
		t.Errorf("labels %q", got)
	}
}

// TestLetters: letters that the font of figures lacks are written as numbers, never left out.
func TestLetters(t *testing.T) {
	for text, want := range map[string]string{"max-num-seqs=64 ×2": "max-num-seqs=64 ×2", "Größe Ω я": "Größe Ω я", "注意力=1": `\u6ce8\u610f\u529b=1`, "🚀": `\U0001f680`} {
		if got := chart.Drawable(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	m := campaign(t).finish()
	for i := range m.lines {
		if d := m.lines[i].Decision; d != nil && d.Subject == "kv-fp8" {
			d.Subject = "缓存: kv-cache-dtype=fp8"
		}
	}
	made := m.report()
	if figure := string(made.Figures["options.svg"]); !strings.Contains(figure, `\u7f13\u5b58: kv-cache-dtype=fp8`) {
		t.Errorf("the figure has no name for an option:\n%.3000s", figure)
	}
	if !strings.Contains(string(made.Markdown), "缓存") {
		t.Error("the report has lost the name itself")
	}
}

// TestGainOfTimes: of a metric that is to be small a gain is above 0 when there is less of it, and the
// heading says of what.
func TestGainOfTimes(t *testing.T) {
	m := campaign(t).finish()
	for i := range m.lines {
		line := &m.lines[i]
		if line.Campaign != nil {
			line.Campaign.Objective.Metric, line.Campaign.Objective.Maximize = "mean_tpot_ms", false
		}
		if line.Decision == nil {
			continue
		}
		line.Decision.Metric = "mean_tpot_ms"
		if effect := line.Decision.Effect; effect != nil && line.Decision.Subject == "sequences 64" {
			effect.Value, effect.Low, effect.High = -0.11, -0.14, -0.08
		}
	}
	text := string(m.report().Markdown)
	verifytest.Passes(t, "times.md", []byte(text))
	for _, want := range []string{"| Option | Gain: less Mean TPOT(ms) |", `| sequences: max-num-seqs=64 | +11.0% | \[+8.0%, +14.0%\] | kept |`, `| race | +11.0% | \[+8.0%, +14.0%\] |`} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

// TestBoundsOfThePlan: the report says of each setting which bounds it keeps, and in the conclusion what the
// recommended one does not keep for certain.
func TestBoundsOfThePlan(t *testing.T) {
	m := campaign(t)
	m.decide(ledger.Decision{Stage: ledger.StageService, Subject: "sequences 64", Setting: setting(seqs), Verdict: ledger.NotCertain, Rule: "t", Bounds: []ledger.Bound{
		{Metric: "mean_ttft_ms", Limit: 310, Measured: &ledger.Interval{Value: 300, Low: 280, High: 320}, Runs: 4, Verdict: ledger.NotCertain},
		{Metric: "output_throughput", Limit: 100, Measured: &ledger.Interval{Value: 200, Low: 200, High: 200}, Runs: 1, Verdict: ledger.NotCertain},
		{Metric: "p99_ttft_ms", Limit: 900, Measured: &ledger.Interval{Value: 800, Low: 790, High: 810}, Runs: 4, Verdict: ledger.Met}}})
	text := string(m.finish().report().Markdown)
	verifytest.Passes(t, "bounds.md", []byte(text))
	for _, want := range []string{`| Mean TTFT(ms) | at most 310.00 | 300.00 | \[280.00, 320.00\] | 4 | not certain |`, "| Output TPS | at least 100.00 | 200.00 | - | 1 | not certain |", "| 4 | met |",
		"Bound `mean_ttft_ms` at most 310.00: **not certain**, 300.00 in 4 runs."} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if conclusion, _, _ := strings.Cut(text, "## Optimization Objective"); strings.Contains(conclusion, "p99_ttft_ms") {
		t.Errorf("a bound that is met is in the conclusion:\n%s", conclusion)
	}
}
