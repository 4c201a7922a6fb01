package sweep

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"ossian/internal/soak"
)

// roleEnv makes the test binary one of the programs of a sweep.
const roleEnv = "TEST_SWEEP_ROLE"

func TestMain(m *testing.M) {
	switch os.Getenv(roleEnv) {
	case "":
		os.Exit(m.Run())
	case "server":
		serveRole(os.Args[1:])
	case "client":
		clientRole(os.Args[1:])
	case "trialserver":
		trialServer(os.Args[1:])
	case "trialclient":
		trialClient(os.Args[1:])
	case "campaign":
		campaignRole(os.Args[1:])
	case "sweep":
		sweepRole(os.Args[1:])
	}
}

// role makes the command of words, the first of which is a role.
func role(words []string) *exec.Cmd {
	c := exec.Command(os.Args[0], words[1:]...)
	c.Env = append(os.Environ(), roleEnv+"="+words[0])
	return c
}

// value is that of a flag.
func value(args []string, flag string) string {
	if at := slices.Index(args, flag); at >= 0 && at+1 < len(args) {
		return args[at+1]
	}
	return ""
}

func has(args []string, flag string) bool { return slices.Contains(args, flag) }

// note adds a line to the file of --log, as one write.
func note(args []string, format string, v ...any) {
	f, err := os.OpenFile(value(args, "--log"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o666)
	if err != nil {
		return
	}
	defer f.Close()
	fmt.Fprintf(f, format+"\n", v...)
}

// serveRole is a server that lives --load before it is ready, which /ready says, or with --health
// /health with 503, as vLLM and ossian have it. --crash ends it at once,
// --fragile with the first cache to forget; --stubborn does not end when asked to.
func serveRole(args []string) {
	if has(args, "--crash") {
		fmt.Fprintln(os.Stderr, "out of memory")
		os.Exit(3)
	}
	note(args, "server %s", strings.Join(args, " "))
	term := make(chan os.Signal, 1)
	signal.Notify(term, syscall.SIGTERM)
	load, _ := time.ParseDuration(value(args, "--load"))
	began := time.Now()
	mux := http.NewServeMux()
	loaded := func(w http.ResponseWriter, _ *http.Request) {
		if time.Since(began) < load {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}
	if has(args, "--health") {
		mux.HandleFunc("/health", loaded)
	} else {
		mux.HandleFunc("/health", func(http.ResponseWriter, *http.Request) {})
		mux.HandleFunc("/ready", loaded)
	}
	mux.HandleFunc("POST /reset_prefix_cache", func(http.ResponseWriter, *http.Request) {
		if has(args, "--fragile") {
			os.Exit(4)
		}
		note(args, "reset after %v", time.Since(began) >= load)
	})
	go func() {
		if err := http.ListenAndServe("127.0.0.1:"+value(args, "--port"), mux); err != nil {
			note(args, "server: %v", err)
			os.Exit(5)
		}
	}()
	for range term {
		note(args, "asked to end")
		if !has(args, "--stubborn") {
			os.Exit(0)
		}
	}
}

// clientRole writes a result in two halves with a break between them.
func clientRole(args []string) {
	path := filepath.Join(value(args, "--result-dir"), value(args, "--result-filename"))
	note(args, "begin %s", path)
	if has(args, "--hang") {
		time.Sleep(time.Minute)
	}
	text := fmt.Sprintf(`{"request_throughput": 2.5, "output_throughput": 25, "load": %q}`, value(args, "--x"))
	f, err := os.Create(path)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	_, _ = f.WriteString(text[:30])
	time.Sleep(20 * time.Millisecond)
	_, _ = f.WriteString(text[30:])
	f.Close()
	note(args, "done %s", path)
	if has(args, "--fail") {
		os.Exit(1)
	}
}

// sweepRole is a sweep in a process of its own.
func sweepRole(args []string) {
	e := &Experiment{Dir: value(args, "--dir"), Resume: has(args, "--resume"), Runs: 2, Out: os.Stdout}
	server := []string{"server", "--port", value(args, "--port"), "--log", value(args, "--log")}
	client := []string{"client", "--log", value(args, "--log")}
	g := Grid{Serve: []Object{{{"s", jsonInteger(1)}}, {{"s", jsonInteger(2)}}}, Bench: []Object{{{"x", jsonInteger(1)}}, {{"x", jsonInteger(2)}}, {{"x", jsonInteger(3)}}},
		Open: func(serve Object) (Measurer, error) { return programs(serve.Apply(server), client, os.Stdout), nil }}
	if err := e.Serve(context.Background(), g); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func programs(server, client []string, out io.Writer) *Programs {
	return &Programs{Server: &Server{Command: server, Make: role, Poll: 5 * time.Millisecond, Ready: time.Minute, Stderr: os.Stderr}, Client: client, Out: out}
}

// freePort returns a port at which nobody listens, below those that the system chooses.
func freePort(t *testing.T) string {
	t.Helper()
	for range 1000 {
		port := strconv.Itoa(10_000 + rand.IntN(20_000))
		// Until the test ends it has the port at another address as well, so that tests
		// in other processes neither choose it nor listen there for a moment.
		mark, err := net.Listen("tcp", "127.0.0.2:"+port)
		if err == nil {
			t.Cleanup(func() { mark.Close() })
		} else if !errors.Is(err, syscall.EADDRNOTAVAIL) { // not every system has the address
			continue
		}
		// A child between fork and exec would have the socket, too, and answer there.
		syscall.ForkLock.RLock()
		l, err := net.Listen("tcp", "127.0.0.1:"+port)
		if err == nil {
			l.Close()
		}
		syscall.ForkLock.RUnlock()
		if err != nil {
			continue
		}
		return port
	}
	t.Fatal("no port is free")
	return ""
}

func lines(t *testing.T, path string) []string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(text)), "\n")
}

