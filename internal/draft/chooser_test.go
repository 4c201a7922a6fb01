package draft

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// Costs of a step with n tokens, divided by those of one token, as they were measured
// (speculation.md 7), and two of other kinds.
var worlds = map[string][]float64{ // at 1, 2, 3, 4, 5, 6, 8, 12, 16, 64 tokens
	"dense":              {1, 1.26, 1.34, 1.20, 1.26, 1.37, 1.54, 1.91, 2.10, 6},
	"mixture":            {1, 1.54, 2.05, 2.40, 2.82, 3.38, 3.88, 5.2, 6.5, 20},
	"mixture, large":     {1, 1.52, 2.03, 2.52, 2.99, 3.45, 4.33, 5.92, 7.32, 24},
	"nothing is shared":  {1, 2, 3, 4, 5, 6, 8, 12, 16, 64},
	"nearly straight":    {1, 1.31, 1.5, 1.65, 1.85, 2.05, 2.5, 3.4, 4.3, 14}, // the embedded model
	"almost all of it":   {1, 1.01, 1.01, 1.02, 1.02, 1.03, 1.04, 1.06, 1.08, 1.4},
	"prices have a step": {1, 1.8, 1.8, 1.8, 1.8, 1.8, 1.8, 3, 3, 12},
}

// price is a world's cost.
func price(world []float64, tokens int) float64 {
	at := []int{1, 2, 3, 4, 5, 6, 8, 12, 16, 64}
	for i := 1; i < len(at); i++ {
		if tokens <= at[i] {
			share := float64(tokens-at[i-1]) / float64(at[i]-at[i-1])
			return world[i-1]*(1-share) + world[i]*share
		}
	}
	return world[len(world)-1] * float64(tokens) / 64
}

// A play is steps of rows sequences that all offer guesses.
type play struct {
	world  []float64
	rows   int
	offer  int                                      // guesses
	chance func(step int) float64                   // of each guess to come true when those before it did
	match  func(random *rand.Rand) int              // of proposals
	clock  func(step, tokens int, true float64) any // what is observed: seconds, nil = nothing
}

// run plays so many steps, and returns how many ids came for the time of one token.
func (p *play) run(chooser *Chooser, steps int) (speed float64) {
	random := rand.New(rand.NewPCG(11, 13))
	counts, proposals := make([]int, p.rows), make([]Proposal, p.rows)
	ids, spent := 0.0, 0.0
	for step := range steps {
		for i := range proposals {
			proposals[i] = Proposal{FromIndex, p.match(random), p.offer}
		}
		chooser.Choose(counts, p.rows, proposals)
		tokens := p.rows
		for i, n := range counts {
			tokens += n
			accepted := 0
			for accepted < n && random.Float64() < p.chance(step) {
				accepted++
			}
			ids += float64(1 + accepted)
			if n > 0 {
				chooser.Outcome(proposals[i], n, accepted)
			}
		}
		cost := price(p.world, tokens)
		spent += cost
		if seconds := p.clock(step, tokens, cost*0.05*(1+0.05*random.NormFloat64())); seconds != nil {
			chooser.Observe(tokens, time.Duration(seconds.(float64)*float64(time.Second)))
		}
	}
	return ids / spent * price(p.world, p.rows) / float64(p.rows) // without guesses: 1
}

func honest(_, _ int, seconds float64) any { return seconds }

func always(chance float64) func(int) float64 { return func(int) float64 { return chance } }

func matches(n int) func(*rand.Rand) int { return func(*rand.Rand) int { return n } }

// best is what a fixed number of guesses would give at most.
func best(world []float64, rows, offer int, chance float64) (speed float64) {
	expected, survives := 1.0, 1.0
	speed = 1
	for n := 1; n <= offer; n++ {
		survives *= chance
		expected += survives
		speed = max(speed, expected*price(world, rows)/price(world, rows*(1+n)))
	}
	return speed
}

