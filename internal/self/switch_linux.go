package self

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"ossian/internal/cuda/driver/libcuda"
)

// trialTime is how long the second form may take to start in the trial. Starting takes some
// hundredths of a second; this is for machines that are busy or read from a slow disk.
const trialTime = 20 * time.Second

// Switch is the first thing that the program does. Where the device that is asked for may be a GPU,
// this form of the program cannot call a driver and there is one, it executes the form that can, and
// does not return. Where that fails it returns, and libcuda.Open says why, in the line by which
// people are told what computes. It returns silently where there is nothing to tell: no GPU is
// wanted, this form can use one, or the machine has no driver.
func Switch(device string) {
	arrived := arrive()
	if arrived {
		name := [16]byte([]byte("ossian\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00")) // it is the number of a descriptor
		_ = unix.Prctl(unix.PR_SET_NAME, uintptr(unsafe.Pointer(&name)), 0, 0, 0)  // only lists of processes show it
	}
	if libcuda.Built || !mayUseGPU(device) {
		return
	}
	if _, err := libcuda.Find(); err != nil {
		return
	}
	reason := errors.New("neither form of this program can call it")
	if !arrived {
		reason = other()
	}
	libcuda.Because(reason)
}

// mayUseGPU reports whether a device is a GPU, or whatever there is.
func mayUseGPU(device string) bool {
	return device == "auto" || device == "cuda" || strings.HasPrefix(device, "cuda:")
}

// other executes the second form that this program's file carries. It returns only where that
// cannot be, with the reason.
func other() error {
	file, err := os.Open("/proc/self/exe") // this file, also where another one has its name now
	if err != nil {
		return err
	}
	defer file.Close()
	form, err := second(file)
	if errors.Is(err, errNone) {
		return libcuda.ErrNotBuilt
	}
	if err != nil {
		return fmt.Errorf("the form of this program that can call it cannot be used: %w", err)
	}
	var failures []error
	for _, place := range []func([]byte) (*os.File, error){inMemory, inFolder} {
		err := execute(form, place)
		failures = append(failures, err)
		if !errors.Is(err, fs.ErrPermission) && !errors.Is(err, errPlace) {
			break // a second place does not help
		}
	}
	return fmt.Errorf("the form of this program that can call it does not start: %w", errors.Join(failures...))
}

// second returns the dynamic form in a file of this program.
func second(file *os.File) ([]byte, error) {
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	described, err := describe(file, info.Size())
	if err != nil {
		return nil, err
	}
	if build, ok := debug.ReadBuildInfo(); !ok || Version(build) != described.Version {
		return nil, fmt.Errorf("it is of another version: %s", described.Version)
	}
	return described.unpack(file)
}

// errPlace says that a form could not be put in a place at all.
var errPlace = errors.New("no place for it")

// inMemory puts a program into a file that is memory.
func inMemory(form []byte) (*os.File, error) {
	fd, err := unix.MemfdCreate("ossian", unix.MFD_CLOEXEC|unix.MFD_EXEC)
	if errors.Is(err, unix.EINVAL) { // before Linux 6.3 every one may be executed, and none says so
		fd, err = unix.MemfdCreate("ossian", unix.MFD_CLOEXEC)
	}
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	file := os.NewFile(uintptr(fd), "ossian")
	if _, err := file.Write(form); err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

// inFolder puts a program into a file of the temporary folder that only this user may read. It has
// no name any more when this returns, so that nothing is left behind whatever happens.
func inFolder(form []byte) (*os.File, error) {
	written, err := os.CreateTemp("", "ossian-")
	if err != nil {
		return nil, err
	}
	defer os.Remove(written.Name())
	_, err = written.Write(form)
	if err == nil {
		err = written.Chmod(0o700)
	}
	if closed := written.Close(); err == nil {
		err = closed // what is open for writing cannot be executed
	}
	if err != nil {
		return nil, err
	}
	return os.Open(written.Name())
}

// execute puts a form into a place and replaces this process by it. A trial comes first: once the
// process is replaced there is no way back, and a loader that lacks a library ends it.
func execute(form []byte, place func([]byte) (*os.File, error)) error {
	file, err := place(form)
	if err != nil {
		return fmt.Errorf("%w: %w", errPlace, err)
	}
	defer file.Close()
	path := fmt.Sprintf("/proc/self/fd/%d", file.Fd())
	if err := try(path); err != nil {
		return err
	}
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	env := append(os.Environ(), exeVariable+"="+exe, formVariable+"="+strconv.Itoa(os.Getpid()))
	return fmt.Errorf("executing it: %w", syscall.Exec(path, os.Args, env))
}

// try starts a form that ends at once, and returns why it did not.
func try(path string) error {
	ctx, cancel := context.WithTimeout(context.Background(), trialTime)
	defer cancel()
	var said strings.Builder
	child := exec.CommandContext(ctx, path)
	child.Env = append(os.Environ(), formVariable+"="+trial)
	child.Stderr = &said
	err := child.Run()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("this system lacks the loader that it names: %w", err)
	case err == nil || said.Len() == 0:
		return err
	}
	return fmt.Errorf("%w: %s", err, strings.Join(strings.Fields(said.String()), " "))
}
