package python

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"ossian/internal/limits"
	"ossian/internal/soak"
	"ossian/internal/tools"
	"ossian/internal/tools/python/sandbox"
)

// ordinary says to a test that it runs as an ordinary user.
const ordinary = "OSSIAN_TEST_ORDINARY"

// host returns this machine's interpreter, one that the present user may use. OSSIAN_TEST_PYTHON
// names another.
func host(t testing.TB) *sandbox.Interpreter {
	t.Helper()
	var reasons []error
	for _, name := range []string{cmp.Or(os.Getenv("OSSIAN_TEST_PYTHON"), "/usr/bin/python3"), "/usr/local/bin/python3", "python3"} {
		found, err := sandbox.Examine(t.Context(), name)
		if err == nil {
			return found
		}
		reasons = append(reasons, err)
	}
	t.Skipf("no Python here: %v", errors.Join(reasons...))
	return nil
}

// ways are all combinations of layers that a user may have.
func ways() []sandbox.Layers {
	all := []sandbox.Layers{{Spaces: sandbox.UserSpaces, Landlock: true}, {Spaces: sandbox.NoSpaces, Landlock: true}, {Spaces: sandbox.UserSpaces}}
	if os.Geteuid() == 0 {
		all = append(all, sandbox.Layers{Spaces: sandbox.RootSpaces, Landlock: true}, sandbox.Layers{Spaces: sandbox.RootSpaces})
	}
	return all
}

// under returns a backend with certain layers, or skips the test where they cannot be had.
func under(t *testing.T, layers sandbox.Layers, set func() *limits.Set) *sandboxed {
	t.Helper()
	made := &sandboxed{sandbox.Config{Interpreter: host(t), Program: runner, Layers: layers, Threads: threads}, set}
	if err := sandbox.Try(t.Context(), made.now(0)); err != nil {
		t.Skipf("this system has no %s: %v", layers, err)
	}
	return made
}

// TestOrdinary runs tests again as an ordinary user.
func TestOrdinary(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("this user is an ordinary one")
	}
	folder := openFolder(t)
	command := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^(TestAttacks|TestDiesWithServer|TestFiles)$", "-test.v")
	command.Env = append(os.Environ(), ordinary+"=1", "TMPDIR="+folder, "HOME="+folder)
	command.Dir = folder
	command.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534, Groups: []uint32{}}}
	out, err := command.CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Error(err)
	}
}

// openFolder returns a folder that everybody may use.
func openFolder(t *testing.T) string {
	folder, err := os.MkdirTemp("/tmp", "ossian-test-") // every part of its path may be passed
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(folder) })
	if err := os.Chmod(folder, 0o777|os.ModeSticky); err != nil {
		t.Fatal(err)
	}
	return folder
}

// An outside is what attacks are after.
type outside struct {
	folder, secret string
	victim         *exec.Cmd
	listener       net.Listener
	visits         atomic.Int64
	replace        *strings.Replacer
}

// newOutside makes a secret, a process and an address.
func newOutside(t *testing.T) *outside {
	o := &outside{folder: openFolder(t)}
	if err := os.Chmod(o.folder, 0o777); err != nil {
		t.Fatal(err)
	}
	o.secret = filepath.Join(o.folder, "secret")
	if err := os.WriteFile(o.secret, []byte("secret"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(o.folder, "empty"), 0o755); err != nil {
		t.Fatal(err)
	}
	o.victim = exec.CommandContext(t.Context(), "sleep", "1000")
	if err := o.victim.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = o.victim.Process.Kill(); _ = o.victim.Wait() })
	var err error
	if o.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { o.listener.Close() })
	go func() {
		for {
			conn, err := o.listener.Accept()
			if err != nil {
				return
			}
			o.visits.Add(1)
			conn.Close()
		}
	}()
	numbers, err := json.Marshal(callNumbers)
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(o.listener.Addr().String())
	o.replace = strings.NewReplacer("FOLDER", o.folder, "SECRET", o.secret, "SERVER", strconv.Itoa(os.Getpid()), "VICTIM", strconv.Itoa(o.victim.Process.Pid), "PORT", port, "NUMBERS", string(numbers))
	return o
}

