package serve

import (
	"strings"
	"testing"

	"ossian/internal/command/commandtest"
)

// TestPreset: an aim sets the limits that nobody gave, says so with its frontier and what it assumed,
// and leaves given ones alone.
func TestPreset(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	value := func(out, name string) string {
		for line := range strings.Lines(out) {
			if fields := strings.Fields(line); len(fields) > 1 && fields[0] == name {
				return fields[1]
			}
		}
		return ""
	}
	out, _, err := commandtest.Run(t, root(), "serve", "--explain", "--preset", "min-latency", "--preset-users", "4", "--threads", "1")
	if err != nil {
		t.Fatal(err)
	}
	if value(out, "max-num-seqs") != "4" || !strings.Contains(out, "preset min-latency: --max-num-seqs 4") || !strings.Contains(out, "assumed: 4 users at once") || !strings.Contains(out, "no calibration of this machine") {
		t.Errorf("%s", out)
	}
	out, _, err = commandtest.Run(t, root(), "serve", "--explain", "--preset", "max-throughput", "--max-num-batched-tokens", "96", "--threads", "1")
	if err != nil {
		t.Fatal(err)
	}
	if value(out, "max-num-batched-tokens") != "96" || value(out, "max-num-seqs") == "4" {
		t.Errorf("%s", out)
	}
	for _, bad := range [][]string{{"--preset", "fastest"}, {"--preset", "balanced", "--device", "sim:H200"}, {"--preset", "min-latency", "--preset-users", "60000"}} {
		if _, _, err := commandtest.Run(t, root(), append([]string{"serve", "--explain", "--threads", "1"}, bad...)...); err == nil {
			t.Errorf("%v was accepted", bad)
		}
	}
}
