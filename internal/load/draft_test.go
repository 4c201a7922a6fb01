package load

import (
	"math"
	"slices"
	"strings"
	"testing"

	"ossian/internal/ckpt/eagle/eagletest"
	"ossian/internal/cuda"
	"ossian/internal/model"
	"ossian/internal/plan"
	"ossian/internal/runner"
	"ossian/internal/sample"
	"ossian/internal/shadow"
	"ossian/internal/soak"
	"ossian/internal/synth"
	"ossian/internal/tensor"
)

// tinyPreset writes a tiny model and opens it.
func tinyPreset(t *testing.T, preset string, layers int) string {
	t.Helper()
	m, err := synth.Preset(preset)
	if err != nil {
		t.Fatal(err)
	}
	path := t.TempDir() + "/" + preset
	if err := synth.Write(t.Context(), path, synth.Options{Model: m.Shorten(layers)}, nil); err != nil {
		t.Fatal(err)
	}
	return path
}

// begun begins to load a model beside which another guesses, none where its name is "".
func begun(t *testing.T, name string, draft *Draft, device string) (*Loading, error) {
	t.Helper()
	checkpoint, err := OpenModel(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { checkpoint.Close() })
	options := &Options{Threads: 1, KV: "auto", Packed: "off", Device: device, Draft: draft}
	return options.Begin(checkpoint, func(string) {})
}

// The memory plan has room for what a model takes that guesses: its weights, its keys and values
// beside each of the target's, some blocks for each slot, and its buffers.
func TestDraftMemory(t *testing.T) {
	target, small := tinyPreset(t, "gpt-oss-tiny", 0), tinyPreset(t, "gpt-oss-tiny", 2)
	lim := model.Limits{MaxSeqs: 3, MaxTokens: 64, MaxLen: 200, BlockSize: 16, Blocks: []int{40, 20}, Depth: 1, Lookahead: 5}
	footprint := func(draft *Draft) plan.Footprint {
		loading, err := begun(t, target, draft, "cpu")
		if err != nil {
			t.Fatal(err)
		}
		need, err := loading.Cost()(lim)
		if err != nil {
			t.Fatal(err)
		}
		return need
	}
	alone, with := footprint(nil), footprint(&Draft{Name: small, Tokens: 20})
	checkpoint, err := OpenModel(small)
	if err != nil {
		t.Fatal(err)
	}
	defer checkpoint.Close()
	spec := checkpoint.Spec
	// BF16 keys and values; two blocks of scratch hold 20 tokens; a layer of either kind.
	kv := int64(spec.KVDim()) * 2 * 2 * int64(lim.BlockSize) * int64(40+2*3+20+2*3)
	if got := with.KV - alone.KV; got != kv {
		t.Errorf("keys and values of what guesses: %d bytes, want %d", got, kv)
	}
	own := with.Weights - alone.Weights + with.Mapped - alone.Mapped + kv + with.Activations - alone.Activations
	if with.Draft != own || alone.Draft != 0 || with.Total()-alone.Total() != own+plan.RuntimeBytes(spec) {
		t.Errorf("planned %d bytes for what guesses, of a total of %d more; parts say %d", with.Draft, with.Total()-alone.Total(), own)
	}
	weights := int64(0)
	for name, t := range checkpoint.Params {
		if name != "embed" {
			weights += t.Bytes()
		}
	}
	if got := with.Weights - alone.Weights + with.Mapped - alone.Mapped; got < weights || got > 2*weights {
		t.Errorf("%d bytes of weights planned, the files have %d", got, weights)
	}
}

// What guesses for a model of its own family does, and where a sequence is longer than it reads,
// it stops.
func TestDraftGuesses(t *testing.T) {
	for _, device := range []string{"cpu", "emu"} {
		t.Run(device, func(t *testing.T) { draftGuesses(t, device) })
	}
}

