package main

import (
	"testing"

	"ossian/internal/command/commandtest"
)

// TestMain makes the test binary the program where a test starts it as a process.
func TestMain(m *testing.M) { commandtest.Main(m, main) }

func TestRootHasCommands(t *testing.T) {
	for _, name := range []string{"pull", "inspect"} {
		if c, _, err := root().Find([]string{name}); err != nil || c.Name() != name {
			t.Errorf("%s: %v, %v", name, c, err)
		}
	}
}
