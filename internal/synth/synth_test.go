package synth

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"ossian/internal/model"
	"ossian/internal/tensor"
)

func preset(t testing.TB, name string) Model {
	t.Helper()
	m, err := Preset(name)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestPublishedSizes holds the full-size presets to models.md 1.4, 6.1 and 6.2.
func TestPublishedSizes(t *testing.T) {
	for _, c := range []struct {
		preset  string
		params  int // elements
		bytes   int64
		tensors int // 0 = not published
	}{
		{"gpt-oss-20b", 20914757184, 13761264768, 459},
		{"gpt-oss-120b", 116829156672, 65248815744, 687},
		{"qwen3-0.6b", 596049920, 2 * 596049920, 0},
		{"qwen3-1.7b", 1720574976, 2 * 1720574976, 0},
		{"qwen3-4b", 4022468096, 2 * 4022468096, 0},
		{"qwen3-8b", 8190735360, 2 * 8190735360, 0},
		{"qwen3-30b-a3b", 30532122624, 2 * 30532122624, 0},
		{"smollm2-135m", 134515008, 2 * 134515008, 0},
		{"smollm2-360m", 361821120, 2 * 361821120, 0},
	} {
		t.Run(c.preset, func(t *testing.T) {
			o := Options{Model: preset(t, c.preset), Type: tensor.BF16}
			if err := o.check(); err != nil {
				t.Fatal(err)
			}
			var bytes int64
			elements := 0
			for _, p := range params(&o) {
				elements += p.rows * p.cols
			}
			entries := hfEntries(&o)
			for _, e := range entries {
				bytes += e.bytes()
			}
			if elements != c.params || bytes != c.bytes || (c.tensors > 0 && len(entries) != c.tensors) {
				t.Errorf("%d parameters, %d bytes, %d tensors; %d, %d, %d published", elements, bytes, len(entries), c.params, c.bytes, c.tensors)
			}
		})
	}
}

type info struct {
	DType   string
	Shape   []int
	Offsets [2]int64 `json:"data_offsets"`
}

// readHeader returns the tensors of a safetensors file, sorted by place, after
// checking that they tile the file.
func readHeader(t *testing.T, file string) map[string]info {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	n := binary.LittleEndian.Uint64(data)
	if n%8 != 0 {
		t.Errorf("%s: header of %d bytes, a multiple of 8 expected", file, n)
	}
	raw := map[string]json.RawMessage{}
	if err := json.Unmarshal(data[8:8+n], &raw); err != nil {
		t.Fatal(err)
	}
	delete(raw, "__metadata__")
	out := map[string]info{}
	for name, text := range raw {
		var i info
		if err := json.Unmarshal(text, &i); err != nil {
			t.Fatal(err)
		}
		out[name] = i
	}
	end := int64(0)
	for _, i := range slices.SortedFunc(maps.Values(out), func(a, b info) int { return int(a.Offsets[0] - b.Offsets[0]) }) {
		size := map[string]int64{"U8": 1, "BF16": 2, "F16": 2, "F32": 4}[i.DType]
		for _, d := range i.Shape {
			size *= int64(d)
		}
		if i.Offsets[0] != end || i.Offsets[1] != end+size {
			t.Errorf("%s: tensor at %v, expected [%d %d]", file, i.Offsets, end, end+size)
		}
		end = i.Offsets[1]
	}
	if rest := int64(len(data)) - 8 - int64(n); end != rest {
		t.Errorf("%s: tensors end at %d, the file at %d", file, end, rest)
	}
	return out
}

// TestNames checks names and shapes against models.md 1.4 and 2.3.
func TestNames(t *testing.T) {
	for _, c := range []struct {
		preset, name, dtype string
		shape               []int
	}{
		{"gpt-oss-tiny", "model.layers.3.mlp.experts.gate_up_proj_blocks", "U8", []int{8, 128, 3, 16}},
		{"gpt-oss-tiny", "model.layers.3.mlp.experts.gate_up_proj_scales", "U8", []int{8, 128, 3}},
		{"gpt-oss-tiny", "model.layers.0.mlp.experts.down_proj_blocks", "U8", []int{8, 96, 2, 16}},
		{"gpt-oss-tiny", "model.layers.0.mlp.experts.down_proj_bias", "BF16", []int{8, 96}},
		{"gpt-oss-tiny", "model.layers.0.mlp.router.bias", "BF16", []int{8}},
		{"gpt-oss-tiny", "model.layers.0.self_attn.sinks", "BF16", []int{8}},
		{"gpt-oss-tiny", "lm_head.weight", "BF16", []int{400, 96}},
		{"qwen3-tiny", "model.layers.2.self_attn.q_norm.weight", "BF16", []int{32}},
		{"qwen3-tiny", "model.layers.2.mlp.up_proj.weight", "BF16", []int{96, 64}},
		{"qwen3moe-tiny", "model.layers.1.mlp.experts.15.down_proj.weight", "BF16", []int{64, 32}},
		{"qwen3moe-tiny", "model.layers.1.mlp.gate.weight", "BF16", []int{16, 64}},
		{"llama-tiny", "model.layers.0.self_attn.k_proj.weight", "BF16", []int{32, 96}},
		{"llama3-tiny", "model.norm.weight", "BF16", []int{96}},
	} {
		t.Run(c.preset+"/"+c.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "m")
			if err := Write(t.Context(), dir, Options{Model: preset(t, c.preset)}, nil); err != nil {
				t.Fatal(err)
			}
			got := readHeader(t, dir+"/model.safetensors")[c.name]
			if got.DType != c.dtype || !slices.Equal(got.Shape, c.shape) {
				t.Errorf("got %v %v, want %v %v", got.DType, got.Shape, c.dtype, c.shape)
			}
		})
	}
}

