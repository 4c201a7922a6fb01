// Package sample says what choosing the next token means: parameters, masks,
// penalties and counter-based randomness. Pick is the definition that devices
// follow or call. Its results depend on its arguments only, not on the
// processor, the compiler or the algorithm: probabilities are integers, so that
// sums have no rounding and any order of summation is the right one.
package sample

import (
	"fmt"
	"maps"
	"slices"
)

// MaxVocab is the largest vocabulary that Pick handles.
const MaxVocab = 1 << idBits

// Params is immutable once attached to a request. The zero value is greedy
// decoding without penalties.
type Params struct {
	Temperature       float32           // 0 = greedy: the largest logit, ties to the lowest id
	TopK              int               // keep the k most likely ids, 0 = all
	TopP              float32           // keep the smallest set of that probability mass, 0 or 1 = all
	MinP              float32           // drop ids less likely than MinP times the most likely, 0 = none
	RepetitionPenalty float32           // divide positive, multiply negative logits of ids seen in prompt or output; 0 or 1 = none
	FrequencyPenalty  float32           // subtract per occurrence in the output
	PresencePenalty   float32           // subtract once if in the output
	LogitBias         map[int32]float32 // added to logits first
	Seed              uint64            // with the step it fixes the draw
	Prompt            int               // leading tokens of the history that are prompt; frequency and presence skip them
	Logprobs          bool              // report the chosen id's log probability
	TopLogprobs       int               // with Logprobs: also the n most likely ids
	PromptLogprobs    bool              // report the log probability of every prompt token but the first
	TopPromptLogprobs int               // with PromptLogprobs: also the n most likely ids in each place
}

// A Logprob is an id with the natural logarithm of its probability.
type Logprob struct {
	ID      int32
	Logprob float32
}

// A Score says how likely an id was in its place, whether or not it was sampled.
type Score struct {
	Rank     int       // 1 = the most likely id; ties to the lowest id
	Logprobs []Logprob // its own, then those of the most likely ids
}

// Validate reports the first field of p that is outside its range for a
// vocabulary of that many ids. Pick does not need valid parameters to be safe:
// Validate exists to tell a caller what it asked for.
func (p *Params) Validate(vocab int) error {
	for _, field := range []struct {
		name        string
		v, min, max float64
	}{
		{"temperature", float64(p.Temperature), 0, 2},
		{"top_k", float64(p.TopK), 0, 1 << 31},
		{"top_p", float64(p.TopP), 0, 1},
		{"min_p", float64(p.MinP), 0, 1},
		{"repetition_penalty", float64(p.RepetitionPenalty), 0, 1000},
		{"frequency_penalty", float64(p.FrequencyPenalty), -2, 2},
		{"presence_penalty", float64(p.PresencePenalty), -2, 2},
		{"prompt length", float64(p.Prompt), 0, 1 << 31},
		{"top_logprobs", float64(p.TopLogprobs), 0, float64(vocab)},
		{"top_prompt_logprobs", float64(p.TopPromptLogprobs), 0, float64(vocab)},
	} {
		if !(field.v >= field.min && field.v <= field.max) { // also refuses NaN
			return fmt.Errorf("%s is %v, expected %v to %.10v", field.name, field.v, field.min, field.max)
		}
	}
	if p.TopLogprobs > 0 && !p.Logprobs {
		return fmt.Errorf("top_logprobs is %d without logprobs", p.TopLogprobs)
	}
	if p.TopPromptLogprobs > 0 && !p.PromptLogprobs {
		return fmt.Errorf("top_prompt_logprobs is %d without prompt_logprobs", p.TopPromptLogprobs)
	}
	for _, id := range slices.Sorted(maps.Keys(p.LogitBias)) { // sorted: the same error every time
		if id < 0 || int(id) >= vocab {
			return fmt.Errorf("logit_bias names id %d, expected 0 to %d", id, vocab-1)
		}
		if bias := p.LogitBias[id]; !(bias >= -100 && bias <= 100) {
			return fmt.Errorf("logit_bias of id %d is %v, expected -100 to 100", id, bias)
		}
	}
	return nil
}
