package docs_test

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// A fence says what becomes of a block of README.md, docs/use and the other documents in run:
//
//	sh            is run
//	text          behind sh: what that wrote to standard output, or the server's log
//	text numbers  the same, where numbers and the width of gaps may be others
//	python, js    is run by make clients with the published clients
//	console       is not run, for a reason in the table below
//
// A line "…" of an output stands for any number of lines. Outputs are those of Linux.
var fences = []string{"sh", "text", "text numbers", "python", "js", "console", "ini", "yaml", "toml", "go", "caddy", "nginx"}

// notRun says why a console block is not run, by its first line.
var notRun = map[string]string{
	"$ sudo useradd --system --home-dir /var/lib/ossian --create-home ossian":                                                 "changes the machine",
	"$ ossian bench sweep load --model openai/gpt-oss-20b --sla 'p99_ttft_ms<=500' --html load.html":                          "takes minutes",
	"$ ossian serve openai/gpt-oss-20b --device cuda":                                                                         "needs a GPU",
	"$ export ANTHROPIC_BASE_URL=http://127.0.0.1:8000 ANTHROPIC_API_KEY=none":                                                "needs a program of another's",
	"$ _tools/cuda/gpu.sh pack out/gpu":                                                                                       "builds three programs, tens of megabytes",
	"$ export OPENAI_API_KEY=… HF_TOKEN=…":                                                                                    "needs a server of a large model, and data sets of others",
	"$ tar -xJf gpu.tar.xz && gpu/gpu.sh run results":                                                                         "needs a GPU",
	"$ make image VERSION=v1.2.3":                                                                                             "needs a registry; make image-check runs the image",
	"$ sha256sum -c SHA256SUMS":                                                                                               "needs a release; the test of _tools/release makes and checks one",
	"$ kubectl create secret generic ossian-keys --from-file=keys --from-file=scraper":                                        "needs a cluster",
	"$ kubectl label namespace gateway-system ossian-access=allowed":                                                          "needs a cluster",
	"$ sed -i \"s/start-at=.*/start-at=$(date -u -d '+2 minutes' +%Y-%m-%dT%H:%M:%SZ)/\" deploy/benchmark/kustomization.yaml": "needs a cluster",
}

// mostNotRun bounds that table: what is not run may be wrong.
const mostNotRun = 12

// spelt are what documents write and what the test runs for it. The program is built
// before, this test is a part of go test ./..., and what a campaign decides in 20 s nobody looks at.
var spelt = strings.NewReplacer("go run ./cmd/ossian", "ossian", "./ossian", "ossian",
	"go build ./cmd/ossian", "true", "go install ./cmd/ossian", "true", "go test ./...", "true", "budget.time=20s", "budget.time=6s")

const blockTime = 5 * time.Minute

// run are the documents whose blocks are run, beside those of docs/use.
var run = []string{"README.md", "docs/lab.md", "docs/cuda.md", "docs/eval.md", "docs/deploy.md", toolsDocument}

// toolsDocument is run where Python is, and can be held.
const toolsDocument = "docs/tools.md"

// TestCommands runs the commands of the documents for users in order, file by file, with
// the real program, a home of their own and an endpoint that serves tiny models under
// the names of large ones.
func TestCommands(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the documents are written for a POSIX shell")
	}
	files := slices.Clone(run)
	if found, err := filepath.Glob("use/*.md"); err != nil || len(found) < 5 {
		t.Fatalf("%d documents in docs/use: %v", len(found), err)
	} else if !testing.Short() {
		for _, name := range found {
			files = append(files, "docs/"+filepath.ToSlash(name))
		}
	}
	bin := build(t)
	if out, err := exec.Command(filepath.Join(bin, "ossian"), "tools", "--browser-corpus", ".").CombinedOutput(); err != nil {
		t.Logf("%s is not run here: %s", toolsDocument, out)
		files = slices.DeleteFunc(files, func(name string) bool { return name == toolsDocument })
	}
	hub := startHub(t)
	for _, name := range files {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".md"), func(t *testing.T) {
			t.Parallel()
			newShell(t, bin, hub).document(readDocument(t, name))
		})
	}
}

