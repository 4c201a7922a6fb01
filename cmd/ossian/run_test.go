package main

import (
	"context"
	"errors"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"ossian/internal/ckpt"
	"ossian/internal/sample"
	"ossian/internal/synth"
)

func TestRun(t *testing.T) {
	t.Chdir(t.TempDir())
	writeSynthetic(t, "qwen3-tiny", "tiny", synth.Options{})
	writeSynthetic(t, "qwen3-tiny", "refuses", synth.Options{})
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
		_, status, err := runRoot(t, append([]string{"run", c.model, "--threads", "1"}, c.args...)...)
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

// What the model writes must not steer the terminal it is shown on.
func TestPrintable(t *testing.T) {
	const text = "a\x1b]52;c;aGk=\x07b\u009b31mc\r\n\td\x7f é😀"
	if got, want := strings.Map(printable, text), "a]52;c;aGk=b31mc\n\td é😀"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A token that cannot be read matters to pull only.
func TestResolveModelWithoutToken(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("HF_TOKEN", "")
	t.Setenv("HUGGING_FACE_HUB_TOKEN", "")
	t.Setenv("HF_TOKEN_PATH", dir) // a directory
	if path, err := resolveModel(dir); err != nil || path != dir {
		t.Errorf("got %q, %v", path, err)
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

// A top_p of 0 asks for the likeliest id; to the sampler 0 means that none is left out.
func TestRunTopPZero(t *testing.T) {
	zero := 0.0
	given, advised := runOptions{topP: 0, temperature: 1, topK: -1, minP: -1, repetition: -1}, runOptions{topP: -1, temperature: 1, topK: -1, minP: -1, repetition: -1}
	for _, p := range []sample.Params{given.params(ckpt.Generation{}), advised.params(ckpt.Generation{TopP: &zero})} {
		if p.TopP != math.SmallestNonzeroFloat32 {
			t.Errorf("top_p is %v", p.TopP)
		}
	}
	if p := advised.params(ckpt.Generation{}); p.TopP != 0 {
		t.Errorf("without advice top_p is %v", p.TopP)
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
		out, status, err := runRoot(t, "run", c.prompt, "--threads", "1")
		if err != nil || out != c.want || strings.Contains(status, "cut short") {
			t.Errorf("%q: got %q, %v, expected %q; %s", c.prompt, out, err, c.want, status)
		}
	}
}

// BenchmarkStart is the time from the start of the process to the end of an answer
// of one token by the built-in model.
func BenchmarkStart(b *testing.B) {
	bin := filepath.Join(b.TempDir(), "ossian")
	if out, err := exec.Command("go", "build", "-o", bin, ".").CombinedOutput(); err != nil {
		b.Fatalf("%v: %s", err, out)
	}
	for b.Loop() {
		if out, err := exec.Command(bin, "run", "-q", "--max-tokens", "1", "12+30").CombinedOutput(); err != nil {
			b.Fatalf("%v: %s", err, out)
		}
	}
}
