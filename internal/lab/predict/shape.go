package predict

import (
	"fmt"
	"slices"
	"strings"

	"ossian/internal/model"
	"ossian/internal/plan"
	"ossian/internal/tensor"
)

// Shipped shapes: what a prediction needs of a model whose files are not at hand. Numbers are
// those of the published configurations (models.md 1.1, 2.1, 3); the types are those in which the
// makers publish them, BF16 but for the experts of gpt-oss.

// A shape is a Spec in the order in which configurations print it.
type shape struct {
	name                                                  string
	aliases                                               []string // other names, without the maker
	layers, hidden, inner, heads, kvHeads, headDim, vocab int
	experts, topK                                         int
	window                                                int // of every second layer, 0 = none
	tied                                                  bool
	maxLen                                                int
}

var shapes = []shape{
	{"gpt-oss-20b", nil, 24, 2880, 2880, 64, 8, 64, 201088, 32, 4, 128, false, 131072},
	{"gpt-oss-120b", nil, 36, 2880, 2880, 64, 8, 64, 201088, 128, 4, 128, false, 131072},
	{"Qwen3-0.6B", nil, 28, 1024, 3072, 16, 8, 128, 151936, 0, 0, 0, true, 40960},
	{"Qwen3-1.7B", nil, 28, 2048, 6144, 16, 8, 128, 151936, 0, 0, 0, true, 40960},
	{"Qwen3-4B", nil, 36, 2560, 9728, 32, 8, 128, 151936, 0, 0, 0, true, 40960},
	{"Qwen3-8B", nil, 36, 4096, 12288, 32, 8, 128, 151936, 0, 0, 0, false, 40960},
	{"Qwen3-14B", nil, 40, 5120, 17408, 40, 8, 128, 151936, 0, 0, 0, false, 40960},
	{"Qwen3-32B", nil, 64, 5120, 25600, 64, 8, 128, 151936, 0, 0, 0, false, 40960},
	{"Qwen3-30B-A3B", nil, 48, 2048, 768, 32, 4, 128, 151936, 128, 8, 0, false, 40960},
	{"Qwen3-30B-A3B-Instruct-2507", nil, 48, 2048, 768, 32, 4, 128, 151936, 128, 8, 0, false, 262144},
	{"Qwen3-235B-A22B", nil, 94, 4096, 1536, 64, 4, 128, 151936, 128, 8, 0, false, 40960},
	{"Qwen3-235B-A22B-Instruct-2507", nil, 94, 4096, 1536, 64, 4, 128, 151936, 128, 8, 0, false, 262144},
	{"Llama-3.2-1B", []string{"llama-3.2-1b-instruct"}, 16, 2048, 8192, 32, 8, 64, 128256, 0, 0, 0, true, 131072},
	{"Llama-3.2-3B", []string{"llama-3.2-3b-instruct"}, 28, 3072, 8192, 24, 8, 128, 128256, 0, 0, 0, true, 131072},
	{"Llama-3.1-8B", []string{"llama-3.1-8b-instruct", "meta-llama-3.1-8b-instruct"}, 32, 4096, 14336, 32, 8, 128, 128256, 0, 0, 0, false, 131072},
	{"Llama-3.1-70B", []string{"llama-3.1-70b-instruct", "llama-3.3-70b-instruct", "llama-3.3-70b"}, 80, 8192, 28672, 64, 8, 128, 128256, 0, 0, 0, false, 131072},
	{"Llama-3-8B", []string{"meta-llama-3-8b-instruct", "meta-llama-3-8b"}, 32, 4096, 14336, 32, 8, 128, 128256, 0, 0, 0, false, 8192},
	{"Llama-3-70B", []string{"meta-llama-3-70b-instruct", "meta-llama-3-70b"}, 80, 8192, 28672, 64, 8, 128, 128256, 0, 0, 0, false, 8192},
}

// Model returns the countable side of a published model by its name, with or without the maker's:
// "openai/gpt-oss-20b", "Qwen3-8B". The error names those that there are.
func Model(name string) (*plan.Model, error) {
	key := strings.ToLower(name[strings.LastIndexByte(name, '/')+1:])
	for _, known := range shapes {
		if strings.ToLower(known.name) == key || slices.Contains(known.aliases, key) {
			return known.model()
		}
	}
	return nil, fmt.Errorf("model %q: no shape of that name is shipped and no files were named; there are %s", name, strings.Join(Models(), ", "))
}

// Models lists the names that Model knows.
func Models() []string {
	var names []string
	for _, known := range shapes {
		names = append(names, known.name)
	}
	return names
}

// spec returns the Spec of a shape.
func (s *shape) spec() *model.Spec {
	spec := &model.Spec{Name: s.name, Layers: s.layers, Hidden: s.hidden, Vocab: s.vocab, Heads: s.heads, KVHeads: s.kvHeads, HeadDim: s.headDim,
		MaxLen: s.maxLen, Eps: 1e-5, RoPE: model.RoPE{Base: 1e6}, Windows: make([]int, s.layers), Tied: s.tied,
		FFN: model.FFN{Inner: s.inner, Experts: s.experts, TopK: s.topK}}
	switch {
	case s.window > 0:
		spec.Family, spec.QKVBias, spec.OBias, spec.Sinks, spec.FFN.Bias = "gpt-oss", true, true, true, true
		for i := 0; i < s.layers; i += 2 {
			spec.Windows[i] = s.window
		}
	case strings.HasPrefix(s.name, "Qwen3"):
		spec.Family, spec.QKNorm = "qwen3", true
		if s.experts > 0 {
			spec.Family = "qwen3moe"
		}
	default:
		spec.Family = "llama"
	}
	return spec
}

// model counts the parameters of a shape.
func (s *shape) model() (*plan.Model, error) {
	spec := s.spec()
	params := map[string]tensor.Tensor{}
	for _, param := range model.Params(spec) {
		stored := tensor.BF16
		if spec.Family == "gpt-oss" && len(param.Shape) == 3 {
			stored = tensor.MXFP4HF
		}
		params[param.Name] = tensor.Tensor{Name: param.Name, DType: stored, Shape: param.Shape}
	}
	counted, err := plan.New(spec, params)
	if err != nil {
		return nil, fmt.Errorf("shape %s: %w", s.name, err)
	}
	return counted, nil
}
