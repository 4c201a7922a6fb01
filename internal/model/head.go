package model

import (
	"fmt"
	"slices"
	"strconv"

	"ossian/internal/runner"
	"ossian/internal/tensor"
)

// A Joiner is a device on which a head computes beside another device of the same kind, whose buffers
// and embeddings it reads.
type Joiner interface {
	Device
	// Join copies x into the columns of dst from col on: row rows[i] of x into row i, or every row
	// into its own where rows is nil. x may be of the other device. Where x is narrower, its rows lie
	// side by side for a Linear to read; where it is as wide as dst, AddNorm may.
	Join(dst Buf, col int, x Buf, rows []int32)
}

// A HeadSpec is the numbers and switches of an EAGLE3 head (models.md 4.1): one layer that reads an
// embedding and what the target has made of the token before, its feature.
type HeadSpec struct {
	Spec               Spec    // of the layer; Vocab is the target's
	Target             int     // hidden size of the target
	Boundaries         []int   // after how many layers of the target its residual stream is taken, ascending; nil = its last state, normalised
	Out                int     // ids that it guesses among
	IDs                []int32 // [Out] the target's id of each; nil = the same
	Embed, Head        bool    // it has an embedding, an output matrix of its own; otherwise the target's
	NormBeforeFC       bool    // one norm over all features together
	NormFeatures       bool    // a norm for each feature
	NormBeforeResidual bool    // the residual is the normalised feature
	NormOutput         bool    // the next feature is the normalised state
}

// Features is how many states of the target a feature is made of.
func (s *HeadSpec) Features() int { return max(len(s.Boundaries), 1) }

// HeadParams lists every parameter of a head. Names are those of a layer of Params without their
// prefix, and embed, fc, input_norm, fc_norm.N, hidden_norm, norm, head.
func HeadParams(head *HeadSpec) []Param {
	spec, hidden := &head.Spec, head.Spec.Hidden
	list := []Param{
		{"attn_norm", []int{hidden}}, {"hidden_norm", []int{hidden}},
		{"q", []int{spec.QDim(), 2 * hidden}}, {"k", []int{spec.KVDim(), 2 * hidden}}, {"v", []int{spec.KVDim(), 2 * hidden}}, {"o", []int{hidden, spec.QDim()}},
		{"ffn_norm", []int{hidden}}, {"up", []int{2 * spec.FFN.Inner, hidden}}, {"down", []int{hidden, spec.FFN.Inner}}, {"norm", []int{hidden}},
	}
	// Which of these a head has depends on its kind: without embed or head it borrows the target's.
	some := func(is bool, name string, shape ...int) {
		if is {
			list = append(list, Param{name, shape})
		}
	}
	some(head.Boundaries != nil, "fc", hidden, head.Features()*head.Target)
	some(head.NormBeforeFC, "input_norm", head.Features()*head.Target)
	for feature := range head.Features() {
		some(head.NormFeatures, "fc_norm."+strconv.Itoa(feature), head.Target)
	}
	some(head.Embed, "embed", spec.Vocab, hidden)
	some(head.Head, "head", head.Out, hidden)
	return list
}

