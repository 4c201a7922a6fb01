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
	header := false
	for i, a := range out {
		name, value, joined := strings.Cut(a, "=")
		switch {
		case a == "--header":
			header = true
			continue
		case strings.HasPrefix(a, "-"):
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
	for _, t := range texts {
		key, value, ok := strings.Cut(t, "=")
		if !ok || key == "" {
			return nil, fmt.Errorf("%s %q: want KEY=VALUE", flag, t)
		}
		out = append(out, Pair{Key: key, Value: value})
	}
	return out, nil
}

// ParsePercentiles reads a list of numbers from 0 to 100.
func ParsePercentiles(flag, list string) (out []float64, err error) {
	for text := range strings.SplitSeq(list, ",") {
		p, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
		if err != nil || !(p >= 0 && p <= 100) {
			return nil, fmt.Errorf("%s: %q is no number from 0 to 100", flag, text)
		}
		out = append(out, p)
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
