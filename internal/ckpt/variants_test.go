package ckpt

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"ossian/internal/synth"
	"ossian/internal/tensor"
	"ossian/internal/token"
)

// encoded returns values as bytes of a type.
func encoded(dtype tensor.DType, values []float32) []byte {
	data := make([]byte, dtype.RowBytes(len(values)))
	tensor.Encode(dtype, data, nil, values)
	return data
}

// unquantised rewrites the experts of a gpt-oss directory as floats, in columns as the Hugging
// Face layout has them.
func unquantised(t *testing.T, dir string, dtype tensor.DType) {
	t.Helper()
	m := mustOpen(t, dir)
	shard := filepath.Join(dir, "model.safetensors")
	entries := slices.DeleteFunc(takeApartShard(t, shard), func(e stEntry) bool {
		return strings.HasSuffix(e.name, "_blocks") || strings.HasSuffix(e.name, "_scales")
	})
	for layer := range m.Spec.Layers {
		for part, name := range map[string]string{"up": "gate_up_proj", "down": "down_proj"} {
			p := m.Params[fmt.Sprintf("layers.%d.%s", layer, part)]
			rows, count, out, in := values(t, &p), p.Shape[0], p.Shape[1], p.Shape[2]
			turned := make([]float32, len(rows))
			for i, v := range rows {
				matrix, row, column := i/(out*in), i/in%out, i%in
				turned[(matrix*in+column)*out+row] = v
			}
			entries = append(entries, stEntry{fmt.Sprintf("model.layers.%d.mlp.experts.%s", layer, name), dtype.String(), []int{count, in, out}, encoded(dtype, turned)})
		}
	}
	mustWrite(t, shard, encodeShard(entries, nil))
	editJSON(t, filepath.Join(dir, "config.json"), func(m map[string]any) { delete(m, "quantization_config") })
}

// Experts of gpt-oss that a fine-tune left as floats are those of MXFP4, in each layout. What
// is in MXFP4 is exact in all of the types.
func TestFloatExperts(t *testing.T) {
	for _, dtype := range []tensor.DType{tensor.BF16, tensor.F16, tensor.F32} {
		t.Run(dtype.String(), func(t *testing.T) {
			dir := writeSynth(t, "gpt-oss-tiny", synth.Options{})
			want := mustOpen(t, dir)
			turned := writeSynth(t, "gpt-oss-tiny", synth.Options{})
			unquantised(t, turned, dtype)
			got := mustOpen(t, turned)
			sameParams(t, got, want)
			if up := got.Params["layers.0.up"]; up.DType != dtype || !up.Columns {
				t.Errorf("experts are %v, columns: %v", up.DType, up.Columns)
			}
			if len(got.Unknown) > 0 {
				t.Errorf("unused: %v", got.Unknown)
			}
			if err := got.Verify(t.Context(), nil, nil); err != nil {
				t.Error(err)
			}
			// GGUF has rows, gate and up apart; one of them may stay quantised.
			for _, which := range []string{"gate and up", "gate"} {
				g := takeApart(t, writeSynth(t, "gpt-oss-tiny", synth.Options{Format: synth.GGUF}))
				for i := range g.tensors {
					x := &g.tensors[i]
					if !strings.Contains(x.name, "_exps.weight") || (which == "gate" && !strings.Contains(x.name, "gate")) {
						continue
					}
					row := tensor.Row{DType: tensor.MXFP4, Data: x.data}
					floats := make([]float32, row.Len())
					row.Floats(floats)
					for id, typ := range ggufTypes {
						if typ.dtype == dtype {
							x.typ = id
						}
					}
					x.data = encoded(dtype, floats)
				}
				path := filepath.Join(t.TempDir(), "floats.gguf")
				mustWrite(t, path, g.encode())
				gguf := mustOpen(t, path)
				sameParams(t, gguf, mustOpen(t, writeSynth(t, "gpt-oss-tiny", synth.Options{Format: synth.GGUF})))
				if up := gguf.Params["layers.0.up"]; (which == "gate") != (up.DType == tensor.Mixed) {
					t.Errorf("%s: up is %v", which, up.DType)
				}
			}
		})
	}
	both := writeSynth(t, "gpt-oss-tiny", synth.Options{})
	addTensor(t, both, stEntry{"model.layers.0.mlp.experts.gate_up_proj", "BF16", []int{1, 2}, make([]byte, 4)})
	wantError(t, both, Unsupported, "stored twice", "gate_up_proj")
}

