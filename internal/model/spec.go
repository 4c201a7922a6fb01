package model

import (
	"fmt"
	"slices"
)

// A Spec is the numbers and switches of a checkpoint; it has no behaviour.
type Spec struct {
	Family                  string // "gpt-oss", "qwen3", "qwen3moe", "llama"
	Name                    string // from the checkpoint, for people
	Layers, Hidden, Vocab   int
	Heads, KVHeads, HeadDim int // HeadDim is never derived from Hidden/Heads here
	MaxLen                  int // tokens of context the checkpoint promises
	Eps                     float32
	RoPE                    RoPE
	Windows                 []int // [Layers] attention window in tokens, the token itself included; 0 = full
	QKNorm                  bool  // RMS norm per head of q and k before RoPE
	QKVBias, OBias, Sinks   bool
	FFN                     FFN
	Tied                    bool // the output projection is the embedding table
}

// FFN is the feed-forward part of every layer.
type FFN struct {
	Inner      int        // width of a dense layer, or of one expert
	Experts    int        // 0 = every layer is dense
	TopK       int        // experts per token
	Dense      []bool     // [Layers] layers that are dense although Experts > 0; nil = none
	DenseInner int        // their width
	Renorm     bool       // weights of the chosen experts sum to 1 (softmax over the chosen logits)
	Bias       bool       // router, gate-up and down have biases
	Activation Activation // applied to the gate
}

// IsDense reports whether layer n has a dense feed-forward part.
func (f *FFN) IsDense(n int) bool { return f.Experts == 0 || (f.Dense != nil && f.Dense[n]) }

// An Activation combines gate and up, models.md 1.2 and 2.2.
type Activation uint8

const (
	SiLU   Activation = iota // gate·sigmoid(gate)·up
	SwiGLU                   // gpt-oss: g = min(gate, 7), u = clamp(up, ±7): g·sigmoid(1.702·g)·(u+1)
)

// Constants of the gpt-oss activation; the second is not in any config file.
const (
	SwiGLULimit = 7.0
	SwiGLUAlpha = 1.702
)

// Scaling is how RoPE frequencies are stretched beyond the trained length.
type Scaling uint8

const (
	ScalingNone   Scaling = iota
	ScalingLinear         // all frequencies alike
	ScalingYaRN           // slow ones, by a ramp
	ScalingLlama3         // slow ones, by wavelength
)

// RoPE describes rotary position embedding, half-split pairs (i, i+HeadDim/2).
type RoPE struct {
	Base               float64
	Scaling            Scaling
	Factor             float64   // stretch
	Original           int       // trained length in tokens
	BetaFast, BetaSlow float64   // YaRN
	Truncate           bool      // YaRN: round the ramp's ends to integers; false for gpt-oss
	Attention          float64   // YaRN: factor on cos and sin; 0 = 0.1·ln(Factor)+1
	LowFreq, HighFreq  float64   // Llama 3
	Divisors           []float32 // [HeadDim/2] from GGUF rope_freqs: divide the frequencies; nil = none
}

// Groups returns the KV groups of s: layers with the same window share a pool.
// windows[g] is the window of group g, full attention first; layer[i] is the
// group of layer i.
func (s *Spec) Groups() (windows []int, layer []int) {
	windows = slices.Clone(s.Windows)
	slices.Sort(windows)
	windows = slices.Compact(windows)
	layer = make([]int, s.Layers)
	for i, window := range s.Windows {
		layer[i] = slices.Index(windows, window)
	}
	return windows, layer
}

// QDim is the width of the query projection.
func (s *Spec) QDim() int { return s.Heads * s.HeadDim }

// KVDim is the width of the key projection, and of the value projection.
func (s *Spec) KVDim() int { return s.KVHeads * s.HeadDim }

// Validate reports the first number that no decoder could run.
func (s *Spec) Validate() error {
	type field struct {
		name        string
		v, min, max int
	}
	for _, number := range []field{
		{"layers", s.Layers, 1, 1 << 12}, {"hidden size", s.Hidden, 1, 1 << 20}, {"vocabulary", s.Vocab, 1, 1 << 24},
		{"heads", s.Heads, 1, 1 << 12}, {"kv heads", s.KVHeads, 1, 1 << 12}, {"head dim", s.HeadDim, 2, 1 << 12},
		{"context length", s.MaxLen, 1, 1 << 30}, {"feed-forward width", s.FFN.Inner, 1, 1 << 24},
		{"experts", s.FFN.Experts, 0, 1 << 12}, {"experts per token", s.FFN.TopK, 0, s.FFN.Experts},
	} {
		if number.v < number.min || number.v > number.max {
			return fmt.Errorf("%s is %d, outside [%d, %d]", number.name, number.v, number.min, number.max)
		}
	}
	// Each number by itself is sound; now those that must agree.
	switch {
	case s.Heads%s.KVHeads != 0:
		return fmt.Errorf("%d heads are not a multiple of %d kv heads", s.Heads, s.KVHeads)
	case s.HeadDim%2 != 0:
		return fmt.Errorf("head dim %d is odd", s.HeadDim)
	case len(s.Windows) != s.Layers:
		return fmt.Errorf("%d attention windows for %d layers", len(s.Windows), s.Layers)
	case s.FFN.Experts > 0 && s.FFN.TopK == 0:
		return fmt.Errorf("%d experts, none per token", s.FFN.Experts)
	case s.FFN.Dense != nil && len(s.FFN.Dense) != s.Layers:
		return fmt.Errorf("%d dense flags for %d layers", len(s.FFN.Dense), s.Layers)
	case s.Eps < 0 || s.Eps > 1 || s.Eps != s.Eps:
		return fmt.Errorf("norm epsilon %v outside [0, 1]", s.Eps)
	}
	for i, window := range s.Windows {
		if window < 0 {
			return fmt.Errorf("layer %d: attention window %d", i, window)
		}
	}
	return s.RoPE.validate(s.HeadDim)
}
