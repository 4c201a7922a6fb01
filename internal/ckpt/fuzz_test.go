package ckpt

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"ossian/internal/model"
	"ossian/internal/synth"
	"ossian/internal/tensor"
)

// bounded runs f and fails if it allocates more than CKP-1 allows for n bytes of
// header. Fuzzing runs one case at a time in a process, so the total is f's.
func bounded(t *testing.T, n int, f func()) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	got, limit := after.TotalAlloc-before.TotalAlloc, uint64(64<<20+2*n)
	t.Logf("%d bytes allocated for %d", got, n)
	if got > limit {
		t.Errorf("%d bytes allocated for a header of %d, limit %d", got, n, limit)
	}
}

// inside fails if a tensor lies outside of its file.
func inside(t *testing.T, list []stored, size int) {
	t.Helper()
	for _, s := range list {
		if s.offset < 0 || s.size < 0 || s.offset > int64(size) || s.size > int64(size)-s.offset {
			t.Errorf("%q: %d bytes at %d of %d", s.name, s.size, s.offset, size)
		}
		if s.dtype != tensor.Invalid && s.dtype.Numeric() {
			v := s.view()
			if v.Elems() > 0 {
				v.Row(0).Floats(make([]float32, v.Cols()))
			}
		}
	}
}

func FuzzSafetensors(f *testing.F) {
	f.Add(encodeShard([]stEntry{{"a", "U8", []int{3}, []byte("abc")}, {"b", "F4", []int{2, 3}, []byte("xyz")}, {"c", "BOOL", []int{0}, nil}}, nil))
	for _, text := range []string{`{}`, `{"a":{"dtype":"F32","shape":[],"data_offsets":[0,4]}}`, `{"__metadata__":{"a":"b"}}`, `{"a":{"dtype":"U8","shape":[4611686018427387903,4],"data_offsets":[0,0]}}`} {
		b := append([]byte{byte(len(text)), 0, 0, 0, 0, 0, 0, 0}, text...)
		f.Add(append(b, "data"...))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		bounded(t, len(data), func() {
			list, err := readSafetensors(&file{path: "fuzz", data: data})
			if err == nil {
				inside(t, list, len(data))
			}
		})
		// What the scanner accepts, encoding/json accepts.
		if list, err := readSafetensors(&file{path: "fuzz", data: data}); err == nil && len(list) > 0 {
			n := int(data[0]) | int(data[1])<<8 | int(data[2])<<16
			var m map[string]json.RawMessage
			if err := json.Unmarshal(data[8:8+n], &m); err != nil {
				t.Errorf("accepted, but %v", err)
			}
		}
	})
}

// miniGGUF is the smallest sound file of a family, so that mutations hit something.
func miniGGUF(family string) *ggufImage {
	g := &ggufImage{}
	u32 := func(key string, v uint32) { g.set(key, ggufU32, binary.LittleEndian.AppendUint32(nil, v)) }
	arch := func(key string, v uint32) { u32(family+"."+key, v) }
	g.setString("general.architecture", family)
	for _, key := range []string{"block_count", "attention.head_count"} {
		arch(key, 1)
	}
	for _, key := range []string{"embedding_length", "feed_forward_length", "attention.key_length", "context_length"} {
		arch(key, 32)
	}
	if family == "gpt-oss" {
		arch("expert_count", 1)
		arch("expert_used_count", 1)
	}
	g.setString("tokenizer.ggml.model", "gpt2")
	g.setString("tokenizer.ggml.pre", "smollm")
	list := func(elem uint32, n byte, body string) []byte {
		return append([]byte{byte(elem), 0, 0, 0, n, 0, 0, 0, 0, 0, 0, 0}, body...)
	}
	word := func(s string) string { return string([]byte{byte(len(s)), 0, 0, 0, 0, 0, 0, 0}) + s }
	g.set("tokenizer.ggml.tokens", ggufArray, list(ggufString, 3, word("a")+word("b")+word("ab")))
	g.set("tokenizer.ggml.merges", ggufArray, list(ggufString, 1, word("a b")))
	g.set("tokenizer.ggml.token_type", ggufArray, list(ggufI32, 3, "\x01\x00\x00\x00\x01\x00\x00\x00\x01\x00\x00\x00"))
	add := func(name string, typ uint32, bytes int, ne ...uint64) {
		g.tensors = append(g.tensors, ggufTensor{name, typ, ne, make([]byte, bytes)})
	}
	matrix := func(name string, out uint64) { add(name, 8, int(out)*34, 32, out) } // Q8_0
	vector := func(name string, n uint64) { add(name, 0, int(n)*4, n) }
	matrix("token_embd.weight", 3)
	vector("output_norm.weight", 32)
	matrix("output.weight", 3)
	vector("blk.0.attn_norm.weight", 32)
	vector("blk.0.ffn_norm.weight", 32)
	for _, part := range []string{"attn_q", "attn_k", "attn_v", "attn_output"} {
		matrix("blk.0."+part+".weight", 32)
		if family == "gpt-oss" {
			vector("blk.0."+part+".bias", 32)
		}
	}
	for _, part := range []string{"ffn_gate", "ffn_up", "ffn_down"} {
		if family == "gpt-oss" {
			add("blk.0."+part+"_exps.weight", 39, 32*17, 32, 32, 1)
			add("blk.0."+part+"_exps.bias", 0, 128, 32, 1)
		} else {
			matrix("blk.0."+part+".weight", 32)
		}
	}
	if family == "gpt-oss" {
		vector("blk.0.attn_sinks.weight", 1)
		add("blk.0.ffn_gate_inp.weight", 0, 128, 32, 1)
		vector("blk.0.ffn_gate_inp.bias", 1)
	}
	return g
}

