package run

import (
	"bytes"
	"context"
	"errors"
	"os"
	"slices"
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

// A chat goes on after an answer and after a line that does not fit, and ends with
// an empty line, Ctrl-C or SIGTERM at the prompt.
func TestChat(t *testing.T) {
	t.Chdir(t.TempDir())
	commandtest.WriteModel(t, "qwen3-tiny", "tiny", synth.Options{})
	line := func(s string) func(*os.File) {
		return func(f *os.File) { f.WriteString(s + "\n") }
	}
	signal := func(s syscall.Signal) func(*os.File) { return func(*os.File) { syscall.Kill(os.Getpid(), s) } }
	for _, c := range []struct {
		name         string
		steps        []func(master *os.File)
		err          error
		text, status string // parts of
	}{
		{name: "two answers", steps: []func(*os.File){line("a"), line("b"), line("")}, status: "kept)"},
		{name: "too long", steps: []func(*os.File){line(strings.Repeat("long ", 100)), line("b"), line("")}, text: "the context is full: the prompt has", status: "output 2 tokens"},
		{name: "Ctrl-C", steps: []func(*os.File){signal(syscall.SIGINT)}},
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
