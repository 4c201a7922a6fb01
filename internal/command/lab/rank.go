package lab

// Many settings in the order of their predictions.

import (
	"cmp"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"ossian/internal/bench/sweep"
	"ossian/internal/lab/predict"
	"ossian/internal/nearest"
)

// mostRanked bounds the settings of one ranking.
const mostRanked = 10_000

// A candidate is a setting on its way into the ranking.
type candidate struct {
	Rank       int                 `json:"rank,omitempty"` // from 1; 0 = it cannot run, or nothing is known of it
	Name       string              `json:"name"`
	Settings   predict.Settings    `json:"settings"`
	Objective  predict.Estimate    `json:"objective"` // of one device where it is a throughput
	Bound      bool                `json:"bound,omitempty"`
	Failed     string              `json:"failed,omitempty"`
	Prediction *predict.Prediction `json:"prediction,omitempty"`
}

// runRank predicts the settings that the flags name and writes them in order.
func runRank(cmd *cobra.Command, head string, scenario predict.Scenario, flags *predictFlags) error {
	if !slices.ContainsFunc(shown, func(line struct{ key, title string }) bool { return line.key == flags.by }) {
		var keys []string
		for _, line := range shown {
			keys = append(keys, line.key)
		}
		return fmt.Errorf("--by %s: one of %s expected%s", flags.by, strings.Join(keys, ", "), nearest.Hint(flags.by, keys))
	}
	candidates, err := flags.candidates(scenario.Settings)
	if err != nil {
		return err
	}
	if err := predictAll(cmd, scenario, candidates, flags.by); err != nil {
		return err
	}
	higher := strings.Contains(flags.by, "throughput")
	slices.SortStableFunc(candidates, func(first, second candidate) int {
		switch {
		case (first.Failed == "") != (second.Failed == ""):
			return cmp.Compare(len(first.Failed), len(second.Failed)) // what runs comes first
		case higher:
			return cmp.Compare(second.Objective.Value, first.Objective.Value)
		}
		return cmp.Compare(first.Objective.Value, second.Objective.Value)
	})
	for i := range candidates {
		if candidates[i].Failed == "" {
			candidates[i].Rank = i + 1
		}
	}
	if flags.asJSON {
		return writeJSON(cmd.OutOrStdout(), map[string]any{"by": flags.by, "settings": candidates})
	}
	return writeText(cmd.OutOrStdout(), rankText(head, flags.by, candidates))
}

// candidates are the settings of the parameter file, or the combinations of what is to be tried, over
// the settings that were given.
func (f *predictFlags) candidates(base predict.Settings) ([]candidate, error) {
	if f.rank != "" && len(f.try) > 0 {
		return nil, errors.New("--rank and --try: one of the two expected")
	}
	if f.rank != "" {
		return fromFile(f.rank, base)
	}
	// Each flag multiplies what there is by its values. The bound is checked while that grows,
	// before memory does.
	all := []candidate{{Settings: base}}
	for _, text := range f.try {
		name, values, ok := strings.Cut(text, "=")
		if !ok || values == "" {
			return nil, fmt.Errorf("--try %s: FLAG=A,B,C expected", text)
		}
		var more []candidate
		for _, before := range all {
			for value := range strings.SplitSeq(values, ",") {
				next := before
				next.Name = strings.TrimSpace(before.Name + " " + name + "=" + value)
				if err := setting(&next.Settings, name, value); err != nil {
					return nil, fmt.Errorf("--try %s: %w", text, err)
				}
				if more = append(more, next); len(more) > mostRanked {
					return nil, fmt.Errorf("--try: more than %d combinations", mostRanked)
				}
			}
		}
		all = more
	}
	return all, nil
}

// fromFile reads settings from a parameter file.
func fromFile(path string, base predict.Settings) ([]candidate, error) {
	objects, err := sweep.ReadParams(path)
	if err != nil {
		return nil, err
	}
	if len(objects) > mostRanked {
		return nil, fmt.Errorf("%s: %d settings, at most %d expected", path, len(objects), mostRanked)
	}
	var all []candidate
	for _, object := range objects {
		next := candidate{Name: object.Name(), Settings: base}
		for _, member := range object {
			// Members with an underscore, such as _benchmark_name, name the setting and are no part of it.
			if strings.HasPrefix(member.Key, "_") {
				continue
			}
			if err := setting(&next.Settings, member.Key, strings.Trim(string(member.Value), `"`)); err != nil {
				return nil, fmt.Errorf("%s: %s: %w", path, next.Name, err)
			}
		}
		all = append(all, next)
	}
	return all, nil
}

// predictAll fills candidates in, a few at a time.
func predictAll(cmd *cobra.Command, scenario predict.Scenario, candidates []candidate, by string) error {
	var wait sync.WaitGroup
	next := make(chan *candidate)
	for range min(runtime.GOMAXPROCS(0), len(candidates)) {
		wait.Go(func() {
			for one := range next {
				own := scenario
				own.Settings = one.Settings
				prediction, err := predict.Run(cmd.Context(), own)
				if err != nil {
					one.Failed = err.Error()
					continue
				}
				one.Prediction, one.Bound = &prediction, len(prediction.Unknown) > 0
				one.Objective = prediction.Metrics[by]
				// Settings on different numbers of devices compare by what one device gives.
				if devices := float64(max(one.Settings.TP, 1)); strings.Contains(by, "throughput") {
					one.Objective = predict.Estimate{Value: one.Objective.Value / devices, Low: one.Objective.Low / devices, High: one.Objective.High / devices}
				}
			}
		})
	}
	for i := range candidates {
		next <- &candidates[i]
	}
	close(next)
	wait.Wait()
	return cmd.Context().Err()
}

// rankText is the table of a ranking.
func rankText(head, by string, candidates []candidate) string {
	var out strings.Builder
	title := by
	if strings.Contains(by, "throughput") {
		title += " per device"
	}
	width := 20
	for i := range candidates {
		width = max(width, utf8.RuneCountInString(candidates[i].Name))
	}
	fmt.Fprintf(&out, "%s\nby %s\n\n%4s  %-*s %10s  %-22s %10s %10s %6s\n", head, title, "rank", width, "setting", "predicted", "95 % interval", "TTFT ms", "TPOT ms", "preem.")
	var unknown, assumed []string
	for _, one := range candidates {
		if one.Failed != "" {
			fmt.Fprintf(&out, "%4s  %-*s %s\n", "-", width, one.Name, one.Failed)
			continue
		}
		prediction := one.Prediction
		unknown, assumed = prediction.Unknown, prediction.Assumptions
		fmt.Fprintf(&out, "%4d  %-*s %10s  %-22s %10s %10s %6d\n", one.Rank, width, one.Name, number(one.Objective.Value), interval(one.Objective, one.Bound),
			number(prediction.Metrics["mean_ttft_ms"].Value), number(prediction.Metrics["mean_tpot_ms"].Value), prediction.Preemptions)
	}
	out.WriteString(caveats(unknown, assumed))
	return out.String()
}
