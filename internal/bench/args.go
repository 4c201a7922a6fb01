package bench

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// HideSecrets returns a command line without what nobody should read in a report: the values
// of --header.
func HideSecrets(args []string) []string {
	out := slices.Clone(args)
	header := false // the words that follow are headers: one flag may take several
	for i, arg := range out {
		name, value, joined := strings.Cut(arg, "=")
		switch {
		case arg == "--header":
			header = true
			continue
		case strings.HasPrefix(arg, "-"):
			header = false
			if joined && name == "--header" {
				key, _, _ := strings.Cut(value, "=")
				out[i] = name + "=" + key + "=…"
			}
			continue
		}
		if header {
			out[i] = name + "=…"
		}
	}
	return out
}

// ParsePairs reads KEY=VALUE, as often as a flag has it.
func ParsePairs(flag string, texts []string) (out []Pair, err error) {
	for _, text := range texts {
		key, value, ok := strings.Cut(text, "=")
		if !ok || key == "" {
			return nil, fmt.Errorf("%s %q: want KEY=VALUE", flag, text)
		}
		out = append(out, Pair{Key: key, Value: value})
	}
	return out, nil
}

// ParsePercentiles reads a list of numbers from 0 to 100.
func ParsePercentiles(flag, list string) (out []float64, err error) {
	for text := range strings.SplitSeq(list, ",") {
		percentile, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
		if err != nil || !(percentile >= 0 && percentile <= 100) {
			return nil, fmt.Errorf("%s: %q is no number from 0 to 100", flag, text)
		}
		out = append(out, percentile)
	}
	return out, nil
}

// ParseSLO reads METRIC:MS of --goodput.
func ParseSLO(text string) (SLO, error) {
	name, number, _ := strings.Cut(text, ":")
	ms, err := strconv.ParseFloat(number, 64)
	if err != nil || !(ms >= 0 && ms < 1e12) || (name != "ttft" && name != "tpot" && name != "e2el") {
		return SLO{}, fmt.Errorf("--goodput %q: want ttft:MS, tpot:MS or e2el:MS", text)
	}
	return SLO{Metric: name, Limit: time.Duration(ms * 1e6)}, nil
}