// TestFences: every block says what it is, and those that are not run say why.
func TestFences(t *testing.T) {
	if len(notRun) > mostNotRun {
		t.Errorf("%d blocks are not run, at most %d expected", len(notRun), mostNotRun)
	}
	seen := map[string]bool{}
	for _, d := range documents(t) {
		if !slices.Contains(run, d.name) && !strings.HasPrefix(d.name, "docs/use/") {
			continue
		}
		for i, b := range d.blocks {
			at := fmt.Sprintf("%s:%d", b.file, b.line)
			switch {
			case !slices.Contains(fences, b.info):
				t.Errorf("%s: a block of kind %q; one of %q expected", at, b.info, fences)
			case b.info == "console" && notRun[b.lines[0]] == "":
				t.Errorf("%s: a block that is not run without a reason in notRun", at)
			case b.info == "console":
				seen[b.lines[0]] = true
			case strings.HasPrefix(b.info, "text") && (i == 0 || !slices.Contains([]string{"sh", "python", "js"}, d.blocks[i-1].info)):
				t.Errorf("%s: an output without a command before it", at)
			}
		}
	}
	for line := range notRun {
		if !seen[line] {
			t.Errorf("notRun has %q, which no document has", line)
		}
	}
}

// build makes the program and returns the folder it is in.
func build(t *testing.T) string {
	t.Helper()
	goTool, err := exec.LookPath("go")
	if err != nil {
		t.Skip("there is no go command to build the program with")
	}
	bin := t.TempDir()
	c := exec.Command(goTool, "build", "-o", bin, "ossian/cmd/ossian")
	c.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return bin
}

// A shell runs the blocks of one document.
type shell struct {
	t      *testing.T
	dir    string // where commands run
	env    []string
	port   string // stands for 8000
	server *process
	doubts bool // the last measurement found its own figures wanting: they need not be those of the document
}

// freePort returns a port that nobody listens on and that no connection gets by chance:
// systems take those from 32768 on.
func freePort(t *testing.T) string {
	t.Helper()
	for range 100 {
		port := strconv.Itoa(20000 + rand.IntN(10000))
		if l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", port)); err == nil {
			l.Close()
			return port
		}
	}
	t.Fatal("no port is free")
	return ""
}

func newShell(t *testing.T, bin, hub string) *shell {
	port := freePort(t)
	home := t.TempDir()
	s := &shell{t: t, dir: t.TempDir(), port: port}
	s.env = []string{"PATH=" + bin + string(os.PathListSeparator) + os.Getenv("PATH"), "HOME=" + home, "TMPDIR=" + t.TempDir(),
		"LC_ALL=C.UTF-8", "HF_ENDPOINT=" + hub, "OSSIAN_PORT=" + port}
	return s
}

// document runs the blocks of d and compares their outputs.
func (s *shell) document(d *document) {
	outer := s.t
	defer func() {
		s.t = outer
		s.stop()
	}()
	for i, b := range d.blocks {
		if b.info != "sh" {
			continue
		}
		outer.Run("line "+strconv.Itoa(b.line), func(t *testing.T) {
			s.t = t
			for _, tool := range []string{"curl", "openssl"} {
				if _, err := exec.LookPath(tool); err != nil && strings.Contains(strings.Join(b.lines, "\n"), tool) {
					t.Skipf("there is no %s here", tool)
				}
			}
			s.doubts = false
			if runtime.GOOS != "linux" && strings.Contains(strings.Join(b.lines, "\n"), "--gpu-memory-utilization 0.0001") {
				t.Skip("this system does not tell how much memory is free, so everything fits")
			}
			out := s.block(&b)
			if s.doubts {
				t.Log("the machine is too busy for this measurement")
			} else if runtime.GOOS == "linux" && i+1 < len(d.blocks) && strings.HasPrefix(d.blocks[i+1].info, "text") {
				compare(t, &d.blocks[i+1], out)
			}
		})
		if outer.Failed() {
			return // what follows may need it
		}
	}
}

// serving matches a command that starts a server and goes on.
var serving = regexp.MustCompile(`^(?:[A-Z_]+=\S+ )*ossian serve\b`)

// block runs the commands of b: those before a server is started, the server, those
// behind. It returns what the last of them wrote.
func (s *shell) block(b *block) []string {
	text := spelt.Replace(strings.Join(b.lines, "\n"))
	text = strings.ReplaceAll(text, "\\\n", "")
	text = regexp.MustCompile(`\b8000\b`).ReplaceAllString(text, s.port)
	var out string
	var pending []string
	flush := func() {
		if len(pending) > 0 {
			out = s.run(strings.Join(pending, "\n"))
		}
		pending = nil
	}
	for line := range strings.SplitSeq(text, "\n") {
		if serving.MatchString(line) && !strings.Contains(line, "--explain") && !strings.Contains(line, "||") {
			flush()
			s.start(strings.ReplaceAll(line, "0.0.0.0", "127.0.0.1"))
			out = s.server.log.String()
			continue
		}
		pending = append(pending, line)
	}
	flush()
	return strings.Split(strings.TrimRight(strings.ReplaceAll(out, s.port, "8000"), "\n"), "\n")
}

