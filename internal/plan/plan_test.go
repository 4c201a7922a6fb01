package plan

import (
	"errors"
	"math"
	"runtime"
	"slices"
	"sort"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"ossian/internal/grammar"
	"ossian/internal/model"
	"ossian/internal/runner"
	"ossian/internal/tensor"
	"ossian/internal/token"
)

func gptOSS(layers, experts int) *model.Spec {
	s := &model.Spec{Family: "gpt-oss", Name: "gpt-oss", Layers: layers, Hidden: 2880, Vocab: 201088, Heads: 64, KVHeads: 8, HeadDim: 64,
		MaxLen: 131072, Eps: 1e-5, RoPE: model.RoPE{Base: 150000}, Windows: make([]int, layers), QKVBias: true, OBias: true, Sinks: true,
		FFN: model.FFN{Inner: 2880, Experts: experts, TopK: 4, Renorm: true, Bias: true, Activation: model.SwiGLU}}
	for i := 0; i < layers; i += 2 {
		s.Windows[i] = 128
	}
	return s
}

func qwen3(hidden, inner, layers, heads, kvHeads, experts, topK int, tied bool) *model.Spec {
	return &model.Spec{Family: "qwen3", Name: "qwen3", Layers: layers, Hidden: hidden, Vocab: 151936, Heads: heads, KVHeads: kvHeads, HeadDim: 128,
		MaxLen: 40960, Eps: 1e-6, RoPE: model.RoPE{Base: 1e6}, Windows: make([]int, layers), QKNorm: true, Tied: tied,
		FFN: model.FFN{Inner: inner, Experts: experts, TopK: topK, Renorm: true}}
}

func smolLM2(hidden, inner, layers, heads, kvHeads int) *model.Spec {
	return &model.Spec{Family: "llama", Name: "smollm2", Layers: layers, Hidden: hidden, Vocab: 49152, Heads: heads, KVHeads: kvHeads, HeadDim: 64,
		MaxLen: 8192, Eps: 1e-5, RoPE: model.RoPE{Base: 1e5}, Windows: make([]int, layers), Tied: true, FFN: model.FFN{Inner: inner}}
}

