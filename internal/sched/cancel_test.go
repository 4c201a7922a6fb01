package sched

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"ossian/internal/runner"
	"ossian/internal/soak"
)

// stages are where a sequence can stand when it is aborted.
var stages = [...]string{"queued", "in its prompt", "in its prompt and a launched batch", "in its output", "in its output and a launched batch",
	"preempted", "preempted and in a launched batch"}

func stageOf(q *Seq) int {
	stage := 1
	switch {
	case q.Started.IsZero():
		return 0
	case q.state == waiting:
		return 5
	case q.state == leaving:
		return 6
	case q.committed >= q.Prompt:
		stage = 3
	}
	if q.inFlight > 0 {
		stage++
	}
	return stage
}

// An aborted sequence, as it was then.
type aborted struct {
	q              *Seq
	rows, launched int
	free           int // number of the step whose end must have given its blocks back
}

// TestLIF2CancelPoints aborts sequences wherever they can stand. From then on nothing
// of them is launched or said. Slot and blocks are free at the end of the last batch
// that was in flight, at once if none of its rows was in one. Nobody else notices.
func TestLIF2CancelPoints(t *testing.T) {
	t.Parallel()
	each := soak.Cases(t, 100, 10_000)
	var count [len(stages)]int
	points, flights := 0, 0
	for seed := uint64(0); points < each*len(stages); seed++ {
		if seed > uint64(100*each) {
			t.Fatalf("%d worlds: only %v of %v", seed, count, stages)
		}
		for _, a := range cancel(t, seed, each, &count) {
			points++
			flights += a.rows
		}
	}
	var list []string
	for i, n := range count {
		list = append(list, fmt.Sprintf("%d %s", n, stages[i]))
	}
	t.Logf("LIF-2: %d sequences aborted (%s) with %d rows in flight, 0 late, 0 blocks leaked", points, strings.Join(list, ", "), flights)
}

// cancel plays a world and aborts those whose stage was not seen often enough.
func cancel(t *testing.T, seed uint64, each int, count *[len(stages)]int) []aborted {
	rng := rand.New(rand.NewPCG(seed, 5))
	info := runner.Info{Name: "fake", Vocab: 50, BlockSize: 1 + rng.IntN(4), MaxSeqs: 4, MaxTokens: 4 + rng.IntN(20), MaxLen: 60, Depth: 1 + int(seed%3)}
	blocks := 60/info.BlockSize + rng.IntN(10)
	info.Groups = []runner.Group{{Blocks: blocks}, {Blocks: blocks, Window: 1 + rng.IntN(12)}}[:1+rng.IntN(2)]
	w := newWorld(t, Config{ChunkLimit: rng.IntN(2) * 5, NoPrefixCache: rng.IntN(4) == 0}, info)
	for range 10 {
		if err := w.add(randomRequest(rng.IntN, info, w.now)); err != nil && !errors.Is(err, ErrNeverFits) {
			t.Fatal(err)
		}
	}
	var gone []aborted
	for !w.s.Idle() {
		if len(w.flight) == info.Depth || (len(w.flight) > 0 && rng.IntN(2) == 0) || w.launch() == nil {
			w.commit()
		}
		for _, a := range gone {
			if a.q.inFlight > a.rows || a.q.launched != a.launched {
				t.Fatalf("seed %d: sequence %d was aborted with %d rows and %d tokens launched, now there are %d and %d", seed, a.q.ID, a.rows, a.launched, a.q.inFlight, a.q.launched)
			}
			if a.q.table != nil && (a.rows == 0 || w.steps >= a.free) {
				t.Fatalf("seed %d: sequence %d still holds blocks after step %d, expected them back after step %d", seed, a.q.ID, w.steps, a.free)
			}
		}
		rarest := -1
		for id, tr := range w.traces {
			if n := stageOf(tr.q); tr.finish == FinishNone && !tr.aborted && count[n] < each && (rarest < 0 || count[n] < count[stageOf(w.traces[rarest].q)]) {
				rarest = id
			}
		}
		if rarest >= 0 && rng.IntN(3) == 0 {
			q := w.traces[rarest].q
			count[stageOf(q)]++
			gone = append(gone, aborted{q, q.inFlight, q.launched, w.steps + len(w.flight)})
			w.abort(rarest)
		}
	}
	w.finish()
	return gone
}
