package sim

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"ossian/internal/runner"
	"ossian/internal/runner/runnertest"
	"ossian/internal/sample"
)

func open(t *testing.T, cfg Config) *Script {
	t.Helper()
	s, err := NewScript(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// The next id that a mask allows is that of a walk from id to id, also where the vocabulary ends within
// a word whose other bits are set.
func TestNextAllowed(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for n := range 20_000 {
		vocab := 1 + rng.Int32N(300)
		mask := make([]uint64, (vocab+63)/64)
		for range rng.IntN(4) * rng.IntN(4) {
			id := rng.IntN(64 * len(mask))
			mask[id/64] |= 1 << (id % 64)
		}
		id := rng.Int32N(vocab)
		want, some := id, false
		for range vocab {
			if some = mask[want/64]>>(want%64)&1 == 1; some {
				break
			}
			want = (want + 1) % vocab
		}
		if got, is := nextAllowed(mask, id, vocab); is != some || some && got != want {
			t.Fatalf("case %d: %d, %v from %d of %d in %x; want %d, %v", n, got, is, id, vocab, mask, want, some)
		}
	}
}

func TestRunner(t *testing.T) {
	runnertest.Run(t, func(t *testing.T, c runnertest.Config) runner.Runner {
		return open(t, Config{Verify: true, Info: runner.Info{Vocab: 101, BlockSize: c.BlockSize, MaxSeqs: c.MaxSeqs, MaxTokens: c.MaxTokens,
			MaxLen: c.MaxLen, Depth: c.Depth, Lookahead: c.Lookahead, Groups: []runner.Group{{Blocks: c.Blocks}, {Blocks: c.Blocks, Window: 7}}}})
	})
}

// row makes a batch of one row in slot 0 with the block table 0, 1, 2, ….
func row(history []int32, start int, step uint64, p *sample.Params) *runner.Batch {
	tables := []runner.BlockID{0, 1, 2, 3}
	return &runner.Batch{Tokens: slices.Clone(history[start:]), Rows: []runner.Row{{Start: start, Len: len(history) - start,
		Tables: [][]runner.BlockID{tables}, Sample: true, OutputIndex: step, Params: p, History: history}}}
}

func play(t *testing.T, s *Script, prompt []int32, n int, p *sample.Params) []int32 {
	t.Helper()
	history := slices.Clone(prompt)
	for i := range n {
		start := len(history) - 1
		if i == 0 {
			start = 0
		}
		if err := s.Launch(row(history, start, uint64(i), p)); err != nil {
			t.Fatal(err)
		}
		r, err := s.Collect()
		if err != nil {
			t.Fatal(err)
		}
		history = append(history, r.Tokens[0][0])
	}
	return history[len(prompt):]
}

func TestScripts(t *testing.T) {
	greet := Reply(func(prompt []int32) []int32 {
		if prompt[0] == 7 {
			return []int32{70, 71, 2}
		}
		return []int32{9, 2}
	})
	for _, c := range []struct {
		name   string
		next   Next
		prompt []int32
		want   []int32
	}{
		{"list, then its end", List(5, 6, 2), []int32{1}, []int32{5, 6, 2, 2}},
		{"by prompt", greet, []int32{7, 8}, []int32{70, 71, 2, 2}},
		{"by other prompt", greet, []int32{8, 7}, []int32{9, 2, 2, 2}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := open(t, Config{Next: c.next, Verify: true})
			for _, p := range []sample.Params{{}, {Temperature: 2, Seed: 3}} { // parameters change nothing
				if got := play(t, s, c.prompt, len(c.want), &p); !slices.Equal(got, c.want) {
					t.Errorf("%+v: got %v, want %v", p, got, c.want)
				}
			}
		})
	}
}

func TestHashSeesEveryToken(t *testing.T) {
	next := Hash(1 << 20)
	base := []int32{1, 2, 3, 4, 5}
	for i := range base {
		other := slices.Clone(base)
		other[i] = 0
		if next(other, 0) == next(base, 0) {
			t.Errorf("token %d changes nothing", i)
		}
	}
}

func TestMaskAndLogprobs(t *testing.T) {
	s := open(t, Config{Info: runner.Info{Vocab: 64}, Next: List(10)})
	b := row([]int32{1}, 0, 0, &sample.Params{Logprobs: true, TopLogprobs: 3})
	b.Rows[0].Mask = []uint64{1<<4 | 1<<12}
	if err := s.Launch(b); err != nil {
		t.Fatal(err)
	}
	r, err := s.Collect()
	if err != nil {
		t.Fatal(err)
	}
	want := []sample.Logprob{{ID: 12, Logprob: -31}, {ID: 10}, {ID: 0, Logprob: -20}, {ID: 1, Logprob: -21}}
	if r.Tokens[0][0] != 12 || !slices.Equal(r.Logprobs[0], want) {
		t.Errorf("got %v %v, want [12] %v", r.Tokens[0], r.Logprobs[0], want)
	}
	b.Rows[0].Mask = []uint64{0}
	if err := s.Launch(b); err == nil {
		t.Error("an empty mask gives no error")
	}
}

// Verify is what makes the engine's tests able to notice a wrong block.
func TestVerifyCatches(t *testing.T) {
	prompt := []int32{3, 1, 4, 1, 5, 9, 2, 6}
	for _, c := range []struct {
		name, want string
		spoil      func(b *runner.Batch)
	}{
		{"nothing", "", func(*runner.Batch) {}},
		{"foreign block", "position 0", func(b *runner.Batch) { b.Rows[0].Tables[0][0] = 5 }},
		{"token that is not the history's", "position 8", func(b *runner.Batch) { b.Tokens[0]++ }},
		{"contract", "slot 70", func(b *runner.Batch) { b.Rows[0].Slot = 70 }},
		{"unknown pending id", "position 8", func(b *runner.Batch) { b.Tokens[0] = runner.Pending; b.Rows[0].Slot = 1 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := open(t, Config{Verify: true, Info: runner.Info{BlockSize: 4}})
			out := play(t, s, prompt, 1, &sample.Params{})
			b := row(append(slices.Clone(prompt), out...), len(prompt), 1, &sample.Params{})
			c.spoil(b)
			err := s.Launch(b)
			if (c.want == "" && err != nil) || (c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want))) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestFaults(t *testing.T) {
	boom := errors.New("boom")
	fail := func(at int) func(int, *runner.Batch) error {
		return func(step int, _ *runner.Batch) error {
			if step == at {
				return boom
			}
			return nil
		}
	}
	s := open(t, Config{OnLaunch: fail(1), OnCollect: fail(0)})
	b := row([]int32{1, 2}, 0, 0, &sample.Params{})
	if err := s.Launch(b); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Collect(); !errors.Is(err, boom) {
		t.Errorf("collect: got %v, want %v", err, boom)
	}
	s.cfg.OnCollect = nil
	if _, err := s.Collect(); err != nil {
		t.Errorf("a failed collect has lost the step: %v", err)
	}
	if err := s.Launch(b); !errors.Is(err, boom) {
		t.Errorf("launch: got %v, want %v", err, boom)
	}
	for _, next := range []Next{List(), List(512), List(-1)} {
		s := open(t, Config{Next: next})
		if err := s.Launch(b); err == nil {
			t.Error("an id outside the vocabulary gives no error")
		}
	}
}

func TestCost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, Config{Info: runner.Info{Depth: 2}, Cost: func(b *runner.Batch) time.Duration { return time.Duration(len(b.Tokens)) * time.Second }})
		began := time.Now()
		other := row([]int32{1, 2, 3}, 0, 0, &sample.Params{})
		other.Rows[0].Slot = 1
		for _, b := range []*runner.Batch{row([]int32{1, 2}, 0, 0, &sample.Params{}), other} {
			if err := s.Launch(b); err != nil {
				t.Fatal(err)
			}
		}
		for _, want := range []time.Duration{2 * time.Second, 5 * time.Second} {
			if _, err := s.Collect(); err != nil {
				t.Fatal(err)
			}
			if got := time.Since(began); got != want {
				t.Errorf("collected after %v, want %v", got, want)
			}
		}
	})
}

func TestConfig(t *testing.T) {
	for _, i := range []runner.Info{{Lookahead: -1}, {Vocab: -1}, {Groups: []runner.Group{{Blocks: 8, Window: 1}}}, {Groups: []runner.Group{{}}}} {
		if _, err := NewScript(Config{Info: i}); err == nil {
			t.Errorf("%+v gives no error", i)
		}
	}
}

func TestLaunchAllocatesNothing(t *testing.T) {
	s := open(t, Config{Next: List(1, 2, 3)})
	b := row([]int32{1, 2}, 0, 0, &sample.Params{Logprobs: true, TopLogprobs: 2})
	if n := testing.AllocsPerRun(100, func() {
		if err := s.Launch(b); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Collect(); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("a step allocates %v times", n)
	}
}