// counted returns the model of s with matrices in BF16 and experts in MXFP4 where
// the published checkpoint has them so.
func counted(t testing.TB, s *model.Spec) *Model {
	t.Helper()
	params := map[string]tensor.Tensor{}
	for _, p := range model.Params(s) {
		dt := tensor.BF16
		if s.Family == "gpt-oss" && len(p.Shape) == 3 {
			dt = tensor.MXFP4HF
		}
		params[p.Name] = tensor.Tensor{Name: p.Name, DType: dt, Shape: p.Shape}
	}
	m, err := New(s, params)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// Exact numbers of models.md 6.1 and 6.2. Where that table rounds, exact is derived
// from its formulas and compared with the rounded figure.
func TestModelCounts(t *testing.T) {
	for _, c := range []struct {
		name          string
		spec          *model.Spec
		total, active int64
		bytes, decode int64 // 0 = not in the table
		gflop         float64
		kv, attention int64 // KV bytes per token in full layers; attention FLOP per layer and key
	}{
		{"gpt-oss-20b", gptOSS(24, 32), 20_914_757_184, 3_608_307_264, 13_761_264_768, 3_708_083_328, 7.21, 24_576, 16_384},
		{"gpt-oss-120b", gptOSS(36, 128), 116_829_156_672, 5_132_849_472, 65_248_815_744, 5_002_902_144, 10.26, 36_864, 16_384},
		{"Qwen3-0.6B", qwen3(1024, 3072, 28, 16, 8, 0, 0, true), 596_049_920, 596_049_920, 1_192_099_840, 1_192_099_840, 1.19, 114_688, 8_192},
		{"Qwen3-1.7B", qwen3(2048, 6144, 28, 16, 8, 0, 0, true), 1_720_574_976, 1_720_574_976, 0, 0, 3.44, 114_688, 8_192},
		{"Qwen3-4B", qwen3(2560, 9728, 36, 32, 8, 0, 0, true), 4_022_468_096, 4_022_468_096, 0, 0, 8.04, 147_456, 16_384},
		{"Qwen3-8B", qwen3(4096, 12288, 36, 32, 8, 0, 0, false), 8_190_735_360, 7_568_405_504, 0, 0, 15.14, 147_456, 16_384},
		{"Qwen3-32B", qwen3(5120, 25600, 64, 64, 8, 0, 0, false), 32_762_123_264, 31_984_210_944, 0, 0, 63.97, 262_144, 32_768},
		{"Qwen3-30B-A3B", qwen3(2048, 768, 48, 32, 4, 128, 8, false), 30_532_122_624, 3_041_867_776, 0, 0, 6.08, 98_304, 16_384},
		{"Qwen3-235B-A22B", qwen3(4096, 1536, 94, 64, 4, 128, 8, false), 235_093_634_560, 21_568_433_664, 0, 0, 43.14, 192_512, 32_768},
		{"SmolLM2-135M", smolLM2(576, 1536, 30, 9, 3), 134_515_008, 134_515_008, 0, 0, 0.27, 23_040, 2_304},
		{"SmolLM2-360M", smolLM2(960, 2560, 32, 15, 5), 361_821_120, 361_821_120, 0, 0, 0.72, 40_960, 3_840},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := counted(t, c.spec)
			total, bytes := m.Total()
			if total != c.total || m.Active() != c.active {
				t.Errorf("%d parameters, %d active; expected %d, %d", total, m.Active(), c.total, c.active)
			}
			if c.bytes > 0 && bytes != c.bytes {
				t.Errorf("%d bytes, expected %d", bytes, c.bytes)
			}
			read, flops := m.Decode(1, 1)
			kv := int64(c.spec.Layers) * m.layerKV() // of the token itself, in every layer
			if c.decode > 0 && read-kv != c.decode {
				t.Errorf("decode reads %d bytes, expected %d", read-kv, c.decode)
			}
			flops -= c.attention * int64(c.spec.Layers)
			if got := float64(flops) / 1e9; math.Abs(got-c.gflop) > 0.0055+c.gflop*1e-3 {
				t.Errorf("%.3f GFLOP per token, expected %.2f", got, c.gflop)
			}
			if got := m.KVBytes()[0]; got != c.kv {
				t.Errorf("%d KV bytes per token in full layers, expected %d", got, c.kv)
			}
			far, _ := m.Decode(1, 5000)
			near, _ := m.Decode(1, 4000)
			if far-near != 1000*c.kv {
				t.Errorf("1000 more tokens of context cost %d bytes, expected %d", far-near, 1000*c.kv)
			}
			m.KV = tensor.F8_E4M3
			dim := int64(c.spec.HeadDim)
			if got, want := m.KVBytes()[0], c.kv/2*(dim+1)/dim; got != want { // a byte of scale for each vector
				t.Errorf("%d KV bytes per token in full layers as E4M3, expected %d", got, want)
			}
		})
	}
}

func TestModelRoles(t *testing.T) {
	m := counted(t, gptOSS(24, 32))
	want := map[Role]int64{Experts: 10_165_616_640, Attention: 1_274_406_912, Router: 4_425_216, Norms: 282_240, Embedding: 1_158_266_880, Head: 1_158_266_880, Dense: 0}
	for r, bytes := range want {
		if got := m.Parts[r].Bytes; got != bytes {
			t.Errorf("%v: %d bytes, expected %d (models.md 6.1)", r, got, bytes)
		}
	}
	if len(m.Types) != 2 || m.Types[0].Type != tensor.MXFP4HF || m.Types[0].Params+m.Types[1].Params != 20_914_757_184 {
		t.Errorf("types %+v", m.Types)
	}
}

// The batch rows of models.md 6.1, KV excluded, to the digits given there.
func TestDecodeBatch(t *testing.T) {
	for _, c := range []struct {
		experts, layers int
		distinct, gb    [8]float64
	}{
		{32, 24, [8]float64{4, 7.5, 13.2, 21.0, 28.2, 31.6, 32, 32}, [8]float64{3.71, 4.82, 6.64, 9.11, 11.4, 12.5, 12.6, 12.6}},
		{128, 36, [8]float64{4, 7.9, 15.3, 28.7, 51.0, 81.7, 111, 126}, [8]float64{5.00, 6.85, 10.4, 16.8, 27.4, 42.0, 56.1, 63.0}},
	} {
		m := counted(t, gptOSS(c.layers, c.experts))
		for i := range 8 {
			batch := 1 << i
			if got := m.DistinctExperts(batch); math.Abs(got/c.distinct[i]-1) > 0.005 {
				t.Errorf("%d experts, batch %d: %.2f distinct, expected %v", c.experts, batch, got, c.distinct[i])
			}
			bytes, _ := m.Decode(batch, 1)
			bytes -= int64(batch*c.layers) * m.layerKV()
			if got := float64(bytes) / 1e9; math.Abs(got/c.gb[i]-1) > 0.006 {
				t.Errorf("%d experts, batch %d: %.3f GB, expected %v", c.experts, batch, got, c.gb[i])
			}
		}
	}
}

