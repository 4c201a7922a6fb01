package engine

import (
	"fmt"
	"strings"
	"time"

	"ossian/internal/sched"
)

// sayGuessesEvery is how often the log says what has come of guesses, while there are any.
const sayGuessesEvery = 10 * time.Minute

// A guessLog says what has come of guesses since it said so last. Its counts are of one loop.
type guessLog struct {
	at   time.Time // of the last line, or when the loop began
	said sched.GuessStats
}

// sayGuesses writes what has come of guesses into the log: at times, and with last at the end.
func (l *life) sayGuesses(now time.Time, last bool) {
	if l.guessLog.at.IsZero() {
		l.guessLog.at = now
	}
	if !last && now.Sub(l.guessLog.at) < sayGuessesEvery {
		return
	}
	counted := l.sched.Stats().Guesses
	before := &l.guessLog.said
	rows := counted.Rows - before.Rows
	l.guessLog.at = now
	if rows == 0 {
		return
	}
	var guessed, held uint64
	for source := range counted.Guessed {
		guessed += counted.Guessed[source] - before.Guessed[source]
		held += counted.Accepted[source] - before.Accepted[source]
	}
	l.eng.log.Info("guesses", "steps", rows, "tokens_per_step", fmt.Sprintf("%.2f", 1+float64(held)/float64(rows)),
		"held", fmt.Sprintf("%.0f %%", 100*float64(held)/float64(guessed)), "by_place", byPlace(&counted, before, rows))
	*before = counted
}

// byPlace is how many of a hundred steps each guess held in, the first guess first, down to the last
// that ever did.
func byPlace(counted, before *sched.GuessStats, rows uint64) string {
	var out strings.Builder
	for place, held := range counted.AcceptedAt {
		if held == before.AcceptedAt[place] {
			break
		}
		fmt.Fprintf(&out, "%.0f ", 100*float64(held-before.AcceptedAt[place])/float64(rows))
	}
	return out.String() + "%"
}
