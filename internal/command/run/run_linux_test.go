package run

import (
	"bytes"
	"context"
	"errors"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"ossian/internal/command/commandtest"
	"ossian/internal/load"
	"ossian/internal/sample"
	"ossian/internal/synth"
)

// A screen keeps what is written and tells each prompt for a line.
type screen struct {
	mu      sync.Mutex
	text    bytes.Buffer
	prompts chan struct{}
}

func (s *screen) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if string(b) == "> " {
		s.prompts <- struct{}{}
	}
	return s.text.Write(b)
}

// Templates leave the reasoning of earlier answers out. However long it was, the
// conversation before it need not be read again, also where layers have windows.
func TestChatKeepsLongAnswers(t *testing.T) {
	t.Chdir(t.TempDir())
	commandtest.WriteModel(t, "gpt-oss-tiny", "tiny", synth.Options{})
	m, err := load.OpenModel("tiny")
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	o := load.Options{Threads: 1, MaxLen: 2048, MaxTokens: 64, KV: "auto", Keep: keptAnswer}
	r, err := o.Runner(t.Context(), m, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	s := newSequence(r)
	prompt := slices.Repeat([]int32{7}, 300)
	g := generation{Prompt: prompt, Max: 600, Emit: func(int32, []sample.Logprob) bool { return false }}
	if _, err := s.generate(t.Context(), g); err != nil {
		t.Fatal(err)
	}
	g.Prompt, g.Max = append(prompt, 8, 9), 1
	tm, err := s.generate(t.Context(), g)
	if err != nil || tm.Cached < 300 {
		t.Errorf("%d of 300 tokens kept (%v)", tm.Cached, err)
	}
}

// A chat goes on after an answer, after a line that does not fit or is empty, and after
// Ctrl-C at the prompt. It ends with Ctrl-D, /bye or SIGTERM.
func TestChat(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	commandtest.WriteModel(t, "qwen3-tiny", "tiny", synth.Options{})
	line := func(s string) func(*os.File) {
		return func(f *os.File) { f.WriteString(s + "\n") }
	}
	end := func(f *os.File) { f.WriteString("\x04") }
	signal := func(s syscall.Signal) func(*os.File) { return func(*os.File) { syscall.Kill(os.Getpid(), s) } }
	for _, c := range []struct {
		name         string
		steps        []func(master *os.File)
		err          error
		text, status string // parts of
	}{
		{name: "two answers", steps: []func(*os.File){line("a"), line(""), line("b"), line("/bye")}, status: "kept)"},
		{name: "too long", steps: []func(*os.File){line(strings.Repeat("long ", 100)), line("b"), end}, text: "the context is full: the prompt has", status: "output 2 tokens"},
		{name: "Ctrl-C", steps: []func(*os.File){signal(syscall.SIGINT), line("a"), end}, text: "Ctrl-D or /bye ends the chat", status: "output 2 tokens"},
		{name: "terminated", steps: []func(*os.File){line("a"), signal(syscall.SIGTERM)}, err: context.Canceled},
	} {
		t.Run(c.name, func(t *testing.T) {
			master, slave := commandtest.PTY(t)
			out := &screen{prompts: make(chan struct{}, 1)}
			var status bytes.Buffer
			cmd := root()
			cmd.SetIn(slave)
			cmd.SetOut(out)
			cmd.SetErr(&status)
			cmd.SetArgs([]string{"run", "tiny", "--threads", "1", "--max-model-len", "128", "--max-tokens", "2", "--ignore-eos"})
			ended := make(chan error, 1)
			go func() { ended <- cmd.ExecuteContext(t.Context()) }()
			for _, step := range c.steps {
				select {
				case <-out.prompts:
					step(master)
				case err := <-ended:
					t.Fatalf("ended early: %v\n%s", err, out.text.String())
				case <-time.After(2 * time.Minute):
					t.Fatal("no prompt for a line")
				}
			}
			select {
			case err := <-ended:
				if !errors.Is(err, c.err) {
					t.Errorf("error %v, expected %v", err, c.err)
				}
			case <-time.After(2 * time.Minute):
				t.Fatal("does not end")
			}
			if !strings.Contains(out.text.String(), c.text) || !strings.Contains(status.String(), c.status) {
				t.Errorf("wrote %q and %q, expected %q and %q", out.text.String(), status.String(), c.text, c.status)
			}
		})
	}
}

// A visit is a chat in this process with a person at a terminal.
type visit struct {
	t      *testing.T
	master *os.File
	mu     sync.Mutex // guards seen
	seen   bytes.Buffer
	read   int // bytes of seen that were looked at
	ended  chan error
}

// visiting begins a chat with the built-in model and waits for the first prompt.
func visiting(t *testing.T, args ...string) *visit {
	t.Helper()
	master, slave := commandtest.PTY(t)
	v := &visit{t: t, master: master, ended: make(chan error, 1)}
	go func() {
		chunk := make([]byte, 4096)
		for {
			n, err := master.Read(chunk)
			if err != nil {
				return
			}
			v.mu.Lock()
			v.seen.Write(chunk[:n])
			v.mu.Unlock()
		}
	}()
	cmd := root()
	cmd.SetIn(slave)
	cmd.SetOut(slave)
	cmd.SetErr(slave)
	cmd.SetArgs(append([]string{"run", "--threads", "1"}, args...))
	go func() { v.ended <- cmd.ExecuteContext(t.Context()) }()
	v.sees("Ctrl-D ends the chat.")
	return v
}

// sees waits until a text comes behind what was seen before.
func (v *visit) sees(text string) {
	v.t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		v.mu.Lock()
		at := strings.Index(v.seen.String()[v.read:], text)
		if at >= 0 {
			v.read += at + len(text)
		}
		v.mu.Unlock()
		if at >= 0 {
			return
		}
	}
	select {
	case err := <-v.ended:
		v.t.Errorf("ended: %v", err)
	default:
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.t.Fatalf("no %q in %q", text, v.seen.String()[v.read:])
}

// prompted waits for an empty line to type in: before, the terminal is not raw.
func (v *visit) prompted() {
	v.t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		v.mu.Lock()
		ready := bytes.HasSuffix(v.seen.Bytes(), []byte(">\r\x1b[2C")) || bytes.HasSuffix(v.seen.Bytes(), []byte("> "))
		v.mu.Unlock()
		if ready {
			return
		}
	}
	v.t.Fatalf("no prompt in %q", v.seen.String())
}

