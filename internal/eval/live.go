package eval

import (
	"sync"
	"time"

	"ossian/internal/eval/ask"
)

// enough is how many answers an estimate is made of.
const enough = 8

// A Live is the state of a run that goes on. Its methods may be called by any goroutine.
type Live struct {
	mu          sync.Mutex // guards all below
	total       int        // answers
	before      int        // of them, those that were there when the run began
	concurrency int
	running     int
	answers     int // that came
	tokens      int // output of these, as far as it is told
	seconds     float64
	began       time.Time
	expected    *Expected
}

// An Expected is what the first answers say of the rest.
type Expected struct {
	Tokens float64       // output of all that is still to be asked
	Time   time.Duration // that it takes
}

// A State is a Live at one moment.
type State struct {
	Total, Done, Running, Tokens int
	Elapsed                      time.Duration
	Left                         time.Duration // at the rate so far; 0 = not known yet
	Expected                     *Expected     // of the first answers; nil before there are enough
}

func newLive(total, before, concurrency int) *Live {
	return &Live{total: total, before: before, concurrency: concurrency, began: time.Now()}
}

func (l *Live) begin() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.running++
}

// end counts an answer, where there was one.
func (l *Live) end(answer *ask.Answer, came bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.running--
	if !came {
		return
	}
	l.answers++
	l.tokens += max(answer.Output, 0)
	l.seconds += answer.Total.Seconds()
	if l.answers == enough {
		left := float64(l.total - l.before - l.answers)
		at := float64(max(min(l.concurrency, l.total-l.before), 1))
		l.expected = &Expected{float64(l.tokens) / enough * left, time.Duration(l.seconds / enough * left / at * float64(time.Second))}
	}
}

// State returns the state.
func (l *Live) State() State {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := State{Total: l.total, Done: l.before + l.answers, Running: l.running, Tokens: l.tokens, Elapsed: time.Since(l.began), Expected: l.expected}
	if l.answers >= enough {
		s.Left = time.Duration(float64(s.Elapsed) / float64(l.answers) * float64(s.Total-s.Done))
	}
	return s
}
