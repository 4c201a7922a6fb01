package sample

import (
	"math"
	"strings"
	"testing"
)

func TestValidate(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	tests := []struct {
		name string
		p    Params
		want string // "" = valid
	}{
		{"zero value", Params{}, ""},
		{"everything at its end", Params{Temperature: 2, TopK: 1 << 30, TopP: 1, MinP: 1, RepetitionPenalty: 1000, FrequencyPenalty: -2,
			PresencePenalty: 2, LogitBias: map[int32]float32{0: -100, 9: 100}, Prompt: 5, Logprobs: true, TopLogprobs: 10}, ""},
		{"hot", Params{Temperature: 2.5}, "temperature is 2.5, expected 0 to 2"},
		{"cold", Params{Temperature: -1}, "temperature is -1"},
		{"temperature not a number", Params{Temperature: nan}, "temperature is NaN"},
		{"negative top_k", Params{TopK: -1}, "top_k is -1"},
		{"top_p above 1", Params{TopP: 1.5}, "top_p is 1.5, expected 0 to 1"},
		{"min_p below 0", Params{MinP: -0.5}, "min_p is -0.5"},
		{"repetition", Params{RepetitionPenalty: -1}, "repetition_penalty is -1"},
		{"endless repetition", Params{RepetitionPenalty: inf}, "repetition_penalty is +Inf, expected 0 to 1000"},
		{"frequency", Params{FrequencyPenalty: 3}, "frequency_penalty is 3, expected -2 to 2"},
		{"presence", Params{PresencePenalty: -3}, "presence_penalty is -3"},
		{"prompt", Params{Prompt: -1}, "prompt length is -1"},
		{"more logprobs than ids", Params{Logprobs: true, TopLogprobs: 11}, "top_logprobs is 11, expected 0 to 10"},
		{"top without logprobs", Params{TopLogprobs: 1}, "top_logprobs is 1 without logprobs"},
		{"bias of an id that is not one", Params{LogitBias: map[int32]float32{10: 1, 12: 1}}, "logit_bias names id 10, expected 0 to 9"},
		{"bias of a negative id", Params{LogitBias: map[int32]float32{-1: 1}}, "logit_bias names id -1"},
		{"bias too large", Params{LogitBias: map[int32]float32{4: 101}}, "logit_bias of id 4 is 101"},
		{"bias not a number", Params{LogitBias: map[int32]float32{4: nan}}, "logit_bias of id 4 is NaN"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := tt.p.Validate(10)
			if (tt.want == "" && err != nil) || (tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want))) {
				t.Errorf("got error %v, want %q", err, tt.want)
			}
		})
	}
}