// visible and attended against counting.
func TestVisible(t *testing.T) {
	for _, window := range []int{0, 1, 4, 128} {
		for start := range 20 {
			for n := 1; n < 20; n++ {
				var pairs int64
				seen := map[int]bool{}
				for p := start; p < start+n; p++ {
					for k := 0; k <= p; k++ {
						if window == 0 || p-k < window {
							pairs++
							seen[k] = true
						}
					}
				}
				if got := attended(start, n, window); got != pairs {
					t.Errorf("attended(%d, %d, %d) = %d, counted %d", start, n, window, got, pairs)
				}
				if got := visible(start, n, window); got != int64(len(seen)) {
					t.Errorf("visible(%d, %d, %d) = %d, counted %d", start, n, window, got, len(seen))
				}
			}
		}
	}
}

func TestStepTime(t *testing.T) {
	m := counted(t, gptOSS(24, 32))
	rows := decodeRows(1, 1)
	bytes, flops := m.Decode(1, 1)
	for _, c := range []struct {
		name string
		m    Machine
		want float64
	}{
		{"memory bound", Machine{Bandwidth: 20e9}, float64(bytes) / 20e9},
		{"compute bound", Machine{Peak: 1e11}, float64(flops) / 1e11},
		{"overhead only", Machine{Overhead: time.Millisecond}, 1e-3},
	} {
		if got := m.StepTime(c.m, rows).Seconds(); math.Abs(got-c.want) > 1e-6 {
			t.Errorf("%s: %v s, expected %v", c.name, got, c.want)
		}
	}
	both := m.StepTime(Machine{Bandwidth: 20e9, Peak: 1e11}, rows)
	if memory, compute := m.StepTime(Machine{Bandwidth: 20e9}, rows), m.StepTime(Machine{Peak: 1e11}, rows); both < max(memory, compute) || both > memory+compute {
		t.Errorf("both bounds give %v, each alone %v and %v", both, memory, compute)
	}
	if got := m.DecodeRate(Machine{Bandwidth: 20e9}, 1, 1); math.Abs(got-20e9/float64(bytes)) > 0.01 {
		t.Errorf("%v tokens/s", got)
	}
	prefill := []runner.Row{{Len: 512}}
	if got, want := m.Step(prefill), 5; len(got) != want {
		t.Errorf("a step that samples nothing has %d phases, expected %d: no output projection", len(got), want)
	}
	if m.DecodeRate(Machine{}, 1, 1) != 0 {
		t.Error("a machine without bounds has a rate")
	}
}

func TestNewErrors(t *testing.T) {
	s := qwen3(1024, 3072, 2, 16, 8, 0, 0, true)
	if _, err := New(s, nil); err == nil || !strings.Contains(err.Error(), `"embed" is missing`) {
		t.Errorf("got %v", err)
	}
	bad := *s
	bad.Heads = 0
	if _, err := New(&bad, nil); err == nil {
		t.Error("a model without heads was counted")
	}
	all := map[string]tensor.Tensor{}
	for _, p := range model.Params(smolLM2(576, 1536, 1, 9, 3)) {
		all[p.Name] = tensor.Tensor{Name: p.Name, DType: tensor.Q4_K, Shape: p.Shape}
	}
	if _, err := New(smolLM2(576, 1536, 1, 9, 3), all); err == nil || !strings.Contains(err.Error(), "not whole Q4_K blocks of 256") {
		t.Errorf("got %v", err)
	}
}

func TestBlocks(t *testing.T) {
	s := gptOSS(24, 32)
	for _, c := range []struct {
		name string
		lim  model.Limits
		want []int // full, window 128
	}{
		{"one sequence, token by token", model.Limits{MaxSeqs: 1, MaxTokens: 1, MaxLen: 131072, BlockSize: 16}, []int{8192, 9}},
		{"one sequence, chunks of 512", model.Limits{MaxSeqs: 1, MaxTokens: 512, MaxLen: 131072, BlockSize: 16}, []int{8192, 41}},
		{"short sequences need no more than themselves", model.Limits{MaxSeqs: 4, MaxTokens: 512, MaxLen: 64, BlockSize: 16}, []int{16, 16}},
		{"many share a step", model.Limits{MaxSeqs: 32, MaxTokens: 512, MaxLen: 4096, BlockSize: 16}, []int{8192, 352}},
		{"a step in flight keeps its blocks", model.Limits{MaxSeqs: 1, MaxTokens: 512, MaxLen: 131072, BlockSize: 16, Depth: 2}, []int{8192, 73}},
	} {
		if got := Blocks(s, c.lim); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, expected %v", c.name, got, c.want)
		}
	}
}

