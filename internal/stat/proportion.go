package stat

import (
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"
)

// QuantileT is the p-quantile of Student's t with that many degrees of freedom.
func QuantileT(freedom, p float64) float64 {
	return distuv.StudentsT{Sigma: 1, Nu: freedom}.Quantile(p)
}

// Wilson returns the score interval of a share of which n independent trials had so many
// successes (Wilson, J. Am. Stat. Assoc. 22, 1927). Unlike Student's it is right near 0 and 1.
// successes need not be whole; n > 0.
func Wilson(successes, n, confidence float64) Interval {
	z := distuv.UnitNormal.Quantile((1 + confidence) / 2)
	share := successes / n
	middle := (share + z*z/(2*n)) / (1 + z*z/n)
	half := z / (1 + z*z/n) * math.Sqrt(share*(1-share)/n+z*z/(4*n*n))
	return Interval{max(middle-half, 0), min(middle+half, 1)}
}

// mostExact is up to how many differences all signs are tried: a million sums.
const mostExact = 20

// SignFlip is the chance that the mean of paired differences is as far from 0 as it is, if the
// sign of each is chance (Fisher's randomisation test, two-sided). It is exact up to 20
// differences that are not 0, else from so many draws with that seed, of which the differences
// themselves are one. 1 of no differences.
func SignFlip(differences []float64, draws int, seed uint64) float64 {
	moved := slices.DeleteFunc(slices.Clone(differences), func(d float64) bool { return d == 0 })
	sum, size := 0.0, 0.0
	for _, d := range moved {
		sum += d
		size += math.Abs(d)
	}
	limit := math.Abs(sum) - 1e-12*size // sums of the same numbers in another order are as far
	if len(moved) <= mostExact {
		return flipAll(moved, limit)
	}
	random := rand.New(rand.NewPCG(seed, 0))
	far := 1
	for range draws {
		total := 0.0
		for i, bits := 0, uint64(0); i < len(moved); i++ {
			if i%64 == 0 {
				bits = random.Uint64()
			}
			if bits>>(i%64)&1 == 0 {
				total += moved[i]
			} else {
				total -= moved[i]
			}
		}
		if math.Abs(total) >= limit {
			far++
		}
	}
	return float64(far) / float64(draws+1)
}

// flipAll is the share of all choices of signs whose sum is limit or farther from 0. Each differs
// from the one before in one sign (Gray's code).
func flipAll(values []float64, limit float64) float64 {
	signed := slices.Clone(values)
	total := 0.0
	for _, v := range values {
		total += v
	}
	far := 0
	all := 1 << len(values)
	for choice := 1; ; choice++ {
		if math.Abs(total) >= limit {
			far++
		}
		if choice == all {
			return float64(far) / float64(all)
		}
		// The sign that changes is that of the lowest bit set in the number of the choice.
		flip := 0
		for choice>>flip&1 == 0 {
			flip++
		}
		total -= 2 * signed[flip]
		signed[flip] = -signed[flip]
	}
}

// BootstrapMean returns the percentile interval of the mean of independent samples from so many
// resamplings with that seed (Efron 1979); of no samples the interval at 0.
func BootstrapMean(samples []float64, resamplings int, confidence float64, seed uint64) Interval {
	random := rand.New(rand.NewPCG(seed, 0))
	means := make([]float64, resamplings)
	for i := range means {
		for range samples {
			means[i] += samples[random.IntN(len(samples))]
		}
		means[i] /= max(float64(len(samples)), 1)
	}
	slices.Sort(means)
	tail := 100 * (1 - confidence) / 2
	return Interval{Percentile(means, tail), Percentile(means, 100-tail)}
}
