package lab_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"ossian/internal/lab"
	"ossian/internal/lab/engines"
	"ossian/internal/lab/planfile"
	"ossian/internal/lab/simulate"
)

// The built-in plan is a plan, whatever the model is called, and its runs have the wanted length on
// machines of any speed.
func TestQuickPlan(t *testing.T) {
	read := func(text string) *planfile.Plan {
		t.Helper()
		plan, err := planfile.Read([]byte(text), planfile.Options{Name: "quick", Kinds: engines.Kinds()})
		if err != nil {
			t.Fatal(err)
		}
		return plan
	}
	plan := read(lab.QuickPlan(`a "model": of # nobody`, nil))
	if plan.Models[0] != `a "model": of # nobody` || len(plan.Options) != 4 || len(plan.Workloads) != 3 {
		t.Fatalf("%+v", plan)
	}
	for _, rate := range []float64{2000, 20_000, 200_000} { // tokens per second
		measurer := &simulate.Measurer{World: simulate.World{Rate: rate}}
		requests, err := lab.QuickRequests(context.Background(), measurer, plan)
		if err != nil {
			t.Fatal(err)
		}
		for _, workload := range read(lab.QuickPlan("m", requests)).Workloads {
			seconds := float64(workload.NumPrompts*(workload.InputLen+workload.OutputLen)) / rate
			if workload.NumPrompts > 16 && workload.NumPrompts < 4000 && (seconds < 2 || seconds > 4) {
				t.Errorf("%s at %g tokens/s: %d requests, %.1f s", workload.Name, rate, workload.NumPrompts, seconds)
			}
		}
	}
	if text := lab.Estimate(plan, lab.QuickTrial); !strings.Contains(text, "16 settings") || !strings.Contains(text, "32 trials") || !strings.Contains(text, "1m30s") {
		t.Errorf("%s", text)
	}
	broken := &simulate.Measurer{World: simulate.World{Engines: map[string]simulate.Engine{"ossian": {Fails: "start: no such model", Tail: []string{"no such model"}}}}}
	if _, err := lab.QuickRequests(context.Background(), broken, plan); err == nil || !strings.Contains(err.Error(), "no such model") {
		t.Errorf("%v", err)
	}
	// The plan is carried out within its budget.
	fast := read(lab.QuickPlan("m", map[string]int{"128/4": 300, "short-chat": 300, "512/64": 80}))
	s := runs(t, fast, simulate.World{Rate: 20_000, Noise: 0.02, Engines: map[string]simulate.Engine{"ossian": {Start: 300 * time.Millisecond}}, Effects: map[string]float64{"threads=1": -0.4}})
	if s.result.End.Exit != 0 || s.result.Trials < 30 {
		t.Errorf("%+v after %d trials", s.result.End, s.result.Trials)
	}
}
