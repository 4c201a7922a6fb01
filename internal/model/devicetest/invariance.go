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

// Sample implements model.Device and keeps the logits.
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
			models := newModels(t, s, md, lim)
			const length = 290 // beyond a split of 256 keys
			want := models.run(0, []int{length}, constant(1), 0)
			for _, size := range []int{7, 64, length} {
				models.same(fmt.Sprintf("chunks of %d", size), want, models.run(0, []int{length}, constant(size), 0))
			}
			for i := range models.runners {
				models.same(fmt.Sprintf("in company, device %d", i), want, models.run(i, []int{40, length, 20}, models.random, 1))
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

// newModels makes a runner of each device, closed with the test.
func newModels(t *testing.T, s Subject, md Model, lim model.Limits) *models {
	t.Helper()
	all := &models{bench: s.open(t, md.Spec, lim)}
	opens := append([]func(*testing.T, *model.Spec, model.Limits) Device{s.Open}, s.Twins...)
	for _, open := range opens {
		captured := &capture{Device: open(t, md.Spec, lim)}
		decoder, err := model.NewDecoder(md.Spec, md.Params, captured, lim, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := decoder.Close(); err != nil {
				t.Errorf("close: %v", err)
			}
		})
		all.devs, all.runners = append(all.devs, captured), append(all.runners, decoder)
	}
	return all
}

// constant is a chunk size for run.
func constant(n int) func(int) int { return func(int) int { return n } }

// random is a chunk size that leaves room for other rows, often a single token.
func (m *models) random(int) int { return max(1, m.rng.IntN(100)-30) }

// run computes sequences of the given lengths in chunks and returns the logits
// of the watched one by position.
func (m *models) run(dev int, lengths []int, chunk func(seq int) int, watched int) map[int][]float32 {
	m.t.Helper()
	tokens := make([][]int32, len(lengths))
	for i, length := range lengths {
		for k := range length {
			id := m.rng.IntN(m.spec.Vocab)
			if i == watched {
				id = k * k % m.spec.Vocab
			}
			tokens[i] = append(tokens[i], int32(id))
		}
	}
	// Steps of one chunk for each sequence that has some left, in random order.
	lay := newLayout(m.bench, len(lengths))
	got := make(map[int][]float32)
	for {
		var spans []span
		for i, length := range lengths {
			if length := min(chunk(i), length-lay.seqs[i].done); length > 0 {
				spans = append(spans, span{i, length})
			}
		}
		if len(spans) == 0 {
			return got
		}
		m.rng.Shuffle(len(spans), func(i, k int) { spans[i], spans[k] = spans[k], spans[i] })
		batch := lay.batch(spans)
		at := 0
		for _, row := range batch.Rows {
			at += copy(batch.Tokens[at:], tokens[row.Slot][row.Start:row.Start+row.Len])
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
		for i, row := range batch.Rows {
			if row.Slot == watched {
				got[row.Start+row.Len-1] = slices.Clone(m.devs[dev].logits[i*m.spec.Vocab:][:m.spec.Vocab])
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
