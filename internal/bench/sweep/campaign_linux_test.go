package sweep

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"ossian/internal/soak"
)

// A badTrial is a way in which a trial fails, and what is written down of it.
type badTrial struct {
	kind, reason string
	dead         bool // the server failed: that is written down for the setting
}

// badTrials are the ways of BEN-5: servers that refuse to start, hang, eat memory or die, and clients
// that hang, fail, or write what is no result.
var badTrials = []badTrial{
	{"crash", "it has ended: exit status 3", true},
	{"never", "it was not ready after", true},
	// Whichever asks first for memory that is not there says how it ends: Go's runtime 2, the race
	// detector's 66.
	{"eat", "it has ended: exit status ", true},
	{"fragile", "it has ended: exit status 4", true},
	{"hang", "the limit of --run-timeout", false},
	{"fail", "exit status 1", false},
	{"half", "the JSON ends early", false},
	{"nothing", "has ended well and written no result", false},
}

// kindOf is that of a trial; "good" or of badTrials, every so many trials one of them.
func kindOf(trial, every int) string {
	if trial%every != every-1 {
		return "good"
	}
	return badTrials[trial/every%len(badTrials)].kind
}

// trialServer is a server of one kind. What it notes first is its process.
func trialServer(args []string) {
	kind := value(args, "--kind")
	note(args, "server %d", os.Getpid())
	if kind == "crash" {
		fmt.Fprintln(os.Stderr, "unknown flag")
		os.Exit(3)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/health", func(w http.ResponseWriter, _ *http.Request) {
		if kind == "never" {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	mux.HandleFunc("/work", func(http.ResponseWriter, *http.Request) {
		if kind == "eat" {
			eatMemory()
		}
	})
	mux.HandleFunc("POST /reset_prefix_cache", func(http.ResponseWriter, *http.Request) {
		if kind == "fragile" {
			os.Exit(4)
		}
	})
	if err := http.ListenAndServe("127.0.0.1:"+value(args, "--port"), mux); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(5)
	}
}

// eatMemory allocates until the process gets no more, which is soon.
func eatMemory() {
	text, _ := os.ReadFile("/proc/self/statm")
	pages, _ := strconv.ParseUint(strings.Fields(string(text) + " 0")[0], 10, 64)
	most := pages*uint64(os.Getpagesize()) + 256<<20
	_ = syscall.Setrlimit(syscall.RLIMIT_AS, &syscall.Rlimit{Cur: most, Max: most})
	for all := []byte{1}; ; { // doubles until there is no more
		all = append(all, all...)
	}
}

// trialClient measures as its kind does.
func trialClient(args []string) {
	path, kind := filepath.Join(value(args, "--result-dir"), value(args, "--result-filename")), value(args, "--kind")
	note(args, "begin %s", path)
	reply, err := http.Get("http://127.0.0.1:" + value(args, "--port") + "/work")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	reply.Body.Close()
	text := `{"request_throughput": 2.5, "output_throughput": 25}`
	switch kind {
	case "hang":
		time.Sleep(time.Hour)
	case "nothing":
		return
	case "half":
		text = text[:30]
	}
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if kind == "fail" { // as ossian's client after an invalid run
		os.Exit(1)
	}
}

// campaignRole is a sweep of many trials in a process of its own, a server for each. It ends with the
// number of failures.
func campaignRole(args []string) {
	number := func(flag string) int { n, _ := strconv.Atoi(value(args, flag)); return n }
	log, port := value(args, "--log"), value(args, "--port")
	grid := Grid{Bench: []Object{nil}, Open: func(serve Object) (Measurer, error) {
		raw, _ := serve.Get("kind")
		kind := strings.Trim(string(raw), `"`)
		measured := programs(serve.Apply([]string{"trialserver", "--port", port, "--log", log}), []string{"trialclient", "--port", port, "--log", log, "--kind", kind}, io.Discard)
		measured.Server.Stderr = io.Discard
		// Only those that have to run into a limit have a short one: the machine may be busy.
		measured.Limit = time.Minute
		switch kind {
		case "never":
			measured.Server.Ready = 300 * time.Millisecond
		case "hang":
			measured.Limit = 300 * time.Millisecond
		}
		measured.Server.Grace = time.Second
		return measured, nil
	}}
	for i := range number("--trials") {
		grid.Serve = append(grid.Serve, Object{{"trial", jsonInteger(i)}, {"kind", jsonText(kindOf(i, number("--every")))}})
	}
	e := &Experiment{Dir: value(args, "--dir"), Resume: has(args, "--resume"), Runs: 1, Continue: true, Out: io.Discard}
	err := e.Serve(context.Background(), grid)
	failed, ok := errors.AsType[*FailedError](err)
	if err != nil && !ok {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Printf("whole, %d failures\n", len(failed.Failures))
}

// TestBEN5Campaign: a campaign of which one trial in five is bad, and which is killed again and again,
// comes to its end: every good trial has its result and none is measured twice, of every bad one it
// is written down why, and no process is left behind.
func TestBEN5Campaign(t *testing.T) {
	dir := t.TempDir()
	log, port := filepath.Join(dir, "log"), freePort(t)
	trials, kills := soak.Cases(t, 24, 1000), soak.Cases(t, 2, 30)
	every := 3 // with every change all kinds once, in a release one in five
	if trials >= 5*len(badTrials) {
		every = 5
	}
	args := []string{"campaign", "--dir", filepath.Join(dir, "e"), "--log", log, "--port", port, "--trials", strconv.Itoa(trials), "--every", strconv.Itoa(every)}
	began := time.Now()
	killed, kept := 0, map[string]int{}
	for out := ""; !strings.HasPrefix(out, "whole"); {
		var wait time.Duration
		if killed < kills {
			wait = 200*time.Millisecond + rand.N(time.Duration(trials)*100*time.Millisecond/time.Duration(kills)) // at any moment of a trial
		}
		var cut bool
		if out, cut = runCampaign(t, args, wait); cut {
			killed++
		} else if want := fmt.Sprintf("whole, %d failures\n", trials/every); out != want {
			t.Errorf("after %d kills: %q, want %q", killed, out, want)
		}
		if _, err := os.Stat(filepath.Join(dir, "e")); err == nil && !has(args, "--resume") {
			args = append(args, "--resume")
		}
		gone(t, port)
		keptRuns(t, kept, filepath.Join(dir, "e"), log)
	}
	begun := checkCampaign(t, dir, trials, every, kept)
	t.Logf("BEN-5: %d trials, %d bad in %d ways, %d kills: all good ones whole and measured once, all failures written down; %d beginnings, %.0f s",
		trials, trials/every, len(badTrials), killed, begun, time.Since(began).Seconds())
}

// runCampaign runs a campaign, to its end or until it is killed after wait (0 = never). It returns
// what was printed.
func runCampaign(t *testing.T, args []string, wait time.Duration) (out string, cut bool) {
	t.Helper()
	c := role(args)
	var text bytes.Buffer
	c.Stdout, c.Stderr = &text, &text
	c.WaitDelay = time.Minute
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	var limit <-chan time.Time
	if wait > 0 {
		limit = time.After(wait)
	}
	select {
	case err := <-ended:
		if err != nil && !errors.Is(err, exec.ErrWaitDelay) {
			t.Fatalf("%v\n%s", err, &text)
		}
	case <-limit:
		cut = true
		_ = c.Process.Kill()
		<-ended
	}
	return text.String(), cut
}

// checkCampaign checks files and log of a campaign that is whole, and returns how many clients began.
func checkCampaign(t *testing.T, dir string, trials, every int, kept map[string]int) (begun int) {
	t.Helper()
	got := files(t, filepath.Join(dir, "e"))
	reasons := map[string]badTrial{}
	for _, bad := range badTrials {
		reasons[bad.kind] = bad
	}
	for i := range trials {
		kind := kindOf(i, every)
		folder := fmt.Sprintf("SERVE--trial=%d-kind=%s", i, kind)
		written := got[folder+"/summary.json"]
		if kind == "good" {
			if !strings.Contains(written, `"request_throughput": 2.5`) || got[folder+"/run=0.failure.json"] != "" {
				t.Errorf("trial %d: %q", i, written)
			}
			continue
		}
		note := folder + "/run=0.failure.json"
		if reasons[kind].dead {
			note = fmt.Sprintf("SERVE-trial=%d-kind=%s-failure.json", i, kind)
		}
		if written != "" || !strings.Contains(got[note], reasons[kind].reason) {
			t.Errorf("trial %d: result %q, %s: %q, want %q", i, written, note, got[note], reasons[kind].reason)
		}
	}
	if rows := strings.Count(got["summary.csv"], "\n"); rows != 1+trials-trials/every {
		t.Errorf("%d lines in the table, want those of %d trials", rows, trials-trials/every)
	}
	all := begins(t, filepath.Join(dir, "log"))
	measuredOnce(t, kept, all)
	for _, n := range all {
		begun += n
	}
	for _, line := range lines(t, filepath.Join(dir, "log")) {
		id, ok := strings.CutPrefix(line, "server ")
		if !ok {
			continue
		}
		// The number may be another process's by now.
		if text, err := os.ReadFile("/proc/" + id + "/cmdline"); err == nil && bytes.Contains(text, []byte(filepath.Join(dir, "log"))) {
			t.Errorf("server %s is still there", id)
		}
	}
	return begun
}
