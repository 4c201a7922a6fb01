//go:build unix

package main

import (
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"ossian/internal/bench/scripted"
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
			p := program(t, "bench", "serve", "--base-url", server.URL(), "--model", "scripted", c.flag, "--dataset-name", "custom", "--skip-chat-template",
				"--dataset-path", "prompts.jsonl", "--num-prompts", "1", "--custom-output-len", "1", "--disable-tqdm")
			if err := os.WriteFile(filepath.Join(p.Dir, "prompts.jsonl"), []byte(`{"prompt":"a"}`), 0o600); err != nil {
				t.Fatal(err)
			}
			server.Forget()
			began := time.Now()
			if out, err := p.CombinedOutput(); err != nil {
				t.Fatalf("%s: %v\n%s", c.name, err, out)
			}
			took = append(took, server.Log().Began.Add(recorded(t, server, 1)[0].Received).Sub(began))
		}
		slices.Sort(took)
		t.Logf("start %s: first request after %v in the median, %v to %v", c.name, took[len(took)/2], took[0], took[len(took)-1])
		if took[0] < 0 || soaking() && took[len(took)/2] > c.most {
			t.Errorf("%s: %v, want at most %v", c.name, took[len(took)/2], c.most)
		}
	}
}
