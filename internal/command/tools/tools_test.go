package tools

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ossian/internal/command"
	"ossian/internal/command/commandtest"
	"ossian/internal/tools/mcp/mcptest"
	"ossian/internal/tools/registry"
)

// TestMain: as an interpreter's helper this program does not get further.
func TestMain(m *testing.M) {
	Helper(os.Args[1:])
	os.Exit(m.Run())
}

func TestTools(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a.txt"), []byte("Ossian is a bard."), 0o600); err != nil {
		t.Fatal(err)
	}
	peer := mcptest.Serve(t, "shop", "sse", "", mcptest.Tool{Name: "price", Call: func(string) (string, bool) { return "1", false }})
	run := func(args ...string) (string, error) {
		out, _, err := commandtest.Run(t, command.Root(Command()), append([]string{"tools"}, args...)...)
		return out, err
	}
	out, err := run("--tool-server", peer.Address)
	if err != nil || !strings.Contains(out, "shop  mcp") || !strings.Contains(out, "works: 1 tools: price") {
		t.Errorf("%v\n%s", err, out)
	}
	// The program's own; Python works where there is a sandbox for it.
	out, err = run("--browser-corpus", dir)
	if lines := strings.Split(strings.TrimSpace(out), "\n"); len(lines) != 3 || !strings.Contains(lines[1], "works: searched") ||
		(err == nil) != strings.Contains(lines[2], "works: print(6*7) gave 42") {
		t.Errorf("%v\n%s", err, out)
	}
	// What does not work is named, with what would help, and the exit status says so.
	out, err = run("--tool-server", "demo,gone=127.0.0.1:1", "--python-backend", "off", "--json")
	var trials []registry.Trial
	if failed := json.Unmarshal([]byte(out), &trials); failed != nil || err == nil || len(trials) != 3 {
		t.Fatalf("%v, %v\n%s", err, failed, out)
	}
	for i, want := range []string{"YDC_API_KEY", "switched off", "cannot be reached"} {
		if trials[i].Works || !strings.Contains(trials[i].Problem, want) {
			t.Errorf("%+v, want %q", trials[i], want)
		}
	}
	for want, args := range map[string][]string{"unknown flag": {"--tool-serve", "demo"}, "named twice": {"--tool-server", "demo,demo"},
		"a name is missing": {"--tool-server", "=localhost:9"}, "Demo: the program's": {"--tool-server", "Demo"}, "x=demo: the program's": {"--tool-server", "x=demo"}} {
		if _, err := run(args...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", args, err, want)
		}
	}
	// Python that is switched off is no failure, and a folder without files is told of.
	if out, err := run("--python-backend", "off", "--browser-corpus", t.TempDir()); err != nil || !strings.Contains(out, "holds no files") {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err := run("--python-backend", "off", "--browser-backend", "http"); err == nil || !strings.Contains(out, "--browser-search-url") {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err := run("help"); err != nil || !strings.Contains(out, "ossian tools") {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err := run("--help"); err != nil || !strings.Contains(out, "ossian tools") {
		t.Errorf("%v\n%s", err, out)
	}
}
