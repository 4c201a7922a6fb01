package browsertest

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// program is the path of ossian: built once, or named in OSSIAN.
var program = sync.OnceValues(func() (string, error) {
	if named := os.Getenv("OSSIAN"); named != "" {
		return filepath.Abs(named)
	}
	dir, err := os.MkdirTemp("", "browsertest")
	if err != nil {
		return "", err
	}
	folders = append(folders, dir)
	path := filepath.Join(dir, "ossian")
	build := exec.Command("go", "build", "-o", path, "./cmd/ossian")
	build.Dir = filepath.Join("..", "..", "..")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("ossian cannot be built: %w\n%s", err, out)
	}
	return path, nil
})

var folders []string // to be removed at the end

// A server is a running ossian serve.
type server struct {
	url     string
	process *exec.Cmd
	ended   chan struct{}
}

var listening = regexp.MustCompile(`listening on (http://\S+)`)

// start starts ossian serve on a free port and waits until it answers.
func start(arguments ...string) (*server, error) {
	path, err := program()
	if err != nil {
		return nil, err
	}
	var said strings.Builder
	s := &server{ended: make(chan struct{})}
	if !strings.Contains(strings.Join(arguments, " "), "--port") {
		arguments = append(arguments, "--port", "0")
	}
	s.process = exec.Command(path, append([]string{"serve", "--store", "memory"}, arguments...)...)
	out, err := s.process.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := s.process.Start(); err != nil {
		return nil, err
	}
	lines := bufio.NewReader(out)
	for s.url == "" {
		line, err := lines.ReadString('\n')
		if err != nil {
			return nil, fmt.Errorf("ossian serve %s ends: %s", strings.Join(arguments, " "), said.String()+line)
		}
		said.WriteString(line)
		if found := listening.FindStringSubmatch(line); found != nil {
			s.url = found[1]
		}
	}
	go func() {
		_, _ = io.Copy(io.Discard, lines)
		_ = s.process.Wait()
		close(s.ended)
	}()
	for tick := time.Tick(20 * time.Millisecond); ; <-tick {
		select {
		case <-s.ended:
			return nil, fmt.Errorf("ossian serve %s ended before it was ready: %s", strings.Join(arguments, " "), said.String())
		default:
		}
		if answer, err := http.Get(s.url + "/ready"); err == nil {
			answer.Body.Close()
			if answer.StatusCode == http.StatusOK {
				return s, nil
			}
		}
	}
}

// kill ends a server as a crash would.
func (s *server) kill() {
	_ = s.process.Process.Signal(syscall.SIGKILL)
	<-s.ended
}

// serve starts a server for one test.
func serve(t testing.TB, arguments ...string) *server {
	t.Helper()
	s, err := start(arguments...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.kill)
	return s
}

// builtIn is the server that tests share which change nothing in it; slow is one whose steps take
// 20 ms, so that an answer goes on for as long as it takes to look at it: a GPU that is played, and
// words of no meaning. All but the runner is what it is with any model.
var (
	builtIn = sync.OnceValues(func() (*server, error) { return share() })
	slow    = sync.OnceValues(func() (*server, error) { return share("--device", "sim:H100-SXM,time=30") })
)

var shared []*server

func share(arguments ...string) (*server, error) {
	s, err := start(arguments...)
	if err == nil {
		shared = append(shared, s)
	}
	return s, err
}

func stopServers() {
	for _, s := range shared {
		s.kill()
	}
	for _, dir := range folders {
		_ = os.RemoveAll(dir)
	}
}

func tiny(t testing.TB) *server { return of(t, builtIn) }

func of(t testing.TB, one func() (*server, error)) *server {
	t.Helper()
	s, err := one()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// fetch is the body of a GET request.
func fetch(t testing.TB, url string) string {
	t.Helper()
	answer, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

var series = regexp.MustCompile(`(?m)^([a-z_]+:)?([a-z0-9_]+)(?:\{([^}]*)\})? (\S+)$`)

// metric is the sum of a metric's series, as /metrics has it now.
func metric(t testing.TB, s *server, name string) float64 {
	t.Helper()
	sum := 0.0
	for _, found := range series.FindAllStringSubmatch(fetch(t, s.url+"/metrics"), -1) {
		if found[2] == name {
			sum += number(t, found[4])
		}
	}
	return sum
}
