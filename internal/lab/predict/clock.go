package predict

import (
	"math"
	"strings"
	"time"

	"ossian/internal/lab/predict/machine"
	"ossian/internal/plan"
	"ossian/internal/runner"
)

// A Class is one kind of kernel: all of a step that one thing bounds.
type Class uint8

// The classes of lab.md 5, in the order of their shares in a report.
const (
	Weights   Class = iota // dense projections and feed-forward parts
	Experts                // of a mixture
	Decode                 // attention of rows with one query
	Prompt                 // attention of chunks
	Output                 // output projection
	Passes                 // element-wise passes, sampling, gaps between kernels
	AllReduce              // adding up between devices
	Host                   // planning, inputs, outputs
	numClasses
)

// String names c as in Prediction.Shares.
func (c Class) String() string {
	return [numClasses]string{"weights", "experts", "decode attention", "prompt attention", "output", "element-wise", "all-reduce", "host"}[c]
}

// A Load is what one step asks of one device, class by class, before any efficiency.
type Load struct {
	Tokens, Sequences, Sampled int
	Mixed                      bool // single-query rows beside a chunk
	Bytes, FLOPs               [Prompt + 2]float64
	Passes                     float64 // bytes of element-wise passes
	Reduce                     float64 // seconds of all-reduces by the table of the machine
}

// A Clock says how long a step takes: the time of virtual time, and of a device that plays a
// machine. It is used by one goroutine.
type Clock struct {
	machine machine.Machine
	r       resolved
	shape   costs
	rate    rates
	experts distinctExperts
	note    string                // see Note
	tiles   [numClasses][]float64 // of a calibration
}

// costs are what a model asks per step, token, row: bytes and FLOPs of one device.
type costs struct {
	layers                      int
	dense, expert, output       unit
	windows                     []int     // of each KV group
	perGroup                    []float64 // layers of it
	layerKV                     float64   // bytes of a token's keys and values in a layer
	pairFLOPs                   float64   // of a query and a key
	grouping                    float64   // query heads that share a key
	tokenPasses, sampledPasses  float64   // bytes
	hidden, topK                float64
	denseName, expertName, attn string
}

// A unit is a set of matrices: bytes read once a step, FLOPs of each token.
type unit struct{ bytes, flops float64 }

// rates are the parameters of a calibration as a clock wants them: bytes and FLOPs per second.
type rates struct {
	bandwidth, compute       [Prompt + 2]float64
	mixed                    float64
	passes, layer            float64
	reduce                   float64
	step, sequence, parallel float64 // seconds
	hidden                   float64
	front                    float64 // seconds of a chat request
}

// typeName names the kernel of matrices by their stored bits per parameter. A type's own bits are
// a little more where biases or norms are counted with it.
func typeName(part plan.Part) string {
	bits := 8 * float64(part.Bytes) / math.Max(float64(part.Params), 1)
	for _, named := range []struct {
		below float64
		name  string
	}{{4.4, "mxfp4"}, {5, "q4"}, {6, "q5"}, {7.5, "q6"}, {12, "q8"}, {24, "bf16"}} {
		if bits < named.below {
			return named.name
		}
	}
	return "f32"
}

// newCosts counts what one of r.tp devices does of a model.
func newCosts(s *Scenario, r resolved) costs {
	model, spec := s.Model, s.Model.Spec
	tp := float64(r.tp)
	sum := func(roles ...plan.Role) (bytes, params float64) {
		for _, role := range roles {
			bytes += float64(model.Parts[role].Bytes)
			params += float64(model.Parts[role].Params)
		}
		return bytes / tp, params / tp
	}
	c := costs{layers: spec.Layers, hidden: float64(spec.Hidden), denseName: typeName(model.Parts[plan.Attention]), attn: "full"}
	bytes, params := sum(plan.Norms, plan.Attention, plan.Router, plan.Dense)
	c.dense = unit{bytes, 2 * params}
	head := plan.Head
	if spec.Tied {
		head = plan.Embedding
	}
	bytes, params = sum(head)
	c.output = unit{bytes, 2 * params}
	if spec.FFN.Experts > 0 {
		c.expertName = typeName(model.Parts[plan.Experts])
		bytes, params = sum(plan.Experts)
		pad := expertPadding(s, r)
		c.topK = float64(spec.FFN.TopK)
		c.expert = unit{pad * bytes / float64(spec.FFN.Experts), 2 * pad * params * float64(spec.FFN.TopK) / float64(spec.FFN.Experts)}
	}
	if spec.Sinks {
		c.attn = "sinks"
	}
	windows, layers := spec.Groups()
	c.windows, c.perGroup = windows, make([]float64, len(windows))
	for _, group := range layers {
		c.perGroup[group]++
	}
	heads := math.Max(float64(spec.KVHeads)/tp, 1) // with more devices than heads some have the same
	c.layerKV = 2 * heads * float64(spec.HeadDim) * r.kvBytes
	c.pairFLOPs = 4 * float64(spec.QDim()) / tp
	c.grouping = math.Max(float64(spec.Heads)/tp/heads, 1)
	c.passes(s, tp)
	return c
}

