// Package forecast translates between those who plan and the predictor: flags of an engine become
// settings, workloads of a plan become prompts, names become models and machines (lab.md 5). A
// campaign and the verification of documents get predictions through it without knowing scenarios.
//
// It never fills a gap in silence: a flag that the predictor does not model, a data set whose
// prompts are not at hand and a kernel without a calibration are said, and nothing is predicted
// where they decide.
package forecast

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"ossian/internal/lab/predict"
	"ossian/internal/nearest"
)

// ErrNotModelled is what Set returns for a flag that the predictor has no part for.
var ErrNotModelled = errors.New("not part of the predictor")

// A setter puts the text of a flag into settings.
type setter func(*predict.Settings, string) error

// setters are the flags that the predictor models, by their long names in vLLM, which Ossian
// shares.
var setters = map[string]setter{
	"tensor-parallel-size":    whole(func(s *predict.Settings) *int { return &s.TP }),
	"max-num-seqs":            whole(func(s *predict.Settings) *int { return &s.MaxSeqs }),
	"max-num-batched-tokens":  whole(func(s *predict.Settings) *int { return &s.MaxTokens }),
	"max-model-len":           whole(func(s *predict.Settings) *int { return &s.MaxLen }),
	"num-gpu-blocks-override": whole(func(s *predict.Settings) *int { return &s.Blocks }),
	"kv-cache-dtype":          func(s *predict.Settings, text string) error { s.KVType = text; return nil },
	"gpu-memory-utilization": func(s *predict.Settings, text string) (err error) {
		s.MemoryShare, err = strconv.ParseFloat(text, 64)
		return err
	},
	"async-scheduling":      truth(func(s *predict.Settings) **bool { return &s.Async }),
	"enable-prefix-caching": truth(func(s *predict.Settings) **bool { return &s.PrefixCaching }),
}

// short are other names of the same flags.
var short = map[string]string{"tp": "tensor-parallel-size", "tp-size": "tensor-parallel-size"}

// whole makes a setter of a number that is not negative; it may be written with k or m.
func whole(place func(*predict.Settings) *int) setter {
	return func(s *predict.Settings, text string) error {
		number, factor := strings.ToLower(text), 1
		switch {
		case strings.HasSuffix(number, "k"):
			number, factor = number[:len(number)-1], 1<<10
		case strings.HasSuffix(number, "m"):
			number, factor = number[:len(number)-1], 1<<20
		}
		n, err := strconv.Atoi(number)
		if err != nil || n < 0 || n > 1<<30/factor {
			return fmt.Errorf("%q: a whole number of 0 or more expected", text)
		}
		*place(s) = n * factor
		return nil
	}
}

// truth makes a setter of a switch.
func truth(place func(*predict.Settings) **bool) setter {
	return func(s *predict.Settings, text string) error {
		on, err := strconv.ParseBool(text)
		if err != nil {
			return fmt.Errorf("%q: true or false expected", text)
		}
		*place(s) = &on
		return nil
	}
}

// Flags lists the flags that the predictor models.
func Flags() []string { return slices.Sorted(maps.Keys(setters)) }

// Set puts a flag, by its long name without dashes, into settings; "no-" before a switch turns it
// round. The error wraps ErrNotModelled where the flag exists for the engine alone.
func Set(settings *predict.Settings, name, value string) error {
	name = strings.ReplaceAll(strings.TrimLeft(name, "-"), "_", "-")
	if long, ok := short[name]; ok {
		name = long
	}
	if positive, negated := strings.CutPrefix(name, "no-"); negated {
		if on, err := strconv.ParseBool(value); err == nil && setters[positive] != nil {
			name, value = positive, strconv.FormatBool(!on)
		}
	}
	set, ok := setters[name]
	if !ok {
		return fmt.Errorf("flag %s: %w%s", name, ErrNotModelled, nearest.Hint(name, Flags()))
	}
	// The largest number that settings are compared with elsewhere is of 32 bits.
	if err := set(settings, value); err != nil {
		return fmt.Errorf("flag %s: %w", name, err)
	}
	return nil
}

// idle are flags that change neither what is computed nor when, beyond what a calibration of the
// engine holds: names, logs, addresses, and what is the default anyway.
var idle = []string{"port", "host", "served-model-name", "api-key", "seed", "trust-remote-code", "disable-log-requests", "disable-log-stats",
	"enable-chunked-prefill", "log-level", "uvicorn-log-level", "download-dir", "no-enable-log-requests", "stream-interval"}

// Words puts the flags of a serve command into settings and returns those that the predictor does
// not model.
func Words(settings *predict.Settings, words []string) (unknown []string, err error) {
	for i := 0; i < len(words); i++ {
		name, isFlag := strings.CutPrefix(words[i], "--")
		if !isFlag && words[i] == "-tp" {
			name, isFlag = "tp", true
		}
		if !isFlag {
			continue
		}
		name, value, given := strings.Cut(name, "=")
		if !given && i+1 < len(words) && !strings.HasPrefix(words[i+1], "-") {
			i, value = i+1, words[i+1]
		} else if !given {
			value = "true"
		}
		if slices.Contains(idle, strings.ReplaceAll(name, "_", "-")) {
			continue
		}
		switch err := Set(settings, name, value); {
		case errors.Is(err, ErrNotModelled):
			unknown = append(unknown, name)
		case err != nil:
			return unknown, err
		}
	}
	return unknown, nil
}
