package cpu

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"ossian/internal/model"
	"ossian/internal/model/modeltest"
	"ossian/internal/tensor"
)

func skipUnsupported(t *testing.T) {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("this platform keeps no packed files")
	}
}

func newPacked(t *testing.T, s *model.Spec, cfg Config, params map[string]tensor.Tensor, prefix string) *Packed {
	t.Helper()
	p, err := NewPacked(s, cfg, params, Place{Prefix: prefix, Source: "a test", Mode: 0o644})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

func someIDs(s *model.Spec) []int32 {
	rng := rand.New(rand.NewPCG(12, 12))
	ids := make([]int32, 24)
	for i := range ids {
		ids[i] = int32(rng.IntN(s.Vocab))
	}
	return ids
}

// TestPacked: every packed family gives the same bits from memory, from the file that one
// instruction set has just made and from one that was there; and memory is counted where
// it is.
func TestPacked(t *testing.T) {
	skipUnsupported(t)
	type variant struct {
		family  string
		o       modeltest.Options
		weights string
	}
	variants := []variant{
		{"gpt-oss", modeltest.Options{Matrix: tensor.BF16}, "auto"}, {"gpt-oss", modeltest.Options{Matrix: tensor.BF16}, "q8"},
		{"qwen3", modeltest.Options{Matrix: tensor.F16, Tied: true}, "q8"}, {"qwen3moe", modeltest.Options{Matrix: tensor.F32, Dense: true}, "q8"},
	}
	for i, dt := range []tensor.DType{tensor.MXFP4, tensor.Q8_0, tensor.Q4_0, tensor.Q4_1, tensor.Q5_0, tensor.Q5_1, tensor.IQ4_NL, tensor.Q4_K, tensor.Q5_K, tensor.Q6_K} {
		variants = append(variants, variant{[]string{"qwen3", "qwen3moe", "llama"}[i%3], modeltest.Options{Matrix: dt, Tied: i%2 == 0}, "auto"})
	}
	for _, up := range [][2]tensor.DType{{tensor.Q4_K, tensor.Q6_K}, {tensor.Q8_0, tensor.BF16}, {tensor.F16, tensor.Q5_1}, {tensor.MXFP4, tensor.Q4_0}} {
		for _, family := range []string{"llama", "qwen3moe"} {
			variants = append(variants, variant{family, modeltest.Options{Matrix: up[0], Up: up[1]}, "auto"})
		}
	}
	for _, v := range variants {
		t.Run(fmt.Sprintf("%s/%v/%v/%s", v.family, v.o.Matrix, v.o.Up, v.weights), func(t *testing.T) {
			s, params := modeltest.Tiny(v.family, v.o)
			ids, prefix := someIDs(s), filepath.Join(t.TempDir(), "packed")
			cfg := Config{Threads: 2, Weights: v.weights}
			var alone Memory
			want := logitsOf(t, s, params, cfg, ids, 5, func(d *Device) { alone = d.Memory() })
			p := newPacked(t, s, Config{Threads: 1, ISA: "go", Weights: v.weights}, params, prefix)
			if err := p.Found(); !errors.Is(err, os.ErrNotExist) {
				t.Fatalf("before it was made: %v", err)
			}
			var made atomic.Int64
			if err := p.Make(t.Context(), func(n int64) { made.Add(n) }); err != nil {
				t.Fatal(err)
			}
			again := newPacked(t, s, cfg, params, prefix)
			if err := again.Open(t.Context(), true, nil); err != nil {
				t.Fatal(err)
			}
			for name, p := range map[string]*Packed{"made": p, "found": again} {
				cfg.Packed = p
				lim := tinyLimits(s, 1)
				plan, err := Footprint(s, lim, cfg, params)
				if err != nil {
					t.Fatal(err)
				}
				got := logitsOf(t, s, params, cfg, ids, 5, func(d *Device) {
					m := d.Memory()
					if m.Total() != alone.Total() || m.Total() != plan.Total() || m.Mapped != plan.Mapped || m.Mapped-alone.Mapped != alone.Weights-m.Weights ||
						m.Mapped-alone.Mapped != made.Load() || made.Load() > p.Bytes() {
						t.Errorf("%s: memory %+v, planned %+v, without a file %+v; %d bytes were packed", name, m, plan, alone, made.Load())
					}
				})
				for pos, row := range want {
					if !slices.Equal(got[pos], row) {
						t.Fatalf("%s: other logits at %d", name, pos)
					}
				}
			}
			for name := range p.Replaces() {
				if _, ok := params[name]; !ok {
					t.Errorf("%q is no parameter", name)
				}
			}
			if v.o.Up == tensor.BF16 && p.Replaces()["layers.0.up"] {
				t.Error("a parameter of which half is read where it is counts as replaced")
			}
			if v.o.Tied && v.weights == "q8" && p.Replaces()["embed"] {
				t.Error("a table that is read where it is counts as replaced")
			}
		})
	}
}

// A file that is damaged, or does not hold what the tensors are packed to, is refused,
// made again, and then used.
func TestPackedRefused(t *testing.T) {
	skipUnsupported(t)
	s, params := modeltest.Tiny("qwen3", modeltest.Options{Matrix: tensor.Q8_0})
	prefix := filepath.Join(t.TempDir(), "packed")
	p := newPacked(t, s, Config{Threads: 2}, params, prefix)
	if err := p.Make(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(p.Path())
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)/2] ^= 4
	if err := os.WriteFile(p.Path(), data, 0o644); err != nil {
		t.Fatal(err)
	}
	again := newPacked(t, s, Config{Threads: 2}, params, prefix)
	if err := again.Open(t.Context(), true, nil); err == nil || !strings.Contains(err.Error(), "damaged in bytes") {
		t.Errorf("a flipped bit: %v", err)
	}
	if err := again.Make(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"layers.0.q", "head"} { // as if the file had been changed and its time set back
		other := params[name]
		other.Data = slices.Clone(other.Data)
		other.Data[len(other.Data)-1] ^= 1
		changed := map[string]tensor.Tensor{}
		for n, v := range params {
			changed[n] = v
		}
		changed[name] = other
		err := newPacked(t, s, Config{Threads: 2}, changed, prefix).Open(t.Context(), true, nil)
		if err == nil || !strings.Contains(err.Error(), "is not what this program makes") {
			t.Errorf("%s changed: %v", name, err)
		}
	}
	if err := newPacked(t, s, Config{Threads: 2, ISA: "go"}, params, prefix).Open(t.Context(), true, nil); err != nil {
		t.Errorf("made again: %v", err)
	}
}