// The original layout has unquantised experts in rows.
func TestFloatExpertsOriginal(t *testing.T) {
	dir := writeSynth(t, "gpt-oss-tiny", synth.Options{})
	want := mustOpen(t, dir)
	original := writeSynth(t, "gpt-oss-tiny", synth.Options{})
	toOriginal(t, original)
	shard := filepath.Join(original, "model.safetensors")
	entries := slices.DeleteFunc(takeApartShard(t, shard), func(e stEntry) bool {
		return strings.HasSuffix(e.name, ".blocks") || strings.HasSuffix(e.name, ".scales")
	})
	for layer := range want.Spec.Layers {
		for part, name := range map[string]string{"up": "mlp1_weight", "down": "mlp2_weight"} {
			p := want.Params[fmt.Sprintf("layers.%d.%s", layer, part)]
			entries = append(entries, stEntry{fmt.Sprintf("block.%d.mlp.%s", layer, name), "BF16", p.Shape, encoded(tensor.BF16, values(t, &p))})
		}
	}
	mustWrite(t, shard, encodeShard(entries, nil))
	sameParams(t, mustOpen(t, original), want)
}

// Any tensor of a GGUF file may have a type of its own: the values are those of files in
// which all have it.
func TestMixedTypes(t *testing.T) {
	types := []tensor.DType{tensor.Q8_0, tensor.Q4_0, tensor.Q5_0, tensor.Q5_1, tensor.IQ4_NL, tensor.Q4_K, tensor.Q6_K, tensor.BF16, tensor.F32, tensor.F16}
	for _, preset := range []string{"qwen3-wide-tiny", "llama-tiny", "qwen3moe-tiny"} {
		t.Run(preset, func(t *testing.T) {
			images := map[tensor.DType]*ggufImage{}
			for _, dtype := range types {
				if preset != "qwen3-wide-tiny" && (dtype == tensor.Q4_K || dtype == tensor.Q6_K) {
					continue // rows are too short
				}
				images[dtype] = takeApart(t, writeSynth(t, preset, synth.Options{Format: synth.GGUF, Type: dtype}))
			}
			order := slices.Sorted(maps.Keys(images))
			mixed := takeApart(t, writeSynth(t, preset, synth.Options{Format: synth.GGUF, Type: tensor.BF16}))
			for i := range mixed.tensors {
				from := images[order[i%len(order)]].tensors[i]
				mixed.tensors[i] = from
			}
			path := filepath.Join(t.TempDir(), "mixed.gguf")
			mustWrite(t, path, mixed.encode())
			m := mustOpen(t, path)
			if err := m.Verify(t.Context(), nil, nil); err != nil {
				t.Error(err)
			}
			found := false
			for name, p := range m.Params {
				for i, part := range p.Typed() {
					whole := filepath.Join(t.TempDir(), "one.gguf")
					mustWrite(t, whole, images[part.DType].encode())
					want := mustOpen(t, whole).Params[name]
					if len(p.Typed()) == 1 {
						found = found || part.DType != tensor.BF16
						if !slices.Equal(values(t, &p), values(t, &want)) {
							t.Errorf("%s: other values than in a file of %v", name, part.DType)
						}
						continue
					}
					for row := i; row < p.Rows(); row += 2 {
						got, wanted := make([]float32, p.Cols()), make([]float32, p.Cols())
						p.Row(row).Floats(got)
						want.Row(row).Floats(wanted)
						if !slices.Equal(got, wanted) {
							t.Fatalf("%s, row %d: other values than in a file of %v", name, row, part.DType)
						}
					}
				}
			}
			if !found {
				t.Error("nothing is mixed")
			}
		})
	}
}

