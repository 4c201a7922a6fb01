package python

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"ossian/internal/limits"
	"ossian/internal/tools"
	"ossian/internal/tools/python/sandbox"
)

// best returns a server with the strongest layers of this system.
func best(t *testing.T, set *limits.Set) *Server {
	t.Helper()
	current := func() *limits.Set { return set }
	config := &sandboxed{sandbox.Config{Interpreter: host(t), Program: runner, Threads: threads}, current}
	layers, err := sandbox.Choose(t.Context(), *config.now(0))
	if err != nil {
		t.Skipf("no sandbox here: %v", err)
	}
	config.config.Layers = layers
	server := newServer(config, &Options{Limits: current, Log: quiet})
	t.Cleanup(func() {
		server.Close()
		if len(server.slots) != 0 {
			t.Errorf("%d interpreters are left", len(server.slots))
		}
		noChildren(t, 0)
	})
	return server
}

// say runs code and returns what the model is told.
func say(t *testing.T, s tools.Session, code string) string {
	t.Helper()
	result := s.Call(t.Context(), tools.Call{Arguments: code})
	if result.Outcome != tools.Done || (!strings.Contains(code, "raise") && !strings.Contains(code, "exit(3)") && !strings.Contains(code, "f()") && strings.Contains(result.Text, "Traceback")) {
		t.Errorf("%.100s: %v %s", code, result.Outcome, result.Text)
	}
	return result.Text
}

