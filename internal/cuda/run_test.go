package cuda

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"

	"ossian/internal/cuda/driver"
	"ossian/internal/cuda/emu"
	"ossian/internal/model"
	"ossian/internal/model/modeltest"
	"ossian/internal/runner"
	"ossian/internal/runner/runnertest"
	"ossian/internal/sample"
	"ossian/internal/soak"
	"ossian/internal/tensor"
)

// TestRunner applies the suite of whole runners to two families, each with another depth and
// another type of keys and values.
func TestRunner(t *testing.T) {
	for i, family := range []string{"gpt-oss", "qwen3moe"} {
		s, params := modeltest.Tiny(family, small()[family])
		windows, _ := s.Groups()
		kv := []tensor.DType{tensor.BF16, tensor.F8_E4M3}[i]
		t.Run(fmt.Sprintf("%s/%v", family, kv), func(t *testing.T) {
			t.Parallel()
			scale, card := runnertest.Scale{Schedules: 10, Soak: 200, Every: 8, Guesses: 4}, emu.Card{Unchecked: true}
			depth := i // of the runners of the suite one after another: 1 to 3
			scale.Run(t, func(t *testing.T, c runnertest.Config) runner.Runner {
				depth = depth%3 + 1
				lim := model.Limits{MaxSeqs: c.MaxSeqs, MaxTokens: c.MaxTokens, MaxLen: c.MaxLen, BlockSize: c.BlockSize, Depth: depth, Lookahead: c.Lookahead}
				for range windows {
					lim.Blocks = append(lim.Blocks, c.Blocks)
				}
				r, err := model.NewDecoder(s, params, openOn(t, card, s, lim, Config{KV: kv, dirty: true}), lim, nil)
				if err != nil {
					t.Fatal(err)
				}
				return r
			})
		})
	}
}

// A capture keeps the logits of a step.
type capture struct {
	*probe
	logits []float32
}

// Sample implements model.Device and keeps the logits.
func (c *capture) Sample(logits model.Buf, from int) {
	if from == 0 {
		c.logits = c.logits[:0]
	}
	c.logits = append(c.logits, c.Read(logits)...)
	c.probe.Sample(logits, from)
}

