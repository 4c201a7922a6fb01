package python

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"ossian/internal/limits"
	"ossian/internal/tools/python/sandbox"
	"ossian/internal/tools/python/wasm"
)

// An assembled backend starts an interpreter under WebAssembly.
type assembled struct {
	config wasm.Config
	limits func() *limits.Set
}

// newWASM finds the file, and a folder for what it is compiled to.
func newWASM(_ context.Context, opts *Options) (backend, error) {
	if opts.WASM == "" {
		return nil, errors.New("the backend wasm needs a CPython built for WASI: name its file with --python-wasm FILE")
	}
	file, err := filepath.Abs(opts.WASM)
	if err == nil {
		_, err = os.Stat(file)
	}
	if err != nil {
		return nil, err
	}
	caches, err := os.UserCacheDir()
	if err != nil && opts.Cache == "" {
		return nil, fmt.Errorf("a folder for the compiled interpreter: %w", err)
	}
	cache := cmp.Or(opts.Cache, filepath.Join(caches, "ossian", "wasm"))
	return &assembled{wasm.Config{File: file, Cache: cache, Program: runner}, opts.Limits}, nil
}

func (b *assembled) keeps() keeping { return privateData }

func (b *assembled) detail() string { return "wasm: " + filepath.Base(b.config.File) }

func (b *assembled) start(ctx context.Context, _ int) (interpreter, error) {
	config, set := b.config, b.limits()
	config.Memory, config.Disk = set[limits.PythonMemory], set[limits.PythonDisk]
	process, err := wasm.Start(ctx, &config)
	if err != nil {
		return nil, fmt.Errorf("no interpreter: %w", err)
	}
	return machine{process}, nil
}

// A machine is an interpreter under WebAssembly.
type machine struct{ process *wasm.Process }

func (m machine) run(ctx context.Context, source string, printed, complaints *capture) error {
	err := m.process.Exchange(ctx, request(newNonce(), source), printed, complaints)
	var gone *wasm.EndedError
	switch {
	case errors.As(err, &gone):
		return &sandbox.EndedError{State: gone.State}
	case errors.Is(err, wasm.ErrDisk):
		return sandbox.ErrDisk
	}
	return err
}

func (m machine) inherit(before interpreter) error {
	return m.process.Inherit(before.(machine).process)
}

func (m machine) close() { m.process.Close() }