// CheckHead reports the first number of a head that cannot go with target, or parameter that is
// missing or has another shape.
func CheckHead(head *HeadSpec, target *Spec, params map[string]tensor.Tensor) error {
	if err := head.Spec.Validate(); err != nil {
		return fmt.Errorf("head %s: %w", head.Spec.Name, err)
		// Sizes that must agree: a head without its own matrices computes in the target's width.
	}
	switch {
	case head.Target != target.Hidden:
		return fmt.Errorf("head %s is for a model whose hidden size is %d, that of %s is %d", head.Spec.Name, head.Target, target.Name, target.Hidden)
	case head.Spec.Vocab != target.Vocab:
		return fmt.Errorf("head %s is for a vocabulary of %d ids, %s has %d", head.Spec.Name, head.Spec.Vocab, target.Name, target.Vocab)
	case head.Boundaries == nil && head.Spec.Hidden != head.Target, !head.Embed && head.Spec.Hidden != target.Hidden, !head.Head && head.Spec.Hidden != target.Hidden:
		return fmt.Errorf("head %s has hidden size %d and shares states or matrices with %s, which has %d", head.Spec.Name, head.Spec.Hidden, target.Name, target.Hidden)
	case !head.Head && head.Out != target.Vocab, head.IDs != nil && len(head.IDs) != head.Out:
		return fmt.Errorf("head %s guesses among %d ids, and has %d of them mapped to %d", head.Spec.Name, head.Out, len(head.IDs), target.Vocab)
	}
	// Boundaries ascend, so that states are taken in one pass over the layers.
	for at, boundary := range head.Boundaries {
		if boundary < 0 || boundary > target.Layers || (at > 0 && boundary <= head.Boundaries[at-1]) {
			return fmt.Errorf("head %s takes states after %v layers of %s, which has %d", head.Spec.Name, head.Boundaries, target.Name, target.Layers)
		}
	}
	for at, id := range head.IDs {
		if id < 0 || int(id) >= target.Vocab {
			return fmt.Errorf("head %s: its id %d is %d of the target, whose vocabulary has %d", head.Spec.Name, at, id, target.Vocab)
		}
	}
	for _, param := range HeadParams(head) {
		stored, ok := params[param.Name]
		if !ok {
			return fmt.Errorf("head %s: parameter %q is missing, expected shape %v", head.Spec.Name, param.Name, param.Shape)
		}
		if !slices.Equal(stored.Shape, param.Shape) {
			return fmt.Errorf("head %s: tensor %q has shape %v, parameter %q needs %v", head.Spec.Name, stored.Name, stored.Shape, param.Name, param.Shape)
		}
	}
	return nil
}

// Taps are what a decoder copies of its residual stream for a head, in steps whose rows ask for
// guesses.
type taps struct {
	dev        Joiner
	boundaries []int // nil = the last state, normalised
	features   []Buf // [boundary] [T,H]
	open       bool  // in this step
}

// at copies the state after so many layers, if the head reads it.
func (t *taps) at(boundary int, state Buf) {
	if t == nil || !t.open {
		return
	}
	if number := slices.Index(t.boundaries, boundary); number >= 0 {
		t.dev.Join(t.features[number], 0, state, nil)
	}
}

// last copies the normalised state, if the head reads that.
func (t *taps) last(state Buf) {
	if t != nil && t.open && t.boundaries == nil {
		t.dev.Join(t.features[0], 0, state, nil)
	}
}

// begin opens the taps for a step.
func (t *taps) begin(b *runner.Batch) {
	if t != nil {
		t.open = slices.ContainsFunc(b.Rows, func(row runner.Row) bool { return row.Ahead > 0 })
	}
}

// A Head is the runner of an EAGLE3 head. Each token of its batches is the one behind the position at
// which it stands, and Take says which feature goes with it. It gives ids of the target.
type Head struct {
	spec *HeadSpec
	dev  Joiner
	info runner.Info

	embed, head                         Weight // own or the target's
	fc, inputNorm                       Weight // nil = none
	featureNorms                        []Weight
	attnNorm, hiddenNorm, ffnNorm, norm Weight
	qkv, qkvBias                        []Weight // of queries, keys and values; the biases are nil
	o, up, down                         Weight
	source                              *taps

	feature, featureNormed       Buf   // [T,Target] with NormFeatures
	taken, takenWhole            Buf   // [T,features·Target] side by side, and the same for its norm
	token, tokenNormed           Buf   // [T,H] embedding
	state, stateNormed           Buf   // [T,H] feature, then residual stream
	both                         Buf   // [T,2H]
	projected                    []Buf // [T,QDim], [T,KVDim], [T,KVDim]
	attended                     Buf   // [T,QDim]
	normed, delta, gateUp, inner Buf
	made                         Buf // [R,H] next features
	picked, logits               Buf
	part                         int // R
	places                       []int32
	own                          bool
	flight                       bool
}

// NewHead uploads the parameters of a head to dev. Beside a target it computes after Follow. The head
// owns dev.
func NewHead(spec *HeadSpec, params map[string]tensor.Tensor, dev Joiner, lim Limits) (*Head, error) {
	info, err := newInfo(&spec.Spec, lim)
	if err != nil {
		return nil, err
	}
	h := &Head{spec: spec, dev: dev, info: info}
	loading := uploader{dev: dev, params: params}
	h.upload(&loading)
	h.alloc(&loading, lim)
	return h, loading.err
}

