package predict

import (
	"fmt"
	"math"

	"ossian/internal/runner"
)

// Memory is what one device holds, to the byte, and what is left for keys and values.
type Memory struct {
	Device      int64          `json:"device"`      // bytes that programs see
	Budget      int64          `json:"budget"`      // of these, what the engine may take
	Weights     int64          `json:"weights"`     // with the padding of kernels
	Activations int64          `json:"activations"` // of the largest step
	Reserve     int64          `json:"reserve"`     // contexts, libraries, buffers of all-reduces
	KV          int64          `json:"kv"`          // bytes of the pools
	BlockBytes  int64          `json:"block_bytes"` // of a block of one group
	Blocks      int            `json:"blocks"`      // of all groups, where they share a pool
	Groups      []runner.Group `json:"groups"`      // as the scheduler gets them
	Shared      bool           `json:"shared"`      // the groups have Blocks together, not each
	Tokens      int            `json:"tokens"`      // that the pools hold of full attention
}

// A FitError says that a model does not fit, and what would.
type FitError struct {
	Model, Machine string
	Need, Have     int64 // bytes of one device
	LeastTP        int   // fewest devices with which it fits; 0 = none
}

// Error says what does not fit.
func (e *FitError) Error() string {
	text := fmt.Sprintf("%s does not fit on %s: a device needs %.1f GB, %.1f GB may be taken", e.Model, e.Machine, float64(e.Need)/1e9, float64(e.Have)/1e9)
	if e.LeastTP > 0 {
		return text + fmt.Sprintf("; it fits with tp %d", e.LeastTP)
	}
	return text + "; it fits with no number of devices that divides its heads"
}

// Fits returns the memory plan of one device, or a *FitError.
func Fits(s Scenario) (Memory, error) {
	if err := s.check(); err != nil {
		return Memory{}, err
	}
	r, err := s.resolve()
	if err != nil {
		return Memory{}, err
	}
	memory, err := s.fit(r)
	if err == nil {
		return memory, nil
	}
	failure := &FitError{Model: s.Model.Spec.Name, Machine: s.Machine.Name, Have: memory.Budget,
		Need: memory.Weights + memory.Activations + memory.Reserve + memory.leastKV(&s, r)}
	for tp := 2 * r.tp; tp <= s.Machine.Most && s.Model.Spec.Heads%tp == 0; tp *= 2 {
		more := r
		more.tp = tp
		if _, err := s.fit(more); err == nil {
			failure.LeastTP = tp
			break
		}
	}
	return memory, failure
}

// leastKV is what one sequence of the longest context takes.
func (m *Memory) leastKV(s *Scenario, r resolved) int64 {
	windows, _ := s.Model.Spec.Groups()
	return int64(len(windows)) * int64(blocksOf(r.maxLen, r.blockSize)) * m.BlockBytes
}

// blocksOf returns how many blocks n tokens take.
func blocksOf(n, size int) int { return (n + size - 1) / size }

// fit fills a memory plan; the error says that not even one sequence fits.
func (s *Scenario) fit(r resolved) (Memory, error) {
	c := newCosts(s, r)
	m := Memory{Device: int64(s.Machine.Memory.Value)}
	m.Budget = int64(math.Floor(r.share * s.Machine.Memory.Value))
	embedding := 0.0
	if !s.Model.Spec.Tied {
		embedding = float64(s.Model.Parts[0].Bytes) / float64(r.tp)
	}
	m.Weights = int64(c.dense.bytes + c.output.bytes + embedding + c.expert.bytes*float64(s.Model.Spec.FFN.Experts))
	m.Activations = activations(s, r)
	m.Reserve = s.Engine.Reserve
	if r.tp > 1 {
		m.Reserve += s.Engine.ReserveTP
	}
	if c.expertName == "mxfp4" {
		m.Reserve += s.Engine.ReserveExperts
	}
	m.KV = m.Budget - m.Weights - m.Activations - m.Reserve
	// Groups have the same number of layers, that of the smallest, so that their blocks are alike.
	layers := c.perGroup[0]
	for _, n := range c.perGroup {
		layers = min(layers, n)
	}
	m.BlockBytes = int64(float64(r.blockSize) * layers * c.layerKV)
	m.Blocks = max(int(m.KV/m.BlockBytes), 0)
	if s.Settings.Blocks > 0 {
		m.Blocks = s.Settings.Blocks
	}
	m.split(&c, r, layers, s.Engine.SharedPool)
	if m.Tokens < min(r.maxLen, 2*r.blockSize) || m.Weights > m.Budget {
		return m, fmt.Errorf("no room for keys and values")
	}
	return m, nil
}

// activations are the buffers of the largest step: what is alive at once in its widest layer, or
// the logits of all sequences as a sampler that sorts holds them (4 bytes, a copy, 8 of indices).
// A server of Qwen3-32B on one H100 has just room for prompts of 32,000 tokens beside that.
func activations(s *Scenario, r resolved) int64 {
	spec := s.Model.Spec
	row := 2*spec.Hidden + 2*spec.FFN.Inner/r.tp
	if spec.FFN.Experts > 0 {
		row = 2*spec.Hidden + spec.FFN.TopK*(3*spec.FFN.Inner/r.tp+2*spec.Hidden)
	}
	rows := int64(r.tokens) * int64(row) * 2
	logits := int64(r.sequences) * int64(spec.Vocab) * 16
	if s.Machine.CPU {
		logits /= 4 // sampled in place
	}
	return max(rows, logits)
}

// split hands the blocks out to the groups of layers: where the engine has one pool, every group
// may take all of it; else each gets what goes with the longest contexts. c has how many layers
// the groups have, layers how many the smallest has.
func (m *Memory) split(c *costs, r resolved, layers float64, shared bool) {
	m.Groups = make([]runner.Group, len(c.windows))
	parts := 0.0 // how many blocks a step through all layers takes, in blocks of the smallest group
	left := m.Blocks
	for group, window := range c.windows {
		m.Groups[group] = runner.Group{Blocks: m.Blocks, Window: window}
		if window == 0 {
			parts += c.perGroup[group] / layers
		} else if !shared {
			need := r.sequences*(window/r.blockSize+3) + blocksOf(r.tokens, r.blockSize)
			m.Groups[group].Blocks = min(need, left/2)
			left -= m.Groups[group].Blocks
		}
	}
	if parts == 0 { // windows everywhere
		parts = float64(len(c.windows))
	}
	m.Shared = shared && len(c.windows) > 1
	for group, window := range c.windows {
		if window == 0 && !m.Shared {
			m.Groups[group].Blocks = int(float64(left) / parts)
		}
	}
	m.Tokens = int(float64(left)/parts) * r.blockSize
}
