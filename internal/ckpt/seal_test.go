package ckpt

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"ossian/internal/soak"
	"ossian/internal/synth"
	"ossian/internal/tensor"
)

// check opens and verifies, as a loader does before the first token.
func check(t testing.TB, path string) error {
	t.Helper()
	m, err := Open(path)
	if err != nil {
		return err
	}
	defer m.Close()
	return m.Verify(t.Context(), nil, nil)
}

// CKP-2: single-bit flips and truncations anywhere in a sealed checkpoint, its seal
// included, are found before the first token.
func TestCKP2Seal(t *testing.T) {
	flips, cuts := soak.Cases(t, 500, 5000), soak.Cases(t, 50, 500) // of each container
	for _, c := range []struct {
		name  string
		path  string
		files func(path string) []string
	}{
		{"safetensors", writeSynth(t, "llama-linear-tiny", synth.Options{ShardBytes: 100_000}), func(path string) []string {
			list, err := filepath.Glob(filepath.Join(path, "*"))
			if err != nil {
				t.Fatal(err)
			}
			return list
		}},
		{"gguf", writeSynth(t, "llama-linear-tiny", synth.Options{Format: synth.GGUF}), func(path string) []string {
			return []string{path, path + ".seal.json"}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if err := Seal(t.Context(), c.path, nil); err != nil {
				t.Fatal(err)
			}
			if err := check(t, c.path); err != nil {
				t.Fatal(err)
			}
			rng := rand.New(rand.NewPCG(1, 2))
			files := c.files(c.path)
			sound := map[string][]byte{}
			for _, f := range files {
				sound[f] = mustRead(t, f)
			}
			// Every file gets its share, or the weights would be hit alone.
			for i := range flips {
				file := files[i%len(files)]
				at, bit := rng.IntN(len(sound[file])), rng.IntN(8)
				flip(t, file, int64(at), sound[file][at]^1<<bit)
				if err := check(t, c.path); err == nil {
					t.Errorf("bit %d of byte %d of %s flipped: not found", bit, at, filepath.Base(file))
				}
				flip(t, file, int64(at), sound[file][at])
			}
			for i := range cuts {
				file := files[i%len(files)]
				n := rng.IntN(len(sound[file]))
				mustWrite(t, file, sound[file][:n])
				if err := check(t, c.path); err == nil {
					t.Errorf("%s cut from %d to %d bytes: not found", filepath.Base(file), len(sound[file]), n)
				}
				mustWrite(t, file, sound[file])
			}
			if err := check(t, c.path); err != nil {
				t.Errorf("after everything was put back: %v", err)
			}
			t.Logf("CKP-2: %s: %d flips of a bit and %d truncations, all found", c.name, flips, cuts)
		})
	}
}

func flip(t *testing.T, path string, at int64, b byte) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.WriteAt([]byte{b}, at)
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
}

// The message names the file, the range and a tensor in it.
func TestSealDiagnosis(t *testing.T) {
	path := writeSynth(t, "qwen3-tiny", synth.Options{Format: synth.GGUF})
	g := takeApart(t, path)
	g.tensors = append(g.tensors, ggufTensor{"filler", 0, []uint64{9 << 18}, make([]byte, 9<<20)}) // 9 MiB
	mustWrite(t, path, g.encode())
	if err := Seal(t.Context(), path, nil); err != nil {
		t.Fatal(err)
	}
	var seen []int64
	m := mustOpen(t, path)
	if !m.Sealed {
		t.Fatal("the seal was not found")
	}
	var total int64
	if err := m.Verify(t.Context(), nil, func(done, all int64) { seen, total = append(seen, done), all }); err != nil {
		t.Fatal(err)
	}
	if info, _ := os.Stat(path); total != info.Size() || !slices.IsSorted(seen) || seen[len(seen)-1] != total || len(seen) != 3 {
		t.Errorf("progress %v of %d", seen, total)
	}
	flip(t, path, 5<<20, 1)
	err := m.Verify(t.Context(), nil, nil)
	e, ok := errors.AsType[*Error](err)
	if !ok || e.Kind != Damaged || e.File != path || e.Tensor != "filler" || e.Offset != 4<<20 || !strings.Contains(e.Problem, "bytes 4194304 to 8388608, which hold 1 tensors") {
		t.Errorf("error %v", err)
	}
}

