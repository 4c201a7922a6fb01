package cpu

import (
	"context"
	"time"

	"ossian/internal/cpu/kern"
)

const (
	bandwidthBytes  = 512 << 20 // several times the last-level cache of one socket's share
	bandwidthPiece  = 256 << 10 // bytes of a chunk
	bandwidthBudget = 250 * time.Millisecond
)

// Bandwidth measures how many bytes per second that many threads read from
// memory (0 = as many as the process may run): the best of several passes over
// 512 MiB of freshly written memory within a quarter of a second, after the time
// it takes to write it. The figure is an upper bound for decoding. It returns
// what it has, or 0, when ctx ends.
func Bandwidth(ctx context.Context, threads int) (float64, error) {
	cfg, opt, err := Config{Threads: threads}.resolve()
	if err != nil {
		return 0, err
	}
	var mem arena
	data, err := carve[float32](&mem, bandwidthBytes/4)
	if err != nil {
		return 0, err
	}
	pool := kern.NewPool(cfg.Threads)
	const floats = bandwidthPiece / 4
	pieces := len(data) / floats
	pool.Run(pieces, func(_, chunk int) {
		// Untouched memory is one page of zeros and would be read from the cache.
		for i := range data[chunk*floats:][:floats] {
			data[chunk*floats+i] = 1
		}
	})
	sums := make([]float32, pieces) // keeps the reads alive
	read := func(_, chunk int) { sums[chunk] = kern.SumSq(opt.Level, data[chunk*floats:][:floats]) }
	best := 0.0
	for began := time.Now(); ctx.Err() == nil && (best == 0 || time.Since(began) < bandwidthBudget); {
		pass := time.Now()
		pool.Run(pieces, read)
		best = max(best, bandwidthBytes/time.Since(pass).Seconds())
	}
	pool.Close()
	return best, mem.close()
}
