package lab

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"ossian/internal/lab/ledger"
)

// smoke runs the baseline and each survivor once on a part of the workload and returns those that
// start, answer, answer the same and are not several times slower (lab.md 4, item 3).
func (c *chapter) smoke(ctx context.Context, survivors []int) (left []int, err error) {
	first, err := c.attempt(ctx, shot{setting: c.base, workload: c.mainly, role: ledger.RoleSmoke, share: smokeShare})
	if err != nil && !errors.Is(err, errBudgetEnded) {
		return nil, err
	}
	if reason := c.failing(first.Trial, 0); reason != "" {
		c.works = reason
		return nil, c.decideSmoke("baseline", c.base, c.verdictOf(first), reason, ids(first)...)
	}
	if err := c.askBaseline(ctx); err != nil {
		return nil, err
	}
	best := rateOf(first.Trial)
	exhausted := map[int]bool{} // alternatives that ran out of memory
	for _, at := range survivors {
		setting := combine(c.engine.Name, &c.all[at])
		if smaller, larger := c.beyond(at, exhausted); larger {
			if err := c.decideSmoke(c.all[at].subject(c.options), setting, ledger.Dropped, fmt.Sprintf("out of memory with %s already", c.all[smaller].name)); err != nil {
				return nil, err
			}
			continue
		}
		try, err := c.firstRun(ctx, shot{setting: setting, workload: c.mainly, role: ledger.RoleSmoke, share: smokeShare}, best)
		if err != nil && !errors.Is(err, errBudgetEnded) {
			return nil, err
		}
		best = max(best, rateOf(try.Trial))
		exhausted[at] = strings.HasPrefix(try.Reason, "out of memory")
		reason := c.failing(try.Trial, best)
		if reason == "" {
			if reason, err = c.compareAnswers(ctx, setting, c.all[at].lossy); err != nil {
				return nil, err
			}
		}
		verdict := ledger.Works
		if reason != "" {
			verdict = c.verdictOf(try)
			c.untried = c.untried || verdict == ledger.NotDecided
			c.Say(fmt.Sprintf("%s is out: %s", c.all[at].subject(c.options), reason))
		} else {
			left = append(left, at)
		}
		if err := c.decideSmoke(c.all[at].subject(c.options), setting, verdict, reason, ids(try)...); err != nil {
			return nil, err
		}
	}
	return left, nil
}

// beyond reports whether an alternative asks for no less than one of its option that ran out of memory,
// and which that was.
func (c *chapter) beyond(at int, exhausted map[int]bool) (smaller int, larger bool) {
	for other := range c.all {
		if exhausted[other] && c.all[at].atLeast(&c.all[other]) {
			return other, true
		}
	}
	return 0, false
}

func (c *chapter) decideSmoke(subject string, setting ledger.Setting, verdict, reason string, trials ...string) error {
	return c.book.decide(ledger.Decision{Stage: ledger.StageSmoke, Model: c.model, Subject: subject, Setting: &setting, Workload: c.mainly.Name,
		Verdict: verdict, Rule: ruleSmoke + "; outputs are those of the baseline", Reason: reason, Trials: trials})
}
