package libcuda

import (
	"fmt"
	"syscall"

	"golang.org/x/sys/windows"

	"ossian/internal/cuda/driver"
)

// Built says that this program can call a driver.
const Built = true

// Because does nothing: this program can call the driver.
func Because(error) {}

// Open loads the CUDA driver and returns its functions. Init of the result comes first. A machine
// without a driver is a *NotFoundError. Windows lets every program call libraries, so this needs no
// build tag; it has been compiled and not been run.
func Open() (*driver.Driver, error) {
	if _, err := Find(); err != nil {
		return nil, err
	}
	dll := windows.NewLazySystemDLL(Soname) // from the system's folder alone
	if err := dll.Load(); err != nil {
		return nil, fmt.Errorf("loading NVIDIA's driver: %w", err)
	}
	lookup := func(symbol string) uintptr {
		found := dll.NewProc(symbol)
		if found.Find() != nil {
			return 0
		}
		return found.Addr()
	}
	return newDriver(&library{name: Soname, lookup: lookup, invoke: invoke}), nil
}

// invoke calls a function of C.
func invoke(address uintptr, words ...uintptr) uintptr {
	answer, _, _ := syscall.SyscallN(address, words...)
	return answer
}
