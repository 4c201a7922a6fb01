package cuda

import (
	"testing"

	"ossian/internal/cuda/driver"
	"ossian/internal/model"
)

// TestGrids gives every kernel the largest step that limits allow, to a driver that does nothing but
// look at launches: a card takes 2^31-1 blocks in x, but 65,535 in y and in z.
func TestGrids(t *testing.T) {
	const tokens, rows = 1 << 20, 1 << 16 // checkLimits
	launched := map[string]bool{}
	names := map[driver.Function]string{}
	drv := &driver.Driver{
		ModuleLoad: func([]byte) (driver.Module, error) { return 1, nil },
		GetFunction: func(_ driver.Module, name string) (driver.Function, error) {
			id := driver.Function(len(names) + 1)
			names[id] = name
			return id, nil
		},
		FuncSet: func(driver.Function, driver.FuncAttribute, int) error { return nil },
		Launch: func(l *driver.Launch) error {
			launched[names[l.Function]] = true
			for axis, blocks := range []uint32{l.Grid.X, l.Grid.Y, l.Grid.Z} {
				if most := []uint32{1<<31 - 1, 65535, 65535}[axis]; blocks == 0 || blocks > most {
					t.Errorf("%s: %d blocks in %c, a card takes 1 to %d", names[l.Function], blocks, 'x'+rune(axis), most)
				}
			}
			return nil
		},
	}
	q := newQueue(drv, 1)
	shape := headShape{heads: 128, kvHeads: 16, dim: 256, blockSize: 16}
	const hidden, inner, vocab, experts, topK = 16384, 53248, 1 << sampleMaxIDBits, 512, maxTopK
	w := func(experts, rows, cols int, paired bool) *matrix {
		return &matrix{format: formatMXFP4, data: 256, experts: experts, rows: rows, cols: cols, paired: paired}
	}
	q.embed(256, hidden, w(1, vocab, hidden, false), 256, tokens)
	q.narrow(256, 256, hidden, tokens)
	q.addNorm(256, 256, 256, 256, hidden, tokens, 1e-5)
	q.selectRows(256, 256, 256, hidden, tokens)
	q.glu(256, 256, inner, tokens, model.SwiGLU)
	q.route(&routing{ids: 256, weights: 256, stride: 64, logits: floatRows{256, experts}, tokens: tokens, experts: experts, topK: topK, renorm: true})
	q.addNormExperts(256, 256, 256, &combineArgs{topK: 8, width: hidden}, expertPiece, 1e-5)
	for _, count := range []int{1, 9, 64, tokens} {
		q.linear(256, vocab, 256, hidden, w(1, vocab, hidden, false), 0, count)
		q.experts(&expertArgs{dst: 256, x: 256, ids: 256, weights: 256, up: w(experts, 2*inner, hidden, true), down: w(experts, hidden, inner, false),
			scratch: 256, dstStride: hidden, xStride: hidden, stride: 64, tokens: count, topK: topK, activation: silu})
	}
	for _, lengths := range [][]int32{{tokens}, make([]int32, rows)} { // a long prompt, and as many rows as there may be
		start := make([]int32, len(lengths))
		for i := range lengths {
			if lengths[i] == 0 {
				lengths[i], start[i] = 1, 1<<30-2
			}
		}
		work := &attendWork{}
		work.plan(&shape, start, lengths, []int{0})
		step := &stepArrays{count: tokens, tables: []blockTable{{256, 1}}, work: work}
		heads := floatRows{256, 64}
		q.rotate(rotation{queries: heads, keys: heads, eps: 1e-5}, &shape, step)
		q.store(heads, heads, &kvLayer{keys: 256, values: 256}, &shape, step)
		q.attend(256, heads, &kvLayer{keys: 256, values: 256}, 0, &shape, step, 256)
	}
	if q.err != nil {
		t.Fatal(q.err)
	}
	for _, name := range []string{"glu", "up_mxfp4_8", "linear_mxfp4_128", "attend_256_bf16", "attend_prefill_256_bf16", "experts_combine", "rotate_store", "add_norm_experts_8"} {
		if !launched[name] {
			t.Errorf("%s was not launched: launched were %v", name, launched)
		}
	}
}
