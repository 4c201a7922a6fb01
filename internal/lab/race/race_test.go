package race

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"ossian/internal/soak"
)

func named(names ...string) []Candidate {
	var out []Candidate
	for _, name := range names {
		out = append(out, Candidate{Name: name})
	}
	return out
}

// start returns a race to which the blocks were added.
func start(t *testing.T, rules Rules, candidates []Candidate, blocks ...Block) *Race {
	t.Helper()
	race, err := New(rules, "baseline", candidates)
	if err != nil {
		t.Fatal(err)
	}
	for _, block := range blocks {
		if err := race.Add(block); err != nil {
			t.Fatal(err)
		}
	}
	return race
}

func TestBadInput(t *testing.T) {
	for name, c := range map[string]struct {
		rules      Rules
		candidates []Candidate
		block      Block
		want       string
	}{
		"no candidates":   {candidates: nil, want: "no candidates"},
		"twice":           {candidates: named("a", "a"), want: `"a" is there twice`},
		"the baseline":    {candidates: named("baseline"), want: `"baseline" is there twice`},
		"level":           {rules: Rules{Level: 5}, candidates: named("a"), want: "level 5"},
		"least":           {rules: Rules{Least: -0.01}, candidates: named("a"), want: "least gain -0.01"},
		"planned":         {rules: Rules{Planned: 2}, candidates: named("a"), want: "2 planned blocks"},
		"budget":          {rules: Rules{Most: -1}, candidates: named("a"), want: "budget of -1"},
		"failures":        {rules: Rules{Failures: -1}, candidates: named("a"), want: "-1 failures"},
		"unknown name":    {candidates: named("a"), block: Block{"baseline": 1, "b": 1}, want: `block 1: "b" is neither`},
		"zero":            {candidates: named("a"), block: Block{"baseline": 1, "a": 0}, want: "block 1: a is 0"},
		"negative":        {candidates: named("a"), block: Block{"baseline": -1, "a": 1}, want: "baseline is -1"},
		"not a number":    {candidates: named("a"), block: Block{"baseline": 1, "a": math.NaN()}, want: "a is NaN"},
		"infinite values": {candidates: named("a"), block: Block{"baseline": 1, "a": math.Inf(1)}, want: "a is +Inf"},
	} {
		race, err := New(c.rules, "baseline", c.candidates)
		if err == nil && c.block != nil {
			err = race.Add(c.block)
			if blocks := race.State().Blocks; blocks != 0 {
				t.Errorf("%s: %d blocks after a refused one", name, blocks)
			}
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", name, err, c.want)
		}
	}
}

