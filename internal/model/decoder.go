package model

import (
	"fmt"
	"strconv"

	"ossian/internal/runner"
	"ossian/internal/tensor"
)

type layer struct {
	attnNorm, q, k, v, o, ffnNorm Weight
	qBias, kBias, vBias, oBias    Weight // nil = none
	qNorm, kNorm, sinks           Weight // nil = none
	router, routerBias            Weight
	up, upBias, down, downBias    Weight // up holds gate and up rows interleaved
	dense                         bool
}

type decoder struct {
	spec *Spec
	dev  Device
	info runner.Info

	embed, norm, head Weight
	layers            []layer

	x, t, delta          Buf // [T,H] residual stream, its norm, what the next norm adds
	q, a                 Buf // [T,QDim]
	k, v                 Buf // [T,KVDim]
	g, h                 Buf // [T,2·inner], [T,inner] dense layers
	router, ids, weights Buf // [T,experts], [T,topK], [T,topK]
	y, logits            Buf // [R,H], [R,Vocab]
	part                 int // R: tokens whose logits are computed at a time

	flight int // launched and uncollected steps
}

// NewDecoder uploads the parameters to d and returns a runner that executes s.
// Every parameter that Params names must be present with its exact shape. loaded,
// which may be nil, is told each parameter after its upload; an error from it ends the loading.
// The runner owns d.
func NewDecoder(s *Spec, params map[string]tensor.Tensor, d Device, lim Limits, loaded func(name string, bytes int64) error) (runner.Runner, error) {
	if err := s.Validate(); err != nil {
		return nil, fmt.Errorf("model %s: %w", s.Name, err)
	}
	if err := CheckParams(s, params); err != nil {
		return nil, err
	}
	info, err := newInfo(s, lim)
	if err != nil {
		return nil, err
	}
	dec := &decoder{spec: s, dev: d, info: info}
	u := uploader{dev: d, params: params, loaded: loaded}
	dec.upload(&u)
	dec.alloc(&u, lim)
	if u.err != nil {
		return nil, u.err
	}
	return dec, nil
}

