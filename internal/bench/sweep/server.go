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
	"slices"
	"strings"
	"time"
)

// A ServerError says that a server did not start or has ended, so that there is nothing
// to measure.
type ServerError struct {
	Command []string
	Err     error
}

func (e *ServerError) Error() string { return fmt.Sprintf("server %q: %v", e.Command, e.Err) }

// Unwrap returns the reason.
func (e *ServerError) Unwrap() error { return e.Err }

// A process is a program in a process group of its own.
type process struct {
	cmd   *exec.Cmd
	ended chan struct{}
	err   error // of the program, once ended is closed
}

func start(cmd *exec.Cmd) (*process, error) {
	ownGroup(cmd)
	cmd.WaitDelay = time.Second // what it started may still hold its output
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &process{cmd: cmd, ended: make(chan struct{})}
	go func() {
		if p.err = cmd.Wait(); errors.Is(p.err, exec.ErrWaitDelay) {
			p.err = nil
		}
		close(p.ended)
	}()
	return p, nil
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

// A Server is a program that serves while it is needed.
type Server struct {
	Command []string
	Make    func(command []string) *exec.Cmd
	Ready   time.Duration // how long it may take to be ready; 0 = 300 s
	Poll    time.Duration // between questions whether it is; 0 = 1 s
	Grace   time.Duration // from asking it to end to ending it; 0 = 10 s
	Stdout  io.Writer     // nil = nobody wants its output
	Stderr  io.Writer

	process *process
	told    bool // that caches stay
}

// URL is the address that the command says it serves at, by default port 8000 of this
// machine.
func (s *Server) URL() (string, error) {
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
	switch host {
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
	if c, err := net.DialTimeout("tcp", address, time.Second); err == nil {
		c.Close()
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

func (s *Server) wait(ctx context.Context, base string) error {
	limit := time.NewTimer(cmp.Or(s.Ready, 300*time.Second))
	defer limit.Stop()
	for !ready(ctx, base) {
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

// ready asks whether a server is. Some are healthy while they load; those say at /ready
// that they are not, and others do not know that path.
func ready(ctx context.Context, base string) bool {
	health, err := ask(ctx, http.MethodGet, base+"/health")
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
	r, err := http.NewRequestWithContext(ctx, method, url, nil)
	if err != nil {
		return 0, err
	}
	// No proxy, and any certificate: the server is ours.
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	answer, err := client.Do(r)
	if err != nil {
		return 0, err
	}
	answer.Body.Close()
	return answer.StatusCode, nil
}

// Forget has the server forget what it has cached, so that the next run does not find its
// own prompts there. vLLM has to obey; of others those that cannot are named once on w.
func (s *Server) Forget(ctx context.Context, w io.Writer) error {
	base, err := s.URL()
	if err != nil {
		return err
	}
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
	if !did && !s.told {
		s.told = true
		fmt.Fprintf(w, "%s forgets no cache on request: later runs may find their prompts in it. --after-bench-cmd names a command that helps, or serve without prefix caching.\n", filepath.Base(s.Command[0]))
	}
	return nil
}

// Stop ends the server and what it started.
func (s *Server) Stop() {
	if s.process != nil {
		s.process.stop(cmp.Or(s.Grace, 10*time.Second))
		s.process = nil
	}
}

// A Measurer measures a server.
type Measurer interface {
	// Measure has the client of the measurement, under the settings, write its result as
	// JSON to the file at path. After a *ServerError there is nothing more to measure.
	Measure(ctx context.Context, bench Object, path string) error
	// Close ends what Measure has started.
	Close()
}

// Programs is a Measurer whose server and client are programs (bench.md 3.3). The server
// starts with the first run, so that nothing starts where no run is missing.
type Programs struct {
	Server *Server
	Client []string
	Own    bool          // the client is ossian's: it is told where the server is
	After  []string      // runs after each run of the client; nil = Server.Forget
	Limit  time.Duration // of a run of the client; 0 = none
	Show   bool          // the output of the client
	DryRun bool          // say what would run
	Out    io.Writer     // what is going on

	told bool // what the server is
}

// Measure implements Measurer.
func (p *Programs) Measure(ctx context.Context, bench Object, path string) error {
	command, err := p.command(bench, path)
	if err != nil {
		return err
	}
	if !p.told {
		p.told = true
		fmt.Fprintf(p.Out, "server: %q\n", p.Server.Command)
	}
	fmt.Fprintf(p.Out, "client: %q\n", command)
	if p.DryRun {
		return nil
	}
	if err := p.Server.Start(ctx); err != nil {
		return err
	}
	err = p.run(ctx, command)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if after := p.after(ctx); err == nil {
		err = after
	}
	if err != nil { // a server that dies cuts its connections a little before it is gone
		select {
		case <-p.Server.process.ended:
		case <-time.After(time.Second):
		}
	}
	return cmp.Or(p.Server.Alive(), err)
}

// command is that of the client.
func (p *Programs) command(bench Object, path string) ([]string, error) {
	out := bench.Apply(p.Client)
	named := func(flag string) bool {
		return slices.ContainsFunc(out, func(w string) bool { return w == flag || strings.HasPrefix(w, flag+"=") })
	}
	if p.Own && !named("--base-url") && !named("--base_url") && !named("--host") && !named("--port") {
		base, err := p.Server.URL()
		if err != nil {
			return nil, err
		}
		out = append(out, "--base-url", base)
	}
	return append(out, "--percentile-metrics", "ttft,tpot,itl,e2el", "--save-result", "--result-dir", filepath.Dir(path), "--result-filename", filepath.Base(path)), nil
}

// run runs a program to its end.
func (p *Programs) run(ctx context.Context, command []string) error {
	if p.Limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, p.Limit, fmt.Errorf("%q ran longer than %v, the limit of --run-timeout", command, p.Limit))
		defer cancel()
	}
	cmd := p.Server.Make(command)
	cmd.Stderr = p.Server.Stderr
	if p.Show {
		cmd.Stdout = p.Out
	}
	c, err := start(cmd)
	if err != nil {
		return fmt.Errorf("%q: %w", command, err)
	}
	select {
	case <-c.ended:
	case <-ctx.Done():
		c.stop(cmp.Or(p.Server.Grace, 10*time.Second))
		return context.Cause(ctx)
	}
	if c.err != nil {
		return fmt.Errorf("%q: %w", command, c.err)
	}
	return nil
}

func (p *Programs) after(ctx context.Context) error {
	if p.After == nil {
		return p.Server.Forget(ctx, p.Out)
	}
	return p.run(ctx, p.After)
}

// Close implements Measurer.
func (p *Programs) Close() { p.Server.Stop() }