func TestBodies(t *testing.T) {
	const mib = 1 << 20
	for _, c := range []struct {
		name                             string
		usual, largest, available, bytes int64
	}{
		{"unknown memory", 256 * mib, 32 * mib, 0, 256 * mib},
		{"plenty", 256 * mib, 32 * mib, 1 << 40, 256 * mib},
		{"a thirty-second part of the memory, decoded", 256 * mib, 32 * mib, 16 << 30, 64 * mib},
		{"one body in any case", 256 * mib, 32 * mib, mib, 32*mib + 1},
		{"also where that is unusual", 256 * mib, 1024 * mib, 0, 1024*mib + 1},
	} {
		got := Bodies(c.usual, c.largest, c.available)
		if got != c.bytes {
			t.Errorf("%s: %d bytes, expected %d", c.name, got, c.bytes)
		}
		if c.available >= 16<<30 && RequestBytes(got) > c.available/32 {
			t.Errorf("%s: %d bytes of bodies take %d of %d", c.name, got, RequestBytes(got), c.available)
		}
	}
}

func TestReplies(t *testing.T) {
	const mib = 1 << 20
	for _, c := range []struct {
		name                    string
		usual, available, bytes int64
	}{
		{"unknown memory", 256 * mib, 0, 256 * mib},
		{"plenty", 256 * mib, 1 << 40, 256 * mib},
		{"a thirty-second part of the memory", 256 * mib, 16 << 30, 128 * mib},
		{"little memory", 256 * mib, mib, 8 * mib},
		{"fewer than that are usual", mib, mib, mib},
	} {
		got := Replies(c.usual, c.available)
		if got != c.bytes {
			t.Errorf("%s: %d bytes, expected %d", c.name, got, c.bytes)
		}
		if c.available >= 16<<30 && ReplyBytes(got) > c.available/32 {
			t.Errorf("%s: %d bytes of replies take %d of %d", c.name, got, ReplyBytes(got), c.available)
		}
	}
}

func TestConnections(t *testing.T) {
	for _, c := range []struct {
		name                   string
		usual, available, want int64
	}{
		{"unknown memory", 16384, 0, 16384},
		{"plenty", 16384, 64 << 30, 16384},
		{"a thirty-second part of the memory", 16384, 16 << 30, 7281},
		{"little memory", 16384, 1 << 20, 512},
		{"fewer than that are usual", 9, 1 << 20, 9},
	} {
		got := Connections(c.usual, ConnectionBytes(32<<10), c.available)
		if got != c.want {
			t.Errorf("%s: %d, expected %d", c.name, got, c.want)
		}
		if c.available >= 16<<30 && got*ConnectionBytes(32<<10) > c.available/32 {
			t.Errorf("%s: %d connections take more than a thirty-second part of %d", c.name, got, c.available)
		}
	}
}

func TestGrammars(t *testing.T) {
	for _, c := range []struct {
		name                   string
		usual, available, want int64
	}{
		{"unknown memory", 256 << 20, 0, 256 << 20},
		{"plenty", 256 << 20, 64 << 30, 256 << 20},
		{"a thirty-second part of the memory", 256 << 20, 4 << 30, 128 << 20},
		{"little memory", 256 << 20, 1 << 20, 8 << 20},
		{"fewer than that are usual", 9, 1 << 20, 9},
	} {
		if got := Grammars(c.usual, c.available); got != c.want {
			t.Errorf("%s: %d, expected %d", c.name, got, c.want)
		}
	}
}

// What grammars make of the largest vocabulary fits into what is planned for it, with what
// is not collected yet of making it.
func TestGrammarBytes(t *testing.T) {
	tok, err := token.Harmony()
	if err != nil {
		t.Fatal(err)
	}
	held := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	planned := GrammarBytes(&model.Spec{Vocab: tok.Vocab()}, 0)
	before := held()
	v := grammar.NewVocabulary(tok)
	if took := held() - before; took > planned || took < planned/3 {
		t.Errorf("%d bytes, %d planned", took, planned)
	} else {
		t.Logf("%d bytes for %d ids, %d planned", took, tok.Vocab(), planned)
	}
	runtime.KeepAlive(v)
	runtime.KeepAlive(tok)
}

