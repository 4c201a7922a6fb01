// Package eagle opens EAGLE3 heads, small programs that guess what a model says next from its hidden
// states (models.md 4.1). Its callers need not know in which of two families of configurations a head
// was published, how its tensors are called, or what its ids stand for.
package eagle

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"ossian/internal/ckpt"
	"ossian/internal/model"
	"ossian/internal/tensor"
)

// A Head is an opened head. Its tensors are views of mapped files and die with Close of Files.
type Head struct {
	Files  *ckpt.Model // what was opened: its paths, whether they are as they were
	Spec   *model.HeadSpec
	Params map[string]tensor.Tensor // those of model.HeadParams(Spec)

	config settings
}

// settings are what a configuration says besides its layer. Each key may stand at the top or in
// eagle_config.
type settings struct {
	Family             string          `json:"speculators_model_type"`
	Architectures      []string        `json:"architectures"`
	Layer              json.RawMessage `json:"transformer_layer_config"`
	Eagle              json.RawMessage `json:"eagle_config"`
	DraftVocab         int             `json:"draft_vocab_size"`
	Target             int             `json:"target_hidden_size"`
	Layers             []int           `json:"eagle_aux_hidden_state_layer_ids"`
	Aux                *bool           `json:"use_aux_hidden_state"`
	NormBeforeResidual bool            `json:"norm_before_residual"`
	NormBeforeFC       bool            `json:"norm_before_fc"`
	NormFeatures       bool            `json:"fc_norm"`
	NormOutput         bool            `json:"norm_output"`
}

// Is reports whether a configuration is that of an EAGLE3 head.
func Is(config []byte) bool {
	var s settings
	if json.Unmarshal(config, &s) != nil {
		return false
	}
	return s.Family == "eagle3" || slices.ContainsFunc(s.Architectures, func(name string) bool { return strings.Contains(strings.ToLower(name), "eagle3") })
}

// Open opens the head in a directory for a target. offset is added to the layers whose states the
// configuration names: 0, where they count the layers before the state, 1, where they are the number
// of the layer that gives it. Errors about the files are *ckpt.Error; others say what does not fit.
func Open(path string, target *model.Spec, offset int) (*Head, error) {
	head := &Head{}
	files, err := ckpt.OpenPart(path, head.config.layer)
	if err != nil {
		return nil, err
	}
	head.Files = files
	err = head.take(target, offset)
	if err == nil {
		err = model.CheckHead(head.Spec, target, head.Params)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", filepath.Join(path, "config.json"), err), files.Close())
	}
	return head, nil
}

// layer reads a configuration and returns that of its layer, as one of a Llama.
func (s *settings) layer(config []byte) ([]byte, error) {
	var fields map[string]json.RawMessage
	for _, into := range []any{s, &fields} {
		if err := json.Unmarshal(config, into); err != nil {
			return nil, fmt.Errorf("config.json of a head: %w", err)
		}
	}
	if s.Eagle != nil {
		if err := json.Unmarshal(s.Eagle, s); err != nil {
			return nil, fmt.Errorf("config.json of a head: eagle_config: %w", err)
		}
	}
	if s.Family != "" && s.Family != "eagle3" {
		return nil, fmt.Errorf("config.json of a head: speculators_model_type %.40q, eagle3 expected", s.Family)
	}
	if s.Layer != nil {
		fields = nil
		if err := json.Unmarshal(s.Layer, &fields); err != nil || fields == nil {
			return nil, fmt.Errorf("config.json of a head: transformer_layer_config: an object expected, found %.40s", s.Layer)
		}
	}
	// What says nothing about the layer, or says it of the head as a whole.
	for _, key := range []string{"architectures", "eagle_config", "draft_vocab_size", "tie_word_embeddings", "layer_types"} {
		delete(fields, key)
	}
	for key, value := range map[string]string{"model_type": `"llama"`, "num_hidden_layers": "1"} {
		if had, is := fields[key]; is && strings.TrimSpace(string(had)) != value {
			return nil, fmt.Errorf("config.json of a head: %s is %.40s, %s expected", key, had, value)
		}
		fields[key] = json.RawMessage(value)
	}
	return json.Marshal(fields)
}

// take makes Spec and Params of the configuration and the tensors.
func (h *Head) take(target *model.Spec, offset int) error {
	config, spec := &h.config, h.Files.Spec
	if spec.QKVBias || spec.FFN.Bias {
		return errors.New("biases in the layer of a head are not supported")
	}
	h.Spec = &model.HeadSpec{Spec: *spec, Target: config.Target, Out: config.DraftVocab,
		NormBeforeFC: config.NormBeforeFC, NormFeatures: config.NormFeatures, NormBeforeResidual: config.NormBeforeResidual, NormOutput: config.NormOutput}
	// What a configuration leaves out is as in the target, or as in the layer.
	if h.Spec.Target == 0 {
		h.Spec.Target = target.Hidden
	}
	if h.Spec.Out == 0 {
		h.Spec.Out = spec.Vocab
	}
	if config.Aux == nil || *config.Aux {
		h.Spec.Boundaries = boundaries(config.Layers, target.Layers, offset)
	}
	// Both families have one layer, and their own prefixes for it: without them the names are the same.
	stored := make(map[string]tensor.Tensor, len(h.Files.Params))
	for name, t := range h.Files.Params {
		short := strings.TrimPrefix(name, "model.")
		short = strings.TrimPrefix(strings.TrimPrefix(short, "midlayer."), "layers.0.")
		if _, twice := stored[short]; twice {
			return fmt.Errorf("tensor %q is there twice, with prefixes or without", short)
		}
		stored[short] = t
	}
	if err := h.assign(stored); err != nil {
		return err
	}
	return h.ids(stored)
}

