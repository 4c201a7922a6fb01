package wasm

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"sync"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/experimental/sys"
	"github.com/tetratelabs/wazero/experimental/sysfs"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"
	wasisys "github.com/tetratelabs/wazero/sys"
)

// helperName is the first argument by which the program knows that it is the helper.
const helperName = "ossian-python-wasm"

// An order is what the helper is told.
type order struct {
	File    string `json:"file"`
	Cache   string `json:"cache"`
	Program string `json:"program"`
	Folder  string `json:"folder"` // with data and tmp in it
	Memory  int64  `json:"memory"`
}

// executable returns the file of this program, in the form that runs.
func executable() (string, error) {
	if runtime.GOOS == "linux" {
		return "/proc/self/exe", nil
	}
	return os.Executable()
}

// Helper does the helper's work where the program was started as one, which args tell: those behind
// the program's name. It does not return then. Otherwise it returns false at once.
func Helper(args []string) bool {
	if len(args) != 2 || args[0] != helperName {
		return false
	}
	out := &frames{to: os.Stdout}
	if err := interpret(args[1], out); err != nil {
		out.send(failed, []byte(err.Error()))
		os.Exit(1)
	}
	os.Exit(0)
	return true
}

// interpret runs the interpreter until it ends.
func interpret(text string, out *frames) error {
	var told order
	if err := json.Unmarshal([]byte(text), &told); err != nil {
		return fmt.Errorf("order of the helper: %w", err)
	}
	ctx := context.Background()
	cache, err := wazero.NewCompilationCacheWithDir(told.Cache)
	if err != nil {
		return fmt.Errorf("folder for compiled interpreters: %w", err)
	}
	pages := uint32(min(max(told.Memory>>16, 1), 65536)) // of 64 KiB
	// Without what is only for debuggers: putting a trace of the interpreter together takes ten seconds.
	engine := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfig().WithCompilationCache(cache).WithMemoryLimitPages(pages).WithDebugInfoEnabled(false))
	defer engine.Close(ctx)
	code, err := os.ReadFile(told.File)
	if err != nil {
		return err
	}
	compiled, err := engine.CompileModule(ctx, code)
	if err != nil {
		return fmt.Errorf("%s is no program for WebAssembly that can be run: %w", told.File, err)
	}
	if _, err := wasi_snapshot_preview1.Instantiate(ctx, engine); err != nil {
		return err
	}
	_, err = engine.InstantiateModule(ctx, compiled, configuration(&told, out))
	var exit *wasisys.ExitError
	if errors.As(err, &exit) {
		return fmt.Errorf("exit status %d", exit.ExitCode())
	}
	return err
}

// configuration is all that the interpreter reaches.
func configuration(told *order, out *frames) wazero.ModuleConfig {
	files := wazero.NewFSConfig()
	for at, name := range map[string]string{"/mnt/data": "data", "/tmp": "tmp"} {
		files = files.(sysfs.FSConfig).WithSysFSMount(within(filepath.Join(told.Folder, name)), at)
	}
	return wazero.NewModuleConfig().WithName("").WithFSConfig(files).
		WithArgs("python", "-I", "-B", "-X", "utf8", "-c", `import sys;s=sys.argv.pop();exec(compile(s,"<ossian>","exec"))`, told.Program).
		WithEnv("HOME", "/mnt/data").WithEnv("TMPDIR", "/tmp").
		WithStdin(newRequests(out)).WithStdout(stream{out, printed}).WithStderr(stream{out, complained}).
		WithSysWalltime().WithSysNanotime().WithSysNanosleep().WithRandSource(rand.Reader)
}

// frames are sent to the server, whole ones.
type frames struct {
	mu sync.Mutex // guards to
	to io.Writer
}

func (f *frames) send(kind byte, data []byte) {
	head := binary.BigEndian.AppendUint32([]byte{kind}, uint32(len(data)))
	f.mu.Lock()
	defer f.mu.Unlock()
	_, err := f.to.Write(append(head, data...))
	if err != nil {
		os.Exit(1) // nobody is there
	}
}

// A stream is an output of the interpreter.
type stream struct {
	out  *frames
	kind byte
}