// FuzzBlocks plays sequences of random chunks against the pools: the blocks that
// rows may read or write must always be there.
func FuzzBlocks(f *testing.F) {
	f.Add(uint8(1), uint8(16), uint8(40), uint8(7), []byte{200, 1, 1, 3})
	f.Add(uint8(4), uint8(1), uint8(3), uint8(1), []byte{0, 255, 9, 80, 17})
	f.Fuzz(func(t *testing.T, seqs, block, tokens, window uint8, moves []byte) {
		lim := model.Limits{MaxSeqs: int(seqs%8) + 1, BlockSize: int(block%32) + 1, MaxLen: 300}
		lim.MaxTokens = int(tokens) + lim.MaxSeqs
		s := &model.Spec{Layers: 1, Windows: []int{int(window) + 1}}
		pool := Blocks(s, lim)[0]
		at := make([]int, lim.MaxSeqs)
		for len(moves) >= lim.MaxSeqs {
			left, held := lim.MaxTokens, 0
			for i := range at {
				n := min(int(moves[i])%lim.MaxTokens+1, left-(lim.MaxSeqs-1-i), lim.MaxLen-at[i])
				if n < 1 {
					continue
				}
				left -= n
				held += (at[i]+n+lim.BlockSize-1)/lim.BlockSize - runner.FirstBlock(at[i], int(window)+1, lim.BlockSize)
				at[i] += n
			}
			if held > pool {
				t.Fatalf("%d blocks in use, pool has %d: limits %+v, window %d", held, pool, lim, int(window)+1)
			}
			moves = moves[lim.MaxSeqs:]
		}
	})
}

func TestFit(t *testing.T) {
	s := gptOSS(24, 32)
	m := counted(t, s)
	const gib = 1 << 30
	for _, c := range []struct {
		name      string
		ask       model.Limits
		available int64
		want      model.Limits // zero fields are not compared
		err       string
	}{
		{name: "unknown memory fits", available: 0, want: model.Limits{MaxSeqs: 1, MaxTokens: 512, MaxLen: 131072, BlockSize: 16}},
		{name: "everything fits", available: 24 * gib, want: model.Limits{MaxLen: 131072}},
		{name: "context is cut to fit", available: 14 * gib, want: model.Limits{MaxSeqs: 1, MaxLen: 40656}},
		{name: "asked context fits", ask: model.Limits{MaxLen: 4096}, available: 14 * gib, want: model.Limits{MaxLen: 4096}},
		{name: "asked context does not fit", ask: model.Limits{MaxLen: 100_000}, available: 14 * gib, err: "what fits: --max-model-len 40656"},
		{name: "too many sequences", ask: model.Limits{MaxSeqs: 64, MaxLen: 4096}, available: 14 * gib, err: "what fits: --max-model-len 432, or --max-num-seqs 9"},
		{name: "weights alone do not fit", available: 12 * gib, err: "--max-model-len 131072 with --max-num-seqs 1 needs 17.3 GB (weights 13.8 GB"},
		{name: "more context than promised", ask: model.Limits{MaxLen: 131073}, err: "--max-model-len is 131073, outside [1, 131072]"},
		{name: "a step too short", ask: model.Limits{MaxSeqs: 9, MaxTokens: 8}, err: "--max-num-batched-tokens 8 is less than --max-num-seqs 9"},
		{name: "negative step", ask: model.Limits{MaxTokens: -1}, err: "--max-num-batched-tokens is -1"},
		{name: "negative sequences", ask: model.Limits{MaxSeqs: -1}, err: "--max-num-seqs is -1"},
		{name: "a step has no more tokens than its sequences", ask: model.Limits{MaxSeqs: 2, MaxLen: 100}, want: model.Limits{MaxTokens: 200}},
		{name: "sequences raise the step", ask: model.Limits{MaxSeqs: 600, MaxLen: 16}, want: model.Limits{MaxSeqs: 600, MaxTokens: 600}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, err := Fit(s, c.ask, c.available, m.Estimate)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("got %v, expected %q", err, c.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			got := p.Limits
			for _, f := range [][2]int{{got.MaxSeqs, c.want.MaxSeqs}, {got.MaxTokens, c.want.MaxTokens}, {got.MaxLen, c.want.MaxLen}, {got.BlockSize, c.want.BlockSize}} {
				if f[1] != 0 && f[0] != f[1] {
					t.Errorf("limits %+v, expected %+v", got, c.want)
				}
			}
			if c.available > 0 && p.Footprint.Total() > c.available {
				t.Errorf("planned %d bytes, %d available", p.Footprint.Total(), c.available)
			}
			if c.available > 0 && p.Limits.MaxLen < s.MaxLen && c.ask.MaxLen == 0 { // the next block would not fit
				lim := p.Limits
				lim.MaxLen += lim.BlockSize
				lim.Blocks = Blocks(s, lim)
				if f, _ := m.Estimate(lim); f.Total() <= c.available {
					t.Errorf("%d tokens would fit too", lim.MaxLen)
				}
			}
		})
	}
	broken := errors.New("device says no")
	if _, err := Fit(s, model.Limits{}, 1, func(model.Limits) (Footprint, error) { return Footprint{}, broken }); !errors.Is(err, broken) {
		t.Errorf("got %v, expected the device's error", err)
	}
}

