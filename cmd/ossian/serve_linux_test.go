package main

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"ossian/internal/command/commandtest"
)

// quit ends the process, which has to exit with 0.
func (p *process) quit(end func() error) {
	p.t.Helper()
	if err := end(); err != nil {
		p.t.Fatal(err)
	}
	select {
	case <-p.ended:
		if p.err != nil {
			p.t.Errorf("serve: %v\n%s", p.err, &p.log)
		}
	case <-time.After(time.Minute):
		p.t.Errorf("serve does not end:\n%s", &p.log)
	}
}

func (p *process) terminate() error { return p.Process.Signal(syscall.SIGTERM) }

// hangUp sends SIGHUP and returns the log's next line that contains says.
func (p *process) hangUp(says string) (line string) {
	p.t.Helper()
	before := len(p.log.String())
	if err := p.Process.Signal(syscall.SIGHUP); err != nil {
		p.t.Fatal(err)
	}
	p.eventually(time.Minute, "the log has "+says, func() bool {
		for line = range strings.Lines(p.log.String()[before:]) {
			if strings.Contains(line, says) && strings.HasSuffix(line, "\n") {
				return true
			}
		}
		return false
	})
	return line
}

// sockets lists what the operating system says the process can be reached at: listening
// TCP and Unix sockets, every UDP and raw socket.
func (p *process) sockets() (all []string) {
	t := p.t
	t.Helper()
	t.Helper()
	proc := fmt.Sprintf("/proc/%d/", p.Process.Pid)
	links, err := filepath.Glob(proc + "fd/*")
	if err != nil || len(links) == 0 {
		t.Fatalf("%d descriptors, %v", len(links), err)
	}
	own := map[string]bool{}
	for _, link := range links {
		if to, err := os.Readlink(link); err == nil {
			if inode, ok := strings.CutPrefix(to, "socket:["); ok {
				own[strings.TrimSuffix(inode, "]")] = true
			}
		}
	}
	for _, kind := range []string{"tcp", "tcp6", "udp", "udp6", "udplite", "udplite6", "raw", "raw6", "unix"} {
		table, err := os.ReadFile(proc + "net/" + kind)
		if os.IsNotExist(err) {
			continue // the kernel does not have that kind
		}
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(table)) {
			f := strings.Fields(line)
			switch {
			case kind == "unix" && len(f) > 6 && own[f[6]] && f[3] == "00010000":
				all = append(all, strings.Join(append([]string{kind}, f[7:]...), " "))
			case kind == "unix" || len(f) < 10 || !own[f[9]] || (strings.HasPrefix(kind, "tcp") && f[3] != "0A"):
			default:
				all = append(all, kind+" "+f[1])
			}
		}
	}
	return all
}

// One port of one address is open, and nothing else: at the start, with a model, while
// a stream runs, and after a reload.
func TestSEC12Listeners(t *testing.T) {
	p := serveProcess(t)
	var port int
	if _, err := fmt.Sscanf(p.url, "http://127.0.0.1:%d", &port); err != nil {
		t.Fatalf("%s: %v", p.url, err)
	}
	want := []string{fmt.Sprintf("tcp 0100007F:%04X", port)}
	looks := 0
	look := func(when string) {
		t.Helper()
		looks++
		if got := p.sockets(); !slices.Equal(got, want) {
			t.Errorf("%s: open are %q, want %q", when, got, want)
		}
	}
	look("at the start")
	p.ready()
	look("after loading")
	r := commandtest.Post(t, p.url+"/v1/completions", `{"prompt":"a","max_tokens":300,"ignore_eos":true,"stream":true}`)
	look("during a stream")
	if !listen(r, nil).done {
		t.Error("the stream was cut")
	}
	p.hangUp("settings reloaded")
	look("after a reload")
	p.quit(p.terminate)
	t.Logf("SEC-12: %d looks at the system's list: %q and nothing else is open", looks, want)
}

