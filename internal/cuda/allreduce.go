package cuda

import "ossian/internal/cuda/driver"

// maxCards is how many cards can add up what they have (kernels/allreduce.cu).
const maxCards = 8

// allReduceArgs is AllReduceArgs of kernels/allreduce.cu.
type allReduceArgs struct {
	dst                driver.Ptr
	parts, flags       [maxCards]driver.Ptr
	step               uint32
	rank, cards, count int32
}

// allReduceBlocks is the grid of allreduce: one for all sizes, as flags are by block. A block waits for
// its like on other cards, so all have to fit onto a card at a time.
const allReduceBlocks = 32

// allReduceFlags returns the bytes of a card's flags, which begin as zeros.
func allReduceFlags(cards int) int { return 4 * allReduceBlocks * cards }

// allReduce sets dst, on the card of rank, to the sum of all cards' parts in the order of ranks: the same
// bits on all. Each card calls it with the same step, from 1 on, larger by one each time; parts and flags are
// addresses of peer memory, count floats a multiple of 4. A part may be written again after the call that
// follows the next one.
func (q *queue) allReduce(dst driver.Ptr, parts, flags []driver.Ptr, rank, count int, step uint32) {
	args := allReduceArgs{dst: dst, step: step, rank: int32(rank), cards: int32(len(parts)), count: int32(count)}
	copy(args.parts[:], parts)
	copy(args.flags[:], flags)
	launch(q, "allreduce", driver.Dim3{X: allReduceBlocks, Y: 1, Z: 1}, 128, 0, &args)
}
