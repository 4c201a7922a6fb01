package model

import (
	"fmt"
	"strconv"

	"ossian/internal/runner"
	"ossian/internal/tensor"
)

// A layer is the parameters of one layer.
type layer struct {
	qkv, qkvBias               []Weight // of queries, keys and values; biases nil = none
	attnNorm, o, oBias         Weight   // oBias nil = none
	qNorm, kNorm, sinks        Weight   // nil = none
	ffnNorm                    Weight
	router, routerBias         Weight
	up, upBias, down, downBias Weight // up holds gate and up rows interleaved
	dense                      bool
}

// A decoder is the runner of every family: forward on the buffers of one device. It is used by
// one goroutine.
type decoder struct {
	spec *Spec
	dev  Device
	info runner.Info

	embed, norm, head Weight
	layers            []layer

	hidden, normed, delta Buf // [T,H] residual stream, its norm, what the next norm adds
	attended              Buf // [T,QDim]
	gateUp, inner         Buf // [T,2·inner], [T,inner] dense layers
	router, ids, weights  Buf // [T,experts], [T,topK], [T,topK]
	picked, logits        Buf // [R,H], [R,Vocab]
	fewAttended           Buf // [R,QDim]; nil = the device is no Narrower
	part                  int // R: tokens whose logits are computed at a time

	qkv []Buf // [T,QDim], [T,KVDim], [T,KVDim]

	flight int   // launched and uncollected steps
	taps   *taps // what a head reads; nil = there is none
}

// NewDecoder uploads the parameters to dev and returns a runner that executes spec.
// Every parameter that Params names must be present with its exact shape. loaded,
// which may be nil, is told each parameter after its upload; an error from it ends the loading.
// The runner owns dev.
func NewDecoder(spec *Spec, params map[string]tensor.Tensor, dev Device, lim Limits, loaded func(name string, bytes int64) error) (runner.Runner, error) {
	if err := spec.Validate(); err != nil {
		return nil, fmt.Errorf("model %s: %w", spec.Name, err)
	}
	if err := CheckParams(spec, params); err != nil {
		return nil, err
	}
	info, err := newInfo(spec, lim)
	if err != nil {
		return nil, err
	}
	dec := &decoder{spec: spec, dev: dev, info: info}
	loading := uploader{dev: dev, params: params, loaded: loaded}
	dec.upload(&loading)
	dec.alloc(&loading, lim)
	if loading.err != nil {
		return nil, loading.err
	}
	return dec, nil
}

// newInfo returns what the runner promises with these limits.
func newInfo(spec *Spec, lim Limits) (runner.Info, error) {
	windows, _ := spec.Groups()
	if len(lim.Blocks) != len(windows) {
		return runner.Info{}, fmt.Errorf("model %s: %d KV pool sizes for %d groups", spec.Name, len(lim.Blocks), len(windows))
	}
	if lim.MaxSeqs < 1 || lim.MaxTokens < 1 || lim.MaxLen < 1 || lim.BlockSize < 1 || lim.Depth < 0 || lim.Lookahead < 0 {
		return runner.Info{}, fmt.Errorf("model %s: limits %+v: every one must be positive", spec.Name, lim)
	}
	info := runner.Info{Vocab: spec.Vocab, BlockSize: lim.BlockSize, MaxSeqs: lim.MaxSeqs,
		MaxTokens: lim.MaxTokens, MaxLen: lim.MaxLen, Depth: max(lim.Depth, 1), Lookahead: lim.Lookahead}
	for group, window := range windows {
		info.Groups = append(info.Groups, runner.Group{Blocks: lim.Blocks[group], Window: window})
	}
	return info, nil
}

// An uploader remembers the first error, so that building reads straight down.
type uploader struct {
	dev    Device
	params map[string]tensor.Tensor
	loaded func(string, int64) error
	err    error
}

// weight uploads the named parameter; a parameter the model lacks is nil.
func (u *uploader) weight(name string, use Use) Weight {
	param, ok := u.params[name]
	if !ok || u.err != nil {
		return nil
	}
	weight, err := u.dev.Upload(param, use)
	if err != nil {
		u.err = fmt.Errorf("tensor %q: %w", param.Name, err)
		return nil
	}
	if u.loaded != nil {
		u.err = u.loaded(name, param.Bytes())
	}
	return weight
}

