// Package shards puts the recordings of several clients together that made one run: each sent
// every nth query of the same workload at the times of the same arrivals. What comes out is a
// recording like that of one client, of which every number is computed anew: percentiles of parts
// are never averaged. It knows when parts are not of one run, and says which and why.
package shards

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"ossian/internal/bench"
)

// apart is how far the beginnings of two shards may be from each other, by the server's clock.
const apart = 500 * time.Millisecond

// A Part is what one client recorded.
type Part struct {
	Name string // of its file, for errors
	*bench.Recording
}

// Merge returns the recording of all parts of a run. It fails if they are not all parts of one run,
// each once, that began together. The parts stay as they are.
func Merge(parts []Part) (*bench.Recording, error) {
	if len(parts) == 0 {
		return nil, errors.New("no recordings")
	}
	for _, check := range []func([]Part) error{complete, alike, together} {
		if err := check(parts); err != nil {
			return nil, err
		}
	}
	// Times of each part count from its own beginning; those of the whole from the first.
	parts = slices.Clone(parts)
	slices.SortStableFunc(parts, func(a, b Part) int { return a.Began.Compare(b.Began) })
	whole := &bench.Recording{Setup: parts[0].Setup, Began: parts[0].Began, Client: bench.Client{Kernel: true}}
	shard := *whole.Setup.Shard
	shard.Index, shard.Clock = bench.All, nil
	whole.Setup.Shard = &shard
	for i := range parts {
		add(whole, parts[i].Recording, parts[i].Began.Sub(whole.Began))
	}
	slices.SortFunc(whole.Samples, func(a, b bench.Sample) int { return a.Index - b.Index })
	for i := 1; i < len(whole.Samples); i++ {
		if index := whole.Samples[i].Index; index == whole.Samples[i-1].Index {
			return nil, fmt.Errorf("query %d was sent by two shards: they are not of one run", index)
		}
	}
	whole.RateSteps = firstSteps(whole.RateSteps)
	return whole, nil
}

// complete returns an error unless every shard is there once.
func complete(parts []Part) error {
	seen := map[int]string{}
	for _, part := range parts {
		shard := part.Setup.Shard
		switch {
		case shard == nil || shard.Index < 0 || shard.Index >= shard.Of:
			return fmt.Errorf("%s: no shard of a run; ossian bench serve --shard I/N makes one", part.Name)
		case shard.Of != parts[0].Setup.Shard.Of:
			return fmt.Errorf("%s is shard %v, %s is shard %v: of two runs", part.Name, shard, parts[0].Name, parts[0].Setup.Shard)
		case seen[shard.Index] != "":
			return fmt.Errorf("%s and %s are both shard %v", seen[shard.Index], part.Name, shard)
		}
		seen[shard.Index] = part.Name
	}
	// A part that is missing leaves no trace in the others.
	for i := range parts[0].Setup.Shard.Of {
		if seen[i] == "" {
			return fmt.Errorf("shard %d/%d is missing", i, parts[0].Setup.Shard.Of)
		}
	}
	return nil
}

// own are the members of a Setup in which shards of one run differ: which they are, how they were
// started, where they ran.
var own = []string{"Shard", "Args", "Environment", "Metadata"}

// alike returns an error unless all parts were asked to do the same: the same server, workload and
// options.
func alike(parts []Part) error {
	first := reflect.ValueOf(parts[0].Setup)
	for _, part := range parts[1:] {
		setup := reflect.ValueOf(part.Setup)
		for i := range setup.NumField() {
			name := setup.Type().Field(i).Name
			if slices.Contains(own, name) || reflect.DeepEqual(setup.Field(i).Interface(), first.Field(i).Interface()) {
				continue
			}
			return fmt.Errorf("shard %v and shard %v are of two runs: %s is %s and %s", parts[0].Setup.Shard, part.Setup.Shard, name, shown(first.Field(i)), shown(setup.Field(i)))
		}
	}
	return nil
}

// shown is a member of a Setup as its log has it, cut to a line.
func shown(value reflect.Value) string {
	text, err := json.Marshal(value.Interface())
	if err != nil {
		return fmt.Sprint(value)
	}
	return fmt.Sprintf("%.100s", text)
}

// together returns an error unless all parts began at one time: by the server's clock where all
// clients know it, else by their own.
func together(parts []Part) error {
	known := !slices.ContainsFunc(parts, func(p Part) bool { return p.Setup.Shard.Clock == nil })
	began := func(p Part) time.Time {
		if known {
			return p.Began.Add(*p.Setup.Shard.Clock)
		}
		return p.Began
	}
	first := slices.MinFunc(parts, func(a, b Part) int { return began(a).Compare(began(b)) })
	for _, part := range parts {
		if late := began(part).Sub(began(first)); late > apart {
			return fmt.Errorf("shard %v began %v after shard %v, at most %v expected: set the clocks, and give all the same --start-at",
				part.Setup.Shard, late.Round(time.Millisecond), first.Setup.Shard, apart)
		}
	}
	return nil
}

// add adds what a part recorded, which began later than the whole by a time.
func add(whole, part *bench.Recording, later time.Duration) {
	for _, sample := range part.Samples {
		sample.Scheduled, sample.Released, sample.Sent, sample.Done = sample.Scheduled+later, sample.Released+later, sample.Sent+later, sample.Done+later
		sample.Chunks = slices.Clone(sample.Chunks)
		for i := range sample.Chunks {
			sample.Chunks[i].At += later
		}
		whole.Samples = append(whole.Samples, sample)
	}
	for _, probe := range part.Probes {
		probe.Sent, probe.Done = probe.Sent+later, probe.Done+later
		whole.Probes = append(whole.Probes, probe)
	}
	whole.RateSteps = append(whole.RateSteps, part.RateSteps...)
	whole.Duration = max(whole.Duration, part.Duration+later)
	whole.Queries += part.Queries
	whole.Cut, whole.Interrupted = whole.Cut || part.Cut, whole.Interrupted || part.Interrupted
	whole.Skipped, whole.FirstSkipped = whole.Skipped+part.Skipped, cmp.Or(whole.FirstSkipped, part.FirstSkipped)
	// Of the server's counters, which only grow, the first and the last that anybody saw.
	whole.Before = outermost(whole.Before, part.Before, func(a, b float64) float64 { return min(a, b) })
	whole.After = outermost(whole.After, part.After, func(a, b float64) float64 { return max(a, b) })
	client := &whole.Client
	client.CPU += part.Client.CPU
	client.MaxPause = max(client.MaxPause, part.Client.MaxPause)
	client.Threads += part.Client.Threads
	client.Kernel = client.Kernel && part.Client.Kernel
}

// outermost puts two readings of counters together.
func outermost(a, b map[string]float64, choose func(a, b float64) float64) map[string]float64 {
	if a == nil {
		return maps.Clone(b)
	}
	for series, value := range b {
		if before, both := a[series]; both {
			value = choose(before, value)
		}
		a[series] = value
	}
	return a
}

// firstSteps leaves of each rate of a ramp the moment at which the first client reached it.
func firstSteps(steps []bench.RateStep) []bench.RateStep {
	slices.SortStableFunc(steps, func(a, b bench.RateStep) int { return cmp.Or(cmp.Compare(a.Rate, b.Rate), a.At.Compare(b.At)) })
	return slices.CompactFunc(steps, func(a, b bench.RateStep) bool { return a.Rate == b.Rate })
}
