// Command amx runs a program built by Go, usually one of tests, on an x86 processor without AMX
// as if it had AMX: it stops the program at each instruction for tiles, which such a processor
// does not know, and does it in its place.
//
//	go build -o bin/amx ./_tools/amx
//	go test -exec $PWD/bin/amx -run Tiles ./internal/cpu/kern
//
// Some thirty thousand instructions are done in a second: results are those of a processor with
// AMX, speeds are not. The other instructions are the machine's own: AVX-512 has to be there.
// Programs that the program starts run without AMX. The exit status is the program's, 128 and
// the number of a signal that ends it, or 125 where it cannot be run so, or has met no such
// instruction.
package main

import (
	"fmt"
	"os"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: amx PROGRAM [ARGUMENT...]")
		os.Exit(2)
	}
	status, err := trace(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "amx:", err)
		os.Exit(125)
	}
	os.Exit(status)
}
