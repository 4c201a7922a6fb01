package plan

import (
	"fmt"
	"slices"
	"sort"

	"ossian/internal/model"
)

// Defaults of the limits that Fit fills in.
const (
	DefaultSeqs      = 1
	DefaultTokens    = 512 // prompt tokens per step: 20b experts see 64 rows each (models.md 6.1)
	DefaultBlockSize = 16
)

// A Footprint is the memory of a device and what surrounds it, in bytes.
type Footprint struct {
	// Card names the card whose memory holds weights, keys and values, and activations: the only
	// ones that Total counts, since the others are the host's. "" = the host's memory holds all.
	Card        string
	Weights     int64 // copied or repacked
	Mapped      int64 // read where the file is mapped: page cache
	KV          int64 // pools of keys and values
	MostKV      int64 // that was asked for as their bound; 0 = none was
	Activations int64 // buffers of a step
	Runtime     int64 // tokenizer, tables, heap head-room
	Connections int64 // of a server: what clients take besides their requests' bodies
	Replies     int64 // of a server: what is put together before it is sent
	Grammars    int64 // of a server: compiled forms of output, and the vocabulary as they see it
	Draft       int64 // of all these, what a model takes that guesses beside another
}

// Total returns the sum of what has to fit into one memory.
func (f Footprint) Total() int64 {
	if f.Card != "" {
		return f.Weights + f.KV + f.Activations
	}
	return f.Weights + f.Mapped + f.KV + f.Activations + f.Runtime + f.Connections + f.Replies + f.Grammars
}

// fits reports whether f takes no more than is available, <= 0 = unknown, nor its pools more than
// their bound.
func (f Footprint) fits(available int64) bool {
	return (available <= 0 || f.Total() <= available) && (f.MostKV == 0 || f.KV <= f.MostKV)
}

// A Cost says what a device takes with given limits; it must not shrink as they
// grow. The device's package computes it.
type Cost func(model.Limits) (Footprint, error)

// Estimate is the Cost of a device that reads weights in place and keeps float32
// activations, for when no device is at hand.
func (m *Model) Estimate(lim model.Limits) (Footprint, error) {
	_, bytes := m.Total()
	spec := m.Spec
	estimate := Footprint{Mapped: bytes, Runtime: RuntimeBytes(spec)}
	for group, per := range m.KVBytes() {
		estimate.KV += per * int64(lim.Blocks[group]) * int64(lim.BlockSize)
	}
	inner := 3 * max(spec.FFN.Inner, spec.FFN.DenseInner) // gate, up and their product
	if spec.FFN.Experts > 0 {
		inner = max(3*spec.FFN.Inner*spec.FFN.TopK, 3*spec.FFN.DenseInner) + spec.FFN.Experts + 2*spec.FFN.TopK
	}
	row := 3*spec.Hidden + 2*spec.QDim() + 2*spec.KVDim() + inner
	estimate.Activations = 4 * (int64(lim.MaxTokens)*int64(row) + int64(lim.MaxSeqs)*int64(spec.Hidden+spec.Vocab))
	return estimate, nil
}

// RuntimeBytes is the room for everything that is neither weights, keys and values nor
// activations: tokenizer (about 400 bytes per id), binary, heap head-room.
func RuntimeBytes(s *model.Spec) int64 { return 64<<20 + 400*int64(s.Vocab) }

// heapPerBody is what a byte of a request's body takes of the Go heap at worst: the
// buffer, decoded strings and parts, the rendered prompt, and as much again that is
// not collected yet. TestADM2Memory attacks a server with such bodies.
const heapPerBody = 8

// RequestBytes is the heap that requests take while bodies bytes of theirs are read
// and decoded, on top of RuntimeBytes.
func RequestBytes(bodies int64) int64 { return heapPerBody * bodies }

