//go:build unix

package main

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"ossian/internal/bench"
	"ossian/internal/bench/scripted"
	"ossian/internal/command/commandtest"
	"ossian/internal/soak"
)

// TestBEN4Kills: a client that is killed in the middle of a run leaves a log that can be
// summarized, and in it every request that had ended a second before.
func TestBEN4Kills(t *testing.T) {
	n := soak.Cases(t, 2, 1000)
	g := rand.New(rand.NewPCG(1, 4))
	var (
		mu          sync.Mutex
		all         sync.WaitGroup
		kept, begun int
		worst       time.Duration
		slots       = make(chan struct{}, 8)
	)
	for range n {
		wait := time.Duration(g.Int64N(int64(2500 * time.Millisecond)))
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			k, err := killClient(t, wait)
			mu.Lock()
			defer mu.Unlock()
			kept, worst = kept+k.samples, max(worst, k.lost)
			if k.samples > 0 {
				begun++
			}
			if err != nil || (commandtest.Soaking() && k.lost > time.Second) { // a busy machine lets the client wait
				t.Errorf("killed after %v: %v; a request is missing that had ended %v before", wait, err, k.lost)
			}
		})
	}
	all.Wait()
	t.Logf("BEN-4: %d kills, %d logs with %d requests, none that is missing had ended more than %v before", n, begun, kept, worst.Round(time.Millisecond))
	if begun == 0 {
		t.Error("no log has a request")
	}
}

// A killing is what is left of a client.
type killing struct {
	samples int           // in its log
	lost    time.Duration // how long before the kill the oldest request had ended that is not
}

// killClient kills a client some time after its first request and reads its log.
func killClient(t *testing.T, wait time.Duration) (k killing, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return k, err
	}
	server, err := scripted.Serve(t.Context(), l, scripted.Options{Scripts: []scripted.Script{{TTFT: 10 * time.Millisecond}}})
	if err != nil {
		return k, err
	}
	defer server.Close()
	c := commandtest.Program(t, "bench", "serve", "--base-url", server.URL(), "--model", "scripted", "--skip-tokenizer-init", "--dataset-name", "custom",
		"--dataset-path", "prompts.jsonl", "--num-prompts", "20000", "--request-rate", "200", "--log", "run.log", "--disable-tqdm")
	if err := os.WriteFile(filepath.Join(c.Dir, "prompts.jsonl"), []byte(`{"prompt":"a"}`), 0o600); err != nil {
		return k, err
	}
	var said bytes.Buffer
	c.Stdout, c.Stderr = &said, &said
	if err := c.Start(); err != nil {
		return k, err
	}
	for end := time.Now().Add(time.Minute); server.Calls()["POST /v1/completions"] == 0 && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	time.Sleep(wait)
	name := filepath.Join(c.Dir, "run.log")
	for end := time.Now().Add(time.Minute); !commandtest.Soaking() && !logged(name) && time.Now().Before(end); {
		time.Sleep(10 * time.Millisecond)
	}
	killed := time.Since(server.Log().Began)
	c.Process.Kill()
	c.Wait()
	if server.Calls()["POST /v1/completions"] == 0 {
		return k, fmt.Errorf("no request within a minute: %s", said.String())
	}
	return readKilled(t, name, server.Log(), killed)
}

// logged reports whether a log has a request.
func logged(name string) bool {
	text, err := os.ReadFile(name)
	if err != nil {
		return false
	}
	rec, _, err := bench.ReadLog(bytes.NewReader(text))
	return err == nil && len(rec.Samples) > 0
}

// readKilled compares the log of a client with that of its server.
func readKilled(t *testing.T, name string, server *scripted.Log, killed time.Duration) (k killing, err error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return k, err
	}
	have := map[int]bool{}
	rec, _, err := bench.ReadLog(bytes.NewReader(text))
	if err == nil {
		for _, s := range rec.Samples {
			have[s.Index] = true
		}
		out, _, err := commandtest.Run(t, root(), "bench", "summarize", name)
		if row := fmt.Sprintf("Successful requests:                     %-10d\n", len(rec.Samples)); err != nil || !strings.Contains(out, row) {
			return k, errors.Join(fmt.Errorf("no row %q in\n%s", row, out), err)
		}
	} else if !strings.Contains(err.Error(), "killed before it began") { // the first line was not written yet
		return k, err
	}
	k.samples = len(have)
	for _, r := range server.Records {
		if r.Err == "" && !have[r.Index] {
			k.lost = max(k.lost, killed-r.Ended)
		}
	}
	return k, nil
}
