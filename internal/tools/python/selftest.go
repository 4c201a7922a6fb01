package python

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"ossian/internal/limits"
	"ossian/internal/tools/python/sandbox"
)

// A Check is one thing that was tried in an interpreter.
type Check struct {
	Name   string
	OK     bool
	Detail string // what happened where it is not as it must be
}

// escapes are tried in one interpreter, one after the other; each prints "held". NUMBER is the
// server's process, SIZE more memory than there is.
var escapes = []struct{ name, code string }{
	{"read outside", `for name in ("/etc/passwd", "/etc/hostname", "/proc/1/environ", "/proc/NUMBER/environ"): open(name).read()`},
	{"write outside", `for name in ("/etc", "/usr/lib", "/var/tmp", "/dev/shm"): open(name + "/ossian-NUMBER", "w").write("x")`},
	{"socket", `import socket; socket.socket()`},
	{"fork", `if os.fork() == 0: os._exit(0)`},
	{"signal", `os.kill(NUMBER, 0)`},
	{"ptrace", `import ctypes
if ctypes.CDLL(None).ptrace(16, NUMBER, 0, 0) < 0: raise OSError`},
	{"memory", `len(bytearray(SIZE))`},
}

// wrapped is the code of an escape: each line of it that is a loop tries every turn by itself.
func wrapped(code string) string {
	head, body, loop := strings.Cut(code, "): ")
	if loop {
		return "import os\nescaped = 0\n" + head + "):\n    try:\n        " + body + "\n        escaped += 1\n    except BaseException: pass\nprint('escaped' if escaped else 'held')"
	}
	return "import os\ntry:\n    " + strings.ReplaceAll(code, "\n", "\n    ") + "\n    print('escaped')\nexcept BaseException: print('held')"
}

// deadlineTried is how long a loop without end may run in the test.
const deadlineTried = 300 * time.Millisecond

// SelfTest tries what options give: whether it works, and eight ways out of it. Where there is no
// backend to be tried, that is the one check.
func SelfTest(ctx context.Context, opts Options) []Check {
	if opts.Limits == nil {
		opts.Limits = limits.Defaults
	}
	made, err := newSandbox(ctx, &opts)
	if opts.Backend == wasmBackend || (opts.Backend == "" && err != nil && opts.WASM != "") {
		made, err = newWASM(ctx, &opts)
	}
	if err != nil {
		return []Check{{"interpreter", false, err.Error()}}
	}
	return selfTest(ctx, made, &opts)
}

func selfTest(ctx context.Context, tried backend, opts *Options) (checks []Check) {
	started, err := tried.start(ctx, 0)
	if err != nil {
		return []Check{{"interpreter", false, err.Error()}}
	}
	defer started.close()
	checks = append(checks, attempt(ctx, started, "success", "print(6 * 7)", "42"))
	replaced := strings.NewReplacer("NUMBER", fmt.Sprint(os.Getpid()), "SIZE", fmt.Sprint(opts.Limits()[limits.PythonMemory]+1<<20))
	for _, escape := range escapes {
		checks = append(checks, attempt(ctx, started, escape.name, wrapped(replaced.Replace(escape.code)), "held"))
	}
	short, cancel := context.WithTimeout(ctx, deadlineTried)
	defer cancel()
	err = started.run(short, "while True: pass", &capture{}, &capture{})
	// On a busy machine the limit on processor time may come first: it ends a loop as well.
	if (errors.Is(err, context.DeadlineExceeded) || errors.Is(err, sandbox.ErrProcessor)) && ctx.Err() == nil {
		return append(checks, Check{Name: "deadline", OK: true})
	}
	return append(checks, Check{"deadline", false, fmt.Sprintf("a loop without end gave: %v", err)})
}

// attempt runs code that has to print a word.
func attempt(ctx context.Context, started interpreter, name, code, want string) Check {
	limited, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	printed, complaints := &capture{most: 1 << 10}, &capture{most: 1 << 10}
	err := started.run(limited, code, printed, complaints)
	if got := strings.TrimSpace(string(printed.head)); err != nil || got != want {
		return Check{name, false, fmt.Sprintf("%.100q %.300q %v", got, complaints.head, err)}
	}
	return Check{Name: name, OK: true}
}
