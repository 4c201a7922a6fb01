package draft

import "slices"

// points are the sizes of steps, in tokens, whose costs are learned; usual is what they cost where
// nothing has been learned, divided by the cost of one token: gpt-oss-20b on a CPU by the bytes it
// reads, up to 16, then limited by products (speculation.md 7).
var (
	points = [...]int{1, 2, 3, 4, 5, 6, 8, 12, 16, 24, 32, 48, 64}
	usual  = [len(points)]float64{1, 1.43, 1.81, 2.14, 2.43, 2.68, 3.10, 3.66, 3.99, 5.2, 6.5, 9, 11.5}
)

const (
	largestStep  = 64   // tokens of the largest step that is looked up; beyond it costs are a straight line
	remembered   = 15   // steps of a size
	needed       = 3    // of these before they count: the first is often slow
	outdatedWith = 1024 // steps of other sizes: contexts have become longer or shorter meanwhile
)

// costs are what steps of each size cost: what is usual times a scale learned at some sizes and
// interpolated between them, so that a size never seen follows its neighbours.
type costs struct {
	sizes [len(points)]size
	steps int                      // learned from
	table [largestStep + 1]float64 // [tokens]; in seconds, or as usual if nothing is known
}

// A size is what is known of steps with points[i] tokens.
type size struct {
	scales [remembered]float64 // seconds for usual cost, of the last steps
	n      int                 // steps learned from
	last   int                 // costs.steps at the last of them
	median float64
}

// learn takes the time of a step.
func (c *costs) learn(tokens int, seconds float64) {
	if tokens < 1 || tokens > largestStep || !(seconds > 0) {
		return // clocks may go backwards, and steps of prompts say nothing
	}
	c.steps++
	nearest := 0
	for i, point := range points {
		if abs(point-tokens) < abs(points[nearest]-tokens) {
			nearest = i
		}
	}
	size := &c.sizes[nearest]
	if size.n > 0 && c.steps-size.last > outdatedWith {
		size.n = 0
	}
	size.scales[size.n%remembered] = seconds / usually(tokens)
	size.n, size.last = size.n+1, c.steps
	sorted := size.scales
	known := sorted[:min(size.n, remembered)]
	slices.Sort(known)
	size.median = known[len(known)/2]
	c.tabulate()
}

// tabulate makes the table.
func (c *costs) tabulate() {
	for tokens := 1; tokens <= largestStep; tokens++ {
		c.table[tokens] = usually(tokens) * c.scale(tokens)
	}
}

// scale is what usual costs are multiplied with: interpolated between the sizes next to it that
// are known, 1 if none is.
func (c *costs) scale(tokens int) float64 {
	below, above := -1, -1
	for i := range c.sizes {
		if size := &c.sizes[i]; size.n < needed || c.steps-size.last > outdatedWith {
			continue
		}
		if points[i] <= tokens {
			below = i
		} else {
			above = i
			break
		}
	}
	switch {
	case below < 0 && above < 0:
		return 1
	case below < 0:
		return c.sizes[above].median
	case above < 0:
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
	slope := max((last-c.table[largestStep-16])/16, 0)
	return last + slope*float64(tokens-largestStep)
}

// usually is the usual cost, interpolated.
func usually(tokens int) float64 {
	i, _ := slices.BinarySearch(points[:], tokens)
	if points[i] == tokens {
		return usual[i]
	}
	share := float64(tokens-points[i-1]) / float64(points[i]-points[i-1])
	return usual[i-1]*(1-share) + usual[i]*share
}

func abs(n int) int { return max(n, -n) }
