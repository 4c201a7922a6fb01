package engine

import (
	"testing"
	"testing/synctest"
	"time"

	"ossian/internal/draft"
	"ossian/internal/runner"
	"ossian/internal/shadow"
	"ossian/internal/sim"
)

// unrepeated is more ids than any output here has: no text ends as another did, so that the model alone
// guesses.
const unrepeated = 4000

// A companion stands beside a script of cycle(unrepeated) and guesses what that will play, or
// never does; a step of it takes as long as cost says.
type companion struct {
	info   runner.Info
	wrong  bool
	cost   func(tokens int) time.Duration
	took   time.Duration
	result runner.Result
}

func (g *companion) Info() runner.Info { return g.info }
func (g *companion) Close() error      { return nil }

func (g *companion) Launch(batch *runner.Batch) error {
	if err := runner.Check(batch, g.info); err != nil {
		return err
	}
	g.took, g.result.Tokens = g.cost(len(batch.Tokens)), g.result.Tokens[:0]
	at := 0
	for i := range batch.Rows {
		at += batch.Rows[i].Len
		id := (batch.Tokens[at-1] + 1) % unrepeated
		if g.wrong {
			id = (id + 7) % unrepeated
		}
		g.result.Tokens = append(g.result.Tokens, []int32{id})
	}
	return nil
}

func (g *companion) Collect() (*runner.Result, error) {
	time.Sleep(g.took)
	return &g.result, nil
}

// shadowed runs requests of that many tokens on a script beside which another guesses, and returns
// their ids and the virtual time that they took.
func shadowed(t *testing.T, beside *companion, share float64, streams, tokens int) (all [][]int32, took time.Duration, stats Stats) {
	synctest.Test(t, func(t *testing.T) {
		cfg := sim.Config{Next: cycle(unrepeated), Cost: steps(share), Info: runner.Info{Vocab: unrepeated, Lookahead: 7, MaxSeqs: 8, MaxLen: 4096, MaxTokens: 512}}
		var on runner.Runner = script(t, cfg)
		settings := &draft.Settings{Method: draft.Model, Tokens: 7, Adaptive: true}
		if beside == nil {
			settings = nil
		} else {
			own := *beside
			own.info = on.Info()
			own.info.Groups = []runner.Group{{Blocks: own.info.Groups[0].Blocks + 8}}
			var err error
			if on, err = shadow.New(on, &own, shadow.Config{Tokens: 7, Groups: []int{0}}); err != nil {
				t.Fatal(err)
			}
		}
		g := start(t, on, Config{Guesses: settings})
		all, took, stats = g.play(streams, tokens)
	})
	return all, took, stats
}

// TestSPC8Shadows: a model that guesses right and costs little saves steps; one that guesses wrong, or
// costs what it saves, is given up, and costs next to nothing from then on.
func TestSPC8Shadows(t *testing.T) {
	each := func(first, more time.Duration) func(int) time.Duration {
		return func(tokens int) time.Duration { return first + time.Duration(tokens-1)*more }
	}
	for _, tt := range []struct {
		name        string
		wrong       bool
		cost        func(int) time.Duration
		share       float64 // of a step's time, for each token beyond the first
		streams     int
		least, most float64 // times as fast as without guesses
	}{
		{name: "right", cost: each(time.Millisecond, 50*time.Microsecond), share: 0.05, streams: 1, least: 3, most: 8},
		{name: "right, 4 streams", cost: each(time.Millisecond, 50*time.Microsecond), share: 0.05, streams: 4, least: 1.8, most: 8},
		{name: "wrong", wrong: true, cost: each(time.Millisecond, 50*time.Microsecond), share: 0.05, streams: 1, least: 0.97, most: 1},
		{name: "wrong, 4 streams", wrong: true, cost: each(time.Millisecond, 50*time.Microsecond), share: 0.05, streams: 4, least: 0.97, most: 1},
		{name: "as dear as what it saves", cost: each(12*time.Millisecond, time.Millisecond), share: 0.05, streams: 1, least: 0.97, most: 1.05},
		{name: "right, and a token costs a step", cost: each(time.Millisecond, time.Millisecond), share: 1, streams: 4, least: 0.97, most: 1.05},
	} {
		t.Run(tt.name, func(t *testing.T) {
			want, without, _ := shadowed(t, nil, tt.share, tt.streams, 1500)
			got, with, stats := shadowed(t, &companion{wrong: tt.wrong, cost: tt.cost}, tt.share, tt.streams, 1500)
			t.Logf("guesses %+v", stats.Guesses)
			checkPlayed(t, got, want, without.Seconds()/with.Seconds(), tt.least, tt.most)
		})
	}
}