// Bodies returns how many bytes of request bodies a server with available bytes of
// memory should let in at once: such that they take a thirty-second part of it, at
// most a usual number, but one body of the largest size in any case.
// available <= 0 means unknown.
func Bodies(usual, largest, available int64) int64 {
	if available > 0 {
		usual = min(usual, available/32/heapPerBody)
	}
	return max(usual, largest+1) // a reader sees the end one byte behind it
}

// heapPerReply is what a byte that a server accounts for of a reply takes of the Go heap
// at worst: lists that grow, the JSON that is made of them, and what is not collected
// yet. TestADM2Replies holds servers to it.
const heapPerReply = 4

// ReplyBytes is the heap that replies take while bytes of them are held.
func ReplyBytes(replies int64) int64 { return heapPerReply * replies }

// leastReplies is how many bytes of replies a server has room for in any case.
const leastReplies = 8 << 20

// Replies returns how many bytes of replies a server with available bytes of memory
// should hold at once: such that they take a thirty-second part of it, at most a usual
// number. available <= 0 means unknown.
func Replies(usual, available int64) int64 {
	if available > 0 {
		usual = min(usual, max(available/32/heapPerReply, leastReplies))
	}
	return usual
}

// GrammarBytes is the heap that compiled forms of output take where cached bytes of them
// are kept, with the vocabulary as they see it: about 100 bytes per id while it is made.
// TestGrammarBytes holds it to that.
func GrammarBytes(s *model.Spec, cached int64) int64 { return cached + 100*int64(s.Vocab) }

// leastGrammars is how many bytes of compiled forms a server has room for in any case.
const leastGrammars = 8 << 20

// Grammars returns how many bytes of compiled forms a server with available bytes of
// memory should keep: a thirty-second part of it, at most a usual number. available <= 0
// means unknown.
func Grammars(usual, available int64) int64 {
	if available > 0 {
		usual = min(usual, max(available/32, leastGrammars))
	}
	return usual
}

// ConnectionBytes is what a connection takes of the heap and of stacks at most, with the
// request that streams on it and a header block of that many bytes. TestCON1 and
// TestADM1Connections hold servers to it.
func ConnectionBytes(header int64) int64 { return 40<<10 + header }

// TLSBytes is what a connection takes besides where it is encrypted. TestADM1Connections
// holds servers to it.
const TLSBytes = 24 << 10

// fewConnections is how many a server has room for in any case.
const fewConnections = 512

// Connections returns how many connections of that many bytes each a server with
// available bytes of memory should keep at once: such that they take a thirty-second
// part of it, at most a usual number. available <= 0 means unknown.
func Connections(usual, each, available int64) int64 {
	if available > 0 {
		usual = min(usual, max(available/32/each, fewConnections))
	}
	return usual
}

// Blocks returns the pool of each KV group with which MaxSeqs sequences of MaxLen
// tokens never wait for a block. A windowed group needs its window and what the
// steps in flight add, not the whole sequence.
func Blocks(s *model.Spec, lim model.Limits) []int {
	windows, _ := s.Groups()
	whole := blocksOf(lim.MaxLen, lim.BlockSize)
	blocks := make([]int, len(windows))
	for group, window := range windows {
		blocks[group] = lim.MaxSeqs * whole
		if window == 0 {
			continue
		}
		// Blocks outside the window are given back between steps, not within them.
		flight := lim.MaxTokens * max(lim.Depth, 1)
		alone := touched(window-1+flight, lim.BlockSize)                                           // one sequence gets the whole step
		shared := lim.MaxSeqs*(touched(window, lim.BlockSize)+1) + blocksOf(flight, lim.BlockSize) // they share it
		blocks[group] = min(blocks[group], lim.MaxSeqs*alone, max(shared, alone))
	}
	return blocks
}

// blocksOf returns how many blocks n tokens from the beginning of one take.
func blocksOf(n, blockSize int) int { return (n + blockSize - 1) / blockSize }

