//go:build !linux && !windows

package libcuda

import "runtime"

// Soname is what the driver's library is called, in every version of it.
const Soname = "libcuda.so.1"

// Find returns a *NotFoundError: there is no driver for this system.
func Find() (string, error) {
	return "", &NotFoundError{Name: Soname, Tried: []string{"no place: NVIDIA makes none for " + runtime.GOOS}}
}