// A sweep that is killed again and again comes to its end: every run is there, none that
// was done is done again, and no server is left behind.
func TestKilledSweep(t *testing.T) {
	dir := t.TempDir()
	log, port := filepath.Join(dir, "log"), freePort(t)
	kills := 0
	kept := map[string]int{}
	args := []string{"sweep", "--dir", filepath.Join(dir, "e"), "--log", log, "--port", port}
	most := soak.Cases(t, 4, 100)
	for wait := 50 * time.Millisecond; ; wait += 40 * time.Millisecond {
		c := role(args)
		var out bytes.Buffer
		c.Stdout, c.Stderr = &out, &out
		c.WaitDelay = time.Minute
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- c.Wait() }()
		var err error
		if kills >= most {
			err = <-ended
		} else {
			select {
			case err = <-ended:
			case <-time.After(wait):
				kills++
				_ = c.Process.Kill()
				<-ended
				if _, err := os.Stat(filepath.Join(dir, "e")); err == nil && !has(args, "--resume") {
					args = append(args, "--resume")
				}
				gone(t, port)
				keptRuns(t, kept, filepath.Join(dir, "e"), log)
				continue
			}
		}
		if err != nil {
			t.Fatalf("after %d kills: %v\n%s", kills, err, &out)
		}
		break
	}
	begun := begins(t, log)
	measuredOnce(t, kept, begun)
	got := files(t, filepath.Join(dir, "e"))
	if len(begun) != 12 || strings.Count(got["summary.csv"], "\n") != 13 {
		t.Errorf("%d runs of 12, table\n%s", len(begun), got["summary.csv"])
	}
	t.Logf("%d kills", kills)
	gone(t, port)
}

// begins counts how often the client of each run began, by the path of the run.
func begins(t *testing.T, log string) map[string]int {
	t.Helper()
	out := map[string]int{}
	if _, err := os.Stat(log); err != nil { // killed before anything began
		return out
	}
	for _, line := range lines(t, log) {
		if path, ok := strings.CutPrefix(line, "begin "); ok {
			out[final(path)]++
		}
	}
	return out
}