// TestShards: files stay below the limit, the index names every tensor once, and
// the bytes are those of a single file.
func TestShards(t *testing.T) {
	one, many := filepath.Join(t.TempDir(), "one"), filepath.Join(t.TempDir(), "many")
	o := Options{Model: preset(t, "qwen3moe-tiny")}
	if err := Write(t.Context(), one, o, nil); err != nil {
		t.Fatal(err)
	}
	o.ShardBytes = 200_000
	if err := Write(t.Context(), many, o, nil); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(many + "/model.safetensors.index.json")
	if err != nil {
		t.Fatal(err)
	}
	var index struct {
		Metadata struct {
			Size int64 `json:"total_size"`
		}
		Map map[string]string `json:"weight_map"`
	}
	if err := json.Unmarshal(text, &index); err != nil {
		t.Fatal(err)
	}
	files, total := map[string]bool{}, int64(0)
	for _, name := range index.Map {
		files[name] = true
	}
	for name := range files {
		for tensor, i := range readHeader(t, filepath.Join(many, name)) {
			if index.Map[tensor] != name {
				t.Errorf("%s is in %s, the index says %q", tensor, name, index.Map[tensor])
			}
			delete(index.Map, tensor)
			total += i.Offsets[1] - i.Offsets[0]
		}
		if info, err := os.Stat(filepath.Join(many, name)); err != nil || info.Size() > 200_000+32<<10 {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
	if len(files) < 3 || len(index.Map) > 0 || total != index.Metadata.Size {
		t.Errorf("%d files; in the index only: %v; %d bytes, the index says %d", len(files), index.Map, total, index.Metadata.Size)
	}
	if n := len(readHeader(t, one+"/model.safetensors")); n != 2+3*(9+3*16)+1 {
		t.Errorf("%d tensors in one file", n)
	}
}

// TestDeterministic: a seed gives one file, another seed another.
func TestDeterministic(t *testing.T) {
	for _, format := range []Format{HuggingFace, GGUF} {
		sum := func(seed uint64) [32]byte {
			path := filepath.Join(t.TempDir(), "m")
			if err := Write(t.Context(), path, Options{Model: preset(t, "gpt-oss-tiny"), Seed: seed, Format: format}, nil); err != nil {
				t.Fatal(err)
			}
			if format == HuggingFace {
				path += "/model.safetensors"
			}
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			return sha256.Sum256(data)
		}
		first := sum(1)
		if first != sum(1) {
			t.Errorf("format %d: two files of one seed differ", format)
		}
		if first == sum(2) {
			t.Errorf("format %d: two seeds give one file", format)
		}
	}
}

// TestForms: a row has the same values in every form that can hold them, drawn or
// cut from the pool.
func TestForms(t *testing.T) {
	for _, size := range []struct {
		name string
		rows int
	}{{"drawn", 8}, {"pooled", pooled / 96}} {
		t.Run(size.name, func(t *testing.T) {
			p := &param{shape: []int{size.rows + 1, 96}, rows: size.rows + 1, cols: 96, std: 0.02, key: hash(3, "x")}
			g := newGenerator(&Options{Seed: 3})
			row := func(d tensor.DType, i int) []float32 {
				r := tensor.Row{DType: d, Data: slices.Clone(g.row(&entry{dtype: d, shape: p.shape, param: p}, i))}
				if d == tensor.MXFP4HF {
					r.Scales = g.row(&entry{dtype: d, shape: p.shape, param: p, scales: true}, i)
				}
				out := make([]float32, 96)
				r.Floats(out)
				return out
			}
			for i := range 8 {
				want := row(tensor.F32, i)
				for _, d := range []tensor.DType{tensor.BF16, tensor.F16} {
					if !slices.Equal(row(d, i), want) {
						t.Errorf("row %d: %v and F32 differ", i, d)
					}
				}
				if !slices.Equal(row(tensor.MXFP4, i), row(tensor.MXFP4HF, i)) {
					t.Errorf("row %d: the two nibble orders differ", i)
				}
				for k, v := range row(tensor.Q8_0, i) {
					if math.Abs(float64(v-want[k])) > 0.02*3.5/127 {
						t.Fatalf("row %d element %d: %v in Q8_0, %v in F32", i, k, v, want[k])
					}
				}
				if slices.Equal(want, row(tensor.F32, (i+1)%8)) {
					t.Errorf("rows %d and %d are equal", i, i+1)
				}
			}
		})
	}
}

// TestDistribution: mean, deviation and signs are what draw asked for.
func TestDistribution(t *testing.T) {
	for _, p := range []param{{name: "plain", std: 0.05}, {name: "norm", mean: 1, std: 0.1}, {name: "signed", mean: 1, std: 0.1, signs: true}} {
		p.key = hash(1, p.name)
		const n = 100_000
		var sum, square float64
		for i := range uint64(n) {
			v := float64(p.value(i))
			sum, square = sum+v, square+v*v
		}
		mean, rms := sum/n, math.Sqrt(square/n)
		want := p.mean
		if p.signs {
			want = 0
		}
		if math.Abs(mean-want) > 0.02 || math.Abs(rms-math.Hypot(p.mean, p.std)) > 0.001 {
			t.Errorf("%s: mean %v, root mean square %v", p.name, mean, rms)
		}
	}
}

// TestPairs: the GGUF order of llama rows, by the definition in formats.md 5.
func TestPairs(t *testing.T) {
	var got []int
	for row := range 12 {
		got = append(got, pairs(6)(row))
	}
	if want := []int{0, 3, 1, 4, 2, 5, 6, 9, 7, 10, 8, 11}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestVocabulary(t *testing.T) {
	for _, name := range Presets() {
		t.Run(name, func(t *testing.T) {
			m := preset(t, name)
			if testing.Short() && m.Layers > 10 {
				return // the same code as the tiny ones, with more tokens
			}
			v, err := newVocabulary(&m)
			if err != nil {
				t.Fatal(err)
			}
			if len(v.tokens) != m.Vocab {
				t.Errorf("%d tokens, %d rows", len(v.tokens), m.Vocab)
			}
			known := map[string]bool{}
			for id, token := range v.tokens {
				if known[token] {
					t.Fatalf("token %d, %q, is there twice", id, token)
				}
				known[token] = true
			}
			for _, p := range v.merges {
				if !known[p[0]] || !known[p[1]] || !known[p[0]+p[1]] {
					t.Fatalf("merge %q has parts that are no tokens", p)
				}
			}
			for _, name := range append(v.stops, v.bos, v.eos, v.pad) {
				if _, ok := v.ids[name]; !ok {
					t.Errorf("control token %q is missing", name)
				}
			}
		})
	}
	// formats.md 9 and 10.
	for name, ids := range map[string]map[string]int{
		"gpt-oss-20b": {"<|startoftext|>": 199998, "<|return|>": 200002, "<|message|>": 200008, "<|call|>": 200012, "<|endofprompt|>": 200018},
		"qwen3-0.6b":  {"<|endoftext|>": 151643, "<|im_end|>": 151645, "<tool_call>": 151657, "</think>": 151668},
	} {
		m := preset(t, name)
		v, err := newVocabulary(&m)
		if err != nil {
			t.Fatal(err)
		}
		for token, want := range ids {
			if got := v.id(token); got != want {
				t.Errorf("%s: %q is %d, want %d", name, token, got, want)
			}
		}
		if name == "gpt-oss-20b" && (len(v.merges) != 446189 || v.tokens[13225] != "Hello") {
			t.Errorf("o200k has %d merges, token 13225 is %q", len(v.merges), v.tokens[13225])
		}
	}
}

func TestRefusals(t *testing.T) {
	full := t.TempDir()
	if err := os.WriteFile(full+"/x", nil, 0o666); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, path, want string
		o                Options
	}{
		{"quantised safetensors", "", "safetensors files do not hold Q8_0", Options{Model: preset(t, "qwen3-tiny"), Type: tensor.Q8_0}},
		{"rows too short for K types", "", `tensor "token_embd.weight": rows of 64 elements`, Options{Model: preset(t, "qwen3-tiny"), Type: tensor.Q4_K, Format: GGUF}},
		{"rows too short for MXFP4", "", `gate_up_proj_blocks": rows of 80 elements`, Options{Model: func() Model { m := preset(t, "gpt-oss-tiny"); m.Hidden = 80; return m }()}},
		{"unknown family", "", `family "bert"`, Options{Model: func() Model { m := preset(t, "qwen3-tiny"); m.Family = "bert"; return m }()}},
		{"vocabulary too small", "", "at least 362 rows", Options{Model: func() Model { m := preset(t, "qwen3-tiny"); m.Vocab = 300; return m }()}},
		{"directory in use", full, "exists: remove it", Options{Model: preset(t, "qwen3-tiny")}},
		{"directory where a file belongs", full, "exists: remove it", Options{Model: preset(t, "qwen3-tiny"), Format: GGUF}},
		{"file where a directory belongs", full + "/x", "exists: remove it", Options{Model: preset(t, "qwen3-tiny")}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.path == "" {
				c.path = filepath.Join(t.TempDir(), "m")
			}
			err := Write(t.Context(), c.path, c.o, nil)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, %q expected in it", err, c.want)
			}
			left, _ := filepath.Glob(c.path + ".partial-*")
			if _, err := os.Stat(c.path); len(left) > 0 || (c.path != full && c.path != full+"/x" && !errors.Is(err, fs.ErrNotExist)) {
				t.Errorf("left behind: %v, %v", left, err)
			}
		})
	}
	if _, err := Preset("gpt-5"); err == nil || !strings.Contains(err.Error(), "gpt-oss-20b") {
		t.Errorf("unknown preset: %v", err)
	}
}

