//go:build !cuda

package libcuda

import (
	"debug/elf"
	"errors"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
)

// Without the tag there is no driver to be had: either the machine has none, or the program says
// what it lacks.
func TestNotBuilt(t *testing.T) {
	if machines[runtime.GOARCH] == 0 {
		t.Skip("there is no driver for " + runtime.GOARCH)
	}
	dir := t.TempDir()
	t.Setenv("LD_LIBRARY_PATH", dir)
	missing := new(NotFoundError)
	if _, found := Find(); found != nil { // else this machine has one
		if _, err := Open(); !errors.As(err, &missing) {
			t.Errorf("error %v, want a NotFoundError", err)
		}
	}
	writeLibrary(t, filepath.Join(dir, Soname), elf.ELFCLASS64, machines[runtime.GOARCH])
	if _, err := Open(); err != ErrNotBuilt {
		t.Errorf("error %v, want ErrNotBuilt", err)
	}
	reason := errors.New("no loader")
	Because(reason)
	t.Cleanup(func() { known = nil })
	if _, err := Open(); !errors.Is(err, ErrNotBuilt) || !errors.Is(err, reason) || err.Error() != "no loader" {
		t.Errorf("error %v, want the reason that is known", err)
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
