package python

import (
	"context"
	"errors"
)

// newJupyter says that there is no client of Jupyter's protocol.
func newJupyter(context.Context, *Options) (backend, error) {
	return nil, errors.New("the backend " + jupyterBackend + " is not there: this server speaks no protocol of Jupyter's kernels; sandbox gives the same, or wasm")
}
