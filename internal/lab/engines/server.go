package engines

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"ossian/internal/bench/sweep"
	"ossian/internal/lab/planfile"
	"ossian/internal/terminal"
)

// mark is the variable by which servers of a campaign are known, should the lab be killed and they not:
// it holds the campaign's own word.
const mark = "OSSIAN_LAB"

// A Server is one setting of an engine while it runs, or a server that ran before: starting → ready →
// stopped. One goroutine uses it.
type Server struct {
	Engine  *planfile.Engine
	Argv    []string // without the container's runtime
	Env     []string // NAME=VALUE as set by the plan, and NAME alone of secrets
	URL     string
	Log     *Log          // what it printed
	Seconds float64       // until it was ready, or was given up
	server  *sweep.Server // none for one that ran before
	name    string        // of its container
}

// A StartError says why a server is not there.
type StartError struct {
	Reason string   // one of the reasons above
	Line   string   // of the log, that says so
	Exit   *int     // status, if it has ended
	Tail   []string // last lines of the log
	Err    error
}

// Error is the reason, with the line of the log that tells it where there is one.
func (e *StartError) Error() string {
	if e.Line != "" {
		return e.Reason + ": " + e.Line
	}
	return e.Reason + ": " + e.Err.Error()
}

// Unwrap is what went wrong, for errors.Is.
func (e *StartError) Unwrap() error { return e.Err }

// Start starts a setting of an engine and waits until it is ready. campaign is the word that marks what
// is started. The server comes back with an error as well, for its log; its processes have ended then.
// The error is a *StartError, or that of ctx.
func Start(ctx context.Context, engine *planfile.Engine, model string, flags map[string]string, campaign string) (*Server, error) {
	s := &Server{Engine: engine, Log: &Log{}}
	if engine.URL != "" {
		s.URL = engine.URL
		return s, s.reach(ctx)
	}
	port, err := freePort()
	if err != nil {
		return s, &StartError{Reason: PortTaken, Err: err}
	}
	s.URL = "http://127.0.0.1:" + strconv.Itoa(port)
	argv, env := Command(engine, model, port, flags)
	s.Argv = argv
	for name, value := range env {
		s.Env = append(s.Env, name+"="+value)
	}
	s.Env = append(s.Env, engine.SecretEnv...)
	slices.Sort(s.Env)
	command := argv
	if engine.Container != nil {
		s.name = fmt.Sprintf("ossian-lab-%s-%d", campaign, port)
		command = s.containerCommand(port, campaign)
	}
	s.server = &sweep.Server{
		Command: command, Base: s.URL, Health: engine.Ready, Ready: engine.ReadyTimeout, Poll: 200 * time.Millisecond,
		Stdout: s.Log, Stderr: s.Log, Make: s.program(env, campaign),
	}
	begun := time.Now()
	err = s.server.Start(ctx)
	s.Seconds = time.Since(begun).Seconds()
	if err != nil {
		err = s.explain(ctx, err)
		s.Stop()
	}
	return s, err
}