// upload uploads all parameters; those the head lacks become nil.
func (h *Head) upload(uploader *uploader) {
	matrix := func(name string) Weight { return uploader.weight(name, AsMatrix) }
	vector := func(name string) Weight { return uploader.weight(name, AsVector) }
	h.embed, h.head = uploader.weight("embed", AsTable), matrix("head")
	h.fc, h.inputNorm = matrix("fc"), vector("input_norm")
	for feature := range h.spec.Features() {
		h.featureNorms = append(h.featureNorms, vector("fc_norm."+strconv.Itoa(feature)))
	}
	h.attnNorm, h.hiddenNorm, h.ffnNorm, h.norm = vector("attn_norm"), vector("hidden_norm"), vector("ffn_norm"), vector("norm")
	h.qkv, h.qkvBias = uploader.beside("", AsMatrix, "q", "k", "v"), make([]Weight, 3)
	h.o, h.up, h.down = matrix("o"), matrix("up"), matrix("down")
}

// alloc makes the activation buffers.
func (h *Head) alloc(uploader *uploader, lim Limits) {
	spec, tokens := &h.spec.Spec, lim.MaxTokens
	wide := h.spec.Features() * h.spec.Target
	if h.spec.Boundaries != nil {
		h.taken = uploader.buf(tokens, wide)
	}
	if h.spec.NormBeforeFC {
		h.takenWhole = uploader.buf(tokens, wide)
	}
	if h.spec.NormFeatures {
		h.feature, h.featureNormed = uploader.buf(tokens, h.spec.Target), uploader.buf(tokens, h.spec.Target)
	}
	h.token, h.tokenNormed, h.state, h.stateNormed = uploader.buf(tokens, spec.Hidden), uploader.buf(tokens, spec.Hidden), uploader.buf(tokens, spec.Hidden), uploader.buf(tokens, spec.Hidden)
	h.both, h.normed, h.delta = uploader.buf(tokens, 2*spec.Hidden), uploader.buf(tokens, spec.Hidden), uploader.buf(tokens, spec.Hidden)
	h.projected, h.attended = uploader.bufs(tokens, spec.QDim(), spec.KVDim(), spec.KVDim()), uploader.buf(tokens, spec.QDim())
	h.gateUp, h.inner = uploader.buf(tokens, 2*spec.FFN.Inner), uploader.buf(tokens, spec.FFN.Inner)
	h.part = lim.Outputs()
	h.made, h.picked, h.logits = uploader.buf(lim.MaxSeqs, spec.Hidden), uploader.buf(h.part, spec.Hidden), uploader.buf(h.part, h.spec.Out)
}

// Follow has the head read what target, a decoder on a device of the same kind, makes of its tokens in
// steps with rows that have Ahead. It takes buffers of the target's device.
func (h *Head) Follow(target runner.Runner) error {
	decoder, ok := target.(*decoder)
	if !ok {
		return fmt.Errorf("head %s: %s is no decoder, whose states it could read", h.spec.Spec.Name, target.Info().Name)
	}
	// The features lie on the target's device, which writes them; the head's device reads them from
	// there.
	source := &taps{dev: h.dev, boundaries: h.spec.Boundaries}
	loading := uploader{dev: decoder.dev}
	for range h.spec.Features() {
		source.features = append(source.features, loading.buf(decoder.info.MaxTokens, h.spec.Target))
	}
	if loading.err != nil {
		return loading.err
	}
	if !h.spec.Embed {
		h.embed = decoder.embed
	}
	if !h.spec.Head {
		h.head = decoder.head
	}
	h.source, decoder.taps = source, source
	return nil
}

// Take implements shadow.Head.
func (h *Head) Take(places []int32, own bool) { h.places, h.own = places, own }