// keptRuns adds to kept the runs in a folder whose results are there, with how often their clients
// began.
func keptRuns(t *testing.T, kept map[string]int, dir, log string) {
	t.Helper()
	if _, err := os.Stat(dir); err != nil { // killed before it was made
		return
	}
	begun := begins(t, log)
	for name := range files(t, dir) {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if _, known := kept[path]; begun[path] > 0 && !known {
			kept[path] = begun[path]
		}
	}
}

// measuredOnce checks that no run was measured again whose result was there.
func measuredOnce(t *testing.T, kept, begun map[string]int) {
	t.Helper()
	for path, n := range kept {
		if begun[path] != n {
			t.Errorf("%s again", path)
		}
	}
}

// gone waits until nothing listens at a port.
func gone(t *testing.T, port string) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		c, err := net.Dial("tcp", "127.0.0.1:"+port)
		if err != nil {
			return
		}
		c.Close()
		if time.Now().After(end) {
			t.Fatalf("somebody still listens at %s", port)
		}
	}
}

// A server lives as long as its runs: started when the first is needed, waited for until
// it is ready and not only alive, asked to forget after each, asked to end at the end.
func TestPrograms(t *testing.T) {
	for _, how := range []string{"--ready", "--health"} { // says that it is not ready yet
		t.Run(how, func(t *testing.T) { testPrograms(t, how) })
	}
}

func testPrograms(t *testing.T, how string) {
	dir := t.TempDir()
	log, port := filepath.Join(dir, "log"), freePort(t)
	var out bytes.Buffer
	p := programs([]string{"server", "--port", port, "--log", log, "--load", "100ms", how}, []string{"client", "--log", log}, &out)
	p.Own = true
	for _, name := range []string{"a.json", "b.json"} {
		if err := p.Measure(t.Context(), one(t, `{"x": 5}`), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
		if r, err := readRun(filepath.Join(dir, name)); err != nil || len(r) != 3 {
			t.Errorf("%v, %v", r, err)
		}
	}
	p.Close()
	gone(t, port)
	got := lines(t, log)
	want := []string{"server", "begin", "done", "reset after true", "begin", "done", "reset after true", "asked to end"}
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) || !strings.HasPrefix(got[i], want[i]) {
			t.Fatalf("got %q\nwant %q", got, want)
		}
	}
	if !strings.Contains(out.String(), `"--x" "5" "--base-url" "http://localhost:`+port+`"`) {
		t.Errorf("output %s", &out)
	}
}

// Servers that do not start, or end, and clients that fail or hang are errors that say so,
// and leave nothing behind.
func TestProgramsFail(t *testing.T) {
	for _, c := range []struct {
		name, server, client string
		dead                 bool
		want                 string
	}{
		{"crash", "server --crash", "client", true, "it has ended: exit status 3"},
		{"no such program", "/no/such/program", "client", true, "/no/such/program"},
		{"never ready", "server --load 1h", "client", true, "it was not ready after"},
		{"dies", "server --fragile", "client", true, "it has ended: exit status 4"},
		{"client fails", "server", "client --fail", false, "exit status 1"},
		{"client hangs", "server", "client --hang", false, "--run-timeout"},
		{"does not end when asked", "server --stubborn", "client --fail", false, "exit status 1"},
		{"unknown port", "server --port 0", "client", true, "the port must be known"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir, port := t.TempDir(), freePort(t)
			server := strings.Fields(c.server)
			if !has(server, "--port") {
				server = append(server, "--port", port)
			}
			p := programs(append(server, "--log", filepath.Join(dir, "log")), strings.Fields(c.client), io.Discard)
			if p.Server.Grace = 200 * time.Millisecond; c.name == "never ready" {
				p.Server.Ready = 500 * time.Millisecond
			}
			if c.name == "client hangs" {
				p.Limit = 300 * time.Millisecond
			}
			if c.name == "no such program" {
				p.Server.Make = func(words []string) *exec.Cmd { return exec.Command(words[0]) }
			}
			err := p.Measure(t.Context(), nil, filepath.Join(dir, "a.json"))
			_, dead := errors.AsType[*ServerError](err)
			if c.name == "dies" && !dead { // it took its time to
				err = p.Measure(t.Context(), nil, filepath.Join(dir, "b.json"))
				_, dead = errors.AsType[*ServerError](err)
			}
			if err == nil || dead != c.dead || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v (of the server: %v), want %q", err, dead, c.want)
			}
			p.Close()
			gone(t, port)
		})
	}
}