// TestNotebook: cells in one interpreter, as in a notebook.
func TestNotebook(t *testing.T) {
	for _, layers := range []sandbox.Layers{{Spaces: sandbox.UserSpaces, Landlock: true}, {Landlock: true}} {
		t.Run(layers.String(), func(t *testing.T) {
			set := small()
			server := newServer(under(t, layers, func() *limits.Set { return set }), &Options{Limits: func() *limits.Set { return set }, Log: quiet})
			s := server.Open(tools.Chain{})
			defer s.Close()
			for _, c := range []struct{ name, code, want string }{
				{"print", "print('a')\nprint('b')", "a\nb\n"},
				{"echo", "x = 40\nx + 2", "42\n"},
				{"state", "x", "40\n"},
				{"no echo behind a semicolon", "x;", silent},
				{"no echo of None", "None", silent},
				{"underscore", "x\n_", "40\n"},
				{"silence", "y = 1", silent},
				{"empty", "", silent},
				{"comment", "# nothing", silent},
				{"printed and echoed", "print(1); 2", "1\n2\n"},
				{"Unicode", "print('ä漢🙂')", "ä漢🙂\n"},
				{"half characters", "import os; n = os.write(1, b'\\xff\\n')", "\xff\n"},
				{"lone surrogates", "print('\\ud800')", "\\ud800\n"},
				{"stderr behind stdout", "import sys\nprint('e', file=sys.stderr)\nprint('o')", "o\ne\n"},
				{"bytes of C", "import ctypes; n = ctypes.CDLL(None).puts(b'from C')", "from C\n"},
				{"main", "__name__", "'__main__'\n"},
				{"functions see globals", "def f(): return x\nf()", "40\n"},
				{"classes can be pickled", "import pickle\nclass A: pass\ntype(pickle.loads(pickle.dumps(A()))).__name__", "'A'\n"},
				{"display", "display(1, 'a')", "1\n'a'\n"},
				{"await", "import asyncio\nawait asyncio.sleep(0, 7)", "7\n"},
				{"asyncio", "async def g(): return await asyncio.get_running_loop().run_in_executor(None, lambda: 8)\nasyncio.run(g())", "8\n"},
				{"threads", "import threading\nr = []\nts = [threading.Thread(target=r.append, args=(i,)) for i in range(20)]\n[t.start() for t in ts]\n[t.join() for t in ts]\nlen(r)", "20\n"},
				{"input", "try: input()\nexcept EOFError: print('end')", "end\n"},
				{"exit is no end", "import sys; sys.exit()", silent},
				{"exit with a status", "sys.exit(3)", "Traceback (most recent call last):\n  File \"<cell 25>\", line 1, in <module>\n    sys.exit(3)\nSystemExit: 3\n"},
				{"exception", "def f():\n    raise ValueError('bad')\nf()", "Traceback (most recent call last):\n  File \"<cell 26>\", line 3, in <module>\n    f()\n  File \"<cell 26>\", line 2, in f\n    raise ValueError('bad')\nValueError: bad\n"},
				{"exception in an earlier cell", "f()", "Traceback (most recent call last):\n  File \"<cell 27>\", line 1, in <module>\n    f()\n  File \"<cell 26>\", line 2, in f\n    raise ValueError('bad')\nValueError: bad\n"},
				{"syntax", "print(1)\nx = = 1", "  File \"<cell 28>\", line 2\n    x = = 1\n        ^\nSyntaxError: invalid syntax\n"},
				{"before an exception", "print('so far')\nraise KeyError('k')", "so far\nTraceback (most recent call last):\n  File \"<cell 29>\", line 2, in <module>\n    raise KeyError('k')\nKeyError: 'k'\n"},
				{"JSON", `{"code": "x"}`, "40\n"},
				{"fence", "```python\nx\n```", "40\n"},
				{"files", "open('/mnt/data/f', 'w').write('text')\nos.listdir('/mnt/data')", "['f']\n"},
				{"the folder is the current one", "open('f').read()", "'text'\n"},
				{"imports of own files", "open('own_module.py', 'w').write('v = 5')\nimport own_module\nown_module.v", "5\n"},
				{"temporary files", "import tempfile\nwith tempfile.NamedTemporaryFile() as h: h.write(b'x'); print(os.path.exists(h.name))", "True\n"},
				{"/tmp", "open('/tmp/t', 'w').write('x'); os.path.isfile('/tmp/t')", "True\n"},
				{"paths", "import pathlib, shutil\np = pathlib.Path('/mnt/data/d/e'); p.mkdir(parents=True)\nn = shutil.copy('/mnt/data/f', p)\nsorted(str(q.relative_to('/mnt/data')) for q in pathlib.Path('/mnt/data').glob('d/**/*')) if str(p).startswith('/mnt') else 0", "['d/e', 'd/e/f']\n"},
				{"database", "import sqlite3\nwith sqlite3.connect('/mnt/data/x.db') as c: c.execute('create table t (a)'); print(os.path.exists('x.db'))", "True\n"},
				{"archives", "import zipfile, tarfile, warnings\nwarnings.simplefilter('ignore')\nwith zipfile.ZipFile('/mnt/data/z.zip', 'w') as z: z.write('/mnt/data/f', 'f')\nwith tarfile.open('/mnt/data/z.tar', 'w') as z: z.add('/mnt/data/f', 'f')\ntarfile.open('/mnt/data/z.tar').extractall('/mnt/data/out')\nopen('/mnt/data/out/f').read()", "'text'\n"},
				{"the clock", "import time, datetime\ntime.sleep(0.01); datetime.datetime.now().year > 2000", "True\n"},
				{"randomness", "import random, secrets, uuid\nlen(secrets.token_bytes(8) + os.urandom(8))", "16\n"},
				{"no environment", "sorted(k for k in os.environ if 'KEY' in k or 'OSSIAN' in k or k == 'USER')", "[]\n"},
			} {
				if got := say(t, s, c.code); got != c.want && !(strings.HasPrefix(c.name, "exception") && withoutMarks(got) == c.want) && withoutMarks(got) != c.want {
					t.Errorf("%s: %q, want %q", c.name, got, c.want)
				}
			}
		})
	}
}

