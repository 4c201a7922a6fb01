package main

import (
	"os"
	"testing"

	"ossian/internal/command/commandtest"
	"ossian/internal/tools/python"
)

// hangsArgument makes the test binary a server of MCP (hangs).
const hangsArgument = "serve-mcp-that-hangs"

// TestMain makes the test binary the program where a test starts it as a process, or one of its
// helpers.
func TestMain(m *testing.M) {
	python.Helper(os.Args[1:])
	if len(os.Args) == 3 && os.Args[1] == hangsArgument {
		hangs(os.Args[2])
		return
	}
	commandtest.Main(m, main)
}

func TestRootHasCommands(t *testing.T) {
	for _, name := range []string{"pull", "inspect"} {
		if c, _, err := root().Find([]string{name}); err != nil || c.Name() != name {
			t.Errorf("%s: %v, %v", name, c, err)
		}
	}
}
