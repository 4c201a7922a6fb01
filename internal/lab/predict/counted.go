package predict

import (
	"fmt"
	"math"

	"ossian/internal/cuda/cost"
	"ossian/internal/lab/predict/machine"
	"ossian/internal/plan"
	"ossian/internal/runner"
	"ossian/internal/tensor"
)

// What Ossian's own kernels reach on a GPU follows from counts: package cost says how long each kernel of a
// step takes by what it does and by the card's data sheet. Here that becomes a calibration, in the same
// parameters as if somebody had measured it, and says that nobody has, or that kernels alone were measured.

// countedSlower is by how much a step may take longer than counts say, at the end of the interval: a
// judgement, no measurement. The other end is the bound.
const countedSlower = 2.5

// fittedWithin is by how much a step may take longer or shorter than counts whose constants were fitted to
// kernels of the card. Steps of whole models on an H200 were counted as 0.96 to 1.2 of what they took
// (TestMeasuredSteps); the rest is a judgement.
const fittedWithin = 1.5

// countedNote is what a prediction with such a calibration says of itself.
func (c *Calibration) countedNote() string {
	switch {
	case !c.Counted:
		return ""
	case c.Kernels > 0:
		return fmt.Sprintf("kernels of %s on %s: from counts, with constants fitted to %d measured times of that card; intervals go from %[4]v times as fast to %[4]v times as slow as counted", c.Engine, c.Machine, c.Kernels, fittedWithin)
	}
	return fmt.Sprintf("kernels of %s on %s: from counts and data sheets, no card has been measured; intervals go from what the machine allows to %v times as slow as counted", c.Engine, c.Machine, countedSlower)
}

// formatOf is how package cuda packs a role's weights.
func formatOf(model *plan.Model, role plan.Role) cost.Format {
	switch typeName(model.Parts[role]) {
	case "mxfp4":
		return cost.MXFP4
	case "q8":
		return cost.Q8
	}
	return cost.BF16
}

// hasKernels reports whether package cuda has kernels for all types of the model's weights.
func hasKernels(model *plan.Model) bool {
	for _, part := range model.Types {
		switch part.Type {
		case tensor.MXFP4, tensor.MXFP4HF, tensor.BF16, tensor.F16, tensor.F32, tensor.Q8_0:
		default:
			return false
		}
	}
	return true
}

// countedModel is the model of a scenario as package cost wants it.
func countedModel(s *Scenario, r resolved) cost.Model {
	model, spec := s.Model, s.Model.Spec
	head := plan.Head
	if spec.Tied {
		head = plan.Embedding
	}
	out := cost.Model{Hidden: spec.Hidden, Vocab: spec.Vocab, Windows: spec.Windows, Bias: spec.QKVBias, Inner: spec.FFN.Inner,
		Heads: cost.Heads{Heads: spec.Heads, KV: spec.KVHeads, Dim: spec.HeadDim, Norm: spec.QKNorm, Codes: r.kvBytes < 2},
		Dense: formatOf(model, plan.Attention), Router: formatOf(model, plan.Router), Head: formatOf(model, head), Table: formatOf(model, plan.Embedding)}
	if spec.FFN.Experts > 0 {
		packed := formatOf(model, plan.Experts)
		out.Experts = &cost.Experts{Up: cost.Matrix{Format: packed, Rows: 2 * spec.FFN.Inner, Cols: spec.Hidden},
			Down: cost.Matrix{Format: packed, Rows: spec.Hidden, Cols: spec.FFN.Inner}, Count: spec.FFN.Experts, TopK: spec.FFN.TopK, Bias: spec.FFN.Bias}
	}
	return out
}

// A counter times steps of a scenario by counts.
type counter struct {
	card    cost.Card
	fitted  cost.Fitted
	model   cost.Model
	chances []float64 // of experts
	bound   *Clock    // what the classes ask of the machine
}

