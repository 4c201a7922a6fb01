package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"os"

	"ossian/internal/ckpt"
	"ossian/internal/cpu"
	"ossian/internal/model"
	"ossian/internal/runner"
	"ossian/internal/sample"
	"ossian/internal/tensor"
)

// compareLogits holds the engine to models.md 5.2: its float32 path within a
// relative L2 of 1e-4 of the training framework, its default path within a mean KL
// of 1e-2 and 97 % of argmax agreement.
func compareLogits(m *ckpt.Model, path string, cfg cpu.Config) error {
	ids, want, err := readGolden(m, path)
	if err != nil {
		return err
	}
	for _, c := range []struct {
		name   string
		cfg    cpu.Config
		l2, kl float64
		argmax float64
	}{
		{"float32", cpu.Config{Threads: cfg.Threads, Exact: true, KV: tensor.F32}, 1e-4, 1e-6, 1},
		{"default", cfg, math.Inf(1), 1e-2, 0.97},
	} {
		got, err := logits(m, c.cfg, ids)
		if err != nil {
			return err
		}
		l2, kl, argmax := distance(want, got)
		fmt.Printf("%s path against the training framework, %d tokens: relative L2 %.2g, mean KL %.2g, argmax %.2f %%\n", c.name, len(ids), l2, kl, 100*argmax)
		if !(l2 <= c.l2 && kl <= c.kl && argmax >= c.argmax) {
			return fmt.Errorf("%s path: relative L2 of at most %.2g, KL of at most %.2g and %.0f %% argmax expected", c.name, c.l2, c.kl, 100*c.argmax)
		}
	}
	return nil
}

func readGolden(m *ckpt.Model, path string) (ids []int32, rows [][]float64, err error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, nil, err
	}
	head, raw, _ := bytes.Cut(data, []byte("\n"))
	var g struct {
		Vocab int
		IDs   []int32
	}
	if err := json.Unmarshal(head, &g); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	if g.Vocab != m.Spec.Vocab || len(raw) != 4*g.Vocab*len(g.IDs) {
		return nil, nil, fmt.Errorf("%s: %d bytes of logits for %d tokens and %d ids, the model has %d ids", path, len(raw), len(g.IDs), g.Vocab, m.Spec.Vocab)
	}
	for range g.IDs {
		row := make([]float64, g.Vocab)
		for i := range row {
			row[i] = float64(math.Float32frombits(binary.LittleEndian.Uint32(raw)))
			raw = raw[4:]
		}
		rows = append(rows, row)
	}
	return g.IDs, rows, nil
}

// logits returns log probabilities after every token.
func logits(m *ckpt.Model, cfg cpu.Config, ids []int32) ([][]float64, error) {
	run, err := load(m, cfg, model.Limits{MaxSeqs: 1, MaxTokens: 1, MaxLen: maxLen, BlockSize: blockSize})
	if err != nil {
		return nil, err
	}
	defer run.Close()
	info := run.Info()
	params := &sample.Params{Logprobs: true, TopLogprobs: info.Vocab}
	var out [][]float64
	for i := range ids {
		row := runner.Row{Start: i, Len: 1, Tables: tables(info, 0), Sample: true, Params: params, History: ids[:i+1]}
		if err := run.Launch(&runner.Batch{Tokens: ids[i : i+1], Rows: []runner.Row{row}}); err != nil {
			return nil, err
		}
		res, err := run.Collect()
		if err != nil {
			return nil, err
		}
		x := make([]float64, info.Vocab)
		for _, p := range res.Logprobs[0][1:] {
			x[p.ID] = float64(p.Logprob)
		}
		out = append(out, x)
	}
	return out, nil
}

// distance compares logits with log probabilities: both without their mean.
func distance(want, got [][]float64) (l2, kl, argmax float64) {
	var diff, norm float64
	for i := range want {
		a, b := logSoftmax(want[i]), logSoftmax(got[i])
		ma, mb := mean(a), mean(b)
		bestA, bestB := 0, 0
		for k := range a {
			d := a[k] - ma - b[k] + mb
			diff += d * d
			norm += (a[k] - ma) * (a[k] - ma)
			kl += math.Exp(a[k]) * (a[k] - b[k])
			if a[k] > a[bestA] {
				bestA = k
			}
			if b[k] > b[bestB] {
				bestB = k
			}
		}
		if bestA == bestB {
			argmax++
		}
	}
	n := float64(len(want))
	return math.Sqrt(diff / norm), kl / n, argmax / n
}

func logSoftmax(x []float64) []float64 {
	best, sum := math.Inf(-1), 0.0
	for _, v := range x {
		best = max(best, v)
	}
	for _, v := range x {
		sum += math.Exp(v - best)
	}
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = v - best - math.Log(sum)
	}
	return out
}

func mean(x []float64) float64 {
	sum := 0.0
	for _, v := range x {
		sum += v
	}
	return sum / float64(len(x))
}
