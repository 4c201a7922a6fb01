package lab_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ossian/internal/lab"
	"ossian/internal/lab/ledger"
	"ossian/internal/lab/planfile"
	"ossian/internal/lab/simulate"
)

// latencies are those of settings that are predicted exactly, within a spread: fewer sequences have faster
// tokens, a later first one and a lower rate.
type latencies struct{ spread float64 }

func (l latencies) Predict(engine planfile.Engine, setting ledger.Setting, _ string, _ planfile.Workload) lab.Prediction {
	tpot, ttft, rate := 100.0, 500.0, 4000.0
	switch setting.Flags["seqs"] {
	case "32":
		tpot, ttft, rate = 20, 1200, 1000
	case "64":
		tpot, ttft, rate = 30, 800, 1200
	}
	if setting.Flags["tokens"] == "large" {
		tpot *= 0.85
	}
	if engine.Name == "hasty" {
		tpot, ttft = 50, 2000
	}
	out := lab.Prediction{Metrics: map[string]ledger.Interval{}}
	for metric, value := range map[string]float64{"mean_tpot_ms": tpot, "p99_ttft_ms": ttft, "total_token_throughput": rate, "request_throughput": rate / 400, "duration": 80000 / rate} {
		out.Metrics[metric] = ledger.Interval{Value: value, Low: value * (1 - l.spread), High: value * (1 + l.spread)}
	}
	return out
}

// boundPlan asks for fast tokens, none of which may begin after a second.
func boundPlan() *planfile.Plan {
	plan := planOf()
	plan.Objective = planfile.Objective{Metric: "mean_tpot_ms", On: "chat", SLA: map[string]float64{"p99_ttft_ms": 1000}}
	plan.Options = []planfile.Option{option("seqs", "32", "64"), option("tokens", "large")}
	return plan
}

// judgedBy carries out a plan whose figures are those of a predictor, which also screens if it is told to.
func judgedBy(t *testing.T, plan *planfile.Plan, known lab.Predictor, screens bool) story {
	t.Helper()
	c := config(plan, simulate.World{Noise: 0.02}, t.TempDir())
	c.Measurer.(*simulate.Measurer).Predictor = known
	if screens {
		c.Predictor = known
	}
	return carriesOut(t, c)
}

// What breaks a bound of the plan ends nobody's race: the best of those that keep it wins, alone and
// together with other options, whether settings are predicted or not.
func TestBrokenBoundEliminatesNobody(t *testing.T) {
	for _, screens := range []bool{false, true} {
		s := judgedBy(t, boundPlan(), latencies{0.01}, screens)
		s.wants(map[string]string{"race/seqs: seqs=32": ledger.Rejected, "service/seqs: seqs=32": ledger.NotMet,
			"race/seqs: seqs=64": ledger.Kept, "service/seqs: seqs=64": ledger.Met, "race/tokens: tokens=large": ledger.Kept})
		if s.winner() != "seqs:64 tokens:large" {
			t.Errorf("screened %v: winner %q", screens, s.winner())
		}
		if text := reported(t, s.dir); !strings.Contains(text, "| seqs: seqs=64 | +") {
			t.Errorf("the summary does not say of which value of the option the gain is:\n%s", text)
		}
		for _, decision := range s.decisions() {
			if strings.Contains(decision.Subject, "main effect") && strings.Contains(decision.Subject, "32") {
				t.Errorf("a combination is looked for with what breaks a bound: %s", decision.Subject)
			}
		}
	}
}

// A rate is the objective and a time is bounded: who is several times slower than what breaks the bound is
// measured, and wins.
func TestSlowKeepsBound(t *testing.T) {
	plan := boundPlan()
	plan.Objective = planfile.Objective{Metric: "total_token_throughput", Maximize: true, On: "chat", SLA: map[string]float64{"mean_tpot_ms": 50}}
	plan.Options = plan.Options[:1]
	s := judgedBy(t, plan, latencies{0.01}, true)
	s.wants(map[string]string{"service/baseline": ledger.NotMet, "service/seqs: seqs=64": ledger.Met})
	if s.winner() != "seqs:64" {
		t.Errorf("winner %q", s.winner())
	}
}

