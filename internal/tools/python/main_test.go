package python

import (
	"log/slog"
	"os"
	"testing"
	"time"

	"ossian/internal/limits"
)

// TestMain lets this test's program be its own helper.
func TestMain(m *testing.M) {
	Helper(os.Args[1:])
	os.Exit(m.Run())
}

// quiet is a log that nobody reads.
var quiet = slog.New(slog.DiscardHandler)

// small are limits for tests: reached soon, but for time.
func small() *limits.Set {
	set := limits.Defaults()
	set[limits.PythonMemory], set[limits.PythonDisk], set[limits.PythonCalls] = 256<<20, 16<<20, 1<<20
	set[limits.ToolTime] = time.Hour.Milliseconds()
	return set
}
