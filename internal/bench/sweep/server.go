package sweep

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// A ServerError says that a server did not start or has ended, so that there is nothing
// to measure.
type ServerError struct {
	Command []string
	Err     error
}

// Error says which server it was.
func (e *ServerError) Error() string { return fmt.Sprintf("server %q: %v", e.Command, e.Err) }

// Unwrap returns the reason.
func (e *ServerError) Unwrap() error { return e.Err }

// A process is a program in a process group of its own: running → ended.
type process struct {
	cmd   *exec.Cmd
	ended chan struct{} // closed when the program has ended
	err   error         // of the program; may be read once ended is closed
}

// start starts a program and waits for its end in the background. Both happen on a thread that is
// kept until then: on Linux the kernel ends a program with the thread that started it.
func start(cmd *exec.Cmd) (*process, error) {
	ownGroup(cmd)
	cmd.WaitDelay = time.Second // what it started may still hold its output
	started, begun := &process{cmd: cmd, ended: make(chan struct{})}, make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		if begun <- err; err != nil {
			return
		}
		if started.err = cmd.Wait(); errors.Is(started.err, exec.ErrWaitDelay) {
			started.err = nil
		}
		close(started.ended)
	}()
	if err := <-begun; err != nil {
		return nil, err
	}
	return started, nil
}

// stop asks the group to end, and ends it after a while; what the first process has left
// behind ends as well.
func (p *process) stop(grace time.Duration) {
	terminate(p.cmd.Process)
	select {
	case <-p.ended:
	case <-time.After(grace):
	}
	kill(p.cmd.Process)
	<-p.ended
}

// over reports whether the program has ended.
func (p *process) over() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// A Server is a program that serves while it is needed: stopped → starting → ready →
// stopped. One goroutine uses it.
type Server struct {
	Command []string
	Make    func(command []string) *exec.Cmd
	Ready   time.Duration // how long it may take to be ready; 0 = 300 s
	Poll    time.Duration // between questions whether it is; 0 = 1 s
	Health  string        // path that answers 200 when it is; "" = /health
	Base    string        // where it serves; "" = as Command says
	Grace   time.Duration // from asking it to end to ending it; 0 = 10 s
	Stdout  io.Writer     // nil = nobody wants its output
	Stderr  io.Writer

	process        *process // nil while it is stopped
	toldCachesStay bool     // that caches stay
}

// URL is the address that the command says it serves at, by default port 8000 of this
// machine.
func (s *Server) URL() (string, error) {
	if s.Base != "" {
		return s.Base, nil
	}
	scheme, host, port := "http", "localhost", "8000"
	for i, word := range s.Command {
		name, value, joined := strings.Cut(word, "=")
		if !joined && i+1 < len(s.Command) {
			value = s.Command[i+1]
		}
		switch name {
		case "--host":
			host = value
		case "--port", "-p":
			port = value
		case "--ssl-certfile":
			scheme = "https"
		}
	}
	switch host { // addresses that mean all of this machine cannot be called
	case "", "0.0.0.0":
		host = "127.0.0.1"
	case "::":
		host = "::1"
	}
	if port == "0" || port == "" {
		return "", fmt.Errorf("%q: the port must be known: name one with --port", s.Command)
	}
	return scheme + "://" + net.JoinHostPort(host, port), nil
}

// Start starts the server unless it runs, and waits until it is ready. Errors are
// *ServerError, or those of ctx.
func (s *Server) Start(ctx context.Context) error {
	if s.process != nil {
		return s.Alive()
	}
	base, err := s.URL()
	if err != nil {
		return &ServerError{s.Command, err}
	}
	_, address, _ := strings.Cut(base, "://")
	// Else the measurement would be of whatever is there.
	if conn, err := net.DialTimeout("tcp", address, time.Second); err == nil {
		conn.Close()
		return &ServerError{s.Command, fmt.Errorf("something else answers at %s already; end it, or choose another --port", base)}
	}
	cmd := s.Make(s.Command)
	cmd.Env = append(cmd.Environ(), "VLLM_SERVER_DEV_MODE=1") // vLLM forgets its caches on request only then
	cmd.Stdout, cmd.Stderr = s.Stdout, s.Stderr
	if s.process, err = start(cmd); err != nil {
		return &ServerError{s.Command, err}
	}
	return s.wait(ctx, base)
}

