// Package sandbox runs one Python program where it can do nothing but compute. Its users no longer
// need to know how: a process of this very program, the helper, gives up all that it may do and
// then becomes the interpreter.
//
//	Examine → Interpreter → Choose → Layers → Start → Process
//
// Three layers hold the program, each by itself enough for most of what it may try: namespaces
// (it sees a file system of its own, and no other process), Landlock (the kernel refuses files that
// are not named, and signals), and a seccomp filter (the kernel refuses whole system calls, among
// them all that make processes or sockets). The filter is always there; of the other two one may be
// missing, since many systems refuse namespaces to ordinary programs and older ones have no
// Landlock. Where both are missing nothing starts.
//
// What a program may use is bounded too: memory, files, threads, processor time. It ends with the
// server however that ends, and it does nothing between two requests: it is stopped.
package sandbox

import (
	"errors"
	"fmt"
	"strings"
)

// A Config says what is started.
type Config struct {
	Interpreter *Interpreter
	Program     string // Python source
	Layers      Layers // of Choose
	Memory      int64  // bytes of address space
	Disk        int64  // bytes of all files
	Threads     int
	Slot        int // tells apart interpreters that run at once: the user that one runs as where the server is root
}

// Layers say what holds a program besides the filter of system calls, which always does.
type Layers struct {
	Spaces   Spaces
	Landlock bool
}

// Spaces say whether a program has namespaces of its own.
type Spaces uint8

// The ways to namespaces.
const (
	NoSpaces   Spaces = iota // none: Landlock alone says which files there are
	UserSpaces               // within a user namespace, for servers without privileges
	RootSpaces               // made with the privileges of the server
)

// String names the layers for people.
func (l Layers) String() string {
	names := []string{"seccomp"}
	if l.Landlock {
		names = append(names, "Landlock")
	}
	if l.Spaces != NoSpaces {
		names = append(names, "namespaces")
	}
	return strings.Join(names, ", ")
}

// hold returns an error unless the layers are enough.
func (l Layers) hold() error {
	if l.Spaces == NoSpaces && !l.Landlock {
		return errors.New("neither Landlock nor namespaces: nothing would keep the program from files")
	}
	return nil
}

// Errors of Exchange besides those of its context. Each ends the process.
var (
	ErrDisk      = errors.New("its files are larger than allowed")
	ErrProcessor = errors.New("it has used its processor time")
)

// An EndedError says that the process ended by itself.
type EndedError struct{ State string }

// Error implements error.
func (e *EndedError) Error() string { return fmt.Sprintf("the interpreter ended: %s", e.State) }

// Where programs find their own files.
const (
	dataFolder      = "/mnt/data"
	temporaryFolder = "/mnt/tmp"
)
