//go:build cuda && (amd64 || arm64)

package libcuda

import (
	"encoding/binary"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"ossian/internal/cuda/driver"
)

// fakeDriver compiles testdata/fake.c to a libcuda.so.1 that Find finds first. Beside it lies its
// compiler, in a folder of which the system's loader does not know.
func fakeDriver(t testing.TB) {
	t.Helper()
	dir := t.TempDir()
	for _, args := range [][]string{{"-o", filepath.Join(dir, Soname), "testdata/fake.c", "-ldl"},
		{"-Wl,-soname," + compiler, "-o", filepath.Join(dir, compiler), "-x", "c", os.DevNull}} {
		if text, err := exec.Command("gcc", append([]string{"-shared", "-fPIC"}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("gcc: %v: %s", err, text)
		}
	}
	t.Setenv("LD_LIBRARY_PATH", dir)
}

// Words and argument blocks arrive in C as it declares them, and what it writes comes back.
func TestFakeDriver(t *testing.T) {
	fakeDriver(t)
	d, err := Open()
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Init(); err != nil {
		t.Error(err)
	}
	device, err := d.DeviceGet(0)
	if err != nil || device != 7 {
		t.Errorf("device %d, %v", device, err)
	}
	if name, err := d.DeviceName(device); err != nil || name != "Fake GPU" {
		t.Errorf("name %q, %v", name, err)
	}
	launchFake(t, d, false)
	launchFake(t, d, true)

	if happened, err := d.EventQuery(5); happened || err != nil {
		t.Errorf("an event that has not happened: %v, %v", happened, err)
	}
	if happened, err := d.EventQuery(6); !happened || err != nil {
		t.Errorf("an event that has happened: %v, %v", happened, err)
	}
	if ms, err := d.EventElapsed(3, 6); err != nil || ms != 1.5 {
		t.Errorf("%v ms, %v", ms, err)
	}
	pinned, err := d.MemAllocHost(1 << 16)
	if err != nil || len(pinned) != 1<<16 {
		t.Fatalf("%d bytes of pinned memory, %v", len(pinned), err)
	}
	for i := range pinned {
		pinned[i] = byte(i)
	}
	if err := d.MemFreeHost(pinned); err != nil {
		t.Error(err)
	}
}

// launchFake launches a kernel and compares what it wrote with what it was given.
func launchFake(t *testing.T, d *driver.Driver, overlap bool) {
	t.Helper()
	memory, err := d.MemAlloc(256)
	if err != nil {
		t.Fatal(err)
	}
	module, err := d.ModuleLoad([]byte(".version 7.1"))
	if err != nil || module != 11 {
		t.Errorf("module %d, %v", module, err)
	}
	params := binary.LittleEndian.AppendUint64(nil, uint64(memory))
	params = append(params, "and more"...)
	if err := d.Launch(&driver.Launch{Function: 70, Grid: driver.Dim3{X: 1, Y: 2, Z: 3}, Block: driver.Dim3{X: 4, Y: 5, Z: 6}, Shared: 7, Stream: 8, Params: params, Overlap: overlap}); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 9*8+len(params))
	if err := d.CopyToHost(got, memory); err != nil {
		t.Error(err)
	}
	for i, want := range []uint64{70, 1, 2, 3, 4, 5, 6, 7, 8} {
		if word := binary.LittleEndian.Uint64(got[8*i:]); word != want {
			t.Errorf("overlap %v: word %d is %d, want %d", overlap, i, word, want)
		}
	}
	if string(got[72:]) != string(params) {
		t.Errorf("parameters %q, want %q", got[72:], params)
	}
	if err := d.CopyToDevice(memory, []byte("back")); err != nil {
		t.Error(err)
	}
	back := make([]byte, 4)
	if err := d.CopyToHost(back, memory); err != nil || string(back) != "back" {
		t.Errorf("copied back: %q, %v", back, err)
	}
	if err := d.MemFree(memory); err != nil {
		t.Error(err)
	}
}

// Errors of a loaded driver: its own, those of its compiler, functions that it lacks, and files
// that are no driver.
func TestFakeDriverErrors(t *testing.T) {
	fakeDriver(t)
	d, err := Open()
	if err != nil {
		t.Fatal(err)
	}
	_, err = d.MemAlloc(1<<30 + 1)
	if want := "cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY (2): out of memory"; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	_, err = d.ModuleLoad([]byte("bad text"))
	if want := "cuModuleLoadDataEx: CUDA_ERROR_INVALID_PTX (218): a PTX JIT compilation failed: ptxas: line 3: bad instruction"; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	if _, err = d.GraphInstantiate(1); err == nil || !strings.Contains(err.Error(), "(CUDA 11.3)") {
		t.Errorf("a function that is not there: %v", err)
	}

	folder := t.TempDir()
	t.Setenv("LD_LIBRARY_PATH", folder)
	if _, err := os.Stat("/dev/nvidiactl"); err != nil { // else this machine has a driver
		missing := new(NotFoundError)
		if _, err := Open(); !errors.As(err, &missing) {
			t.Errorf("without a driver: %v", err)
		}
	}
	head := make([]byte, 64)
	own, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	copy(head, own)
	if err := os.WriteFile(filepath.Join(folder, Soname), head, 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(); err == nil || !strings.Contains(err.Error(), "loading NVIDIA's driver") {
		t.Errorf("a library that ends too early: %v", err)
	}
}

// What a launch costs beside the driver's own work, which here is a copy of some words.
func BenchmarkLaunch(b *testing.B) {
	fakeDriver(b)
	d, err := Open()
	if err != nil {
		b.Fatal(err)
	}
	memory, err := d.MemAlloc(256)
	if err != nil {
		b.Fatal(err)
	}
	launch := &driver.Launch{Function: 70, Params: append(binary.LittleEndian.AppendUint64(nil, uint64(memory)), make([]byte, 64)...)}
	b.ReportAllocs()
	for b.Loop() {
		if err := d.Launch(launch); err != nil {
			b.Fatal(err)
		}
	}
}
