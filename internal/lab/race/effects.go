package race

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat/distuv"

	"ossian/internal/stat"
)

// This file says what measured points of a design tell (lab.md 4, item 5). The model is
// that of the resolution: the logarithm of the objective is the block's level, plus a gain
// for each option that is on, plus one for each pair that is on together. Least squares
// give every quantity of the report as a sum of these with an interval; a point that
// failed in a block is left out there.

// An Effect is a gain as a share, on the objective's good side, of one option, a pair, or
// all. Pairs: what the joint gain is more than the product of the two gains.
type Effect struct {
	Options  []string      `json:"options"`
	Gain     float64       `json:"gain"`
	Interval stat.Interval `json:"interval"`
	Formed   bool          `json:"formed"`
	Shown    bool          `json:"shown"` // the interval excludes 0
}

// A Reversal is an option that helps alone and harms beside others, or the reverse.
type Reversal struct {
	Option string   `json:"option"`
	Beside []string `json:"beside"`
	Alone  Effect   `json:"alone"`
	Among  Effect   `json:"among"`
	Both   bool     `json:"both"` // both intervals exclude 0; else only their difference does
}

// Interactions are the effects of a design. Intervals of pairs and of reversals hold all at
// once with 95 %, and so do those of everything else.
type Interactions struct {
	Blocks   int        `json:"blocks"`
	Values   int        `json:"values"`
	Noise    float64    `json:"noise,omitempty"` // standard deviation of one run, as a share; none without spare values
	Alone    []Effect   `json:"alone"`           // of each option, all others off
	Main     []Effect   `json:"main"`            // of each option, averaged over all settings of the others
	Among    []Effect   `json:"among"`           // of each option, all others on
	Pairs    []Effect   `json:"pairs"`
	Product  Effect     `json:"product"` // of the gains alone
	Joint    Effect     `json:"joint"`   // of all together
	Reversed []Reversal `json:"reversed"`
}

// Interactions analyses blocks of a design. A block has the objective by place in
// Design.Points; who is missing has failed. An error says which points are wanting.
func (d Design) Interactions(blocks []map[int]float64, lowerIsBetter bool) (Interactions, error) {
	if d.Around {
		return Interactions{}, fmt.Errorf("race: the neighbours of a winner tell nothing of pairs; they are a race with the winner as baseline")
	}
	fit, err := d.fit(blocks, lowerIsBetter)
	if err != nil {
		return Interactions{}, err
	}
	options := len(d.Options)
	out := Interactions{Blocks: fit.blocks, Values: fit.values}
	if fit.spare > 0 {
		out.Noise = math.Expm1(fit.spread)
	}
	product, joint := fit.none(), fit.none()
	for i := range options {
		alone, main, among := fit.none(), fit.none(), fit.none()
		alone[fit.single(i)], main[fit.single(i)], among[fit.single(i)] = 1, 1, 1
		product[fit.single(i)], joint[fit.single(i)] = 1, 1
		for j := range options {
			if j != i {
				main[fit.pair(i, j)], among[fit.pair(i, j)] = 0.5, 1
			}
		}
		name := []string{d.Options[i]}
		out.Alone = append(out.Alone, fit.effect(name, alone))
		out.Main = append(out.Main, fit.effect(name, main))
		out.Among = append(out.Among, fit.effect(name, among))
	}
	for i := range options {
		for j := i + 1; j < options; j++ {
			pair := fit.none()
			pair[fit.pair(i, j)], joint[fit.pair(i, j)] = 1, 1
			out.Pairs = append(out.Pairs, fit.change([]string{d.Options[i], d.Options[j]}, pair))
		}
	}
	out.Product, out.Joint = fit.effect(d.Options, product), fit.effect(d.Options, joint)
	out.Reversed = d.reversed(fit, out)
	return out, nil
}

// reversed lists the options whose gain changes its sign beside another one, or beside
// all, where the change itself is shown.
func (d Design) reversed(fit *fit, found Interactions) []Reversal {
	var out []Reversal
	add := func(i int, beside []string, change, among Effect) {
		if alone := found.Alone[i]; change.Shown && alone.Gain*among.Gain < 0 {
			out = append(out, Reversal{Option: d.Options[i], Beside: beside, Alone: alone, Among: among, Both: alone.Shown && among.Shown})
		}
	}
	for i, option := range d.Options {
		all := fit.none()
		var others []string
		for j, other := range d.Options {
			if j == i {
				continue
			}
			change, beside := fit.none(), fit.none()
			change[fit.pair(i, j)], beside[fit.pair(i, j)], beside[fit.single(i)] = 1, 1, 1
			all[fit.pair(i, j)] = 1
			others = append(others, other)
			add(i, []string{other}, fit.change(nil, change), fit.effect([]string{option}, beside))
		}
		if len(others) > 1 {
			add(i, others, fit.change(nil, all), found.Among[i])
		}
	}
	return out
}

// A fit is the solution of the least squares: coefficients are levels of blocks, then
// gains of options, then of pairs.
type fit struct {
	blocks, options int
	values, spare   int // values; those beyond the number of coefficients
	coefficients    *mat.VecDense
	covariance      *mat.SymDense // for a variance of 1
	spread          float64       // standard deviation of a value, where some are spare
}

func (f *fit) none() []float64   { return make([]float64, f.coefficients.Len()) }
func (f *fit) single(i int) int  { return f.blocks + i }
func (f *fit) pair(i, j int) int { return pairPlace(f.blocks, f.options, i, j) }

