package load

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"

	"ossian/internal/plan"
	"ossian/internal/runner"
	"ossian/internal/sample"
	"ossian/internal/synth"
	"ossian/internal/tensor"
)

// loss returns -Σ ln p of the first 300 tokens of testdata/text.txt, computed exactly.
func loss(t *testing.T, path, weights string) float64 {
	t.Helper()
	checkpoint, err := OpenModel(path)
	if err != nil {
		t.Fatal(err)
	}
	defer checkpoint.Close()
	text, err := os.ReadFile("testdata/text.txt")
	if err != nil {
		t.Fatal(err)
	}
	prompt := checkpoint.Tokenizer.Prompt()
	prompt.Begin("")
	prompt.Text(string(text))
	ids := prompt.IDs()[:300]
	options := &Options{Threads: 2, KV: "f32", Exact: true, Packed: "off", Weights: weights, MaxLen: len(ids)}
	windows, _ := checkpoint.Spec.Groups()
	for range windows { // all positions, also where there is a window
		options.Blocks = append(options.Blocks, (len(ids)+plan.DefaultBlockSize-1)/plan.DefaultBlockSize)
	}
	r, err := options.Runner(t.Context(), checkpoint, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	tables := Tables(r.Info())
	sum := 0.0
	for at, next := range ids[1:] { // the mask leaves the token that follows, whose likelihood is told
		mask := make([]uint64, (r.Info().Vocab+63)/64)
		mask[next/64] = 1 << (next % 64)
		row := runner.Row{Start: at, Len: 1, Tables: tables, Sample: true, Params: &sample.Params{Logprobs: true}, Mask: mask}
		if err := r.Launch(&runner.Batch{Tokens: ids[at : at+1], Rows: []runner.Row{row}}); err != nil {
			t.Fatal(err)
		}
		result, err := r.Collect()
		if err != nil {
			t.Fatal(err)
		}
		sum -= float64(result.Logprobs[0][0].Logprob)
	}
	return sum
}

// testdata/README.md says where files and values are from.
func TestFiles(t *testing.T) {
	for name, want := range map[string]float64{"qwen3-q5_0": 2480.8504, "gate-up-differ": 2479.8502, "qwen3-pre-alias": 2481.1303} {
		for _, isa := range []string{"", "go"} {
			t.Run(name+isa, func(t *testing.T) {
				t.Setenv("OSSIAN_ISA", isa)
				if got := loss(t, filepath.Join("testdata", name+".gguf"), ""); math.Abs(got-want) > 0.01 {
					t.Errorf("-Σ ln p is %.4f, want %.4f", got, want)
				}
			})
		}
	}
}

// Quantised to 5 or 8 bits, a model says what it says as F32, about.
func TestTypes(t *testing.T) {
	exact, _ := writeModel(t, "qwen3-tiny", synth.Options{Format: synth.GGUF, Type: tensor.F32})
	want := loss(t, exact, "")
	for _, dtype := range []tensor.DType{tensor.Q5_0, tensor.Q5_1, tensor.IQ4_NL, tensor.Q8_0} {
		t.Run(fmt.Sprint(dtype), func(t *testing.T) {
			path, _ := writeModel(t, "qwen3-tiny", synth.Options{Format: synth.GGUF, Type: dtype})
			if got := loss(t, path, ""); math.Abs(got-want) > 0.02*want {
				t.Errorf("-Σ ln p is %.4f, as F32 %.4f", got, want)
			}
		})
	}
}
