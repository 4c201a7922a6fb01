package lab

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"ossian/internal/lab/ledger"
	"ossian/internal/lab/planfile"
)

// DefaultMaxCandidates is how many combinations of options a plan may span unless it is said otherwise
// (lab.md 9).
const DefaultMaxCandidates = 2000

// Config is a campaign before it begins.
type Config struct {
	Plan      *planfile.Plan
	PlanText  []byte // the plan as it is written to plan.yaml: every default filled in, no secret
	Dir       string // where the ledger and all files lie; made where it is not there
	Measurer  Measurer
	Predictor Predictor         // nil: nothing is predicted and nothing dropped for it
	Compared  []ledger.Compared // what the plan has beside what is measured
	Changed   bool              // go on although the plan is not the one that Dir was begun with
	Limit     int               // of candidates; 0: DefaultMaxCandidates
	Simulated bool              // every figure comes from a clock
	Flags     []string          // of the command beside the plan, for whoever repeats it
	Version   string            // of this program
	Now       func() time.Time
	Say       func(text string) // a line about what is going on; nil: nobody listens
}

// Result is what came of a campaign.
type Result struct {
	End    ledger.End
	Trials int  // that were measured, replayed ones included
	Noisy  bool // the machine was busy: intervals are wider than they could be
}

// campaign is one that runs.
type campaign struct {
	Config
	plan    *planfile.Plan
	book    *book
	machine ledger.Machine

	hashes     map[string]string   // of workloads, by name
	identities map[string]Identity // of servers, by serverOf

	server   Server // nil: none runs
	serving  string // serverOf the one that runs
	startID  string // of the one that runs
	lastUsed string // serverOf the trial before, measured or replayed

	seen      map[string]effort  // by workload: trials of all its requests
	budget    planfile.Budget    // until the end of this chapter; zero: none
	started   map[string]float64 // seconds of starts that were accounted for, by serverOf: what is estimated may rest on nothing that a later line says
	spent     time.Duration      // of trials and the starts that they needed, as the ledger has it
	trials    int                // that counted towards the budget
	marked    bool               // a trial has marks of a busy machine
	exhausted bool               // something was left undecided because the budget was spent
}

// chapter is a campaign with one model.
type chapter struct {
	*campaign
	model   string
	engine  planfile.Engine
	base    ledger.Setting
	options []planfile.Option
	all     []alternative
	answers []Answer // of the baseline; nil: not asked yet
	mainly  planfile.Workload
	service service // what is known of the bounds that the baseline has to keep
	untried bool    // the budget ended before all options had been tried
	works   string  // why nothing can be decided: the baseline's failure; empty: it works
}

// Run carries out a campaign, or goes on with one, and returns when it is over, cut or cannot go on. An
// error of ctx means that it was cut and can be taken up again; UsageError and ChangedError that nothing
// was started.
func Run(ctx context.Context, config Config) (*Result, error) {
	if config.Limit == 0 {
		config.Limit = DefaultMaxCandidates
	}
	if config.Say == nil {
		config.Say = func(string) {}
	}
	if err := CheckCandidates(config.Plan, config.Limit); err != nil {
		return nil, err
	}
	c := &campaign{Config: config, plan: config.Plan, hashes: map[string]string{}, identities: map[string]Identity{}, seen: map[string]effort{}, started: map[string]float64{}}
	if err := c.open(); err != nil {
		return nil, err
	}
	defer c.close()
	if tidier, is := c.Measurer.(Tidier); is {
		tidier.Tidy()
	}
	if err := c.begin(ctx); err != nil {
		return nil, err
	}
	result, err := c.run(ctx)
	if ctx.Err() != nil {
		c.stopServer()
		end := ledger.End{State: "interrupted", Exit: 130, Text: "cut before it was decided; the same command goes on"}
		return &Result{End: end, Trials: c.trials}, errors.Join(ctx.Err(), c.book.append(ledger.Line{Kind: ledger.KindEnd, End: &end}))
	}
	return result, err
}