// types types keys at the prompt and waits for what comes.
func (v *visit) types(keys, want string) {
	v.t.Helper()
	v.prompted()
	v.goesOn(keys, want)
}

// goesOn types more keys and waits for what comes.
func (v *visit) goesOn(keys, want string) {
	v.t.Helper()
	v.mu.Lock()
	v.read = v.seen.Len()
	v.mu.Unlock()
	if _, err := v.master.WriteString(keys); err != nil {
		v.t.Fatal(err)
	}
	v.sees(want)
}

// leaves types keys at the prompt and waits for the end of the chat.
func (v *visit) leaves(keys string) {
	v.t.Helper()
	v.prompted()
	if _, err := v.master.WriteString(keys); err != nil {
		v.t.Fatal(err)
	}
	select {
	case err := <-v.ended:
		if err != nil {
			v.t.Error(err)
		}
	case <-time.After(time.Minute):
		v.t.Fatal("does not end")
	}
}

// What people do in a chat, key by key.
func TestChatOnTerminal(t *testing.T) {
	t.Setenv("TERM", "xterm-256color")
	t.Setenv("NO_COLOR", "")
	state := t.TempDir()
	t.Setenv("XDG_STATE_HOME", state)
	file := t.TempDir() + "/chat.json"
	v := visiting(t)
	v.types("12+30\r", "\x1b[0m42\r\n")
	v.sees("load ")
	v.types("12+3\x01\x05\x7f1\r", "13\r\n")
	v.types("/set system Be kind.\r", "system: Be kind.")
	v.types("/show system\r", "Be kind.")
	v.types("/set temperature 0.5\r", "temperature: 0.5")
	v.types("/set parameter temperature -3\r", "temperature is -3")
	v.types("/show parameters\r", "temperature         0.5")
	v.types("/set temprature 1\r", "did you mean temperature?")
	v.types("/set effort hihg\r", "did you mean high?")
	v.types("/hlep\r", "did you mean /help?")
	v.types("/?\r", "Ctrl-D                               end the chat")
	v.types("/show info\r", "context")
	v.types("/show template\r", "harmony")
	v.types("/save "+file+"\r", "4 messages saved")
	v.types("/clear\r", "forgotten")
	v.types("/show messages\r", "Nothing was said so far.")
	v.types("/set system \"\"\r", "system: default")
	v.types("/load "+file+"\r", "4 messages loaded")
	v.types("/show messages\r", "assistant: 42\r\nuser: 12+1\r\nassistant: 13")
	v.types("/show system\r", "Be kind.")
	v.types("/load /dev/null\r", "/load /dev/null: no file, but a directory or a device")
	v.types("\x03", "Ctrl-D or /bye ends the chat.")
	v.types("\x1b[A\x1b[A\r", "Be kind.") // the last but one: /show system
	v.types("/set temperature default\r", "temperature: default")
	v.types("\"\"\"20\r+22\"\"\"\r", "42\r\n")
	v.types("\x1b[200~20\n+21\x1b[201~\r", "41\r\n")
	v.types("/set verbose off\r", "verbose: off")
	v.types("/set nohistory\r", "history: off")
	v.types("8+1\r", "9\r\n")
	v.leaves("\x04")
	kept, err := os.ReadFile(state + "/ossian/chat-history")
	if err != nil || !strings.HasPrefix(string(kept), "\"12+30\"\n") || strings.Contains(string(kept), "8+1") {
		t.Errorf("history %q, %v", kept, err)
	}
	// A later chat knows what was typed, unless it is not to.
	v = visiting(t)
	v.types("\x1b[A\x1b[A\x1b[A", "> 20\r\n  +21")
	v.goesOn("\x03", "\x1b[J>")
	v.leaves("/bye\r")
	for _, none := range [][]string{{"--no-history"}, nil} {
		if none == nil {
			t.Setenv(noHistoryEnv, "1")
		}
		v = visiting(t, none...)
		v.types("\x1b[A7+1\r", "8\r\n")
		v.leaves("/exit\r")
	}
	if again, err := os.ReadFile(state + "/ossian/chat-history"); err != nil || strings.Contains(string(again), "7+1") {
		t.Errorf("history %q, %v", again, err)
	}
}