// A default that is said to fit fits: as many sequences as there is memory for.
func TestServeMost(t *testing.T) {
	s := gptOSS(24, 32)
	m := counted(t, s)
	for _, length := range []int{4096, 0} {
		for _, seqs := range []int{1, 2, 15, 16, 17, 100, 255, DefaultServed} {
			ask := model.Limits{MaxSeqs: seqs, MaxLen: length}
			// The least memory, in steps of 100 kB, with which so many run with the whole context.
			least := int64(sort.Search(1<<20, func(i int) bool {
				p, err := Serve(s, ask, int64(i)*100_000, m.Estimate)
				return i > 0 && err == nil && (length > 0 || p.Limits.MaxLen == s.MaxLen)
			})) * 100_000
			p, err := Serve(s, model.Limits{MaxLen: length}, least, m.Estimate)
			if err != nil {
				t.Errorf("length %d, room for %d: %v", length, seqs, err)
				continue
			}
			if p.Footprint.Total() > least || p.Limits.MaxSeqs > DefaultServed {
				t.Errorf("length %d: %d sequences take %d of %d bytes", length, p.Limits.MaxSeqs, p.Footprint.Total(), least)
			}
			if want := seqs; p.Limits.MaxSeqs != want && (length > 0 || want >= leastServed) {
				t.Errorf("length %d: %d sequences, %d fit", length, p.Limits.MaxSeqs, want)
			}
			if length == 0 && seqs < leastServed && (p.Limits.MaxSeqs != leastServed || p.Limits.MaxLen >= s.MaxLen) {
				t.Errorf("room for %d: %d sequences of %d tokens, a shorter context for %d expected", seqs, p.Limits.MaxSeqs, p.Limits.MaxLen, leastServed)
			}
		}
	}
	if _, err := Serve(s, model.Limits{MaxLen: 4096}, 1<<20, m.Estimate); err == nil {
		t.Error("a megabyte suffices")
	}
}

