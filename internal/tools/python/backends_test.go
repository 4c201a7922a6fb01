package python

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"ossian/internal/limits"
	"ossian/internal/tools"
)

// program puts a script of the shell into a folder that is all of PATH besides the system's.
func program(t *testing.T, name, text string) string {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("there is no shell here")
	}
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, name), []byte("#!/bin/sh\n"+text), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", folder+":/usr/bin:/bin")
	return folder
}

// TestDocker: the command line, and what becomes of its output. In the place of Docker is a script
// that writes its arguments down and runs the container's command here.
func TestDocker(t *testing.T) {
	if _, err := exec.LookPath("/usr/bin/python3"); err != nil {
		t.Skip("no Python here")
	}
	folder := program(t, "docker", `env >> "$0.env"; printf '%s\n' "$@" >> "$0.log"
[ "$1" = run ] || exit 0
while [ "$1" != python:3.11 ]; do shift; done
shift 3
cd "$TMPDIR" && eval "$(echo "$1" | sed "s#/tmp/#$TMPDIR/#g; s#exec python#exec /usr/bin/python3#")"`)
	t.Setenv("OSSIAN_API_KEY", "secret")
	set := small()
	server, err := New(Options{Backend: "docker", Limits: func() *limits.Set { return set }})
	if err != nil {
		t.Fatal(err)
	}
	space, _ := server.Namespace(t.Context())
	if !strings.Contains(space.Description, "STATELESS") {
		t.Errorf("it says %q", space.Description)
	}
	s := server.Open(tools.Chain{})
	defer s.Close()
	for _, c := range []struct{ code, want string }{
		{"x = 1\nprint(x)", "1\n"},
		{"print('x' in globals()); 5", "False\n"},
		{"import sys; print('e', file=sys.stderr); sys.exit(3)", "e\n"},
		{"", silent},
	} {
		if got := s.Call(t.Context(), tools.Call{Arguments: c.code}); got.Text != c.want || got.Outcome != tools.Done {
			t.Errorf("%s: %v %q, want %q", c.code, got.Outcome, got.Text, c.want)
		}
	}
	set[limits.ToolTime] = 100
	if got := s.Call(t.Context(), tools.Call{Arguments: "while True: pass"}); got.Outcome != tools.TimedOut {
		t.Errorf("%v %q", got.Outcome, got.Text)
	}
	log := ""
	for !strings.Contains(log, "rm\n--force\nossian-script-") { // it is removed behind the result
		text, _ := os.ReadFile(filepath.Join(folder, "docker.log"))
		log = string(text)
		time.Sleep(time.Millisecond)
	}
	if want := fmt.Sprintf("\n--memory\n%d\n--pids-limit\n64\npython:3.11\nsh\n-c\n", set[limits.PythonMemory]); !strings.HasPrefix(log, "run\n--rm\n--interactive\n--name\nossian-script-") || !strings.Contains(log, want) {
		t.Errorf("docker was called with %q", log)
	}
	if env, _ := os.ReadFile(filepath.Join(folder, "docker.env")); strings.Contains(string(env), "secret") {
		t.Error("docker finds the server's secrets")
	}
}

// TestUV: as Docker, with what the reference shows of scripts that fail.
func TestUV(t *testing.T) {
	if _, err := exec.LookPath("/usr/bin/python3"); err != nil {
		t.Skip("no Python here")
	}
	program(t, "uv", `[ "$1 $2 $3" = "run --no-project python" ] && exec /usr/bin/python3 "$4"`)
	server, err := New(Options{Backend: "dangerously_use_uv"})
	if err != nil {
		t.Fatal(err)
	}
	s := server.Open(tools.Chain{})
	defer s.Close()
	for _, c := range []struct{ code, want string }{
		{"import sys; print(1); print('unseen', file=sys.stderr)", "1\n"},
		{"import sys; print('unseen'); print('e', file=sys.stderr); sys.exit(3)", "e\n"},
	} {
		if got := s.Call(t.Context(), tools.Call{Arguments: c.code}); got.Text != c.want || got.Outcome != tools.Done {
			t.Errorf("%s: %v %q, want %q", c.code, got.Outcome, got.Text, c.want)
		}
	}
}