func FuzzGGUF(f *testing.F) {
	for _, family := range []string{"llama", "gpt-oss"} {
		data := miniGGUF(family).encode()
		if err := openGGUFBytes(data); err != nil {
			f.Fatal(err) // a seed that does not open covers little
		}
		f.Add(data)
	}
	f.Add((&ggufImage{}).encode())
	f.Fuzz(func(t *testing.T, data []byte) {
		bounded(t, len(data), func() { _ = openGGUFBytes(data) })
	})
}

// openGGUFBytes opens, verifies and decodes a file that is not on disk.
func openGGUFBytes(data []byte) error {
	g, err := readGGUF(&file{path: "fuzz.gguf", data: data})
	if err != nil {
		return err
	}
	m := &Model{Path: "fuzz.gguf", stored: map[string]stored{}, Special: map[string]string{}}
	if err := errors.Join(m.add(g.tensors), m.fromGGUF(g)); err != nil {
		return err
	}
	if err := errors.Join(m.Finish(), model.CheckParams(m.Spec, m.Params)); err != nil {
		return err
	}
	return m.Verify(context.Background(), nil, nil)
}

func FuzzConfig(f *testing.F) {
	for _, preset := range []string{"llama-linear-tiny", "llama3-tiny", "gpt-oss-tiny", "qwen3-wide-tiny", "qwen3moe-tiny"} {
		f.Add(mustRead(f, filepath.Join(writeSynth(f, preset, synth.Options{}), "config.json")))
	}
	original := writeSynth(f, "gpt-oss-tiny", synth.Options{})
	toOriginal(f, original)
	f.Add(mustRead(f, filepath.Join(original, "config.json")))
	f.Fuzz(func(t *testing.T, data []byte) {
		bounded(t, len(data), func() {
			s, _, err := readConfig("config.json", data)
			if err != nil {
				return
			}
			if err := s.Validate(); err != nil {
				t.Error(err)
			}
			inv, factor := model.Frequencies(s.RoPE, s.HeadDim)
			for i, v := range append(inv, factor) {
				if v-v != 0 {
					t.Errorf("rope value %d is %v of %+v", i, v, s.RoPE)
				}
			}
			// No weights: the first parameter is missing, whatever the sizes say.
			a := newAssembler("fuzz", map[string]stored{})
			a.spec = s
			if _, err := a.assemble(a.buildHuggingFace); err == nil {
				t.Error("assembled a model without tensors")
			}
		})
	})
}

func FuzzIndex(f *testing.F) {
	f.Add(mustRead(f, filepath.Join(writeSynth(f, "llama-linear-tiny", synth.Options{ShardBytes: 100_000}), indexName)))
	f.Add([]byte(`{"metadata":{"total_size":1},"weight_map":{"a":"a.safetensors","b":"a.safetensors"}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		bounded(t, len(data), func() {
			shards, err := readIndex("index", data)
			for name, file := range shards {
				if err == nil && file != filepath.Base(file) {
					t.Errorf("%q maps to the path %q", name, file)
				}
			}
		})
	})
}

// FuzzText covers the files that say how to talk to a model.
func FuzzText(f *testing.F) {
	dir := writeSynth(f, "llama-linear-tiny", synth.Options{})
	whole := mustOpen(f, dir)
	f.Add(mustRead(f, filepath.Join(dir, "tokenizer_config.json")), []byte(`{"eos_token_id":[1],"top_k":2,"temperature":0.6}`))
	f.Add([]byte(`{"chat_template":[{"name":"default","template":"x"}],"eos_token":{"content":"<|im_end|>"}}`), []byte(`{}`))
	f.Fuzz(func(t *testing.T, tokenizerConfig, generation []byte) {
		bounded(t, len(tokenizerConfig)+len(generation), func() {
			m := &Model{Spec: whole.Spec, Tokenizer: whole.Tokenizer, BOS: -1, Special: map[string]string{}}
			if m.tokenizerConfig("fuzz", tokenizerConfig) != nil || m.generation("fuzz", generation) != nil || m.finish() != nil {
				return
			}
			for _, id := range append(slices.Clone(m.Stops), max(m.BOS, 0)) {
				if id < 0 || int(id) >= m.Spec.Vocab {
					t.Errorf("id %d of a vocabulary of %d", id, m.Spec.Vocab)
				}
			}
		})
	})
}
