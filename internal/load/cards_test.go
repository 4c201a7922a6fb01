package load

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"ossian/internal/chat"
	"ossian/internal/ckpt"
	"ossian/internal/cuda/driver"
	"ossian/internal/cuda/driver/libcuda"
	"ossian/internal/cuda/emu"
	"ossian/internal/runner"
	"ossian/internal/sample"
	"ossian/internal/soak"
	"ossian/internal/tensor"
)

// driverOf has the machine's driver be that of the emulator, or missing where there is none, until the
// test ends.
func driverOf(t *testing.T, machine *emu.Machine) {
	t.Helper()
	open, find := openDriver, findDriver
	t.Cleanup(func() { openDriver, findDriver = open, find })
	missing := &libcuda.NotFoundError{Name: "libcuda.so.1", Tried: []string{"/etc/ld.so.cache", "/usr/local/nvidia/lib64"}}
	if machine == nil {
		openDriver = func() (*driver.Driver, error) { return nil, libcuda.ErrNotBuilt }
		findDriver = func() (string, error) { return "", missing }
		return
	}
	openDriver = func() (*driver.Driver, error) { return machine.Driver(), nil }
	findDriver = func() (string, error) { return "/usr/lib/libcuda.so.1", nil }
}

// builtIn opens the built-in model.
func builtIn(t *testing.T) *ckpt.Model {
	t.Helper()
	checkpoint, err := OpenModel("")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { checkpoint.Close() })
	return checkpoint
}

// Which device computes, what is said where the wish cannot be met, and what is said where a card
// that is there is left alone.
func TestDeviceNames(t *testing.T) {
	lacking := func(c *ckpt.Model) {
		for name, param := range c.Params {
			if len(param.Shape) == 3 {
				param.DType = tensor.Q5_K
				c.Params[name] = param
			}
		}
	}
	for _, test := range []struct {
		name    string
		options Options
		driver  bool
		change  func(*ckpt.Model)
		device  string // "" = an error
		told    string // in the note or the error
	}{
		{"automatic without a driver", Options{Device: "auto"}, false, nil, "cpu", ""},
		{"nothing asked for", Options{}, false, nil, "cpu", ""},
		{"automatic with a card", Options{Device: "auto"}, true, nil, "card", ""},
		{"processors beside a card", Options{Device: "cpu"}, true, nil, "cpu", ""},
		{"automatic, types lacking", Options{Device: "auto"}, true, lacking, "cpu", "Q5_K"},
		{"automatic, no room", Options{Device: "auto", Seqs: 1 << 16, MaxTokens: 1 << 16, MaxLen: 1024}, true, nil, "cpu", "does not fit into the memory of"},
		{"automatic, exact", Options{Device: "auto", Exact: true}, true, nil, "cpu", "--exact is of processors"},
		{"a card without a driver", Options{Device: "cuda"}, false, nil, "", "/usr/local/nvidia/lib64"},
		{"a card", Options{Device: "CUDA"}, true, nil, "card", ""},
		{"a numbered card", Options{Device: "cuda:0"}, true, nil, "card", ""},
		{"a card that is not there", Options{Device: "cuda:5"}, true, nil, "", "no card 5"},
		{"two cards", Options{Device: "cuda:0,1"}, true, nil, "", "the number of one card"},
		{"a card, types lacking", Options{Device: "cuda"}, true, lacking, "", "Q5_K"},
		{"a card, float32 cache", Options{Device: "cuda", KV: "f32"}, true, nil, "", "--device cpu has f32"},
		{"a card, another 8-bit cache", Options{Device: "cuda", KV: "fp8_e5m2"}, true, nil, "", `"fp8_e5m2": a card keeps keys and values as auto (bf16), bf16 or fp8 (E4M3)`},
		{"a card, exact", Options{Device: "cuda", Exact: true}, true, nil, "", "--exact"},
		{"a card, 8-bit weights", Options{Device: "cuda", Weights: "q8"}, true, nil, "", "--cpu-weights"},
		{"a card, 8-bit activations", Options{Device: "cuda", Activations: 8}, true, nil, "", "--activation-bits"},
		{"the emulator", Options{Device: "emu"}, false, nil, "card", ""},
		{"no device", Options{Device: "cudas"}, true, nil, "", "auto, cpu, cuda, cuda:N or sim:MACHINE"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var machine *emu.Machine
			if test.driver {
				machine = emu.New(emu.Card{})
			}
			driverOf(t, machine)
			checkpoint := builtIn(t)
			if test.change != nil {
				test.change(checkpoint)
			}
			if test.options.KV == "" {
				test.options.KV = "auto"
			}
			notes := ""
			loading, err := test.options.Begin(checkpoint, func(note string) { notes += note })
			if err != nil {
				notes += err.Error()
			}
			got := ""
			switch {
			case err == nil && loading.Device().Card() != "":
				got = "card"
			case err == nil:
				got = "cpu"
			}
			if got != test.device {
				t.Errorf("device %q, want %q: %s", got, test.device, notes)
			}
			if strings.Contains(notes, "f32") && test.options.KV != "f32" {
				t.Errorf("told %q, which names what was not asked for", notes)
			}
			if !strings.Contains(notes, test.told) || (test.told == "" && notes != "") {
				t.Errorf("told %q, want %q", notes, test.told)
			}
			if machine != nil {
				if err := machine.Close(); err != nil { // nobody is left on the card who only asked
					t.Error(err)
				}
			}
		})
	}
}