// touched returns how many blocks any n neighbouring tokens can lie in.
func touched(n, blockSize int) int { return (n+blockSize-2)/blockSize + 1 }

// A Plan is limits that fit.
type Plan struct {
	Limits    model.Limits
	Footprint Footprint
	Available int64 // bytes that were there to fit into
}

// A FitError says what does not fit and what would.
type FitError struct {
	Model     string
	Need      Footprint
	Available int64
	Asked     model.Limits
	MaxLen    int // largest context that fits with Asked.MaxSeqs; 0 = none
	MaxSeqs   int // most sequences that fit with Asked.MaxLen; 0 = none
}

// Error says what does not fit and, if anything would, what.
func (e *FitError) Error() string {
	if e.Need.Card != "" {
		return fmt.Sprintf("model %s does not fit into the memory of %s: --max-model-len %d with --max-num-seqs %d needs %s (weights %s, KV cache %s, activations %s), %s are available%s",
			e.Model, e.Need.Card, e.Asked.MaxLen, e.Asked.MaxSeqs, inUnits(e.Need.Total()), inUnits(e.Need.Weights), inUnits(e.Need.KV), inUnits(e.Need.Activations), inUnits(e.Available),
			e.remedy("; free some of it, use a smaller or more quantised model, or --device cpu"))
	}
	clients := ""
	if n := e.Need.Connections + e.Need.Replies + e.Need.Grammars; n > 0 {
		clients = ", connections, replies and grammars " + inUnits(n)
	}
	if most := e.Need.MostKV; most > 0 && (e.Available <= 0 || e.Need.Total() <= e.Available) {
		return fmt.Sprintf("model %s: --max-model-len %d with --max-num-seqs %d needs %s of keys and values, --kv-cache-memory-bytes lets them have %s%s",
			e.Model, e.Asked.MaxLen, e.Asked.MaxSeqs, inUnits(e.Need.KV), inUnits(most), e.remedy("; raise it"))
	}
	text := fmt.Sprintf("model %s does not fit into memory: --max-model-len %d with --max-num-seqs %d needs %s (weights %s, KV cache %s, activations %s, runtime %s%s), %s are available",
		e.Model, e.Asked.MaxLen, e.Asked.MaxSeqs, inUnits(e.Need.Total()), inUnits(e.Need.Weights+e.Need.Mapped), inUnits(e.Need.KV),
		inUnits(e.Need.Activations), inUnits(e.Need.Runtime), clients, inUnits(e.Available))
	return text + e.remedy("; free memory, raise the memory limit, or use a smaller or more quantised model")
}

// remedy says what would fit, and otherwise what else to do.
func (e *FitError) remedy(otherwise string) string {
	switch {
	case e.MaxLen > 0 && e.MaxSeqs > 0:
		return fmt.Sprintf("; what fits: --max-model-len %d, or --max-num-seqs %d", e.MaxLen, e.MaxSeqs)
	case e.MaxLen > 0:
		return fmt.Sprintf("; what fits: --max-model-len %d", e.MaxLen)
	case e.MaxSeqs > 0:
		return fmt.Sprintf("; what fits: --max-num-seqs %d", e.MaxSeqs)
	}
	return otherwise
}

// inUnits writes bytes for people, in the unit in which there is something before the point. Two
// sums that differ by less than a tenth of it look alike.
func inUnits(n int64) string {
	size, unit := float64(n), 0
	units := []string{"bytes", "kB", "MB", "GB"}
	for ; size >= 999.95 && unit < len(units)-1; unit++ {
		size /= 1000
	}
	if unit == 0 {
		return fmt.Sprintf("%d %s", n, units[0])
	}
	return fmt.Sprintf("%.1f %s", size, units[unit])
}

