// Package plan says what a model costs before a weight is read: parameters, bytes
// and time of a step, and whether it fits into memory. Callers need neither a
// device nor the contents of a checkpoint.
package plan

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"ossian/internal/model"
	"ossian/internal/runner"
	"ossian/internal/tensor"
)

// A Role is what a parameter is for; their sums are what costs depend on.
type Role uint8

const (
	Embedding Role = iota // [V,H]; also the output projection when tied
	Norms
	Attention // projections, biases, sinks
	Router
	Experts // all of every layer
	Dense   // feed-forward parts without experts
	Head    // output projection when not tied
	numRoles
)

// String names r for people.
func (r Role) String() string {
	return [numRoles]string{"embedding", "norms", "attention", "router", "experts", "feed-forward", "output"}[r]
}

// A Part is what the parameters of one role add up to.
type Part struct {
	Params int64 // parameters
	Bytes  int64 // as stored in the checkpoint
	matrix int64 // parameters that take part in matrix products
}

// A TypePart is what the parameters of one element type add up to.
type TypePart struct {
	Type   tensor.DType
	Params int64
	Bytes  int64
}

// A Model is the countable side of a checkpoint.
type Model struct {
	Spec  *model.Spec
	Parts [numRoles]Part // by Role
	Types []TypePart     // largest first
	KV    tensor.DType   // element type of cached keys and values
}

// New counts the parameters of spec from shapes and types alone; params must hold
// every one that spec asks for. Keys and values are taken to be cached as BF16.
func New(spec *model.Spec, params map[string]tensor.Tensor) (*Model, error) {
	if err := spec.Validate(); err != nil {
		return nil, fmt.Errorf("model %s: %w", spec.Name, err)
	}
	if err := model.CheckParams(spec, params); err != nil {
		return nil, err
	}
	counted := &Model{Spec: spec, KV: tensor.BF16}
	types := map[string]*TypePart{} // by name: both orders of MXFP4 are one type
	for _, param := range model.Params(spec) {
		stored := params[param.Name]
		role, matrix := roleOf(spec, param)
		part := &counted.Parts[role]
		for _, typed := range stored.Typed() {
			elems, bytes, err := size(&typed)
			if err != nil {
				return nil, err
			}
			part.Params += elems
			part.Bytes += bytes
			if matrix {
				part.matrix += elems
			}
			name := typed.DType.String()
			if types[name] == nil {
				types[name] = &TypePart{Type: typed.DType}
			}
			types[name].Params += elems
			types[name].Bytes += bytes
		}
	}
	for _, part := range types {
		counted.Types = append(counted.Types, *part)
	}
	slices.SortFunc(counted.Types, func(a, b TypePart) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.Type, b.Type))
	})
	return counted, nil
}

// size returns the elements and the stored bytes of t by shape and type.
func size(t *tensor.Tensor) (elems, bytes int64, err error) {
	elems = 1
	for _, d := range t.Shape {
		elems *= int64(d)
	}
	blockElems, blockBytes := t.DType.Block()
	if cols := t.Cols(); cols%blockElems != 0 {
		return 0, 0, fmt.Errorf("tensor %q: rows of %d elements are not whole %v blocks of %d", t.Name, cols, t.DType, blockElems)
	}
	bytes = elems / int64(blockElems) * int64(blockBytes)
	if t.DType == tensor.MXFP4HF {
		bytes += elems / 32 // its scales
	}
	return elems, bytes, nil
}

// roleOf returns what a parameter is for, and whether it is a matrix that
// activations are multiplied with.
func roleOf(s *model.Spec, param model.Param) (role Role, matrix bool) {
	// Parameters of experts have one dimension more than those of dense layers.
	name := param.Name[strings.LastIndexByte(param.Name, '.')+1:]
	switch name {
	case "embed":
		return Embedding, s.Tied
	case "head":
		return Head, true
	case "norm", "attn_norm", "ffn_norm", "q_norm", "k_norm":
		return Norms, false
	case "router", "router_bias":
		return Router, name == "router"
	case "up", "down":
		if len(param.Shape) == 3 {
			return Experts, true
		}
		return Dense, true
	case "up_bias", "down_bias":
		if len(param.Shape) == 2 {
			return Experts, false
		}
		return Dense, false
	}
	return Attention, len(param.Shape) == 2
}

// Total returns the parameters and stored bytes of the whole model.
func (m *Model) Total() (params, bytes int64) {
	for _, part := range m.Parts {
		params += part.Params
		bytes += part.Bytes
	}
	return params, bytes
}

// Active returns the parameters that one token is computed with: the embedding
// table counts only where it is the output projection (models.md 6).
func (m *Model) Active() int64 {
	params := int64(0)
	for role, p := range m.Parts {
		params += m.share(Role(role), p.Params, 1)
	}
	return params
}

// share returns how much of n, the total of a role, a step of that many tokens is
// expected to read.
func (m *Model) share(r Role, n int64, tokens int) int64 {
	switch {
	case r == Embedding && !m.Spec.Tied:
		return 0 // a row per token
	case r == Experts && n > 0:
		return int64(math.Round(float64(n) * m.DistinctExperts(tokens) / float64(m.Spec.FFN.Experts)))
	}
	return n
}