// withoutMarks returns a traceback without the lines that mark a part of the line above, which
// versions of Python do in different ways.
func withoutMarks(text string) string {
	var kept []string
	for line := range strings.Lines(text) {
		if strings.Trim(line, " ~^\n") != "" {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "")
}

// TestFiles: what is in /mnt/data outlives an interpreter that was ended, whatever is there.
func TestFiles(t *testing.T) {
	for _, layers := range ways() {
		t.Run(fmt.Sprintf("%s %d", layers, layers.Spaces), func(t *testing.T) {
			set := small()
			server := newServer(under(t, layers, func() *limits.Set { return set }), &Options{Limits: func() *limits.Set { return set }, Log: quiet})
			s := server.Open(tools.Chain{})
			defer s.Close()
			say(t, s, `import os
os.makedirs("a/b/c"); open("a/b/c/f", "w").write("deep"); open("big", "wb").write(bytes(3 << 20))
os.symlink("/etc/passwd", "bad"); os.symlink("a", "good"); os.link("big", "big2")
open("/tmp/gone", "w")`)
			if got := s.Call(t.Context(), tools.Call{Arguments: "import os; os._exit(1)"}); got.Outcome != tools.Failed {
				t.Errorf("%v %q", got.Outcome, got.Text)
			}
			want := restarted + "(['a', 'bad', 'big', 'big2', 'good'], 'deep', 3145728, '/etc/passwd', [])\n"
			if got := say(t, s, `import os
sorted(os.listdir()), open("good/b/c/f").read(), os.path.getsize("big2"), os.readlink("bad"), os.listdir("/tmp")`); got != want {
				t.Errorf("%q, want %q", got, want)
			}
			say(t, s, `open("a/b/c/f", "w").write("own"); os.remove("big")`)
		})
	}
}

// TestLimits: each limit ends a call with its own words, and the next call works.
func TestLimits(t *testing.T) {
	set := small()
	server := best(t, set)
	s := server.Open(tools.Chain{})
	defer s.Close()
	say(t, s, "x = 1")
	set[limits.ToolTime] = 3500 // enough to print on a busy machine
	got := s.Call(t.Context(), tools.Call{Arguments: "print('so far')\nwhile True: pass"})
	if got.Outcome != tools.TimedOut || got.Text != "so far\n[ERROR] Execution timed out after 3.5 seconds." {
		t.Errorf("time: %v %q", got.Outcome, got.Text)
	}
	set[limits.ToolTime] = time.Hour.Milliseconds()
	if got := say(t, s, "print('x' in globals())"); got != restarted+"False\n" {
		t.Errorf("behind it: %q", got)
	}
	if got := say(t, s, "print('x' in globals())"); got != "False\n" {
		t.Errorf("and then: %q", got)
	}
	if got := say(t, s, "try: bytearray(1 << 30)\nexcept MemoryError: print('no memory')"); got != "no memory\n" {
		t.Errorf("memory: %q", got)
	}
	if got := say(t, s, "try:\n  with open('big', 'wb') as f:\n    while True: f.write(bytes(1 << 20))\nexcept OSError: print('no room')"); got != "no room\n" {
		t.Errorf("disk: %q", got)
	}
	set[limits.PythonCalls] = 3
	if got := s.Call(t.Context(), tools.Call{Arguments: "1"}); got.Outcome != tools.Failed || !strings.Contains(got.Text, "3 times") {
		t.Errorf("calls: %v %q", got.Outcome, got.Text)
	}
}

// TestOutputs: the model gets the two ends, the client more, and neither without end.
func TestOutputs(t *testing.T) {
	set := small()
	s := best(t, set).Open(tools.Chain{})
	defer s.Close()
	got := s.Call(t.Context(), tools.Call{Arguments: "print('a' * 20000 + 'b' * 20000)"})
	if want := strings.Repeat("a", textHead) + fmt.Sprintf("\n…[%d bytes omitted]…\n", 40001-textHead-textTail) + strings.Repeat("b", textTail-1) + "\n"; got.Text != want {
		t.Errorf("%d bytes for the model, %d expected", len(got.Text), len(want))
	}
	if want := strings.Repeat("a", 20000) + strings.Repeat("b", 20000) + "\n"; got.Output != want {
		t.Errorf("%d bytes for the client", len(got.Output))
	}
	got = s.Call(t.Context(), tools.Call{Arguments: "import os\nfor i in range(5000): print('x' * 999)\nfor i in range(5000): n = os.write(2, b'y' * 1000)"})
	if most := int(set[limits.ToolResultBytes]) + 100; len(got.Output) > most || len(got.Output) < most-200 || !strings.HasSuffix(got.Text, strings.Repeat("y", textTail)) || !strings.Contains(got.Text, "bytes omitted") {
		t.Errorf("%d and %d bytes", len(got.Text), len(got.Output))
	}
	set[limits.ToolResultBytes] = 1 << 10
	got = s.Call(t.Context(), tools.Call{Arguments: "print('z' * 50000)"})
	if len(got.Output) > textTail+100 || len(got.Text) > textTail+1200 || !strings.Contains(got.Text, "bytes omitted") {
		t.Errorf("with little room: %d and %d bytes", len(got.Text), len(got.Output))
	}
	if got := s.Call(t.Context(), tools.Call{Arguments: "1"}); got.Output != "" || got.Text != "1\n" {
		t.Errorf("%+v", got)
	}
}

// TestChains: an interpreter belongs to one conversation of one owner, and is kept for it.
func TestChains(t *testing.T) {
	set := small()
	server := best(t, set)
	first := server.Open(tools.Chain{Owner: "a", ID: "1", Kept: true})
	if state := first.State(); state != nil {
		t.Errorf("%s before any call", state)
	}
	named := first.Call(t.Context(), tools.Call{Arguments: "x = 1"}).Container
	say(t, first, "open('f', 'w').write('mine')")
	state := first.State()
	first.Close()
	if !strings.HasPrefix(named, "cntr_") {
		t.Errorf("container %q", named)
	}
	again := server.Open(tools.Chain{Owner: "a", ID: "1", Kept: true, State: state})
	if got := again.Call(t.Context(), tools.Call{Arguments: "x, open('f').read()"}); got.Text != "(1, 'mine')\n" || got.Container != named {
		t.Errorf("later: %q in %s, want it in %s", got.Text, got.Container, named)
	}
	for _, other := range []tools.Chain{{Owner: "b", ID: "1"}, {Owner: "a", ID: "2"}, {Owner: "a"}} {
		s := server.Open(other)
		if got := s.Call(t.Context(), tools.Call{Arguments: "import os; 'x' in globals(), os.listdir()"}); got.Text != "(False, [])\n" || got.Container == named {
			t.Errorf("%+v: %q in %s", other, got.Text, got.Container)
		}
		s.Close()
	}
	// At once with another answer of the same conversation.
	beside := server.Open(tools.Chain{Owner: "a", ID: "1"})
	done := make(chan string)
	go func() { done <- beside.Call(t.Context(), tools.Call{Arguments: "x += 1"}).Text }()
	again.Call(t.Context(), tools.Call{Arguments: "x += 1"})
	if got := <-done; got != silent {
		t.Errorf("beside: %q", got)
	}
	beside.Close()
	if got := say(t, again, "x"); got != "3\n" {
		t.Errorf("both: %q", got)
	}
	again.Close()
	// Without being kept it is gone, and who believes in it is told.
	set[limits.PythonIdle] = 1
	idle := server.Open(tools.Chain{Owner: "a", ID: "1", Kept: true, State: state})
	say(t, idle, "x")
	idle.Close()
	for server.count() > 0 {
		time.Sleep(time.Millisecond)
	}
	late := server.Open(tools.Chain{Owner: "a", ID: "1", State: state})
	if got := late.Call(t.Context(), tools.Call{Arguments: "'x' in globals()"}); got.Text != restarted+"False\n" || got.Container == named {
		t.Errorf("when its time is over: %q in %s", got.Text, got.Container)
	}
	late.Close()
}

// count returns how many interpreters there are.
func (s *Server) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.slots)
}

