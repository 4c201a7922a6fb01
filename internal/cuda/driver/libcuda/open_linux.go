//go:build cuda && (amd64 || arm64)

package libcuda

import (
	"fmt"
	"path/filepath"

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
	loadCompiler(filepath.Dir(path))
	lookup := func(symbol string) uintptr {
		address, err := purego.Dlsym(handle, symbol)
		if err != nil {
			return 0
		}
		return address
	}
	return newDriver(&library{name: path, lookup: lookup, invoke: invoke}), nil
}

// compiler is what the driver loads by its name alone when it is first given PTX.
const compiler = "libnvidia-ptxjitcompiler.so.1"

// loadCompiler loads the driver's compiler from the driver's folder where the loader does not find it:
// container runtimes put drivers into folders that it has not been told of. A library that is loaded is
// found by its name from then on; what cannot be loaded the driver tells of itself (error 221).
func loadCompiler(folder string) {
	if _, err := purego.Dlopen(compiler, purego.RTLD_NOW|purego.RTLD_GLOBAL); err != nil {
		_, _ = purego.Dlopen(filepath.Join(folder, compiler), purego.RTLD_NOW|purego.RTLD_GLOBAL)
	}
}

// invoke calls a function of C.
func invoke(address uintptr, words ...uintptr) uintptr {
	answer, _, _ := purego.SyscallN(address, words...)
	return answer
}
