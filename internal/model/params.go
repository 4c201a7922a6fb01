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

// Params lists every parameter of s in the order in which a step reads them.
func Params(s *Spec) []Param {
	ps := []Param{{"embed", []int{s.Vocab, s.Hidden}}}
	for i := range s.Layers {
		add := func(name string, shape ...int) {
			ps = append(ps, Param{"layers." + strconv.Itoa(i) + "." + name, shape})
		}
		bias := func(on bool, name string, shape ...int) {
			if on {
				add(name, shape...)
			}
		}
		// Attention.
		add("attn_norm", s.Hidden)
		add("q", s.QDim(), s.Hidden)
		bias(s.QKVBias, "q_bias", s.QDim())
		add("k", s.KVDim(), s.Hidden)
		bias(s.QKVBias, "k_bias", s.KVDim())
		add("v", s.KVDim(), s.Hidden)
		bias(s.QKVBias, "v_bias", s.KVDim())
		bias(s.QKNorm, "q_norm", s.HeadDim)
		bias(s.QKNorm, "k_norm", s.HeadDim)
		bias(s.Sinks, "sinks", s.Heads)
		add("o", s.Hidden, s.QDim())
		bias(s.OBias, "o_bias", s.Hidden)
		// Feed-forward: dense, or a router and experts.
		add("ffn_norm", s.Hidden)
		ffn := &s.FFN
		if ffn.IsDense(i) {
			inner := ffn.Inner
			if ffn.Experts > 0 {
				inner = ffn.DenseInner
			}
			add("up", 2*inner, s.Hidden)
			bias(ffn.Bias, "up_bias", 2*inner)
			add("down", s.Hidden, inner)
			bias(ffn.Bias, "down_bias", s.Hidden)
			continue
		}
		add("router", ffn.Experts, s.Hidden)
		bias(ffn.Bias, "router_bias", ffn.Experts)
		add("up", ffn.Experts, 2*ffn.Inner, s.Hidden)
		bias(ffn.Bias, "up_bias", ffn.Experts, 2*ffn.Inner)
		add("down", ffn.Experts, s.Hidden, ffn.Inner)
		bias(ffn.Bias, "down_bias", ffn.Experts, s.Hidden)
	}
	ps = append(ps, Param{"norm", []int{s.Hidden}})
	if !s.Tied {
		ps = append(ps, Param{"head", []int{s.Vocab, s.Hidden}})
	}
	return ps
}

// CheckParams reports the first parameter of s that is missing or has another shape.
func CheckParams(s *Spec, params map[string]tensor.Tensor) error {
	for _, param := range Params(s) {
		stored, ok := params[param.Name]
		if !ok {
			return fmt.Errorf("model %s: parameter %q is missing, expected shape %v", s.Name, param.Name, param.Shape)
		}
		if !slices.Equal(stored.Shape, param.Shape) {
			return fmt.Errorf("model %s: tensor %q has shape %v, parameter %q needs %v", s.Name, stored.Name, stored.Shape, param.Name, param.Shape)
		}
	}
	return nil
}
