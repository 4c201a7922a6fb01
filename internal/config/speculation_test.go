package config

import (
	"reflect"
	"strings"
	"testing"

	"ossian/internal/draft"
)

// What is left out has defaults, by method.
func TestSpeculation(t *testing.T) {
	suffix := draft.Settings{Method: draft.Suffix, Tokens: 7, Shortest: 2, Factor: 1, MinTokenProb: 0.1, CachedRequests: 10_000, Adaptive: true}
	ngram := draft.Settings{Method: draft.NGram, Tokens: 7, Shortest: 5, Longest: 5, Adaptive: true}
	with := func(s draft.Settings, change func(*draft.Settings)) *draft.Settings { change(&s); return &s }
	head := func(s *draft.Settings) { s.Method, s.Draft, s.Tokens = draft.EAGLE3, "a/head", 3 }
	for text, want := range map[string]*draft.Settings{
		``:   nil,
		`{}`: &suffix,
		`{"method": "suffix", "num_speculative_tokens": 7}`: &suffix,
		`{"method": "suffix", "model": null}`:               &suffix,
		`{"method": "suffix", "num_speculative_tokens": 31, "adaptive": false}`: with(suffix, func(s *draft.Settings) {
			s.Tokens, s.Adaptive = 31, false
		}),
		`{"suffix_decoding_max_cached_requests": 0, "suffix_decoding_max_spec_factor": 2.5, "suffix_decoding_min_token_prob": 0}`: with(suffix, func(s *draft.Settings) {
			s.CachedRequests, s.Factor, s.MinTokenProb = 0, 2.5, 0
		}),
		`{"num_speculative_tokens_per_batch_size": [[1, 4, 7], [5, 16, 0]]}`: with(suffix, func(s *draft.Settings) {
			s.Batches = []draft.BatchLimit{{From: 1, To: 4, Tokens: 7}, {From: 5, To: 16, Tokens: 0}}
		}),
		`{"method": "ngram"}`:                         &ngram,
		`{"model": "ngram"}`:                          &ngram,
		`{"method": "ngram", "prompt_lookup_max": 4}`: with(ngram, func(s *draft.Settings) { s.Shortest, s.Longest = 4, 4 }),
		`{"method": "ngram", "prompt_lookup_min": 3}`: with(ngram, func(s *draft.Settings) { s.Shortest, s.Longest = 3, 3 }),
		`{"method": "ngram", "prompt_lookup_min": 2, "prompt_lookup_max": 9, "num_speculative_tokens": 5}`: with(ngram, func(s *draft.Settings) {
			s.Shortest, s.Longest, s.Tokens = 2, 9, 5
		}),
		`{"method": "eagle3", "model": "a/head"}`: with(suffix, head),
		`{"method": "eagle3", "model": "a/head", "draft_tensor_parallel_size": 1, "aux_offset": 1, "max_model_len": 2048, "quantization": "fp8"}`: with(suffix, func(s *draft.Settings) {
			head(s)
			s.AuxOffset, s.DraftModelLen, s.Quantization = 1, 2048, "fp8"
		}),
		`{"method": "draft_model", "model": "a/small"}`: with(suffix, func(s *draft.Settings) { s.Method, s.Draft = draft.Model, "a/small" }),
		`{"model": "a/head"}`:                           with(suffix, func(s *draft.Settings) { s.Method, s.Draft = "", "a/head" }),
	} {
		got, _, err := speculative(text)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, %v, want %+v", text, got, err, want)
		}
	}
}

// Errors name the key and what is right.
func TestSpeculationErrors(t *testing.T) {
	for text, want := range map[string]string{
		`[]`:                                      `an object expected, such as {"method"`,
		`null`:                                    `an object expected`,
		`3`:                                       `an object expected`,
		`{"method": "sufix"}`:                     `method: ngram, suffix, eagle3 or draft_model expected, found "sufix"; did you mean suffix?`,
		`{"method": "mtp", "model": "x"}`:         `method: ngram, suffix, eagle3 or draft_model expected, found "mtp"`,
		`{"method": 1}`:                           `method: a text expected, found 1`,
		`{"tensor_parallel_size": 1}`:             `unknown key "tensor_parallel_size": it is called draft_tensor_parallel_size here`,
		`{"disable_by_batch_size": 8}`:            `it is called num_speculative_tokens_per_batch_size here`,
		`{"num_speculative_token": 3}`:            `unknown key "num_speculative_token"; did you mean num_speculative_tokens?`,
		`{"zzzzzzzz": 3}`:                         `unknown key "zzzzzzzz"; there are adaptive, aux_offset, `,
		`{"adaptive": true, "adaptive": false}`:   `key "adaptive" is given twice`,
		`{"num_speculative_tokens": 0}`:           `num_speculative_tokens: a whole number from 1 to 31 expected, found 0`,
		`{"num_speculative_tokens": 32}`:          `from 1 to 31 expected, found 32`,
		`{"num_speculative_tokens": "7"}`:         `from 1 to 31 expected, found "7"`,
		`{"num_speculative_tokens": 2.5}`:         `found 2.5`,
		`{"draft_tensor_parallel_size": 2}`:       `draft_tensor_parallel_size: only 1 is possible`,
		`{"prompt_lookup_max": 65}`:               `prompt_lookup_max: a whole number from 1 to 64 expected`,
		`{"adaptive": "yes"}`:                     `adaptive: true or false expected`,
		`{"aux_offset": 2}`:                       `aux_offset: a whole number from 0 to 1 expected`,
		`{"method": "eagle3"}`:                    `method eagle3 needs model`,
		`{"method": "draft_model"}`:               `method draft_model needs model`,
		`{"method": "suffix", "model": "x"}`:      `method suffix guesses without a model`,
		`{"suffix_decoding_min_token_prob": 1.5}`: `a number from 0 to 1 expected, found 1.5`,
		`{"suffix_decoding_max_spec_factor": 0}`:  `a number from 0.01 to 1000 expected`,
		`{"method": "ngram", "prompt_lookup_min": 5, "prompt_lookup_max": 4}`:               `prompt_lookup_min 5 is above prompt_lookup_max 4`,
		`{"num_speculative_tokens_per_batch_size": 4}`:                                      `a list such as [[1, 8, 7]`,
		`{"num_speculative_tokens_per_batch_size": [[1, 4]]}`:                               `from, to and a number of guesses expected`,
		`{"num_speculative_tokens_per_batch_size": [[1, 4, 2], [4, 8, 1]]}`:                 `[4 8 1]: sequences in ascending order`,
		`{"num_speculative_tokens": 3, "num_speculative_tokens_per_batch_size": [[1,4,5]]}`: `5 guesses with 1 to 4 sequences, num_speculative_tokens is 3`,
	} {
		settings, _, err := speculative(text)
		if err == nil || settings != nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %+v, error %v, want %q in it", text, settings, err, want)
		}
	}
}