// With a clock that tells the truth the chooser comes close to the best number of guesses in each
// world, and never loses much.
func TestChooserLearns(t *testing.T) {
	for name, world := range worlds {
		for _, rows := range []int{1, 4, 32} {
			for _, chance := range []float64{0, 0.2, 0.5, 0.8, 0.97} {
				p := &play{world, rows, 7, always(chance), matches(5), honest}
				got, want := p.run(NewChooser(true), 4000), best(world, rows, 7, chance)
				if got < 0.9*want || got < 0.97 {
					t.Errorf("%s, %d rows, chance %.2f: %.2f times as fast, %.2f possible", name, rows, chance, got, want)
				}
			}
		}
	}
}

// A few hundred steps in which guesses come true about as often as they cost lose little, what was
// not known at first included: neither one sequence alone nor many at a time.
func TestChooserBegins(t *testing.T) {
	few := func(random *rand.Rand) int { return 1 << random.IntN(4) }
	for _, name := range []string{"dense", "mixture", "nearly straight"} {
		for _, rows := range []int{1, 4, 8, 32} {
			for _, chance := range []float64{0.2, 0.3, 0.4} {
				if speed := (&play{worlds[name], rows, 7, always(chance), few, honest}).run(NewChooser(true), 400); speed < 0.98 {
					t.Errorf("%s, %d rows, chance %.1f: %.3f times as fast in the first 400 steps", name, rows, chance, speed)
				}
			}
		}
	}
}

// SPC-8: with guesses that are all wrong, whatever the clock says, a chooser is not more than 5 %
// slower than none, what it takes to find out included: the loss is bounded by how often it tries,
// not by what it is told. Where some guesses are right nobody can say more without a clock.
func TestSPC8LyingClock(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	liars := map[string]func(step, tokens int, seconds float64) any{
		"honest":            honest,
		"silent":            func(int, int, float64) any { return nil },
		"stopped":           func(int, int, float64) any { return 0.0 },
		"backwards":         func(_, _ int, seconds float64) any { return -seconds },
		"constant":          func(int, int, float64) any { return 0.05 },
		"the more the less": func(_, tokens int, _ float64) any { return 1 / float64(tokens) },
		"any":               func(int, int, float64) any { return math.Exp(10 * random.NormFloat64()) },
		"rather long":       func(_, tokens int, seconds float64) any { return seconds * float64(tokens) },
		"in turns": func(step, tokens int, seconds float64) any {
			if step/500%2 == 0 {
				return seconds
			}
			return 0.05 / float64(tokens)
		},
		"leaping": func(step, _ int, seconds float64) any { return seconds * float64(1+step%97*1000) },
	}
	for liar, clock := range liars {
		for _, name := range []string{"dense", "mixture", "nothing is shared"} {
			for _, rows := range []int{1, 8} {
				wrong := &play{worlds[name], rows, 7, always(0), func(random *rand.Rand) int { return 1 << random.IntN(7) }, clock}
				if speed := wrong.run(NewChooser(true), 10_000/rows); speed < 0.95 {
					t.Errorf("%s clock, %s, %d rows: %.3f times as fast with guesses that are all wrong", liar, name, rows, speed)
				}
			}
		}
	}
}

// Text changes its kind, and the machine its speed: what was learned before is given up.
func TestChooserAdapts(t *testing.T) {
	for _, name := range []string{"dense", "mixture"} {
		half := 3000
		turns := &play{worlds[name], 1, 7, func(step int) float64 {
			if step < half {
				return 0
			}
			return 0.9
		}, matches(5), honest}
		chooser := NewChooser(true)
		before := turns.run(chooser, half)
		after := (&play{worlds[name], 1, 7, always(0.9), matches(5), honest}).run(chooser, half)
		if want := best(worlds[name], 1, 7, 0.9); before < 0.97 || after < 1+0.5*(want-1) {
			t.Errorf("%s: %.2f with wrong guesses, then %.2f with right ones, %.2f possible", name, before, after, want)
		}
	}
	// Eight times the context: every step takes longer, more tokens no longer cost more.
	chooser := NewChooser(true)
	(&play{worlds["nothing is shared"], 1, 7, always(0.7), matches(5), honest}).run(chooser, 2000)
	if cost := chooser.Cost(4); cost < 2 {
		t.Errorf("a step with 4 tokens costs %.2f, no more than before anything was learned", cost)
	}
	(&play{worlds["almost all of it"], 1, 7, always(0.7), matches(5), honest}).run(chooser, 6000)
	if cost := chooser.Cost(4); cost > 1.3 {
		t.Errorf("a step with 4 tokens still costs %.2f", cost)
	}
}

