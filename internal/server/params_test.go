package server

import (
	"sync"
	"testing"

	"ossian/internal/runner"
)

// Choices differ by their seeds. Without a given one prompts do, too; with one, a prompt
// has the answers that it has alone.
func TestSeeds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		ask      string
		distinct int
	}{{`{"prompt":["one","two"],"n":2,"max_tokens":3}`, 4}, {`{"prompt":["one","two"],"n":2,"max_tokens":3,"seed":5}`, 2}} {
		var mu sync.Mutex
		seeds := map[uint64]bool{}
		g := start(t, setup{reply: "abc", launch: func(_ int, b *runner.Batch) {
			mu.Lock()
			defer mu.Unlock()
			for _, r := range b.Rows {
				if r.Params.Seed != 0 { // of the probe
					seeds[r.Params.Seed] = true
				}
			}
		}})
		if r := g.post("/v1/completions", c.ask); r.status != 200 {
			t.Fatalf("%s: %d %s", c.ask, r.status, r.body)
		}
		mu.Lock()
		if len(seeds) != c.distinct {
			t.Errorf("%s: seeds %v, want %d", c.ask, seeds, c.distinct)
		}
		mu.Unlock()
	}
}