// The flag comes as JSON, in dots, by its alias, as a mapping of YAML; notes say what is taken
// with another meaning.
func TestSpeculationForms(t *testing.T) {
	file := func(text string) func(string) ([]byte, error) {
		return func(string) ([]byte, error) { return []byte(text), nil }
	}
	for name, src := range map[string]Source{
		"JSON":         {Args: []string{"--speculative-config", `{"method":"ngram","num_speculative_tokens":3}`}},
		"alias":        {Args: []string{"-sc", `{"method":"ngram","num_speculative_tokens":3}`}},
		"dots":         {Args: []string{"--speculative-config.method", "ngram", "--speculative_config.num_speculative_tokens=3"}},
		"short":        {Args: []string{"-sc.method", "ngram", "-sc.num_speculative_tokens", "3"}},
		"YAML":         {Args: []string{"--config", "x.yaml"}, ReadFile: file("speculative-config:\n  method: ngram\n  num_speculative_tokens: 3\n")},
		"text in YAML": {Args: []string{"--config", "x.yaml"}, ReadFile: file(`speculative_config: '{"method":"ngram","num_speculative_tokens":3}'`)},
		"variable":     {Env: []string{`OSSIAN_SPECULATIVE_CONFIG={"method":"ngram","num_speculative_tokens":3}`}},
	} {
		c, err := Load(src)
		if err != nil || c.Speculation == nil || c.Speculation.Method != draft.NGram || c.Speculation.Tokens != 3 || len(c.Notes) > 0 {
			t.Errorf("%s: %+v, %v", name, c, err)
		}
	}
	c, err := Load(Source{Args: []string{"-sc", `{"rejection_sample_method":"standard","draft_sample_method":"greedy","suffix_decoding_max_tree_depth":24,"prompt_lookup_max":4}`}})
	if err != nil || len(c.Notes) != 4 || !strings.Contains(c.Notes[1], "answers stay the same") {
		t.Errorf("%q, %v", c.Notes, err)
	}
	if _, err := Load(Source{Args: []string{"--speculative-config", `{"tensor_parallel_size":1}`}}); err == nil || !strings.Contains(err.Error(), `--speculative-config {"tensor_parallel_size":1} (command line): unknown key`) {
		t.Errorf("error %v", err)
	}
	c, err = Load(Source{Args: []string{"openai/gpt-oss-120b", "--config", "testdata/eagle3.yaml"}})
	if err != nil || c.Speculation.Method != draft.EAGLE3 || c.Speculation.Draft != "nvidia/gpt-oss-120b-Eagle3-v2" || c.Speculation.Tokens != 3 {
		t.Errorf("recipe: %+v, %v", c, err)
	}
	if c, err := Load(Source{}); err != nil || c.Speculation != nil {
		t.Errorf("without the flag: %+v, %v", c, err)
	}
}

func FuzzSpeculation(f *testing.F) {
	f.Add(`{"method":"ngram","prompt_lookup_max":4}`)
	f.Add(`{"num_speculative_tokens_per_batch_size":[[1,4,7],[5,16,0]]}`)
	f.Add(`{"model":"x","aux_offset":1}`)
	f.Fuzz(func(t *testing.T, text string) {
		s, _, err := speculative(text)
		if err != nil || s == nil {
			return
		}
		if s.Tokens < 1 || s.Tokens > draft.MostTokens || s.Shortest < 1 || s.Shortest > draft.MostMatch || s.CachedRequests < 0 || s.MinTokenProb < 0 || s.MinTokenProb > 1 {
			t.Errorf("%q: %+v", text, s)
		}
		index := s.NewIndex() // whatever was read can be used
		index.Add(1, 2, 3, 1, 2, 3, 1, 2)
		index.Draft(nil, s.Tokens)
	})
}