// What answers at the address of the server already is not measured in its place.
func TestPortInUse(t *testing.T) {
	other := httptest.NewServer(http.NotFoundHandler())
	defer other.Close()
	_, port, _ := strings.Cut(strings.TrimPrefix(other.URL, "http://"), ":")
	p := programs([]string{"server", "--host=127.0.0.1", "--port=" + port}, []string{"client"}, io.Discard)
	defer p.Close()
	if err := p.Measure(t.Context(), nil, filepath.Join(t.TempDir(), "a.json")); err == nil || !strings.Contains(err.Error(), "answers at http://127.0.0.1:"+port+" already") {
		t.Error(err)
	}
}

// Ctrl-C ends client and server.
func TestInterrupt(t *testing.T) {
	dir, port := t.TempDir(), freePort(t)
	log := filepath.Join(dir, "log")
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	p := programs([]string{"server", "--port", port, "--log", log}, []string{"client", "--hang", "--log", log}, io.Discard)
	ended := make(chan error, 1)
	go func() { ended <- p.Measure(ctx, nil, filepath.Join(dir, "a.json")) }()
	for {
		if text, err := os.ReadFile(log); err == nil && bytes.Contains(text, []byte("begin")) {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	stop()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	p.Close()
	gone(t, port)
}

func TestURL(t *testing.T) {
	for command, want := range map[string]string{
		"vllm serve m":                     "http://localhost:8000",
		"vllm serve m --port 1 --port 2":   "http://localhost:2",
		"vllm serve m --host=0.0.0.0 -p 7": "http://127.0.0.1:7",
		"llama-server --host :: --port=9":  "http://[::1]:9",
		"ossian serve --host 10.0.0.1":     "http://10.0.0.1:8000",
		"ossian serve --ssl-certfile=c":    "https://localhost:8000",
		"ossian serve --port 0":            "",
		"ossian serve --port":              "",
	} {
		got, err := (&Server{Command: strings.Fields(command)}).URL()
		if got != want || (err != nil) != (want == "") {
			t.Errorf("%s: %s, %v; want %s", command, got, err, want)
		}
	}
}

// vLLM has to forget; others are told of once.
func TestForget(t *testing.T) {
	var mu sync.Mutex
	var asked []string
	status := http.StatusOK
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		asked = append(asked, r.Method+" "+r.URL.Path)
		w.WriteHeader(status)
	}))
	defer s.Close()
	_, port, _ := strings.Cut(strings.TrimPrefix(s.URL, "http://"), ":")
	forget := func(program string) (string, error) {
		var out strings.Builder
		v := &Server{Command: []string{program, "--host", "127.0.0.1", "--port", port}}
		err := errors.Join(v.Forget(t.Context(), &out), v.Forget(t.Context(), &out))
		return out.String(), err
	}
	if out, err := forget("/usr/bin/vllm"); err != nil || out != "" || strings.Join(asked[:3], ",") != "POST /reset_prefix_cache,POST /reset_mm_cache,POST /reset_encoder_cache" || len(asked) != 6 {
		t.Error(out, err, asked)
	}
	status = http.StatusNotFound
	if out, err := forget("vllm"); err == nil {
		t.Error(out, "no error")
	}
	if out, err := forget("llama-server"); err != nil || strings.Count(out, "llama-server forgets no cache") != 1 {
		t.Error(out, err)
	}
}
