package cuda

import (
	"math"
	"strings"
	"testing"

	"ossian/internal/cuda/emu"
	"ossian/internal/model"
	"ossian/internal/model/modeltest"
	"ossian/internal/tensor"
)

// smallLimits are those of tests with small models.
func smallLimits(s *model.Spec, depth int) model.Limits {
	lim := model.Limits{MaxSeqs: 4, MaxTokens: 48, MaxLen: 320, BlockSize: 8, Depth: depth}
	windows, _ := s.Groups()
	for range windows {
		lim.Blocks = append(lim.Blocks, 50)
	}
	return lim
}

// What is planned before a weight is read is what a device then takes, and what the card misses.
func TestFootprint(t *testing.T) {
	for _, family := range modeltest.Families() {
		for _, kv := range []tensor.DType{tensor.BF16, tensor.F8_E4M3} {
			s, params := modeltest.Tiny(family, small()[family])
			lim, cfg := smallLimits(s, 2), Config{KV: kv}
			lim.Lookahead = 3
			want, err := Footprint(s, lim, cfg, params)
			if err != nil {
				t.Fatal(err)
			}
			machine := emu.New(emu.Card{})
			cfg.Driver = machine.Driver()
			before, err := Probe(cfg.Driver, 0)
			if err != nil {
				t.Fatal(err)
			}
			device, err := New(s, lim, cfg)
			if err != nil {
				t.Fatal(err)
			}
			decoder, err := model.NewDecoder(s, params, device, lim, nil)
			if err != nil {
				t.Fatal(err)
			}
			got := device.Memory()
			if got.Weights != want.Weights || got.KV != want.KV || got.Activations != want.Activations {
				t.Errorf("%s %v: device takes %+v, footprint said %+v", family, kv, got, want)
			}
			if got.Weights < 1000 || got.KV < 1000 || got.Activations < 1000 {
				t.Errorf("%s %v: %+v is too little", family, kv, got)
			}
			after, err := Probe(cfg.Driver, 0)
			if err != nil {
				t.Fatal(err)
			}
			// The card hands out pieces in units of its own.
			if taken := before.Free - after.Free; math.Abs(float64(taken-want.Total())) > 0.05*float64(want.Total()) {
				t.Errorf("%s %v: the card has %d bytes less, footprint said %d", family, kv, taken, want.Total())
			}
			if err := decoder.Close(); err != nil {
				t.Error(err)
			}
			if err := machine.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// A type without kernels is refused by its tensor's name, and what to do is said, before a weight
// is read: the tensor of this test has no bytes.
func TestSupports(t *testing.T) {
	s, params := modeltest.Tiny("gpt-oss", small()["gpt-oss"])
	if err := Supports(s, params); err != nil {
		t.Fatal(err)
	}
	lacking := params["layers.1.up"]
	lacking.DType, lacking.Data, lacking.Scales, lacking.Name = tensor.Q4_K, nil, nil, "blk.1.ffn_up"
	params["layers.1.up"] = lacking
	_, footprint := Footprint(s, smallLimits(s, 1), Config{}, params)
	for _, err := range []error{Supports(s, params), footprint} {
		if err == nil {
			t.Fatal("Q4_K is accepted")
		}
		for _, part := range []string{"cuda", `"blk.1.ffn_up"`, "Q4_K", "--device cpu"} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("error %q does not say %s", err, part)
			}
		}
	}
}

func TestNewRefuses(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*model.Spec, *model.Limits, *Config)
		want   string
	}{
		"rows":            {func(_ *model.Spec, l *model.Limits, _ *Config) { l.MaxSeqs = 0 }, "rows is 0"},
		"tokens":          {func(_ *model.Spec, l *model.Limits, _ *Config) { l.MaxTokens = -1 }, "tokens per step is -1"},
		"length":          {func(_ *model.Spec, l *model.Limits, _ *Config) { l.MaxLen = 0 }, "tokens per sequence is 0"},
		"block":           {func(_ *model.Spec, l *model.Limits, _ *Config) { l.BlockSize = 0 }, "tokens per block is 0"},
		"depth":           {func(_ *model.Spec, l *model.Limits, _ *Config) { l.Depth = 17 }, "depth 17"},
		"pools":           {func(_ *model.Spec, l *model.Limits, _ *Config) { l.Blocks = l.Blocks[:1] }, "1 KV pool sizes for 2 groups"},
		"empty pool":      {func(_ *model.Spec, l *model.Limits, _ *Config) { l.Blocks[1] = 0 }, "group 1 has 0 blocks"},
		"pool beyond all": {func(_ *model.Spec, l *model.Limits, _ *Config) { l.Blocks[1] = math.MaxInt }, "group 1 has"},
		"cache type":      {func(_ *model.Spec, _ *model.Limits, c *Config) { c.KV = tensor.F32 }, "F32"},
		"no such card":    {func(_ *model.Spec, _ *model.Limits, c *Config) { c.Ordinal = 3 }, "no card 3"},
		"card":            {func(_ *model.Spec, _ *model.Limits, c *Config) { c.Ordinal = -1 }, "card -1"},
		"head":            {func(s *model.Spec, _ *model.Limits, _ *Config) { s.HeadDim = 512 }, "head dim 512"},
		"experts":         {func(s *model.Spec, _ *model.Limits, _ *Config) { s.FFN.Experts, s.FFN.TopK = 64, 33 }, "33 experts"},
		"memory":          {func(_ *model.Spec, l *model.Limits, _ *Config) { l.Blocks[0] = 1 << 26 }, "memory"},
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := modeltest.Tiny("gpt-oss", small()["gpt-oss"])
			machine := emu.New(emu.Card{})
			lim, cfg := smallLimits(s, 1), Config{Driver: machine.Driver()}
			test.change(s, &lim, &cfg)
			if _, err := New(s, lim, cfg); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want an error with %q", err, test.want)
			}
			if err := machine.Close(); err != nil { // nothing of the half-made device is left
				t.Error(err)
			}
		})
	}
}
