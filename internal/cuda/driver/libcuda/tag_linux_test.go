//go:build !cuda

package libcuda

import (
	"errors"
	"os/exec"
	"runtime"
	"testing"
)

// Without the tag the program says so, and Open does not depend on what the machine has.
func TestNotBuilt(t *testing.T) {
	if _, err := Open(); !errors.Is(err, ErrNotBuilt) {
		t.Errorf("error %v, want ErrNotBuilt", err)
	}
}

// With the tag the calls are made to a driver in C, in a program that the loader has started.
func TestBuilt(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles the package with the tag cuda; run without -short")
	}
	if machines[runtime.GOARCH] == 0 {
		t.Skip("there is no driver for " + runtime.GOARCH)
	}
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Skip("gcc is not there to compile a driver for the test")
	}
	child := exec.Command("go", "test", "-tags", "cuda", "-count", "1", "-run", "TestFakeDriver", ".")
	child.Env = append(child.Environ(), "CGO_ENABLED=0")
	if text, err := child.CombinedOutput(); err != nil {
		t.Errorf("go test -tags cuda: %v\n%s", err, text)
	}
}