// A server's pools take the memory that is left, and one whole sequence always fits.
func TestServe(t *testing.T) {
	s := gptOSS(24, 32)
	m := counted(t, s)
	const gib = 1 << 30
	for _, c := range []struct {
		name      string
		ask       model.Limits
		available int64
		most      int64 // bytes of keys and values; 0 = any
		seqs      int
		err       string
	}{
		{name: "memory is short", available: 20 * gib, seqs: DefaultServed},
		{name: "memory for one sequence", ask: model.Limits{MaxSeqs: 16, MaxLen: 4096}, available: 14_000 << 20, seqs: 16},
		{name: "memory for all", ask: model.Limits{MaxSeqs: 4, MaxLen: 4096}, available: 64 * gib, seqs: 4},
		{name: "unknown memory", ask: model.Limits{MaxSeqs: 4, MaxLen: 4096}, seqs: 4},
		{name: "short steps", ask: model.Limits{MaxTokens: 100, MaxLen: 4096}, available: 64 * gib, seqs: 100},
		{name: "given pools", ask: model.Limits{MaxSeqs: 2, MaxLen: 64, BlockSize: 16, Blocks: []int{30, 20}}, available: 20 * gib, seqs: 2},
		{name: "bounded keys and values", ask: model.Limits{MaxLen: 4096, MaxSeqs: 64}, available: 64 * gib, most: gib / 2, seqs: 64},
		{name: "a bound shortens the context", ask: model.Limits{MaxSeqs: 4}, available: 64 * gib, most: gib / 4, seqs: 4},
		{name: "a bound that memory does not reach", ask: model.Limits{MaxSeqs: 16, MaxLen: 4096}, available: 14_000 << 20, most: 64 * gib, seqs: 16},
		{name: "a bound that is too small", ask: model.Limits{MaxLen: 4096, MaxSeqs: 2}, available: 64 * gib, most: 1 << 20,
			err: "needs 128.2 MB of keys and values, --kv-cache-memory-bytes lets them have 1.0 MB; what fits: --max-model-len"},
		{name: "no room for one", ask: model.Limits{MaxLen: 131072}, available: 14 * gib, err: "what fits: --max-model-len"},
		{name: "given pools are too small", ask: model.Limits{MaxLen: 64, BlockSize: 16, Blocks: []int{3, 20}}, available: 20 * gib,
			err: "3 KV blocks of 16 tokens in group 0, one sequence of --max-model-len 64 needs 4: raise --num-gpu-blocks-override to 4 or lower --max-model-len to 48"},
		{name: "given pools are too small for what the checkpoint promises", ask: model.Limits{Blocks: []int{8191, 8191}}, available: 40 * gib,
			err: "one sequence of --max-model-len 131072 needs 8192"},
		{name: "given pools are too small for the window", ask: model.Limits{MaxLen: 4096, Blocks: []int{256, 40}}, available: 20 * gib, err: "40 KV blocks of 16 tokens in group 1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, err := Serve(s, c.ask, c.available, func(lim model.Limits) (Footprint, error) {
				need, err := m.Estimate(lim)
				need.MostKV = c.most
				return need, err
			})
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("got %v, expected %q", err, c.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			lim := p.Limits
			alone := lim
			alone.MaxSeqs = 1
			one, full := Blocks(s, alone), Blocks(s, lim)
			if c.ask.Blocks != nil {
				one, full = c.ask.Blocks, c.ask.Blocks
			}
			all := true
			for g, n := range lim.Blocks {
				if n < one[g] || (g == 0 && n > max(full[g], one[g])) {
					t.Errorf("group %d has %d blocks, expected %d to %d", g, n, one[g], full[g])
				}
				all = all && n >= full[g]
			}
			// Conversations of 1024 tokens, of 64 blocks where there is no window: those
			// that run touch 9 blocks of a window of 128 and begin another.
			held := lim.Blocks[0] / 64
			run := min(held, lim.MaxSeqs)
			if want := 10*run + 9*(held-run); c.ask.Blocks == nil && lim.Blocks[1] < want {
				t.Errorf("%d blocks for windows, expected %d for the %d conversations that %d other blocks hold", lim.Blocks[1], want, held, lim.Blocks[0])
			}
			if lim.MaxSeqs != c.seqs {
				t.Errorf("%d sequences, expected %d", lim.MaxSeqs, c.seqs)
			}
			got := p.Footprint.Total()
			near := c.most > 0 && p.Footprint.KV <= c.most && p.Footprint.KV > c.most-c.most/50 // to the bound
			if c.available > 0 && (got > c.available || (!all && !near && got < c.available-c.available/50)) {
				t.Errorf("planned %d bytes of %d", got, c.available)
			}
			if c.most > 0 && p.Footprint.KV > c.most {
				t.Errorf("%d bytes of keys and values, at most %d were asked for", p.Footprint.KV, c.most)
			}
			if c.available == 0 && !all {
				t.Errorf("pools %v, expected %v", lim.Blocks, full)
			}
		})
	}
}

