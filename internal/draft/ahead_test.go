package draft

import (
	"testing"
	"time"
)

// A model is asked for as many guesses as pay: what it costs and how often it is right decide, and
// what was tried without success is tried again now and then.
func TestAhead(t *testing.T) {
	for _, tt := range []struct {
		name   string
		pass   time.Duration // of the model, for one guess
		right  int           // guesses of four that hold
		rows   int
		share  float64 // of a step's time, for each token beyond the first
		lo, hi int     // guesses in the end
	}{
		{name: "cheap and right", pass: time.Millisecond, right: 4, rows: 1, share: 0.1, lo: 7, hi: 7},
		{name: "cheap and wrong", pass: time.Millisecond, right: 0, rows: 1, share: 0.1},
		{name: "dear and right", pass: 12 * time.Millisecond, right: 4, rows: 1, share: 0.1},
		{name: "half as dear as a step, right", pass: 5 * time.Millisecond, right: 4, rows: 1, share: 0.1, lo: 7, hi: 7},
		{name: "cheap, often right", pass: time.Millisecond / 2, right: 3, rows: 1, share: 0.1, lo: 2, hi: 6},
		{name: "cheap and right, a token costs a step", pass: time.Millisecond, right: 4, rows: 4, share: 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := NewChooser(true)
			ahead, asked := 0, 0
			for range 400 {
				ahead, _ = c.Ahead(tt.rows, 7, FromModel)
				tokens := tt.rows * (1 + ahead)
				c.Observe(tokens, time.Duration(float64(10*time.Millisecond)*(1+tt.share*float64(tokens-1))))
				if ahead == 0 {
					continue
				}
				asked++
				c.ObserveAhead(tt.rows, ahead, time.Duration(ahead)*tt.pass)
				for range tt.rows {
					c.Outcome(Proposal{Source: FromModel, Len: ahead}, ahead, ahead*tt.right/4)
				}
			}
			if ahead < tt.lo || ahead > tt.hi {
				t.Errorf("%d guesses in the end, want %d to %d", ahead, tt.lo, tt.hi)
			}
			if most := 60; tt.hi == 0 && asked > most {
				t.Errorf("guessed in %d of 400 steps without a gain, want at most %d", asked, most)
			}
			t.Logf("guessed in %d of 400 steps, a guess costs %.2f of a step", asked, c.PassCost(tt.rows))
		})
	}
}

// Without a chooser's judgement there are as many as the operator says.
func TestAheadOfAll(t *testing.T) {
	c := NewChooser(false)
	c.batches = []BatchLimit{{From: 2, To: 8, Tokens: 3}, {From: 9, To: 64, Tokens: 0}}
	for rows, want := range map[int]int{1: 5, 2: 3, 9: 0} {
		if got, _ := c.Ahead(rows, 5, FromHead); got != want {
			t.Errorf("%d rows: %d guesses, want %d", rows, got, want)
		}
	}
}

// A model that was slow when it was first asked, as its weights were on the disk, is asked again.
func TestAheadAfterASlowStart(t *testing.T) {
	c, ahead := NewChooser(true), 0
	for step := range 2000 {
		ahead, _ = c.Ahead(1, 7, FromModel)
		c.Observe(1+ahead, 10*time.Millisecond)
		took := time.Millisecond
		if step < 5 {
			took = time.Second
		}
		if ahead > 0 {
			c.ObserveAhead(1, ahead, time.Duration(ahead)*took)
			c.Outcome(Proposal{Source: FromModel, Len: ahead}, ahead, ahead)
		}
	}
	if ahead != 7 {
		t.Errorf("%d guesses in the end, want 7", ahead)
	}
}

// What is guessed nowhere is tried again, as text becomes another.
func TestAheadTriesAgain(t *testing.T) {
	c := NewChooser(true)
	step := func(ahead int) { c.Observe(1+ahead, 10*time.Millisecond) }
	for range 200 {
		ahead, _ := c.Ahead(1, 7, FromModel)
		step(ahead)
		if ahead > 0 {
			c.ObserveAhead(1, ahead, time.Duration(ahead)*time.Millisecond)
			c.Outcome(Proposal{Source: FromModel, Len: ahead}, ahead, 0)
		}
	}
	tries := 0
	for range 20_000 {
		if ahead, _ := c.Ahead(1, 7, FromModel); ahead > 0 {
			tries++
			c.Outcome(Proposal{Source: FromModel, Len: ahead}, ahead, 0)
		}
		step(0)
	}
	if tries == 0 || tries > 1000 {
		t.Errorf("%d tries in 20000 steps, want a few", tries)
	}
}
