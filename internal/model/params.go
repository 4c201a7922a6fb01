package model

import (
	"fmt"
	"slices"
	"strconv"

	"ossian/internal/tensor"
)

// A Param is a parameter a Spec asks for. Names are the project's own and the
// same for every family and container:
//
//	embed [V,H]   norm [H]   head [V,H] (absent when tied)
//	layers.N. attn_norm ffn_norm [H]   q [QDim,H]  k v [KVDim,H]  o [H,QDim]
//	          q_bias k_bias v_bias o_bias   q_norm k_norm [HeadDim]   sinks [Heads]
//	          up [2I,H] with rows gate0, up0, gate1, …   down [H,I]   (dense)
//	          router [E,H]  router_bias [E]  up [E,2I,H]  up_bias [E,2I]  down [E,H,I]  down_bias [E,H]
type Param struct {
	Name  string
	Shape []int
}

// Params lists every parameter of spec in the order in which a step reads them.
func Params(spec *Spec) []Param {
	ps := []Param{{"embed", []int{spec.Vocab, spec.Hidden}}}
	for i := range spec.Layers {
		add := func(name string, shape ...int) {
			ps = append(ps, Param{"layers." + strconv.Itoa(i) + "." + name, shape})
		}
		bias := func(on bool, name string, shape ...int) {
			if on {
				add(name, shape...)
			}
		}
		// Attention.
		add("attn_norm", spec.Hidden)
		add("q", spec.QDim(), spec.Hidden)
		bias(spec.QKVBias, "q_bias", spec.QDim())
		add("k", spec.KVDim(), spec.Hidden)
		bias(spec.QKVBias, "k_bias", spec.KVDim())
		add("v", spec.KVDim(), spec.Hidden)
		bias(spec.QKVBias, "v_bias", spec.KVDim())
		bias(spec.QKNorm, "q_norm", spec.HeadDim)
		bias(spec.QKNorm, "k_norm", spec.HeadDim)
		bias(spec.Sinks, "sinks", spec.Heads)
		add("o", spec.Hidden, spec.QDim())
		bias(spec.OBias, "o_bias", spec.Hidden)
		// Feed-forward: dense, or a router and experts.
		add("ffn_norm", spec.Hidden)
		ffn := &spec.FFN
		if ffn.IsDense(i) {
			inner := ffn.Inner
			if ffn.Experts > 0 {
				inner = ffn.DenseInner
			}
			add("up", 2*inner, spec.Hidden)
			bias(ffn.Bias, "up_bias", 2*inner)
			add("down", spec.Hidden, inner)
			bias(ffn.Bias, "down_bias", spec.Hidden)
			continue
		}
		add("router", ffn.Experts, spec.Hidden)
		bias(ffn.Bias, "router_bias", ffn.Experts)
		add("up", ffn.Experts, 2*ffn.Inner, spec.Hidden)
		bias(ffn.Bias, "up_bias", ffn.Experts, 2*ffn.Inner)
		add("down", ffn.Experts, spec.Hidden, ffn.Inner)
		bias(ffn.Bias, "down_bias", ffn.Experts, spec.Hidden)
	}
	ps = append(ps, Param{"norm", []int{spec.Hidden}})
	if !spec.Tied {
		ps = append(ps, Param{"head", []int{spec.Vocab, spec.Hidden}})
	}
	return ps
}

// CheckParams reports the first parameter of spec that is missing or has another shape.
func CheckParams(spec *Spec, params map[string]tensor.Tensor) error {
	for _, param := range Params(spec) {
		stored, ok := params[param.Name]
		if !ok {
			return fmt.Errorf("model %s: parameter %q is missing, expected shape %v", spec.Name, param.Name, param.Shape)
		}
		if !slices.Equal(stored.Shape, param.Shape) {
			return fmt.Errorf("model %s: tensor %q has shape %v, parameter %q needs %v", spec.Name, stored.Name, stored.Shape, param.Name, param.Shape)
		}
	}
	return nil
}