// TestFull: where all interpreters are in use a call waits and then says so; one that is only kept
// makes room at once.
func TestFull(t *testing.T) {
	set := small()
	set[limits.PythonProcesses] = 1
	server := best(t, set)
	one := server.Open(tools.Chain{Owner: "a", ID: "1", Kept: true})
	say(t, one, "x = 1")
	state := one.State()
	set[limits.ToolTime] = 100
	two := server.Open(tools.Chain{Owner: "b", ID: "2"})
	if got := two.Call(t.Context(), tools.Call{Arguments: "1"}); got.Outcome != tools.Failed || got.Text != "[ERROR] All 1 Python interpreters are in use. Try again later." {
		t.Errorf("%v %q", got.Outcome, got.Text)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got := two.Call(ctx, tools.Call{Arguments: "1"}); got.Outcome != tools.Cancelled {
		t.Errorf("cancelled: %v %q", got.Outcome, got.Text)
	}
	set[limits.ToolTime] = time.Hour.Milliseconds()
	one.Close()
	if got := say(t, two, "1"); got != "1\n" {
		t.Errorf("%q", got)
	}
	two.Close()
	again := server.Open(tools.Chain{Owner: "a", ID: "1", State: state})
	if got := say(t, again, "1"); got != restarted+"1\n" {
		t.Errorf("who made room: %q", got)
	}
	// Who waits gets what becomes free.
	three := server.Open(tools.Chain{})
	done := make(chan string)
	go func() { done <- three.Call(t.Context(), tools.Call{Arguments: "3"}).Text }()
	again.Close()
	if got := <-done; got != "3\n" {
		t.Errorf("who waited: %q", got)
	}
	three.Close()
}

// TestCancel: a call ends when nobody wants it, and its interpreter with it.
func TestCancel(t *testing.T) {
	server := best(t, small())
	s := server.Open(tools.Chain{})
	say(t, s, "1")
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	if got := s.Call(ctx, tools.Call{Arguments: "while True: pass"}); got.Outcome != tools.Cancelled {
		t.Errorf("%v %q", got.Outcome, got.Text)
	}
	noChildren(t, 0)
	if got := s.Call(ctx, tools.Call{Arguments: "1"}); got.Outcome != tools.Cancelled {
		t.Errorf("before it begins: %v %q", got.Outcome, got.Text)
	}
	s.Close()
}

// TestStopped: between calls an interpreter does nothing, whatever its threads would do.
func TestStopped(t *testing.T) {
	server := best(t, small())
	s := server.Open(tools.Chain{})
	defer s.Close()
	say(t, s, "import threading\nn = 0\ndef f():\n    global n\n    while True: n += 1\nthreading.Thread(target=f, daemon=True).start()")
	process := s.(*session).holder.running.(cell).process
	for {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", process.PID()))
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), ") T ") {
			break
		}
		time.Sleep(time.Millisecond)
	}
	if got := say(t, s, "n > 0"); got != "True\n" {
		t.Errorf("%q", got)
	}
}