// boundaries returns after how many layers states are taken. Where nobody says so, they are those of
// the published training code: near the beginning, in the middle, near the end.
func boundaries(layers []int, of, offset int) []int {
	if layers == nil {
		return []int{2, of / 2, of - 3}
	}
	out := make([]int, len(layers))
	for i, layer := range layers {
		out[i] = layer + offset
	}
	slices.Sort(out)
	return out
}

// tensors says how parameters are called in files.
var tensors = map[string]string{
	"input_layernorm.weight": "attn_norm", "hidden_norm.weight": "hidden_norm", "post_attention_layernorm.weight": "ffn_norm", "norm.weight": "norm",
	"self_attn.q_proj.weight": "q", "self_attn.k_proj.weight": "k", "self_attn.v_proj.weight": "v", "self_attn.o_proj.weight": "o",
	"mlp.down_proj.weight": "down", "fc.weight": "fc", "input_norm.weight": "input_norm",
	"fc_norm.0.weight": "fc_norm.0", "fc_norm.1.weight": "fc_norm.1", "fc_norm.2.weight": "fc_norm.2", "fc_norm.3.weight": "fc_norm.3",
	"embed_tokens.weight": "embed", "lm_head.weight": "head",
}

// known are tensors that make no parameter by themselves: t2d says which ids are in d2t.
var known = []string{"mlp.gate_proj.weight", "mlp.up_proj.weight", "d2t", "t2d", "rotary_emb.inv_freq", "self_attn.rotary_emb.inv_freq"}

// assign makes the parameters. A tensor that nothing would read is an error: the head was trained with
// it, and would guess badly without.
func (h *Head) assign(stored map[string]tensor.Tensor) (err error) {
	h.Params = map[string]tensor.Tensor{}
	for _, name := range slices.Sorted(maps.Keys(stored)) {
		t := stored[name]
		own, is := tensors[name]
		if !is && !slices.Contains(known, name) {
			return fmt.Errorf("tensor %q is none of an EAGLE3 head", t.Name)
		}
		if is {
			h.Params[own] = t
		}
	}
	// The model multiplies gate and up as one matrix of alternating rows.
	gate, up := stored["mlp.gate_proj.weight"], stored["mlp.up_proj.weight"]
	if gate.Shape == nil || up.Shape == nil {
		return errors.New("tensors mlp.gate_proj.weight and mlp.up_proj.weight are missing")
	}
	if h.Params["up"], err = tensor.Interleave("gate_proj and up_proj", gate, up); err != nil {
		return err
	}
	// Rows of quantised types are not taken apart here.
	for name, t := range h.Params {
		if block, _ := t.DType.Block(); !t.DType.Numeric() || block != 1 {
			return fmt.Errorf("tensor %q: F32, F16 or BF16 expected, found %v (parameter %s)", t.Name, t.DType, name)
		}
	}
	_, h.Spec.Embed = h.Params["embed"]
	_, h.Spec.Head = h.Params["head"]
	return nil
}

// ids reads what the ids of the head are in the target's vocabulary: d2t has for each how much is to
// be added.
func (h *Head) ids(stored map[string]tensor.Tensor) error {
	offsets, is := stored["d2t"]
	if !is {
		if h.Spec.Out != h.Spec.Spec.Vocab {
			return fmt.Errorf("%d ids of a vocabulary of %d, and no tensor d2t that says which", h.Spec.Out, h.Spec.Spec.Vocab)
		}
		return nil
	}
	if offsets.DType != tensor.I64 || len(offsets.Shape) != 1 || offsets.Shape[0] != h.Spec.Out {
		return fmt.Errorf("tensor d2t is %v of %v, I64 of [%d] expected", offsets.DType, offsets.Shape, h.Spec.Out)
	}
	// Files are not trusted: an id outside of the vocabulary would be read as a row of a table.
	h.Spec.IDs = make([]int32, h.Spec.Out)
	for id := range h.Spec.IDs {
		to := int64(binary.LittleEndian.Uint64(offsets.Data[8*id:])) + int64(id)
		if to < 0 || to >= int64(h.Spec.Spec.Vocab) {
			return fmt.Errorf("tensor d2t: id %d is %d of the target, whose vocabulary has %d", id, to, h.Spec.Spec.Vocab)
		}
		h.Spec.IDs[id] = int32(to)
	}
	return nil
}