// newCounter returns one; false: Ossian has no kernels for the scenario, or the card's parts are not
// known. What several devices do together is not counted, as package cuda computes on one.
func newCounter(s *Scenario, r resolved) (*counter, bool) {
	if s.Engine.Name != "ossian" || s.Machine.CPU || r.tp > 1 || !hasKernels(s.Model) {
		return nil, false
	}
	card, err := cost.CardOf(s.Machine)
	c := &counter{card: card, model: countedModel(s, r)}
	if err != nil || !c.model.Heads.Counted() {
		return nil, false
	}
	c.model.Products.Warpgroups = card.Warpgroups
	if e := c.model.Experts; e != nil {
		e.Products = c.model.Products
	}
	c.fitted, c.fitted.Kernels = countedConstants(card.Name)
	costs := newCosts(s, r)
	c.bound = newClock(s, r, bound(costs.parameters(r)))
	if e := c.model.Experts; e != nil {
		c.chances = chances(e.Count, e.TopK, expertPower)
	}
	return c, true
}

// countedConstants returns the constants of a card, and to how many kernels they were fitted.
func countedConstants(card string) (cost.Fitted, int) {
	constants, measured := cost.ConstantsOf(card)
	if !measured {
		return constants, 0
	}
	return constants, constants.Kernels
}

// A countedStep is a step by counts, and what the clock's classes ask of the machine in it.
type countedStep struct {
	total cost.Total
	load  Load
}

// step counts a step of n rows that have some tokens each from a position on.
func (c *counter) step(n, start, length int) countedStep {
	step := cost.Step{Sampled: n, Drawn: true}
	for range n {
		step.Rows = append(step.Rows, cost.Row{Start: start, Len: length})
	}
	return countedStep{c.total(step, n*length), c.bound.Load(alike(n, start, length))}
}

// total counts a step of that many tokens.
func (c *counter) total(step cost.Step, tokens int) cost.Total {
	for _, chance := range c.chances {
		step.Assigned = append(step.Assigned, chance*float64(tokens))
	}
	return c.fitted.Constants.Total(&c.card, c.model.Launches(step), len(step.Rows))
}

// alike returns n rows of some tokens each from a position on.
func alike(n, start, length int) (rows []runner.Row) {
	for slot := range n {
		rows = append(rows, runner.Row{Slot: slot, Start: start, Len: length, Sample: true})
	}
	return rows
}

// What is counted to find shares: a step for one, decoding for some, and the prompt of one.
const (
	countedRows    = 32
	countedContext = 1000
	countedPrompt  = 512 // what a step takes of prompts where nobody says otherwise
)

// counted returns the calibration that counts make for a scenario; nil = there is none.
func (s *Scenario) counted(r resolved) *Calibration {
	c, ok := newCounter(s, r)
	if !ok {
		return nil
	}
	one, some, prompt := c.step(1, countedContext, 1), c.step(countedRows, countedContext, 1), c.step(1, 0, countedPrompt)
	calibration := &Calibration{Machine: s.Machine.Name, Engine: s.Engine.Name, Versions: map[string]int{s.Engine.Version: 1},
		Parameters: map[string]machine.Parameter{}, Counted: true, Kernels: c.fitted.Kernels}
	origin := machine.Spec
	if c.fitted.Kernels > 0 {
		origin = machine.Fitted
	}
	set := func(name string, value float64, unit string) {
		calibration.Parameters[name] = machine.Parameter{Value: value, Unit: unit, Origin: origin}
	}
	shape, bandwidth := &c.bound.shape, s.Machine.Bandwidth.Value
	share := func(name string, slow, fast *countedStep, peak float64, of func(*countedStep) (seconds, bytes, flops float64)) {
		seconds, bytes, _ := of(slow)
		reach := bytes / bandwidth / seconds
		set(name+bandwidthOf, reach, "share")
		seconds, bytes, flops := of(fast)
		read := bytes / bandwidth / reach
		left := math.Max(math.Pow(seconds, 1.5)-math.Pow(read, 1.5), 0) // the clock's roofline, undone
		set(name+computeOf, flops/peak/math.Max(math.Pow(left, 2.0/3), 0.1*seconds), "share")
	}
	share("dense/"+shape.denseName, &one, &prompt, c.peak(s, shape.denseName), func(step *countedStep) (float64, float64, float64) {
		return step.total.Parts[cost.Projections] + step.total.Parts[cost.Output], step.load.Bytes[Weights] + step.load.Bytes[Output], step.load.FLOPs[Weights] + step.load.FLOPs[Output]
	})
	if shape.expertName != "" {
		share("experts/"+shape.expertName, &some, &prompt, c.peak(s, shape.expertName), func(step *countedStep) (float64, float64, float64) {
			return step.total.Parts[cost.ExpertProducts], step.load.Bytes[Experts], step.load.FLOPs[Experts]
		})
	}
	share("attention/"+shape.attn, &some, &prompt, s.Machine.Compute(16), func(step *countedStep) (float64, float64, float64) {
		return step.total.Parts[cost.Attention], step.load.Bytes[Decode] + step.load.Bytes[Prompt], step.load.FLOPs[Prompt]
	})
	c.others(&one, &prompt, calibration.Parameters["attention/"+shape.attn+bandwidthOf].Value, set)
	calibration.Tiles = c.tiles(newClock(s, r, calibration))
	return calibration
}

