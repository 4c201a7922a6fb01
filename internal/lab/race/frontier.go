package race

import (
	"cmp"
	"math"
	"slices"
)

// An Operating is a trial as lab.md 4, item 9 places it: what one user sees against what
// one device yields.
type Operating struct {
	Name      string
	PerUser   float64 // output tokens/s of one user
	PerDevice float64 // tokens/s of all users over the number of devices
}

// A Frontier is what no other trial beats on both axes.
type Frontier struct {
	Best      []int // places of the trials, by PerUser ascending: PerDevice descends
	Dominated []int // places of the others, ascending; a trial without two finite numbers above 0 is among them
	Knee      int   // place of the trial farthest above the line between the ends of Best
	Kneed     bool  // false: fewer than three points, or none above the line
}

// NewFrontier finds the frontier of trials. Of equal trials the first is on it.
func NewFrontier(trials []Operating) Frontier {
	var order []int
	frontier := Frontier{}
	for i, trial := range trials {
		if trial.PerUser > 0 && trial.PerDevice > 0 && !math.IsInf(trial.PerUser, 0) && !math.IsInf(trial.PerDevice, 0) {
			order = append(order, i)
		} else {
			frontier.Dominated = append(frontier.Dominated, i)
		}
	}
	// From the fastest for one user down, who yields more than all before is on it.
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(trials[b].PerUser, trials[a].PerUser), cmp.Compare(trials[b].PerDevice, trials[a].PerDevice))
	})
	most := 0.0
	for _, i := range order {
		if trials[i].PerDevice > most {
			most = trials[i].PerDevice
			frontier.Best = append(frontier.Best, i)
		} else {
			frontier.Dominated = append(frontier.Dominated, i)
		}
	}
	slices.Reverse(frontier.Best)
	slices.Sort(frontier.Dominated)
	frontier.Knee, frontier.Kneed = knee(trials, frontier.Best)
	return frontier
}

// knee returns the point farthest from the line between the ends, on the side away from
// the origin. Which one that is does not depend on the units of the axes: stretching one
// multiplies all distances by the same.
func knee(trials []Operating, best []int) (int, bool) {
	if len(best) < 3 {
		return 0, false
	}
	first, last := trials[best[0]], trials[best[len(best)-1]]
	across, down := last.PerUser-first.PerUser, last.PerDevice-first.PerDevice
	place, most := 0, 0.0
	for _, i := range best[1 : len(best)-1] {
		height := across*(trials[i].PerDevice-first.PerDevice) - down*(trials[i].PerUser-first.PerUser)
		if height > most {
			place, most = i, height
		}
	}
	return place, most > 0
}