// open takes the directory: ledger, lock, and the plan that it was begun with.
func (c *campaign) open() error {
	before, err := os.ReadFile(filepath.Join(c.Dir, "plan.yaml"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	book, lines, err := openBook(c.Dir, c.Now)
	switch {
	case errors.Is(err, ledger.ErrInUse):
		return &UsageError{err.Error()}
	case err != nil:
		return err
	}
	c.book = book
	if kind, other := c.kindOf(lines); other {
		text := fmt.Sprintf("%s holds a %s campaign, which this one would mix with: choose another --out", c.Dir, kind)
		return errors.Join(&UsageError{text}, c.book.file.Close())
	}
	if len(lines) > 0 && string(before) != string(c.PlanText) {
		if !c.Changed {
			return errors.Join(&ChangedError{Dir: c.Dir, Diff: difference(string(before), string(c.PlanText))}, c.book.file.Close())
		}
		if err := c.book.note("the plan has changed:\n" + difference(string(before), string(c.PlanText))); err != nil {
			return errors.Join(err, c.book.file.Close())
		}
	}
	if err := ledger.WriteFile(filepath.Join(c.Dir, "plan.yaml"), c.PlanText); err != nil {
		return errors.Join(err, c.book.file.Close())
	}
	return nil
}

// kindOf reports whether the lines of a ledger are of the other kind, simulated or measured.
func (c *campaign) kindOf(lines []ledger.Line) (kind string, other bool) {
	for _, line := range lines {
		if line.Campaign != nil && line.Campaign.Simulated != c.Simulated {
			return map[bool]string{true: "simulated", false: "measured"}[line.Campaign.Simulated], true
		}
	}
	return "", false
}

func (c *campaign) close() {
	c.stopServer()
	_ = c.book.file.Close()
}

// begin writes what the campaign is and where it runs.
func (c *campaign) begin(ctx context.Context) (err error) {
	if c.machine, err = c.Measurer.Machine(ctx); err != nil {
		return err
	}
	for _, workload := range c.plan.Workloads {
		if c.hashes[workload.Name], err = c.Measurer.Hash(ctx, workload, c.plan.Models[0], c.plan.Seed); err != nil {
			return fmt.Errorf("workload %s: %w", workload.Name, err)
		}
	}
	if c.book.resumed {
		if err := c.book.note("resumed: trials that have ended are not measured again"); err != nil {
			return err
		}
	}
	if err := c.book.append(ledger.Line{Kind: ledger.KindCampaign, Campaign: c.describe()}); err != nil {
		return err
	}
	if err := c.book.append(ledger.Line{Kind: ledger.KindMachine, Machine: &c.machine}); err != nil {
		return err
	}
	if c.machine.Load > busyLoad*float64(c.machine.Processors) {
		text := fmt.Sprintf("the machine is busy: a load of %.1f on %d processors before anything was started, so intervals will be wide", c.machine.Load, c.machine.Processors)
		c.Say(text)
		return c.book.note(text)
	}
	return nil
}

// busyLoad is the load for each processor from which a machine is called busy.
const busyLoad = 0.25

// describe is the plan as the ledger has it.
func (c *campaign) describe() *ledger.Campaign {
	plan := c.plan
	out := &ledger.Campaign{Name: plan.Name, Models: plan.Models, Plan: digest(string(c.PlanText)), Seed: plan.Seed,
		Simulated: c.Simulated, Flags: c.Flags, Version: c.Version, Compared: c.Compared, Rules: method(),
		Objective: ledger.Objective{Metric: plan.Objective.Metric, Maximize: plan.Objective.Maximize, Workload: plan.Objective.On, Per: plan.Objective.Per, SLA: plan.Objective.SLA}}
	for _, engine := range plan.Engines {
		out.Engines = append(out.Engines, engine.Name)
	}
	for _, option := range plan.Options {
		flags := map[string][]string{}
		for _, flag := range option.Flags {
			flags[flag.Name] = flag.Values
		}
		out.Options = append(out.Options, ledger.Option{Engine: option.Engine, Name: option.Name, Flags: flags, Opaque: option.Opaque, Lossy: option.Lossy})
	}
	for _, workload := range plan.Workloads {
		extra := map[string]string{}
		for key, value := range workload.Extra {
			extra[key] = fmt.Sprint(value)
		}
		out.Workloads = append(out.Workloads, ledger.Workload{Name: workload.Name, Dataset: workload.Dataset, InputLen: workload.InputLen, OutputLen: workload.OutputLen,
			NumPrompts: workload.NumPrompts, Rate: workload.RequestRate, Concurrent: workload.MaxConcurrency, Chat: workload.Endpoint == "chat", Extra: extra, Hash: c.hashes[workload.Name]})
	}
	return out
}

// run carries out the method for each model, and writes the end.
func (c *campaign) run(ctx context.Context) (*Result, error) {
	end := ledger.End{State: "done", Winner: map[string]ledger.Setting{}}
	for number, model := range c.plan.Models {
		c.share(len(c.plan.Models) - number)
		chapter := &chapter{campaign: c, model: model, mainly: c.workload(c.plan.Objective.On)}
		winner, decided, err := chapter.run(ctx)
		if err != nil {
			return nil, err
		}
		if winner != nil {
			end.Winner[model] = *winner
		}
		if !decided {
			end.Exit = 1
		}
	}
	if c.exhausted {
		end.State = "budget"
	}
	if len(end.Winner) == 0 {
		end.Text = "no engine served a model"
	}
	if err := c.book.append(ledger.Line{Kind: ledger.KindEnd, End: &end}); err != nil {
		return nil, err
	}
	return &Result{End: end, Trials: c.trials, Noisy: c.marked}, nil
}

// share gives the next chapter its part of what is left of the budget.
func (c *campaign) share(chapters int) {
	if all := c.plan.Budget.Time; all > 0 {
		c.budget.Time = c.spent + max(0, all-c.spent)/time.Duration(chapters)
	}
	if all := c.plan.Budget.Trials; all > 0 {
		c.budget.Trials = c.trials + max(1, all-c.trials)/chapters
	}
}

// run is the method of lab.md 4 for one model. It returns the recommended setting, nil if no engine
// serves, and whether that is more than "nothing could be decided".
func (c *chapter) run(ctx context.Context) (winner *ledger.Setting, decided bool, err error) {
	found, err := c.chooseEngine(ctx)
	if err != nil || !found {
		return nil, false, err
	}
	survivors, joint, err := c.screen()
	if err != nil {
		return nil, false, err
	}
	if survivors, err = c.smoke(ctx, survivors); err != nil || c.works != "" {
		return nil, false, err
	}
	raced, err := c.race(ctx, survivors)
	if err != nil {
		return nil, false, err
	}
	if c.works != "" {
		return nil, false, c.book.decide(ledger.Decision{Stage: ledger.StageWinner, Model: c.model, Subject: printSetting(c.base), Setting: &c.base, Workload: c.mainly.Name,
			Metric: c.plan.Objective.Metric, Verdict: ledger.NotDecided, Reason: c.works, Rule: "without the baseline nothing can be compared"})
	}
	best, err := c.interact(ctx, raced, joint)
	if err != nil {
		return nil, false, err
	}
	if err := c.generalise(ctx, best); err != nil {
		return nil, false, err
	}
	return &best.setting, best.decided, c.conclude(best)
}

// workload is that of the plan with a name, which the plan's reader has checked to be there.
func (c *campaign) workload(name string) planfile.Workload {
	at := slices.IndexFunc(c.plan.Workloads, func(w planfile.Workload) bool { return w.Name == name })
	return c.plan.Workloads[at]
}

// draw is a generator for one purpose: the same plan draws the same, whatever was drawn for others.
func (c *campaign) draw(purpose ...string) *rand.Rand {
	sum := digest(append([]string{strconv.FormatUint(c.plan.Seed, 10)}, purpose...)...)
	high, _ := strconv.ParseUint(sum[:16], 16, 64) // hexadecimal digits, so no error
	low, _ := strconv.ParseUint(sum[16:32], 16, 64)
	return rand.New(rand.NewPCG(high, low))
}