// SIGHUP reads keys, limits and the log level again; a stream goes on; what is refused
// changes nothing and says why.
func TestOPS4Signal(t *testing.T) {
	dir := t.TempDir()
	keys, config := filepath.Join(dir, "keys"), filepath.Join(dir, "c.yaml")
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(keys, "first\n")
	write(config, "api-key-file: "+keys+"\n")
	p := serveProcess(t, "--config", config, "--log-format", "json")
	p.ready()
	ask := func(method, path, key, body string) *http.Response {
		t.Helper()
		req, err := http.NewRequest(method, p.url+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Authorization", "Bearer "+key)
		r, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatalf("%v\n%s", err, &p.log)
		}
		return r
	}
	want := func(when string, statuses map[string]int) {
		t.Helper()
		for key, status := range statuses {
			r := ask("GET", "/version", key, "")
			r.Body.Close()
			if r.StatusCode != status {
				t.Errorf("%s: status %d with key %q, want %d", when, r.StatusCode, key, status)
			}
		}
	}
	said := func(says string, parts ...string) {
		t.Helper()
		line := p.hangUp(says)
		for _, part := range parts {
			if !strings.Contains(line, part) {
				t.Errorf("%q is missing: %s", part, line)
			}
		}
	}
	want("at first", map[string]int{"first": 200, "second": 401, "": 401})
	stream := ask("POST", "/v1/completions", "first", `{"prompt":"a","max_tokens":2000,"ignore_eos":true,"stream":true}`)
	write(keys, "second\n# third\n")
	write(config, "api-key-file: "+keys+"\nseed: 7\nlog-level: debug\nlimit: [choices=1, connections=9]\n")
	said("settings reloaded", "--seed", "--limit connections", `"keys":1`, `"debug"`)
	want("after a reload", map[string]int{"first": 401, "second": 200, "third": 401})
	write(keys, "")
	said("settings stay as they are", "no key in it")
	write(keys, "third")
	write(config, "api-key-file: "+keys+"\nprot: 1\n")
	said("settings stay as they are", "did you mean port?")
	want("after refused ones", map[string]int{"first": 401, "second": 200, "third": 401})
	if got := listen(stream, nil); !got.done || got.finish != "length" {
		t.Errorf("the stream that went through: %+v", got)
	}
	p.quit(p.terminate)
	t.Log("OPS-4: SIGHUP three times: new keys and limits in force, two files refused with the reason, a stream through all of them")
}

// Closing the terminal that a server was started in ends it, unless it was started with
// nohup; SIGHUP alone does not.
func TestHangUp(t *testing.T) {
	p, closing := terminalServer(t)
	p.hangUp("settings reloaded")
	p.quit(closing)
	nohup, err := exec.LookPath("nohup")
	if err != nil {
		t.Skip("nohup is not installed")
	}
	p, closing = terminalServer(t, nohup)
	if err := closing(); err != nil {
		t.Fatal(err)
	}
	p.eventually(time.Minute, "the signal came", func() bool { return strings.Contains(p.log.String(), "settings reloaded") })
	p.hangUp("settings reloaded")
	p.quit(p.terminate)
}

// terminalServer starts serve in a terminal of its own, by another program if there is
// one, and returns what closes the terminal.
func terminalServer(t *testing.T, by ...string) (p *process, closing func() error) {
	master, slave := commandtest.PTY(t)
	p = &process{Cmd: commandtest.Program(t, "serve", "--port", "0", "--log-format", "json"), t: t, ended: make(chan struct{})}
	if len(by) > 0 {
		p.Args = append(by, p.Args...)
		p.Path = by[0]
	}
	caught := make(chan os.Signal, 1) // the tests may have been started with nohup: what is caught here is not ignored there
	signal.Notify(caught, syscall.SIGHUP)
	defer signal.Stop(caught)
	p.Stdin, p.Stderr = slave, &p.log
	p.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true} // of descriptor 0
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		p.err = p.Wait()
		close(p.ended)
	}()
	t.Cleanup(func() { _ = p.Process.Kill() })
	slave.Close()
	p.eventually(time.Minute, "it listens", func() bool { return strings.Contains(p.log.String(), "listening on ") })
	return p, master.Close
}

// A model that is not there is an error before anything listens; an error of loading is
// the last thing that is said.
func TestLoadErrorIsLast(t *testing.T) {
	for _, c := range []struct {
		args  []string
		lines int
		last  string
	}{
		{[]string{"/nonexist"}, 1, `ossian: model "/nonexist": no such file or directory; a model directory, a GGUF file or ORG/NAME`},
		{[]string{"--ssl-certfile", "/nonexist"}, 1, "ossian: --ssl-certfile: open /nonexist: no such file or directory"},
		{[]string{"--max-model-len", "5000"}, 3, "ossian: "},
	} {
		out, err := commandtest.Program(t, append([]string{"serve", "--port", "0"}, c.args...)...).CombinedOutput()
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		if err == nil || len(lines) != c.lines || !strings.HasPrefix(lines[len(lines)-1], c.last) {
			t.Errorf("%q: %v, printed\n%s", c.args, err, out)
		}
	}
}