// change is an effect of pairs: one of their own, or what all others together change.
func (f *fit) change(options []string, weights []float64) Effect {
	compared := f.options * (f.options - 1) / 2
	if f.options > 2 {
		compared += f.options
	}
	return f.estimate(options, weights, compared)
}

// effect is any other: three for each option, the product and the joint gain.
func (f *fit) effect(options []string, weights []float64) Effect {
	return f.estimate(options, weights, 3*f.options+2)
}

// estimate is a weighted sum of coefficients with its interval, one of as many as compared.
func (f *fit) estimate(options []string, weights []float64, compared int) Effect {
	vector := mat.NewVecDense(len(weights), weights)
	gain := mat.Dot(vector, f.coefficients)
	effect := Effect{Options: options, Gain: math.Expm1(gain)}
	if f.spare == 0 {
		return effect
	}
	critical := distuv.StudentsT{Sigma: 1, Nu: float64(f.spare)}.Quantile(1 - (1-stat.Confidence)/2/float64(compared))
	reach := critical * f.spread * math.Sqrt(mat.Inner(vector, f.covariance, vector))
	effect.Interval = stat.Interval{Low: math.Expm1(gain - reach), High: math.Expm1(gain + reach)}
	effect.Formed = true
	effect.Shown = math.Abs(gain) > reach
	return effect
}

// pairPlace is where the coefficient of a pair stands.
func pairPlace(blocks, options, i, j int) int {
	if i > j {
		i, j = j, i
	}
	return blocks + options + i*(2*options-i-1)/2 + j - i - 1
}

// fit solves the model.
func (d Design) fit(blocks []map[int]float64, lowerIsBetter bool) (*fit, error) {
	var measured []map[int]float64
	for number, block := range blocks {
		for place, value := range block {
			if place < 0 || place >= len(d.Points) || !(value > 0) || math.IsInf(value, 0) {
				return nil, fmt.Errorf("race: block %d of the design: point %d is %v: want a finite number above 0 for one of %d points", number+1, place+1, value, len(d.Points))
			}
		}
		if len(block) > 0 {
			measured = append(measured, block)
		}
	}
	options := len(d.Options)
	fit := &fit{blocks: len(measured), options: options}
	size := len(measured) + options + options*(options-1)/2
	normal, right := mat.NewSymDense(size, nil), mat.NewVecDense(size, nil)
	squares := 0.0
	for number, block := range measured {
		for place := range d.Points { // in order, so that equal blocks give equal bits
			value, there := block[place]
			if !there {
				continue
			}
			log := math.Log(value)
			if lowerIsBetter {
				log = -log
			}
			row := d.row(number, len(measured), d.Points[place])
			for i, a := range row {
				right.SetVec(a, right.AtVec(a)+log)
				for _, b := range row[i:] {
					normal.SetSym(a, b, normal.At(a, b)+1)
				}
			}
			squares += log * log
			fit.values++
		}
	}
	return fit, d.solve(fit, normal, right, squares)
}

// row returns which coefficients a value is the sum of, ascending.
func (d Design) row(block, blocks int, point []bool) []int {
	row := []int{block}
	for i, on := range point {
		if on {
			row = append(row, blocks+i)
		}
	}
	for i, on := range point {
		for j := i + 1; on && j < len(point); j++ {
			if point[j] {
				row = append(row, pairPlace(blocks, len(point), i, j))
			}
		}
	}
	return row
}

// solve completes a fit from its normal equations.
func (d Design) solve(fit *fit, normal *mat.SymDense, right *mat.VecDense, squares float64) error {
	var factor mat.Cholesky
	if !factor.Factorize(normal) || factor.Cond() > 1e10 {
		return fmt.Errorf("race: %d values in %d blocks do not tell the effects of %d options and their pairs apart: measure each of the %d points of the design in one block at least",
			fit.values, fit.blocks, len(d.Options), len(d.Points))
	}
	fit.coefficients, fit.covariance = mat.NewVecDense(right.Len(), nil), mat.NewSymDense(right.Len(), nil)
	if err := factor.SolveVecTo(fit.coefficients, right); err != nil {
		return fmt.Errorf("race: effects of a design: %w", err)
	}
	if err := factor.InverseTo(fit.covariance); err != nil {
		return fmt.Errorf("race: intervals of a design: %w", err)
	}
	if fit.spare = fit.values - right.Len(); fit.spare > 0 {
		rest := max(squares-mat.Dot(fit.coefficients, right), 0)
		fit.spread = max(math.Sqrt(rest/float64(fit.spare)), leastSpread)
	}
	return nil
}

// Product returns the product of single gains, to stand beside the measured joint gain.
// Its interval takes the ends of all, which hold at once.
func Product(singles []Standing) Effect {
	gain, low, high := 1.0, 1.0, 1.0
	effect := Effect{Formed: len(singles) > 0}
	for _, single := range singles {
		effect.Options = append(effect.Options, single.Name)
		effect.Formed = effect.Formed && single.Formed
		gain *= 1 + single.Gain
		low *= 1 + single.Interval.Low
		high *= 1 + single.Interval.High
	}
	effect.Gain = gain - 1
	if effect.Formed {
		effect.Interval = stat.Interval{Low: low - 1, High: high - 1}
		effect.Shown = low > 1 || high < 1
	}
	return effect
}
