package config

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"ossian/internal/draft"
	"ossian/internal/nearest"
)

// A speculation is --speculative-config while it is read: vLLM's keys, and two of our own.
type speculation struct {
	draft.Settings
	given map[string]json.RawMessage
	least int // prompt_lookup_min; 0 = not given
	most  int // prompt_lookup_max, likewise
	notes []string
}

// speculationExample ends errors about the whole value.
const speculationExample = `an object expected, such as {"method": "suffix", "num_speculative_tokens": 7}`

// speculationKeys says for each key how it is read; speculationRenamed, what is meant by names of
// other versions and places.
var (
	speculationKeys = map[string]func(*speculation, json.RawMessage) error{
		"method": func(s *speculation, raw json.RawMessage) error {
			return word(raw, &s.Method, draft.NGram, draft.Suffix, draft.EAGLE3, draft.Model)
		},
		"model":                  func(s *speculation, raw json.RawMessage) error { return word(raw, &s.Draft) },
		"num_speculative_tokens": func(s *speculation, raw json.RawMessage) error { return whole(raw, &s.Tokens, 1, draft.MostTokens) },
		"prompt_lookup_min":      func(s *speculation, raw json.RawMessage) error { return whole(raw, &s.least, 1, draft.MostMatch) },
		"prompt_lookup_max":      func(s *speculation, raw json.RawMessage) error { return whole(raw, &s.most, 1, draft.MostMatch) },
		"suffix_decoding_max_tree_depth": func(s *speculation, raw json.RawMessage) error {
			s.note("suffix_decoding_max_tree_depth: there is no tree; up to %d ids before a place are compared", draft.MostMatch)
			return whole(raw, new(int), 1, anyCount)
		},
		"suffix_decoding_max_cached_requests": func(s *speculation, raw json.RawMessage) error {
			return whole(raw, &s.CachedRequests, 0, 1<<20)
		},
		"suffix_decoding_max_spec_factor": func(s *speculation, raw json.RawMessage) error { return decimal(raw, &s.Factor, 0.01, 1000) },
		"suffix_decoding_min_token_prob":  func(s *speculation, raw json.RawMessage) error { return decimal(raw, &s.MinTokenProb, 0, 1) },
		"num_speculative_tokens_per_batch_size": func(s *speculation, raw json.RawMessage) (err error) {
			s.Batches, err = batches(raw)
			return err
		},
		"draft_tensor_parallel_size": func(s *speculation, raw json.RawMessage) error {
			return errOr(whole(raw, new(int), 1, 1), "only 1 is possible: there is one device, and nothing to split")
		},
		"max_model_len": func(s *speculation, raw json.RawMessage) error { return whole(raw, &s.DraftModelLen, 1, anyCount) },
		"quantization": func(s *speculation, raw json.RawMessage) error {
			s.note("quantization: the files of the model that guesses say how its weights are stored; --cpu-weights counts for it, too")
			return word(raw, &s.Quantization)
		},
		"rejection_sample_method": func(s *speculation, raw json.RawMessage) error {
			s.note("rejection_sample_method: a guess is kept where it is the id that would have been drawn without it, so answers stay the same")
			return word(raw, new(string))
		},
		"draft_sample_method": func(s *speculation, raw json.RawMessage) error {
			s.note("draft_sample_method: the likeliest id is guessed")
			return word(raw, new(string))
		},
		"enforce_eager": func(s *speculation, raw json.RawMessage) error {
			s.note("enforce_eager: steps are not captured as graphs")
			return truth(raw, new(bool))
		},
		"adaptive":   func(s *speculation, raw json.RawMessage) error { return truth(raw, &s.Adaptive) },
		"aux_offset": func(s *speculation, raw json.RawMessage) error { return whole(raw, &s.AuxOffset, 0, 1) },
	}
	speculationRenamed = map[string]string{
		"tensor_parallel_size": "draft_tensor_parallel_size", "speculative_model": "model", "draft_model": "model",
		"num_draft_tokens": "num_speculative_tokens", "speculative_num_draft_tokens": "num_speculative_tokens", "draft_max": "num_speculative_tokens",
		"ngram_prompt_lookup_min": "prompt_lookup_min", "ngram_prompt_lookup_max": "prompt_lookup_max",
		"disable_by_batch_size": "num_speculative_tokens_per_batch_size", "speculative_disable_by_batch_size": "num_speculative_tokens_per_batch_size",
		"enable_adaptive_verification": "adaptive",
	}
)

// speculative reads --speculative-config. "" = no guesses: nil. The notes say what accepted keys
// mean here.
func speculative(text string) (*draft.Settings, []string, error) {
	if text == "" {
		return nil, nil, nil
	}
	reading := &speculation{Settings: draft.Settings{CachedRequests: 10_000, Factor: 1, MinTokenProb: 0.1, Adaptive: true}}
	if err := json.Unmarshal([]byte(text), &reading.given); err != nil || reading.given == nil {
		return nil, nil, errors.New(speculationExample)
	}
	if key := twice(text); key != "" {
		return nil, nil, fmt.Errorf("key %.60q is given twice", key)
	}
	for _, key := range slices.Sorted(maps.Keys(reading.given)) {
		read := speculationKeys[key]
		if read == nil {
			return nil, nil, unknownSpeculation(key)
		}
		if raw := reading.given[key]; string(raw) != "null" { // as vLLM: the default
			if err := read(reading, raw); err != nil {
				return nil, nil, fmt.Errorf("%s: %w", key, err)
			}
		}
	}
	if err := reading.complete(); err != nil {
		return nil, nil, err
	}
	return &reading.Settings, reading.notes, nil
}