// beside uploads parameters that are multiplied together, one after the other.
func (u *uploader) beside(prefix string, use Use, parts ...string) []Weight {
	var together []tensor.Tensor
	for _, part := range parts {
		if param, ok := u.params[prefix+part]; ok {
			together = append(together, param)
		}
	}
	if u.err == nil && len(together) == len(parts) {
		if u.err = u.dev.Beside(together, use); u.err != nil {
			u.err = fmt.Errorf("tensor %q and its neighbours: %w", together[0].Name, u.err)
		}
	}
	weights := make([]Weight, len(parts))
	for i, part := range parts {
		weights[i] = u.weight(prefix+part, use)
	}
	return weights
}

// buf allocates a buffer; of width 0, which the model has no use for, none.
func (u *uploader) buf(rows, width int) Buf {
	if width == 0 {
		return nil
	}
	return u.bufs(rows, width)[0]
}

// bufs allocates buffers that are written together.
func (u *uploader) bufs(rows int, widths ...int) []Buf {
	if u.err == nil {
		bufs, err := u.dev.Alloc(rows, widths...)
		if err == nil {
			return bufs
		}
		u.err = fmt.Errorf("activation buffers of %d x %d: %w", rows, widths, err)
	}
	return make([]Buf, len(widths))
}

// upload uploads all parameters, layer by layer; those the model lacks become nil.
func (d *decoder) upload(uploader *uploader) {
	table := AsTable
	if d.spec.Tied {
		table = AsTiedTable
	}
	d.embed = uploader.weight("embed", table)
	d.layers = make([]layer, d.spec.Layers)
	for number := range d.layers {
		prefix := "layers." + strconv.Itoa(number) + "."
		// A device may multiply q, k and v as one matrix: beside tells it that they belong
		// together.
		matrix := func(part string) Weight { return uploader.weight(prefix+part, AsMatrix) }
		vector := func(part string) Weight { return uploader.weight(prefix+part, AsVector) }
		d.layers[number] = layer{
			attnNorm: vector("attn_norm"), ffnNorm: vector("ffn_norm"),
			qkv: uploader.beside(prefix, AsMatrix, "q", "k", "v"), qkvBias: uploader.beside(prefix, AsVector, "q_bias", "k_bias", "v_bias"),
			o: matrix("o"), oBias: vector("o_bias"),
			qNorm: vector("q_norm"), kNorm: vector("k_norm"), sinks: vector("sinks"),
			router: matrix("router"), routerBias: vector("router_bias"),
			up: matrix("up"), upBias: vector("up_bias"), down: matrix("down"), downBias: vector("down_bias"),
			dense: d.spec.FFN.IsDense(number),
		}
	}
	d.norm = uploader.weight("norm", AsVector)
	d.head = d.embed
	if !d.spec.Tied {
		d.head = uploader.weight("head", AsMatrix)
	}
}

// alloc makes the activation buffers.
func (d *decoder) alloc(uploader *uploader, lim Limits) {
	spec, tokens := d.spec, lim.MaxTokens
	d.hidden, d.normed, d.delta = uploader.buf(tokens, spec.Hidden), uploader.buf(tokens, spec.Hidden), uploader.buf(tokens, spec.Hidden)
	d.qkv, d.attended = uploader.bufs(tokens, spec.QDim(), spec.KVDim(), spec.KVDim()), uploader.buf(tokens, spec.QDim())
	inner := spec.FFN.DenseInner
	if spec.FFN.Experts == 0 {
		inner = spec.FFN.Inner
	}
	d.gateUp, d.inner = uploader.buf(tokens, 2*inner), uploader.buf(tokens, inner)
	d.router = uploader.buf(tokens, spec.FFN.Experts)
	d.ids, d.weights = uploader.buf(tokens, spec.FFN.TopK), uploader.buf(tokens, spec.FFN.TopK)
	d.part = lim.Outputs() // what steps that only sample need at most
	d.picked, d.logits = uploader.buf(d.part, spec.Hidden), uploader.buf(d.part, spec.Vocab)
	if _, ok := d.dev.(Narrower); ok {
		d.fewAttended = uploader.buf(d.part, spec.QDim())
	}
}

