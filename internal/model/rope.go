package model

import (
	"fmt"
	"math"
)

// Frequencies returns the angle per position of each rotated pair, [headDim/2],
// and the factor on cos and sin: the pair (i, i+headDim/2) of a head at position
// p turns by p·inv[i]. All in float64: references form the table in float32,
// which at position 131071 is up to 0.008 rad off (models.md 1.3).
func Frequencies(rope RoPE, headDim int) (inv []float64, factor float64) {
	inv = make([]float64, headDim/2)
	for i := range inv {
		inv[i] = math.Pow(rope.Base, -2*float64(i)/float64(headDim))
		if rope.Divisors != nil {
			inv[i] /= float64(rope.Divisors[i])
		}
	}
	switch rope.Scaling {
	case ScalingLinear:
		for i := range inv {
			inv[i] /= rope.Factor
		}
	case ScalingYaRN:
		return inv, rope.yarn(inv, headDim)
	case ScalingLlama3:
		rope.llama3(inv)
	}
	return inv, 1
}

// yarn stretches slow pairs by Factor, keeps fast ones and ramps linearly over
// the pair index in between; it returns the factor on cos and sin. models.md 1.3.
func (r *RoPE) yarn(inv []float64, headDim int) float64 {
	// The (fractional) pair that makes n turns within the trained length.
	pair := func(n float64) float64 {
		return float64(headDim) * math.Log(float64(r.Original)/(n*2*math.Pi)) / (2 * math.Log(r.Base))
	}
	low, high := pair(r.BetaFast), pair(r.BetaSlow)
	if r.Truncate {
		low, high = math.Floor(low), math.Ceil(high)
	}
	low, high = max(low, 0), min(high, float64(headDim-1))
	if low == high {
		high += 0.001
	}
	for i, freq := range inv {
		ramp := min(max((float64(i)-low)/(high-low), 0), 1)
		inv[i] = freq*(1-ramp) + freq/r.Factor*ramp
	}
	switch {
	case r.Attention != 0:
		return r.Attention
	case r.Factor <= 1:
		return 1
	}
	return 0.1*math.Log(r.Factor) + 1
}

// llama3 stretches pairs by Factor whose wavelength exceeds Original/LowFreq,
// keeps those below Original/HighFreq and blends in between. models.md 3.
func (r *RoPE) llama3(inv []float64) {
	for i, freq := range inv {
		turns := float64(r.Original) * freq / (2 * math.Pi) // within the trained length
		switch {
		case turns > r.HighFreq:
		case turns < r.LowFreq:
			inv[i] = freq / r.Factor
		default:
			share := (turns - r.LowFreq) / (r.HighFreq - r.LowFreq)
			inv[i] = (1-share)*freq/r.Factor + share*freq
		}
	}
}

// validate reports the first number from which no finite table follows.
func (r *RoPE) validate(headDim int) error {
	positive := func(name string, v float64) error {
		if !(v > 0 && v <= 1e12) {
			return fmt.Errorf("rope %s is %v, outside (0, 1e12]", name, v)
		}
		return nil
	}
	if !(r.Base > 1 && r.Base < 1e12) {
		return fmt.Errorf("rope base %v outside (1, 1e12)", r.Base)
	}
	if r.Divisors != nil && len(r.Divisors) != headDim/2 {
		return fmt.Errorf("%d rope divisors for %d frequencies", len(r.Divisors), headDim/2)
	}
	for _, divisor := range r.Divisors {
		if err := positive("divisor", float64(divisor)); err != nil {
			return err
		}
	}
	type number struct {
		name string
		v    float64
	}
	// What the kind of scaling divides by or takes logarithms of.
	var need []number
	switch r.Scaling {
	case ScalingNone:
	case ScalingLinear:
		need = []number{{"factor", r.Factor}}
	case ScalingYaRN:
		need = []number{{"factor", r.Factor}, {"original length", float64(r.Original)}, {"beta_fast", r.BetaFast}, {"beta_slow", r.BetaSlow}}
		if r.Attention != 0 {
			need = append(need, number{"attention factor", r.Attention})
		}
	case ScalingLlama3:
		need = []number{{"factor", r.Factor}, {"original length", float64(r.Original)}, {"low_freq_factor", r.LowFreq}, {"high_freq_factor", r.HighFreq}}
	default:
		return fmt.Errorf("rope scaling %d is unknown", r.Scaling)
	}
	for _, number := range need {
		if err := positive(number.name, number.v); err != nil {
			return err
		}
	}
	if r.Scaling == ScalingLlama3 && r.LowFreq >= r.HighFreq {
		return fmt.Errorf("rope low_freq_factor %v is not below high_freq_factor %v", r.LowFreq, r.HighFreq)
	}
	return nil
}