// DistinctExperts returns how many experts of a layer a step of that many tokens
// is expected to use, routing uniformly: E·(1−(1−k/E)^T), models.md 6.1.
func (m *Model) DistinctExperts(tokens int) float64 {
	experts, topK := float64(m.Spec.FFN.Experts), float64(m.Spec.FFN.TopK)
	if experts == 0 || tokens == 1 {
		return topK // exact: a token's experts differ
	}
	return experts * (1 - math.Pow(1-topK/experts, float64(tokens)))
}

// KVBytes returns the bytes of a token's keys and values in all layers of each
// KV group, in the order of Spec.Groups.
func (m *Model) KVBytes() []int64 {
	windows, layers := m.Spec.Groups()
	bytes := make([]int64, len(windows))
	for _, group := range layers {
		bytes[group] += m.layerKV()
	}
	return bytes
}

// layerKV returns the bytes of one token's keys and values in one layer.
func (m *Model) layerKV() int64 {
	bytes := m.KV.RowBytes(m.Spec.KVDim())
	if m.KV == tensor.F8_E4M3 {
		bytes += m.Spec.KVHeads // the scale of each vector
	}
	return 2 * int64(bytes)
}

// A Phase is a part of a step that is bound by one thing: reading or computing.
type Phase struct {
	Name  string
	Bytes int64 // read from memory
	FLOPs int64
}

// Step returns the phases of a step with these rows. Weights are read once,
// experts as many as expected, keys and values once per row.
func (m *Model) Step(rows []runner.Row) []Phase {
	tokens, sampled := 0, 0
	var read, pairs int64 // cached tokens read and (query, key) pairs, summed over layers
	windows, layers := m.Spec.Groups()
	perGroup := make([]int64, len(windows))
	for _, group := range layers {
		perGroup[group]++
	}
	for i := range rows {
		row := &rows[i]
		tokens += row.Len
		if row.Sample {
			sampled++
		}
		for group, window := range windows {
			read += perGroup[group] * visible(row.Start, row.Len, window)
			pairs += perGroup[group] * attended(row.Start, row.Len, window)
		}
	}
	// Arithmetic is for each token, so experts count as for one; bytes are read once for all.
	flops := func(role Role, n int) int64 { return 2 * m.share(role, m.Parts[role].matrix, 1) * int64(n) }
	bytes := func(role Role) int64 { return m.share(role, m.Parts[role].Bytes, tokens) }
	phases := []Phase{
		{"attention weights", bytes(Attention) + bytes(Norms), flops(Attention, tokens)},
		{"attention", read * m.layerKV(), pairs * 4 * int64(m.Spec.QDim())}, // q·k and p·v
		{"router", bytes(Router), flops(Router, tokens)},
		{"experts", bytes(Experts), flops(Experts, tokens)},
		{"feed-forward", bytes(Dense), flops(Dense, tokens)},
	}
	if sampled > 0 {
		phases = append(phases, Phase{"output", bytes(Head) + bytes(Embedding), flops(Head, sampled) + flops(Embedding, sampled)})
	}
	return phases
}

// visible returns how many cached tokens the queries at start..start+n-1 read.
func visible(start, n, window int) int64 {
	if window == 0 {
		return int64(start + n)
	}
	return int64(min(start+n, window-1+n))
}

// attended returns how many (query, key) pairs they form.
func attended(start, n, window int) int64 {
	sum := func(p int) int64 { return int64(p) * int64(p+1) / 2 } // 1 + 2 + … + p
	if window == 0 {
		return sum(start+n) - sum(start)
	}
	short := min(max(window-start, 0), n) // queries that see less than a window
	return sum(start+short) - sum(start) + int64(n-short)*int64(window)
}

// Decode returns the bytes read and the FLOPs of a step that decodes one token
// for each of batch sequences of context tokens, the new one included.
func (m *Model) Decode(batch, context int) (bytes, flops int64) {
	for _, phase := range m.Step(decodeRows(batch, context)) {
		bytes += phase.Bytes
		flops += phase.FLOPs
	}
	return bytes, flops
}

// decodeRows are the rows of a step that decodes.
func decodeRows(batch, context int) []runner.Row {
	rows := make([]runner.Row, batch)
	for i := range rows {
		rows[i] = runner.Row{Slot: i, Start: context - 1, Len: 1, Sample: true}
	}
	return rows
}

// A Machine is what bounds a step; a zero field does not bind.
type Machine struct {
	Bandwidth float64       // bytes of memory read per second
	Peak      float64       // FLOP per second
	Overhead  time.Duration // fixed cost of a step
}

// StepTime returns the least time of a step (models.md 6.2): each phase takes
// max(bytes / bandwidth, FLOPs / peak).
func (m *Model) StepTime(machine Machine, rows []runner.Row) time.Duration {
	seconds := 0.0
	for _, phase := range m.Step(rows) {
		least := 0.0
		if machine.Bandwidth > 0 {
			least = float64(phase.Bytes) / machine.Bandwidth
		}
		if machine.Peak > 0 {
			least = max(least, float64(phase.FLOPs)/machine.Peak)
		}
		seconds += least
	}
	return machine.Overhead + time.Duration(seconds*float64(time.Second))
}

// DecodeRate returns the tokens per second that machine allows batch sequences of
// context tokens together.
func (m *Model) DecodeRate(machine Machine, batch, context int) float64 {
	seconds := m.StepTime(machine, decodeRows(batch, context)).Seconds()
	if seconds == 0 {
		return 0
	}
	return float64(batch) / seconds
}
