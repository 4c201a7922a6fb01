package race_test

import (
	"fmt"
	"math"
	"math/rand/v2"

	"ossian/internal/lab/race"
)

// A campaign asks for the next block, measures it, and adds what it found.
func Example() {
	r, err := race.New(race.Rules{}, "defaults", []race.Candidate{
		{Name: "async", Group: "async"}, // can be kept beside the others
		{Name: "batched-tokens=4096", Group: "batched-tokens"},
		{Name: "batched-tokens=8192", Group: "batched-tokens"}, // one of the two at most
	})
	if err != nil {
		panic(err)
	}
	truth := map[string]float64{"defaults": 1000, "async": 1120, "batched-tokens=4096": 1001, "batched-tokens=8192": 930}
	noise := rand.New(rand.NewPCG(1, 0))
	for {
		order := rand.New(rand.NewPCG(42, uint64(r.State().Blocks))) // the same order when a cut campaign goes on
		turn, more := r.Next(order.IntN)
		if !more {
			break
		}
		block := race.Block{}
		for _, name := range turn.Order {
			block[name] = truth[name] * math.Exp(0.01*noise.NormFloat64())
		}
		if err := r.Add(block); err != nil {
			panic(err)
		}
	}
	state := r.State()
	for _, standing := range state.Standings {
		fmt.Printf("%-20s %+5.1f %% [%+.1f, %+.1f] after %d blocks: %s\n", standing.Name, 100*standing.Gain,
			100*standing.Interval.Low, 100*standing.Interval.High, standing.Blocks, standing.Verdict)
	}
	fmt.Println("end:", state.End)
	// Output:
	// async                +12.5 % [+3.1, +22.7] after 4 blocks: accepted
	// batched-tokens=4096   +0.2 % [-0.4, +1.0] after 20 blocks: rejected
	// batched-tokens=8192   -6.8 % [-13.9, +0.9] after 6 blocks: rejected
	// end: one left
}
