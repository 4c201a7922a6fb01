package lab

import (
	"context"
	_ "embed"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"ossian/internal/lab/ledger"
	"ossian/internal/lab/planfile"
)

// quickPlan is the plan of lab quick with words in braces for what is found out on the machine.
//
//go:embed quick.yaml
var quickPlan string

// Lengths of quick runs (lab.md 2): a run of the plan lasts 2 to 4 s, the first look at a load less.
const (
	quickRun   = 2500 * time.Millisecond
	quickFirst = 8 // requests of the first look
	quickLooks = 3
	quickLeast = 16 // requests of a run: fewer say little about a rate
	quickMost  = 4000
)

// QuickPlan is the text of the built-in plan for a model. Requests are how many each of its workloads
// has, by name; those that are missing have as many as a first look needs.
func QuickPlan(model string, requests map[string]int) string {
	words := []string{"{model}", strconv.Quote(model)}
	for _, name := range quickWorkloads {
		count := requests[name]
		if count == 0 {
			count = quickFirst
		}
		words = append(words, "{requests "+name+"}", strconv.Itoa(count))
	}
	return strings.NewReplacer(words...).Replace(quickPlan)
}

var quickWorkloads = []string{"128/4", "short-chat", "512/64"}

// QuickRequests finds out how many requests of each workload of the plan a run of the wanted length
// has. It starts the engine at its defaults and ends it again.
func QuickRequests(ctx context.Context, measurer Measurer, plan *planfile.Plan) (map[string]int, error) {
	setting := ledger.Setting{Engine: plan.Engines[0].Name}
	if err := measurer.Room(); err != nil {
		return nil, err
	}
	server, start := measurer.Start(ctx, Request{Engine: plan.Engines[0], Setting: setting, Model: plan.Models[0], ID: "start-probe"})
	if start.State != ledger.StateOK {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, fmt.Errorf("%s does not start: %s\n%s", setting.Engine, start.Reason, strings.Join(start.Tail, "\n"))
	}
	defer server.Stop()
	out := map[string]int{}
	for number, workload := range plan.Workloads {
		count := workload.NumPrompts
		// More requests at once are faster each, so that each look corrects the one before.
		for look := range quickLooks {
			workload.NumPrompts = count
			trial, err := server.Measure(ctx, Load{ID: fmt.Sprintf("probe-%d-%d", number+1, look+1), Workload: workload, Model: plan.Models[0], Seed: uint64(1000 + 10*number + look), Share: 1, Cache: plan.Cache})
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			if err != nil {
				return nil, err
			}
			duration := trial.Metrics["duration"]
			if trial.State != ledger.StateOK || duration <= 0 {
				return nil, fmt.Errorf("workload %s: %s: %s", workload.Name, trial.State, trial.Reason)
			}
			wanted := quickRun.Seconds()
			for range quickLooks - 1 - look { // the looks themselves are shorter
				wanted /= 2
			}
			count = int(math.Min(math.Max(float64(count)*wanted/duration, quickLeast), quickMost))
		}
		out[workload.Name] = count
	}
	return out, nil
}

// QuickTrial is about what a trial of the built-in plan takes with its server's start.
const QuickTrial = quickRun + 400*time.Millisecond

// Estimate says in words what a plan is, and about what it takes, if a trial takes each; 0: nobody knows.
func Estimate(plan *planfile.Plan, each time.Duration) string {
	var out strings.Builder
	fmt.Fprintf(&out, "campaign %s: %s of %s on %s\n", plan.Name, map[bool]string{true: "most", false: "least"}[plan.Objective.Maximize], plan.Objective.Metric, plan.Objective.On)
	fmt.Fprintf(&out, "models: %s\n", strings.Join(plan.Models, ", "))
	fewest := 0
	for _, engine := range plan.Engines {
		options := optionsOf(plan, engine.Name)
		count := len(alternatives(engine, options))
		fmt.Fprintf(&out, "engine %s: %d options, %s settings with their combinations\n", engine.Name, len(options), printCount(combinations(options)))
		if len(plan.Engines) > 1 {
			fewest += 1 + fewestBlocks
		}
		// Each alternative once in smoke, then in blocks beside the baseline.
		fewest = max(fewest, (1+fewestBlocks)*(count+1))
	}
	for _, workload := range plan.Workloads {
		fmt.Fprintf(&out, "workload %s: %d requests of %d + %d tokens (%s, %s)\n", workload.Name, workload.NumPrompts, workload.InputLen, workload.OutputLen, workload.Dataset, workload.Endpoint)
	}
	fewest += 2 * fewestBlocks * (len(plan.Workloads) - 1)
	fmt.Fprintf(&out, "at least %d trials for each model", fewest)
	if each > 0 {
		fmt.Fprintf(&out, ", about %v", (time.Duration(fewest) * each).Round(time.Second))
	}
	if plan.Budget.Time > 0 {
		fmt.Fprintf(&out, ", at most %v of measuring", plan.Budget.Time)
	}
	if plan.Budget.Trials > 0 {
		fmt.Fprintf(&out, ", at most %d trials", plan.Budget.Trials)
	}
	return out.String() + "\n"
}
