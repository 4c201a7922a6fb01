package cpu

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"ossian/internal/cpu/kern"
	"ossian/internal/model"
	"ossian/internal/model/devicetest"
	"ossian/internal/model/modeltest"
	"ossian/internal/soak"
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

// levels lists the instruction sets of this machine and build, but for AVX-512 where there is
// AMX, which has the same vectors and other products of BF16; kern's tests have all.
func levels() (names []string) {
	for _, l := range kern.Levels() {
		if l != kern.AVX512 || kern.Detect() != kern.AMX {
			names = append(names, l.String())
		}
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

// TestDevice applies the suite of devices to the best level with every type of keys and values, and
// to each other level with one of them, and half of the cases of attention; for a release to all pairs. TestOracle holds all pairs to
// float64 with every change, by whole models, and TestSameOnVectorLevels the vector levels to each
// other.
func TestDevice(t *testing.T) {
	pairs := soak.Cases(t, 0, 1) > 0
	models := make(map[string]devicetest.Model)
	for family, o := range tiny() {
		s, params := tinyModel(family, o)
		models[family] = devicetest.Model{Spec: s, Params: params}
	}
	all := someLevels()
	for i, isa := range all {
		for k, kv := range []tensor.DType{tensor.BF16, tensor.F32, tensor.F8_E4M3} {
			half := 0
			if best := i == len(all)-1; !best && !pairs {
				if k != i%3 {
					continue
				}
				half = 1 + i%2
			}
			exact := kv == tensor.F32 // the two settings meet in no operation: test three of six pairs
			t.Run(fmt.Sprintf("%s/exact=%v/kv=%v", isa, exact, kv), func(t *testing.T) {
				t.Parallel()
				cfg := Config{Threads: 1, ISA: isa, Exact: exact, KV: kv}
				s := devicetest.Subject{Open: opener(cfg), Int8: !exact, KV: kv, Half: half,
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

// Join copies rows, chosen or all, into some columns, also from a buffer of another device.
func TestJoin(t *testing.T) {
	spec, _ := modeltest.Tiny("llama", modeltest.Options{})
	lim := tinyLimits(spec, 1)
	var devices [2]*Device
	var bufs [2]*buf
	for i := range devices {
		device, err := New(spec, lim, Config{Threads: 2})
		if err != nil {
			t.Fatal(err)
		}
		defer device.Close()
		made, err := device.Alloc(5, 3*(2-i))
		if err != nil {
			t.Fatal(err)
		}
		devices[i], bufs[i] = device, made[0].(*buf)
	}
	wide, narrow := bufs[0], bufs[1]
	for i := range narrow.x {
		narrow.x[i] = float32(i)
	}
	narrow.wrote(4)
	devices[0].Join(wide, 3, narrow, nil)
	if wide.rows != 4 || wide.row(3)[3] != 9 || wide.row(3)[5] != 11 || wide.row(3)[2] != 0 || wide.row(4)[3] != 0 {
		t.Errorf("every row: %d rows, %v", wide.rows, wide.x)
	}
	epoch := wide.epoch
	devices[0].Join(wide, 0, narrow, []int32{3, 3, 0})
	if wide.rows != 3 || wide.epoch == epoch || wide.row(0)[0] != 9 || wide.row(1)[2] != 11 || wide.row(2)[1] != 1 || wide.row(2)[3] != 6 {
		t.Errorf("chosen rows: %d rows, %v", wide.rows, wide.x)
	}
}
