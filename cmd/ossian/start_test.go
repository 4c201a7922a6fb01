//go:build unix

package main

import (
	"bytes"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
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
			// The one request may have been read late: then the run is invalid, and its start is not.
			if out, err := p.CombinedOutput(); err != nil && !bytes.Contains(out, []byte("client-bound")) {
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

// initLine is a line of GODEBUG=inittrace=1: a package, and the bytes and allocations of its
// variables.
var initLine = regexp.MustCompile(`(?m)^init (\S+) @.* clock, (\d+) bytes, (\d+) allocs`)

// TestInit: no package keeps every command waiting with tables that few of them need. What counts
// is what its variables take of the heap, since that is the same on any machine, and time is not.
// A thousand allocations with what is done between them are about half a millisecond: regular
// expressions, of which one takes some fifty, were 10,000 in 6 ms. The bytes of other modules are
// not bounded: under the race detector they differ between starts, 1.1 to 1.3 MB of prometheus.
func TestInit(t *testing.T) {
	const mostBytes, mostAllocations = 128 << 10, 1000
	p := commandtest.Program(t, "--version")
	p.Env = append(p.Env, "GODEBUG=inittrace=1")
	out, err := p.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	lines := initLine.FindAllSubmatch(out, -1)
	if len(lines) < 50 {
		t.Fatalf("%d packages in the trace of a start:\n%s", len(lines), out)
	}
	for _, m := range lines {
		taken, err := strconv.Atoi(string(m[2]))
		allocations, err2 := strconv.Atoi(string(m[3]))
		if err := errors.Join(err, err2); err != nil {
			t.Fatalf("%s: %v", m[0], err)
		}
		own := strings.HasPrefix(string(m[1]), "ossian/")
		if (own && taken > mostBytes) || allocations > mostAllocations {
			t.Errorf("package %s takes %d bytes in %d allocations of every start, want at most %d in %d: make its tables when they are asked for, "+
				"and expressions by lazyregexp", m[1], taken, allocations, mostBytes, mostAllocations)
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
