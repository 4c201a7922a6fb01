package model

import (
	"bufio"
	"math"
	"os"
	"strconv"
	"strings"
	"testing"
)

var gptOSSRoPE = RoPE{Base: 150000, Scaling: ScalingYaRN, Factor: 32, Original: 4096, BetaFast: 32, BetaSlow: 1}

func truncated(r RoPE) RoPE { r.Truncate = true; return r }

// near reports whether got is want within rel of its size.
func near(got, want, rel float64) bool { return math.Abs(got-want) <= rel*math.Abs(want) }

func TestFrequenciesCheckValues(t *testing.T) { // models.md 1.3
	tests := []struct {
		name string
		r    RoPE
		want map[int]float64
	}{
		{"fractional ramp", gptOSSRoPE, map[int]float64{0: 1, 1: 6.890443059e-01, 8: 5.081327482e-02, 9: 3.170569618e-02, 12: 6.794959490e-03,
			15: 1.052602101e-03, 17: 1.293187012e-04, 18: 3.830881237e-05, 31: 3.023511428e-07}},
		{"rounded ramp", truncated(gptOSSRoPE), map[int]float64{9: 3.162075228e-02, 12: 7.015713911e-03, 17: 2.279477958e-04}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inv, factor := Frequencies(tt.r, 64)
			if !near(factor, 1.3465735902799727, 1e-15) {
				t.Errorf("factor %v, want 1.3465735902799727", factor)
			}
			for i, want := range tt.want {
				if !near(inv[i], want, 5e-10) {
					t.Errorf("inv[%d] = %.10g, want %.10g", i, inv[i], want)
				}
			}
		})
	}
}

func TestFrequenciesGolden(t *testing.T) {
	llama := RoPE{Base: 500000, Scaling: ScalingLlama3, Factor: 8, Original: 8192, LowFreq: 1, HighFreq: 4}
	llama32 := llama
	llama32.Factor = 32
	configs := map[string]struct {
		r   RoPE
		dim int
	}{
		"yarn_gptoss": {gptOSSRoPE, 64},
		"yarn_trunc":  {truncated(gptOSSRoPE), 64},
		"yarn_qwen":   {RoPE{Base: 1e6, Scaling: ScalingYaRN, Factor: 4, Original: 32768, BetaFast: 32, BetaSlow: 1, Truncate: true}, 128},
		"yarn_att":    {RoPE{Base: 1e4, Scaling: ScalingYaRN, Factor: 4, Original: 64, BetaFast: 32, BetaSlow: 1, Truncate: true, Attention: 1.25}, 32},
		"llama31":     {llama, 128},
		"llama32":     {llama32, 64},
		"linear":      {RoPE{Base: 1e4, Scaling: ScalingLinear, Factor: 4}, 16},
	}
	f, err := os.Open("testdata/rope.golden")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	seen := 0
	for s := bufio.NewScanner(f); s.Scan(); {
		fields := strings.Fields(s.Text())
		if fields[0] == "#" {
			continue
		}
		seen++
		t.Run(fields[0], func(t *testing.T) {
			c, ok := configs[fields[0]]
			if !ok {
				t.Fatal("no configuration of that name")
			}
			inv, factor := Frequencies(c.r, c.dim)
			if err := c.r.validate(c.dim); err != nil {
				t.Errorf("validate: %v", err)
			}
			if len(inv) != len(fields)-2 {
				t.Fatalf("%d frequencies, want %d", len(inv), len(fields)-2)
			}
			for i, got := range append([]float64{factor}, inv...) {
				want, err := strconv.ParseFloat(fields[i+1], 64)
				if err != nil {
					t.Fatal(err)
				}
				// 4e-6: float32 rounding of the ramp and of a difference close to its end.
				if !near(got, want, 4e-6) {
					t.Errorf("value %d: %.10g, want %.10g", i, got, want)
				}
			}
		})
	}
	if seen != len(configs) {
		t.Errorf("golden file has %d configurations, want %d", seen, len(configs))
	}
}

func TestFrequenciesPlain(t *testing.T) {
	inv, factor := Frequencies(RoPE{Base: 10000}, 4)
	if factor != 1 || inv[0] != 1 || !near(inv[1], 0.01, 1e-15) {
		t.Errorf("got %v and factor %v, want [1 0.01] and 1", inv, factor)
	}
	inv, _ = Frequencies(RoPE{Base: 10000, Divisors: []float32{1, 8}}, 4)
	if inv[0] != 1 || !near(inv[1], 0.00125, 1e-15) {
		t.Errorf("with divisors 1, 8: got %v, want [1 0.00125]", inv)
	}
	if _, factor := Frequencies(RoPE{Base: 1e4, Scaling: ScalingYaRN, Factor: 1, Original: 64, BetaFast: 32, BetaSlow: 1}, 4); factor != 1 {
		t.Errorf("yarn with factor 1: attention factor %v, want 1", factor)
	}
}

func TestRoPEValidate(t *testing.T) {
	yarn := gptOSSRoPE
	llama := RoPE{Base: 500000, Scaling: ScalingLlama3, Factor: 8, Original: 8192, LowFreq: 1, HighFreq: 4}
	with := func(r RoPE, change func(*RoPE)) RoPE { change(&r); return r }
	tests := []struct {
		name, want string
		r          RoPE
	}{
		{"plain", "", RoPE{Base: 1e4}},
		{"base of one", "base 1", RoPE{Base: 1}},
		{"base not a number", "base NaN", RoPE{Base: math.NaN()}},
		{"divisors of another head", "3 rope divisors for 2", RoPE{Base: 1e4, Divisors: []float32{1, 1, 1}}},
		{"zero divisor", "divisor is 0", RoPE{Base: 1e4, Divisors: []float32{1, 0}}},
		{"linear without factor", "factor is 0", RoPE{Base: 1e4, Scaling: ScalingLinear}},
		{"yarn without length", "original length is 0", with(yarn, func(r *RoPE) { r.Original = 0 })},
		{"yarn without betas", "beta_fast is 0", with(yarn, func(r *RoPE) { r.BetaFast = 0 })},
		{"yarn with negative attention", "attention factor is -1", with(yarn, func(r *RoPE) { r.Attention = -1 })},
		{"llama3 without band", "not below", with(llama, func(r *RoPE) { r.HighFreq = 1 })},
		{"llama3", "", llama},
		{"unknown scaling", "scaling 9 is unknown", RoPE{Base: 1e4, Scaling: 9}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := tt.r.validate(4)
			if (tt.want == "" && err != nil) || (tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want))) {
				t.Errorf("got error %v, want %q", err, tt.want)
			}
		})
	}
}
