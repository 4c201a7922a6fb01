// Command kvcache measures what the type of cached keys and values, or of weights that
// a checkpoint has in floats, does to the predictions of a model, and prints the tables of
// docs/evidence/kv-cache.md and, of weights, RATIONALE.md:
//
//	go run ./_tools/kvcache [-weights] [-tokens N] [MODEL TEXT]
//
// Without arguments it takes SmolLM2 (_tools/smollm2/fetch.sh) on _tools/smollm2/text.txt
// and one synthetic model of each family on random ids; with -weights ossian-tiny on the
// conversations of its tests and wide synthetic models. Each variant sees the same ids;
// what float32 keys and values, or the weights as stored, predict is the truth.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"

	"ossian/internal/ckpt"
	"ossian/internal/cpu"
	"ossian/internal/model"
	"ossian/internal/plan"
	"ossian/internal/runner"
	"ossian/internal/sample"
	"ossian/internal/synth"
	"ossian/internal/tensor"
)

// A variant is a device to compare; the first is the truth.
type variant struct {
	name string
	cfg  cpu.Config
}

var (
	caches = []variant{{"F32", cpu.Config{KV: tensor.F32}}, {"BF16", cpu.Config{KV: tensor.BF16}}, {"F8_E4M3", cpu.Config{KV: tensor.F8_E4M3}}}
	modes  = []variant{{"bf16", cpu.Config{Weights: "bf16"}}, {"auto", cpu.Config{Weights: "auto"}}, {"q8", cpu.Config{Weights: "q8"}}}

	variants = caches
)

const rowsPerStep = 32 // positions predicted at once

func main() {
	log.SetFlags(0)
	log.SetPrefix("kvcache: ")
	tokens := flag.Int("tokens", 0, "use the first `N` tokens of the text; 0 = all")
	weights := flag.Bool("weights", false, "compare the modes of --cpu-weights, not the types of keys and values")
	flag.Parse()
	what := "keys and values"
	if *weights {
		variants, what = modes, "--cpu-weights"
	}
	fmt.Printf("| model | tokens | %s | keys and values, bytes per token | perplexity | mean KL | 99th percentile | largest | same most likely token |\n", what)
	fmt.Println("|---|---|---|---|---|---|---|---|---|")
	var err error
	switch {
	case flag.NArg() == 0 && *weights:
		if err = tiny("internal/tiny/ossian-tiny", "internal/tiny/testdata/golden.json", *tokens); err == nil {
			err = wide(*tokens)
		}
	case flag.NArg() == 0:
		if err = text("models/SmolLM2-135M-Instruct.Q4_1.gguf", "_tools/smollm2/text.txt", *tokens); err == nil {
			err = synthetic("gpt-oss-tiny", "qwen3-tiny", "qwen3moe-tiny", "llama-tiny")
		}
	case flag.NArg() == 2:
		err = text(flag.Arg(0), flag.Arg(1), *tokens)
	default:
		err = fmt.Errorf("%d arguments: MODEL TEXT, or none, expected", flag.NArg())
	}
	if err != nil {
		log.Fatal(err)
	}
}

func text(path, file string, tokens int) error {
	m, err := ckpt.Open(path)
	if err != nil {
		return err
	}
	defer m.Close()
	content, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	ids := m.Tokenizer.Encode(nil, string(content))
	if tokens > 0 {
		ids = ids[:min(tokens, len(ids))]
	}
	return measure(m, filepath.Base(path), ids)
}

// tiny measures the model in path on the ids of its golden file.
func tiny(path, golden string, tokens int) error {
	content, err := os.ReadFile(golden)
	if err != nil {
		return err
	}
	var file struct{ IDs []int32 }
	if err := json.Unmarshal(content, &file); err != nil {
		return fmt.Errorf("%s: %w", golden, err)
	}
	if tokens > 0 {
		file.IDs = file.IDs[:min(tokens, len(file.IDs))]
	}
	m, err := ckpt.Open(path)
	if err != nil {
		return err
	}
	defer m.Close()
	return measure(m, filepath.Base(path), file.IDs)
}

// wide measures models as wide as published ones, with few layers and a small vocabulary.
func wide(tokens int) error {
	const layers, vocab = 4, 8192
	for _, name := range []string{"gpt-oss-20b", "qwen3-0.6b"} {
		preset, err := synth.Preset(name)
		if err != nil {
			return err
		}
		preset.Layers, preset.Windows = layers, preset.Windows[:layers]
		preset.Vocab, preset.Text = vocab, vocab/2
		if err := random(fmt.Sprintf("%s, %d layers", name, layers), preset, cmp.Or(tokens, 512)); err != nil {
			return err
		}
	}
	return nil
}

func synthetic(presets ...string) error {
	for _, name := range presets {
		preset, err := synth.Preset(name)
		if err != nil {
			return err
		}
		if err := random(name, preset, 1024); err != nil {
			return err
		}
	}
	return nil
}