func newInfo(s *Spec, lim Limits) (runner.Info, error) {
	windows, _ := s.Groups()
	if len(lim.Blocks) != len(windows) {
		return runner.Info{}, fmt.Errorf("model %s: %d KV pool sizes for %d groups", s.Name, len(lim.Blocks), len(windows))
	}
	if lim.MaxSeqs < 1 || lim.MaxTokens < 1 || lim.MaxLen < 1 || lim.BlockSize < 1 || lim.Depth < 0 {
		return runner.Info{}, fmt.Errorf("model %s: limits %+v: every one must be positive", s.Name, lim)
	}
	info := runner.Info{Vocab: s.Vocab, BlockSize: lim.BlockSize, MaxSeqs: lim.MaxSeqs,
		MaxTokens: lim.MaxTokens, MaxLen: lim.MaxLen, Depth: max(lim.Depth, 1)}
	for g, w := range windows {
		info.Groups = append(info.Groups, runner.Group{Blocks: lim.Blocks[g], Window: w})
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
	t, ok := u.params[name]
	if !ok || u.err != nil {
		return nil
	}
	w, err := u.dev.Upload(t, use)
	if err != nil {
		u.err = fmt.Errorf("tensor %q: %w", t.Name, err)
		return nil
	}
	if u.loaded != nil {
		u.err = u.loaded(name, t.Bytes())
	}
	return w
}

func (u *uploader) buf(rows, width int) Buf {
	if u.err != nil || width == 0 {
		return nil
	}
	b, err := u.dev.Alloc(rows, width)
	if err != nil {
		u.err = fmt.Errorf("activation buffer of %d x %d: %w", rows, width, err)
	}
	return b
}

func (d *decoder) upload(u *uploader) {
	table := AsTable
	if d.spec.Tied {
		table = AsTiedTable
	}
	d.embed = u.weight("embed", table)
	d.layers = make([]layer, d.spec.Layers)
	for i := range d.layers {
		prefix := "layers." + strconv.Itoa(i) + "."
		w := func(part string) Weight { return u.weight(prefix+part, AsMatrix) }
		v := func(part string) Weight { return u.weight(prefix+part, AsVector) }
		d.layers[i] = layer{
			attnNorm: v("attn_norm"), ffnNorm: v("ffn_norm"),
			q: w("q"), k: w("k"), v: w("v"), o: w("o"),
			qBias: v("q_bias"), kBias: v("k_bias"), vBias: v("v_bias"), oBias: v("o_bias"),
			qNorm: v("q_norm"), kNorm: v("k_norm"), sinks: v("sinks"),
			router: w("router"), routerBias: v("router_bias"),
			up: w("up"), upBias: v("up_bias"), down: w("down"), downBias: v("down_bias"),
			dense: d.spec.FFN.IsDense(i),
		}
	}
	d.norm = u.weight("norm", AsVector)
	d.head = d.embed
	if !d.spec.Tied {
		d.head = u.weight("head", AsMatrix)
	}
}

func (d *decoder) alloc(u *uploader, lim Limits) {
	s, t := d.spec, lim.MaxTokens
	d.x, d.t, d.delta = u.buf(t, s.Hidden), u.buf(t, s.Hidden), u.buf(t, s.Hidden)
	d.q, d.a = u.buf(t, s.QDim()), u.buf(t, s.QDim())
	d.k, d.v = u.buf(t, s.KVDim()), u.buf(t, s.KVDim())
	inner := s.FFN.DenseInner
	if s.FFN.Experts == 0 {
		inner = s.FFN.Inner
	}
	d.g, d.h = u.buf(t, 2*inner), u.buf(t, inner)
	d.router = u.buf(t, s.FFN.Experts)
	d.ids, d.weights = u.buf(t, s.FFN.TopK), u.buf(t, s.FFN.TopK)
	d.part = min(lim.MaxSeqs, lim.MaxTokens) // what steps that only sample need at most
	d.y, d.logits = u.buf(d.part, s.Hidden), u.buf(d.part, s.Vocab)
}

// forward is the whole model, models.md 1.2 and 2.2. Logits are wanted of that many
// tokens.
func (d *decoder) forward(wanted int) {
	dev := d.dev
	dev.Embed(d.x, d.embed)
	delta := Buf(nil) // nothing to add before the first layer
	for i := range d.layers {
		l := &d.layers[i]
		dev.AddNorm(d.t, d.x, delta, l.attnNorm)
		dev.Linear(d.q, d.t, l.q, l.qBias)
		dev.Linear(d.k, d.t, l.k, l.kBias)
		dev.Linear(d.v, d.t, l.v, l.vBias)
		dev.Rotate(d.q, d.k, l.qNorm, l.kNorm)
		dev.Store(i, d.k, d.v)
		dev.Attend(d.a, d.q, i, l.sinks)
		dev.Linear(d.delta, d.a, l.o, l.oBias)
		dev.AddNorm(d.t, d.x, d.delta, l.ffnNorm)
		if l.dense {
			dev.Linear(d.g, d.t, l.up, l.upBias)
			dev.GLU(d.h, d.g)
			dev.Linear(d.delta, d.h, l.down, l.downBias)
		} else {
			dev.Linear(d.router, d.t, l.router, l.routerBias)
			dev.Route(d.ids, d.weights, d.router)
			dev.Experts(d.delta, d.t, d.ids, d.weights, l.up, l.upBias, l.down, l.downBias)
		}
		delta = d.delta
	}
	dev.AddNorm(d.t, d.x, delta, d.norm)
	for from := 0; from < wanted; from += d.part {
		dev.Select(d.y, d.t, from)
		dev.Linear(d.logits, d.y, d.head, nil)
		dev.Sample(d.logits, from)
	}
}

// wanted counts the tokens of a step whose logits are wanted.
func wanted(b *runner.Batch) (n int) {
	for i := range b.Rows {
		n += len(b.Rows[i].Targets)
		if b.Rows[i].Sample {
			n++
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
func (d *decoder) Launch(b *runner.Batch) error {
	if d.flight == d.info.Depth {
		return fmt.Errorf("model %s: %d steps are uncollected, depth is %d", d.spec.Name, d.flight, d.info.Depth)
	}
	if err := d.dev.Begin(b); err != nil {
		return err
	}
	d.forward(wanted(b))
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

// Close implements runner.Runner.
func (d *decoder) Close() error { return d.dev.Close() }
