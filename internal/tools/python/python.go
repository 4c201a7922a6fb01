// Package python is the tool by which a model runs Python: code in, what it printed out. Its users
// no longer need to know where that code runs, how it is kept from everything else, and what an
// interpreter is kept for.
//
// There are several ways (backends). In the sandbox and under WebAssembly a conversation has an
// interpreter of its own: variables and files stay from call to call, and for a while between
// responses. Those of the reference implementation are there for comparison: two run each call by
// itself, one uses a running Jupyter kernel. Which way is taken is decided at the start, after
// trying it: an interpreter that is not held runs nothing.
package python

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"ossian/internal/limits"
	"ossian/internal/tools"
	"ossian/internal/tools/python/sandbox"
	"ossian/internal/tools/python/wasm"
)

// Options say how Python is run.
type Options struct {
	Backend     string             // sandbox, wasm, docker, dangerously_use_uv, dangerously_use_local_jupyter, off; "" = sandbox, else wasm
	Interpreter string             // of the sandbox: a name or file; "" = python3
	WASM        string             // of wasm: a file with a CPython built for WASI
	Cache       string             // of wasm: a folder for what that file is compiled to; "" = that of the user's caches
	JupyterFile string             // of dangerously_use_local_jupyter: the kernel's connection file
	Limits      func() *limits.Set // in force now; nil = the defaults
	Log         *slog.Logger       // nil = nothing is logged
}

// Names of the backends.
const (
	sandboxBackend = "sandbox"
	wasmBackend    = "wasm"
	dockerBackend  = "docker"
	uvBackend      = "dangerously_use_uv"
	jupyterBackend = "dangerously_use_local_jupyter"
	offBackend     = "off"
)

// Backends are the names that Options.Backend may have.
var Backends = []string{sandboxBackend, wasmBackend, dockerBackend, uvBackend, jupyterBackend, offBackend}

// A backend is a way to run Python.
type backend interface {
	// detail says for operators what is used.
	detail() string
	// keeps says what one call leaves to the next.
	keeps() keeping
	// start begins an interpreter. The slot is a number that no other running one has.
	start(ctx context.Context, slot int) (interpreter, error)
}

// A keeping says what one call leaves to the next.
type keeping uint8

const (
	nothing         keeping = iota // each call has an interpreter of its own
	sharedVariables                // an interpreter that all conversations use
	privateData                    // an interpreter for each conversation, and its files in /mnt/data
)

// An interpreter runs code. One goroutine at a time uses it.
type interpreter interface {
	// run runs source and copies what it prints. With an error the interpreter is of no use any
	// more, but its files are there until it is closed.
	run(ctx context.Context, source string, printed, complaints *capture) error
	// inherit copies the files of one that is of no use any more.
	inherit(before interpreter) error
	close()
}

// New returns the tool, tried, or why there is none.
func New(opts Options) (tools.Server, error) {
	if opts.Limits == nil {
		opts.Limits = limits.Defaults
	}
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	ctx, cancel := context.WithTimeout(context.Background(), chooseTime)
	defer cancel()
	chosen, err := choose(ctx, &opts)
	if err != nil {
		return nil, err
	}
	return newServer(chosen, &opts), nil
}

// chooseTime is how long finding a way may take: compiling an interpreter of WebAssembly for the
// first time takes some ten seconds.
const chooseTime = 5 * time.Minute

// choose returns the backend that the options ask for, or the best one that works.
func choose(ctx context.Context, opts *Options) (backend, error) {
	switch opts.Backend {
	case sandboxBackend:
		return tested(ctx, opts, newSandbox)
	case wasmBackend:
		return tested(ctx, opts, newWASM)
	case dockerBackend:
		return newDocker(opts)
	case uvBackend:
		return newUV(opts)
	case jupyterBackend:
		return newJupyter(ctx, opts)
	case offBackend:
		return nil, errors.New("it is switched off")
	case "":
		chosen, err := tested(ctx, opts, newSandbox)
		if err == nil || opts.WASM == "" {
			return chosen, err
		}
		other, otherErr := tested(ctx, opts, newWASM)
		if otherErr != nil {
			return nil, errors.Join(fmt.Errorf("sandbox: %w", err), fmt.Errorf("wasm: %w", otherErr))
		}
		opts.Log.Info("python runs under WebAssembly, which is slow: there is no sandbox here", "reason", err)
		return other, nil
	}
	return nil, fmt.Errorf("there is no backend %.40q; %s expected", opts.Backend, strings.Join(Backends, ", "))
}

// tested returns a backend that passes the self-test.
func tested(ctx context.Context, opts *Options, make func(context.Context, *Options) (backend, error)) (backend, error) {
	made, err := make(ctx, opts)
	if err != nil {
		return nil, err
	}
	for _, check := range selfTest(ctx, made, opts) {
		if !check.OK {
			return nil, fmt.Errorf("the self-test %q failed: %s", check.Name, check.Detail)
		}
	}
	return made, nil
}

// Helper does the work of a helper process where the program was started as one; it does not
// return then. It comes first in main, with the arguments behind the program's name.
func Helper(args []string) bool {
	return sandbox.Helper(args) || wasm.Helper(args)
}

// ended are the words for how a call ended; notes behind what it printed.
func ended(ctx context.Context, err error, set *limits.Set) (string, tools.Outcome) {
	seconds := set.Time(limits.ToolTime).Seconds()
	var gone *sandbox.EndedError
	switch {
	case err == nil:
		return "", tools.Done
	case ctx.Err() != nil && !errors.Is(ctx.Err(), context.DeadlineExceeded):
		return "[ERROR] Execution was cancelled.", tools.Cancelled
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		return fmt.Sprintf("[ERROR] Execution timed out after %g seconds.", seconds), tools.TimedOut
	case errors.Is(err, sandbox.ErrProcessor):
		return fmt.Sprintf("[ERROR] Execution used more than %g seconds of processor time.", seconds), tools.TimedOut
	case errors.Is(err, sandbox.ErrDisk):
		return fmt.Sprintf("[ERROR] Execution was ended: files took more than %s.", limits.Format(limits.Bytes, set[limits.PythonDisk])), tools.Failed
	case errors.As(err, &gone):
		return fmt.Sprintf("[ERROR] The interpreter ended: %.200s.", gone.State), tools.Failed
	}
	return fmt.Sprintf("[ERROR] The interpreter failed: %.500s.", err), tools.Broken
}
