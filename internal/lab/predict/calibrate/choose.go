package calibrate

import (
	"context"
	"fmt"
	"math"
	"slices"
)

// Which rows to measure, or to take: greedily the one that leaves the least variance on what is to
// be predicted, with a refit between, such that in the end every number of devices and every
// version has a row, and every family of kernels one that generates and one that reads (lab.md 5).

// needs lists what a row is an example of.
func (m *model) needs(i int) []string {
	if m.examples == nil {
		m.examples = make([][]string, len(m.rows))
	}
	if m.examples[i] == nil {
		row := &m.rows[i]
		kind := "reads"
		if row.decodeHeavy() {
			kind = "generates"
		}
		m.examples[i] = []string{fmt.Sprintf("%d devices", row.TP), "version " + row.EngineVersion, row.family() + " " + kind}
	}
	return m.examples[i]
}

// missing returns what no chosen row is an example of.
func (m *model) missing(chosen []int) []string {
	var needs []string
	for i := range m.rows {
		needs = append(needs, m.needs(i)...)
	}
	slices.Sort(needs)
	needs = slices.Compact(needs)
	return slices.DeleteFunc(needs, func(need string) bool {
		return slices.ContainsFunc(chosen, func(i int) bool { return slices.Contains(m.needs(i), need) })
	})
}

// cover returns how many further rows the missing examples take at least, counted greedily.
func (m *model) cover(chosen []int) int {
	count := 0
	for chosen = slices.Clone(chosen); ; count++ {
		missing := m.missing(chosen)
		if len(missing) == 0 {
			return count
		}
		best, most := -1, 0
		for i := range m.rows {
			covered := 0
			for _, need := range m.needs(i) {
				if slices.Contains(missing, need) {
					covered++
				}
			}
			if covered > most {
				best, most = i, covered
			}
		}
		chosen = append(chosen, best)
	}
}

// choose picks at most most rows. The measured numbers of a row are used only once it is picked.
func (m *model) choose(ctx context.Context, most int) ([]int, error) {
	all := make([]int, len(m.rows))
	for i := range all {
		all[i] = i
	}
	var chosen []int
	for len(chosen) < min(most, len(m.rows)) {
		m.evaluate(all)
		best, least := -1, math.Inf(1)
		for i := range m.rows {
			if slices.Contains(chosen, i) {
				continue
			}
			with := append(slices.Clone(chosen), i)
			if left := most - len(with); m.cover(with) > left && m.cover(chosen) <= left+1 {
				continue // what is missing could not be had any more
			}
			variance, err := m.variance(with, all)
			if err != nil {
				return nil, err
			}
			if variance < least {
				best, least = i, variance
			}
		}
		if best < 0 {
			return nil, fmt.Errorf("%d rows are not enough: they must have an example of each of %v", most, m.missing(nil))
		}
		chosen = append(chosen, best)
		if err := m.gaussNewton(chosen); err != nil {
			return nil, err
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
	return chosen, nil
}

// variance is the mean variance of the logarithms that are to be predicted, when rows are known.
func (m *model) variance(known, wanted []int) (float64, error) {
	covariance, err := m.covariance(known)
	if err != nil {
		return 0, err
	}
	sum := 0.0
	for _, i := range wanted {
		for o, metric := range observed {
			if !slices.Contains(targets, metric.key) {
				continue
			}
			row := m.jac[i][o]
			for a, left := range row {
				if left == 0 {
					continue
				}
				for b, right := range row {
					sum += left * covariance.At(a, b) * right
				}
			}
		}
	}
	return sum / float64(len(wanted)*len(targets)), nil
}
