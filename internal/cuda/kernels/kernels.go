// Package kernels holds Ossian's CUDA kernels: their sources, and the PTX that pinned compilers
// made of them, which is what ships, what tests run and what a GPU's driver compiles. README.md
// says how a kernel is written; _tools/cuda/build.sh makes PTX and MANIFEST again.
package kernels

import (
	"archive/zip"
	"bytes"
	_ "embed"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// archive has the bytes of all *.ptx of this folder, compressed to an eighth, so that a program that
// never meets a GPU carries little of them. _tools/cuda/archive writes it.
//
//go:embed ptx.zip
var archive []byte

// A Module is one source compiled for one architecture: what a driver loads at once.
type Module struct {
	Name    string // of the source, without its ending: "product"
	Arch    string // "80", "90a": the least compute capability; with "a" that one alone
	PTX     []byte
	Entries []string // kernels in it
}

var entry = regexp.MustCompile(`(?m)^\.visible \.entry ([A-Za-z_0-9]+)\(`)

// Modules returns all modules, in the order of names and architectures. The first call takes some 30
// ms to unpack them.
var Modules = sync.OnceValue(func() []Module {
	files, err := zip.NewReader(bytes.NewReader(archive), int64(len(archive)))
	if err != nil {
		panic(err) // it is part of the program
	}
	names, err := fs.Glob(files, "*.ptx")
	if err != nil {
		panic(err) // the pattern is a constant
	}
	var modules []Module
	for _, file := range names {
		ptx, err := fs.ReadFile(files, file)
		if err != nil {
			panic(err) // it is part of the program
		}
		name, arch, _ := strings.Cut(strings.TrimSuffix(file, ".ptx"), ".sm_")
		m := Module{Name: name, Arch: arch, PTX: ptx}
		for _, found := range entry.FindAllSubmatch(ptx, -1) {
			m.Entries = append(m.Entries, string(found[1]))
		}
		modules = append(modules, m)
	}
	return modules
})

// Find returns the module that has a kernel of that name. Names are unique over all modules: a caller
// asks for a kernel of one architecture alone, as those of sm_90a are, by its name.
func Find(kernel string) (Module, error) {
	for _, m := range Modules() {
		if slices.Contains(m.Entries, kernel) {
			return m, nil
		}
	}
	return Module{}, fmt.Errorf("no kernel is called %q", kernel)
}
