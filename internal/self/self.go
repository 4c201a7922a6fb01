// Package self is what the program knows of its own file: where it is, and the second form that a
// release carries in it.
//
// A program that calls NVIDIA's driver has to be started by the system's dynamic loader, and one
// that runs everywhere must not need it. So the file of a release for Linux is the static form, and
// behind it lies the dynamic one (build tag cuda), compressed. Where a GPU is wanted and a driver is
// there, Switch unpacks that one into memory and executes it in this process: same pid, arguments
// and terminal. Whatever stands in the way of that leaves the static form running, on processors,
// and the reason is what libcuda.Open says (cuda.md 4).
package self

import (
	"os"
	"strconv"
)

// The environment of a program that Switch has executed. Both are taken out of it at once, so that
// they mean nothing for the processes that it starts.
const (
	exeVariable  = "OSSIAN_EXE"  // the file that was started, which this form is not in
	formVariable = "OSSIAN_FORM" // the pid of the process that switched; "trial" asks only whether this form starts
	trial        = "trial"
)

// origin is the file that was started, where Switch has replaced it by the form that runs now.
var origin string

// Path returns the file of this program, by which another process of it is started. In the form
// that was unpacked that is the file which it was unpacked from.
func Path() (string, error) {
	if origin != "" {
		return origin, nil
	}
	return os.Executable()
}

// arrive takes what Switch has left in the environment for the form that it executed, and reports
// whether this is one. The pid in it tells that from an environment which somebody inherited.
func arrive() bool {
	form, exe := os.Getenv(formVariable), os.Getenv(exeVariable)
	os.Unsetenv(formVariable)
	os.Unsetenv(exeVariable)
	switch form {
	case trial:
		os.Exit(0)
	case strconv.Itoa(os.Getpid()):
		origin = exe
		return true
	}
	return false
}
