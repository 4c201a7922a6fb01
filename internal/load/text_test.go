package load

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ossian/internal/chat"
	"ossian/internal/synth"
)

// A conversation with tools is written by the template that a checkpoint names tool_use.
func TestChatFormatNamed(t *testing.T) {
	path, _ := writeModel(t, "qwen3-tiny", synth.Options{})
	config := `{"chat_template": [{"name": "default", "template": "PLAIN {{ messages[0]['content'] }}"},
		{"name": "tool_use", "template": "TOOLS {{ tools | tojson }} {{ messages[0]['content'] }}"}]}`
	if err := os.WriteFile(filepath.Join(path, "tokenizer_config.json"), []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(path, "chat_template.jinja")); err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	checkpoint, err := OpenModel(path)
	if err != nil {
		t.Fatal(err)
	}
	defer checkpoint.Close()
	format, err := ChatFormat(checkpoint, "")
	if err != nil {
		t.Fatal(err)
	}
	conversation := &chat.Conversation{Turns: []chat.Turn{{Role: chat.User, Parts: []string{"hi"}}}}
	for _, c := range []struct {
		tools []chat.Tool
		want  string
	}{{nil, "PLAIN hi"}, {[]chat.Tool{{Name: "look"}}, `TOOLS [{"type": "function"`}} {
		conversation.Tools = c.tools
		prompt := checkpoint.Tokenizer.Prompt()
		if err := format.Render(prompt, conversation); err != nil {
			t.Fatal(err)
		}
		if got := checkpoint.Tokenizer.Decode(prompt.IDs()); !strings.HasPrefix(got, c.want) {
			t.Errorf("%d tools: prompt %q, want %q", len(c.tools), got, c.want)
		}
	}
}