// unharmed fails the test if anything outside is not as it was.
func (o *outside) unharmed(t *testing.T) {
	t.Helper()
	text, err := os.ReadFile(o.secret)
	info, statErr := os.Stat(o.secret)
	if err != nil || statErr != nil || string(text) != "secret" || info.Mode() != 0o644 || time.Since(info.ModTime()) > time.Hour {
		t.Errorf("the secret is %q, %v %v %v", text, info, err, statErr)
	}
	entries, _ := os.ReadDir(o.folder)
	if len(entries) != 2 {
		t.Errorf("the folder of outside has %v, want a secret and an empty folder", entries)
	}
	var state syscall.WaitStatus
	if ended, err := syscall.Wait4(o.victim.Process.Pid, &state, syscall.WNOHANG, nil); ended != 0 || err != nil {
		t.Errorf("the victim is gone: %v %v", state, err)
	}
	if n := o.visits.Load(); n != 0 {
		t.Errorf("%d connections from inside", n)
	}
}

// attempted is the code that tries an attack.
func (o *outside) attempted(a *attack) string {
	return fmt.Sprintf("result = 'ESCAPED'\ntry: exec(%s, dict(globals()))\nexcept BaseException as error: result = 'held ' + type(error).__name__\nprint(result)", quoted(o.replace.Replace(a.code)))
}

// quoted returns text as a literal of Python.
func quoted(text string) string {
	literal, _ := json.Marshal(text) // of a string
	return string(literal)
}

// TestAttacks tries every attack under every combination of layers.
func TestAttacks(t *testing.T) {
	for i, layers := range ways() {
		name := fmt.Sprintf("%s %d", layers, layers.Spaces)
		t.Run(name, func(t *testing.T) {
			all := (i == 0 && os.Getenv(ordinary) == "") || soak.Cases(t, 0, 1) > 0 // those that end the interpreter take a start each
			set := small()
			backend := under(t, layers, func() *limits.Set { return set })
			o := newOutside(t)
			server := newServer(backend, &Options{Limits: func() *limits.Set { return set }, Log: quiet})
			s := server.Open(tools.Chain{})
			fresh, tried := true, 0
			began := time.Now()
			for i := range attacks {
				if (attacks[i].want != refused || attacks[i].slow) && !all {
					continue
				}
				tried++
				if fresh {
					if result := s.Call(t.Context(), tools.Call{Arguments: o.replace.Replace(prelude)}); result.Outcome != tools.Done || strings.Contains(result.Text, "Traceback") {
						t.Fatalf("before %s: %v %s", attacks[i].name, result.Outcome, result.Text)
					}
				}
				fresh = o.contained(t, s, set, &attacks[i])
			}
			t.Logf("%d attacks in %v", tried, time.Since(began).Round(time.Millisecond))
			s.Close()
			o.unharmed(t)
			noChildren(t, o.victim.Process.Pid)
		})
	}
}

// contained tries an attack, and reports whether the interpreter is gone.
func (o *outside) contained(t *testing.T, s tools.Session, set *limits.Set, a *attack) bool {
	t.Helper()
	if a.want == late {
		set[limits.ToolTime] = 100
		defer func() { set[limits.ToolTime] = time.Hour.Milliseconds() }()
	}
	result := s.Call(t.Context(), tools.Call{Arguments: o.attempted(a)})
	ok := false
	switch a.want {
	case refused:
		ok = result.Outcome == tools.Done && strings.HasPrefix(result.Text, "held ") && !strings.Contains(result.Text, "NameError") && !strings.Contains(result.Text, "SyntaxError")
	case either:
		ok = true
	case over:
		ok = result.Outcome == tools.Failed || result.Outcome == tools.Broken
	case late:
		ok = result.Outcome == tools.TimedOut
	case harmless:
		ok = result.Outcome == tools.Done
	}
	if !ok || strings.Contains(result.Text, "ESCAPED") && (a.want == refused || a.want == over) && result.Outcome == tools.Done {
		t.Errorf("%s: %v %.300q", a.name, result.Outcome, result.Text)
	}
	if len(result.Text) > textHead+textTail+100 || len(result.Output) > int(set[limits.ToolResultBytes])+100 {
		t.Errorf("%s: %d bytes for the model, %d for the client", a.name, len(result.Text), len(result.Output))
	}
	return result.Outcome != tools.Done
}

