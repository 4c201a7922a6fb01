package serve

import (
	"strings"
	"testing"

	"ossian/internal/command/commandtest"
)

// What cannot guess yet is refused before a port is open, and so is what --explain would show.
func TestHeadsAreRefused(t *testing.T) {
	for _, args := range [][]string{
		{"serve", "--port", "0", "--speculative-config", `{"method":"eagle3","model":"nvidia/gpt-oss-120b-Eagle3-v2","num_speculative_tokens":3}`},
		{"serve", "--explain", "-sc", `{"model":"a/small"}`},
	} {
		_, log, err := commandtest.Run(t, root(), args...)
		if err == nil || !strings.Contains(err.Error(), "is not there yet") || strings.Contains(log, "listening") {
			t.Errorf("%q: %v\n%s", args, err, log)
		}
	}
}
