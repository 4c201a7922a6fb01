//go:build !linux || !(amd64 || arm64)

package sandbox

import (
	"context"
	"errors"
	"io"
)

// errSystem says that there is no sandbox here.
var errSystem = errors.New("the sandbox needs Linux on a processor of 64 bits, x86 or ARM")

// Helper returns false: there are no helpers.
func Helper([]string) bool { return false }

// A Process is never there.
type Process struct{}

// Start returns an error.
func Start(context.Context, *Config) (*Process, error) { return nil, errSystem }

// Choose returns an error.
func Choose(context.Context, Config) (Layers, error) { return Layers{}, errSystem }

// Sweep does nothing.
func Sweep() {}

// Exchange returns an error.
func (p *Process) Exchange(context.Context, []byte, io.Writer, io.Writer, func([]byte) (bool, error)) error {
	return errSystem
}

// Inherit returns an error.
func (p *Process) Inherit(*Process) error { return errSystem }

// Close does nothing.
func (p *Process) Close() {}

// Kill does nothing.
func (p *Process) Kill() {}