// Growth says in a line how far memory grows with requests, which the sizes at the start do not show.
func (p *Plan) Growth() string {
	need := &p.Footprint
	tokens := 0 // of the group that holds the most
	if len(p.Limits.Blocks) > 0 {
		tokens = slices.Max(p.Limits.Blocks) * p.Limits.BlockSize
	}
	return fmt.Sprintf("memory grows as requests come and stays taken: keys and values up to %s (%d tokens), all together up to %s; --kv-cache-memory-bytes bounds them",
		inUnits(need.KV), tokens, inUnits(need.Total()))
}

// Fit completes the zero fields of ask with defaults, the context with the longest that
// the checkpoint promises and the memory holds, and checks that all of it fits
// (ADM-1). available <= 0 means unknown: everything fits. The error may be a
// *FitError.
func Fit(spec *model.Spec, ask model.Limits, available int64, cost Cost) (Plan, error) {
	lim, err := complete(spec, ask)
	if err != nil {
		return Plan{}, err
	}
	// A plan for so many sequences of such a length, whether or not it fits.
	try := func(seqs, length int) (Plan, error) {
		limits := lim
		limits.MaxSeqs, limits.MaxLen = seqs, length
		limits.MaxTokens = min(max(limits.MaxTokens, seqs), seqs*length) // a token for every sequence, no more than all have
		if ask.Blocks == nil {
			limits.Blocks = Blocks(spec, limits)
		}
		footprint, err := cost(limits)
		return Plan{Limits: limits, Footprint: footprint, Available: available}, err
	}
	fits := func(plan Plan, err error) bool {
		return err == nil && plan.Footprint.fits(available)
	}
	plan, err := try(lim.MaxSeqs, lim.MaxLen)
	if err != nil || fits(plan, nil) {
		return plan, err
	}
	// It does not fit. Costs only grow with the limits, so the largest context in whole blocks,
	// and the most sequences, can be searched by halving.
	units := (lim.MaxLen + lim.BlockSize - 1) / lim.BlockSize
	longest := min(lim.MaxLen, lim.BlockSize*sort.Search(units, func(i int) bool { return !fits(try(lim.MaxSeqs, min((i+1)*lim.BlockSize, lim.MaxLen))) }))
	if ask.MaxLen == 0 && longest > 0 {
		return try(lim.MaxSeqs, longest)
	}
	most := sort.Search(lim.MaxSeqs, func(i int) bool { return !fits(try(i+1, lim.MaxLen)) })
	return Plan{}, &FitError{Model: spec.Name, Need: plan.Footprint, Available: available, Asked: plan.Limits, MaxLen: longest, MaxSeqs: most}
}

// complete fills in defaults and refuses what no memory would make possible. Every
// sequence needs a token of a step.
func complete(spec *model.Spec, lim model.Limits) (model.Limits, error) {
	if lim.MaxTokens > 0 && lim.MaxTokens < lim.MaxSeqs {
		return lim, fmt.Errorf("model %s: --max-num-batched-tokens %d is less than --max-num-seqs %d, and every sequence needs a token of a step: raise one or lower the other", spec.Name, lim.MaxTokens, lim.MaxSeqs)
	}
	for _, field := range []struct {
		v    *int
		name string
		def  int
		max  int
	}{
		{&lim.MaxSeqs, "--max-num-seqs", DefaultSeqs, 1 << 16}, {&lim.MaxTokens, "--max-num-batched-tokens", min(DefaultTokens, spec.MaxLen), 1 << 20},
		{&lim.BlockSize, "block size", DefaultBlockSize, 1 << 12}, {&lim.MaxLen, "--max-model-len", spec.MaxLen, spec.MaxLen}, {&lim.Depth, "depth", 1, 8},
	} {
		// Zero stands for the default, which is within the bounds too.
		if *field.v == 0 {
			*field.v = field.def
		}
		if *field.v < 1 || *field.v > field.max {
			return lim, fmt.Errorf("model %s: %s is %d, outside [1, %d]", spec.Name, field.name, *field.v, field.max)
		}
	}
	return lim, nil
}
