package self

import (
	"bytes"
	"debug/buildinfo"
	"debug/elf"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// An answer is what testdata/program says of itself.
type answer struct {
	Dynamic    bool
	Line       string
	PID        int
	Args, Left []string
	Path, Name string
}

// programs are the two forms of testdata/program, and a file with both.
type programs struct{ dir, static, dynamic, both string }

// built are those of this run of the tests, made by the first that needs them.
var built programs

// TestMain is this test program, or what it was started for as one of its own children.
func TestMain(m *testing.M) {
	if os.Getenv("SELF_TEST_REFUSE") != "" {
		refuseMemory()
	}
	status := m.Run()
	os.RemoveAll(built.dir)
	os.Exit(status)
}

// refuseMemory executes the arguments in a process that may not make files in memory.
func refuseMemory() {
	runtime.LockOSThread()
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0}, // the number of the call
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_MEMFD_CREATE, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
	if err == nil {
		err = unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&program)), 0, 0)
	}
	if err == nil {
		os.Unsetenv("SELF_TEST_REFUSE")
		err = unix.Exec(os.Args[1], os.Args[1:], os.Environ())
	}
	os.Stderr.WriteString("no filter: " + err.Error())
	os.Exit(77)
}

// buildForms compiles the program both ways and puts one behind the other.
func buildForms(t *testing.T) programs {
	t.Helper()
	if testing.Short() {
		t.Skip("compiles two programs; run without -short")
	}
	if runtime.GOARCH != "amd64" && runtime.GOARCH != "arm64" {
		t.Skip("there is no driver for " + runtime.GOARCH)
	}
	if built.dir != "" {
		return built
	}
	dir, err := os.MkdirTemp("", "ossian-self-")
	if err != nil {
		t.Fatal(err)
	}
	p := programs{dir, filepath.Join(dir, "static"), filepath.Join(dir, "dynamic"), filepath.Join(dir, "both")}
	for path, tags := range map[string]string{p.static: "", p.dynamic: "cuda"} {
		build := exec.Command("go", "build", "-tags", tags, "-ldflags", "-s -w", "-o", path, "./testdata/program")
		build.Env = append(build.Environ(), "CGO_ENABLED=0")
		if text, err := build.CombinedOutput(); err != nil {
			t.Fatalf("go build: %v\n%s", err, text)
		}
	}
	p.write(t, p.both, p.read(t, p.dynamic), p.version(t))
	built = p
	return p
}

func (p programs) read(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func (p programs) version(t *testing.T) string {
	t.Helper()
	info, err := buildinfo.ReadFile(p.static)
	if err != nil {
		t.Fatal(err)
	}
	return Version(info)
}

// write writes the static form with another one behind it.
func (p programs) write(t *testing.T, path string, second []byte, version string) {
	t.Helper()
	static := p.read(t, p.static)
	tail, err := Attach(static, second, version)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, append(static, tail...), 0o700); err != nil {
		t.Fatal(err)
	}
}

// driverFolder returns a folder in which Find finds a driver: the head of a library, which nothing
// can load.
func driverFolder(t *testing.T) string {
	t.Helper()
	own, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "libcuda.so.1"), own[:64], 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// ask runs a program and returns what it says.
func ask(t *testing.T, cmd *exec.Cmd) answer {
	t.Helper()
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v: %s%s", cmd.Args, err, out, said.String())
	}
	var got answer
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatalf("%s: %v", out, err)
	}
	if got.PID != cmd.Process.Pid {
		t.Errorf("pid %d, started as %d", got.PID, cmd.Process.Pid)
	}
	if slices.ContainsFunc(got.Left, func(pair string) bool { return !strings.HasPrefix(pair, "OSSIAN_DEVICE=") }) {
		t.Errorf("left in the environment: %v", got.Left)
	}
	return got
}

// run runs a program with a driver in a folder.
func (p programs) run(t *testing.T, library, path string, args ...string) answer {
	t.Helper()
	cmd := exec.Command(path, args...)
	cmd.Env = append(cmd.Environ(), "LD_LIBRARY_PATH="+library)
	return ask(t, cmd)
}

// The forms are what they are said to be: one names no loader and needs no library.
func checkForms(t *testing.T, p programs) {
	t.Helper()
	for path, dynamic := range map[string]bool{p.static: false, p.both: false, p.dynamic: true} {
		file, err := elf.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		loader := slices.ContainsFunc(file.Progs, func(part *elf.Prog) bool { return part.Type == elf.PT_INTERP })
		libraries, err := file.ImportedLibraries()
		if err != nil || loader != dynamic || (len(libraries) > 0) != dynamic {
			t.Errorf("%s: a loader: %v, libraries %v, %v", filepath.Base(path), loader, libraries, err)
		}
	}
}