// Write sends data in frames of the stream's kind.
func (s stream) Write(data []byte) (int, error) {
	for rest := data; len(rest) > 0; {
		part := rest[:min(len(rest), mostFrame)]
		rest = rest[len(part):]
		s.out.send(s.kind, part)
	}
	return len(data), nil
}

// requests are the interpreter's input. When it reads and there is nothing, it has done what it was
// asked for.
type requests struct {
	out  *frames
	next chan []byte
	rest []byte
}

// newRequests begins to read those of the server. The process ends with them.
func newRequests(out *frames) *requests {
	reading := &requests{out: out, next: make(chan []byte, 1)}
	go func() {
		for {
			var head [4]byte
			if _, err := io.ReadFull(os.Stdin, head[:]); err != nil {
				os.Exit(0)
			}
			request := make([]byte, 4+binary.BigEndian.Uint32(head[:]))
			copy(request, head[:])
			if _, err := io.ReadFull(os.Stdin, request[4:]); err != nil {
				os.Exit(0)
			}
			reading.next <- request
		}
	}()
	return reading
}

// Read implements io.Reader: the interpreter reads one request after the other.
func (r *requests) Read(into []byte) (int, error) {
	if len(into) == 0 {
		return 0, nil
	}
	if len(r.rest) == 0 {
		r.out.send(ready, nil)
		r.rest = <-r.next
	}
	n := copy(into, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

// A folder is all of the file system that the interpreter has. The library checks no paths and
// follows links wherever they lead: here paths stay within, and there are no links.
type folder struct{ sys.FS }

func within(name string) sys.FS { return &folder{sysfs.DirFS(name)} }

// inside reports whether a path stays within the folder.
func inside(name string) bool {
	return !path.IsAbs(name) && !strings.ContainsAny(name, "\\:\x00") && name != ".." && !strings.HasPrefix(path.Clean(name)+"/", "../") && !strings.Contains("/"+name+"/", "/../")
}

// OpenFile opens a file inside.
func (f *folder) OpenFile(name string, flag sys.Oflag, perm os.FileMode) (sys.File, sys.Errno) {
	if !inside(name) {
		return nil, sys.EPERM
	}
	return f.FS.OpenFile(name, flag, perm&0o700)
}

// Lstat describes a file inside.
func (f *folder) Lstat(name string) (wasisys.Stat_t, sys.Errno) {
	if !inside(name) {
		return wasisys.Stat_t{}, sys.EPERM
	}
	return f.FS.Lstat(name)
}

// Stat describes a file inside.
func (f *folder) Stat(name string) (wasisys.Stat_t, sys.Errno) {
	if !inside(name) {
		return wasisys.Stat_t{}, sys.EPERM
	}
	return f.FS.Stat(name)
}

// Mkdir makes a folder inside.
func (f *folder) Mkdir(name string, perm os.FileMode) sys.Errno {
	if !inside(name) {
		return sys.EPERM
	}
	return f.FS.Mkdir(name, 0o700)
}

// Chmod changes nothing.
func (f *folder) Chmod(string, os.FileMode) sys.Errno { return 0 }

// Rename moves a file within.
func (f *folder) Rename(from, to string) sys.Errno {
	if !inside(from) || !inside(to) {
		return sys.EPERM
	}
	return f.FS.Rename(from, to)
}

// Rmdir removes a folder inside.
func (f *folder) Rmdir(name string) sys.Errno {
	if !inside(name) {
		return sys.EPERM
	}
	return f.FS.Rmdir(name)
}

// Unlink removes a file inside.
func (f *folder) Unlink(name string) sys.Errno {
	if !inside(name) {
		return sys.EPERM
	}
	return f.FS.Unlink(name)
}

// Link is refused.
func (f *folder) Link(string, string) sys.Errno { return sys.EPERM }

// Symlink is refused.
func (f *folder) Symlink(string, string) sys.Errno { return sys.EPERM }

// Readlink finds none.
func (f *folder) Readlink(string) (string, sys.Errno) { return "", sys.EINVAL }

// Utimens changes the times of a file inside.
func (f *folder) Utimens(name string, accessed, modified int64) sys.Errno {
	if !inside(name) {
		return sys.EPERM
	}
	return f.FS.Utimens(name, accessed, modified)
}
