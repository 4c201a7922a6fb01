// Package libcuda finds and opens the CUDA driver of this machine, libcuda.so.1 (nvcuda.dll on
// Windows), behind the struct of internal/cuda/driver.
//
// Calling a C library needs a program that the system's dynamic loader has started, so Open is real
// only with the build tag cuda on Linux, where purego makes the calls; Windows needs no tag. Every
// other build is a static file without purego whose Open opens nothing (cuda.md 4). Find works in every build: the static form of the program asks it whether the other form is
// worth starting.
package libcuda

import (
	"errors"
	"fmt"
	"strings"
)

// ErrNotBuilt is the error of Open in a program that cannot call the driver.
var ErrNotBuilt = errors.New("this program is built without CUDA: on Linux take the program of a release, which has it, or build with -tags cuda")

// An unusable error is why this program cannot call the driver, where more is known than
// ErrNotBuilt; it is one.
type unusable struct{ reason error }

// Error is the reason alone.
func (e *unusable) Error() string { return e.reason.Error() }

// Unwrap lets callers find both the reason and ErrNotBuilt.
func (e *unusable) Unwrap() []error { return []error{e.reason, ErrNotBuilt} }

// A NotFoundError says that this machine has no CUDA driver, which is a normal outcome.
type NotFoundError struct {
	Name  string   // "libcuda.so.1"
	Tried []string // where it was looked for, in this order, some with what was wrong there
}

// Error lists where the driver was looked for.
func (e *NotFoundError) Error() string {
	return fmt.Sprintf("%s of NVIDIA's driver is not there; looked for it in %s", e.Name, strings.Join(e.Tried, ", "))
}