func TestSealOfChangedDirectory(t *testing.T) {
	for _, c := range []struct {
		name, word string
		change     func(t *testing.T, dir string)
	}{
		{"file added", "not in the seal; if it is meant to be here, remove ossian-seal.json", write("chat_template.jinja", "new")},
		{"file removed", "the seal covers", remove("generation_config.json")},
		{"seal is not JSON", "a seal", write("ossian-seal.json", "{")},
		{"seal of the future", "version of the seal", write("ossian-seal.json", `{"version":2}`)},
		{"seal altered", "checksum of the seal itself", func(t *testing.T, dir string) {
			editJSON(t, filepath.Join(dir, "ossian-seal.json"), func(m map[string]any) { m["files"] = []any{} })
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := writeSynth(t, "llama-linear-tiny", synth.Options{})
			if err := os.Remove(filepath.Join(dir, "chat_template.jinja")); err != nil && !errors.Is(err, os.ErrNotExist) {
				t.Fatal(err)
			}
			write("generation_config.json", "{}")(t, dir)
			if err := Seal(t.Context(), dir, nil); err != nil {
				t.Fatal(err)
			}
			c.change(t, dir)
			err := check(t, dir)
			if err == nil || !strings.Contains(err.Error(), c.word) {
				t.Fatalf("error %v, want %q", err, c.word)
			}
			if err := os.Remove(filepath.Join(dir, "ossian-seal.json")); err != nil {
				t.Fatal(err)
			}
			if err := Seal(t.Context(), dir, nil); err != nil {
				t.Fatal(err)
			}
			if err := check(t, dir); err != nil {
				t.Errorf("sealed again: %v", err)
			}
		})
	}
}

