package cpu

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"ossian/internal/cpu/kern"
	"ossian/internal/model"
	"ossian/internal/model/devicetest"
	"ossian/internal/tensor"
)

// probe lets the suite reach buffers.
type probe struct{ *Device }

func (p probe) Write(b model.Buf, x []float32) {
	to := at(b)
	to.wrote(copy(to.x, x) / to.width)
}

func (p probe) Read(b model.Buf) []float32 {
	from := at(b)
	return slices.Clone(from.x[:from.rows*from.width])
}

func opener(cfg Config) func(*testing.T, *model.Spec, model.Limits) devicetest.Device {
	return func(t *testing.T, s *model.Spec, lim model.Limits) devicetest.Device {
		t.Helper()
		d, err := New(s, lim, cfg)
		if err != nil {
			t.Fatal(err)
		}
		return probe{d}
	}
}

// levels lists the instruction sets of this machine and build.
func levels() (names []string) {
	for _, l := range kern.Levels() {
		names = append(names, l.String())
	}
	return names
}

// fastLevels are all levels, with -short those with assembly if there are any: plain Go
// takes forty times as long, under the race detector several minutes.
func fastLevels() []string {
	all := levels()
	if testing.Short() && len(all) > 1 {
		return all[1:]
	}
	return all
}

// someLevels are all levels, with -short the best.
func someLevels() []string {
	all := levels()
	if testing.Short() {
		return all[len(all)-1:]
	}
	return all
}

func TestDevice(t *testing.T) {
	models := make(map[string]devicetest.Model)
	for family, o := range tiny() {
		s, params := tinyModel(family, o)
		models[family] = devicetest.Model{Spec: s, Params: params}
	}
	for _, isa := range someLevels() {
		for _, kv := range []tensor.DType{tensor.BF16, tensor.F32, tensor.F8_E4M3} {
			exact := kv == tensor.F32 // the two settings meet in no operation: test three of six pairs
			t.Run(fmt.Sprintf("%s/exact=%v/kv=%v", isa, exact, kv), func(t *testing.T) {
				t.Parallel()
				cfg := Config{Threads: 1, ISA: isa, Exact: exact, KV: kv}
				s := devicetest.Subject{Open: opener(cfg), Int8: !exact, KV: kv,
					Models: []devicetest.Model{models["gpt-oss"], models["qwen3"]}}
				if isa != "go" { // slow, and the others share its structure
					s.Models = slices.Collect(maps.Values(models))
				}
				for n := 2; n <= 4; n++ {
					cfg.Threads = n
					s.Twins = append(s.Twins, opener(cfg))
				}
				devicetest.Run(t, s)
			})
		}
	}
}