// forward is the whole model, models.md 1.2 and 2.2, for the batch that the device has begun.
func (d *decoder) forward(batch *runner.Batch) {
	dev := d.dev
	dev.Embed(d.hidden, d.embed)
	wanted := wanted(batch)
	few := d.fewAreEnough(wanted, len(batch.Tokens))
	hidden, attended := d.hidden, d.attended
	delta := Buf(nil) // nothing to add before the first layer
	for i := range d.layers {
		layer, last := &d.layers[i], i == len(d.layers)-1
		d.project(i, delta)
		if few && last && wanted == 0 { // keys and values are stored, which is what the step was for
			batch.Beat()
			return
		}
		dev.Attend(d.attended, d.qkv[0], i, layer.sinks)
		if few && last {
			hidden, attended = d.selectFew()
		}
		dev.Linear(d.delta, attended, layer.o, layer.oBias)
		dev.AddNorm(d.normed, hidden, d.delta, layer.ffnNorm)
		d.feedForward(layer)
		delta = d.delta
		batch.Beat()
	}
	dev.AddNorm(d.normed, hidden, delta, d.norm)
	d.taps.at(len(d.layers), hidden)
	d.taps.last(d.normed)
	if few {
		dev.Linear(d.logits, d.normed, d.head, nil)
		dev.Sample(d.logits, 0)
		return
	}
	// Logits are large: they are made, and used up, for part tokens at a time.
	for from := 0; from < wanted; from += d.part {
		dev.Select(d.picked, d.normed, from)
		dev.Linear(d.logits, d.picked, d.head, nil)
		dev.Sample(d.logits, from)
		batch.Beat()
	}
}

// project leaves the queries of all tokens in a layer for its attention, and stores their keys and
// values. delta is what the layer before adds.
func (d *decoder) project(number int, delta Buf) {
	dev, layer := d.dev, &d.layers[number]
	q, k, v := d.qkv[0], d.qkv[1], d.qkv[2]
	dev.AddNorm(d.normed, d.hidden, delta, layer.attnNorm)
	d.taps.at(number, d.hidden)
	dev.Linears(d.qkv, d.normed, layer.qkv, layer.qkvBias)
	dev.Rotate(q, k, layer.qNorm, layer.kNorm)
	dev.Store(number, k, v)
}

// feedForward leaves in delta what a layer makes of normed.
func (d *decoder) feedForward(layer *layer) {
	dev := d.dev
	if layer.dense {
		dev.Linear(d.gateUp, d.normed, layer.up, layer.upBias)
		dev.GLU(d.inner, d.gateUp)
		dev.Linear(d.delta, d.inner, layer.down, layer.downBias)
		return
	}
	dev.Linear(d.router, d.normed, layer.router, layer.routerBias)
	dev.Route(d.ids, d.weights, d.router)
	dev.Experts(d.delta, d.normed, d.ids, d.weights, layer.up, layer.upBias, layer.down, layer.downBias)
}

// fewAreEnough reports whether what follows the last attention is computed only for the tokens whose
// logits are wanted: nobody reads the others' states, unless a head does. Of a prompt it is one token,
// or none. No bit depends on it, as no token's depend on its neighbours (models.md 5.1).
func (d *decoder) fewAreEnough(wanted, tokens int) bool {
	return d.fewAttended != nil && d.taps == nil && wanted < tokens && wanted <= d.part
}

// selectFew returns the residual stream and the attention of the tokens whose logits are wanted.
func (d *decoder) selectFew() (hidden, attended Buf) {
	d.dev.Select(d.picked, d.hidden, 0)
	d.dev.Select(d.fewAttended, d.attended, 0)
	return d.picked, d.fewAttended
}

// wanted counts the tokens of a step whose logits are wanted.
func wanted(b *runner.Batch) (n int) {
	for i := range b.Rows {
		n += len(b.Rows[i].Targets)
		if b.Rows[i].Sample {
			n += 1 + b.Rows[i].Guessed
		}
	}
	return n
}

// Info implements runner.Runner.
func (d *decoder) Info() runner.Info {
	info := d.info
	info.Name = d.dev.Name() // which may have been chosen since
	return info
}

// Launch implements runner.Runner.
func (d *decoder) Launch(batch *runner.Batch) error {
	if d.flight == d.info.Depth {
		return fmt.Errorf("model %s: %d steps are uncollected, depth is %d", d.spec.Name, d.flight, d.info.Depth)
	}
	if err := d.dev.Begin(batch); err != nil {
		return err
	}
	d.taps.begin(batch)
	d.forward(batch)
	if err := d.dev.End(); err != nil {
		return err
	}
	d.flight++
	return nil
}

// Collect implements runner.Runner.
func (d *decoder) Collect() (*runner.Result, error) {
	if d.flight == 0 {
		return nil, fmt.Errorf("model %s: no step to collect", d.spec.Name)
	}
	d.flight--
	return d.dev.Wait()
}

// DeviceOf returns the device of a runner that NewDecoder has made, nil of any other.
func DeviceOf(r runner.Runner) Device {
	d, ok := r.(*decoder)
	if !ok {
		return nil
	}
	return d.dev
}

// Close implements runner.Runner.
func (d *decoder) Close() error { return d.dev.Close() }
