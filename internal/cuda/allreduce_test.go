package cuda

import (
	"math/rand/v2"
	"slices"
	"testing"

	"ossian/internal/cuda/driver"
)

// TestAllReduce has three ranks, one after another: each finds the flags of those that have not
// run yet set by hand, and those of the others as they have left them.
func TestAllReduce(t *testing.T) {
	r := newRig(t)
	rng := rand.New(rand.NewPCG(19, 20))
	const cards, count = 3, 4*128*allReduceBlocks + 36 // more than one turn for some threads
	values, parts, flags, want := make([][]float32, cards), make([]driver.Ptr, cards), make([]driver.Ptr, cards), make([]float32, count)
	for card := range cards {
		values[card] = normals(rng, count, 1)
		parts[card] = upload(r, values[card])
		flags[card] = upload(r, make([]uint32, allReduceFlags(cards)/4))
	}
	for i := range want {
		want[i] = values[0][i] + values[1][i] + values[2][i]
	}
	for _, step := range []uint32{1, 1<<32 - 1, 0} {
		for rank := range cards {
			written := download[uint32](r, flags[rank], allReduceBlocks*cards)
			for i := range written {
				if from := i % cards; from < rank && written[i] != step {
					t.Fatalf("rank %d did not tell rank %d of step %d", from, rank, step)
				}
				written[i] = step
			}
			flags[rank] = upload(r, written)
			dst := r.alloc(4 * count)
			r.q.allReduce(dst, parts, flags, rank, count, step)
			if got := download[float32](r, dst, count); !slices.Equal(got, want) {
				t.Fatalf("rank %d, step %d: sums differ", rank, step)
			}
		}
	}
}