// Ids are those of sample.Pick on the device's own logits, whatever is asked for, behind the last known
// token and behind each guess that holds.
func TestPicks(t *testing.T) {
	t.Parallel()
	const rows = 50
	s, params := modeltest.Tiny("qwen3", small()["qwen3"])
	lim := smallLimits(s, 1)
	lim.MaxSeqs, lim.MaxTokens, lim.Lookahead = rows, 4*rows, 3
	lim.Blocks[0] = rows * 4
	device := &capture{probe: open(t, s, lim, Config{})}
	decoder, err := model.NewDecoder(s, params, device, lim, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := decoder.Close(); err != nil {
			t.Error(err)
		}
	}()
	rng := rand.New(rand.NewPCG(3, 9))
	one := func(of ...float32) float32 { return of[rng.IntN(len(of))] }
	held := [4]int{}                   // rows by how many ids they gave
	for range soak.Cases(t, 20, 200) { // a thousand draws
		batch := &runner.Batch{}
		for slot := range rows {
			length := 1 + rng.IntN(4)
			row := runner.Row{Slot: slot, Len: length, Sample: true, OutputIndex: rng.Uint64N(1000), Tables: [][]runner.BlockID{{runner.BlockID(slot)}}}
			for range length {
				batch.Tokens = append(batch.Tokens, rng.Int32N(int32(s.Vocab)))
			}
			row.Guessed = rng.IntN(length)
			row.History = batch.Tokens[len(batch.Tokens)-length : len(batch.Tokens)-row.Guessed]
			row.Params = &sample.Params{Temperature: one(0, 0.3, 1, 1.7), TopK: int(one(0, 0, 1, 20, 300)), TopP: one(0, 0.5, 0.95, 1), MinP: one(0, 0, 0.05, 1),
				RepetitionPenalty: one(0, 1.3), FrequencyPenalty: one(0, 0.8), PresencePenalty: one(0, -0.5), Seed: rng.Uint64(), Prompt: rng.IntN(length + 1), Logprobs: rng.IntN(4) == 0}
			if rng.IntN(4) == 0 {
				row.Mask = []uint64{rng.Uint64() & rng.Uint64(), rng.Uint64(), 0, rng.Uint64()}
			}
			if guesses := batch.Tokens[len(batch.Tokens)-row.Guessed:]; rng.IntN(2) == 0 {
				row.Mask = only(guesses, 0) // so that guesses hold
				for place := range guesses {
					row.Masks = append(row.Masks, only(guesses, place+1))
				}
			}
			if rng.IntN(4) == 0 {
				row.Params.LogitBias = map[int32]float32{rng.Int32N(int32(s.Vocab)): 4, rng.Int32N(int32(s.Vocab)): -100}
			}
			batch.Rows = append(batch.Rows, row)
		}
		if err := decoder.Launch(batch); err != nil {
			t.Fatal(err)
		}
		result, err := decoder.Collect()
		if err != nil {
			t.Fatal(err)
		}
		logits, tokens := device.logits, batch.Tokens
		for i := range batch.Rows {
			row := &batch.Rows[i]
			guesses, history := tokens[row.Len-row.Guessed:row.Len], slices.Clone(row.History)
			var want []int32
			var likely []sample.Logprob
			for place := range row.Guessed + 1 {
				of := logits[place*s.Vocab:][:s.Vocab]
				id := sample.Pick(of, row.MaskAt(place), row.Params, history, row.OutputIndex+uint64(place))
				if want = append(want, id); row.Params.Logprobs {
					likely = append(likely, new(sample.Sampler).Logprobs(nil, of, id, 0)...)
				}
				if place == row.Guessed || id != guesses[place] {
					break
				}
				history = append(history, id)
			}
			if got := result.Tokens[i]; !slices.Equal(got, want) {
				t.Errorf("row %d: ids %v, sample.Pick takes %v: %+v, guesses %v, masks %x, %x", i, got, want, *row.Params, guesses, row.Mask, row.Masks)
			}
			if row.Params.Logprobs && !sameLogprobs(result.Logprobs[i], likely) {
				t.Errorf("row %d: log probabilities %v, want %v", i, result.Logprobs[i], likely)
			}
			held[len(want)-1]++
			logits, tokens = logits[(row.Guessed+1)*s.Vocab:], tokens[row.Len:]
		}
	}
	if slices.Min(held[:]) < 10 {
		t.Errorf("%v rows gave one id, two, three, four: too few to show anything", held)
	}
}

// only returns a mask of the guess in a place; behind the last one, and sometimes, nil.
func only(guesses []int32, place int) []uint64 {
	if place == len(guesses) || guesses[place]%7 == 0 {
		return nil
	}
	mask := make([]uint64, 4)
	mask[guesses[place]/64] |= 1 << (guesses[place] % 64)
	return mask
}