// An engine that breaks a bound is not taken for being faster than one that keeps it.
func TestEngineKeepsBound(t *testing.T) {
	plan := boundPlan()
	plan.Options = nil
	for _, names := range [][]string{{"ossian", "hasty"}, {"hasty", "ossian"}} {
		plan.Engines = nil
		for _, name := range names {
			plan.Engines = append(plan.Engines, planfile.Engine{Name: name, Kind: "ossian", Dialect: "ossian"})
		}
		s := judgedBy(t, plan, latencies{0.01}, false)
		s.wants(map[string]string{"engine/ossian": ledger.Kept, "engine/hasty": ledger.Rejected})
		if reason := s.decisions()["engine/hasty"].Reason; !strings.Contains(reason, "p99_ttft_ms") {
			t.Errorf("%v: %s", names, reason)
		}
	}
}

// A gain is one figure with one sign, wherever it stands: in the line of its decision, the conclusion, the
// table beneath it and the file of the winner. A simulation says that it is one, of what, and how it is
// repeated; it compares no prediction with itself.
func TestOneFigure(t *testing.T) {
	plan := boundPlan()
	plan.Options = plan.Options[1:]
	plan.Objective.SLA = map[string]float64{"p99_ttft_ms": 90000}
	c := config(plan, simulate.World{Noise: 0.02}, t.TempDir())
	measurer := c.Measurer.(*simulate.Measurer)
	measurer.Predictor, measurer.Place = latencies{0.01}, "A100-80G"
	c.Predictor, c.Flags = measurer.Predictor, []string{"--simulate=v.yaml", "--machine", "A100-80G"}
	said := ""
	c.Say = func(text string) { said += text + "\n" }
	result, err := lab.Run(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	lines, err := ledger.Read(c.Dir)
	if err != nil {
		t.Fatal(err)
	}
	s := story{t, c.Dir, result, lines}
	effect := s.decisions()["winner/ossian with tokens=large"].Effect
	if effect == nil || len(s.decisions()["winner/ossian with tokens=large"].Trials) == 0 {
		t.Fatal("no effect, or not the trials that it is of")
	}
	gain := fmt.Sprintf("%.1f", -100*effect.Value)
	winner, err := os.ReadFile(filepath.Join(c.Dir, "winner.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Join(strings.Fields(reported(t, c.Dir)), " ")
	for what, pair := range map[string][2]string{
		"progress":           {said, "winner: ossian with tokens=large: kept (less mean_tpot_ms +" + gain + " % ["},
		"winner.yaml":        {string(winner), "# Simulated: less mean_tpot_ms +" + gain + " % ["},
		"the machine":        {string(winner), "# SIMULATED on A100-80G: no figure was measured."},
		"conclusion":         {text, "less Mean TPOT(ms) **+" + gain + "%** "},
		"table":              {text, " (-" + gain + "%)"},
		"option":             {text, "Result: **kept**, `tokens=large`: less Mean TPOT(ms) +" + gain + "% "},
		"title":              {text, "on simulated A100-80G"},
		"blocks":             {text, "over its defaults on chat, simulated in "},
		"how to repeat it":   {text, "`ossian lab run plan.yaml --simulate=v.yaml --machine A100-80G --out DIR`"},
		"bounds of the plan": {text, "at most 90000.00"},
	} {
		if !strings.Contains(pair[0], pair[1]) {
			t.Errorf("%s: no %q in\n%.1500s", what, pair[1], pair[0])
		}
	}
	for _, none := range []string{"Predicted and measured", "measures all of it", "e+04", "Measured"} {
		if strings.Contains(text, none) {
			t.Errorf("a simulation says %q", none)
		}
	}
}
