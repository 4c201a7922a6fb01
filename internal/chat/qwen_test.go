package chat

import (
	"os"
	"strings"
	"testing"

	"ossian/internal/token"
)

func readFile(t testing.TB, name string) string {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// TestQwenIsRecognised: the code is used where it writes what the template writes,
// and nowhere else.
func TestQwenIsRecognised(t *testing.T) {
	t.Parallel()
	tok, err := token.FromJSON([]byte(readFile(t, "../token/testdata/qwen3-cut.json")))
	if err != nil {
		t.Fatal(err)
	}
	hybrid := readFile(t, "../jinja/testdata/templates/qwen3.jinja")
	instruct := readFile(t, "../jinja/testdata/templates/qwen3-instruct-2507.jinja")
	before, after, ok := strings.Cut(hybrid, "    {{- '<|im_start|>assistant\\n' }}\n    {%- if enable_thinking")
	_, after, end := strings.Cut(after, "{%- endif %}")
	if !ok || !end {
		t.Fatal("the template changed")
	}
	const none = qwenThinking + 1
	for _, tt := range []struct {
		name, template string
		want           qwenStyle
	}{
		{"April 2025", hybrid, qwenHybrid},
		{"Instruct-2507", instruct, qwenInstruct},
		{"Thinking-2507", before + "    {{- '<|im_start|>assistant\\n<think>\\n' }}\n" + after, qwenThinking},
		{"other words about tools", strings.Replace(hybrid, "You may call", "You can call", 1), none},
		{"other default", strings.Replace(hybrid, "enable_thinking is false", "enable_thinking is true", 1), none},
		{"other turns", strings.ReplaceAll(hybrid, "assistant\\n", "assistant "), none},
		{"ChatML", "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}", none},
	} {
		f, err := New(Facts{Family: "qwen3", Tokenizer: tok, Template: tt.template})
		if err != nil {
			t.Fatal(err)
		}
		got := none
		if q, ok := f.(*qwen); ok {
			got = q.style
		}
		if got != tt.want {
			t.Errorf("%s: style %d, want %d", tt.name, got, tt.want)
		}
	}
}
