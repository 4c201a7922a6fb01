package python

import (
	"cmp"
	"context"
	_ "embed"
	"fmt"

	"ossian/internal/limits"
	"ossian/internal/tools/python/sandbox"
)

//go:embed runner.py
var runner string

// threads is how many an interpreter may have.
const threads = 64

// A sandboxed backend starts the interpreter of this machine in a sandbox.
type sandboxed struct {
	config sandbox.Config
	limits func() *limits.Set
}

// newSandbox finds the interpreter and what holds it here.
func newSandbox(ctx context.Context, opts *Options) (backend, error) {
	sandbox.Sweep()
	found, err := sandbox.Examine(ctx, cmp.Or(opts.Interpreter, "python3"))
	if err != nil {
		return nil, err
	}
	made := &sandboxed{sandbox.Config{Interpreter: found, Program: runner, Threads: threads}, opts.Limits}
	layers, err := sandbox.Choose(ctx, *made.now(0))
	if err != nil {
		return nil, fmt.Errorf("%s cannot be held here: %w", found.Path, err)
	}
	made.config.Layers = layers
	return made, nil
}

// now returns the configuration with the limits in force.
func (b *sandboxed) now(slot int) *sandbox.Config {
	config, set := b.config, b.limits()
	config.Memory, config.Disk, config.Slot = set[limits.PythonMemory], set[limits.PythonDisk], slot
	return &config
}

func (b *sandboxed) keeps() keeping { return privateData }

func (b *sandboxed) detail() string {
	return fmt.Sprintf("sandbox: %s, Python %s", b.config.Layers, b.config.Interpreter.Version)
}

func (b *sandboxed) start(ctx context.Context, slot int) (interpreter, error) {
	process, err := sandbox.Start(ctx, b.now(slot))
	if err != nil {
		return nil, fmt.Errorf("no interpreter: %w", err)
	}
	return cell{process}, nil
}

// A cell is an interpreter in a sandbox.
type cell struct{ process *sandbox.Process }

func (c cell) run(ctx context.Context, source string, printed, complaints *capture) error {
	n := newNonce()
	return c.process.Exchange(ctx, request(n, source), printed, complaints, newReplyReader(n).take)
}

func (c cell) inherit(before interpreter) error { return c.process.Inherit(before.(cell).process) }

func (c cell) close() { c.process.Close() }
