package python

import (
	"context"
	"errors"
	"fmt"
	"time"

	"ossian/internal/tools/python/jupyter"
)

// A notebook backend runs code in a Jupyter kernel that is there already. All conversations use the
// same one, as with the reference implementation.
type notebook struct {
	file   string
	kernel *jupyter.Kernel
	turn   chan struct{} // holds one value while a call runs
}

// kernelTime is how long a kernel may take to run an empty cell at the start.
const kernelTime = 10 * time.Second

// newJupyter reads the connection file and tries the kernel. Its code may do whatever the kernel may.
func newJupyter(ctx context.Context, opts *Options) (backend, error) {
	if opts.JupyterFile == "" {
		return nil, errors.New("the backend " + jupyterBackend + " needs the connection file of a kernel: --python-jupyter-connection FILE, or PYTHON_LOCAL_JUPYTER_CONNECTION_FILE, names it")
	}
	kernel, err := jupyter.Read(opts.JupyterFile)
	if err != nil {
		return nil, err
	}
	tried, cancel := context.WithTimeout(ctx, kernelTime)
	defer cancel()
	if err := kernel.Run(tried, "pass", &capture{}, &capture{}); err != nil {
		return nil, fmt.Errorf("the kernel of %s does not answer: %w", opts.JupyterFile, err)
	}
	opts.Log.Warn("python runs in a Jupyter kernel, unprotected: code of the model can read, change and send whatever that kernel can, and all conversations share it", "backend", jupyterBackend)
	return &notebook{file: opts.JupyterFile, kernel: kernel, turn: make(chan struct{}, 1)}, nil
}

func (b *notebook) keeps() keeping { return sharedVariables }

func (b *notebook) detail() string { return jupyterBackend + ": " + b.file }

func (b *notebook) start(context.Context, int) (interpreter, error) { return visitor{b}, nil }

// A visitor is what one conversation has of a kernel.
type visitor struct{ notebook *notebook }

func (v visitor) run(ctx context.Context, source string, printed, complaints *capture) error {
	select {
	case v.notebook.turn <- struct{}{}:
	case <-ctx.Done(): // its time ended in line
		return ctx.Err()
	}
	defer func() { <-v.notebook.turn }()
	return v.notebook.kernel.Run(ctx, source, printed, complaints)
}

func (v visitor) inherit(interpreter) error { return nil }

func (v visitor) close() {}