// random measures a synthetic model on random ids.
func random(name string, preset synth.Model, tokens int) error {
	dir, err := os.MkdirTemp("", "ossian-kvcache")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "model")
	if err := synth.Write(context.Background(), path, synth.Options{Model: preset, Seed: 1}, nil); err != nil {
		return err
	}
	m, err := ckpt.Open(path)
	if err != nil {
		return err
	}
	defer m.Close()
	rng := rand.New(rand.NewPCG(1, 1))
	ids := make([]int32, tokens)
	for i := range ids {
		ids[i] = rng.Int32N(int32(preset.Text))
	}
	return measure(m, name+" (random weights)", ids)
}

// A result sums up the predictions of a variant.
type result struct {
	loss float64   // nats
	kl   []float64 // [position] from the truth, nats
	same int       // positions with the same most likely id
}

// measure runs all variants side by side, so that only one step's predictions are held.
func measure(m *ckpt.Model, name string, ids []int32) error {
	results := make([]result, len(variants))
	runners := make([]runner.Runner, len(variants))
	for i, v := range variants {
		r, err := open(m, v.cfg, len(ids))
		if err != nil {
			return err
		}
		defer r.Close()
		runners[i] = r
	}
	for from := 0; from < len(ids)-1; from += rowsPerStep {
		n := min(rowsPerStep, len(ids)-1-from)
		var truth [][]float64
		for i, r := range runners {
			got, err := predict(r, ids[from:from+n], from)
			if err != nil {
				return err
			}
			if i == 0 {
				truth = got
			}
			for k := range got {
				results[i].add(truth[k], got[k], ids[from+k+1])
			}
		}
	}
	for i, r := range results {
		counts, err := plan.New(m.Spec, m.Params)
		if err != nil {
			return err
		}
		counts.KV = cmp.Or(variants[i].cfg.KV, tensor.BF16)
		bytes := int64(0)
		for _, b := range counts.KVBytes() {
			bytes += b
		}
		n := len(r.kl)
		slices.Sort(r.kl)
		mean := 0.0
		for _, kl := range r.kl {
			mean += kl / float64(n)
		}
		fmt.Printf("| %s | %d | %s | %d | %.4f | %.2g | %.2g | %.2g | %.2f %% |\n", name, len(ids), variants[i].name, bytes,
			math.Exp(r.loss/float64(n)), max(mean, 0), r.kl[n*99/100], r.kl[n-1], 100*float64(r.same)/float64(n))
	}
	return nil
}

func open(m *ckpt.Model, cfg cpu.Config, tokens int) (runner.Runner, error) {
	lim := model.Limits{MaxSeqs: rowsPerStep, MaxTokens: rowsPerStep, MaxLen: tokens, BlockSize: plan.DefaultBlockSize}
	windows, _ := m.Spec.Groups()
	for range windows {
		lim.Blocks = append(lim.Blocks, (tokens+lim.BlockSize-1)/lim.BlockSize)
	}
	d, err := cpu.New(m.Spec, lim, cfg)
	if err != nil {
		return nil, err
	}
	return model.NewDecoder(m.Spec, m.Params, d, lim, nil)
}

// predict returns the log probabilities of all ids after each of a step's tokens.
// Every position is a row of its own; all share the blocks of one sequence, because
// a layer stores the keys and values of a step before any row attends.
func predict(r runner.Runner, ids []int32, from int) ([][]float64, error) {
	info := r.Info()
	params := &sample.Params{Logprobs: true, TopLogprobs: info.Vocab}
	tables := make([][]runner.BlockID, len(info.Groups))
	for g := range tables {
		for i := range info.Groups[g].Blocks {
			tables[g] = append(tables[g], runner.BlockID(i))
		}
	}
	rows := make([]runner.Row, len(ids))
	for i := range rows {
		rows[i] = runner.Row{Slot: i, Start: from + i, Len: 1, Tables: tables, Sample: true, Params: params}
	}
	if err := r.Launch(&runner.Batch{Tokens: ids, Rows: rows}); err != nil {
		return nil, err
	}
	res, err := r.Collect()
	if err != nil {
		return nil, err
	}
	out := make([][]float64, len(rows))
	for i := range rows {
		out[i] = make([]float64, info.Vocab)
		for _, p := range res.Logprobs[i][1:] {
			out[i][p.ID] = float64(p.Logprob)
		}
	}
	return out, nil
}

func (r *result) add(truth, got []float64, next int32) {
	kl, best, bestTrue := 0.0, 0, 0
	for id, p := range truth {
		kl += math.Exp(p) * (p - got[id])
		if p > truth[bestTrue] {
			bestTrue = id
		}
		if got[id] > got[best] {
			best = id
		}
	}
	r.loss -= got[next]
	r.kl = append(r.kl, kl)
	if best == bestTrue {
		r.same++
	}
}
