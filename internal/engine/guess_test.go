package engine

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"ossian/internal/draft"
	"ossian/internal/runner"
	"ossian/internal/sample"
	"ossian/internal/sched"
	"ossian/internal/sim"
)

// guessing are the settings of method suffix.
func guessing(adaptive bool) *draft.Settings {
	return &draft.Settings{Method: draft.Suffix, Tokens: 7, Shortest: 2, Factor: 1, MinTokenProb: 0.1, CachedRequests: 100, Adaptive: adaptive}
}

// steps is a cost by tokens: one takes 10 ms, each further one share of that more.
func steps(share float64) func(*runner.Batch) time.Duration {
	return func(b *runner.Batch) time.Duration {
		return time.Duration(float64(10*time.Millisecond) * (1 + share*float64(len(b.Tokens)-1)))
	}
}

// play runs requests of that many tokens side by side, returns their ids, the time that they took and
// the engine's figures, and ends the engine.
func (g *rig) play(streams, tokens int) (all [][]int32, took time.Duration, stats Stats) {
	began := time.Now()
	var running []*Stream
	for i := range streams {
		running = append(running, g.submit(Request{Tokens: ids(20*i, 9), MaxTokens: tokens}))
	}
	for _, stream := range running {
		all = append(all, finished(g.t, stream, sched.FinishLength))
	}
	took, stats = time.Since(began), g.Stats()
	g.end()
	return all, took, stats
}

// played runs requests of that many tokens side by side on a script of so many steps at a time and
// returns their ids and the time that they took, virtual.
func played(t *testing.T, cfg sim.Config, depth int, guesses *draft.Settings, streams, tokens int) (all [][]int32, took time.Duration, stats Stats) {
	synctest.Test(t, func(t *testing.T) {
		cfg.Info = runner.Info{Lookahead: 7, MaxSeqs: 8, MaxLen: 4096, MaxTokens: 512, Depth: depth}
		g := start(t, script(t, cfg), Config{Guesses: guesses})
		all, took, stats = g.play(streams, tokens)
	})
	return all, took, stats
}

// ids that repeat after so many.
func cycle(length int) sim.Next {
	return func(history []int32, _ uint64) int32 { return (history[len(history)-1] + 1) % int32(length) }
}

// TestSPC8Costs: where guesses hold, fewer steps are needed; where text only looks as if it repeated,
// or steps cost as much as their tokens, nothing is lost but what trying takes.
func TestSPC8Costs(t *testing.T) {
	for _, tt := range []struct {
		name        string
		next        sim.Next
		share       float64 // of a step's time, for each token beyond the first
		streams     int
		least, most float64 // times as fast as without guesses
	}{
		{name: "repeats", next: cycle(40), share: 0.1, streams: 1, least: 3, most: 8},
		{name: "repeats, 4 streams", next: cycle(40), share: 0.1, streams: 4, least: 1.5, most: 8},
		{name: "seems to repeat", next: sim.Hash(6), share: 0.3, streams: 1, least: 0.95, most: 1.3},
		{name: "seems to repeat, 4 streams", next: sim.Hash(6), share: 0.3, streams: 4, least: 0.95, most: 1.3},
		{name: "repeats, and a token costs a step", next: cycle(40), share: 1, streams: 1, least: 0.95, most: 1.1},
		{name: "repeats, 8 streams, and a token costs a step", next: cycle(40), share: 1, streams: 8, least: 0.95, most: 1.1},
	} {
		for depth := 1; depth <= 2; depth++ {
			t.Run(fmt.Sprintf("%s, depth %d", tt.name, depth), func(t *testing.T) {
				cfg := sim.Config{Next: tt.next, Cost: steps(tt.share)}
				want, without, _ := played(t, cfg, depth, nil, tt.streams, 1500)
				got, with, stats := played(t, cfg, depth, guessing(true), tt.streams, 1500)
				t.Logf("guesses %+v", stats.Guesses)
				checkPlayed(t, got, want, without.Seconds()/with.Seconds(), tt.least, tt.most)
			})
		}
	}
}

// checkPlayed fails unless streams with guesses gave the ids that they give without, and so many times
// as fast.
func checkPlayed(t *testing.T, got, want [][]int32, times, least, most float64) {
	t.Helper()
	for i := range want {
		if !slices.Equal(got[i], want[i]) {
			t.Errorf("stream %d gives other ids with guesses", i)
		}
	}
	t.Logf("%.2f times as fast", times)
	if times < least || times > most {
		t.Errorf("%.3f times as fast as without guesses, want %v to %v", times, least, most)
	}
}

// TestTokensOfAStepArriveTogether: what one step gives is one piece for the reader, log probabilities
// and usage included.
func TestTokensOfAStepArriveTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := sim.Config{Next: cycle(5), Cost: steps(0.1), Info: runner.Info{Lookahead: 7, MaxLen: 512}}
		g := start(t, script(t, cfg), Config{Guesses: guessing(false)})
		stream := g.submit(Request{Tokens: ids(0, 20), MaxTokens: 60, Params: sample.Params{Logprobs: true, TopLogprobs: 2}})
		var sizes []int
		for total := 0; total < 60; {
			got, err := stream.Recv(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, token := range got {
				if len(token.Logprobs) != 3 || token.Logprobs[0].ID != token.ID {
					t.Errorf("token %+v: three log probabilities expected, its own first", token)
				}
			}
			sizes, total = append(sizes, len(got)), total+len(got)
		}
		if steps := g.Stats().Steps; uint64(len(sizes)) != steps || slices.Max(sizes) != 8 {
			t.Errorf("%d pieces %v in %d steps: one a step expected, and of 8 tokens some", len(sizes), sizes, steps)
		}
		if _, usage, _ := stream.End(); usage.Completion != 60 {
			t.Errorf("usage %+v", usage)
		}
		g.end()
	})
}