// program makes the process: this one's environment, the plan's variables, and the campaign's mark.
func (s *Server) program(env map[string]string, campaign string) func([]string) *exec.Cmd {
	return func(command []string) *exec.Cmd {
		cmd := exec.Command(command[0], command[1:]...)
		cmd.Env = append(os.Environ(), mark+"="+campaign)
		for name, value := range env {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
		return cmd
	}
}

// containerCommand runs the image with its port on loopback alone. Secrets are handed on by name, so
// that no process list shows them.
func (s *Server) containerCommand(port int, campaign string) []string {
	box := s.Engine.Container
	address := fmt.Sprintf("127.0.0.1:%d:%d", port, port)
	out := []string{box.Runtime, "run", "--rm", "--init", "--name", s.name, "--label", mark + "=" + campaign, "--publish", address}
	for _, variable := range s.Env {
		out = append(out, "--env", variable)
	}
	out = append(append(out, box.Options...), box.Image)
	// Inside, the server listens on every interface of the container, or nothing gets through.
	for _, word := range s.Argv {
		out = append(out, strings.ReplaceAll(word, "127.0.0.1", "0.0.0.0"))
	}
	return out
}

// explain makes a *StartError of why a server is not ready.
func (s *Server) explain(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	out := &StartError{Err: err, Tail: s.Log.Tail(20)}
	if status, ended := s.server.Exit(); ended {
		out.Exit = &status
	}
	switch {
	case errors.Is(err, exec.ErrNotFound) || errors.Is(err, os.ErrNotExist):
		out.Reason, out.Line = NoProgram, err.Error()
	case strings.Contains(err.Error(), "something else answers"):
		out.Reason = PortTaken
	case out.Exit == nil:
		out.Reason, out.Err = NeverReady, fmt.Errorf("no answer of %s after %v", s.Engine.Ready, s.Engine.ReadyTimeout)
		// What it was at says more than the time that it had.
		if reason, line := Diagnose(nil, out.Tail); reason != Crashed {
			out.Reason, out.Line = reason, line
		}
	default:
		out.Reason, out.Line = Diagnose(out.Exit, out.Tail)
	}
	return out
}

// Died returns the error of a server that ended by itself since it was ready, nil for one that runs.
func (s *Server) Died() error {
	if s.server == nil || s.server.Alive() == nil {
		return nil
	}
	return s.explain(context.Background(), s.server.Alive())
}

// Forget has the server forget what it cached, where it can. Where it cannot, the prompts have to be salted;
// what it says about that goes to the log.
func (s *Server) Forget(ctx context.Context) error {
	server := s.server
	if server == nil {
		server = &sweep.Server{Command: []string{s.Engine.Kind}, Base: s.URL}
	}
	return server.Forget(ctx, s.Log)
}

// Stop ends the server with everything that it started. It is safe to call twice.
func (s *Server) Stop() {
	if s.server == nil {
		return
	}
	s.server.Stop()
	if s.name != "" { // the runtime's client may have been killed before the container ended
		cmd := exec.Command(s.Engine.Container.Runtime, "rm", "--force", s.name)
		cmd.Stdout, cmd.Stderr = io.Discard, io.Discard
		_ = cmd.Run()
	}
}

// reach asks a server that ran before whether it is ready.
func (s *Server) reach(ctx context.Context) error {
	_, err := get(ctx, s.URL+s.Engine.Ready)
	if err != nil && ctx.Err() == nil {
		return &StartError{Reason: NeverReady, Err: err}
	}
	return err
}

// Version asks the engine which it is: its program, else the running server. Empty: neither says.
func (s *Server) Version(ctx context.Context) string {
	if argv := s.Engine.Version; len(argv) > 0 && s.Engine.Container == nil {
		ctx, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
		cmd.WaitDelay = time.Second
		if text, err := cmd.CombinedOutput(); err == nil {
			return versionLine(string(text))
		}
	}
	body, err := get(ctx, s.URL+"/version")
	if err != nil {
		body, err = get(ctx, s.URL+"/api/version")
	}
	if err != nil {
		return ""
	}
	return saidVersion(body)
}

// saidVersion is the version in a server's answer, cleaned of what would steer a terminal.
func saidVersion(answer []byte) string {
	var said struct{ Version string }
	if json.Unmarshal(answer, &said) != nil {
		return ""
	}
	return printable(said.Version)
}

// versionLine is the last line of a program's output that has a digit, because warnings come before it;
// without any, as of a build that has no number, the last line.
func versionLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	for _, line := range slices.Backward(lines) {
		if strings.ContainsAny(line, "0123456789") && len(line) < 200 {
			return printable(line)
		}
	}
	return printable(lines[len(lines)-1])
}

// printable is a line without what would steer a terminal, at most 200 characters.
func printable(line string) string {
	return terminal.Clip(strings.TrimSpace(strings.Map(terminal.Printable, line)), 200)
}

// get fetches a small answer; a status other than 200 is an error.
func get(ctx context.Context, url string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("GET %s: %s", url, answer.Status)
	}
	return io.ReadAll(io.LimitReader(answer.Body, 1<<20))
}

// freePort is one of this machine's loopback that nobody listens at now.
func freePort() (int, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port, nil
}