// invalid is what a measurement says of itself that cannot be trusted.
var invalid = regexp.MustCompile(`(?m)^Run: +INVALID`)

// run runs a script and returns its standard output. A measurement that found its own
// figures wanting, because the machine is busy, may end with a status other than 0.
func (s *shell) run(script string) string {
	s.t.Helper()
	c := exec.CommandContext(s.t.Context(), "sh", "-e", "-c", script)
	c.Dir, c.Env, c.WaitDelay = s.dir, s.env, time.Second
	timer := time.AfterFunc(blockTime, func() { _ = c.Process.Kill() })
	defer timer.Stop()
	var stdout, stderr bytes.Buffer
	c.Stdout, c.Stderr = &stdout, &stderr
	if err := c.Run(); err != nil {
		if s.doubts = invalid.MatchString(stdout.String()); !s.doubts {
			s.t.Fatalf("%v\n%s\n%s\n%s", err, script, stdout.String(), stderr.String())
		}
	}
	return stdout.String()
}

// A process is a server that runs beside the commands.
type process struct {
	cmd  *exec.Cmd
	log  lockedBuffer
	done chan error
}

// lockedBuffer is a buffer that is read while it is written.
type lockedBuffer struct {
	mu sync.Mutex // guards b
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// start starts a server in place of the one that runs, and waits until it is ready.
func (s *shell) start(line string) {
	s.t.Helper()
	s.stop()
	p := &process{done: make(chan error, 1)}
	p.cmd = exec.Command("sh", "-c", strings.Replace(line, "ossian serve", "exec ossian serve", 1))
	p.cmd.Dir, p.cmd.Env, p.cmd.Stdout, p.cmd.Stderr = s.dir, s.env, &p.log, &p.log
	if err := p.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.server = p
	go func() { p.done <- p.cmd.Wait() }()
	scheme := "http"
	if strings.Contains(line, "--ssl-certfile") {
		scheme = "https"
	}
	transport := &http.Transport{Proxy: nil, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} // a certificate of the document's own
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: 10 * time.Second}
	for deadline := time.Now().Add(blockTime); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		select {
		case err := <-p.done:
			s.server = nil
			s.t.Fatalf("%s: ended before it was ready: %v\n%s", line, err, p.log.String())
		default:
		}
		r, err := client.Get(scheme + "://127.0.0.1:" + s.port + "/ready")
		if err != nil {
			continue
		}
		_, _ = io.Copy(io.Discard, r.Body)
		r.Body.Close()
		if r.StatusCode == http.StatusOK {
			return
		}
	}
	s.t.Fatalf("%s: not ready after %v\n%s", line, blockTime, p.log.String())
}

// stop ends the server, if one runs, as its user would.
func (s *shell) stop() {
	p := s.server
	if p == nil {
		return
	}
	s.server = nil
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case err := <-p.done:
		if err != nil {
			s.t.Errorf("the server ended with %v\n%s", err, p.log.String())
		}
	case <-time.After(blockTime):
		_ = p.cmd.Process.Kill()
		s.t.Errorf("the server did not end\n%s", p.log.String())
	}
}

var (
	numbers = regexp.MustCompile(`\d+(?:[.,]\d+)*`)
	gaps    = regexp.MustCompile(`\s+`)
)

// compare fails unless got is what the output b tells.
func compare(t *testing.T, b *block, got []string) {
	t.Helper()
	plain := func(line string) string {
		if b.info == "text numbers" {
			line = gaps.ReplaceAllString(numbers.ReplaceAllString(line, "N"), " ")
		}
		return strings.TrimSpace(line)
	}
	var want, have []string
	for _, line := range b.lines {
		want = append(want, plain(line))
	}
	for _, line := range got {
		have = append(have, plain(line))
	}
	if !matches(want, have) {
		t.Errorf("%s:%d: expected\n%s\nfound\n%s", b.file, b.line, strings.Join(want, "\n"), strings.Join(have, "\n"))
	}
}

// matches reports whether have is want, in which "…" stands for any lines.
func matches(want, have []string) bool {
	switch {
	case len(want) == 0:
		return len(have) == 0
	case want[0] == "…":
		for i := range len(have) + 1 {
			if matches(want[1:], have[i:]) {
				return true
			}
		}
		return false
	}
	return len(have) > 0 && want[0] == have[0] && matches(want[1:], have[1:])
}
