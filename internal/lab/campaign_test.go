package lab_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"ossian/internal/lab"
	"ossian/internal/lab/ledger"
	"ossian/internal/lab/planfile"
	"ossian/internal/lab/simulate"
)

// option is a switch of an engine.
func option(name string) planfile.Option {
	return planfile.Option{Engine: "ossian", Name: name, Flags: []planfile.Flag{{Name: name, Values: []string{"true"}}}}
}

// planOf is a plan of one engine with some switches.
func planOf(switches ...string) *planfile.Plan {
	plan := &planfile.Plan{
		Name: "test", Models: []string{"tiny"}, Seed: 42, Cache: planfile.CacheReset,
		Objective: planfile.Objective{Metric: "total_token_throughput", Maximize: true, On: "chat"},
		Engines:   []planfile.Engine{{Name: "ossian", Kind: "ossian", Dialect: "ossian"}},
		Workloads: []planfile.Workload{
			{Name: "chat", Dataset: "random", InputLen: 200, OutputLen: 200, NumPrompts: 200, Endpoint: "completions"},
			{Name: "short", Dataset: "random", InputLen: 64, OutputLen: 16, NumPrompts: 200, Endpoint: "completions"},
		},
		Generalise: []string{"short"},
		Equality:   planfile.Equality{Prompts: 4, Tokens: 8},
	}
	for _, name := range switches {
		plan.Options = append(plan.Options, option(name))
	}
	return plan
}

// config is a campaign of a plan in a world.
func config(t *testing.T, plan *planfile.Plan, world simulate.World, dir string) lab.Config {
	t.Helper()
	measurer := &simulate.Measurer{World: world}
	return lab.Config{Plan: plan, PlanText: fmt.Appendf(nil, "%+v\n", *plan), Dir: dir, Measurer: measurer, Now: measurer.Now, Simulated: true, Version: "test"}
}

// runs carries out a campaign to its end.
func runs(t *testing.T, plan *planfile.Plan, world simulate.World) (*lab.Result, []ledger.Line) {
	t.Helper()
	dir := t.TempDir()
	c := config(t, plan, world, dir)
	c.Say = func(text string) { t.Log(text) }
	result, err := lab.Run(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	lines, err := ledger.Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	return result, lines
}

func TestPlanted(t *testing.T) {
	plan := planOf("null", "gain", "loss")
	result, lines := runs(t, plan, simulate.World{Noise: 0.02, Effects: map[string]float64{"gain=true": 0.08, "loss=true": -0.08}})
	if w := result.End.Winner["tiny"]; w.Flags["gain"] != "true" || len(w.Flags) != 1 {
		t.Errorf("winner %v", w)
	}
	_ = lines
	_ = time.Second
}
