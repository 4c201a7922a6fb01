package lab

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"

	"ossian/internal/lab/ledger"
	"ossian/internal/lab/planfile"
	"ossian/internal/lab/race"
)

// Numbers of blocks, by stage, so that a block has the same number, and with it the same prompts and
// order, however many blocks the stages before it took.
const (
	engineBlocks     = 100
	designBlocks     = 200
	confirmBlocks    = 300
	generaliseBlocks = 400 // and 20 more for each workload
)

// Numbers of blocks of a race whose budget allows them (lab.md 4, items 4 and 6).
const (
	fewestBlocks = 3 // an interval needs them
	mostBlocks   = 20
)

// baseline is the name that the setting compared with has in every heat.
const baseline = "baseline"

// An entrant is a setting in a heat.
type entrant struct {
	name, group string
	setting     ledger.Setting
}

// A heat is a race that is being measured: settings against one of them on one workload.
type heat struct {
	role     string
	workload planfile.Workload
	first    int // number of the block before the first
	base     ledger.Setting
	entrants []entrant
	rules    race.Rules
	reserve  reserve  // of the budget, for what comes after
	lean     *reserve // the same as long as nothing is accepted, where that makes a difference
	optional bool     // not even its first blocks may use the reserve
}

// A reserve is a part of the budget that is left for later.
type reserve struct {
	trials  int
	seconds float64
}

// A tally is what came of a heat.
type tally struct {
	race.State
	blocks []map[string]outcome // by name; the baseline's is baseline
	broke  bool                 // the budget ended it
}

// rules are those of a race for the plan's objective.
func (c *chapter) rules() race.Rules {
	return race.Rules{LowerIsBetter: !c.plan.Objective.Maximize}
}

// compete measures blocks until the race is decided or the budget is spent. Where the rules do not say
// for how many blocks intervals are made, the first block tells how many the budget has room for.
func (c *chapter) compete(ctx context.Context, round heat) (tally, error) {
	names := []string{baseline}
	settings := map[string]ledger.Setting{baseline: round.base}
	for _, entrant := range round.entrants {
		names = append(names, entrant.name)
		settings[entrant.name] = entrant.setting
	}
	var out tally
	var contest *race.Race
	for {
		number := round.first + len(out.blocks) + 1
		dice := c.draw("order", c.model, round.role, round.workload.Name, strconv.Itoa(number))
		order, more := shuffled(names, dice.IntN), true
		if contest != nil {
			var turn race.Turn
			turn, more = contest.Next(dice.IntN)
			order = turn.Order
		}
		kept := round.reserve
		switch {
		case len(out.blocks) < fewestBlocks && !round.optional:
			kept = reserve{} // what comes later gives way: fewer blocks tell nothing
		case round.lean != nil && !anyAccepted(contest):
			kept = *round.lean
		}
		if out.broke = more && !c.affords(round.workload, kept, order, settings); !more || out.broke {
			break
		}
		outcomes, err := c.block(ctx, round, number, order, settings)
		if out.broke = errors.Is(err, errBudgetEnded); out.broke { // what was measured of the block compares with nothing
			break
		}
		if err != nil {
			return tally{}, err
		}
		out.blocks = append(out.blocks, outcomes)
		if contest == nil {
			if contest, err = c.contest(round, order, settings); err != nil {
				return tally{}, err
			}
		}
		if err := contest.AddHeld(c.values(outcomes), c.holds(round, out.blocks)); err != nil {
			return tally{}, err
		}
	}
	if contest == nil { // not one block: the race says that nothing was measured
		var err error
		if contest, err = c.contest(round, names, settings); err != nil {
			return tally{}, err
		}
	}
	out.State = contest.State()
	c.exhausted = c.exhausted || out.broke
	return out, nil
}

func anyAccepted(contest *race.Race) bool {
	return contest != nil && slices.ContainsFunc(contest.State().Standings, func(standing race.Standing) bool { return standing.Verdict == race.Accepted })
}

// contest is the race of a heat whose first block has been measured.
func (c *chapter) contest(round heat, order []string, settings map[string]ledger.Setting) (*race.Race, error) {
	rules := round.rules
	if rules.Planned == 0 {
		kept := round.reserve
		if round.lean != nil {
			kept = *round.lean
		}
		rules.Planned = min(max(fewestBlocks, 1+c.room(round.workload, kept, order, settings)), mostBlocks)
		rules.Most = mostBlocks
	}
	var candidates []race.Candidate
	for _, entrant := range round.entrants {
		candidates = append(candidates, race.Candidate{Name: entrant.name, Group: entrant.group})
	}
	return race.New(rules, baseline, candidates)
}

// shuffled is a random order of names.
func shuffled(names []string, below func(n int) int) []string {
	out := slices.Clone(names)
	for last := len(out) - 1; last > 0; last-- {
		other := below(last + 1)
		out[last], out[other] = out[other], out[last]
	}
	return out
}

// room is how many more blocks of some settings the budget has room for beside a reserve; mostBlocks
// without a budget.
func (c *chapter) room(workload planfile.Workload, kept reserve, order []string, settings map[string]ledger.Setting) int {
	seconds := 0.0
	for _, name := range order {
		seconds += c.cost(settings[name], workload)
	}
	blocks := mostBlocks
	if budget := c.budget.Trials; budget > 0 {
		blocks = min(blocks, (budget-c.trials-kept.trials)/len(order))
	}
	if budget := c.budget.Time; budget > 0 && seconds > 0 {
		blocks = min(blocks, int((budget-c.spent).Seconds()-kept.seconds)/int(math.Ceil(seconds)))
	}
	return max(0, blocks)
}

