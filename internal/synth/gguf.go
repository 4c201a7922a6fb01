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
	tensor.Q5_0: {6, 8}, tensor.Q5_1: {7, 9}, tensor.IQ4_NL: {20, 25}, tensor.Q4_K: {12, 14}, tensor.Q5_K: {13, 16}, tensor.Q6_K: {14, 18}, tensor.MXFP4: {39, 38},
}

// gguf writes the file: formats.md 3, 5 and 6.
func (w *writer) gguf(name string, options *Options) error {
	entries := ggufEntries(options)
	if err := w.plan(entries); err != nil {
		return err
	}
	vocab, err := newVocabulary(&options.Model)
	if err != nil {
		return err
	}
	return w.file(name, func(out *bufio.Writer) error {
		if _, err := out.Write(ggufHeader(options, vocab, entries)); err != nil {
			return err
		}
		// In the order of the header's offsets, each padded to the alignment.
		for _, entry := range entries {
			if err := w.tensor(out, entry); err != nil {
				return err
			}
			if _, err := out.Write(make([]byte, padding(entry.bytes()))); err != nil {
				return err
			}
		}
		w.report()
		return nil
	})
}

// padding returns the bytes that fill up n bytes to the alignment.
func padding(n int64) int64 { return -n & (alignment - 1) }

// ggufHeader returns everything before the tensors' data: counts, keys, descriptions.
func ggufHeader(o *Options, vocab *vocabulary, entries []*entry) []byte {
	keys := &metadata{}
	modelKeys(keys, o)
	vocab.keys(keys)
	var out bytes.Buffer
	out.WriteString("GGUF")
	out.Write(binary.LittleEndian.AppendUint32(nil, 3))
	out.Write(binary.LittleEndian.AppendUint64(nil, uint64(len(entries))))
	out.Write(binary.LittleEndian.AppendUint64(nil, uint64(keys.count)))
	out.Write(keys.data)
	var at int64 // of the tensor, from the start of the data
	for _, entry := range entries {
		info := appendString(nil, entry.name)
		info = binary.LittleEndian.AppendUint32(info, uint32(len(entry.shape)))
		for d := len(entry.shape) - 1; d >= 0; d-- { // the fastest-varying dimension comes first
			info = binary.LittleEndian.AppendUint64(info, uint64(entry.shape[d]))
		}
		info = binary.LittleEndian.AppendUint32(info, ggufTypes[entry.dtype][0])
		out.Write(binary.LittleEndian.AppendUint64(info, uint64(at)))
		at += entry.bytes() + padding(entry.bytes())
	}
	out.Write(make([]byte, padding(int64(out.Len()))))
	return out.Bytes()
}

// modelKeys adds the keys that describe the model, formats.md 5.
func modelKeys(keys *metadata, o *Options) {
	spec, arch := &o.Model.Spec, o.Model.Family
	fileType := ggufTypes[o.Type][1]
	if arch == "gpt-oss" {
		fileType = ggufTypes[tensor.MXFP4][1]
	}
	keys.add("general.architecture", arch)
	keys.add("general.name", spec.Name)
	keys.add("general.file_type", fileType)
	keys.add("general.quantization_version", uint32(2))
	add := func(key string, v any) { keys.add(arch+"."+key, v) }
	add("vocab_size", uint32(spec.Vocab))
	add("context_length", uint32(spec.MaxLen))
	add("embedding_length", uint32(spec.Hidden))
	add("block_count", uint32(spec.Layers))
	add("feed_forward_length", uint32(spec.FFN.Inner))
	add("attention.head_count", uint32(spec.Heads))
	add("attention.head_count_kv", uint32(spec.KVHeads))
	add("attention.key_length", uint32(spec.HeadDim))
	add("attention.value_length", uint32(spec.HeadDim))
	add("attention.layer_norm_rms_epsilon", spec.Eps)
	add("rope.freq_base", float32(spec.RoPE.Base))
	add("rope.dimension_count", uint32(spec.HeadDim))
	if spec.FFN.Experts > 0 {
		add("expert_count", uint32(spec.FFN.Experts))
		add("expert_used_count", uint32(spec.FFN.TopK))
		add("expert_feed_forward_length", uint32(spec.FFN.Inner))
	}
	for _, window := range spec.Windows {
		if window > 0 {
			add("attention.sliding_window", uint32(window))
			break
		}
	}
	switch spec.RoPE.Scaling { // that of Llama 3 is a tensor: divisors
	case model.ScalingLinear:
		add("rope.scaling.type", "linear")
		add("rope.scaling.factor", float32(spec.RoPE.Factor))
	case model.ScalingYaRN:
		add("rope.scaling.type", "yarn")
		add("rope.scaling.factor", float32(spec.RoPE.Factor))
		add("rope.scaling.original_context_length", uint32(spec.RoPE.Original))
		add("rope.scaling.yarn_beta_fast", float32(spec.RoPE.BetaFast))
		add("rope.scaling.yarn_beta_slow", float32(spec.RoPE.BetaSlow))
	}
}

// A metadata collects key-value pairs in their stored form.
type metadata struct {
	count int
	data  []byte
}

// add appends a pair. Value types are those that the type switch names.
func (m *metadata) add(key string, value any) {
	// The numbers are value types of formats.md 3; arrays have that of their elements behind.
	le := binary.LittleEndian
	m.count++
	data := appendString(m.data, key)
	switch value := value.(type) {
	case uint32:
		data = le.AppendUint32(le.AppendUint32(data, 4), value)
	case float32:
		data, _ = binary.Append(le.AppendUint32(data, 6), le, value)
	case bool:
		data, _ = binary.Append(le.AppendUint32(data, 7), le, value)
	case string:
		data = appendString(le.AppendUint32(data, 8), value)
	case []string:
		data = le.AppendUint64(le.AppendUint32(le.AppendUint32(data, 9), 8), uint64(len(value)))
		for _, s := range value {
			data = appendString(data, s)
		}
	case []int32:
		data = le.AppendUint64(le.AppendUint32(le.AppendUint32(data, 9), 5), uint64(len(value)))
		data, _ = binary.Append(data, le, value)
	default:
		panic(fmt.Sprintf("synth: metadata %q of type %T", key, value))
	}
	m.data = data
}

// appendString appends the length of s and s.
func appendString(b []byte, s string) []byte {
	return append(binary.LittleEndian.AppendUint64(b, uint64(len(s))), s...)
}
