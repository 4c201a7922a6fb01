//go:build !card

// The tag card leaves the built-in model out, with which a program is too large to send to a machine
// with a GPU (_tools/cuda/gpu.sh).

package e2e_test

import (
	"encoding/json"
	"os"
	"runtime"
	"slices"
	"testing"

	"ossian/internal/ckpt"
	"ossian/internal/cpu"
	"ossian/internal/tensor"
	"ossian/internal/tiny"
)

// The built-in model says what its training framework says on the same weights:
// models.md 5.2. _tools/tinymodel/export.py wrote the golden logits.
func TestTinyLogits(t *testing.T) {
	text, err := os.ReadFile("../tiny/testdata/golden.json")
	if err != nil {
		t.Fatal(err)
	}
	var g golden
	if err := json.Unmarshal(text, &g); err != nil {
		t.Fatal(err)
	}
	g.read(t, "../tiny/testdata/golden.f32")
	for _, isa := range someLevels(t) {
		t.Run(isa, func(t *testing.T) {
			g := &g
			if isa == "go" || os.Getenv("EMULATED") != "" { // _tools/arm64.sh
				g = g.first(300)
			}
			// Of the few golden positions one more or less is 5 %: shares are counted over every fifth.
			var often []int
			for p := 4; p < len(g.IDs); p += 5 {
				often = append(often, p)
			}
			both := slices.Concat(g.Pos, often)
			slices.Sort(both)
			both = slices.Compact(both)
			at := func(cfg cpu.Config) (golden, fifths [][]float64) {
				for i, row := range rowsAt(t, load(t, openTiny(t), len(g.IDs), cfg), g.IDs, both) {
					if slices.Contains(g.Pos, both[i]) {
						golden = append(golden, row)
					}
					if both[i]%5 == 4 {
						fifths = append(fifths, row)
					}
				}
				return golden, fifths
			}
			cfg := exact
			cfg.ISA = isa
			truth, truths := at(cfg)
			d := compare(g.logits, truth)
			t.Logf("float32 against the training framework: L2 %.2g, KL %.2g, argmax %.1f %%", d.L2, d.KL, 100*d.Argmax)
			if d.L2 > 1e-4 || d.Argmax < 1 {
				t.Errorf("distance %+v: relative L2 of at most 1e-4 and the same argmax everywhere expected", d)
			}
			got, gots := at(cpu.Config{ISA: isa})
			d, all := compare(truth, got), compare(truths, gots)
			t.Logf("default against float32: KL %.2g at the golden positions, %.2g at every fifth, argmax %.1f %%", d.KL, all.KL, 100*all.Argmax)
			if d.KL > 1e-2 || all.KL > 1e-2 || all.Argmax < 0.97 {
				t.Errorf("distance of the default path %+v at the golden positions, %+v at every fifth: KL of at most 1e-2 at both and 97 %% argmax at the latter expected", d, all)
			}
			if isa == "go" {
				return // slow, and the same weights
			}
			got, gots = at(cpu.Config{ISA: isa, Exact: true, KV: tensor.F32, Weights: "q8"})
			d, all = compare(truth, got), compare(truths, gots)
			t.Logf("8-bit projections against BF16, else float32: KL %.2g at the golden positions, %.2g at every fifth, argmax %.1f %%", d.KL, all.KL, 100*all.Argmax)
			if d.KL == 0 || d.KL > 4e-3 || all.KL > 1e-2 || all.Argmax < 0.97 {
				t.Errorf("distance of 8-bit projections %+v at the golden positions, %+v at every fifth: KL of at most 4e-3 and 1e-2 and 97 %% argmax at the latter expected", d, all)
			}
		})
	}
}

// TestTinyLevels: all levels above plain Go give the built-in model's logits to the bit, and on
// arm64 plain Go does, which fuses what they do.
func TestTinyLevels(t *testing.T) {
	var g golden
	text, err := os.ReadFile("../tiny/testdata/golden.json")
	if err == nil {
		err = json.Unmarshal(text, &g)
	}
	if err != nil {
		t.Fatal(err)
	}
	same := levels()
	if runtime.GOARCH != "arm64" {
		same = same[1:]
	}
	if len(same) < 2 {
		t.Skipf("of %v none is to be compared with another", same)
	}
	const tokens = 40
	positions := []int{9, tokens - 1}
	for name, cfg := range map[string]cpu.Config{"exact": exact, "default": {}} {
		var first [][]float64
		for _, isa := range same {
			cfg.ISA = isa
			logits := atPositions(t, load(t, openTiny(t), tokens, cfg), g.IDs[:tokens], positions)
			if first == nil {
				first = logits
			}
			for i := range logits {
				if !slices.Equal(logits[i], first[i]) {
					t.Errorf("%s: the logits of %s at position %d are not those of %s", name, isa, positions[i], same[0])
				}
			}
		}
		t.Logf("%s: %v of %v", name, same, first[0][:2])
	}
}

func openTiny(t *testing.T) *ckpt.Model {
	t.Helper()
	m, err := ckpt.OpenFS(tiny.FS(), tiny.Name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}
