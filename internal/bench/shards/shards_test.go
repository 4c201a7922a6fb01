package shards

import (
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"ossian/internal/bench"
)

// recorded is a run of one client: n queries at uneven times, with counters, side stream and ramp.
func recorded(n int) *bench.Recording {
	began := time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)
	rec := &bench.Recording{Began: began, Queries: n, Client: bench.Client{Kernel: true},
		Setup:  bench.Setup{Backend: "openai", URL: "http://h/v1/completions", Model: "m", Hash: "h", Seed: 7, Arrivals: bench.Arrivals{Rate: math.Inf(1), Burstiness: 1}},
		Before: map[string]float64{"a": 5, "b": 1}, After: map[string]float64{"a": 50, "b": 9},
		Probes:    []bench.Probe{{Sent: time.Millisecond, Done: 2 * time.Millisecond}},
		RateSteps: []bench.RateStep{{Rate: 1, At: began}, {Rate: 2, At: began.Add(time.Second)}}}
	for i := range n {
		at := time.Duration(i*i) * time.Millisecond
		rec.Samples = append(rec.Samples, bench.Sample{Index: i, Scheduled: at, Released: at + 10, Sent: at + 20, Done: at + time.Second, Status: 200,
			Chunks: []bench.Chunk{{At: at + 500*time.Millisecond, Lag: 3, Tokens: 1, Kind: bench.Text}}})
		rec.Duration = at + time.Second
	}
	return rec
}

// split makes the parts of a run as its shards would have recorded them: each later than the one
// before by a time.
func split(rec *bench.Recording, of int, later time.Duration) []Part {
	var parts []Part
	for k := range of {
		own, shift := *rec, time.Duration(k)*later
		own.Setup.Shard = &bench.Shard{Index: k, Of: of}
		own.Began, own.Duration = rec.Began.Add(shift), rec.Duration-shift
		own.Samples, own.Queries = nil, 0
		for _, s := range rec.Samples {
			if s.Index%of == k {
				s.Scheduled, s.Released, s.Sent, s.Done = s.Scheduled-shift, s.Released-shift, s.Sent-shift, s.Done-shift
				s.Chunks = []bench.Chunk{{At: s.Chunks[0].At - shift, Lag: 3, Tokens: 1, Kind: bench.Text}}
				own.Samples = append(own.Samples, s)
				own.Queries++
			}
		}
		if k > 0 { // one client has the side stream, and sees the counters first
			own.Probes, own.Before, own.After = nil, map[string]float64{"a": 6, "b": 2}, map[string]float64{"a": 49, "b": 8}
		}
		parts = append(parts, Part{Name: own.Setup.Shard.String(), Recording: &own})
	}
	return parts
}

// What was taken apart is put together as it was, in whatever order the parts come.
func TestMerge(t *testing.T) {
	whole := recorded(10)
	for _, of := range []int{1, 2, 3, 10} {
		parts := split(whole, of, 20*time.Millisecond)
		parts[0], parts[of-1] = parts[of-1], parts[0]
		before, err := json.Marshal(parts)
		if err != nil {
			t.Fatal(err)
		}
		got, err := Merge(parts)
		if err != nil {
			t.Fatal(err)
		}
		want := *whole
		want.Setup.Shard = &bench.Shard{Index: bench.All, Of: of}
		if !reflect.DeepEqual(got, &want) {
			t.Errorf("%d shards: %+v, want %+v", of, got, &want)
		}
		if after, err := json.Marshal(parts); err != nil || string(after) != string(before) {
			t.Errorf("%d shards: the parts have changed, %v", of, err)
		}
		if _, err := Merge([]Part{{Name: "merged", Recording: got}}); err == nil {
			t.Error("what was merged is taken for a shard")
		}
	}
}

// Parts that are not of one run are refused, with the shard and the difference.
func TestRefused(t *testing.T) {
	ahead := func(d time.Duration) *time.Duration { return &d }
	for _, test := range []struct {
		name, want string
		change     func(parts []Part) []Part
	}{
		{"none", "no recordings", func([]Part) []Part { return nil }},
		{"missing", "shard 1/3 is missing", func(p []Part) []Part { return []Part{p[0], p[2]} }},
		{"twice", "both shard 1/3", func(p []Part) []Part { return append(p, p[1]) }},
		{"no shard", "no shard of a run", func(p []Part) []Part { p[1].Setup.Shard = nil; return p }},
		{"impossible", "no shard of a run", func(p []Part) []Part { p[0].Setup.Shard.Of = 0; return p }},
		{"of other runs", "of two runs", func(p []Part) []Part { p[2].Setup.Shard.Of = 4; return p }},
		{"another server", `URL is "http://h/v1/completions" and "http://g/"`, func(p []Part) []Part { p[1].Setup.URL = "http://g/"; return p }},
		{"another workload", `Hash is "h" and "x"`, func(p []Part) []Part { p[1].Setup.Hash = "x"; return p }},
		{"another option", "Seed is 7 and 8", func(p []Part) []Part { p[2].Setup.Seed = 8; return p }},
		{"another rate", "Arrivals is", func(p []Part) []Part { p[2].Setup.Arrivals.Rate = 5; return p }},
		{"too late", "shard 2/3 began 2s after shard 0/3", func(p []Part) []Part { p[2].Began = p[0].Began.Add(2 * time.Second); return p }},
		{"another clock", "shard 1/3 began 2s after shard 0/3", func(p []Part) []Part {
			for i := range p {
				p[i].Began, p[i].Setup.Shard.Clock = p[0].Began, ahead(0)
			}
			p[1].Setup.Shard.Clock = ahead(2 * time.Second)
			return p
		}},
		{"a query twice", "query 4 was sent by two shards", func(p []Part) []Part { p[2].Samples[0].Index = 4; return p }},
	} {
		_, err := Merge(test.change(split(recorded(9), 3, 0)))
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", test.name, err, test.want)
		}
	}
	parts := split(recorded(9), 3, 0) // clocks that differ, but are known
	for i := range parts {
		parts[i].Began, parts[i].Setup.Shard.Clock = parts[i].Began.Add(time.Duration(i)*time.Second), ahead(time.Duration(-i)*time.Second)
		parts[i].Setup.Args, parts[i].Setup.Environment = []string{parts[i].Name}, map[string]string{"machine": parts[i].Name}
	}
	if _, err := Merge(parts); err != nil {
		t.Errorf("shards on machines whose clocks are known: %v", err)
	}
}