// Any goroutine may use a device, on any thread, beside a device on another card.
func TestThreads(t *testing.T) {
	machine := emu.New(emu.Card{}, emu.Card{}) // of which the emulator tells threads apart
	s, params := modeltest.Tiny("qwen3", small()["qwen3"])
	lim := smallLimits(s, 2)
	var decoders [2]runner.Runner
	// elsewhere runs f on a thread that no other call of it had.
	elsewhere := func(f func() error) {
		t.Helper()
		done := make(chan error)
		go func() {
			runtime.LockOSThread() // and never unlock it: the thread ends with the goroutine
			done <- f()
		}()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	for card := range decoders {
		var device *Device
		elsewhere(func() (err error) {
			device, err = New(s, lim, Config{Driver: machine.Driver(), Ordinal: card})
			return err
		})
		elsewhere(func() (err error) {
			decoders[card], err = model.NewDecoder(s, params, device, lim, nil)
			return err
		})
	}
	var ids [2][]int32
	for start := range 3 {
		for card, decoder := range decoders {
			batch := &runner.Batch{Tokens: []int32{int32(7 * start)}, Rows: []runner.Row{{Start: start, Len: 1, Sample: true, Params: &sample.Params{}, Tables: [][]runner.BlockID{{3}}}}}
			elsewhere(func() error { return decoder.Launch(batch) })
			elsewhere(func() error {
				result, err := decoder.Collect()
				if err == nil {
					ids[card] = append(ids[card], result.Tokens[0]...)
				}
				return err
			})
		}
	}
	if !slices.Equal(ids[0], ids[1]) || len(ids[0]) != 3 {
		t.Errorf("ids %v on one card, %v on the other", ids[0], ids[1])
	}
	for _, decoder := range decoders {
		elsewhere(decoder.Close)
	}
	if err := machine.Close(); err != nil {
		t.Error(err)
	}
}

// A device that read results before its step was waited for would hand out what no step can sample: the
// emulator runs a step when somebody waits for it, and poisons where results will be until then, also
// where those of an earlier step were. Planted here is that Wait waits for the event of the step before.
func TestResultsBeforeWait(t *testing.T) {
	const steps = 7 // each flight of the ring is used again
	s, params := modeltest.Tiny("qwen3", small()["qwen3"])
	lim := smallLimits(s, 1)
	run := func(planted bool) (results []sample.Logprob) {
		machine := emu.New(emu.Card{Unchecked: true})
		drv := *machine.Driver()
		sync, late, previous := drv.EventSync, false, driver.Event(0)
		drv.EventSync = func(event driver.Event) error {
			if !late {
				return sync(event)
			}
			event, previous = previous, event
			if event == 0 {
				return nil
			}
			return sync(event)
		}
		device, err := New(s, lim, Config{Driver: &drv})
		if err != nil {
			t.Fatal(err)
		}
		decoder, err := model.NewDecoder(s, params, device, lim, nil)
		if err != nil {
			t.Fatal(err)
		}
		for start := range steps {
			batch := &runner.Batch{Tokens: []int32{int32(5 * start)}, Rows: []runner.Row{{Start: start, Len: 1, Sample: true,
				Params: &sample.Params{Logprobs: true}, Tables: [][]runner.BlockID{{3}}}}}
			if err := decoder.Launch(batch); err != nil {
				t.Fatal(err)
			}
			late = planted // not while weights were loaded
			result, err := decoder.Collect()
			if err != nil {
				t.Fatal(err)
			}
			if id := result.Tokens[0][0]; id != result.Logprobs[0][0].ID && !planted {
				t.Errorf("step %d: id %d, its log probability is that of %d", start, id, result.Logprobs[0][0].ID)
			}
			results = append(results, sample.Logprob{ID: result.Tokens[0][0], Logprob: result.Logprobs[0][0].Logprob})
		}
		if err := decoder.Close(); err != nil {
			t.Error(err)
		}
		if err := machine.Close(); err != nil {
			t.Error(err)
		}
		return results
	}
	for step, got := range run(false) {
		if got.ID < 0 || int(got.ID) >= s.Vocab || !(got.Logprob <= 0) {
			t.Errorf("step %d: %+v", step, got)
		}
	}
	for step, got := range run(true) {
		if got.ID >= 0 && int(got.ID) < s.Vocab {
			t.Errorf("step %d was not waited for and has the id %d, which looks like one of the %d", step, got.ID, s.Vocab)
		}
	}
}

// After Preload no step has the driver compile anything, whatever is in it.
func TestPreload(t *testing.T) {
	t.Parallel()
	for _, family := range modeltest.Families() {
		s, params := modeltest.Tiny(family, small()[family])
		lim := smallLimits(s, 1)
		lim.MaxTokens = 160
		device := open(t, s, lim, Config{KV: tensor.F8_E4M3})
		decoder, err := model.NewDecoder(s, params, device, lim, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := device.Preload(); err != nil {
			t.Fatal(err)
		}
		loaded := device.machine.Counters().Calls["ModuleLoad"]
		table := make([]runner.BlockID, 40)
		for i := range table {
			table[i] = runner.BlockID(i)
		}
		windows, _ := s.Groups()
		start := 0
		for _, length := range []int{1, 20, 140, 130, 1} { // each tile of products, and splits of keys
			row := runner.Row{Start: start, Len: length, Sample: true, Tables: slices.Repeat([][]runner.BlockID{table}, len(windows)),
				Params: &sample.Params{Temperature: 1, TopK: 9, TopP: 0.8, RepetitionPenalty: 2, Logprobs: true, TopLogprobs: 3}}
			if err := decoder.Launch(&runner.Batch{Tokens: make([]int32, length), Rows: []runner.Row{row}}); err != nil {
				t.Fatal(err)
			}
			if _, err := decoder.Collect(); err != nil {
				t.Fatal(err)
			}
			start += length
		}
		if now := device.machine.Counters().Calls["ModuleLoad"]; now != loaded || loaded < 5 {
			t.Errorf("%s: %d modules are loaded after Preload, %d before", family, now, loaded)
		}
		if err := decoder.Close(); err != nil {
			t.Error(err)
		}
	}
}

// SEC-16: pools of keys and values are cleared before the first step. The emulator would tell of a read of
// memory that nobody has written.
func TestPoolsAreCleared(t *testing.T) {
	s, _ := modeltest.Tiny("gpt-oss", small()["gpt-oss"])
	for _, kv := range []tensor.DType{tensor.BF16, tensor.F8_E4M3} {
		device := openOn(t, emu.Card{}, s, smallLimits(s, 1), Config{KV: kv})
		func() {
			defer device.card.enter()()
			device.sync()
			for i := range device.layers {
				layer := &device.layers[i]
				vectors, scales := device.heads.kvBytes(device.lim.Blocks[layer.group], kv == tensor.F8_E4M3)
				for at, bytes := range map[driver.Ptr]int{layer.keys: vectors, layer.values: vectors, layer.keyScales: scales, layer.valueScales: scales} {
					content := make([]byte, bytes)
					if at == 0 {
						continue
					}
					if err := device.card.drv.CopyToHost(content, at); err != nil {
						t.Fatal(err)
					}
					if slices.ContainsFunc(content, func(b byte) bool { return b != 0 }) {
						t.Errorf("layer %d of %v: pool at %#x is not zero", i, kv, at)
					}
				}
			}
		}()
		if err := device.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A fault of a kernel surfaces in Wait with the kernel's name, stays, and leaves nothing behind.
func TestFaults(t *testing.T) {
	if onRealCard() {
		t.Skip("a fault costs all tests of this process their context")
	}
	s, params := modeltest.Tiny("llama", small()["llama"])
	lim := smallLimits(s, 2)
	device := open(t, s, lim, Config{})
	decoder, err := model.NewDecoder(s, params, device, lim, nil)
	if err != nil {
		t.Fatal(err)
	}
	step := func(start int) error {
		batch := &runner.Batch{Tokens: []int32{5}, Rows: []runner.Row{{Start: start, Len: 1, Sample: true, Params: &sample.Params{}, Tables: [][]runner.BlockID{{0}}}}}
		if err := decoder.Launch(batch); err != nil {
			return err
		}
		_, err := decoder.Collect()
		return err
	}
	if err := step(0); err != nil {
		t.Fatal(err)
	}
	device.layers[1].keys += 1 << 40 // where there is no memory
	err = step(1)
	if err == nil || !strings.Contains(err.Error(), "store") {
		t.Errorf("got %v, want an error that names the kernel store", err)
	}
	if again := step(2); again == nil {
		t.Error("the device goes on after a fault")
	}
	_ = decoder.Close() // which tells of the fault again
	// The next device gets a context that is whole.
	next, err := New(s, lim, Config{Driver: device.machine.Driver()})
	if err != nil {
		t.Fatalf("after the fault: %v", err)
	}
	if err := next.Close(); err != nil {
		t.Errorf("after the fault: %v", err)
	}
	if left := device.machine.Close(); left != nil {
		t.Errorf("after the fault: %v", left)
	}
}
