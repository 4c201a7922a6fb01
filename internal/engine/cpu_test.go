package engine

import (
	"context"
	"io"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"ossian/internal/cpu"
	"ossian/internal/model"
	"ossian/internal/model/modeltest"
	"ossian/internal/runner"
	"ossian/internal/sched"
	"ossian/internal/tensor"
)

// tinyRunner returns a model of two or three layers on the CPU, with pools of that
// many blocks of 8 tokens.
func tinyRunner(t *testing.T, family string, blocks, depth int) runner.Runner {
	t.Helper()
	s, params := modeltest.Tiny(family, modeltest.Options{Matrix: tensor.BF16})
	lim := model.Limits{MaxSeqs: 4, MaxTokens: 48, MaxLen: 160, BlockSize: 8, Depth: depth}
	windows, _ := s.Groups()
	for range windows {
		lim.Blocks = append(lim.Blocks, blocks)
	}
	d, err := cpu.New(s, lim, cpu.Config{})
	if err != nil {
		t.Fatal(err)
	}
	r, err := model.NewDecoder(s, params, d, lim, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// DET-1 and DET-2: on a real device, with prefixes shared, preemption forced by a
// small pool and random cancels, every request gets what it gets alone.
func TestDET1CPU(t *testing.T) {
	count, families := 60, []string{"gpt-oss", "qwen3", "llama"}
	if testing.Short() {
		count, families = 16, families[:2]
	}
	for i, family := range families {
		t.Run(family, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(uint64(i), 11))
			queries := tinyQueries(rng, count)
			var want [][]int32
			one := start(t, tinyRunner(t, family, 20, 1), Config{Sched: sched.Config{NoPrefixCache: true}})
			for _, q := range queries {
				want = append(want, finished(t, one.submit(q), sched.FinishLength))
			}
			for depth := 1; depth <= 2; depth++ {
				g := start(t, tinyRunner(t, family, 24, depth), Config{Sched: sched.Config{ChunkLimit: rng.IntN(2) * 20}})
				var wg sync.WaitGroup
				for n, q := range queries {
					s, stop := g.submit(q), rng.IntN(160) // after that many tokens
					wg.Go(func() {
						var got []int32
						var err error
						for err == nil {
							var out []Token
							out, err = s.Recv(context.Background())
							for _, o := range out {
								got = append(got, o.ID)
							}
							if len(got) >= stop {
								s.Stop()
							}
						}
						if err != io.EOF || len(got) > len(want[n]) || len(got) < min(stop, len(want[n])) || !slices.Equal(got, want[n][:len(got)]) {
							t.Errorf("depth %d, request %d: got %v, %v, alone %v", depth, n, got, err, want[n])
						}
					})
				}
				wg.Wait()
				if st := g.Stats(); st.Preemptions == 0 || st.CacheHits == 0 {
					t.Errorf("depth %d: %d preemptions, %d tokens cached: this run shows nothing", depth, st.Preemptions, st.CacheHits)
				}
			}
		})
	}
}

func tinyQueries(rng *rand.Rand, n int) []Request {
	common := make([]int32, 50)
	for i := range common {
		common[i] = rng.Int32N(100)
	}
	var out []Request
	for i := range n {
		q := Request{Tokens: slices.Clone(common[:rng.IntN(50)]), MaxTokens: 30 + rng.IntN(50), Tenant: rng.Uint32N(2)}
		for range 1 + rng.IntN(20) {
			q.Tokens = append(q.Tokens, rng.Int32N(100))
		}
		if i%2 == 0 {
			q.Params.Temperature, q.Params.Seed = 1, rng.Uint64()
		}
		out = append(out, q)
	}
	return out
}
