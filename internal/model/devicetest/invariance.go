package devicetest

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"ossian/internal/model"
	"ossian/internal/runner"
)

// capture keeps the logits of a step.
type capture struct {
	Device
	logits []float32
}

func (c *capture) Sample(logits model.Buf, from int) {
	c.logits = c.Read(logits)
	c.Device.Sample(logits, from)
}

// invariance checks models.md 5.1: the logits of a sequence have the same bits
// alone and in company, whole and in chunks, in any blocks, on every twin.
func (s Subject) invariance(t *testing.T) {
	for _, md := range s.Models {
		t.Run(md.Spec.Name, func(t *testing.T) {
			lim := limits(md.Spec)
			lim.MaxTokens = 320
			m := newModels(t, s, md, lim)
			const n = 290 // beyond a split of 256 keys
			want := m.run(0, []int{n}, constant(1), 0)
			for _, size := range []int{7, 64, n} {
				m.same(fmt.Sprintf("chunks of %d", size), want, m.run(0, []int{n}, constant(size), 0))
			}
			for i := range m.runners {
				m.same(fmt.Sprintf("in company, device %d", i), want, m.run(i, []int{40, n, 20}, m.random, 1))
			}
		})
	}
}

// models are runners on the same parameters: the device and its twins.
type models struct {
	*bench
	devs    []*capture
	runners []runner.Runner
}

func newModels(t *testing.T, s Subject, md Model, lim model.Limits) *models {
	t.Helper()
	m := &models{bench: s.open(t, md.Spec, lim)}
	opens := append([]func(*testing.T, *model.Spec, model.Limits) Device{s.Open}, s.Twins...)
	for _, open := range opens {
		c := &capture{Device: open(t, md.Spec, lim)}
		r, err := model.NewDecoder(md.Spec, md.Params, c, lim, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := r.Close(); err != nil {
				t.Errorf("close: %v", err)
			}
		})
		m.devs, m.runners = append(m.devs, c), append(m.runners, r)
	}
	return m
}

func constant(n int) func(int) int { return func(int) int { return n } }

// random is a chunk size that leaves room for other rows, often a single token.
func (m *models) random(int) int { return max(1, m.rng.IntN(100)-30) }

// run computes sequences of the given lengths in chunks and returns the logits
// of the watched one by position.
func (m *models) run(dev int, lengths []int, chunk func(seq int) int, watched int) map[int][]float32 {
	m.t.Helper()
	tokens := make([][]int32, len(lengths))
	for i, n := range lengths {
		for k := range n {
			id := m.rng.IntN(m.spec.Vocab)
			if i == watched {
				id = k * k % m.spec.Vocab
			}
			tokens[i] = append(tokens[i], int32(id))
		}
	}
	lay := newLayout(m.bench, len(lengths))
	got := make(map[int][]float32)
	for {
		var spans []span
		for i, n := range lengths {
			if n := min(chunk(i), n-lay.seqs[i].done); n > 0 {
				spans = append(spans, span{i, n})
			}
		}
		if len(spans) == 0 {
			return got
		}
		m.rng.Shuffle(len(spans), func(i, k int) { spans[i], spans[k] = spans[k], spans[i] })
		batch := lay.batch(spans)
		at := 0
		for _, r := range batch.Rows {
			at += copy(batch.Tokens[at:], tokens[r.Slot][r.Start:r.Start+r.Len])
		}
		if err := runner.Check(batch, m.runners[dev].Info()); err != nil {
			m.t.Fatal(err)
		}
		if err := m.runners[dev].Launch(batch); err != nil {
			m.t.Fatal(err)
		}
		if _, err := m.runners[dev].Collect(); err != nil {
			m.t.Fatal(err)
		}
		for i, r := range batch.Rows {
			if r.Slot == watched {
				got[r.Start+r.Len-1] = slices.Clone(m.devs[dev].logits[i*m.spec.Vocab:][:m.spec.Vocab])
			}
		}
		lay.advance(batch)
	}
}

// same requires equal bits at every position that both runs have.
func (m *models) same(what string, want, got map[int][]float32) {
	m.t.Helper()
	for pos, g := range got {
		for id, v := range g {
			if w := want[pos][id]; math.Float32bits(w) != math.Float32bits(v) {
				m.t.Fatalf("%s: position %d, id %d: logit %v, alone token by token %v", what, pos, id, v, w)
			}
			if v != v {
				m.t.Fatalf("%s: position %d, id %d: logit is NaN", what, pos, id)
			}
		}
	}
}