// block measures each of the settings that are due once, on the block's prompts.
func (c *chapter) block(ctx context.Context, round heat, number int, order []string, settings map[string]ledger.Setting) (map[string]outcome, error) {
	out := map[string]outcome{}
	for _, name := range order {
		result, err := c.attempt(ctx, shot{setting: settings[name], workload: round.workload, role: round.role, block: number, share: 1})
		if err != nil {
			return nil, err
		}
		out[name] = result
	}
	return out, nil
}

// values are the objectives of a block; what did not succeed is missing.
func (c *chapter) values(outcomes map[string]outcome) race.Block {
	out := race.Block{}
	for name, outcome := range outcomes {
		if value, there := c.value(outcome.Trial); there && outcome.State == ledger.StateOK {
			out[name] = value
		}
	}
	return out
}

// affords reports whether the budget has room for a block and for what is reserved.
func (c *chapter) affords(workload planfile.Workload, kept reserve, order []string, settings map[string]ledger.Setting) bool {
	seconds := kept.seconds
	for _, name := range order {
		seconds += c.cost(settings[name], workload)
	}
	budget := c.budget
	return (budget.Trials == 0 || c.trials+len(order)+kept.trials <= budget.Trials) &&
		(budget.Time == 0 || c.spent.Seconds()+seconds <= budget.Time.Seconds())
}

// cost estimates the seconds of a trial and its server's start, from those of the same workload, or from
// the tokens of others.
func (c *chapter) cost(setting ledger.Setting, workload planfile.Workload) float64 {
	start := c.started[serverOf(setting, c.model)]
	if start == 0 {
		start = c.started[serverOf(c.base, c.model)]
	}
	if seen := c.seen[workload.Name]; seen.trials > 0 {
		return start + seen.whole/float64(seen.trials)
	}
	var seconds, tokens float64
	for _, known := range c.plan.Workloads { // in order: sums of floats depend on it
		seen := c.seen[known.Name]
		seconds, tokens = seconds+seen.seconds, tokens+seen.tokens
	}
	if tokens == 0 {
		return start
	}
	return start + seconds/tokens*plannedTokens(workload)
}

// effort is what trials of a workload have taken.
type effort struct {
	seconds, tokens float64
	trials          int     // of the whole workload
	whole           float64 // seconds of those
}

// plannedTokens is about how many tokens a workload has. Where the data set decides, requests are taken
// to be as long as ShareGPT's.
func plannedTokens(workload planfile.Workload) float64 {
	length := workload.InputLen + workload.OutputLen
	if length == 0 {
		length = 430
	}
	return float64(workload.NumPrompts * length)
}

// effect is a gain as ledger and report have it: relative to the baseline in the metric's own
// direction, so that -0.1 of a time is an improvement.
func (c *chapter) effect(gain, low, high float64, formed bool) *ledger.Interval {
	if !formed {
		return nil
	}
	if c.plan.Objective.Maximize {
		return &ledger.Interval{Value: gain, Low: low, High: high}
	}
	turn := func(share float64) float64 { return 1/(1+share) - 1 }
	return finite(&ledger.Interval{Value: turn(gain), Low: turn(high), High: turn(low)})
}

// finite keeps ends that JSON has no number for out of the ledger.
func finite(interval *ledger.Interval) *ledger.Interval {
	for _, end := range []*float64{&interval.Low, &interval.Value, &interval.High} {
		*end = min(max(*end, -1), math.MaxFloat64)
	}
	return interval
}

// decisionOf is what a race says of an entrant, for the ledger.
func (c *chapter) decisionOf(stage string, round heat, result tally, entrant entrant) ledger.Decision {
	standing := result.standing(entrant.name)
	decision := ledger.Decision{Stage: stage, Model: c.model, Subject: entrant.name, Setting: &entrant.setting, Against: &round.base,
		Workload: round.workload.Name, Metric: c.plan.Objective.Metric, Verdict: verdictOf(standing), Reason: standing.Reason, Rule: result.Rule, Blocks: standing.Blocks,
		Effect: c.effect(standing.Gain, standing.Interval.Low, standing.Interval.High, standing.Formed), Trials: result.trials(baseline, entrant.name)}
	if standing.Verdict == race.Accepted && standing.Beaten != "" {
		decision.Reason = "better than the baseline, and " + standing.Beaten + " is better still"
	}
	if decision.Verdict == ledger.NotDecided && result.broke {
		decision.Reason += "; the budget was spent"
	}
	return decision
}

// verdictOf translates a standing. Who was accepted and then beaten by a rival is not kept.
func verdictOf(standing race.Standing) string {
	switch {
	case standing.Verdict == race.Accepted && standing.Beaten == "":
		return ledger.Kept
	case standing.Verdict == race.NotDecided:
		return ledger.NotDecided
	}
	return ledger.Rejected
}

// standing is that of an entrant by name.
func (t *tally) standing(name string) race.Standing {
	for _, standing := range t.Standings {
		if standing.Name == name {
			return standing
		}
	}
	panic(fmt.Sprintf("lab: %q was in no race", name)) // names come from the heat itself
}

// trials are the ids of all trials of some entrants.
func (t *tally) trials(names ...string) []string {
	var out []string
	for _, block := range t.blocks {
		for _, name := range names {
			if outcome, there := block[name]; there {
				out = append(out, outcome.id)
			}
		}
	}
	return out
}