func draftGuesses(t *testing.T, device string) {
	target, small := tinyPreset(t, "gpt-oss-tiny", 0), tinyPreset(t, "gpt-oss-tiny", 2)
	for _, tt := range []struct {
		name    string
		draft   Draft
		guesses int
	}{
		{"itself", Draft{Name: target, Tokens: 4}, 4},
		{"a smaller one", Draft{Name: small, Tokens: 4}, 4},
		{"with a shorter context", Draft{Name: small, Tokens: 4, MaxLen: 8}, 3},
	} {
		loading, err := begun(t, target, &tt.draft, device)
		if err != nil {
			t.Fatal(err)
		}
		lim := model.Limits{MaxSeqs: 1, MaxTokens: 16, MaxLen: 64, BlockSize: 16, Blocks: []int{4, 4}, Lookahead: 4}
		if err := loading.Prepare(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		both, _, err := loading.Open(t.Context(), lim, nil)
		if err != nil {
			t.Fatal(err)
		}
		prompt := []int32{9, 8, 7, 6}
		row := runner.Row{Len: 4, Tables: Tables(both.Info()), Sample: true, Params: &sample.Params{}, History: prompt, Ahead: 4}
		if err := both.Launch(&runner.Batch{Tokens: prompt, Rows: []runner.Row{row}}); err != nil {
			t.Fatal(err)
		}
		result, err := both.Collect()
		if err != nil || result.GuessFault != nil || len(result.Guesses[0]) != tt.guesses || both.Info().Ahead != 4 {
			t.Errorf("%s: guesses %v, %+v, %v", tt.name, result.Guesses, result.GuessFault, err)
		}
		// They are checked with the next token. Those of the model itself hold.
		next := append(slices.Clone(result.Tokens[0]), result.Guesses[0]...)
		row.Start, row.Len, row.Guessed, row.OutputIndex, row.History, row.Ahead = 4, len(next), tt.guesses, 1, append(prompt, next[0]), 0
		if err := both.Launch(&runner.Batch{Tokens: next, Rows: []runner.Row{row}}); err != nil {
			t.Fatal(err)
		}
		result, err = both.Collect()
		if err != nil || len(result.Tokens[0]) < 1 || (tt.name == "itself" && (len(result.Tokens[0]) != 5 || !slices.Equal(result.Tokens[0][:4], next[1:]))) {
			t.Errorf("%s: of %v the step gives %v, %v", tt.name, next, result.Tokens, err)
		}
		if err := both.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestDraftRefused(t *testing.T) {
	target, other := tinyPreset(t, "qwen3-tiny", 0), tinyPreset(t, "llama3-tiny", 0)
	m, err := synth.Preset("qwen3-tiny")
	if err != nil {
		t.Fatal(err)
	}
	lacking := t.TempDir() + "/q4.gguf"
	if err := synth.Write(t.Context(), lacking, synth.Options{Model: m, Format: synth.GGUF, Type: tensor.Q4_0}, nil); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ name, draft, device, want string }{
		{"not there", t.TempDir() + "/none", "cpu", "--speculative-config: "},
		{"another vocabulary", other, "cpu", "with the same tokenizer"},
		{"a device that is played", target, "sim:h100", "has no model to guess with"},
		{"a type that a card has no kernels for", lacking, "emu", "--device emu: cuda: tensor"},
	} {
		loading, err := begun(t, target, &Draft{Name: tt.draft, Tokens: 3}, tt.device)
		if err == nil {
			lim := model.Limits{MaxSeqs: 1, MaxTokens: 16, MaxLen: 64, BlockSize: 16, Blocks: []int{4}, Lookahead: 3}
			_, _, err = loading.Open(t.Context(), lim, nil)
		}
		if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), "--speculative-config") {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
}

// A model that guesses takes the blocks of the target's layers with the same window, or of those that
// see all.
func TestBesideGroups(t *testing.T) {
	spec := func(windows ...int) *model.Spec {
		return &model.Spec{Name: "m", Layers: len(windows), Windows: windows}
	}
	for _, tt := range []struct {
		target, small *model.Spec
		want          []int
	}{
		{spec(0, 128), spec(0), []int{0}},
		{spec(0, 128), spec(128, 0), []int{0, 1}},
		{spec(0, 128), spec(64, 64), []int{0}},
		{spec(0), spec(0, 128), []int{0, 0}},
		{spec(128), spec(128), []int{0}},
		{spec(128), spec(0), nil},
	} {
		got, err := besideGroups(tt.target, tt.small)
		if len(got) != len(tt.want) || (err == nil) != (tt.want != nil) {
			t.Errorf("windows %v beside %v: %v, %v, want %v", tt.small.Windows, tt.target.Windows, got, err, tt.want)
		}
	}
	if shadow.ScratchBlocks(31, 16) != 2 || shadow.ScratchBlocks(16, 16) != 1 {
		t.Error("blocks of scratch")
	}
}

// golden writes the model and the head that plain torch has computed, too.
func golden(t *testing.T, number int) (target, head string, c *eagletest.Case) {
	t.Helper()
	want := eagletest.Want(t)
	m, err := synth.Preset(want.Preset)
	if err != nil {
		t.Fatal(err)
	}
	target, head, c = t.TempDir()+"/"+want.Preset, t.TempDir(), &eagletest.Cases(t)[number]
	if err := synth.Write(t.Context(), target, synth.Options{Model: m, Seed: want.Seed}, nil); err != nil {
		t.Fatal(err)
	}
	eagletest.Write(t, head, c.Config, c.Tensors(m.Hidden))
	return target, head, c
}

// A head guesses what it does in plain torch, whatever the chunks of the prompt, beside another
// sequence, and behind a prefix that another has computed: on processors exactly, on a card in bf16.
func TestHeadGuesses(t *testing.T) {
	all := len(eagletest.Want(t).Cases)
	headGuesses(t, all, Options{Threads: 2, KV: "f32", Packed: "off", Weights: "bf16", Exact: true, Device: "cpu"})
	headGuesses(t, soak.Cases(t, 2, all), Options{Device: "emu"})
}

// headGuesses is TestHeadGuesses with so many heads.
func headGuesses(t *testing.T, heads int, options Options) {
	want := eagletest.Want(t)
	for number := range heads {
		target, files, c := golden(t, number)
		checkpoint, err := OpenModel(target)
		if err != nil {
			t.Fatal(err)
		}
		defer checkpoint.Close()
		options.Draft = &Draft{Either: true, Name: files, Offset: c.Offset, Tokens: 4}
		loading, err := options.Begin(checkpoint, func(string) {})
		if err != nil {
			t.Fatal(err)
		}
		if !loading.IsHead() {
			t.Errorf("%s is not known as a head", c.Name)
		}
		lim := model.Limits{MaxSeqs: 2, MaxTokens: 64, MaxLen: 80, BlockSize: 16, Blocks: []int{10}, Lookahead: 4}
		both, _, err := loading.Open(t.Context(), lim, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer both.Close()
		rows := func(rows ...runner.Row) [][]int32 {
			batch := &runner.Batch{}
			for i := range rows {
				row := &rows[i]
				row.Params, row.History, row.Sample, row.Ahead = &sample.Params{}, want.IDs, row.Start+row.Len == len(want.IDs), 4
				batch.Tokens = append(batch.Tokens, want.IDs[row.Start:row.Start+row.Len]...)
			}
			batch.Rows = rows
			if err := both.Launch(batch); err != nil {
				t.Fatal(err)
			}
			result, err := both.Collect()
			if err != nil || result.GuessFault != nil {
				t.Fatalf("%v, %+v", err, result.GuessFault)
			}
			return result.Guesses
		}
		first, second := [][]runner.BlockID{{3, 1, 4, 2}}, [][]runner.BlockID{{3, 1, 5, 6}}
		rows(runner.Row{Tables: first, Len: 7})
		rows(runner.Row{Tables: first, Start: 7, Len: 26})
		got := rows(runner.Row{Slot: 1, Tables: second, Start: 32, Len: 20}, runner.Row{Tables: first, Start: 33, Len: 27})
		if want := want.Cases[number].Guesses; !slices.Equal(got[1], want) {
			t.Errorf("%s guesses %v, want %v", c.Name, got[1], want)
		}
		got = rows(runner.Row{Slot: 1, Tables: second, Start: 52, Len: 8})
		if want := want.Cases[number].Guesses; !slices.Equal(got[0], want) {
			t.Errorf("%s, behind a prefix that another has computed: guesses %v, want %v", c.Name, got[0], want)
		}
	}
}

// The memory plan has room for a head, what it reads of the target, and its keys and values.
func TestHeadMemory(t *testing.T) {
	target, files, _ := golden(t, 0)
	lim := model.Limits{MaxSeqs: 3, MaxTokens: 64, MaxLen: 200, BlockSize: 16, Blocks: []int{40}, Depth: 1, Lookahead: 3}
	var needs []plan.Footprint
	for _, draft := range []*Draft{nil, {Head: true, Name: files, Tokens: 3}} {
		loading, err := begun(t, target, draft, "cpu")
		if err != nil {
			t.Fatal(err)
		}
		need, err := loading.Cost()(lim)
		if err != nil {
			t.Fatal(err)
		}
		needs = append(needs, need)
	}
	alone, with := needs[0], needs[1]
	if got, want := with.KV-alone.KV, int64(2*2*32*2*16*(40+3)); got != want {
		t.Errorf("keys and values of a head: %d bytes, want %d", got, want)
	}
	if with.Draft != with.Total()-alone.Total() || with.Activations-alone.Activations < 4*3*64*(64+67) {
		t.Errorf("a head takes %d bytes, of a total of %d more, %d of them buffers", with.Draft, with.Total()-alone.Total(), with.Activations-alone.Activations)
	}
	// Matrices in 8 bits: fc, the layer, 100 ids.
	if got := with.Weights - alone.Weights; got < 64*(192+128*2+128+128+96*3+100)/2 || got > 2*64*(192+128*2+128+128+96*3+100) {
		t.Errorf("weights of a head: %d bytes", got)
	}
}

// What is planned for a target and what guesses beside it is what a card then misses.
func TestDraftMemoryOnACard(t *testing.T) {
	target, head, _ := golden(t, 0)
	for _, draft := range []*Draft{{Name: target, Tokens: 3}, {Head: true, Name: head, Tokens: 3}} {
		loading, err := begun(t, target, draft, "emu")
		if err != nil {
			t.Fatal(err)
		}
		lim := model.Limits{MaxSeqs: 3, MaxTokens: 32, MaxLen: 200, BlockSize: 16, Blocks: []int{40}, Depth: 1, Lookahead: 3}
		need, err := loading.Cost()(lim)
		if err != nil {
			t.Fatal(err)
		}
		drv := loading.device.gpu.cfg.Driver
		before, err := cuda.Probe(drv, 0)
		if err != nil {
			t.Fatal(err)
		}
		both, _, err := loading.Open(t.Context(), lim, nil)
		if err != nil {
			t.Fatal(err)
		}
		after, err := cuda.Probe(drv, 0)
		if err != nil {
			t.Fatal(err)
		}
		planned := need.Weights + need.KV + need.Activations
		if taken := before.Free - after.Free; math.Abs(float64(taken-planned)) > 0.02*float64(planned) || need.Draft < planned/20 || need.Draft > planned*2/3 {
			t.Errorf("%+v: %d bytes are taken, %d were planned, %d of them for what guesses", draft, taken, planned, need.Draft)
		}
		if err := both.Close(); err != nil {
			t.Error(err)
		}
	}
}

// What is no head, or one of another model, or is given to the wrong method, is refused with words.
func TestHeadRefused(t *testing.T) {
	target, files, _ := golden(t, 0)
	other := tinyPreset(t, "llama3-tiny", 0)
	for _, tt := range []struct {
		name, target string
		draft        Draft
		want         string
	}{
		{"a model", target, Draft{Head: true, Name: target, Tokens: 3}, "not that of an EAGLE3 head"},
		{"a head as a model", target, Draft{Name: files, Tokens: 3}, "method eagle3 is for it"},
		{"of another model", other, Draft{Head: true, Name: files, Tokens: 3}, "vocabulary of 384 ids"},
		{"not there", target, Draft{Head: true, Name: files + "/none", Tokens: 3}, "none"},
	} {
		if _, err := begun(t, tt.target, &tt.draft, "cpu"); err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), "--speculative-config") {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
}
