package run

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"ossian/internal/command"
	"ossian/internal/command/commandtest"
	"ossian/internal/synth"
)

func TestRun(t *testing.T) {
	t.Chdir(t.TempDir())
	commandtest.WriteModel(t, "qwen3-tiny", "tiny", synth.Options{})
	commandtest.WriteModel(t, "qwen3-tiny", "refuses", synth.Options{})
	refusal := "{{ raise_exception('no such talk') }}"
	if err := os.WriteFile(filepath.Join("refuses", "chat_template.jinja"), []byte(refusal), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, model string
		args        []string
		status, err string // parts of
	}{
		{name: "answer", model: "tiny", args: []string{"hello", "--max-tokens", "3", "--ignore-eos"}, status: "output 3 tokens"},
		{name: "quiet", model: "tiny", args: []string{"hello", "--max-tokens", "3", "-q"}},
		{name: "raw", model: "tiny", args: []string{"hello", "--raw", "--max-tokens", "1", "--ignore-eos"}, status: "prompt 3 tokens"},
		{name: "raw with a system message", model: "tiny", args: []string{"hello", "--raw", "--system", "x"}, err: "leave out --system"},
		{name: "empty prompt", model: "tiny", args: []string{""}, err: "the prompt is empty"},
		{name: "too long", model: "tiny", args: []string{"hello", "--max-model-len", "4"}, err: "the context is full: the prompt has"},
		{name: "the template refuses before weights are read", model: "refuses", args: []string{"hello", "--max-model-len", "1000000"}, err: "no such talk"},
		{name: "temperature below 0", model: "tiny", args: []string{"hello", "--temperature", "-3"}, err: "temperature is -3"},
		{name: "temperature NaN", model: "tiny", args: []string{"hello", "--temperature", "NaN"}, err: "temperature is NaN"},
		{name: "top-k below 0", model: "tiny", args: []string{"hello", "--top-k", "-9"}, err: "top_k is -9"},
		{name: "no such model", model: "none", args: []string{"hello"}, err: `model "none": no such file or directory`},
	} {
		_, status, err := commandtest.Run(t, root(), append([]string{"run", c.model, "--threads", "1"}, c.args...)...)
		switch {
		case c.err == "" && err != nil, c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)):
			t.Errorf("%s: got error %v, expected %q", c.name, err, c.err)
		case !strings.Contains(status, c.status) || (c.status == "" && status != ""):
			t.Errorf("%s: status %q, expected %q", c.name, status, c.status)
		}
	}
}

// Ctrl-C while a pipe brings nothing ends the command.
func TestPromptFromEndsWithContext(t *testing.T) {
	in, _ := io.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := promptFrom(ctx, in, nil, 100); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestPromptFrom(t *testing.T) {
	for _, c := range []struct {
		name  string
		words []string
		want  string
	}{
		{"one argument", []string{"hello there"}, "hello there"},
		{"unquoted words", []string{"what", "is", "2+2?"}, "what is 2+2?"},
		{"standard input", nil, "piped\n"},
		{"standard input by name", []string{"-"}, "piped\n"},
		{"instruction and input", []string{"Review", "this:", "-"}, "Review this:\n\npiped\n"},
		{"a dash inside", []string{"a", "-", "b"}, "a - b"},
	} {
		got, chat, err := promptFrom(t.Context(), strings.NewReader("piped\n"), c.words, 100)
		if err != nil || chat || got != c.want {
			t.Errorf("%s: got %q, chat %v, %v; want %q", c.name, got, chat, err, c.want)
		}
	}
}

func TestPromptFromEndless(t *testing.T) {
	in, out := io.Pipe()
	go func() {
		for {
			if _, err := out.Write(make([]byte, 1<<10)); err != nil {
				return
			}
		}
	}()
	defer in.Close()
	if _, _, err := promptFrom(t.Context(), in, nil, 100); err == nil || !strings.Contains(err.Error(), "more than 12800 bytes") {
		t.Errorf("got %v", err)
	}
}

func TestNamesModel(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.Mkdir("here", 0o755); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		want bool
		args []string
	}{
		{false, nil},
		{false, []string{"12+30"}},
		{false, []string{"12 + 30"}},
		{false, []string{"12", "+", "30"}},
		{false, []string{"12-30"}},
		{false, []string{"6/2"}},
		{false, []string{"hello"}},
		{false, []string{"What is 6/2?"}},
		{false, []string{""}},
		{false, []string{"-"}},
		{false, []string{"Summarize:", "-"}},
		{false, []string{strings.Repeat("long ", 1<<12)}},
		{true, []string{"here"}},
		{true, []string{"ossian-tiny"}},
		{true, []string{"openai/gpt-oss-20b"}},
		{true, []string{"gpt-oss-20b"}},
		{true, []string{"llama3"}},
		{true, []string{"qwen3:0.6b"}},
		{false, []string{"phi"}},
		{true, []string{"./missing"}},
		{true, []string{"model.gguf"}},
		{true, []string{"org/name@main"}},
		{true, []string{`c:\models\x`}},
		{true, []string{"missing", "hello"}},
	} {
		if got := namesModel(c.args); got != c.want {
			t.Errorf("%.60q: got %v, want %v", c.args, got, c.want)
		}
	}
}

// The model that comes with the program answers without a name, a file or a network.
func TestRunTiny(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("HF_HUB_CACHE", t.TempDir())
	for _, c := range []struct{ prompt, want string }{
		{"12+30", "42\n"},
		{"4821+3977", "8798\n"},
		{"What is 500 - 73?", "427\n"},
		{"Which is larger, 17 or 71?", "71\n"},
		{"Hello!", "Hello! How can I help you?\n"},
	} {
		out, status, err := commandtest.Run(t, root(), "run", c.prompt, "--threads", "1")
		if err != nil || out != c.want || strings.Contains(status, "cut short") {
			t.Errorf("%q: got %q, %v, expected %q; %s", c.prompt, out, err, c.want, status)
		}
	}
}

func root() *cobra.Command { return command.Root(Command()) }
