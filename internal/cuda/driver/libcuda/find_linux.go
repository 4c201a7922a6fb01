package libcuda

import (
	"debug/elf"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// Soname is what the driver's library is called, in every version of it.
const Soname = "libcuda.so.1"

// cacheFile is the list of the dynamic loader of all libraries in the system's folders.
const cacheFile = "/etc/ld.so.cache"

// driverFolders are where container runtimes and Windows' Linux put the driver without telling the
// loader, and NixOS, which has no cache of the loader's.
var driverFolders = []string{"/usr/local/nvidia/lib64", "/usr/lib/wsl/lib", "/run/opengl-driver/lib"}

// systemFolders are those of the loader itself, by how systems lay them out.
var systemFolders = map[string][]string{
	"amd64": {"/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib64", "/usr/lib64", "/lib", "/usr/lib"},
	"arm64": {"/lib/aarch64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/lib64", "/usr/lib64", "/lib", "/usr/lib"},
}

// Find returns the path of the CUDA driver's library, or a *NotFoundError with what was tried. It
// looks where the dynamic loader would, in its order, then where drivers are known to be. It calls
// nothing and loads nothing, so that every build can ask.
func Find() (string, error) { return find(Soname, cacheFile, driverFolders) }

// find returns the path of a library for this processor.
func find(soname, cacheFile string, folders []string) (string, error) {
	missing := &NotFoundError{Name: soname}
	try := func(path string) bool {
		switch fits, err := fitsProcessor(path); {
		case os.IsNotExist(err):
			return false // the common case: where it is listed, the folder is enough
		case err != nil:
			missing.Tried = append(missing.Tried, fmt.Sprintf("%s (%v)", path, err))
			return false
		default:
			return fits
		}
	}
	for _, folder := range filepath.SplitList(os.Getenv("LD_LIBRARY_PATH")) {
		if folder == "" {
			continue // the loader takes it for the working directory, where nobody expects a driver
		}
		if path := filepath.Join(folder, soname); try(path) {
			return path, nil
		}
		missing.Tried = append(missing.Tried, folder+" (LD_LIBRARY_PATH)")
	}
	listed, err := cached(cacheFile, soname)
	for _, path := range listed {
		if try(path) {
			return path, nil
		}
	}
	if err != nil {
		missing.Tried = append(missing.Tried, fmt.Sprintf("%s (%v)", cacheFile, err))
	} else {
		missing.Tried = append(missing.Tried, cacheFile)
	}
	for _, folder := range append(folders[:len(folders):len(folders)], systemFolders[runtime.GOARCH]...) {
		if path := filepath.Join(folder, soname); try(path) {
			return path, nil
		}
		missing.Tried = append(missing.Tried, folder)
	}
	return "", missing
}

// cached returns the paths that the loader's cache has for a library.
func cached(cacheFile, soname string) ([]string, error) {
	data, err := os.ReadFile(cacheFile)
	if os.IsNotExist(err) {
		return nil, fmt.Errorf("not there")
	} else if err != nil {
		return nil, err
	}
	return lookCache(data, soname)
}

// machines are the processors of ELF files.
var machines = map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}

// fitsProcessor reports whether a file is a shared library for this processor; systems also have
// those for 32 bits. Its error says what the file is instead.
func fitsProcessor(path string) (bool, error) {
	file, err := os.Open(path)
	if err != nil {
		return false, err
	}
	defer file.Close()
	var head [20]byte // up to e_machine
	if _, err := file.ReadAt(head[:], 0); err != nil || !strings.HasPrefix(string(head[:]), elf.ELFMAG) {
		return false, fmt.Errorf("no ELF file")
	}
	machine := elf.Machine(binary.LittleEndian.Uint16(head[18:]))
	if elf.Class(head[elf.EI_CLASS]) != elf.ELFCLASS64 || machine != machines[runtime.GOARCH] {
		return false, fmt.Errorf("for another processor: %v", machine)
	}
	return true, nil
}
