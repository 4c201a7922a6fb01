// Package sample says what choosing the next token means: parameters, masks,
// penalties and counter-based randomness. Pick is the definition that devices
// follow or call.
package sample

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
}

// A Logprob is an id with the natural logarithm of its probability.
type Logprob struct {
	ID      int32
	Logprob float32
}
