package sched

import (
	"fmt"
	"testing"
	"time"

	"ossian/internal/draft"
	"ossian/internal/runner"
)

// guessingItself is plain, but guesses up to 3 ids itself.
func guessingItself() (Config, runner.Info) {
	info := plain
	info.Lookahead, info.Ahead, info.MaxTokens = 3, 3, 8
	settings := &draft.Settings{Method: draft.Model, Tokens: 3}
	return Config{Guesses: &Guesses{Settings: settings, Chooser: settings.NewChooser()}}, info
}

// Rows of prompts are followed, rows that draw ask for guesses unless the next step has prompts, and
// nobody asks for more than the sequence may still have.
func TestWishes(t *testing.T) {
	t.Parallel()
	cfg, info := guessingItself()
	w := newWorld(t, cfg, info)
	for _, r := range []*request{{prompt: ids(0, 4), output: 6}, {prompt: ids(50, 18), output: 3}} {
		if err := w.add(r); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	for {
		batch := w.launch()
		if batch == nil {
			break
		}
		step := ""
		for i := range batch.Rows {
			step += fmt.Sprintf("%d:%d ", batch.Rows[i].Len, batch.Rows[i].Ahead)
		}
		got = append(got, step)
		w.commit()
	}
	// The second prompt is cut by steps of 8 tokens; the last token but one of a sequence needs none.
	want := []string{"4:1 4:1 ", "1:1 7:1 ", "1:2 7:1 ", "1:1 1:0 ", "1:0 1:0 ", "1:0 "}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("tokens and guesses asked for %q, want %q", got, want)
	}
}

// What the runner has guessed lies with a sequence until its next row, and is part of that, as far as
// the sequence may have it; a fault of it ends guessing and is told once.
func TestOffers(t *testing.T) {
	t.Parallel()
	cfg, info := guessingItself()
	w := newWorld(t, cfg, info)
	if err := w.add(&request{prompt: ids(0, 4), output: 20}); err != nil {
		t.Fatal(err)
	}
	step := func(guesses []int32, fault *runner.GuessFault) *runner.Batch {
		batch := w.s.Plan(w.now)
		if err := w.f.Launch(batch); err != nil {
			t.Fatal(err)
		}
		result, err := w.f.Collect()
		if err != nil {
			t.Fatal(err)
		}
		result.Guesses, result.Guessing, result.GuessFault = [][]int32{guesses}, time.Millisecond, fault
		w.s.Commit(batch, result, w.now)
		w.check("Commit")
		return batch
	}
	step([]int32{7, 8, 9}, nil)
	if row := step(nil, nil).Rows[0]; row.Guessed != 3 || row.Len != 4 {
		t.Errorf("%d guesses of 3 that were offered", row.Guessed)
	}
	if row := step([]int32{5, 100}, nil).Rows[0]; row.Guessed != 0 {
		t.Errorf("%d guesses where none were offered", row.Guessed)
	}
	if row := step([]int32{1}, &runner.GuessFault{Value: "broken"}).Rows[0]; row.Guessed != 1 {
		t.Errorf("%d guesses, of two the second outside the vocabulary", row.Guessed)
	}
	if row := step([]int32{1}, nil).Rows[0]; row.Guessed != 0 || row.Ahead != 0 {
		t.Errorf("%d guesses and %d asked for behind a fault", row.Guessed, row.Ahead)
	}
	if fault := w.s.GuessFault(); fault == nil || fault.Value != "broken" || w.s.GuessFault() != nil {
		t.Errorf("fault %v, want it once", fault)
	}
	if of := w.s.Stats().Guesses; of.Guessed[draft.FromModel] != 4 || of.Rows != 2 {
		t.Errorf("counted %+v", of)
	}
}

// Text that ends alike for eight ids is guessed from, whatever the runner has guessed, which then is
// asked for one id so that it reads on; for seven ids the runner's guesses count.
func TestTextBeforeOffers(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		alike  int
		source draft.Source
		ahead  int
	}{{8, draft.FromIndex, 1}, {7, draft.FromModel, 3}} {
		cfg, info := guessingItself()
		info.MaxTokens = 64
		w := newWorld(t, cfg, info)
		r := &request{prompt: ids(0, 10), output: 20}
		if err := w.add(r); err != nil {
			t.Fatal(err)
		}
		var first []int32 // what comes behind the prompt, which is read in one step
		batch := w.launch()
		result, err := w.f.Collect()
		if err != nil {
			t.Fatal(err)
		}
		first = result.Tokens[0]
		seq := w.s.residents[0]
		seq.Prediction = append(append(append([]int32{90}, seq.Tokens[len(seq.Tokens)-tt.alike+1:]...), first...), 70, 71, 72, 73)
		result.Guesses = [][]int32{{60, 61, 62}}
		w.s.Commit(batch, result, w.now)
		batch = w.s.Plan(w.now)
		row := &batch.Rows[0]
		want := []int32{70, 71, 72}
		if tt.source == draft.FromModel {
			want = []int32{60, 61, 62}
		}
		if got := batch.Tokens[len(batch.Tokens)-row.Guessed:]; fmt.Sprint(got) != fmt.Sprint(want) || row.Ahead != tt.ahead {
			t.Errorf("%d ids alike: guesses %v and %d asked for, want %v and %d", tt.alike, got, row.Ahead, want, tt.ahead)
		}
		if err := w.f.Launch(batch); err != nil {
			t.Fatal(err)
		}
		if result, err = w.f.Collect(); err != nil {
			t.Fatal(err)
		}
		w.s.Commit(batch, result, w.now)
		if of := w.s.Stats().Guesses; of.Guessed[tt.source] != 3 {
			t.Errorf("%d ids alike: counted %+v", tt.alike, of)
		}
	}
}

// A sequence that was not followed for long is not what guessing is tried on; one that is new is, and
// where guessing pays all are.
func TestMissed(t *testing.T) {
	t.Parallel()
	cfg, info := guessingItself()
	cfg.Guesses.Settings = &draft.Settings{Method: draft.Model, Tokens: 3, Adaptive: true}
	cfg.Guesses.Chooser = cfg.Guesses.Settings.NewChooser()
	info.MaxTokens = 32
	w := newWorld(t, cfg, info)
	add := func(from int) {
		if err := w.add(&request{prompt: ids(from, 4), output: 20}); err != nil {
			t.Fatal(err)
		}
	}
	add(0)
	w.step()
	w.s.residents[0].missed = mostMissed + 1
	add(40)
	batch := w.launch()
	if batch.Rows[0].Ahead != 0 || batch.Rows[1].Ahead == 0 {
		t.Errorf("tried on rows %d and %d guesses, want it on the new one", batch.Rows[0].Ahead, batch.Rows[1].Ahead)
	}
	w.commit()
	for range 20 { // steps of 10 ms, passes of 0.1
		w.s.ObserveStep(2, 10*time.Millisecond)
		cfg.Guesses.Chooser.ObserveAhead(2, 1, 100*time.Microsecond)
	}
	if batch = w.launch(); batch.Rows[0].Ahead == 0 || w.s.residents[0].missed != 0 {
		t.Errorf("asks for %d guesses where guessing pays, %d tokens missed", batch.Rows[0].Ahead, w.s.residents[0].missed)
	}
}
