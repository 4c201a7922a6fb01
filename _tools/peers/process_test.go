package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// TestMain lets the test program be a server that takes a moment to be ready: its
// arguments end with --port PORT, as the tool passes them.
func TestMain(m *testing.M) {
	if os.Getenv("BE_A_SERVER") == "" {
		os.Exit(m.Run())
	}
	var asked atomic.Int32
	http.HandleFunc("/health", func(w http.ResponseWriter, _ *http.Request) {
		if asked.Add(1) < 3 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	fmt.Println("pid", os.Getpid())
	fmt.Fprintln(os.Stderr, http.ListenAndServe("127.0.0.1:"+os.Args[len(os.Args)-1], nil))
	os.Exit(1)
}

// peer is a folder with one program, which is a line of shell.
func peer(t *testing.T, tool, script string) *program {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, tool), []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return &program{name: llamaCpp, path: dir}
}

func firstTask(t *testing.T, p *program, part string) task {
	t.Helper()
	all := p.tasks(subjects[0], modelFiles{gguf: "model.gguf"}, []string{part})
	if len(all) == 0 {
		t.Fatalf("no task for %s", part)
	}
	return all[0]
}

func TestProcess(t *testing.T) {
	b := &bench{tmp: t.TempDir()}
	show := func(text string) string { return "cat <<'END'\n" + text + "END" }
	for _, c := range []struct{ part, tool, script, row, err string }{
		{"prefill", "llama-bench", show(benchList), "prefill 512", ""},
		{"batch", "llama-batched-bench", show(batchedTable) + " >&2", "decode, 32 sequences, sum", ""},
		{"decode", "llama-bench", "echo 'error: unable to load model' >&2; echo bye; exit 3", "", "exit status 3\n\tbye\n\terror: unable to load model"},
		{"decode", "llama-bench", "true", "", "llama-bench wrote no list of tests"},
	} {
		p := peer(t, c.tool, c.script)
		var r record
		err := b.process(context.Background(), p, firstTask(t, p, c.part), &r)
		switch {
		case c.err == "" && (err != nil || r.Values[c.row] <= 0 || r.Wall <= 0 || r.Peak <= 0):
			t.Errorf("%s: %+v, %v", c.part, r, err)
		case c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)):
			t.Errorf("%s: error %v, want %q", c.part, err, c.err)
		}
	}
}

// TestProcessLimit ends a program that would not end, and what that has started.
func TestProcessLimit(t *testing.T) {
	pids := filepath.Join(t.TempDir(), "pid")
	p := peer(t, "llama-bench", "sleep 1000 & echo $! >"+pids+"; wait")
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		defer cancel()
		for range 10000 {
			if text, _ := os.ReadFile(pids); strings.HasSuffix(string(text), "\n") {
				return
			}
			time.Sleep(time.Millisecond)
		}
	}()
	b := &bench{tmp: t.TempDir()}
	if err := b.process(ctx, p, firstTask(t, p, "decode"), &record{}); err == nil || !strings.Contains(err.Error(), "-limit") {
		t.Errorf("got %v, want an error that names -limit", err)
	}
	gone(t, pids)
}

// gone waits until the process whose number is in the file, behind a word or not, is no more.
func gone(t *testing.T, name string) {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var pid int
	if _, err := fmt.Sscan(strings.TrimPrefix(string(text), "pid "), &pid); err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	for range 10000 {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil || strings.Contains(string(stat), ") Z ") || syscall.Kill(pid, 0) != nil {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Errorf("process %d still runs", pid)
}

func TestServer(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := peer(t, "llama-server", `BE_A_SERVER=1 exec "`+self+`" "$@"`)
	b := &bench{tmp: t.TempDir()}
	var r record
	if err := b.server(context.Background(), subjects[0], p, firstTask(t, p, "ready"), &r); err != nil || r.Values[readyTime] <= 0 || r.Peak <= 0 {
		t.Errorf("%+v, %v", r, err)
	}
	gone(t, filepath.Join(b.tmp, "server.log"))

	p = peer(t, "llama-server", "echo 'error loading model: no such file'; exit 1")
	err = b.server(context.Background(), subjects[0], p, firstTask(t, p, "ready"), &record{})
	if err == nil || !strings.Contains(err.Error(), "ended before it was ready\n\terror loading model") {
		t.Errorf("got %v, want the server's own words", err)
	}
}