// Outputs of finished requests are guessed from, by those who may see them.
func TestStoredOutputs(t *testing.T) {
	novel := func(history []int32, step uint64) int32 { return int32((step*37 + step*step*11) % 509) } // says the same to all
	for _, tt := range []struct {
		name         string
		tenant       uint32
		salt         uint64
		guessesShown bool
	}{{"the same", 1, 2, true}, {"another tenant", 3, 2, false}, {"another salt", 1, 3, false}} {
		t.Run(tt.name, func(t *testing.T) {
			g := start(t, script(t, sim.Config{Next: novel, Info: runner.Info{Lookahead: 7}}), Config{Guesses: guessing(false)})
			request := Request{Tokens: ids(7, 9), MaxTokens: 100, Tenant: 1, Salt: 2}
			first := finished(t, g.submit(request), sched.FinishLength)
			request.Tenant, request.Salt = tt.tenant, tt.salt
			if second := finished(t, g.submit(request), sched.FinishLength); !slices.Equal(first, second) {
				t.Errorf("%v, then %v", first, second)
			}
			if held := g.Stats().Guesses.Accepted[draft.FromStore]; (held > 50) != tt.guessesShown || (held > 0) != tt.guessesShown {
				t.Errorf("%d guesses from stored outputs held", held)
			}
		})
	}
}

// A prediction is guessed from before anything of it has been said.
func TestPrediction(t *testing.T) {
	novel := func(_ []int32, step uint64) int32 { return int32((step*37 + step*step*11) % 509) }
	said := make([]int32, 100)
	for i := range said {
		said[i] = novel(nil, uint64(i))
	}
	g := start(t, script(t, sim.Config{Next: novel, Info: runner.Info{Lookahead: 7}}), Config{Guesses: guessing(false)})
	request := Request{Tokens: ids(7, 9), MaxTokens: 100, Prediction: said}
	if got := finished(t, g.submit(request), sched.FinishLength); !slices.Equal(got, said) {
		t.Errorf("%v expected, got %v", said, got)
	}
	if held := g.Stats().Guesses.Accepted[draft.FromIndex]; held < 70 {
		t.Errorf("%d guesses from the prediction held", held)
	}
	request.Prediction = []int32{5, 600}
	if _, err := g.Submit(t.Context(), request); err == nil || !strings.Contains(err.Error(), "token 1 of the prediction has id 600") {
		t.Errorf("a prediction beyond the vocabulary gives error %v", err)
	}
}

// The log says what has come of guesses at the end, and every ten minutes, of what came since.
func TestGuessLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		device := script(t, sim.Config{Next: cycle(5), Cost: steps(0.05), Info: runner.Info{Lookahead: 7}})
		e, err := New(device, Config{Guesses: guessing(false)}, slog.New(slog.NewTextHandler(&log, nil)))
		if err != nil {
			t.Fatal(err)
		}
		ran := make(chan error)
		go func() { ran <- e.Run(t.Context()) }()
		answer := func() {
			stream, err := e.Submit(t.Context(), Request{Tokens: ids(0, 20), MaxTokens: 41})
			if err != nil {
				t.Fatal(err)
			}
			finished(t, stream, sched.FinishLength)
		}
		answer()
		time.Sleep(sayGuessesEvery)
		answer() // its first step says what came of the one before it
		if err := errors.Join(e.Drain(t.Context()), <-ran); err != nil {
			t.Fatal(err)
		}
		// The first 33 ids of the answer come in five steps of up to 1+7: three of these check 7 guesses.
		for _, line := range []string{
			`msg=guesses steps=5 tokens_per_step=6.60 held="100 %" by_place="100 100 80 80 80 60 60 %"`,
			`msg=guesses steps=6 tokens_per_step=6.50 held="100 %" by_place="100 100 83 83 83 50 50 %"`,
		} {
			if strings.Count(log.String(), line) != 1 {
				t.Errorf("no line %s in:\n%s", line, log.String())
			}
		}
	})
}

// TestSPC9Panic: what guesses fails, and replies go on without guesses; the log says so once.
func TestSPC9Panic(t *testing.T) {
	for name, spoil := range map[string]func(*sched.Guesses){
		"chooser": func(g *sched.Guesses) { g.Chooser = nil },
		"index":   func(g *sched.Guesses) { g.Settings = nil },
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			e, err := New(script(t, sim.Config{Next: cycle(5), Info: runner.Info{Lookahead: 7}}), Config{Guesses: guessing(false)}, slog.New(slog.NewTextHandler(&log, nil)))
			if err != nil {
				t.Fatal(err)
			}
			spoil(e.cfg.Sched.Guesses)
			ran := make(chan error)
			go func() { ran <- e.Run(t.Context()) }()
			for range 3 {
				stream, err := e.Submit(t.Context(), Request{Tokens: ids(0, 20), MaxTokens: 40})
				if err != nil {
					t.Fatal(err)
				}
				got := finished(t, stream, sched.FinishLength)
				for i, id := range got {
					if want := (got[0] + int32(i)) % 5; id != want {
						t.Fatalf("ids %v", got)
					}
				}
			}
			if err := e.Drain(t.Context()); err != nil {
				t.Error(err)
			}
			if err := <-ran; err != nil {
				t.Error(err)
			}
			if said := strings.Count(log.String(), "speculation has failed"); said != 1 || e.Health().Restarts != 0 {
				t.Errorf("%d restarts, and the log says %d times that guessing has failed, want 0 and 1:\n%s", e.Health().Restarts, said, log.String())
			}
		})
	}
}
