package bench

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"ossian/internal/bench"
	"ossian/internal/bench/scripted"
	"ossian/internal/command/commandtest"
)

// traffic are the flags of a run that one client makes, or several.
const traffic = "--num-prompts 60 --random-input-len 8 --random-output-len 3 --request-rate 300 --seed 11 --max-concurrency 40 --disable-tqdm"

// Three clients send what one would, at the times at which it would, and their logs together have
// its numbers.
func TestShards(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("HF_HUB_CACHE", t.TempDir())
	alone := plays(t)
	measured(t, alone, traffic+" --log alone.log")
	names, together := runShards(t, 3)
	out, status, err := commandtest.Run(t, root(), append([]string{"bench", "merge", "--log", "run.log", "--output", "run.json"}, names...)...)
	if err != nil && !strings.Contains(err.Error(), "cannot be trusted") && !strings.Contains(err.Error(), "late") { // of a busy machine
		t.Fatalf("%v\n%s%s", err, out, status)
	}
	for _, row := range []string{"Successful requests:                     60", "Total generated tokens:                  180", "Maximum request concurrency:             40", "2/3              20 "} {
		if !strings.Contains(out, row) {
			t.Errorf("no row %q in\n%s", row, out)
		}
	}
	one, several := logOf(t, "alone.log"), logOf(t, "run.log")
	if len(several.Samples) != len(one.Samples) || several.Setup.Hash != one.Setup.Hash || several.Queries != one.Queries {
		t.Fatalf("%d samples of workload %s, want %d of %s", len(several.Samples), several.Setup.Hash, len(one.Samples), one.Setup.Hash)
	}
	for i, s := range several.Samples {
		o := one.Samples[i]
		// The shards began a moment apart, which their times have in them.
		if apart := s.Scheduled - o.Scheduled; s.Index != o.Index || apart < 0 || apart > 500*time.Millisecond || s.Input != o.Input || s.Asked != o.Asked || s.Counts != o.Counts {
			t.Errorf("query %d of shards: %+v, of one client: %+v", i, s, o)
		}
	}
	if got, want := asked(t, together), asked(t, alone); !slices.Equal(got, want) {
		t.Errorf("the shards asked for %v, one client for %v", got, want)
	}
	if again, _, err := commandtest.Run(t, root(), "bench", "summarize", "run.log", "run.json"); err != nil || !strings.Contains(again, "Successful requests:                     60") {
		t.Errorf("summarize: %v\n%s", err, again)
	}
	if _, _, err := commandtest.Run(t, root(), "bench", "merge", names[0], names[2]); err == nil || !strings.Contains(err.Error(), "shard 1/3 is missing") {
		t.Errorf("two of three shards: %v", err)
	}
}

// runShards runs clients side by side, which begin together, and returns their logs. On a busy
// machine the beginning may have passed before all are there: then it is later.
func runShards(t *testing.T, of int) (names []string, server *scripted.Server) {
	t.Helper()
	for k := range of {
		names = append(names, fmt.Sprintf("%d.log", k))
	}
	for lead := time.Second; ; lead *= 2 {
		server = plays(t)
		at := time.Now().Add(lead).UTC().Format(time.RFC3339Nano)
		errs := make([]error, of)
		var all sync.WaitGroup
		for k := range of {
			all.Go(func() {
				args := append([]string{"bench", "serve", "--base-url", server.URL(), "--model", "gpt-oss", "--start-at", at, "--shard", fmt.Sprintf("%d/%d", k, of), "--log", names[k]}, strings.Fields(traffic)...)
				_, _, errs[k] = commandtest.Run(t, root(), args...)
			})
		}
		all.Wait()
		late := false
		for _, err := range errs {
			late = late || err != nil && strings.Contains(err.Error(), "was to begin")
			if err != nil && !late && !strings.Contains(err.Error(), "cannot be trusted") {
				t.Fatal(err)
			}
		}
		if !late {
			return names, server
		}
		if lead > time.Minute {
			t.Fatal("the shards do not begin")
		}
	}
}

// asked are the requests that a server got: number, tokens of prompt and of output.
func asked(t *testing.T, server *scripted.Server) (all []string) {
	t.Helper()
	for _, record := range recorded(t, server, 60) {
		all = append(all, fmt.Sprint(record.Index, record.Prompt, record.Asked))
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// logOf reads the log of a run.
func logOf(t *testing.T, name string) *bench.Recording {
	t.Helper()
	parts, err := readParts([]string{filepath.Clean(name)}, t.Output())
	if err != nil {
		t.Fatal(err)
	}
	return parts[0].Recording
}

// What no shard can be is refused.
func TestShardErrors(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, c := range []struct{ args, want string }{
		{"--shard 1", "want I/N"},
		{"--shard a/b", "want I/N"},
		{"--shard 2/2", "want 0/N to N-1/N"},
		{"--shard -1/2", "want 0/N"},
		{"--shard 0/2 --start-at noon", "2026-11-26T12:00:00Z"},
		{"--start-at 2026-11-26T12:00:00Z", "--shard I/N"},
		{"--shard 0/2 --num-runs 2", "one run"},
		{"--shard 0/2 --sweep-request-rate 1,2", "one run"},
		{"--shard 0/4 --max-concurrency 3", "want 4"},
		{"--shard 0/2 --salt", "--salt=TEXT"},
		{"--shard 0/2 --cache salt", "--salt=TEXT"},
	} {
		args := append([]string{"bench", "serve", "--base-url", "http://127.0.0.1:1", "--log", "x.log"}, strings.Fields(c.args)...)
		if _, _, err := commandtest.Run(t, root(), args...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.args, err, c.want)
		}
	}
	for args, want := range map[string]string{"--shard 0/2 --log x.log": "--base-url", "--shard 0/2 --base-url http://127.0.0.1:1": "--log FILE"} {
		if _, _, err := commandtest.Run(t, root(), append([]string{"bench", "serve"}, strings.Fields(args)...)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", args, err, want)
		}
	}
	if _, _, err := commandtest.Run(t, root(), "bench", "serve", "--base-url", plays(t).URL(), "--model", "gpt-oss", "--num-prompts", "2", "--shard", "0/2", "--start-at", "1700000000", "--log", "x.log"); err == nil || !strings.Contains(err.Error(), "was to begin") {
		t.Errorf("a beginning in the past: %v", err)
	}
}
