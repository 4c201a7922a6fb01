//go:build unix

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"ossian/internal/command/commandtest"
	"ossian/internal/soak"
)

// A process is a server of its own.
type process struct {
	*exec.Cmd
	t     *testing.T
	url   string
	began time.Time
	log   commandtest.Console
	ended chan struct{}
	err   error // of Wait, once ended is closed
}

// serveProcess starts a server and returns when its port is open.
func serveProcess(t *testing.T, args ...string) *process {
	t.Helper()
	return startProcess(t, commandtest.Program(t, append([]string{"serve", "--port", "0"}, args...)...))
}

// startProcess starts a server as c and waits until it listens.
func startProcess(t *testing.T, c *exec.Cmd) *process {
	t.Helper()
	p := &process{Cmd: c, t: t, ended: make(chan struct{})}
	p.Stderr = &p.log
	p.began = time.Now()
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		p.err = p.Wait()
		close(p.ended)
	}()
	t.Cleanup(func() {
		_ = p.Process.Kill()
		<-p.ended
	})
	p.eventually(time.Minute, "it listens", func() bool {
		_, after, ok := strings.Cut(p.log.String(), "listening on ")
		url, _, whole := strings.Cut(after, "\n")
		p.url = url
		return ok && whole
	})
	return p
}

// eventually waits for f, but not longer than the process lives.
func (p *process) eventually(within time.Duration, what string, f func() bool) {
	p.t.Helper()
	for deadline := time.Now().Add(within); ; time.Sleep(time.Millisecond) {
		over := time.Now().After(deadline)
		select {
		case <-p.ended:
			over = true
		default:
		}
		switch {
		case f():
			return
		case over:
			p.t.Fatalf("not within %v: %s\n%s", within, what, &p.log)
		}
	}
}

// status asks for a path; 0 = no reply.
func (p *process) status(path string) int {
	r, err := http.Get(p.url + path)
	if err != nil {
		return 0
	}
	r.Body.Close()
	return r.StatusCode
}

// ready waits for the model.
func (p *process) ready() {
	p.t.Helper()
	p.eventually(2*time.Minute, "it is ready", func() bool { return p.status("/ready") == http.StatusOK })
}

// TestOPS1Start: a new process says that it lives before its weights are there, and
// answers soon.
func TestOPS1Start(t *testing.T) {
	n := soak.Cases(t, 2, 50)
	var live, first []time.Duration
	for range n {
		p := serveProcess(t)
		p.eventually(time.Minute, "it lives", func() bool { return p.status("/ping") == http.StatusOK })
		live = append(live, time.Since(p.began))
		p.ready()
		commandtest.Post(t, p.url+"/v1/completions", `{"prompt":"1","max_tokens":1}`)
		first = append(first, time.Since(p.began))
		_ = p.Process.Signal(syscall.SIGTERM)
		<-p.ended
		if p.err != nil {
			t.Fatalf("%v\n%s", p.err, &p.log)
		}
	}
	most, token := slices.Max(live), slices.Max(first)
	t.Logf("OPS-1: %d starts: liveness after %v at most, the first token of the built-in model after %v", n, most, token)
	if commandtest.Soaking() && (most > 300*time.Millisecond || token > time.Second) {
		t.Errorf("liveness after %v, first token after %v: at most 300 ms and 1 s wanted", most, token)
	}
}