// tiles fills Calibration.Tiles for steps of up to 4,096 tokens.
func (c *counter) tiles(clock *Clock) map[string][]float64 {
	out := map[string][]float64{}
	for i := range 2*12 + 1 {
		// As one row, since products see tokens alone.
		tokens := int(math.Round(math.Pow(2, float64(i)/2)))
		total := c.total(cost.Step{Rows: []cost.Row{{Len: tokens}}, Sampled: tokens}, tokens)
		load := c.bound.Load(alike(tokens, 0, 1))
		times := clock.Times(&load)
		for class, part := range map[Class]cost.Part{Weights: cost.Projections, Experts: cost.ExpertProducts, Output: cost.Output} {
			if times[class] > 0 {
				out[class.String()] = append(out[class.String()], total.Parts[part]/times[class])
			}
		}
	}
	return out
}

// peak is the arithmetic of which the clock takes a share.
func (c *counter) peak(s *Scenario, name string) float64 {
	if name == "mxfp4" && s.Machine.FP4.Value > 0 {
		return s.Machine.Compute(4)
	}
	return s.Machine.Compute(16)
}

// others are gaps, passes and the host: a layer takes what a step for one leaves beside its products and
// what attention reads with the share that it reaches; in such a step the host may be behind the card.
func (c *counter) others(one, prompt *countedStep, attention float64, set func(name string, value float64, unit string)) {
	constants := &c.fitted.Constants
	products := func(step *countedStep) float64 {
		return step.total.Parts[cost.Projections] + step.total.Parts[cost.ExpertProducts] + step.total.Parts[cost.Output]
	}
	fixed := math.Max(one.total.Device, one.total.Launched) - products(one) - one.load.Bytes[Decode]/c.card.Bandwidth/attention
	set(layerTime, 1e6*math.Max(fixed, 0)/float64(c.bound.shape.layers), "us")
	passes := math.Max(prompt.total.Device-products(prompt)-prompt.total.Parts[cost.Attention]-fixed, 1e-9)
	set(elementwiseShare, math.Min(prompt.load.Passes/c.card.Bandwidth/passes, 1), "share")
	set("attention/"+c.bound.shape.attn+"/mixed", 0, "share")
	set(hostStep, 1e3*constants.Step, "ms")
	set(hostSequence, 1e6*constants.Row, "us")
	set(hostHidden, 0, "share")
	set(expertExponent, expertPower, "")
}

// widenCounted gives metrics their intervals where the calibration is counted: from the bound on one side to
// countedSlower times the time on the other; where constants were fitted, fittedWithin either way. What is a
// count stays one.
func (sim *Simulation) widenCounted(metrics map[string]Estimate) {
	least, counted := sim.Retime(bound(sim.Parameters())).Values, sim.Retime(sim.calibration).Values
	for key, e := range metrics {
		likes := likeness(key)
		if len(likes) == 0 {
			continue
		}
		faster := 1.0 // the bound's part of the time
		for _, like := range likes {
			if counted[like] > 0 {
				faster = math.Min(faster, least[like]/counted[like])
			}
		}
		slower := countedSlower
		if sim.calibration.Kernels > 0 {
			slower, faster = fittedWithin, math.Max(faster, 1/fittedWithin)
		}
		if HigherIsBetter(key) {
			metrics[key] = Estimate{e.Value, e.Value / slower, e.Value / faster}
		} else {
			metrics[key] = Estimate{e.Value, e.Value * faster, e.Value * slower}
		}
	}
}

// Note says what a clock rests on that nobody measured; empty = nothing.
func (c *Clock) Note() string { return c.note }