// unknownSpeculation says which key was meant.
func unknownSpeculation(key string) error {
	if other := speculationRenamed[strings.ReplaceAll(key, "-", "_")]; other != "" {
		return fmt.Errorf("unknown key %.60q: it is called %s here", key, other)
	}
	known := slices.Sorted(maps.Keys(speculationKeys))
	if hint := nearest.Hint(strings.ReplaceAll(key, "-", "_"), known); hint != "" {
		return fmt.Errorf("unknown key %.60q%s", key, hint)
	}
	return fmt.Errorf("unknown key %.60q; there are %s", key, strings.Join(known, ", "))
}

// twice returns a key that stands twice in an object of JSON, of which decoding keeps one silently;
// "" = there is none. Its text is well-formed.
func twice(text string) string {
	decoder := json.NewDecoder(strings.NewReader(text))
	_, _ = decoder.Token() // the bracket
	for seen := map[string]bool{}; decoder.More(); {
		token, _ := decoder.Token()
		key, _ := token.(string)
		if seen[key] {
			return key
		}
		seen[key] = true
		_ = decoder.Decode(new(json.RawMessage))
	}
	return ""
}

// complete chooses what was left out, and finds what contradicts itself.
func (s *speculation) complete() error {
	if s.Method == "" && (s.Draft == draft.NGram || s.Draft == draft.Suffix) {
		s.Method, s.Draft = s.Draft, "" // vLLM's way to say so
	}
	switch {
	case s.Method == "" && s.Draft == "":
		s.Method = draft.Suffix
	case (s.Method == draft.EAGLE3 || s.Method == draft.Model) && s.Draft == "":
		return fmt.Errorf("method %s needs model: the name or path of what guesses", s.Method)
	case s.Lookup() && s.Draft != "":
		return fmt.Errorf("method %s guesses without a model: leave model out", s.Method)
	}
	if s.Tokens == 0 {
		if s.Tokens = 7; s.Method == draft.EAGLE3 {
			s.Tokens = 3
		}
	}
	for _, batch := range s.Batches {
		if batch.Tokens > s.Tokens {
			return fmt.Errorf("num_speculative_tokens_per_batch_size: %d guesses with %d to %d sequences, num_speculative_tokens is %d: at most as many expected", batch.Tokens, batch.From, batch.To, s.Tokens)
		}
	}
	return s.windows()
}

// windows says how many ids have to be alike, and what of the rest is the method's.
func (s *speculation) windows() error {
	if s.Method != draft.NGram {
		if s.least > 0 || s.most > 0 {
			s.note("prompt_lookup_min and prompt_lookup_max: of method ngram alone")
		}
		s.Shortest = draft.DefaultShortest
		return nil
	}
	s.Shortest, s.Longest = cmp.Or(s.least, s.most, 5), cmp.Or(s.most, s.least, 5)
	if s.Shortest > s.Longest {
		return fmt.Errorf("prompt_lookup_min %d is above prompt_lookup_max %d", s.Shortest, s.Longest)
	}
	// Keys of the other method have no effect, and are said to have none.
	for key := range s.given {
		if strings.HasPrefix(key, "suffix_decoding_") {
			s.note("%s: of method suffix alone", key)
		}
	}
	slices.Sort(s.notes)
	s.Factor, s.MinTokenProb, s.CachedRequests = 0, 0, 0
	return nil
}

func (s *speculation) note(format string, args ...any) {
	s.notes = append(s.notes, "--speculative-config: "+fmt.Sprintf(format, args...))
}

// word reads a text that is not empty, one of values if there are any.
func word(raw json.RawMessage, to *string, values ...string) error {
	if json.Unmarshal(raw, to) != nil || *to == "" {
		return fmt.Errorf("a text expected, found %.40s", raw)
	}
	if len(values) > 0 && !slices.Contains(values, *to) {
		return fmt.Errorf("%s expected, found %.40q%s", oneOf(values), *to, nearest.Hint(*to, values))
	}
	return nil
}

// whole reads a whole number.
func whole(raw json.RawMessage, to *int, least, most int) error {
	if json.Unmarshal(raw, to) != nil || *to < least || *to > most {
		return fmt.Errorf("a whole number from %d to %d expected, found %.40s", least, most, raw)
	}
	return nil
}

// decimal reads a number.
func decimal(raw json.RawMessage, to *float64, least, most float64) error {
	if json.Unmarshal(raw, to) != nil || *to < least || *to > most {
		return fmt.Errorf("a number from %v to %v expected, found %.40s", least, most, raw)
	}
	return nil
}

// truth reads true or false.
func truth(raw json.RawMessage, to *bool) error {
	if json.Unmarshal(raw, to) != nil {
		return fmt.Errorf("true or false expected, found %.40s", raw)
	}
	return nil
}

// batches reads rows of the first and last number of sequences, and the guesses of each.
func batches(raw json.RawMessage) (out []draft.BatchLimit, err error) {
	var rows [][]int
	if json.Unmarshal(raw, &rows) != nil {
		return nil, fmt.Errorf("a list such as [[1, 8, 7], [9, 64, 2]] expected, found %.60s", raw)
	}
	before := 0
	for _, row := range rows {
		if len(row) != 3 {
			return nil, fmt.Errorf("%v: from, to and a number of guesses expected", row)
		}
		if row[0] <= before || row[1] < row[0] || row[2] < 0 || row[2] > draft.MostTokens {
			return nil, fmt.Errorf("%v: sequences in ascending order and 0 to %d guesses expected", row, draft.MostTokens)
		}
		out, before = append(out, draft.BatchLimit{From: row[0], To: row[1], Tokens: row[2]}), row[1]
	}
	return out, nil
}

// errOr gives an error with other words.
func errOr(err error, words string) error {
	if err != nil {
		return errors.New(words)
	}
	return nil
}