// Ctrl-C stops an answer; the chat goes on.
func TestChatStopsAnswer(t *testing.T) {
	t.Setenv("TERM", "xterm-256color")
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	t.Chdir(t.TempDir())
	commandtest.WriteModel(t, "qwen3-tiny", "tiny", synth.Options{})
	v := visiting(t, "tiny", "--ignore-eos")
	// On a busy machine an answer may be over before the signal is there.
	least := 1 << 20
	for try := 0; try < 10 && least > 500; try++ { // the context has room for thousands
		v.types("/clear\r", "forgotten")
		v.types("a\r", "\x1b[?2004l") // the answer comes
		if err := syscall.Kill(os.Getpid(), syscall.SIGINT); err != nil {
			t.Fatal(err)
		}
		v.sees("output ")
		v.prompted()
		v.mu.Lock()
		found := regexp.MustCompile(`^\d+`).Find(v.seen.Bytes()[v.read:])
		v.mu.Unlock()
		count, err := strconv.Atoi(string(found))
		if err != nil {
			t.Fatal(err)
		}
		least = min(least, count)
	}
	if least > 500 {
		t.Errorf("the shortest answer went on for %d tokens", least)
	}
	v.types("/set max-tokens 2\r", "max-tokens: 2")
	v.types("b\r", "output 2 tokens")
	v.leaves("\x04")
}

// Where there is nothing to draw with, and where colours are not wanted, there are no
// escape sequences, and words tell reasoning from the answer.
func TestChatPlain(t *testing.T) {
	for _, c := range []struct{ term, noColor, answer string }{
		{"dumb", "", "[reasoning]\r\n0012+0030: ones 2+0+0=02"},
		{"xterm", "1", "[reasoning]\r\n0012+0030: ones 2+0+0=02"},
	} {
		t.Setenv("TERM", c.term)
		t.Setenv("NO_COLOR", c.noColor)
		t.Setenv("XDG_STATE_HOME", t.TempDir())
		v := visiting(t)
		keys := "12+30\r"
		if c.term == "dumb" {
			keys = "12+30\n"
		}
		v.types(keys, c.answer)
		v.sees("[answer]\r\n42\r\n")
		v.leaves("\x04")
		v.mu.Lock()
		if seen := v.seen.String(); (c.term == "dumb" && strings.Contains(seen, "\x1b")) || strings.Contains(seen, dim) {
			t.Errorf("TERM=%s: %q", c.term, seen)
		}
		v.mu.Unlock()
	}
}