func TestSealCancelled(t *testing.T) {
	dir := writeSynth(t, "llama-linear-tiny", synth.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Seal(ctx, dir, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*seal*")); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
	m := mustOpen(t, dir)
	if err := m.Verify(ctx, nil, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

// Without a seal, values that no model has are still found.
func TestVerifyValues(t *testing.T) {
	f32 := func(v float32) func(b []byte) {
		return func(b []byte) { tensor.Encode(tensor.F32, b[:4], nil, []float32{v}) }
	}
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, c := range []struct {
		preset, tensor string
		format         synth.Format
		dtype          tensor.DType
		change         func(b []byte)
		words          string
	}{
		{"llama-tiny", "blk.1.attn_norm.weight", synth.GGUF, tensor.BF16, f32(nan), "row 0, element 0: expected a finite number, found NaN"},
		{"gpt-oss-tiny", "blk.1.attn_sinks.weight", synth.GGUF, tensor.BF16, f32(inf), "+Inf"},
		{"gpt-oss-tiny", "blk.2.attn_q.bias", synth.GGUF, tensor.BF16, f32(-inf), "-Inf"},
		{"gpt-oss-tiny", "blk.2.ffn_up_exps.bias", synth.GGUF, tensor.BF16, f32(nan), "NaN"},
		{"gpt-oss-tiny", "blk.0.ffn_gate_exps.weight", synth.GGUF, tensor.BF16, func(b []byte) { b[0] = 255 }, "row 0, element 0"},
		{"gpt-oss-tiny", "model.layers.1.mlp.experts.down_proj_blocks", synth.HuggingFace, tensor.BF16, nil, "MXFP4 scale: expected below 255"},
		{"qwen3-wide-tiny", "blk.0.attn_q.weight", synth.GGUF, tensor.Q8_0, func(b []byte) { b[0], b[1] = 0, 0x7c }, "element 0"},
		{"qwen3-wide-tiny", "blk.0.ffn_gate.weight", synth.GGUF, tensor.Q4_K, func(b []byte) { b[2], b[3] = 0, 0x7e }, "NaN"},
		{"qwen3-wide-tiny", "output.weight", synth.GGUF, tensor.Q6_K, func(b []byte) { b[208], b[209] = 0, 0xfc }, "element 0"},
	} {
		t.Run(fmt.Sprint(c.tensor, "/", c.dtype), func(t *testing.T) {
			t.Parallel()
			path := writeSynth(t, c.preset, synth.Options{Format: c.format, Type: c.dtype})
			if err := check(t, path); err != nil {
				t.Fatal(err)
			}
			if c.format == synth.GGUF {
				g := takeApart(t, path)
				c.change(g.tensor(c.tensor).data)
				mustWrite(t, path, g.encode())
			} else {
				replaceTensor(t, path, strings.TrimSuffix(c.tensor, "blocks")+"scales", func(e *stEntry) { e.data[len(e.data)-1] = 255 })
			}
			err := check(t, path)
			e, ok := errors.AsType[*Error](err)
			if !ok || e.Kind != Damaged || (e.Tensor != c.tensor && e.Offset >= 0) || !strings.Contains(err.Error(), c.words) {
				t.Errorf("error %v, want %q of %q", err, c.words, c.tensor)
			}
		})
	}
}

func BenchmarkVerify(b *testing.B) {
	path := writeSynth(b, "llama-tiny", synth.Options{Format: synth.GGUF})
	g := takeApart(b, path)
	g.tensors = append(g.tensors, ggufTensor{"filler", 0, []uint64{64 << 20}, make([]byte, 256<<20)})
	mustWrite(b, path, g.encode())
	if err := Seal(b.Context(), path, nil); err != nil {
		b.Fatal(err)
	}
	m := mustOpen(b, path)
	b.SetBytes(256 << 20)
	for b.Loop() {
		if err := m.Verify(b.Context(), nil, nil); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkOpen(b *testing.B) {
	for _, format := range []synth.Format{synth.HuggingFace, synth.GGUF} {
		b.Run(map[synth.Format]string{synth.HuggingFace: "safetensors", synth.GGUF: "gguf"}[format], func(b *testing.B) {
			path := writeSynth(b, "qwen3moe-tiny", synth.Options{Format: format})
			for b.Loop() {
				m, err := Open(path)
				if err != nil {
					b.Fatal(err)
				}
				m.Close()
			}
		})
	}
}

// What is not read from the files is not compared, everything else is.
func TestVerifyBut(t *testing.T) {
	m, err := synth.Preset("llama-linear-tiny")
	if err != nil {
		t.Fatal(err)
	}
	m.Spec.Vocab = 12 << 20 / (2 * m.Spec.Hidden) // an embedding of three chunks
	for _, o := range []synth.Options{{Model: m}, {Model: m, Format: synth.GGUF}} {
		path := filepath.Join(t.TempDir(), "model.gguf")
		if err := synth.Write(t.Context(), path, o, nil); err != nil {
			t.Fatal(err)
		}
		if err := Seal(t.Context(), path, nil); err != nil {
			t.Fatal(err)
		}
		c := mustOpen(t, path)
		elsewhere := map[string]bool{"embed": true, "layers.0.q": false}
		read := func(elsewhere map[string]bool) (total int64, err error) {
			err = c.Verify(t.Context(), elsewhere, func(_, all int64) { total = all })
			return total, err
		}
		all, err := read(nil)
		if err != nil {
			t.Fatal(err)
		}
		if rest, err := read(elsewhere); err != nil || all-rest < 2*chunkSize || all-rest > 12<<20 || (all-rest)%chunkSize != 0 {
			t.Errorf("%s: %d bytes read of %d, %v", c.Format, rest, all, err)
		}
		embed := c.spans(elsewhere)[c.maps[0].path]
		if len(embed) != 1 || embed[0].to-embed[0].from != 12<<20 {
			t.Fatalf("%s: the embedding lies in %v", c.Format, embed)
		}
		file, data := c.maps[0].path, mustRead(t, c.maps[0].path)
		inside := (embed[0].from+chunkSize-1)/chunkSize*chunkSize + 1000
		for at, want := range map[int64]bool{inside: false, 10: true, embed[0].to + 100: true, int64(len(data)) - 1: true} {
			flip(t, file, at, data[at]^1)
			if _, err := read(elsewhere); (err != nil) != want {
				t.Errorf("%s: byte %d flipped, embedding at %v: %v", c.Format, at, embed, err)
			}
			if _, err := read(nil); err == nil {
				t.Errorf("%s: byte %d flipped: not found by Verify", c.Format, at)
			}
			flip(t, file, at, data[at])
		}
	}
}

// Source changes with every change of a file with tensors, and with no other file.
func TestSource(t *testing.T) {
	path := writeSynth(t, "qwen3-tiny", synth.Options{ShardBytes: 100_000})
	source := func() string {
		t.Helper()
		m, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		text, mode, err := m.Source()
		if err != nil || mode&0o600 != 0o600 || m.Beside("packed") != filepath.Join(path, "ossian-packed") {
			t.Errorf("mode %v, %s, %v", mode, m.Beside("packed"), err)
		}
		return text
	}
	before := source()
	if err := os.WriteFile(filepath.Join(path, "generation_config.json"), []byte(`{"temperature": 0.5}`), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(filepath.Join(path, "config.json"), time.Now(), time.Unix(1e9, 0)); err != nil {
		t.Fatal(err)
	}
	if source() != before {
		t.Error("configuration counts as weights")
	}
	shards, err := filepath.Glob(filepath.Join(path, "*.safetensors"))
	if err != nil || len(shards) < 2 || strings.Count(before, "\n") != len(shards) {
		t.Fatalf("%v, %v: %s", shards, err, before)
	}
	if err := os.Chtimes(shards[1], time.Now(), time.Unix(1e9, 1)); err != nil {
		t.Fatal(err)
	}
	if source() == before {
		t.Error("a changed file of weights was not seen")
	}
}
