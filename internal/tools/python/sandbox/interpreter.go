package sandbox

import (
	"bytes"
	"context"
	"debug/elf"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// An Interpreter is a CPython of this machine, and what it needs to be readable.
type Interpreter struct {
	Path    string   // of the executable, as it calls itself
	Version string   // 3.11.2
	Reads   []string // folders and files: its library, packages, and those of the system
	Runs    []string // executables: itself and the loader that it names
}

// The oldest version that the runner is written for.
const oldest = "3.8"

// examineTime is how long an interpreter may take to say what it is.
const examineTime = 20 * time.Second

// question asks an interpreter what it is and where its files are.
const question = `import json, sys, sysconfig
print(json.dumps({"path": sys.executable, "implementation": sys.implementation.name, "version": list(sys.version_info[:3]),
"prefixes": [sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix],
"folders": [sysconfig.get_path(n) for n in ("stdlib", "platstdlib", "purelib", "platlib")] + [sysconfig.get_config_var("LIBDIR") or ""]}))`

// An answer is what it says.
type answer struct {
	Path           string   `json:"path"`
	Implementation string   `json:"implementation"`
	Version        [3]int   `json:"version"`
	Prefixes       []string `json:"prefixes"`
	Folders        []string `json:"folders"`
}

// Examine asks an interpreter, a name in PATH or a file, what it is. It runs outside of any
// sandbox, as the operator's own program, without reading anything but its own library.
func Examine(ctx context.Context, name string) (*Interpreter, error) {
	ctx, cancel := context.WithTimeout(ctx, examineTime)
	defer cancel()
	command := exec.CommandContext(ctx, name, "-I", "-c", question)
	var said, complained bytes.Buffer
	command.Stdout, command.Stderr = &said, &complained
	command.WaitDelay = time.Second
	if err := command.Run(); err != nil {
		why := strings.Join(strings.Fields(complained.String()), " ")
		if why != "" {
			why = ": " + why
		}
		return nil, fmt.Errorf("%s does not run: %w%.200s; install Python %s or later, or name one with --python-interpreter FILE", name, err, why, oldest)
	}
	return parse(name, said.Bytes())
}

// parse returns what an interpreter said of itself.
func parse(name string, said []byte) (*Interpreter, error) {
	var told answer
	if err := json.Unmarshal(said, &told); err != nil || !filepath.IsAbs(told.Path) {
		return nil, fmt.Errorf("%s is no Python interpreter: it does not say what it is", name)
	}
	if told.Implementation != "cpython" || slices.Compare(told.Version[:2], []int{3, 8}) < 0 {
		return nil, fmt.Errorf("%s is %s %d.%d; CPython %s or later expected", name, told.Implementation, told.Version[0], told.Version[1], oldest)
	}
	return told.interpreter()
}

// interpreter returns what a sandbox has to show of it.
func (a *answer) interpreter() (*Interpreter, error) {
	loader, err := loaderOf(a.Path)
	if err != nil {
		return nil, err
	}
	found := &Interpreter{
		Path:    a.Path,
		Version: fmt.Sprintf("%d.%d.%d", a.Version[0], a.Version[1], a.Version[2]),
		Runs:    []string{a.Path},
		Reads:   []string{"/usr/lib", "/usr/lib64", "/usr/local/lib", "/lib", "/lib64", "/etc/ld.so.cache", "/usr/share/zoneinfo"},
	}
	if loader != "" {
		found.Runs = append(found.Runs, loader)
	}
	paths := slices.Clone(a.Folders)
	for _, prefix := range a.Prefixes { // which may be somebody's home, or the whole system's
		paths = append(paths, filepath.Join(prefix, "lib"), filepath.Join(prefix, "lib64"), filepath.Join(prefix, "pyvenv.cfg"))
	}
	for _, path := range paths {
		if clean := filepath.Clean(path); filepath.IsAbs(path) && !slices.Contains(shared, clean) {
			found.Reads = append(found.Reads, clean)
		}
	}
	found.Reads = present(found.Reads)
	return found, nil
}

// shared are folders that have other things than Python in them: they are not shown, even where an
// interpreter names one.
var shared = []string{"/", "/usr", "/usr/bin", "/usr/local", "/usr/local/bin", "/bin", "/etc", "/home", "/root", "/opt", "/tmp", "/var", "/proc", "/dev", "/sys"}

// present returns those of the paths that there are, sorted, without those within others.
func present(paths []string) (kept []string) {
	paths = slices.Clone(paths)
	slices.Sort(paths)
	for _, path := range paths {
		path = filepath.Clean(path)
		inside := slices.ContainsFunc(kept, func(outer string) bool { return path == outer || strings.HasPrefix(path, outer+"/") })
		if _, err := os.Stat(path); err == nil && !inside {
			kept = append(kept, path)
		}
	}
	return kept
}

// loaderOf returns the program that the system starts in place of a dynamic executable; "" = none.
func loaderOf(path string) (string, error) {
	file, err := elf.Open(path)
	if err != nil {
		return "", fmt.Errorf("%s is no executable of this system: %w", path, err)
	}
	defer file.Close()
	for _, segment := range file.Progs {
		if segment.Type == elf.PT_INTERP && segment.Filesz < 4096 {
			name := make([]byte, segment.Filesz)
			if _, err := segment.ReadAt(name, 0); err != nil {
				return "", fmt.Errorf("%s is damaged: %w", path, err)
			}
			return string(bytes.TrimRight(name, "\x00")), nil
		}
	}
	return "", nil
}
