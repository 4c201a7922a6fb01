package lab

import (
	"errors"
	"time"

	"ossian/internal/lab/ledger"
)

// errBudgetEnded unwinds what was under way when the budget's time was spent: a trial that was cut, or one
// that was not begun.
var errBudgetEnded = errors.New(ReasonBudget)

// reasonUntried is why nothing is known of a setting whose turn did not come.
const reasonUntried = "the budget's time was spent before it was tried"

// reasonCut is why nothing is known of a setting whose first run the budget ended.
const reasonCut = "the budget's time was spent during its first run"

// left is what the budget's time has room for; false: there is no such budget.
func (c *campaign) left() (time.Duration, bool) {
	return max(0, c.budget.Time-c.spent), c.budget.Time > 0
}

// leftServing is the same for a run of a server that is ready, whose start counts as account has it: so
// that a run that is cut spends the budget to its end, whatever starts an earlier process needed.
func (c *campaign) leftServing(server string) (time.Duration, bool) {
	left, bounded := c.left()
	if server != c.lastUsed {
		left -= time.Duration(c.book.ready[server] * float64(time.Second))
	}
	return max(0, left), bounded
}

// stands reports whether an ended trial of the ledger need not be measured again. One that the budget cut
// is tried again when the budget has grown.
func (c *campaign) stands(trial *ledger.Trial) bool {
	if trial.State != ledger.StateCut || trial.Reason != ReasonBudget {
		return true
	}
	left, bounded := c.leftServing(serverOf(trial.Setting, trial.Model))
	return bounded && left.Seconds() <= trial.Seconds+1e-6 // of rounding to nanoseconds
}

// cutByBudget is a trial that the budget's end cut after some seconds, of limit that there were.
func cutByBudget(trial ledger.Trial, limit time.Duration) ledger.Trial {
	trial.State, trial.Reason = ledger.StateCut, ReasonBudget
	trial.Seconds = max(trial.Seconds, limit.Seconds())
	return trial
}

// ids are those of trials that were begun.
func ids(outcomes ...outcome) []string {
	var out []string
	for _, outcome := range outcomes {
		if outcome.id != "" {
			out = append(out, outcome.id)
		}
	}
	return out
}
