package engine

import (
	"context"
	"errors"
	"slices"
	"testing"

	"ossian/internal/runner"
	"ossian/internal/sample"
	"ossian/internal/sched"
	"ossian/internal/sim"
)

// scored wants the scores of a prompt when 5 is what the script plays behind every one.
func scored(t *testing.T, s *Stream, prompt []int32) {
	t.Helper()
	if _, err := s.Recv(context.Background()); err != nil {
		t.Fatal(err)
	}
	scores := s.Scores()
	if again := s.Scores(); len(scores) != len(prompt)-1 || again != nil {
		t.Fatalf("%d scores, then %v; want %d and none", len(scores), again, len(prompt)-1)
	}
	for i, got := range scores {
		want := sample.Score{Rank: 1, Logprobs: []sample.Logprob{{ID: 5}, {ID: 5}}}
		if id := prompt[i+1]; id != 5 {
			other := int(id)
			if id > 5 {
				other--
			}
			want.Rank, want.Logprobs[0] = 2+other, sample.Logprob{ID: id, Logprob: -20 - float32(other)}
		}
		if got.Rank != want.Rank || !slices.Equal(got.Logprobs, want.Logprobs) {
			t.Errorf("token %d: %+v, want %+v", i+1, got, want)
		}
	}
}

// Scores come with the first token, all of them and once, whatever the steps were
// and although others have left the same prompt in the cache.
func TestScores(t *testing.T) {
	prompt := []int32{1, 2, 5, 3, 4, 5, 5, 5, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0, 5, 5, 5}
	q := Request{Tokens: prompt, MaxTokens: 2}
	q.Params.PromptLogprobs, q.Params.TopPromptLogprobs = true, 1
	cfg := sim.Config{Next: sim.List(5, 6), Info: runner.Info{MaxTokens: 7, BlockSize: 4, Depth: 2}}
	bubble(t, func(t *testing.T) {
		g := start(t, script(t, cfg), Config{})
		finished(t, g.submit(Request{Tokens: prompt, MaxTokens: 2}), sched.FinishLength)
		s := g.submit(q)
		scored(t, s, prompt)
		if _, u, _ := s.End(); u.Cached != 0 {
			t.Errorf("%d tokens came from the cache", u.Cached)
		}
	})
	t.Run("a fault in the prompt", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			broken := cfg
			broken.OnCollect = func(step int, _ *runner.Batch) error {
				if step == 1 {
					return errors.New("broken")
				}
				return nil
			}
			g := start(t, script(t, broken), Config{Open: func(context.Context) (runner.Runner, error) { return script(t, cfg), nil }})
			scored(t, g.submit(q), prompt)
		})
	})
}