// TestOPS1Errors: what can be checked is, and the process ends with a reason.
func TestOPS1Errors(t *testing.T) {
	n := soak.Cases(t, 1, 10)
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	_, port, _ := net.SplitHostPort(busy.Addr().String())
	broken := filepath.Join(t.TempDir(), "broken.gguf")
	if err := os.WriteFile(broken, []byte("GGUF\x03\x00\x00\x00"), 0o644); err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(config, []byte("max-model-lenn: 5\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	var times []time.Duration
	for _, c := range []struct{ args, err string }{
		{"--max-model-lenn 5", "max-model-len"},
		{"--port 99999999", "port"},
		{"--port " + port, "--port chooses another"},
		{"--host 0.0.0.0", "--insecure"},
		{"--config " + config, "max-model-len"},
		{"--config none.yaml", "none.yaml"},
		{"--limit nonsense=3", "nonsense"},
		{"--limit messages=-3", "messages"},
		{"--kv-cache-dtype q3", "kv-cache-dtype"},
		{"none/here", "ossian pull none/here"},
		{"./nowhere", "nowhere"},
		{broken, "broken.gguf"},
		{"--max-model-len 5000", "4096"},
		{"--gpu-memory-utilization 0.0000001", "memory"},
		{"two models", "models"},
	} {
		for range n {
			args := strings.Fields(c.args)
			if !strings.Contains(c.args, "--port") {
				args = append(args, "--port", "0")
			}
			began := time.Now()
			out, err := commandtest.Program(t, append([]string{"serve"}, args...)...).CombinedOutput()
			times = append(times, time.Since(began))
			exit, ended := errors.AsType[*exec.ExitError](err)
			if !ended || exit.ExitCode() != 1 || !strings.Contains(string(out), c.err) || bytes.Contains(out, []byte("goroutine ")) {
				t.Errorf("%s: %v %s, want %q", c.args, err, out, c.err)
			}
		}
	}
	most := slices.Max(times)
	t.Logf("OPS-1: %d starts that are refused, after %v at most", len(times), most)
	if commandtest.Soaking() && most > 2*time.Second {
		t.Errorf("refused after %v, at most 2 s wanted", most)
	}
}

// A told is what a stream said.
type told struct {
	ids    []int32
	finish string
	code   string // of an error
	done   bool
}

// listen reads a stream; begun is called for the first event.
func listen(r *http.Response, begun func()) (all told) {
	defer r.Body.Close()
	for lines := bufio.NewScanner(r.Body); lines.Scan(); {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		if all.done = data == "[DONE]"; all.done {
			return all
		}
		var e struct {
			Choices []struct {
				Finish string  `json:"finish_reason"`
				IDs    []int32 `json:"token_ids"`
			}
			Error struct{ Code string }
		}
		if json.Unmarshal([]byte(data), &e) != nil {
			return all
		}
		if begun != nil {
			begun()
			begun = nil
		}
		for _, c := range e.Choices {
			all.ids = append(all.ids, c.IDs...)
			all.finish = c.Finish
		}
		all.code = e.Error.Code
	}
	return all
}

// TestOPS2Process ends a process while it streams: it is not ready at once and sends
// new work away, what ends in time has all its tokens, the rest is told, the exit
// status is 0.
func TestOPS2Process(t *testing.T) {
	n := soak.Cases(t, 24, 500)
	timeout := 5 * time.Second
	if commandtest.Soaking() {
		timeout *= 2
	}
	p := serveProcess(t, "--max-num-seqs", fmt.Sprint(n), "--num-gpu-blocks-override", "20000", "--drain-timeout", timeout.String())
	p.ready()
	const short, long = 20, 4000
	ask := func(i, tokens int) (*http.Response, error) {
		body := fmt.Sprintf(`{"prompt":"%d+","max_tokens":%d,"ignore_eos":true,"stream":true,"return_token_ids":true,"temperature":0}`, 10+i%4, tokens)
		return http.Post(p.url+"/v1/completions", "application/json", strings.NewReader(body))
	}
	var alone [4][]int32
	for i := range alone {
		r, err := ask(i, short)
		if err != nil {
			t.Fatal(err)
		}
		alone[i] = listen(r, nil).ids
	}
	all := make([]told, n)
	var streams, begun sync.WaitGroup
	begun.Add(n)
	for i := range n {
		streams.Go(func() {
			tokens := long
			if i%2 == 0 {
				tokens = short
			}
			var once sync.Once
			defer once.Do(begun.Done)
			r, err := ask(i, tokens)
			if err != nil {
				t.Error(err)
				return
			}
			all[i] = listen(r, func() { once.Do(begun.Done) })
		})
	}
	begun.Wait()
	asked := time.Now()
	if err := p.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	p.eventually(time.Minute, "it is not ready", func() bool { return p.status("/ready") == http.StatusServiceUnavailable })
	unready := time.Since(asked)
	r, err := ask(0, 1)
	if err != nil || r.StatusCode != http.StatusServiceUnavailable || r.Header.Get("Retry-After") == "" {
		t.Errorf("new work: %v %v, want 503 with Retry-After", r, err)
	} else {
		r.Body.Close()
	}
	if got := p.status("/ping"); got != http.StatusOK {
		t.Errorf("ping while draining: %d", got)
	}
	streams.Wait()
	<-p.ended
	took := time.Since(asked)
	if p.err != nil {
		t.Errorf("exit: %v\n%s", p.err, &p.log)
	}
	whole, cut := 0, 0
	for i, s := range all {
		switch {
		case s.done && s.finish == "length" && s.code == "" && len(s.ids) == long,
			s.done && s.finish == "length" && s.code == "" && slices.Equal(s.ids, alone[i%4]):
			whole++
		case s.done && s.code == "draining" && s.finish == "":
			cut++
		default:
			t.Errorf("stream %d: %d tokens, %q %q, end %v", i, len(s.ids), s.finish, s.code, s.done)
		}
	}
	if commandtest.Soaking() && (whole == 0 || cut == 0) { // how fast a machine is nobody knows
		t.Errorf("%d whole, %d cut: this shows nothing", whole, cut)
	}
	t.Logf("OPS-2: %d live streams at SIGTERM: not ready after %v, %d ended with all their tokens, %d were told, exit 0 after %v with a timeout of %v", n, unready, whole, cut, took, timeout)
	if commandtest.Soaking() && unready > 100*time.Millisecond {
		t.Errorf("not ready after %v, at most 100 ms wanted", unready)
	}
}

// TestOPS2Twice: a second signal ends the process at once.
func TestOPS2Twice(t *testing.T) {
	p := serveProcess(t, "--drain-timeout", "10m")
	p.ready()
	r := commandtest.Post(t, p.url+"/v1/completions", `{"prompt":"1","max_tokens":4000,"n":8,"ignore_eos":true,"stream":true}`)
	go listen(r, nil)
	_ = p.Process.Signal(syscall.SIGTERM)
	p.eventually(time.Minute, "it drains", func() bool { return p.status("/ready") == http.StatusServiceUnavailable })
	p.eventually(time.Minute, "it says what a second signal does", func() bool {
		return strings.Contains(p.log.String(), "another Ctrl-C or SIGTERM ends at once")
	})
	asked := time.Now()
	_ = p.Process.Signal(syscall.SIGTERM)
	<-p.ended
	took := time.Since(asked)
	t.Logf("OPS-2: ended %v after the second signal", took)
	if state, ok := p.ProcessState.Sys().(syscall.WaitStatus); !ok || !state.Signaled() || state.Signal() != syscall.SIGTERM { // 143 to a shell
		t.Errorf("ended with %v, by its second SIGTERM expected", p.err)
	}
	if commandtest.Soaking() && took > time.Second {
		t.Errorf("ended after %v, at most 1 s wanted", took)
	}
}

// TestOPS2Loading: a server that is told to end while it loads its model ends well, and has not
// waited for the model.
func TestOPS2Loading(t *testing.T) {
	n := soak.Cases(t, 3, 50)
	var most time.Duration
	unfinished := 0
	for range n {
		p := serveProcess(t)
		asked := time.Now()
		_ = p.Process.Signal(syscall.SIGTERM)
		<-p.ended
		most = max(most, time.Since(asked))
		if p.err != nil {
			t.Errorf("%v\n%s", p.err, &p.log)
		}
		if !strings.Contains(p.log.String(), "model loaded") {
			unfinished++
		}
	}
	t.Logf("OPS-2: %d servers told to end as they began, %d before their model was there: ended after %v at most", n, unfinished, most)
	if commandtest.Soaking() && (most > time.Second || unfinished == 0) {
		t.Errorf("%d were loading, ended after %v at most: some and 1 s wanted", unfinished, most)
	}
}

// TestHomeless: without a home directory a server starts, and says what is off.
func TestHomeless(t *testing.T) {
	t.Setenv("HOME", "")
	t.Setenv("XDG_STATE_HOME", "")
	probe, err := net.Listen("tcp", "127.0.0.1:0") // of a port that chance chose nothing is stored anyway
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(probe.Addr().String())
	probe.Close()
	p := serveProcess(t, "--port", port)
	p.ready()
	if !strings.Contains(p.log.String(), "responses are kept in memory only, as no home directory is set") {
		t.Errorf("the log does not say that nothing is stored:\n%s", &p.log)
	}
}