// A cancelled start leaves nothing, and a device of other matrices is refused.
func TestPackedErrors(t *testing.T) {
	skipUnsupported(t)
	s, params := modeltest.Tiny("gpt-oss", modeltest.Options{Matrix: tensor.BF16})
	dir := t.TempDir()
	prefix := filepath.Join(dir, "packed")
	p := newPacked(t, s, Config{Threads: 2, Weights: "q8"}, params, prefix)
	ctx, cancel := context.WithCancel(t.Context())
	err := p.Make(ctx, func(int64) { cancel() })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled start: %v", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("it left %v, %v", left, err)
	}
	if err := p.Make(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if r := (PackedReport{}).Complete(p, prefix); len(r.Files) != 1 || len(r.Lines()) != 2 || !strings.Contains(r.State, "mapped from "+p.Path()) {
		t.Errorf("report %+v", r)
	}
	lim := tinyLimits(s, 1)
	d, err := New(s, lim, Config{Threads: 1, Weights: "bf16", Packed: p})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if _, err := model.NewDecoder(s, params, d, lim, nil); err == nil || !strings.Contains(err.Error(), "other settings") {
		t.Errorf("a device with other settings: %v", err)
	}
	if removed, err := RemovePacked(prefix); err != nil || len(removed) != 1 {
		t.Errorf("removed %v, %v", removed, err)
	}
}
