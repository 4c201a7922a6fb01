package python

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"ossian/internal/limits"
	"ossian/internal/tools/python/sandbox"
)

// The backends of the reference implementation that run each call by itself: a container of
// Docker's with Python in it, and uv on this machine, where nothing holds the code. They are taken
// only where they are named.

// image is what the reference runs.
const image = "python:3.11"

// A stateless backend makes a command for each call.
type stateless struct {
	name    string
	program string // the file of docker or uv
	limits  func() *limits.Set
	command func(b *stateless, folder string) script

	mu       sync.Mutex     // guards who comes to cleaning, and who waits for it
	cleaning sync.WaitGroup // what outlives commands is being ended
}

// A script is a command that runs a file of Python.
type script struct {
	arguments []string
	input     bool     // the source comes as input, else as script.py in the folder
	merged    bool     // what goes wrong is part of what is printed
	cleanup   []string // run afterwards where the command was ended
}

// newDocker returns the backend that runs containers.
func newDocker(opts *Options) (backend, error) {
	return newStateless(dockerBackend, "docker", opts, dockerScript)
}

// newUV returns the backend that runs uv. What it runs may do whatever the server may.
func newUV(opts *Options) (backend, error) {
	made, err := newStateless(uvBackend, "uv", opts, uvScript)
	if err == nil {
		opts.Log.Warn("python runs with uv, unprotected: code of the model can read, change and send whatever this server can", "backend", uvBackend)
	}
	return made, err
}

func newStateless(name, program string, opts *Options, command func(*stateless, string) script) (backend, error) {
	found, err := exec.LookPath(program)
	if err != nil {
		return nil, fmt.Errorf("the backend %s needs the program %s: %w", name, program, err)
	}
	return &stateless{name: name, program: found, limits: opts.Limits, command: command}, nil
}

func (b *stateless) keeps() keeping { return nothing }

func (b *stateless) detail() string { return b.name + ": " + b.program }

func (b *stateless) start(context.Context, int) (interpreter, error) {
	folder, err := os.MkdirTemp("", "ossian-script-")
	if err != nil {
		return nil, err
	}
	return &once{b, folder}, nil
}

// dockerScript copies the source into a new container and runs it, as the reference does.
func dockerScript(b *stateless, folder string) script {
	name := filepath.Base(folder)
	return script{
		arguments: []string{b.program, "run", "--rm", "--interactive", "--name", name, "--memory", strconv.FormatInt(b.limits()[limits.PythonMemory], 10),
			"--pids-limit", strconv.Itoa(threads), image, "sh", "-c", "cat > /tmp/script.py && exec python /tmp/script.py"},
		input: true, merged: true,
		cleanup: []string{b.program, "rm", "--force", name},
	}
}

func uvScript(b *stateless, folder string) script {
	return script{arguments: []string{b.program, "run", "--no-project", "python", filepath.Join(folder, "script.py")}}
}

// An once runs one script.
type once struct {
	backend *stateless
	folder  string
}

// cleanupTime is how long ending a container may take.
const cleanupTime = 10 * time.Second

func (o *once) run(ctx context.Context, source string, printed, complaints *capture) error {
	made := o.backend.command(o.backend, o.folder)
	command := exec.CommandContext(ctx, made.arguments[0], made.arguments[1:]...)
	command.Dir, command.Env = o.folder, scriptEnvironment(o.folder)
	command.Stdout, command.Stderr = printed, complaints
	command.WaitDelay = time.Second / 2
	if made.merged {
		command.Stderr = printed
	}
	if made.input {
		command.Stdin = strings.NewReader(source)
	} else if err := os.WriteFile(filepath.Join(o.folder, "script.py"), []byte(source), 0o600); err != nil {
		return err
	}
	err := runTogether(command)
	if ctx.Err() != nil {
		if len(made.cleanup) > 0 {
			o.backend.cleanUp(made.cleanup, command.Env)
		}
		return ctx.Err()
	}
	var failed *exec.ExitError
	if errors.As(err, &failed) && failed.Exited() {
		if !made.merged {
			printed.reset() // of scripts that fail the reference shows what went wrong alone
		}
		return nil
	}
	if err != nil {
		return &sandbox.EndedError{State: err.Error()}
	}
	if !made.merged {
		complaints.reset()
	}
	return nil
}

// cleanUp has cleanup run beside what goes on.
func (b *stateless) cleanUp(arguments, env []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.cleaning.Go(func() { cleanup(arguments, env) })
}

// wait waits until nothing outlives the commands that were ended, cleanupTime at most.
func (b *stateless) wait() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.cleaning.Wait()
}

// cleanup ends what outlives the command that was ended.
func cleanup(arguments, env []string) {
	ctx, cancel := context.WithTimeout(context.Background(), cleanupTime)
	defer cancel()
	command := exec.CommandContext(ctx, arguments[0], arguments[1:]...)
	command.Env = env
	_ = command.Run() // a container that is gone already is no error
}

// scriptEnvironment is what the commands find: none of the server's secrets.
func scriptEnvironment(folder string) []string {
	env := []string{"LANG=C.UTF-8", "TMPDIR=" + folder}
	for _, name := range []string{"PATH", "HOME", "DOCKER_HOST", "SystemRoot", "USERPROFILE", "LOCALAPPDATA"} {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return env
}

func (o *once) inherit(interpreter) error { return nil }

func (o *once) close() { _ = os.RemoveAll(o.folder) }

// reset forgets what was written.
func (c *capture) reset() { *c = capture{most: c.most} }
