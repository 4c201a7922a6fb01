//go:build unix

package main

import (
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
	"time"

	"ossian/internal/bench/scripted"
	"ossian/internal/command/commandtest"
	"ossian/internal/soak"
)

// TestLoadStart: the first request of a client is with the server within 20 ms of the start
// of its process; with a tokenizer, within the time that reading it takes. Times count on a
// quiet machine only.
func TestLoadStart(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server, err := scripted.Serve(t.Context(), l, scripted.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	for _, c := range []struct {
		name, flag string
		most       time.Duration
	}{{"without a tokenizer", "--skip-tokenizer-init", 20 * time.Millisecond}, {"with that of gpt-oss", "--tokenizer=gpt-oss", time.Second}} {
		var took []time.Duration
		for range soak.Cases(t, 2, 50) {
			p := commandtest.Program(t, "bench", "serve", "--base-url", server.URL(), "--model", "scripted", c.flag, "--dataset-name", "custom", "--skip-chat-template",
				"--dataset-path", "prompts.jsonl", "--num-prompts", "1", "--custom-output-len", "1", "--disable-tqdm")
			if err := os.WriteFile(filepath.Join(p.Dir, "prompts.jsonl"), []byte(`{"prompt":"a"}`), 0o600); err != nil {
				t.Fatal(err)
			}
			server.Forget()
			began := time.Now()
			if out, err := p.CombinedOutput(); err != nil {
				t.Fatalf("%s: %v\n%s", c.name, err, out)
			}
			took = append(took, requested(t, server).Sub(began))
		}
		slices.Sort(took)
		t.Logf("start %s: first request after %v in the median, %v to %v", c.name, took[len(took)/2], took[0], took[len(took)-1])
		if took[0] < 0 || (commandtest.Soaking() && took[len(took)/2] > c.most) {
			t.Errorf("%s: %v, want at most %v", c.name, took[len(took)/2], c.most)
		}
	}
}

// requested is when the only request to s came; that is written down a moment after its
// client has noticed the end.
func requested(t *testing.T, s *scripted.Server) time.Time {
	t.Helper()
	for end := time.Now().Add(time.Minute); len(s.Log().Records) == 0 && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	log := s.Log()
	if len(log.Records) != 1 {
		t.Fatalf("%d requests came, want 1", len(log.Records))
	}
	return log.Began.Add(log.Records[0].Received)
}

// initLine is a line of GODEBUG=inittrace=1: a package and the milliseconds that it took.
var initLine = regexp.MustCompile(`(?m)^init (\S+) @\S+ ms, (\S+) ms clock`)

// TestInit: no package keeps every command waiting with tables that few of them need. What
// counts is the shortest of several starts, so a busy machine does not matter.
func TestInit(t *testing.T) {
	const most = 5 * time.Millisecond
	slow := func(d time.Duration) bool { return d > most }
	took := map[string]time.Duration{}
	for try := 0; try < 20; try++ {
		p := commandtest.Program(t, "--version")
		p.Env = append(p.Env, "GODEBUG=inittrace=1")
		out, err := p.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		lines := initLine.FindAllSubmatch(out, -1)
		if len(lines) < 10 {
			t.Fatalf("%d packages in the trace of a start:\n%s", len(lines), out)
		}
		for _, m := range lines {
			d, err := time.ParseDuration(string(m[2]) + "ms")
			if err != nil {
				t.Fatalf("%s: %v", m[0], err)
			}
			if before, ok := took[string(m[1])]; !ok || d < before {
				took[string(m[1])] = d
			}
		}
		if !slices.ContainsFunc(slices.Collect(maps.Values(took)), slow) {
			return
		}
	}
	for name, d := range took {
		if slow(d) {
			t.Errorf("package %s takes %v of every start, want at most %v: make its tables when they are asked for", name, d, most)
		}
	}
}

// BenchmarkStart is the time from the start of the process to the end of an answer
// of one token by the built-in model.
func BenchmarkStart(b *testing.B) {
	bin := filepath.Join(b.TempDir(), "ossian")
	if out, err := exec.Command("go", "build", "-o", bin, ".").CombinedOutput(); err != nil {
		b.Fatalf("%v: %s", err, out)
	}
	for b.Loop() {
		if out, err := exec.Command(bin, "run", "-q", "--max-tokens", "1", "12+30").CombinedOutput(); err != nil {
			b.Fatalf("%v: %s", err, out)
		}
	}
}