func TestAvailable(t *testing.T) {
	file := func(s string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(s)} }
	meminfo := file("MemTotal:       24000 kB\nMemAvailable:   20000 kB\n")
	for _, c := range []struct {
		name string
		fsys fstest.MapFS
		want int64
	}{
		{"nothing told", fstest.MapFS{}, 0},
		{"machine", fstest.MapFS{"proc/meminfo": meminfo}, 20000 << 10},
		{"unlimited group", fstest.MapFS{"proc/meminfo": meminfo, "proc/self/cgroup": file("0::/a/b\n"), "sys/fs/cgroup/a/b/memory.max": file("max\n")}, 20000 << 10},
		{"group", fstest.MapFS{"proc/meminfo": meminfo, "proc/self/cgroup": file("0::/a/b\n"), "sys/fs/cgroup/a/b/memory.max": file("10000000\n"),
			"sys/fs/cgroup/a/b/memory.current": file("4000000\n"), "sys/fs/cgroup/a/b/memory.stat": file("anon 1\ninactive_file 1000000\nactive_file 500000\n")}, 7_500_000},
		{"parent group is tighter", fstest.MapFS{"proc/meminfo": meminfo, "proc/self/cgroup": file("0::/a/b\n"), "sys/fs/cgroup/a/b/memory.max": file("10000000\n"),
			"sys/fs/cgroup/a/memory.max": file("3000000\n")}, 3_000_000},
		{"namespace root", fstest.MapFS{"proc/meminfo": meminfo, "proc/self/cgroup": file("0::/\n"), "sys/fs/cgroup/memory.max": file("5000000\n")}, 5_000_000},
		{"version 1", fstest.MapFS{"proc/meminfo": meminfo, "proc/self/cgroup": file("4:memory:/x\n0::/\n"), "sys/fs/cgroup/memory/x/memory.limit_in_bytes": file("6000000\n"),
			"sys/fs/cgroup/memory/x/memory.usage_in_bytes": file("1000000\n")}, 5_000_000},
		{"group used up", fstest.MapFS{"proc/self/cgroup": file("0::/\n"), "sys/fs/cgroup/memory.max": file("5\n"), "sys/fs/cgroup/memory.current": file("9\n")}, 1},
		{"nonsense", fstest.MapFS{"proc/meminfo": file("MemAvailable: -3 kB\nMemAvailable:\n"), "proc/self/cgroup": file("0::/../../..\n")}, 0},
	} {
		if got := available(c.fsys); got != c.want {
			t.Errorf("%s: %d, expected %d", c.name, got, c.want)
		}
	}
}

// Whatever the system's files say, the answer is a number of bytes or 0.
func FuzzAvailable(f *testing.F) {
	f.Add("MemAvailable: 1 kB", "0::/a", "max", "anon 1\ninactive_file 2")
	f.Add("MemAvailable: 99999999999999999999 kB", "4:memory:/../..\n0::/", "-1", "inactive_file -5")
	f.Fuzz(func(t *testing.T, meminfo, cgroup, limit, stat string) {
		fsys := fstest.MapFS{"proc/meminfo": {Data: []byte(meminfo)}, "proc/self/cgroup": {Data: []byte(cgroup)}}
		for _, dir := range []string{"sys/fs/cgroup", "sys/fs/cgroup/a", "sys/fs/cgroup/memory"} {
			fsys[dir+"/memory.max"], fsys[dir+"/memory.limit_in_bytes"] = &fstest.MapFile{Data: []byte(limit)}, &fstest.MapFile{Data: []byte(limit)}
			fsys[dir+"/memory.current"], fsys[dir+"/memory.stat"] = &fstest.MapFile{Data: []byte(limit)}, &fstest.MapFile{Data: []byte(stat)}
		}
		if n := available(fsys); n < 0 {
			t.Errorf("%d bytes", n)
		}
	})
}

func BenchmarkFit(b *testing.B) {
	s := gptOSS(36, 128)
	m := counted(b, s)
	for b.Loop() {
		if _, err := Fit(s, model.Limits{}, 62<<30, m.Estimate); err != nil {
			b.Fatal(err)
		}
	}
}

// Sizes have the unit in which there is something to see.
func TestUnits(t *testing.T) {
	for n, want := range map[int64]string{0: "0 bytes", 999: "999 bytes", 1000: "1.0 kB", 999_949: "999.9 kB", 999_951: "1.0 MB", 34_700_000: "34.7 MB", 999_960_000: "1.0 GB", 17_300_000_000: "17.3 GB", 2_000_000_000_000: "2000.0 GB"} {
		if got := inUnits(n); got != want {
			t.Errorf("%d bytes: %q, want %q", n, got, want)
		}
	}
	few := &FitError{Model: "small", Need: Footprint{Card: "Card", Weights: 7_910_000, KV: 2_000, Activations: 8_630_000}, Available: 17_179}
	if want := "needs 16.5 MB (weights 7.9 MB, KV cache 2.0 kB, activations 8.6 MB), 17.2 kB are available"; !strings.Contains(few.Error(), want) {
		t.Errorf("%v, want %q in it", few, want)
	}
}
