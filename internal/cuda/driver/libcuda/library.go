package libcuda

import (
	"fmt"
	"strconv"
	"strings"
	"unsafe"

	"ossian/internal/cuda/driver"
)

// A library is the driver as it was loaded: addresses of its functions, and how they are called.
// All that differs between systems is in these two, and tests put their own there.
type library struct {
	name   string
	lookup func(symbol string) uintptr // the address of a function; 0 = the library has none of that name
	// invoke calls a C function with integers and pointers, and returns its integer. Memory behind
	// words that are pointers is kept where it is by who calls invoke.
	invoke func(address uintptr, words ...uintptr) uintptr

	errorName, errorText, version *function
}

// A function is one of the driver's. That an old driver lacks one is an error only when it is called.
type function struct {
	library *library
	name    string // as it is documented: "cuMemAlloc"
	since   string // the first CUDA version whose driver has the symbol: "11.4"
	address uintptr
}

// notReady is what a query answers while work goes on, alreadyEnabled what enabling something twice
// does: neither is a failure.
const (
	notReady       = 600
	alreadyEnabled = 704
)

// function looks up a function by the name that is documented and the suffix of its symbol: the
// headers of the driver rename cuMemAlloc to cuMemAlloc_v2, and what is called cuMemAlloc in the
// library is an older function with other types.
func (l *library) function(name, suffix, since string) *function {
	return &function{library: l, name: name, since: since, address: l.lookup(name + suffix)}
}

// call calls the function; words are integers, or pointers converted in the call itself. Its error
// is the driver's.
//
// The directive moves what such pointers are to from the stack to the heap, where nothing moves,
// and keeps it there until call returns.
//
//go:uintptrescapes
func (f *function) call(words ...uintptr) error {
	return f.check(f.code(words...))
}

// code calls the function and returns what it answered (CUresult), or an error where the driver
// does not have it. Pointers in words are those of call.
//
//go:uintptrescapes
func (f *function) code(words ...uintptr) (int, error) {
	if f.address == 0 {
		return 0, f.missing()
	}
	return int(int32(f.library.invoke(f.address, words...))), nil
}

// check returns the error that an answer is.
func (f *function) check(code int, err error) error {
	if err != nil || code == 0 {
		return err
	}
	return &driver.Error{Call: f.name, Code: code, Name: f.library.describe(f.library.errorName, code), Text: f.library.describe(f.library.errorText, code)}
}

// missing says why a function is not there: the driver is older than it, or it is newer and the
// library is not what its version says, since a driver keeps the functions that it ever had.
func (f *function) missing() error {
	version, err := f.library.driverVersion()
	if err != nil {
		return fmt.Errorf("%s: the driver does not have this function, which came with CUDA %s: update NVIDIA's driver", f.name, f.since)
	}
	have := fmt.Sprintf("%d.%d", version/1000, version%1000/10)
	if version >= versionOf(f.since) {
		return fmt.Errorf("%s: %s lacks this function, which came with CUDA %s, though it says that it is of CUDA %s: the library is incomplete or damaged; install NVIDIA's driver again",
			f.name, f.library.name, f.since, have)
	}
	return fmt.Errorf("%s: the driver (CUDA %s) does not have this function, which came with CUDA %s: update NVIDIA's driver", f.name, have, f.since)
}

// versionOf returns a version as the driver tells its own: 11040 for "11.4".
func versionOf(text string) int {
	major, minor, _ := strings.Cut(text, ".")
	whole, _ := strconv.Atoi(major) // both are written in this package
	part, _ := strconv.Atoi(minor)
	return 1000*whole + 10*part
}

// driverVersion returns the newest CUDA version that the driver knows, 12040 for 12.4.
func (l *library) driverVersion() (int, error) {
	var version int32
	err := l.version.call(uintptr(unsafe.Pointer(&version)))
	return int(version), err
}

// describe asks cuGetErrorName or cuGetErrorString about an answer. What the driver does not know
// is described by nothing.
func (l *library) describe(how *function, code int) string {
	var text *byte // memory of the library, constant
	if answer, err := how.code(uintptr(uint32(code)), uintptr(unsafe.Pointer(&text))); err != nil || answer != 0 || text == nil {
		return ""
	}
	return terminated(text)
}

// terminated returns a text of C, which ends with a zero byte.
func terminated(text *byte) string {
	length := 0
	for *(*byte)(unsafe.Add(unsafe.Pointer(text), length)) != 0 {
		length++
	}
	return string(unsafe.Slice(text, length))
}

// newDriver returns the functions of a library as those of a driver.Driver.
func newDriver(l *library) *driver.Driver {
	l.errorName = l.function("cuGetErrorName", "", "6.0")
	l.errorText = l.function("cuGetErrorString", "", "6.0")
	l.version = l.function("cuDriverGetVersion", "", "2.2")
	d := &driver.Driver{Name: l.name, Version: l.driverVersion}
	l.machine(d)
	l.contexts(d)
	l.memory(d)
	l.copies(d)
	l.code(d)
	l.launches(d)
	l.streams(d)
	l.events(d)
	l.graphs(d)
	return d
}
