package load

import (
	"strings"
	"testing"

	"ossian/internal/model"
	"ossian/internal/plan"
	"ossian/internal/runner"
	"ossian/internal/sample"
	"ossian/internal/shadow"
	"ossian/internal/synth"
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
		loading, err := begun(t, target, &tt.draft, "cpu")
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
		if err := both.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestDraftRefused(t *testing.T) {
	target, other := tinyPreset(t, "qwen3-tiny", 0), tinyPreset(t, "llama3-tiny", 0)
	for _, tt := range []struct{ name, draft, device, want string }{
		{"not there", t.TempDir() + "/none", "cpu", "--speculative-config: "},
		{"another vocabulary", other, "cpu", "with the same tokenizer"},
		{"a device that is played", target, "sim:h100", "has no model to guess with"},
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