// What may be chosen is what is offered and allowed, and without adaptivity that is taken.
func TestChooseBounds(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	fixed := &Settings{Method: Suffix, Tokens: 7, Batches: []BatchLimit{{1, 2, 5}, {3, 8, 0}}}
	for range 2000 {
		settings := *fixed
		settings.Adaptive = random.IntN(2) == 0
		chooser := settings.NewChooser()
		rows := 1 + random.IntN(12)
		proposals := make([]Proposal, random.IntN(rows+1))
		counts := make([]int, len(proposals))
		limit := MostTokens
		switch {
		case rows <= 2:
			limit = 5
		case rows <= 8:
			limit = 0
		}
		for i := range proposals {
			proposals[i] = Proposal{Source(random.IntN(sources)), random.IntN(70), random.IntN(MostTokens + 1)}
			counts[i] = 99
		}
		chooser.Choose(counts, rows, proposals)
		for i, n := range counts {
			if most := min(proposals[i].Len, limit); n < 0 || n > most || (!settings.Adaptive && n != most) {
				t.Fatalf("%d rows: %d guesses of %+v, at most %d", rows, n, proposals[i], most)
			}
		}
	}
}

// A chooser starts from usual costs, says what it has learned, and takes nothing else for a time.
func TestCost(t *testing.T) {
	chooser := NewChooser(true)
	if a, b := chooser.Cost(1), chooser.Cost(8); a != 1 || b != 1.5 {
		t.Errorf("at first a step costs %.2f and %.2f", a, b)
	}
	for _, tokens := range []int{-1, 0, 1000} {
		chooser.Observe(tokens, time.Second)
	}
	for range 20 {
		chooser.Observe(1, 10*time.Millisecond)
		chooser.Observe(8, 15*time.Millisecond)
		chooser.Observe(8, -time.Millisecond)
	}
	for tokens, want := range map[int]float64{0: 1, 1: 1, 8: 1.5} {
		if got := chooser.Cost(tokens); math.Abs(got-want) > 1e-9 {
			t.Errorf("a step with %d tokens costs %.3f, want %.3f", tokens, got, want)
		}
	}
	if far, farther := chooser.Cost(256), chooser.Cost(500); !(farther > far) {
		t.Errorf("a step with 256 tokens costs %.2f, one with 500 %.2f", far, farther)
	}
}

func FuzzChooser(f *testing.F) {
	f.Add([]byte{1, 7, 3, 0, 200, 4, 1, 9, 30, 12})
	f.Fuzz(func(t *testing.T, script []byte) {
		chooser := NewChooser(true)
		for len(script) >= 5 {
			at := script[:5]
			script = script[5:]
			proposal := Proposal{Source(at[0]), int(at[1]), int(at[2] % 32)}
			counts := []int{-1, -1}
			chooser.Choose(counts, int(at[3]), []Proposal{proposal, {FromStore, 3, 2}})
			if counts[0] < 0 || counts[0] > proposal.Len || counts[1] < 0 || counts[1] > 2 {
				t.Fatalf("%v guesses of %+v", counts, proposal)
			}
			chooser.Observe(int(at[3]), time.Duration(int64(at[4])-9)*time.Microsecond<<(at[0]%40))
			chooser.Outcome(proposal, int(at[2]%8), int(at[1]%9))
			if cost := chooser.Cost(int(at[2])); !(cost > 0) || math.IsInf(cost, 0) {
				t.Fatalf("cost %v", cost)
			}
		}
	})
}

func BenchmarkChoose(b *testing.B) {
	for _, rows := range []int{1, 32, 256} {
		b.Run(time.Duration(rows).String(), func(b *testing.B) {
			chooser, counts, proposals := NewChooser(true), make([]int, rows), make([]Proposal, rows)
			for i := range proposals {
				proposals[i] = Proposal{FromIndex, 1 + i%40, 7}
			}
			b.ReportAllocs()
			for b.Loop() {
				chooser.Choose(counts, rows, proposals)
			}
		})
	}
}