// noChildren fails the test if this process has a child besides one.
func noChildren(t *testing.T, but int) {
	t.Helper()
	lists, _ := filepath.Glob("/proc/self/task/*/children")
	for _, list := range lists {
		text, _ := os.ReadFile(list)
		for _, child := range strings.Fields(string(text)) {
			if child != strconv.Itoa(but) {
				t.Errorf("process %s was left", child)
			}
		}
	}
}

// TestAttacksAreReal: without a sandbox most of the attacks that do no harm go through, or they
// would prove nothing.
func TestAttacksAreReal(t *testing.T) {
	o := newOutside(t)
	program := o.replace.Replace(prelude)
	tried := 0
	for i := range attacks {
		if !attacks[i].wild && attacks[i].want == refused {
			tried++
			program += fmt.Sprintf("\nprint(%s, end=': ')\n%s", quoted(attacks[i].name), o.attempted(&attacks[i]))
		}
	}
	command := exec.CommandContext(t.Context(), host(t).Path, "-I", "-c", "import sys; exec(sys.stdin.read())")
	command.Dir = o.folder
	command.Stdin = strings.NewReader(program)
	out, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	through := bytes.Count(out, []byte("ESCAPED"))
	t.Logf("%d of %d go through where nothing holds them; the others:", through, tried)
	for line := range strings.Lines(string(out)) {
		if !strings.Contains(line, "ESCAPED") {
			t.Log(strings.TrimSpace(line))
		}
	}
	if through < tried/2 {
		t.Errorf("only %d of %d attacks work outside", through, tried)
	}
}

// TestDiesWithServer: an interpreter ends when the server is killed, also one that computes.
func TestDiesWithServer(t *testing.T) {
	for _, layers := range ways() {
		t.Run(fmt.Sprintf("%s %d", layers, layers.Spaces), func(t *testing.T) {
			under(t, layers, small)
			order, err := json.Marshal(layers)
			if err != nil {
				t.Fatal(err)
			}
			server := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^TestServes$", "-test.v")
			server.Env = append(os.Environ(), "OSSIAN_TEST_SERVE="+string(order))
			out, err := server.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := server.Start(); err != nil {
				t.Fatal(err)
			}
			var pid int
			said := make([]byte, 0, 4096)
			for pid == 0 {
				part := make([]byte, 256)
				n, err := out.Read(part)
				said = append(said, part[:n]...)
				if _, rest, ok := strings.Cut(string(said), "interpreter "); ok && strings.Contains(rest, "\n") {
					pid, _ = strconv.Atoi(strings.TrimSpace(strings.SplitN(rest, "\n", 2)[0]))
				}
				if err != nil {
					t.Fatalf("%v: %s", err, said)
				}
			}
			if err := syscall.Kill(pid, 0); err != nil {
				t.Errorf("the interpreter is not there: %v", err)
			}
			_ = server.Process.Kill()
			_ = server.Wait()
			// Whoever adopts it may wait for it late; dead it is.
			for {
				text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
				if err != nil || strings.Contains(string(text), ") Z") || t.Context().Err() != nil {
					break
				}
				time.Sleep(10 * time.Millisecond)
			}
		})
	}
}

// TestServes is the server that TestDiesWithServer kills.
func TestServes(t *testing.T) {
	var layers sandbox.Layers
	if json.Unmarshal([]byte(os.Getenv("OSSIAN_TEST_SERVE")), &layers) != nil {
		t.Skip("only what TestDiesWithServer starts")
	}
	backend := under(t, layers, small)
	started, err := backend.start(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	fmt.Printf("interpreter %d\n", started.(cell).process.PID())
	_ = started.run(ctx, "import signal\nfor n in range(1, 65):\n    try: signal.signal(n, signal.SIG_IGN)\n    except (OSError, ValueError): pass\nwhile True: pass", &capture{}, &capture{})
}
