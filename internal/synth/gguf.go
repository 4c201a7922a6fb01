package synth

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"

	"ossian/internal/model"
	"ossian/internal/tensor"
)

// alignment of tensors in a GGUF file, in bytes.
const alignment = 32

// ggufTypes are type ids of formats.md 4 and the general.file_type that goes with them.
var ggufTypes = map[tensor.DType][2]uint32{
	tensor.F32: {0, 0}, tensor.F16: {1, 1}, tensor.BF16: {30, 32}, tensor.Q8_0: {8, 7}, tensor.Q4_0: {2, 2}, tensor.Q4_1: {3, 3},
	tensor.Q4_K: {12, 14}, tensor.Q5_K: {13, 16}, tensor.Q6_K: {14, 18}, tensor.MXFP4: {39, 38},
}

// gguf writes the file: formats.md 3, 5 and 6.
func (w *writer) gguf(name string, o *Options) error {
	entries := ggufEntries(o)
	if err := w.plan(entries); err != nil {
		return err
	}
	v, err := newVocabulary(&o.Model)
	if err != nil {
		return err
	}
	return w.file(name, func(b *bufio.Writer) error {
		if _, err := b.Write(ggufHeader(o, v, entries)); err != nil {
			return err
		}
		for _, e := range entries {
			if err := w.tensor(b, e); err != nil {
				return err
			}
			if _, err := b.Write(make([]byte, padding(e.bytes()))); err != nil {
				return err
			}
		}
		w.report()
		return nil
	})
}

func padding(n int64) int64 { return -n & (alignment - 1) }

func ggufHeader(o *Options, v *vocabulary, entries []*entry) []byte {
	m := &metadata{}
	modelKeys(m, o)
	v.keys(m)
	var b bytes.Buffer
	b.WriteString("GGUF")
	b.Write(binary.LittleEndian.AppendUint32(nil, 3))
	b.Write(binary.LittleEndian.AppendUint64(nil, uint64(len(entries))))
	b.Write(binary.LittleEndian.AppendUint64(nil, uint64(m.count)))
	b.Write(m.data)
	var at int64
	for _, e := range entries {
		i := appendString(nil, e.name)
		i = binary.LittleEndian.AppendUint32(i, uint32(len(e.shape)))
		for d := len(e.shape) - 1; d >= 0; d-- { // the fastest-varying dimension comes first
			i = binary.LittleEndian.AppendUint64(i, uint64(e.shape[d]))
		}
		i = binary.LittleEndian.AppendUint32(i, ggufTypes[e.dtype][0])
		b.Write(binary.LittleEndian.AppendUint64(i, uint64(at)))
		at += e.bytes() + padding(e.bytes())
	}
	b.Write(make([]byte, padding(int64(b.Len()))))
	return b.Bytes()
}

func modelKeys(m *metadata, o *Options) {
	s, arch := &o.Model.Spec, o.Model.Family
	fileType := ggufTypes[o.Type][1]
	if arch == "gpt-oss" {
		fileType = ggufTypes[tensor.MXFP4][1]
	}
	m.add("general.architecture", arch)
	m.add("general.name", s.Name)
	m.add("general.file_type", fileType)
	m.add("general.quantization_version", uint32(2))
	add := func(key string, v any) { m.add(arch+"."+key, v) }
	add("vocab_size", uint32(s.Vocab))
	add("context_length", uint32(s.MaxLen))
	add("embedding_length", uint32(s.Hidden))
	add("block_count", uint32(s.Layers))
	add("feed_forward_length", uint32(s.FFN.Inner))
	add("attention.head_count", uint32(s.Heads))
	add("attention.head_count_kv", uint32(s.KVHeads))
	add("attention.key_length", uint32(s.HeadDim))
	add("attention.value_length", uint32(s.HeadDim))
	add("attention.layer_norm_rms_epsilon", s.Eps)
	add("rope.freq_base", float32(s.RoPE.Base))
	add("rope.dimension_count", uint32(s.HeadDim))
	if s.FFN.Experts > 0 {
		add("expert_count", uint32(s.FFN.Experts))
		add("expert_used_count", uint32(s.FFN.TopK))
		add("expert_feed_forward_length", uint32(s.FFN.Inner))
	}
	for _, window := range s.Windows {
		if window > 0 {
			add("attention.sliding_window", uint32(window))
			break
		}
	}
	switch s.RoPE.Scaling {
	case model.ScalingLinear:
		add("rope.scaling.type", "linear")
		add("rope.scaling.factor", float32(s.RoPE.Factor))
	case model.ScalingYaRN:
		add("rope.scaling.type", "yarn")
		add("rope.scaling.factor", float32(s.RoPE.Factor))
		add("rope.scaling.original_context_length", uint32(s.RoPE.Original))
		add("rope.scaling.yarn_beta_fast", float32(s.RoPE.BetaFast))
		add("rope.scaling.yarn_beta_slow", float32(s.RoPE.BetaSlow))
	}
}

// A metadata collects key-value pairs in their stored form.
type metadata struct {
	count int
	data  []byte
}

// add appends a pair. Value types are those that the type switch names.
func (m *metadata) add(key string, value any) {
	le := binary.LittleEndian
	m.count++
	b := appendString(m.data, key)
	switch v := value.(type) {
	case uint32:
		b = le.AppendUint32(le.AppendUint32(b, 4), v)
	case float32:
		b, _ = binary.Append(le.AppendUint32(b, 6), le, v)
	case bool:
		b, _ = binary.Append(le.AppendUint32(b, 7), le, v)
	case string:
		b = appendString(le.AppendUint32(b, 8), v)
	case []string:
		b = le.AppendUint64(le.AppendUint32(le.AppendUint32(b, 9), 8), uint64(len(v)))
		for _, s := range v {
			b = appendString(b, s)
		}
	case []int32:
		b = le.AppendUint64(le.AppendUint32(le.AppendUint32(b, 9), 5), uint64(len(v)))
		b, _ = binary.Append(b, le, v)
	default:
		panic(fmt.Sprintf("synth: metadata %q of type %T", key, value))
	}
	m.data = b
}

func appendString(b []byte, s string) []byte {
	return append(binary.LittleEndian.AppendUint64(b, uint64(len(s))), s...)
}
