package sched

import (
	"math/rand/v2"
	"slices"
	"testing"

	"ossian/internal/runner"
	"ossian/internal/soak"
)

// TestDET2Workloads plays conversations, each prompt being all that was said before
// and a little more, with the prefix cache and without. Pools hold one to two of the
// longest sequences, so that prefixes are evicted in part and sequences preempted;
// some answers are aborted and then gone on from, and now and then the cache is emptied.
func TestDET2Workloads(t *testing.T) {
	t.Parallel()
	n := soak.Cases(t, 200, 10_000)
	var sum Stats
	requests, aborts, forgotten := 0, 0, 0
	for seed := range uint64(n) {
		w, got, dropped := talk(t, seed, true)
		plain, want, _ := talk(t, seed, false)
		forgotten += dropped
		for u := range got {
			if !slices.Equal(got[u], want[u]) {
				t.Fatalf("seed %d, conversation %d: answers with the cache %v, without %v", seed, u, got[u], want[u])
			}
		}
		if hits := plain.s.Stats().CacheHits; hits != 0 {
			t.Fatalf("seed %d: %d tokens are cached without a cache", seed, hits)
		}
		requests += len(w.traces)
		for _, tr := range w.traces {
			if tr.aborted {
				aborts++
			}
		}
		st := w.s.Stats()
		sum.CacheHits += st.CacheHits
		sum.CacheQueries += st.CacheQueries
		sum.KV.Evicted += st.KV.Evicted
		sum.Preemptions += st.Preemptions
	}
	t.Logf("DET-2: %d workloads with and without the cache, %d requests, %d aborted, %d of %d prompt tokens cached, %d blocks evicted, %d forgotten on request, %d preemptions, 0 mismatches",
		n, requests, aborts, sum.CacheHits, sum.CacheQueries, sum.KV.Evicted, forgotten, sum.Preemptions)
	if least := uint64(n); sum.CacheHits < 20*least || sum.KV.Evicted < 2*least || sum.Preemptions < least/10 || aborts < n || forgotten < n {
		t.Error("too little happened: these workloads show nothing")
	}
}

// A user asks, reads or leaves, and asks again. What it says and when it leaves
// depends on what it got, not on when.
type user struct {
	rng      *rand.Rand
	salt     uint64
	said     []int32
	turns    int // to come
	at       int // its last request
	patience int // tokens after which it leaves
	answers  []int32
}

// talk plays a workload and returns the world, what each user was answered, and how many
// blocks were forgotten on request.
func talk(t *testing.T, seed uint64, cache bool) (w *world, answers [][]int32, forgotten int) {
	rng := rand.New(rand.NewPCG(seed, 7))
	info := runner.Info{Name: "fake", Vocab: 50, BlockSize: 1 + rng.IntN(4), MaxSeqs: 5, MaxTokens: 6 + rng.IntN(30), MaxLen: 80, Depth: 1 + int(seed%3)}
	blocks := (80 + info.BlockSize - 1) / info.BlockSize * (100 + rng.IntN(100)) / 100
	info.Groups = []runner.Group{{Blocks: blocks}, {Blocks: blocks, Window: 1 + rng.IntN(20)}, {Blocks: blocks, Window: 2 + rng.IntN(6)}}
	kinds := [][2]int{{0, 1}, {0, 2}, {0, 3}, {1, 3}} // with windows, without, and windows only
	kind := kinds[rng.IntN(len(kinds))]
	info.Groups = info.Groups[kind[0]:kind[1]]
	w = newWorld(t, Config{NoPrefixCache: !cache, ChunkLimit: rng.IntN(2) * 7}, info)
	system := ids(int(seed%7), rng.IntN(20))
	var users [6]user
	for u := range users {
		users[u] = user{rng: rand.New(rand.NewPCG(seed, 100+uint64(u))), salt: uint64(u / 4), said: slices.Clone(system), turns: 4, at: -1}
	}
	resets := rand.New(rand.NewPCG(seed, 8)) // its own: with the cache there are fewer steps
	for going := true; going; w.step() {
		if going = false; resets.IntN(50) == 0 {
			forgotten += w.forget()
		}
		for u := range users {
			going = users[u].goOn(w) || going
		}
	}
	w.finish()
	for u := range users {
		answers = append(answers, users[u].answers)
	}
	return w, answers, forgotten
}

// goOn does what the user does next, and reports whether it is still there.
func (u *user) goOn(w *world) bool {
	w.t.Helper()
	if u.at >= 0 {
		tr := w.traces[u.at]
		if tr.finish == FinishNone && len(tr.ids) < u.patience {
			return true
		}
		if tr.finish == FinishNone {
			w.abort(u.at)
		}
		heard := tr.ids[:min(len(tr.ids), u.patience)] // how much comes before it is gone depends on the time
		u.said = append(u.said, heard...)
		u.answers = append(append(u.answers, heard...), -1)
	}
	if u.turns == 0 {
		u.at = -1
		return false
	}
	u.turns--
	for range 1 + u.rng.IntN(6) {
		u.said = append(u.said, u.rng.Int32N(50))
	}
	r := &request{salt: u.salt, tenant: uint32(u.salt), prompt: slices.Clone(u.said), output: 1 + u.rng.IntN(8)}
	u.patience = r.output
	if u.rng.IntN(4) == 0 {
		u.patience = u.rng.IntN(r.output + 1)
	}
	if err := w.add(r); err != nil {
		w.t.Fatal(err)
	}
	u.at = len(w.traces) - 1
	return true
}