// TestCancel: a cancelled write leaves nothing, and reports where it was.
func TestCancel(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	dir := t.TempDir()
	err := Write(ctx, dir+"/m.gguf", Options{Model: preset(t, "qwen3-0.6b").Shorten(1), Format: GGUF}, func(done, total int64) {
		if done > 0 && done < total {
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// TestProgress: the last report is the whole, and no report goes back.
func TestProgress(t *testing.T) {
	last, whole := int64(0), int64(0)
	err := Write(t.Context(), filepath.Join(t.TempDir(), "m"), Options{Model: preset(t, "qwen3-wide-tiny"), ShardBytes: 500_000}, func(done, total int64) {
		if done < last || (whole != 0 && total != whole) {
			t.Errorf("%d of %d after %d of %d", done, total, last, whole)
		}
		last, whole = done, total
	})
	if err != nil || last != whole || whole == 0 {
		t.Errorf("last report %d of %d, %v", last, whole, err)
	}
}

// TestShorten keeps the kinds of layers.
func TestShorten(t *testing.T) {
	m := preset(t, "gpt-oss-20b").Shorten(3)
	if err := m.Validate(); err != nil || m.Layers != 3 || !slices.Equal(m.Windows, []int{128, 0, 128}) {
		t.Errorf("%d layers with windows %v, %v", m.Layers, m.Windows, err)
	}
}

// TestDivisors checks models.md 3 at its three regions: short waves unchanged, long
// ones divided by the factor, between them a mixture.
func TestDivisors(t *testing.T) {
	s := model.Spec{HeadDim: 64, RoPE: model.RoPE{Base: 500000, Factor: 8, Original: 8192, LowFreq: 1, HighFreq: 4}}
	d := divisors(&s)
	if d[0] != 1 || d[31] != 8 {
		t.Errorf("ends are %v and %v, want 1 and 8", d[0], d[31])
	}
	if !slices.IsSorted(d) || !slices.ContainsFunc(d, func(v float32) bool { return v > 1 && v < 8 }) {
		t.Errorf("divisors %v", d)
	}
}

func BenchmarkRow(b *testing.B) {
	for _, typ := range []tensor.DType{tensor.BF16, tensor.MXFP4HF, tensor.Q8_0} {
		for _, rows := range []int{32, 1 << 20} {
			b.Run(fmt.Sprintf("%v/%d", typ, rows), func(b *testing.B) {
				p := &param{shape: []int{rows, 2880}, rows: rows, cols: 2880, std: 0.02}
				e := &entry{dtype: typ, shape: p.shape, param: p}
				g := newGenerator(&Options{})
				g.row(e, 0)
				b.SetBytes(int64(e.rowBytes()))
				i := 0
				for b.Loop() {
					g.row(e, i%rows)
					i++
				}
			})
		}
	}
}
