package load

import (
	"errors"
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

// A template that is broken is told with the file, or the key, that it is of.
func TestChatFormatBroken(t *testing.T) {
	const broken = "{% if %}"
	write := func(name, text string) func(string) error {
		return func(dir string) error {
			if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
				return err
			}
			return os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644)
		}
	}
	for _, c := range []struct {
		name string
		edit func(dir string) error
		want string
	}{
		{"tokenizer_config.json", write("tokenizer_config.json", `{"chat_template": "`+broken+`"}`), "tokenizer_config.json: chat template 1:7"},
		{"named", write("tokenizer_config.json", `{"chat_template": [{"name": "default", "template": "x"}, {"name": "tool_use", "template": "`+broken+`"}]}`),
			"tokenizer_config.json: chat template tool_use"},
		{"chat_template.jinja", write("chat_template.jinja", broken), "chat_template.jinja: chat template 1:7"},
		{"a file of a name", write("additional_chat_templates/tool_use.jinja", broken), filepath.Join("additional_chat_templates", "tool_use.jinja") + ": chat template tool_use"},
		{"chat_template.json", func(dir string) error {
			return errors.Join(write("tokenizer_config.json", "{}")(dir), write("chat_template.json", `{"chat_template": "`+broken+`"}`)(dir))
		}, "chat_template.json: chat template 1:7"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path, _ := writeModel(t, "qwen3-tiny", synth.Options{})
			if err := c.edit(path); err != nil {
				t.Fatal(err)
			}
			checkpoint, err := OpenModel(path)
			if err != nil {
				t.Fatal(err)
			}
			defer checkpoint.Close()
			if _, err := ChatFormat(checkpoint, ""); err == nil || !strings.Contains(err.Error(), filepath.Join(path, c.want)) {
				t.Errorf("%v: want %q", err, c.want)
			}
		})
	}
}
