package runnertest

import (
	"fmt"
	"math"
	"slices"

	"ossian/internal/runner"
	"ossian/internal/sample"
)

// What a runner gives back is held to what runner.Result promises, and to what a request gets alone.

// checkShape holds a result to what Result promises.
func checkShape(batch *runner.Batch, result *runner.Result, info runner.Info) error {
	if len(result.Tokens) != len(batch.Rows) {
		return fmt.Errorf("result has ids of %d rows, batch has %d", len(result.Tokens), len(batch.Rows))
	}
	// Log probabilities come for all rows or for none.
	asked := false
	for i := range batch.Rows {
		asked = asked || (batch.Rows[i].Sample && batch.Rows[i].Params.Logprobs)
	}
	if asked != (result.Logprobs != nil) || (asked && len(result.Logprobs) != len(batch.Rows)) {
		return fmt.Errorf("result has log probabilities of %d rows, batch has %d, asked for: %v", len(result.Logprobs), len(batch.Rows), asked)
	}
	if err := checkScores(batch, result); err != nil {
		return err
	}
	for i, end := 0, 0; i < len(batch.Rows); i++ {
		row, ids := &batch.Rows[i], result.Tokens[i]
		end += row.Len
		if !row.Sample {
			if len(ids) != 0 {
				return fmt.Errorf("row %d: %d ids without sampling", i, len(ids))
			}
			continue
		}
		if err := checkIDs(row, ids, batch.Tokens[end-row.Guessed:end], info.Vocab); err != nil {
			return fmt.Errorf("row %d: %w", i, err)
		}
		if asked {
			if err := checkLogprobs(row.Params, ids, result.Logprobs[i]); err != nil {
				return fmt.Errorf("row %d: %w", i, err)
			}
		}
	}
	return nil
}

// checkIDs holds what a row has sampled to its guesses and masks.
func checkIDs(row *runner.Row, ids, guesses []int32, vocab int) error {
	if len(ids) < 1 || len(ids) > 1+len(guesses) {
		return fmt.Errorf("%d ids, want 1 to %d", len(ids), 1+len(guesses))
	}
	for place, id := range ids {
		if id < 0 || int(id) >= vocab {
			return fmt.Errorf("id %d, vocabulary has %d", id, vocab)
		}
		if mask := row.MaskAt(place); mask != nil && mask[id/64]>>(id%64)&1 == 0 {
			return fmt.Errorf("id %d in place %d is masked", id, place)
		}
	}
	if want := runner.Held(append(slices.Clone(ids), -1), guesses[:len(ids)-1]); len(ids) != want || (len(ids) <= len(guesses) && ids[want-1] == guesses[want-1]) {
		return fmt.Errorf("ids %v for guesses %v", ids, guesses)
	}
	return nil
}

// checkScores holds scores to the targets of each row.
func checkScores(batch *runner.Batch, result *runner.Result) error {
	asked := slices.ContainsFunc(batch.Rows, func(row runner.Row) bool { return len(row.Targets) > 0 })
	if asked != (result.Scores != nil) || (asked && len(result.Scores) != len(batch.Rows)) {
		return fmt.Errorf("result has scores of %d rows, batch has %d, asked for: %v", len(result.Scores), len(batch.Rows), asked)
	}
	for i, scores := range result.Scores {
		row := &batch.Rows[i]
		if len(scores) != len(row.Targets) {
			return fmt.Errorf("row %d: %d scores of %d targets", i, len(scores), len(row.Targets))
		}
		for at, score := range scores {
			params := &sample.Params{Logprobs: true, TopLogprobs: row.Params.TopPromptLogprobs}
			if err := checkLogprobs(params, row.Targets[at:at+1], score.Logprobs); err != nil {
				return fmt.Errorf("row %d, target %d: %w", i, at, err)
			}
			// Beyond the most likely ones a rank cannot be checked, only that it is beyond them.
			place := 1 + slices.IndexFunc(score.Logprobs[1:], func(logprob sample.Logprob) bool { return logprob.ID == row.Targets[at] })
			if score.Rank < 1 || (place > 0 && score.Rank != place) || (place == 0 && score.Rank <= params.TopLogprobs) {
				return fmt.Errorf("row %d, target %d: rank %d, but place %d of the most likely %d", i, at, score.Rank, place, params.TopLogprobs)
			}
		}
	}
	return nil
}

// checkLogprobs holds the log probabilities of a row to its ids and parameters.
func checkLogprobs(params *sample.Params, ids []int32, logprobs []sample.Logprob) error {
	if !params.Logprobs {
		if len(logprobs) != 0 {
			return fmt.Errorf("%d log probabilities, none asked for", len(logprobs))
		}
		return nil
	}
	each := 1 + params.TopLogprobs
	if len(logprobs) != each*len(ids) {
		return fmt.Errorf("%d log probabilities for %d ids, want %d each", len(logprobs), len(ids), each)
	}
	for i, logprob := range logprobs {
		switch {
		// Each id stands before its alternatives, which are in descending order.
		case !(logprob.Logprob <= 0):
			return fmt.Errorf("log probability %d is %v", i, logprob.Logprob)
		case i%each == 0 && logprob.ID != ids[i/each]:
			return fmt.Errorf("log probability %d is of id %d, chosen was %d", i, logprob.ID, ids[i/each])
		case i%each > 1 && logprob.Logprob > logprobs[i-1].Logprob:
			return fmt.Errorf("log probability %d is larger than the one before", i)
		}
	}
	return nil
}

// compare reports the first difference between what a request got and what it got
// alone; a part is enough.
func compare(got, want trace, part bool) error {
	if len(got.ids) > len(want.ids) || (!part && len(got.ids) != len(want.ids)) {
		return fmt.Errorf("%d ids, alone %d", len(got.ids), len(want.ids))
	}
	if len(got.scores) > len(want.scores) || (!part && len(got.scores) != len(want.scores)) {
		return fmt.Errorf("%d scores, alone %d", len(got.scores), len(want.scores))
	}
	// Bits, as runners promise the same result whatever is beside a row.
	same := func(a, b sample.Logprob) bool {
		return a.ID == b.ID && math.Float32bits(a.Logprob) == math.Float32bits(b.Logprob)
	}
	for i, score := range got.scores {
		if alone := want.scores[i]; score.Rank != alone.Rank || !slices.EqualFunc(score.Logprobs, alone.Logprobs, same) {
			return fmt.Errorf("prompt token %d has score %+v, alone %+v", i+1, score, alone)
		}
	}
	for i, id := range got.ids {
		if id != want.ids[i] {
			return fmt.Errorf("output %d is id %d, alone %d", i, id, want.ids[i])
		}
		if !slices.EqualFunc(got.logprobs[i], want.logprobs[i], same) {
			return fmt.Errorf("output %d has log probabilities %v, alone %v", i, got.logprobs[i], want.logprobs[i])
		}
	}
	return nil
}