// passes counts the bytes that element-wise kernels move: of each token norms and residuals,
// rotation, activation, what goes to experts and comes back; of each sampled row the logits.
func (c *costs) passes(s *Scenario, tp float64) {
	spec := s.Model.Spec
	wide := float64(max(spec.FFN.Inner, spec.FFN.DenseInner))
	perLayer := 16*c.hidden + 8*float64(spec.QDim()+2*spec.KVDim())/tp
	if topK := float64(spec.FFN.TopK); spec.FFN.Experts > 0 {
		perLayer += 6*topK*float64(spec.FFN.Inner)/tp + 4*topK*c.hidden
	} else {
		perLayer += 6 * wide / tp
	}
	c.tokenPasses = float64(spec.Layers) * perLayer
	c.sampledPasses = 24 * float64(spec.Vocab) // six passes of 4 bytes
}

// expertPadding is by how much the kernel of 4-bit experts enlarges them: rows to whole 256, and
// on machines without a kernel of their generation's the inner width of each device to whole 128.
// Loaded so, gpt-oss-120b takes 65.97 GiB on the latter and 64.4 GiB on the former, as logs say.
func expertPadding(s *Scenario, r resolved) float64 {
	spec := s.Model.Spec
	if !s.Engine.PaddedExperts || typeName(s.Model.Parts[plan.Experts]) != "mxfp4" {
		return 1
	}
	round := func(n, unit float64) float64 { return math.Ceil(n/unit) * unit / n }
	padding := round(float64(spec.Hidden), 256)
	if s.Machine.FP8.Value == 0 {
		padding *= round(float64(spec.FFN.Inner)/float64(r.tp), 128)
	}
	return padding
}

// isMixed reports whether name is the parameter of mixed steps.
func isMixed(name string) bool { return strings.HasSuffix(name, "/mixed") }

// parameters lists what a clock asks of a calibration.
func (c *costs) parameters(r resolved) []string {
	names := []string{"dense/" + c.denseName + bandwidthOf, "dense/" + c.denseName + computeOf,
		"attention/" + c.attn + bandwidthOf, "attention/" + c.attn + computeOf, "attention/" + c.attn + "/mixed",
		elementwiseShare, layerTime, hostStep, hostSequence, expertExponent}
	if c.expertName != "" {
		names = append(names, "experts/"+c.expertName+bandwidthOf, "experts/"+c.expertName+computeOf)
	}
	if r.tp > 1 {
		names = append(names, reduceScale, hostParallel)
	}
	if r.async {
		names = append(names, hostHidden)
	}
	return names
}

// newClock makes the clock of a scenario; the calibration must have all parameters.
func newClock(s *Scenario, r resolved, calibration *Calibration) *Clock {
	c := &Clock{machine: s.Machine, r: r, shape: newCosts(s, r), note: calibration.countedNote()}
	value := func(name string) float64 { v, _ := calibration.Value(name); return v }
	bits := func(name string) float64 { // of the operands of the arithmetic
		if name == "mxfp4" && s.Machine.FP4.Value > 0 {
			return s.Machine.Compute(4)
		}
		return s.Machine.Compute(16)
	}
	set := func(class Class, name string, peak float64) {
		c.rate.bandwidth[class] = value(name+bandwidthOf) * s.Machine.Bandwidth.Value
		c.rate.compute[class] = value(name+computeOf) * peak
	}
	set(Weights, "dense/"+c.shape.denseName, bits(c.shape.denseName))
	set(Output, "dense/"+c.shape.denseName, bits(c.shape.denseName))
	set(Experts, "experts/"+c.shape.expertName, bits(c.shape.expertName))
	set(Decode, "attention/"+c.shape.attn, s.Machine.Compute(16))
	set(Prompt, "attention/"+c.shape.attn, s.Machine.Compute(16))
	c.rate.mixed = value("attention/" + c.shape.attn + "/mixed")
	c.rate.passes = value(elementwiseShare) * s.Machine.Bandwidth.Value
	c.rate.layer = value(layerTime) * 1e-6
	c.rate.reduce = value(reduceScale)
	c.rate.step, c.rate.sequence, c.rate.parallel = value(hostStep)*1e-3, value(hostSequence)*1e-6, value(hostParallel)*1e-3
	if r.async {
		c.rate.hidden = value(hostHidden)
	}
	for class := range numClasses {
		c.tiles[class] = calibration.Tiles[class.String()]
	}
	c.rate.front = value(frontName(s.Model.Spec)) * 1e-3
	c.experts = newDistinctExperts(s.Model.Spec.FFN.Experts, s.Model.Spec.FFN.TopK, value(expertExponent))
	return c
}