// TestSelfTest: a sandbox passes its test, and an interpreter that nothing holds does not.
func TestSelfTest(t *testing.T) {
	set := small()
	server := best(t, set)
	opts := &Options{Limits: func() *limits.Set { return set }}
	checks := selfTest(t.Context(), server.backend, opts)
	if len(checks) != 9 {
		t.Errorf("%d checks, want one success and eight escapes", len(checks))
	}
	for _, check := range checks {
		if !check.OK {
			t.Errorf("%s: %s", check.Name, check.Detail)
		}
	}
	unheld, err := bare{host(t).Path}.start(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unheld.close()
	folder := openFolder(t)
	for _, escape := range escapes {
		if escape.name == "ptrace" { // it would stop this test
			continue
		}
		code := strings.NewReplacer("NUMBER", fmt.Sprint(os.Getpid()), "SIZE", "1", "/dev/shm", folder).Replace(wrapped(escape.code))
		if attempt(t.Context(), unheld, escape.name, code, "held").OK {
			t.Errorf("%s is said to be held where nothing holds it", escape.name)
		}
	}
	for _, name := range []string{"/etc", "/usr/lib", "/var/tmp"} {
		_ = os.Remove(name + "/ossian-" + fmt.Sprint(os.Getpid()))
	}
}

// A bare backend runs Python without a sandbox.
type bare struct{ path string }

func (b bare) keeps() keeping { return sharedVariables }
func (b bare) detail() string { return "bare" }
func (b bare) start(ctx context.Context, _ int) (interpreter, error) {
	command := exec.CommandContext(ctx, b.path, "-I", "-c", runner)
	requests, toRequests, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	replies, fromReplies, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	command.ExtraFiles = []*os.File{requests, fromReplies}
	out, err := command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	err = command.Start()
	requests.Close()
	fromReplies.Close()
	return &bared{command, toRequests, replies, out}, err
}

type bared struct {
	command  *exec.Cmd
	requests *os.File
	replies  *os.File
	out      io.Reader
}

func (b *bared) run(ctx context.Context, source string, printed, _ *capture) error {
	n := newNonce()
	if _, err := b.requests.Write(request(n, source)); err != nil {
		return err
	}
	if deadline, ok := ctx.Deadline(); ok {
		_ = b.replies.SetReadDeadline(deadline)
	}
	got := make([]byte, 4+nonceSize)
	if _, err := io.ReadFull(b.replies, got); err != nil {
		return err
	}
	if !bytes.Equal(got[4:], n[:]) {
		return errReply
	}
	part := make([]byte, 4096)
	k, err := b.out.Read(part)
	_, _ = printed.Write(part[:k])
	return err
}
func (b *bared) inherit(interpreter) error { return nil }
func (b *bared) close() {
	_ = b.command.Process.Kill()
	_ = b.command.Wait()
}

// TestNumpy: where the interpreter has it, it works, with its threads.
func TestNumpy(t *testing.T) {
	set := limits.Defaults()
	found, err := sandbox.Examine(t.Context(), cmp.Or(os.Getenv("OSSIAN_TEST_PYTHON"), "python3"))
	if err != nil {
		t.Skip(err)
	}
	backend := &sandboxed{sandbox.Config{Interpreter: found, Program: runner, Threads: threads}, func() *limits.Set { return set }}
	if backend.config.Layers, err = sandbox.Choose(t.Context(), *backend.now(0)); err != nil {
		t.Skip(err)
	}
	for _, layers := range []sandbox.Layers{backend.config.Layers, {Landlock: true}} {
		backend.config.Layers = layers
		if sandbox.Try(t.Context(), backend.now(0)) != nil {
			continue
		}
		s := newServer(backend, &Options{Limits: backend.limits, Log: quiet}).Open(tools.Chain{})
		for _, c := range []struct{ code, want string }{
			{"import numpy as np\na = np.ones((300, 300))\nnp.save('/mnt/data/a.npy', a @ a)\nfloat(np.load('/mnt/data/a.npy')[0, 0])", "300.0\n"},
			{"b = np.random.default_rng(1).random((600, 600))\nbool(np.allclose(b @ np.linalg.inv(b), np.eye(600)))", "True\n"}, // several threads
			{"int(np.fft.fft(np.ones(8))[0].real), np.linalg.svd(a[:9, :9])[1].round(6).tolist()[0]", "(8, 9.0)\n"},
			{"try:\n    np.ones(1 << 30)\nexcept MemoryError:\n    print('no room')\nfloat(a[0, 0])", "no room\n1.0\n"}, // 8 GiB
		} {
			got := s.Call(t.Context(), tools.Call{Arguments: c.code})
			if strings.Contains(got.Text, "No module named 'numpy'") {
				s.Close()
				t.Skip("this Python has no numpy; OSSIAN_TEST_PYTHON names one that has")
			}
			if got.Text != c.want {
				t.Errorf("%s: %s: %v %s", layers, c.code, got.Outcome, got.Text)
			}
		}
		s.Close()
	}
}

// BenchmarkStart is from nothing to the output of the first call.
func BenchmarkStart(b *testing.B) {
	set := limits.Defaults()
	backend := &sandboxed{sandbox.Config{Interpreter: host(b), Program: runner, Threads: threads}, func() *limits.Set { return set }}
	var err error
	if backend.config.Layers, err = sandbox.Choose(b.Context(), *backend.now(0)); err != nil {
		b.Skip(err)
	}
	server := newServer(backend, &Options{Limits: backend.limits, Log: quiet})
	for b.Loop() {
		s := server.Open(tools.Chain{})
		if got := s.Call(b.Context(), tools.Call{Arguments: "print(1)"}); got.Text != "1\n" {
			b.Fatal(got.Text)
		}
		s.Close()
	}
}

// BenchmarkCall is a call in an interpreter that is there.
func BenchmarkCall(b *testing.B) {
	set := small()
	backend := &sandboxed{sandbox.Config{Interpreter: host(b), Program: runner, Threads: threads}, func() *limits.Set { return set }}
	var err error
	if backend.config.Layers, err = sandbox.Choose(b.Context(), *backend.now(0)); err != nil {
		b.Skip(err)
	}
	s := newServer(backend, &Options{Limits: backend.limits, Log: quiet}).Open(tools.Chain{})
	defer s.Close()
	for b.Loop() {
		if got := s.Call(b.Context(), tools.Call{Arguments: "print(1)"}); got.Text != "1\n" {
			b.Fatal(got.Text)
		}
	}
}