func TestSwitch(t *testing.T) {
	p := buildForms(t)
	checkForms(t, p)
	library, none := driverFolder(t), t.TempDir()

	got := p.run(t, library, p.both, "run", "a b", "--x")
	if !got.Dynamic || got.Line != "" || got.Path != p.both || got.Name != "ossian" || !slices.Equal(got.Args, []string{p.both, "run", "a b", "--x"}) {
		t.Errorf("with a driver: %+v", got)
	}
	for _, c := range []struct {
		library string
		args    []string
	}{{library, []string{"run", "--device", "cpu"}}, {library, []string{"run", "--device=sim:H200"}}, {library, []string{"pull", "x"}}} {
		if got := p.run(t, c.library, p.both, c.args...); got.Dynamic || got.Line != "" || got.Path != p.both {
			t.Errorf("%v: %+v", c.args, got)
		}
	}
	if got := p.run(t, library, p.static, "run"); got.Dynamic || !strings.Contains(got.Line, "built without CUDA") {
		t.Errorf("one form only: %+v", got)
	}
	if got := p.run(t, library, p.dynamic, "run"); !got.Dynamic || got.Line != "" || got.Path != p.dynamic {
		t.Errorf("the dynamic form: %+v", got)
	}
	if _, err := os.Stat("/dev/nvidiactl"); err != nil { // else this machine has a driver
		if got := p.run(t, none, p.both, "run", "--device", "cuda"); got.Dynamic || got.Line != "" {
			t.Errorf("without a driver: %+v", got)
		}
	}
	// Somebody else's environment means nothing.
	t.Setenv(exeVariable, "/elsewhere")
	t.Setenv(formVariable, "1")
	if got := p.run(t, library, p.both, "run"); !got.Dynamic || got.Path != p.both {
		t.Errorf("with an inherited environment: %+v", got)
	}
}

// In a root folder that has nothing but the file it runs, and goes on where there is a driver too.
func TestEmptyRoot(t *testing.T) {
	p := buildForms(t)
	if os.Getuid() != 0 {
		t.Skip("only root may set another root folder")
	}
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "both"), p.read(t, p.both), 0o700); err != nil {
		t.Fatal(err)
	}
	library := driverFolder(t)
	for _, file := range []string{"", "libcuda.so.1"} {
		if file != "" {
			if err := os.WriteFile(filepath.Join(root, file), p.read(t, filepath.Join(library, file)), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		cmd := exec.Command("/both", "run")
		cmd.Env, cmd.Dir = []string{"LD_LIBRARY_PATH=/"}, "/"
		cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root}
		if got := ask(t, cmd); got.Dynamic || (got.Line != "") != (file != "") {
			t.Errorf("with %q: %+v", file, got)
		}
	}
}

// Whatever fails, the static form goes on and says why.
func TestSwitchFails(t *testing.T) {
	p := buildForms(t)
	library := driverFolder(t)
	dynamic, version := p.read(t, p.dynamic), p.version(t)
	whole := p.read(t, p.both)
	fails := func(name, path, says string) {
		t.Helper()
		got := p.run(t, library, path, "run")
		if got.Dynamic || got.Path != path || !strings.Contains(got.Line, says) {
			t.Errorf("%s: %+v, want %q", name, got, says)
		}
	}
	damaged := filepath.Join(p.dir, "damaged")
	changed := func(name string, file []byte, says string) {
		t.Helper()
		if err := os.WriteFile(damaged, file, 0o700); err != nil {
			t.Fatal(err)
		}
		fails(name, damaged, says)
	}
	file := bytes.Clone(whole)
	file[len(p.read(t, p.static))+len(dynamic)/8] ^= 1
	changed("a byte of the second form", file, "damaged")
	changed("a trailer cut short", whole[:len(whole)-3], "built without CUDA")
	changed("blocks cut out", slices.Delete(bytes.Clone(whole), len(whole)-9000, len(whole)-8000), "damaged")

	p.write(t, damaged, dynamic, "v0.0.1")
	fails("another version", damaged, "v0.0.1")
	p.write(t, damaged, []byte("no program"), version)
	fails("no program", damaged, "exec format error")
	p.write(t, damaged, p.read(t, p.static), version)
	fails("a second form that is static too", damaged, "neither form")

	// A loader that is not there, and one that does not find a library.
	for from, to := range map[string]string{"/ld-linux": "/ld-linuy", "libdl.so.2": "libdl.so.x"} {
		if !bytes.Contains(dynamic, []byte(from)) {
			t.Fatalf("the dynamic form does not name %s", from)
		}
		p.write(t, damaged, bytes.ReplaceAll(dynamic, []byte(from), []byte(to)), version)
		says := "lacks the loader"
		if to == "libdl.so.x" {
			says = to
		}
		fails(to, damaged, says)
	}
}

// Where a file in memory may not be made, one in the temporary folder does, and none stays there.
func TestSwitchWithoutMemory(t *testing.T) {
	p := buildForms(t)
	library, temporary := driverFolder(t), t.TempDir()
	refused := func(temporary string) answer {
		t.Helper()
		own, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(own, p.both, "run")
		cmd.Env = append(cmd.Environ(), "SELF_TEST_REFUSE=1", "LD_LIBRARY_PATH="+library, "TMPDIR="+temporary)
		return ask(t, cmd)
	}
	if got := refused(temporary); !got.Dynamic || got.Path != p.both || got.Name != "ossian" {
		t.Errorf("in a folder: %+v", got)
	}
	if left, err := os.ReadDir(temporary); err != nil || len(left) > 0 {
		t.Errorf("left in the temporary folder: %v, %v", left, err)
	}
	got := refused(filepath.Join(temporary, "none"))
	if got.Dynamic || !strings.Contains(got.Line, "memfd_create: operation not permitted") || !strings.Contains(got.Line, "none") {
		t.Errorf("neither memory nor folder: %+v", got)
	}
}