// Alive returns an error if the server was started and has ended.
func (s *Server) Alive() error {
	if s.process == nil || !s.process.over() {
		return nil
	}
	return &ServerError{s.Command, fmt.Errorf("it has ended: %w", cmp.Or(s.process.err, errors.New("exit status 0")))}
}

// wait waits until the server is ready. One that is not in time still runs: Stop ends it.
func (s *Server) wait(ctx context.Context, base string) error {
	limit := time.NewTimer(cmp.Or(s.Ready, 300*time.Second))
	defer limit.Stop()
	for !ready(ctx, base, cmp.Or(s.Health, "/health")) {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.process.ended:
			return s.Alive()
		case <-limit.C:
			return &ServerError{s.Command, fmt.Errorf("it was not ready after %v; --server-ready-timeout SECONDS gives it longer", cmp.Or(s.Ready, 300*time.Second))}
		case <-time.After(cmp.Or(s.Poll, time.Second)):
		}
	}
	return nil
}

// ready asks at path whether a server is. While they load, ossian and vLLM say 503 at /health; others
// are healthy then and say at /ready that they are not, and some do not know that path.
func ready(ctx context.Context, base, path string) bool {
	health, err := ask(ctx, http.MethodGet, base+path)
	if err != nil || health != http.StatusOK {
		return false
	}
	loaded, err := ask(ctx, http.MethodGet, base+"/ready")
	return err == nil && loaded != http.StatusServiceUnavailable
}

// ask sends a request without a body and returns the status of its answer.
func ask(ctx context.Context, method, url string) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, url, nil)
	if err != nil {
		return 0, err
	}
	// No proxy, and any certificate: the server is ours.
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	answer, err := client.Do(request)
	if err != nil {
		return 0, err
	}
	answer.Body.Close()
	return answer.StatusCode, nil
}

// Forget has the server forget what it has cached, so that the next run does not find its
// own prompts there. vLLM has to obey; of others those that cannot are named once on dst.
func (s *Server) Forget(ctx context.Context, dst io.Writer) error {
	base, err := s.URL()
	if err != nil {
		return err
	}
	// vLLM has all three; one that a server does not know changes nothing.
	paths := []string{"/reset_prefix_cache", "/reset_mm_cache", "/reset_encoder_cache"}
	vllm := strings.HasSuffix(s.Command[0], "vllm")
	if !vllm {
		paths = append(paths, "/flush_cache") // SGLang
	}
	did := false
	for _, path := range paths {
		status, err := ask(ctx, http.MethodPost, base+path)
		if err != nil {
			return fmt.Errorf("POST %s: %w", path, err)
		}
		if vllm && status != http.StatusOK {
			return fmt.Errorf("POST %s: status %d, expected 200", path, status)
		}
		did = did || status == http.StatusOK
	}
	if !did && !s.toldCachesStay {
		s.toldCachesStay = true
		fmt.Fprintf(dst, "%s forgets no cache on request: later runs may find their prompts in it. --after-bench-cmd names a command that helps, or serve without prefix caching.\n", filepath.Base(s.Command[0]))
	}
	return nil
}

// Exit returns the exit status of a server that has ended by itself, and whether it has. A negative one
// is the signal that ended it.
func (s *Server) Exit() (status int, ended bool) {
	if s.process == nil || !s.process.over() {
		return 0, false
	}
	return exitStatus(s.process.cmd.ProcessState), true
}

// Stop ends the server and what it started.
func (s *Server) Stop() {
	if s.process != nil {
		s.process.stop(cmp.Or(s.Grace, 10*time.Second))
		s.process = nil
	}
}