// What a model may take of an emulated card is there in the machine, with what the emulator keeps
// beside it.
func TestEmulatedMemory(t *testing.T) {
	for _, c := range []struct{ free, available, want int64 }{
		{16 << 30, 1000, 450},
		{16 << 30, 2 << 30, 966367641},
		{16 << 30, 1 << 40, 4 << 30},
		{16 << 30, 0, 4 << 30}, // unknown
		{1 << 20, 1 << 40, 1 << 20},
	} {
		if got := emulatedMemory(c.free, c.available); got != c.want {
			t.Errorf("%d free, %d available: %d, want %d", c.free, c.available, got, c.want)
		}
	}
	opened, err := (&Options{Device: emulated}).openEmulated()
	if err != nil {
		t.Fatal(err)
	}
	if half := opened.memory(0.5); half <= 0 || half > emulatedMost/2 {
		t.Errorf("half of the emulated memory is %d bytes", half)
	}
	// What the emulator takes of the machine for a byte of the card.
	const bytes = 64 << 20
	var before, after runtime.MemStats
	drv, ordinal := opened.cfg.Driver, 0
	runtime.LockOSThread() // a context is current for a thread
	defer runtime.UnlockOSThread()
	device, err := drv.DeviceGet(ordinal)
	if err != nil {
		t.Fatal(err)
	}
	context, err := drv.ContextRetain(device)
	if err := errors.Join(err, drv.SetCurrent(context)); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&before)
	if _, err := drv.MemAlloc(bytes); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if took := float64(after.TotalAlloc-before.TotalAlloc) / bytes; took < 0.99*emulatedFactor || took > 1.01*emulatedFactor {
		t.Errorf("%.2f bytes for a byte of the card, planned with %d", took, emulatedFactor)
	}
}

// greedy returns the ids that follow a prompt, one by one.
func greedy(t *testing.T, options Options, prompt []int32, count int) (ids []int32, logprobs [][]sample.Logprob) {
	t.Helper()
	r, err := options.Runner(context.Background(), builtIn(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}()
	params := &sample.Params{Logprobs: true, TopLogprobs: 2}
	tables := Tables(r.Info())
	tokens := prompt
	for start := 0; len(ids) < count; start, tokens = start+len(tokens), ids[len(ids)-1:] {
		batch := &runner.Batch{Tokens: tokens, Rows: []runner.Row{{Start: start, Len: len(tokens), Tables: tables, Sample: true, Params: params}}}
		if err := r.Launch(batch); err != nil {
			t.Fatal(err)
		}
		result, err := r.Collect()
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, result.Tokens[0][0])
		logprobs = append(logprobs, append([]sample.Logprob(nil), result.Logprobs[0]...))
	}
	return ids, logprobs
}

// The built-in model answers a question in its chat template on an emulated card, id by id, as with the
// processors' float32 activations: the first ids with every change, the whole answer for a release.
func TestEmulatedAnswer(t *testing.T) {
	checkpoint := builtIn(t)
	format, err := ChatFormat(checkpoint, "")
	if err != nil {
		t.Fatal(err)
	}
	asked := checkpoint.Tokenizer.Prompt()
	conversation := &chat.Conversation{Now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Turns: []chat.Turn{{Role: chat.User, Parts: []string{"12+30"}}}}
	if err := format.Render(asked, conversation); err != nil {
		t.Fatal(err)
	}
	common := Options{KV: "auto", MaxLen: 256, MaxTokens: 128}
	exact, card := common, common
	exact.Device, exact.Exact = "cpu", true
	card.Device = emulated
	whole, _ := greedy(t, exact, asked.IDs(), 128)
	end := slices.IndexFunc(whole, func(id int32) bool { return slices.Contains(format.Stops(), id) })
	if end < 0 {
		t.Fatalf("no end in %q", checkpoint.Tokenizer.Decode(whole))
	}
	want := whole[:end+1]
	if text := checkpoint.Tokenizer.Decode(want); !strings.Contains(text, "42") {
		t.Errorf("the answer is %q, without 42", text)
	}
	count := soak.Cases(t, 4, len(want))
	got, logprobs := greedy(t, card, asked.IDs(), count)
	for i := range got {
		if got[i] != want[i] {
			t.Fatalf("id %d of %d: %d (%v), exact %d", i, len(want), got[i], logprobs[i], want[i])
		}
	}
	t.Logf("%d of %d ids are equal, after %d of the prompt", count, len(want), len(asked.IDs()))
}
