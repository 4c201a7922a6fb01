package draft

import "slices"

// points are the sizes of steps, in tokens, whose costs are learned; usual is what they are taken
// to cost where nothing has been learned, divided by the cost of one token: those of a dense model
// on a CPU, without the bumps of its kernels (speculation.md 7). Rather little: what looks cheap is
// tried, and then known.
var (
	points = [...]int{1, 2, 3, 4, 5, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 256}
	usual  = [len(points)]float64{1, 1.15, 1.2, 1.25, 1.3, 1.37, 1.5, 1.8, 2, 2.4, 2.8, 3.6, 4.4, 6, 7.6, 14}
)

const (
	largestStep  = 256  // tokens of the largest step that is looked up; beyond it costs are a straight line
	remembered   = 15   // steps of a size
	needed       = 3    // of these before they count: the first is often slow
	outdatedWith = 2048 // steps of other sizes: contexts have become longer or shorter meanwhile
)

// costs are what steps of each size cost: what is usual times a scale learned at some sizes and
// interpolated between them, so that a size never seen follows its neighbours.
type costs struct {
	sizes    [len(points)]size
	steps    int                      // learned from
	measured bool                     // something is known, and the table in seconds
	table    [largestStep + 1]float64 // [tokens]; in seconds, or as usual if nothing is known
}

// A size is what is known of steps with about points[i] tokens.
type size struct {
	scales [remembered]float64 // seconds for usual cost, of the last steps
	n      int                 // steps learned from
	last   int                 // costs.steps at the last of them
	median float64
}

// learn takes the time of a step.
func (c *costs) learn(tokens int, seconds float64) {
	if tokens < 1 || tokens > largestStep || !(seconds > 0) {
		return // clocks may go backwards
	}
	c.steps++
	size := &c.sizes[nearest(tokens)]
	if size.n > 0 && c.steps-size.last > outdatedWith {
		size.n = 0
	}
	size.scales[size.n%remembered] = seconds / usually[tokens]
	size.n, size.last = size.n+1, c.steps
	sorted := size.scales
	known := sorted[:min(size.n, remembered)]
	slices.Sort(known)
	size.median = known[len(known)/2]
	c.tabulate()
}

// nearest is the index of the point next to a number of tokens.
func nearest(tokens int) int {
	i, found := slices.BinarySearch(points[:], tokens)
	if !found && (i == len(points) || (i > 0 && tokens-points[i-1] <= points[i]-tokens)) {
		i--
	}
	return i
}

// known reports whether enough is known of a size, and not for too long.
func (c *costs) known(size int) bool {
	return c.sizes[size].n >= needed && c.steps-c.sizes[size].last <= outdatedWith
}

// tabulate makes the table: the scale of each size is interpolated between the next ones that are
// known, 1 if none is.
func (c *costs) tabulate() {
	below := -1
	c.measured = false
	for above := 0; above <= len(points); above++ {
		if above < len(points) && !c.known(above) {
			continue
		}
		from, to := 1, largestStep
		if below >= 0 {
			from = points[below]
		}
		if above < len(points) {
			to = points[above]
		}
		for tokens := from; tokens <= to; tokens++ {
			c.table[tokens] = usually[tokens] * c.between(below, above, tokens)
		}
		c.measured = c.measured || above < len(points)
		below = above
	}
}

// between is the scale for tokens, of a known size below and one above; -1 and len(points) are none.
func (c *costs) between(below, above, tokens int) float64 {
	switch {
	case below < 0 && above == len(points):
		return 1
	case below < 0:
		return c.sizes[above].median
	case above == len(points):
		return c.sizes[below].median
	}
	share := float64(tokens-points[below]) / float64(points[above]-points[below])
	return c.sizes[below].median*(1-share) + c.sizes[above].median*share
}

// seconds is the cost of a step, in seconds once anything is known.
func (c *costs) seconds(tokens int) float64 {
	if tokens <= largestStep {
		return c.table[tokens]
	}
	last := c.table[largestStep]
	slope := max((last-c.table[largestStep/2])/(largestStep/2), 0)
	return last + slope*float64(tokens-largestStep)
}

// usually is the usual cost by tokens, interpolated.
var usually = func() (costs [largestStep + 1]float64) {
	for i := 1; i < len(points); i++ {
		below, above := points[i-1], points[i]
		for tokens := below; tokens <= above; tokens++ {
			share := float64(tokens-below) / float64(above-below)
			costs[tokens] = usual[i-1]*(1-share) + usual[i]*share
		}
	}
	return costs
}()