// Named templates are read from each of the places that have them.
func TestNamedTemplates(t *testing.T) {
	config := `{"eos_token": "<|im_end|>", "chat_template": [{"name": "default", "template": "D"}, {"name": "tool_use", "template": "T"}]}`
	same := func(t *testing.T, m *Model, template string, named map[string]string) {
		t.Helper()
		if m.Template != template || !maps.Equal(m.Named, named) {
			t.Errorf("template %q, named %q; want %q, %q", m.Template, m.Named, template, named)
		}
	}
	dir := writeSynth(t, "qwen3-tiny", synth.Options{})
	mustWrite(t, filepath.Join(dir, "tokenizer_config.json"), []byte(config))
	if err := os.Remove(filepath.Join(dir, "chat_template.jinja")); err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	same(t, mustOpen(t, dir), "D", map[string]string{"tool_use": "T"})
	// A file takes the place of the whole list, and others lie beside it.
	mustWrite(t, filepath.Join(dir, "chat_template.jinja"), []byte("F"))
	same(t, mustOpen(t, dir), "F", nil)
	if err := os.Mkdir(filepath.Join(dir, "additional_chat_templates"), 0o755); err != nil {
		t.Fatal(err)
	}
	mustWrite(t, filepath.Join(dir, "additional_chat_templates", "tool_use.jinja"), []byte("A"))
	mustWrite(t, filepath.Join(dir, "additional_chat_templates", "notes.txt"), []byte("N"))
	same(t, mustOpen(t, dir), "F", map[string]string{"tool_use": "A"})
	if err := Seal(t.Context(), dir, nil); err != nil {
		t.Fatal(err)
	}
	if err := mustOpen(t, dir).Verify(t.Context(), nil, nil); err != nil {
		t.Error(err)
	}
	g := takeApart(t, writeSynth(t, "qwen3-tiny", synth.Options{Format: synth.GGUF}))
	g.setString("tokenizer.chat_template", "G")
	g.setString("tokenizer.chat_template.tool_use", "U")
	g.setString("tokenizer.chat_template.rag", "R")
	path := filepath.Join(t.TempDir(), "named.gguf")
	mustWrite(t, path, g.encode())
	same(t, mustOpen(t, path), "G", map[string]string{"tool_use": "U", "rag": "R"})
}

// Other names of a splitter give the ids of the name that is usual.
func TestSplitterNames(t *testing.T) {
	path := writeSynth(t, "qwen3-tiny", synth.Options{Format: synth.GGUF})
	texts := []string{"Hello, we'LL see 12345 things\n\n  indented", "naïve café\u0301 — “quotes” 日本語 ½ x²", "a\r\nb\t\tc  "}
	ids := func(pre string) (all [][]int32) {
		g := takeApart(t, path)
		g.setString("tokenizer.ggml.pre", pre)
		named := filepath.Join(t.TempDir(), "pre.gguf")
		mustWrite(t, named, g.encode())
		m := mustOpen(t, named)
		for _, text := range texts {
			all = append(all, m.Tokenizer.Encode(nil, text))
		}
		return all
	}
	for usual, others := range map[string][]string{
		"llama-bpe": {"llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2"},
		"gpt-4o":    {"llama4", "kanana2"},
		"smollm":    {"starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b"},
		"gpt-2":     {"phi-2", "olmo", "mpt", "exaone4", "gigachat", "jais"},
		"stablelm2": {"deepseek-r1-qwen", "megrez", "kormo", "hunyuan"},
	} {
		want := ids(usual)
		for _, name := range others {
			if got := ids(name); fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%s gives %v, %s %v", name, got, usual, want)
			}
		}
	}
	// Qwen's own name normalises, which matters where text is not normal already.
	texts = []string{"Hello, we'LL see 12345 things", "naïve — 日本語"}
	if got, want := ids("deepseek-r1-qwen"), ids("qwen2"); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("deepseek-r1-qwen gives %v, qwen2 %v", got, want)
	}
	if token.BeginsText("smaug-bpe") || !token.BeginsText("pixtral") {
		t.Error("which splitters begin text with BOS")
	}
}
