//go:build cuda && (amd64 || arm64)

package libcuda

import (
	"fmt"

	"github.com/ebitengine/purego"

	"ossian/internal/cuda/driver"
)

// Built says that this program can call a driver.
const Built = true

// Because does nothing: this program can call the driver.
func Because(error) {}

// Open loads the CUDA driver and returns its functions. Init of the result comes first. A machine
// without a driver is a *NotFoundError.
func Open() (*driver.Driver, error) {
	path, missing := Find()
	if missing != nil {
		path = Soname // the loader may know another place
	}
	// Global: as if the program had been linked with it, since the driver loads parts of its own.
	handle, err := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_GLOBAL)
	switch {
	case err != nil && missing != nil:
		return nil, missing
	case err != nil:
		return nil, fmt.Errorf("loading NVIDIA's driver: %w", err)
	}
	lookup := func(symbol string) uintptr {
		address, err := purego.Dlsym(handle, symbol)
		if err != nil {
			return 0
		}
		return address
	}
	return newDriver(&library{name: path, lookup: lookup, invoke: invoke}), nil
}

// invoke calls a function of C.
func invoke(address uintptr, words ...uintptr) uintptr {
	answer, _, _ := purego.SyscallN(address, words...)
	return answer
}