// A state is a function of the blocks: adding them again, all or from the middle on,
// gives the same state and the same blocks to come.
func TestResume(t *testing.T) {
	c := campaign{effects: []float64{0, 0.05, -0.05, 0.08}, noise: normal(0.02), block: 0.05, rivals: true,
		missing: func(rng *rand.Rand, name string) bool { return name == "option-0" && rng.IntN(8) == 0 }}
	for seed := range uint64(20) {
		race := start(t, Rules{}, c.candidates())
		state := c.run(t, race, rand.New(rand.NewPCG(seed, 1)))
		again := race.Again()
		for _, block := range race.blocks {
			if _, more := again.Next(rand.IntN); !more {
				t.Fatalf("seed %d: ended after %d blocks, %d before", seed, len(again.blocks), len(race.blocks))
			}
			if err := again.Add(block); err != nil {
				t.Fatal(err)
			}
		}
		if got := again.State(); !reflect.DeepEqual(got, state) {
			t.Fatalf("seed %d: %+v\nbefore %+v", seed, got, state)
		}
		if _, err := json.Marshal(state); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}

// The order within blocks is even: each runs first, last and in between equally often.
func TestOrder(t *testing.T) {
	race := start(t, Rules{}, named("a", "b", "c"))
	rng := rand.New(rand.NewPCG(1, 1))
	counts := map[string][4]int{}
	for range 4000 {
		turn, _ := race.Next(rng.IntN)
		if turn.Number != 1 || len(turn.Order) != 4 {
			t.Fatal(turn)
		}
		for place, name := range turn.Order {
			row := counts[name]
			row[place]++
			counts[name] = row
		}
	}
	for name, row := range counts {
		for place, count := range row {
			if math.Abs(float64(count)-1000) > 4*math.Sqrt(750) {
				t.Errorf("%s runs %d times of 4000 in place %d", name, count, place)
			}
		}
	}
}

// Without noise (a simulated server) three or four blocks decide, and exactly.
func TestWithoutNoise(t *testing.T) {
	block := Block{"baseline": 1000, "same": 1000, "better": 1120, "worse": 900, "little": 1005}
	var candidates []Candidate
	for _, name := range []string{"same", "better", "worse", "little"} {
		candidates = append(candidates, Candidate{Name: name, Group: name})
	}
	race := start(t, Rules{}, candidates)
	for {
		turn, more := race.Next(func(int) int { return 0 })
		if !more {
			break
		}
		values := Block{}
		for _, name := range turn.Order {
			values[name] = block[name]
		}
		if err := race.Add(values); err != nil {
			t.Fatal(err)
		}
	}
	state := race.State()
	want := []Verdict{Rejected, Accepted, Rejected, Rejected}
	for i, standing := range state.Standings {
		if standing.Verdict != want[i] || standing.Racing {
			t.Errorf("%+v, want %s", standing, want[i])
		}
	}
	if state.End != OneLeft || state.Blocks > 8 || math.Abs(state.Standings[1].Gain-0.12) > 1e-9 {
		t.Errorf("%+v", state)
	}
}

// Two failures end a candidate, not the others; a baseline that fails twice ends the race.
func TestFailures(t *testing.T) {
	race := start(t, Rules{}, named("a", "b"), Block{"baseline": 100, "a": 101}, Block{"baseline": 99, "a": 100})
	state := race.State()
	if b := state.Standings[1]; b.Verdict != Rejected || b.Failures != 2 || b.Racing || !strings.Contains(b.Reason, "unstable") || b.Since != 2 {
		t.Errorf("%+v", b)
	}
	if a := state.Standings[0]; a.Verdict != NotDecided || !a.Racing || a.Blocks != 2 || a.Formed {
		t.Errorf("%+v", a)
	}
	turn, more := race.Next(rand.IntN)
	if !more || len(turn.Order) != 2 || turn.Number != 3 {
		t.Errorf("next %v %v", turn, more)
	}
	race = start(t, Rules{}, named("a"), Block{"a": 1}, Block{"a": 1})
	if _, more := race.Next(rand.IntN); more || race.State().End != Unheard {
		t.Errorf("%+v", race.State())
	}
}

// An option whose effect turns over in the middle of a campaign is no gain: its intervals
// exclude each other, and it is called undecided with that reason.
func TestContradiction(t *testing.T) {
	race := start(t, Rules{Most: 60, Planned: 60}, []Candidate{{Name: "turns", Group: "1"}, {Name: "stays", Group: "2"}})
	for n := range 40 {
		turns := 1030.0
		if n >= 15 {
			turns = 980
		}
		if err := race.Add(Block{"baseline": 1000, "turns": turns + float64(n%2), "stays": 1030 + float64(n%3)}); err != nil {
			t.Fatal(err)
		}
	}
	standings := race.State().Standings
	if turns := standings[0]; turns.Verdict != NotDecided || !(turns.Interval.Low < turns.Interval.High) || !strings.Contains(turns.Reason, "exclude each other") || turns.Racing {
		t.Errorf("%+v", turns)
	}
	if stays := standings[1]; stays.Verdict != Accepted {
		t.Errorf("%+v", stays)
	}
}

// Of equal rivals none is called better than another, in 95 % of campaigns at least,
// however many they are.
func TestEqualRivals(t *testing.T) {
	runs := soak.Cases(t, 200, 2000)
	for _, rivals := range []int{2, 4, 8} {
		c := campaign{noise: normal(0.02), rivals: true}
		for range rivals {
			c.effects = append(c.effects, 0.08)
		}
		race := start(t, Rules{}, c.candidates())
		falsely := 0
		for run := range runs {
			state := c.run(t, race.Again(), rand.New(rand.NewPCG(uint64(run), 3)))
			for _, standing := range state.Standings {
				if standing.Beaten != "" {
					falsely++
					break
				}
			}
		}
		t.Logf("%d rivals: one called better than another in %d of %d", rivals, falsely, runs)
		atMost(t, "equal rivals called different", falsely, runs, 0.05)
	}
}

// The better of two gains wins, and the other keeps its own finding.
func TestRivals(t *testing.T) {
	runs := soak.Cases(t, 200, 2000)
	c := campaign{effects: []float64{0.08, 0.16, 0}, noise: normal(0.02), rivals: true}
	race := start(t, Rules{}, c.candidates())
	apart, kept := 0, 0
	for run := range runs {
		state := c.run(t, race.Again(), rand.New(rand.NewPCG(uint64(run), 3)))
		if len(state.Best) == 1 && state.Best[0].Separated && state.Best[0].Best == "option-1" {
			apart++
		}
		if lesser := state.Standings[0]; lesser.Beaten == "option-1" && lesser.Interval.Low < 0.08 && 0.08 < lesser.Interval.High {
			kept++
		}
	}
	t.Logf("16 %% told from 8 %% in %d of %d, the lesser one beaten with a true interval in %d", apart, runs, kept)
	if float64(apart) < 0.95*float64(runs) || float64(kept) < 0.95*float64(apart) {
		t.Errorf("16 %% was told from 8 %% in %d of %d, the lesser one beaten with a true interval in %d", apart, runs, kept)
	}
}

// Rivals within 1 % of each other end the race before the budget.
func TestIndifferent(t *testing.T) {
	c := campaign{effects: []float64{0.1, 0.1005}, noise: normal(0.002), rivals: true}
	race := start(t, Rules{}, c.candidates())
	state := c.run(t, race, rand.New(rand.NewPCG(5, 5)))
	if state.End != Indifferent || state.Blocks >= 20 || !state.Best[0].Equal || state.Best[0].Separated {
		t.Errorf("%+v", state)
	}
}

// One candidate left: the race goes on with it and the baseline alone until it is decided.
func TestBlocksGoToWhatIsUndecided(t *testing.T) {
	c := campaign{effects: []float64{-0.3, -0.3, -0.3, 0.02}, noise: normal(0.01)}
	race := start(t, Rules{}, c.candidates())
	state := c.run(t, race, rand.New(rand.NewPCG(6, 5)))
	alone := 0
	for _, block := range race.blocks {
		if len(block) == 2 {
			alone++
		}
	}
	for _, loser := range state.Standings[:3] {
		if loser.Verdict != Rejected || loser.Since > 8 {
			t.Errorf("%+v", loser)
		}
	}
	if alone < 3 || state.Standings[0].Blocks > 8 || state.Standings[3].Blocks != state.Blocks {
		t.Errorf("%d blocks with one candidate; %+v", alone, state)
	}
}

// Who is beaten while undecided keeps the block of its verdict, and a last rival of its
// own does not change it.
func TestBeaten(t *testing.T) {
	c := campaign{effects: []float64{0, 0.2, 0.19}, noise: normal(0.02), rivals: true}
	state := c.run(t, start(t, Rules{}, c.candidates()), rand.New(rand.NewPCG(8, 5)))
	null := state.Standings[0]
	if null.Verdict != Rejected || null.Beaten == "" || null.Since != null.Blocks || state.Blocks <= null.Since || !strings.Contains(null.Reason, "worse than that of "+null.Beaten) {
		t.Errorf("%+v after %d blocks", null, state.Blocks)
	}
}

// The report's line on the method names its figures.
func TestRule(t *testing.T) {
	rule := start(t, Rules{Level: 0.1, Least: 0.02, Planned: 12, Most: 9}, named("a", "b", "c")).Rule()
	for _, part := range []string{"10 % at most", "3 candidates", "12 planned blocks", "middle is 2 % or more", "or 9 blocks were run", "Holm"} {
		if !strings.Contains(rule, part) {
			t.Errorf("%q is not in: %s", part, rule)
		}
	}
}

// A candidate that cannot win, or may not, beats nobody; whom it had beaten is back when it turns out
// that it cannot.
func TestHolds(t *testing.T) {
	block := Block{"base": 100, "fast": 200, "fair": 150}
	for _, c := range []struct {
		name   string
		holds  []Hold // of fast, by block
		beaten string // who has beaten fair in the end
		racing []string
	}{
		{"free", []Hold{Free, Free, Free, Free}, "fast", nil},
		{"barred", []Hold{Barred, Barred, Barred, Barred}, "", nil},
		{"unsure", []Hold{Unsure, Unsure, Unsure, Unsure}, "", nil},
		{"barred at last", []Hold{Free, Free, Free, Barred}, "", nil},
		{"free at last", []Hold{Barred, Barred, Unsure, Free}, "fast", nil},
	} {
		race, err := New(Rules{}, "base", named("fast", "fair"))
		if err != nil {
			t.Fatal(err)
		}
		for _, hold := range c.holds {
			if err := race.AddHeld(block, map[string]Hold{"fast": hold}); err != nil {
				t.Fatal(err)
			}
		}
		fair := race.State().Standings[1]
		if fair.Verdict != Accepted || fair.Beaten != c.beaten || !reflect.DeepEqual(race.due(), c.racing) {
			t.Errorf("%s: %+v; due %v", c.name, fair, race.due())
		}
	}
}