// forward is the whole head, models.md 4.1. Logits are wanted of that many tokens.
func (h *Head) forward(wanted int) {
	dev, hidden := h.dev, h.spec.Spec.Hidden
	dev.Embed(h.token, h.embed)
	h.read()
	dev.AddNorm(h.tokenNormed, h.token, nil, h.attnNorm)
	dev.AddNorm(h.stateNormed, h.state, nil, h.hiddenNorm)
	// A head's attention sees token and state side by side: its projections are twice as wide.
	dev.Join(h.both, 0, h.tokenNormed, nil)
	dev.Join(h.both, hidden, h.stateNormed, nil)
	if h.spec.NormBeforeResidual {
		dev.Join(h.state, 0, h.stateNormed, nil)
	}
	dev.Linears(h.projected, h.both, h.qkv, h.qkvBias)
	dev.Rotate(h.projected[0], h.projected[1], nil, nil)
	dev.Store(0, h.projected[1], h.projected[2])
	dev.Attend(h.attended, h.projected[0], 0, nil)
	dev.Linear(h.delta, h.attended, h.o, nil)
	dev.AddNorm(h.normed, h.state, h.delta, h.ffnNorm)
	dev.Linear(h.gateUp, h.normed, h.up, nil)
	dev.GLU(h.inner, h.gateUp)
	dev.Linear(h.delta, h.inner, h.down, nil)
	dev.AddNorm(h.normed, h.state, h.delta, h.norm)
	if wanted == 0 {
		return
	}
	// What the next token's state is made of: the residual stream, or its norm.
	next := h.state
	if h.spec.NormOutput {
		next = h.normed
	}
	dev.Select(h.made, next, 0)
	for from := 0; from < wanted; from += h.part {
		dev.Select(h.picked, h.normed, from)
		dev.Linear(h.logits, h.picked, h.head, nil)
		dev.Sample(h.logits, from)
	}
}

// read makes the state of each token: its own of before, or that of the target's states.
func (h *Head) read() {
	dev := h.dev
	if h.own {
		dev.Join(h.state, 0, h.made, h.places)
		return
	}
	features := h.source.features
	if h.spec.Boundaries == nil {
		// Without boundaries the head reads the target's last state alone, and has no fc.
		dev.Join(h.state, 0, features[0], h.places)
		return
	}
	for number, feature := range features {
		if h.spec.NormFeatures {
			dev.Join(h.feature, 0, feature, h.places)
			dev.AddNorm(h.featureNormed, h.feature, nil, h.featureNorms[number])
			dev.Join(h.taken, number*h.spec.Target, h.featureNormed, nil)
			continue
		}
		dev.Join(h.taken, number*h.spec.Target, feature, h.places)
	}
	if h.spec.NormBeforeFC {
		dev.Join(h.takenWhole, 0, h.taken, nil)
		dev.AddNorm(h.taken, h.takenWhole, nil, h.inputNorm)
	}
	dev.Linear(h.state, h.taken, h.fc, nil)
}

// Info implements runner.Runner.
func (h *Head) Info() runner.Info {
	info := h.info
	info.Name = h.dev.Name()
	return info
}

// Launch implements runner.Runner, for rows of which each that samples has no guesses.
func (h *Head) Launch(batch *runner.Batch) error {
	switch {
	case h.flight:
		return fmt.Errorf("head %s: a step is uncollected", h.spec.Spec.Name)
	case h.source == nil || (!h.own && !h.source.open) || len(h.places) != len(batch.Tokens):
		return fmt.Errorf("head %s: features of %d tokens for %d, of the target %v", h.spec.Spec.Name, len(h.places), len(batch.Tokens), h.source != nil && h.source.open)
	}
	if err := h.dev.Begin(batch); err != nil {
		return err
	}
	h.forward(wanted(batch))
	if err := h.dev.End(); err != nil {
		return err
	}
	h.flight = true
	return nil
}

// Collect implements runner.Runner.
func (h *Head) Collect() (*runner.Result, error) {
	if !h.flight {
		return nil, fmt.Errorf("head %s: no step to collect", h.spec.Spec.Name)
	}
	h.flight = false
	result, err := h.dev.Wait()
	if err != nil || h.spec.IDs == nil {
		return result, err
	}
	for _, ids := range result.Tokens {
		for i, id := range ids {
			ids[i] = h.spec.IDs[id]
		}
	}
	return result, nil
}

// Close implements runner.Runner.
func (h *Head) Close() error { return h.dev.Close() }