// Load returns what a step with these rows asks of each device.
func (c *Clock) Load(rows []runner.Row) Load {
	var load Load
	s := &c.shape
	var single, chunked, pairs float64 // cached tokens read, and pairs of queries and keys, over all layers
	load.Sequences = len(rows)
	singles, chunks := 0, 0
	for i := range rows {
		row := &rows[i]
		load.Tokens += row.Len
		if row.Sample {
			load.Sampled++
		}
		if row.Len == 1 {
			singles++
		} else {
			chunks++
		}
		for group, window := range s.windows {
			if row.Len == 1 {
				single += s.perGroup[group] * visible(row.Start, 1, window)
				continue
			}
			chunked += s.perGroup[group] * visible(row.Start, row.Len, window)
			pairs += s.perGroup[group] * attended(row.Start, row.Len, window)
		}
	}
	load.Mixed = singles > 0 && chunks > 0
	tokens := float64(load.Tokens)
	load.Bytes[Weights], load.FLOPs[Weights] = s.dense.bytes, s.dense.flops*tokens
	if s.topK > 0 {
		used := c.experts.of(load.Tokens)
		load.Bytes[Experts] = s.expert.bytes * used
		load.FLOPs[Experts] = s.expert.flops * (tokens + c.experts.padding(tokens*s.topK, used)/s.topK)
	}
	load.Bytes[Decode] = single * s.layerKV
	load.Bytes[Prompt], load.FLOPs[Prompt] = chunked*s.layerKV, pairs*s.pairFLOPs
	if load.Sampled > 0 {
		load.Bytes[Output], load.FLOPs[Output] = s.output.bytes, s.output.flops*float64(load.Sampled)
	}
	load.Passes = s.tokenPasses*tokens + s.sampledPasses*float64(load.Sampled)
	if c.r.tp > 1 {
		load.Reduce = 2 * float64(s.layers) * c.machine.AllReduce(tokens*s.hidden*2, c.r.tp)
	}
	return load
}

// visible returns how many cached tokens the queries at start..start+n-1 read.
func visible(start, n, window int) float64 {
	if window == 0 {
		return float64(start + n)
	}
	return float64(min(start+n, window-1+n))
}

// attended returns how many pairs of query and key they form.
func attended(start, n, window int) float64 {
	sum := func(p int) float64 { return float64(p) * float64(p+1) / 2 }
	if window == 0 {
		return sum(start+n) - sum(start)
	}
	short := min(max(window-start, 0), n)
	return sum(start+short) - sum(start) + float64(n-short)*float64(window)
}

// roofline joins the time of reading and the time of computing: neither alone, for they overlap
// but do not hide each other wholly. The power 1.5 is lab.md 5's.
func roofline(read, compute float64) float64 {
	if read <= 0 {
		return compute
	}
	if compute <= 0 {
		return read
	}
	sum := math.Cbrt(read*math.Sqrt(read) + compute*math.Sqrt(compute))
	return sum * sum
}

// Times returns the seconds of each class in a step with that load.
func (c *Clock) Times(load *Load) (times [numClasses]float64) {
	for class := Weights; class <= Output; class++ {
		if load.Bytes[class] == 0 && load.FLOPs[class] == 0 {
			continue
		}
		times[class] = roofline(load.Bytes[class]/c.rate.bandwidth[class], load.FLOPs[class]/c.rate.compute[class])
	}
	times[Weights] *= tileFactor(c.tiles[Weights], load.Tokens)
	times[Experts] *= tileFactor(c.tiles[Experts], load.Tokens)
	times[Output] *= tileFactor(c.tiles[Output], load.Sampled)
	if load.Mixed { // rows with one query are computed like chunks: their heads read one by one
		times[Decode] *= 1 + c.rate.mixed*(c.shape.grouping-1)
	}
	times[Passes] = load.Passes/c.rate.passes + float64(c.shape.layers)*c.rate.layer
	host := c.rate.step + c.rate.sequence*float64(load.Sequences)
	if c.r.tp > 1 {
		times[AllReduce] = c.rate.reduce * load.Reduce
		host += c.rate.parallel
	}
	times[Host] = host * (1 - c.rate.hidden)
	return times
}

// tileFactor reads a table of Calibration.Tiles.
func tileFactor(table []float64, n int) float64 {
	if len(table) == 0 || n < 1 {
		return 1
	}
	at := math.Min(2*math.Log2(float64(n)), float64(len(table)-1))
	low := int(at)
	high := min(low+1, len(table)-1)
	return table[low] + (at-float64(low))*(table[high]-table[low])
}

// StepTime returns how long a step with these rows takes.
func (c *Clock) StepTime(rows []runner.Row) time.Duration {
	load := c.Load(rows)
	times := c.Times(&load)
	total := 0.0
	for _, seconds := range times {
		total += seconds
	}
	return time.Duration(total * float64(time.Second))
}
