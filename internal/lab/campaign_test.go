package lab_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ossian/internal/lab"
	"ossian/internal/lab/ledger"
	"ossian/internal/lab/planfile"
	"ossian/internal/lab/simulate"
	"ossian/internal/soak"
)

// TestMain puts what tests write into memory, where there is such a place: a ledger waits for the disk
// after every line.
func TestMain(m *testing.M) {
	if os.Getenv("LAB_TEST_DIR") != "" { // a process that will be killed cleans nothing up
		os.Exit(m.Run())
	}
	dir, err := os.MkdirTemp("/dev/shm", "lab-test-")
	if err == nil {
		_ = os.Setenv("TMPDIR", dir)
	}
	status := m.Run()
	if err == nil {
		_ = os.RemoveAll(dir)
	}
	os.Exit(status)
}

// option is a flag of an engine with values to try.
func option(name string, values ...string) planfile.Option {
	if len(values) == 0 {
		values = []string{"true"}
	}
	return planfile.Option{Engine: "ossian", Name: name, Flags: []planfile.Flag{{Name: name, Values: values}}}
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
func config(plan *planfile.Plan, world simulate.World, dir string) lab.Config {
	measurer := &simulate.Measurer{World: world}
	text, err := json.MarshalIndent(plan, "", " ")
	if err != nil {
		panic(err)
	}
	return lab.Config{Plan: plan, PlanText: text, Dir: dir, Measurer: measurer, Now: measurer.Now, Simulated: true, Version: "test"}
}

// A story is a campaign that has ended: what tests ask of it.
type story struct {
	t      *testing.T
	dir    string
	result *lab.Result
	lines  []ledger.Line
}

// runs carries out a campaign to its end.
func runs(t *testing.T, plan *planfile.Plan, world simulate.World) story {
	t.Helper()
	return carriesOut(t, config(plan, world, t.TempDir()))
}

func carriesOut(t *testing.T, c lab.Config) story {
	t.Helper()
	if testing.Verbose() && os.Getenv(soak.Env) == "" {
		c.Say = func(text string) { t.Log(text) }
	}
	result, err := lab.Run(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	lines, err := ledger.Read(c.Dir)
	if err != nil {
		t.Fatal(err)
	}
	return story{t, c.Dir, result, lines}
}

// decisions are those that stand, by stage and subject.
func (s *story) decisions() map[string]ledger.Decision {
	out := map[string]ledger.Decision{}
	for _, line := range s.lines {
		if line.Kind == ledger.KindDecision {
			out[line.Decision.Stage+"/"+line.Decision.Subject] = *line.Decision
		}
	}
	return out
}

// wants checks verdicts of decisions, by stage and subject.
func (s *story) wants(verdicts map[string]string) {
	s.t.Helper()
	decisions := s.decisions()
	for key, want := range verdicts {
		if got, there := decisions[key]; !there || got.Verdict != want {
			s.t.Errorf("%s: %q (%s), want %q", key, got.Verdict, got.Reason, want)
		}
	}
}

// winner is the recommended setting's flags, "" for the defaults.
func (s *story) winner() string {
	setting := s.result.End.Winner["tiny"]
	return strings.TrimSuffix(strings.TrimPrefix(fmt.Sprint(setting.Flags), "map["), "]")
}

// states counts trials by their last state.
func (s *story) states() map[string]int {
	last := map[string]string{}
	for _, line := range s.lines {
		if line.Kind == ledger.KindTrial {
			last[line.ID] = line.Trial.State
		}
	}
	out := map[string]int{}
	for _, state := range last {
		out[state]++
	}
	return out
}

// Options that are better and worse are told apart from one without effect, and the winner is a file
// that says why.
func TestPlantedEffects(t *testing.T) {
	s := runs(t, planOf("null", "gain", "loss"), simulate.World{Noise: 0.02, Effects: map[string]float64{"gain=true": 0.08, "loss=true": -0.08}})
	s.wants(map[string]string{"race/gain: gain=true": ledger.Kept, "race/loss: loss=true": ledger.Rejected, "winner/ossian with gain=true": ledger.Kept, "generalise/short": ledger.Kept})
	if s.decisions()["race/null: null=true"].Verdict == ledger.Kept {
		t.Error("an option without effect was kept")
	}
	text, err := os.ReadFile(filepath.Join(s.dir, lab.WinnerFile))
	if err != nil || !strings.Contains(string(text), "\ngain: true\n") || !strings.Contains(string(text), "# Simulated: total_token_throughput +") {
		t.Errorf("%v: %s", err, text)
	}
}

// L4: options without effect are accepted in at most 5 % of campaigns.
func TestNullOptions(t *testing.T) {
	var names []string
	for i := range 10 {
		names = append(names, fmt.Sprintf("null%d", i))
	}
	plan := planOf(names...)
	plan.Workloads, plan.Generalise = plan.Workloads[:1], nil
	plan.Equality.Prompts = 0
	campaigns, accepted := soak.Cases(t, 3, 400), 0
	for seed := range campaigns {
		s := runs(t, plan, simulate.World{Noise: 0.02, Seed: uint64(seed)})
		if s.winner() != "" {
			accepted++
			t.Logf("campaign %d accepted %s", seed, s.winner())
		}
	}
	if t.Logf("%d of %d campaigns accepted an option without effect", accepted, campaigns); accepted > max(1, campaigns/20) {
		t.Errorf("%d of %d, want 5 %% at most", accepted, campaigns)
	}
}

// L4: a gain of 3 % among options without effect is found in nine of ten campaigns.
func TestSmallGain(t *testing.T) {
	plan := planOf("gain", "null1", "null2", "null3", "null4")
	plan.Workloads, plan.Generalise = plan.Workloads[:1], nil
	plan.Equality.Prompts = 0
	campaigns, found := soak.Cases(t, 3, 400), 0
	for seed := range campaigns {
		s := runs(t, plan, simulate.World{Noise: 0.02, Seed: uint64(1000 + seed), Effects: map[string]float64{"gain=true": 0.03}})
		if s.decisions()["race/gain: gain=true"].Verdict == ledger.Kept {
			found++
		}
	}
	if t.Logf("%d of %d campaigns found it", found, campaigns); found < campaigns*9/10-1 {
		t.Errorf("%d of %d, want nine of ten", found, campaigns)
	}
}

// L5: two options that are worth it alone and not together are told so, and one of them is recommended.
func TestInteraction(t *testing.T) {
	world := simulate.World{Noise: 0.01, Effects: map[string]float64{"a=true": 0.05, "b=true": 0.05},
		Joint: []simulate.Joint{{Flags: []string{"a=true", "b=true"}, Effect: -0.03}}}
	s := runs(t, planOf("a", "b"), world)
	if w := s.winner(); w != "a:true" && w != "b:true" {
		t.Errorf("winner %q", w)
	}
	s.wants(map[string]string{"race/a: a=true": ledger.Kept, "race/b: b=true": ledger.Kept, "interaction/pair a: a=true × b: b=true": ledger.Found,
		"interaction/sign of a: a=true beside b: b=true": ledger.Found, "interaction/sign of b: b=true beside a: a=true": ledger.Found})
	all := s.decisions()["interaction/all of a: a=true + b: b=true"]
	if all.Product == nil || *all.Product < 0.05 || *all.Product > 0.15 || all.Effect == nil || all.Effect.Value > 0 {
		t.Errorf("joint and product: %+v", all)
	}
}

// The reverse: two options that are worth nothing alone and much together.
func TestHiddenCombination(t *testing.T) {
	world := simulate.World{Noise: 0.01, Effects: map[string]float64{"a=true": -0.02, "b=true": -0.02},
		Joint: []simulate.Joint{{Flags: []string{"a=true", "b=true"}, Effect: 0.12}}}
	s := runs(t, planOf("a", "b", "c"), world)
	if w := s.winner(); w != "a:true b:true" {
		t.Errorf("winner %q: %s", w, s.result.End.Text)
	}
}

// Two options that change answers only together are recommended alone.
func TestJointAnswers(t *testing.T) {
	s := runs(t, planOf("a", "b"), simulate.World{Noise: 0.01, Effects: map[string]float64{"a=true": 0.05, "b=true": 0.08}, Changed: []string{"a=true b=true"}})
	s.wants(map[string]string{"smoke/a: a=true + b: b=true": ledger.Rejected})
	if w := s.winner(); w != "b:true" {
		t.Errorf("winner %q", w)
	}
}

// Two gains that multiply are recommended together.
func TestJoint(t *testing.T) {
	s := runs(t, planOf("a", "b"), simulate.World{Noise: 0.01, Effects: map[string]float64{"a=true": 0.05, "b=true": 0.06}})
	if w := s.winner(); w != "a:true b:true" {
		t.Errorf("winner %q", w)
	}
}

// L6: a machine that gets slower makes no winner, and is named.
func TestDrift(t *testing.T) {
	wrong := 0
	campaigns := soak.Cases(t, 2, 100)
	drifting := 0
	for seed := range campaigns {
		s := runs(t, planOf("a", "b", "c"), simulate.World{Noise: 0.01, Seed: uint64(seed), Drift: simulate.Drift{Change: -0.10, Over: 2 * time.Hour}})
		if s.winner() != "" {
			wrong++
		}
		if s.decisions()["drift/baseline"].Verdict == ledger.Found {
			drifting++
		}
	}
	if t.Logf("%d of %d campaigns had a winner, %d were called drifting", wrong, campaigns, drifting); wrong > max(0, campaigns/20) || drifting < campaigns/2 {
		t.Errorf("%d winners, %d drifting of %d", wrong, drifting, campaigns)
	}
}

// L7: an option that changes answers is rejected however fast it is, unless it is declared lossy.
func TestChangedAnswers(t *testing.T) {
	world := simulate.World{Noise: 0.01, Effects: map[string]float64{"fast=true": 0.5, "lossy=true": 0.2}, Changed: []string{"fast=true", "lossy=true"}, Near: []string{"near=true"}}
	plan := planOf("fast", "lossy", "near")
	plan.Options[1].Lossy = true
	s := runs(t, plan, world)
	s.wants(map[string]string{"smoke/fast: fast=true": ledger.Rejected, "race/lossy: lossy=true": ledger.Kept, "smoke/near: near=true": ledger.Rejected})
	if s.winner() != "lossy:true" {
		t.Errorf("winner %q", s.winner())
	}
	verdicts := map[string]string{}
	for _, line := range s.lines {
		if line.Kind == ledger.KindEquality {
			verdicts[fmt.Sprint(line.Equality.Setting.Flags)] = line.Equality.Verdict
		}
	}
	if verdicts["map[fast:true]"] != ledger.Different || verdicts["map[near:true]"] != ledger.NearTie {
		t.Errorf("equality: %v", verdicts)
	}
	// Of engines that do not promise the same answers a near tie is no fault.
	plan.Engines[0].Kind = "vllm"
	other := runs(t, plan, world)
	other.wants(map[string]string{"smoke/near: near=true": ledger.Works, "smoke/fast: fast=true": ledger.Rejected})
}

// L2: several engines: a fast one, one 17 times slower, one that does not start, and an option worth
// 12 % of the fast one.
func TestEngines(t *testing.T) {
	plan := planOf()
	plan.Engines = []planfile.Engine{{Name: "slow", Kind: "other"}, {Name: "broken", Kind: "other"}, {Name: "fast", Kind: "other"}, {Name: "fair", Kind: "other"}}
	plan.Workloads[0].NumPrompts = 1000
	plan.Options = []planfile.Option{{Engine: "fast", Name: "async", Flags: []planfile.Flag{{Name: "async", Values: []string{"true"}}}}, {Engine: "fair", Name: "more", Flags: []planfile.Flag{{Name: "more", Values: []string{"true"}}}}}
	world := simulate.World{Noise: 0.02, Effects: map[string]float64{"async=true": 0.12}, Engines: map[string]simulate.Engine{
		"slow": {Factor: 1.0 / 17}, "broken": {Fails: "start: no kernel for this machine", Tail: []string{"no kernel for this machine"}}, "fair": {Factor: 0.8}}}
	s := runs(t, plan, world)
	s.wants(map[string]string{"engine/slow": ledger.Rejected, "engine/broken": ledger.Rejected, "engine/fast": ledger.Kept, "engine/fair": ledger.Rejected, "race/async: async=true": ledger.Kept})
	decisions := s.decisions()
	if reason := decisions["engine/slow"].Reason; !strings.Contains(reason, "17") || !strings.Contains(reason, "slower") {
		t.Errorf("slow: %s", reason)
	}
	if reason := decisions["engine/broken"].Reason; !strings.Contains(reason, "no kernel") {
		t.Errorf("broken: %s", reason)
	}
	if s.winner() != "async:true" || s.result.End.Winner["tiny"].Engine != "fast" {
		t.Errorf("winner %v", s.result.End.Winner)
	}
}

// L8: what runs out of memory is not tried with more; what fails twice is unstable; the rest goes on.
func TestFailures(t *testing.T) {
	plan := planOf("gain", "dies")
	plan.Options = append(plan.Options, option("batch", "8192", "1024", "4096", "2048"))
	world := simulate.World{Noise: 0.01, Effects: map[string]float64{"gain=true": 0.06}, Failing: []simulate.Failing{
		{Flags: []string{"batch=4096"}, Reason: "out of memory: 3 GiB wanted"}, {Flags: []string{"dies=true"}, Reason: "the server ended during the run: start: boom", Share: 1}}}
	s := runs(t, plan, world)
	s.wants(map[string]string{"smoke/batch: batch=4096": ledger.Rejected, "smoke/batch: batch=8192": ledger.Dropped, "smoke/batch: batch=2048": ledger.Works, "smoke/dies: dies=true": ledger.Rejected, "race/gain: gain=true": ledger.Kept})
	decisions := s.decisions()
	if reason := decisions["smoke/batch: batch=8192"].Reason; !strings.Contains(reason, "batch=4096") {
		t.Errorf("8192: %s", reason)
	}
	if reason := decisions["smoke/dies: dies=true"].Reason; !strings.Contains(reason, "unstable") {
		t.Errorf("dies: %s", reason)
	}
	tries := 0
	for _, line := range s.lines {
		if line.Kind == ledger.KindTrial && line.Trial.State == ledger.StateBegun && line.Trial.Setting.Flags["batch"] == "4096" {
			tries++
		}
	}
	if tries != 1 {
		t.Errorf("out of memory was tried %d times", tries)
	}
}

// A run now and then that fails is repeated once, and costs nobody the race.
func TestFlaky(t *testing.T) {
	s := runs(t, planOf("gain"), simulate.World{Noise: 0.01, Effects: map[string]float64{"gain=true": 0.06}, Failing: []simulate.Failing{{Reason: "connection reset", Share: 0.05}}})
	s.wants(map[string]string{"race/gain: gain=true": ledger.Kept})
}

// A baseline that does not work ends a campaign with status 1, and says why.
func TestNoBaseline(t *testing.T) {
	s := runs(t, planOf("gain"), simulate.World{Engines: map[string]simulate.Engine{"ossian": {Fails: "never ready: 10m0s"}}})
	if s.result.End.Exit != 1 || s.winner() != "" {
		t.Errorf("%+v", s.result.End)
	}
	s.wants(map[string]string{"smoke/baseline": ledger.Rejected})
}

// Bounds of the plan: a faster setting that breaks one does not win.
func TestBounds(t *testing.T) {
	plan := planOf("fast")
	plan.Objective.SLA = map[string]float64{"mean_ttft_ms": 1}
	s := runs(t, plan, simulate.World{Noise: 0.01, Effects: map[string]float64{"fast=true": 0.2}})
	s.wants(map[string]string{"race/fast: fast=true": ledger.Rejected})
	if !strings.Contains(s.decisions()["winner/ossian at its defaults"].Reason, "mean_ttft_ms") {
		t.Errorf("that the defaults break the bound is not said: %+v", s.decisions()["winner/ossian at its defaults"])
	}
	// A bound that the defaults break and an option keeps: that option wins.
	plan.Objective.SLA = map[string]float64{"total_token_throughput": 1100}
	s = runs(t, plan, simulate.World{Noise: 0.01, Effects: map[string]float64{"fast=true": 0.2}})
	if s.winner() != "fast:true" {
		t.Errorf("winner %q", s.winner())
	}
}

// A bound that lies within what the runs allow is neither kept nor broken, and a setting that may break it
// is not recommended though its mean keeps it.
func TestBoundNotCertain(t *testing.T) {
	plan := planOf("fast")
	world := simulate.World{Noise: 0.05, Seed: 2, Effects: map[string]float64{"fast=true": 0.2}}
	plan.Objective.SLA = map[string]float64{"total_token_throughput": 1170}
	s := runs(t, plan, world)
	s.wants(map[string]string{"race/fast: fast=true": ledger.NotDecided, "service/fast: fast=true": ledger.NotCertain, "service/baseline": ledger.NotMet})
	found := s.decisions()["service/fast: fast=true"]
	if len(found.Bounds) != 1 || found.Bounds[0].Measured.Value < 1170 || found.Bounds[0].Measured.Low > 1170 || found.Bounds[0].Runs < 3 || !strings.Contains(found.Reason, "may break") {
		t.Errorf("%+v", found)
	}
	if s.winner() != "" {
		t.Errorf("winner %q", s.winner())
	}
	// A bound of a time, that all of the interval keeps.
	plan.Objective.SLA = map[string]float64{"mean_e2el_ms": 1e6}
	s = runs(t, plan, world)
	s.wants(map[string]string{"race/fast: fast=true": ledger.Kept, "service/fast: fast=true": ledger.Met, "service/baseline": ledger.Met})
}

// A plan whose options span more settings than allowed is counted and refused before anything starts.
func TestTooMany(t *testing.T) {
	var names []string
	for i := range 20 {
		names = append(names, fmt.Sprintf("o%d", i))
	}
	c := config(planOf(names...), simulate.World{}, filepath.Join(t.TempDir(), "none"))
	_, err := lab.Run(context.Background(), c)
	if err == nil || !strings.Contains(err.Error(), "1048575 combinations") || !strings.Contains(err.Error(), "--max-candidates") {
		t.Errorf("%v", err)
	}
	if _, err := os.Stat(c.Dir); err == nil {
		t.Error("the directory was made")
	}
}

// A condition leaves alternatives out.
func TestCondition(t *testing.T) {
	plan := planOf("gain")
	plan.Options = append(plan.Options, option("mode", "fast", "safe"))
	plan.Options[1].Unless = &planfile.Condition{Flag: "mode", Equal: true, Value: "fast"}
	s := runs(t, plan, simulate.World{Noise: 0.01, Effects: map[string]float64{"mode=fast": 0.5}})
	if _, tried := s.decisions()["smoke/mode: mode=fast"]; tried || s.winner() == "mode:fast" {
		t.Errorf("mode=fast was tried; winner %q", s.winner())
	}
}

// predictor knows the effect of each value exactly, and that 64 do not fit.
type predictor struct{ spread float64 }

func (p predictor) Predict(_ planfile.Engine, setting ledger.Setting, _ string, _ planfile.Workload) lab.Prediction {
	value := 1000.0
	switch setting.Flags["seqs"] {
	case "1":
		value = 100
	case "64":
		return lab.Prediction{Misfit: "64 sequences need 12 GiB of 8"}
	}
	return lab.Prediction{Metrics: map[string]ledger.Interval{"total_token_throughput": {Value: value, Low: value * (1 - p.spread), High: value * (1 + p.spread)}}}
}

// What cannot fit and what a prediction rules out is not measured; an option outside the model is.
func TestScreen(t *testing.T) {
	plan := planOf("kernel")
	plan.Options[0].Opaque = true
	plan.Options = append(plan.Options, option("seqs", "1", "16", "64"))
	c := config(plan, simulate.World{Noise: 0.01, Effects: map[string]float64{"kernel=true": 0.06}}, t.TempDir())
	c.Predictor = predictor{spread: 0.2}
	c.Measurer.(*simulate.Measurer).Predictor = c.Predictor
	s := carriesOut(t, c)
	s.wants(map[string]string{"fit/seqs: seqs=64": ledger.Dropped, "screen/seqs: seqs=1": ledger.Dropped, "race/kernel: kernel=true": ledger.Kept})
	for _, line := range s.lines {
		if line.Kind == ledger.KindTrial && (line.Trial.Setting.Flags["seqs"] == "1" || line.Trial.Setting.Flags["seqs"] == "64") {
			t.Errorf("measured %v", line.Trial.Setting)
		}
	}
	if decisions := s.decisions(); decisions["race/seqs: seqs=16"].Verdict == "" {
		t.Error("16 was not raced")
	}
}

// A budget ends the race, leaves what it has not decided, and still has room for the other workloads.
func TestBudget(t *testing.T) {
	plan := planOf("a", "b", "c", "d")
	plan.Budget.Trials = 40
	s := runs(t, plan, simulate.World{Noise: 0.02})
	if s.result.Trials > 40 || s.result.End.State != "budget" {
		t.Errorf("%d trials, %+v", s.result.Trials, s.result.End)
	}
	if s.decisions()["generalise/short"].Blocks != 3 {
		t.Errorf("generalise: %+v", s.decisions()["generalise/short"])
	}
}

// A time is made small, and its effect is told in the time's own direction.
func TestMinimise(t *testing.T) {
	plan := planOf("gain", "loss")
	plan.Objective = planfile.Objective{Metric: "mean_tpot_ms", On: "chat"}
	s := runs(t, plan, simulate.World{Noise: 0.01, Effects: map[string]float64{"gain=true": 0.1, "loss=true": -0.1}})
	s.wants(map[string]string{"race/gain: gain=true": ledger.Kept, "race/loss: loss=true": ledger.Rejected})
	if effect := s.decisions()["race/gain: gain=true"].Effect; effect == nil || effect.Value > -0.05 || effect.Low > effect.Value || effect.High < effect.Value {
		t.Errorf("effect %+v", effect)
	}
}

// Several models are chapters of one ledger.
func TestModels(t *testing.T) {
	plan := planOf("gain")
	plan.Models = []string{"tiny", "org/large"}
	plan.Budget.Trials = 80
	s := runs(t, plan, simulate.World{Noise: 0.01, Effects: map[string]float64{"gain=true": 0.1}})
	if len(s.result.End.Winner) != 2 {
		t.Errorf("%+v", s.result.End)
	}
	if _, err := os.Stat(filepath.Join(s.dir, "winner-org-large.yaml")); err != nil {
		t.Error(err)
	}
	byModel := map[string]int{}
	for _, line := range s.lines {
		if line.Kind == ledger.KindTrial && line.Trial.State == ledger.StateOK {
			byModel[line.Trial.Model]++
		}
	}
	if byModel["tiny"] < 15 || byModel["org/large"] < 15 {
		t.Errorf("trials of each model: %v", byModel)
	}
}

// busy is a machine with other work.
type busy struct{ lab.Measurer }

func (b *busy) Machine(ctx context.Context) (ledger.Machine, error) {
	machine, err := b.Measurer.Machine(ctx)
	machine.Load = 3.5
	return machine, err
}

// A machine that is busy before the start is named, and the campaign goes on.
func TestBusyMachine(t *testing.T) {
	c := config(planOf("a"), simulate.World{Noise: 0.01, Effects: map[string]float64{"a=true": 0.06}}, t.TempDir())
	c.Measurer = &busy{c.Measurer}
	s := carriesOut(t, c)
	s.wants(map[string]string{"race/a: a=true": ledger.Kept})
	noted := false
	for _, line := range s.lines {
		noted = noted || (line.Kind == ledger.KindNote && strings.Contains(line.Note.Text, "a load of 3.5 on 1 processors"))
	}
	if !noted {
		t.Error("no note of the load")
	}
}