// TestWASM needs a CPython for WASI: OSSIAN_TEST_WASM names its file. Tried with 3.12.0 of
// SHA-256 e5dc5a398b07b54ea8fdb503bf68fb583d533f10ec3f930963e02b9505f7a763.
func TestWASM(t *testing.T) {
	file := os.Getenv("OSSIAN_TEST_WASM")
	if file == "" {
		t.Skip("OSSIAN_TEST_WASM names no CPython for WASI")
	}
	set := small()
	began := time.Now()
	made, err := New(Options{Backend: "wasm", WASM: file, Cache: os.Getenv("OSSIAN_TEST_CACHE"), Limits: func() *limits.Set { return set }})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s, tested in %v", made.Status().Backend, time.Since(began))
	s := made.Open(tools.Chain{})
	defer s.Close()
	for _, c := range []struct{ code, want string }{
		{"x = 40\nx + 2", "42\n"},
		{"print(x); 1/0", "40\nTraceback (most recent call last):\n  File \"<cell 2>\", line 1, in <module>\n    print(x); 1/0\n              ~^~\nZeroDivisionError: division by zero\n"},
		{"open('/mnt/data/f', 'w').write('text')\nimport os, json, decimal\nos.listdir('/mnt/data'), os.getcwd()", "(['f'], '/mnt/data')\n"},
		{"import sys; print('e', file=sys.stderr); print('o')", "o\ne\n"},
		{"", silent},
	} {
		code := c.code
		if got := s.Call(t.Context(), tools.Call{Arguments: code}); got.Text != c.want || got.Outcome != tools.Done {
			t.Errorf("%s: %v %q, want %q", code, got.Outcome, got.Text, c.want)
		}
	}
	for _, code := range []string{
		"open('/etc/passwd')", "open('/mnt/data/../../etc/passwd')", "os.listdir('/etc')", "os.symlink('/etc', '/mnt/data/l')", "os.link('/mnt/data/f', '/mnt/data/g')",
		"import socket; socket.socket()", "os.fork()", "import subprocess; subprocess.run(['true'])", "os.kill(1, 9)", "import ctypes", "os.chdir('/etc'); open('passwd')",
		"bytearray(1 << 30)", "os.open('..', os.O_RDONLY)", "os.open('/', os.O_RDONLY)",
	} {
		got := s.Call(t.Context(), tools.Call{Arguments: "try:\n    " + code + "\n    print('ESCAPED')\nexcept BaseException: print('held')"})
		if got.Text != "held\n" {
			t.Errorf("%s: %v %q", code, got.Outcome, got.Text)
		}
	}
	set[limits.ToolTime] = 300
	if got := s.Call(t.Context(), tools.Call{Arguments: "while True: pass"}); got.Outcome != tools.TimedOut {
		t.Errorf("%v %q", got.Outcome, got.Text)
	}
	set[limits.ToolTime] = time.Hour.Milliseconds()
	if got := s.Call(t.Context(), tools.Call{Arguments: "open('f').read()"}); got.Text != restarted+"'text'\n" {
		t.Errorf("%v %q", got.Outcome, got.Text)
	}
	if got := s.Call(t.Context(), tools.Call{Arguments: "i = 0\nwhile True: i += 1; open(f'f{i % 50}', 'wb').write(bytes(1 << 20))"}); got.Outcome != tools.Failed || !strings.Contains(got.Text, "more than 16Mi") {
		t.Errorf("disk: %v %q", got.Outcome, got.Text)
	}
	if got := s.Call(t.Context(), tools.Call{Arguments: "import os; os._exit(3)"}); got.Outcome != tools.Failed || !strings.Contains(got.Text, "exit status 3") {
		t.Errorf("%v %q", got.Outcome, got.Text)
	}
}

// TestJupyter needs a Python with ipykernel: OSSIAN_TEST_IPYKERNEL names it, as make interpreters does.
func TestJupyter(t *testing.T) {
	python := os.Getenv("OSSIAN_TEST_IPYKERNEL")
	if python == "" {
		t.Skip("OSSIAN_TEST_IPYKERNEL names no Python with ipykernel")
	}
	file := filepath.Join(t.TempDir(), "kernel.json")
	process := exec.CommandContext(t.Context(), python, "-m", "ipykernel_launcher", "-f", file)
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = process.Process.Kill(); _ = process.Wait() }()
	var made tools.Server
	for deadline := time.Now().Add(time.Minute); made == nil; time.Sleep(50 * time.Millisecond) {
		var err error
		if made, err = New(Options{Backend: "dangerously_use_local_jupyter", JupyterFile: file}); err != nil && time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
	for _, c := range []struct{ code, want string }{{"x = 1", silent}, {"x", "1\n"}, {"import sys; print('e', file=sys.stderr); print('o')", "o\ne\n"}} {
		s := made.Open(tools.Chain{})
		if got := s.Call(t.Context(), tools.Call{Arguments: c.code}); got.Text != c.want || got.Outcome != tools.Done {
			t.Errorf("%s: %v %q, want %q", c.code, got.Outcome, got.Text, c.want)
		}
		s.Close()
	}
}
