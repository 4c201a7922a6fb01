package serve

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"ossian/internal/command/commandtest"
	"ossian/internal/synth"
)

// A template of one's own takes the place of the model's, from a file or as text, also for
// a family whose own format is code.
func TestServeTemplate(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, preset := range []string{"llama-tiny", "qwen3-tiny"} {
		commandtest.WriteModel(t, preset, preset, synth.Options{})
	}
	const template = `{% for m in messages %}<{{ m.role }}>{{ m.content }}\n{% endfor %}`
	if err := os.WriteFile("own.jinja", []byte(strings.ReplaceAll(template, `\n`, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	for model, given := range map[string]string{"llama-tiny": "own.jinja", "qwen3-tiny": template} {
		url := commandtest.Serve(t, root(), "./"+model, "--chat-template", given)
		var ids, plain struct{ Tokens []int32 }
		r := commandtest.Post(t, url+"/tokenize", `{"messages":[{"role":"system","content":"a"},{"role":"user","content":"b"}],"add_special_tokens":false}`)
		if err := json.NewDecoder(r.Body).Decode(&ids); err != nil {
			t.Fatal(err)
		}
		r = commandtest.Post(t, url+"/tokenize", `{"prompt":"<system>a\n<user>b\n","add_special_tokens":false}`)
		if err := json.NewDecoder(r.Body).Decode(&plain); err != nil {
			t.Fatal(err)
		}
		var text [2]struct{ Prompt string }
		for i, tokens := range [][]int32{ids.Tokens, plain.Tokens} {
			body, _ := json.Marshal(map[string]any{"tokens": tokens})
			if err := json.NewDecoder(commandtest.Post(t, url+"/detokenize", string(body)).Body).Decode(&text[i]); err != nil {
				t.Fatal(err)
			}
		}
		if text[0] != text[1] || text[0].Prompt == "" {
			t.Errorf("%s: rendered %q, want %q", model, text[0].Prompt, text[1].Prompt)
		}
		commandtest.Post(t, url+"/v1/chat/completions", `{"messages":[{"role":"user","content":"b"}],"max_tokens":2}`)
	}
}

// What is no template is refused before a weight is read, and so is one for a model
// that has no use for it.
func TestServeTemplateErrors(t *testing.T) {
	t.Chdir(t.TempDir())
	commandtest.WriteModel(t, "llama-tiny", "mine", synth.Options{})
	for name, text := range map[string]string{"bad": "{% if %}", "empty": "", "large": strings.Repeat("x", 1<<20+1)} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct{ model, template, err string }{
		{"mine", "none.jinja", "there is no such file"},
		{"mine", "bad", `--chat-template "bad": chat template `},
		{"mine", "{{", "chat template "},
		{"mine", "empty", "the file is empty"},
		{"mine", "large", "more than 1048576 bytes"},
		{"ossian-tiny", "{{ messages }}", "harmony"},
	} {
		for _, more := range [][]string{{"--explain"}, {"--port", "0"}} {
			out, status, err := commandtest.Run(t, root(), append([]string{"serve", c.model, "--chat-template", c.template}, more...)...)
			if err == nil || !strings.Contains(err.Error(), c.err) || strings.Contains(out+status, "memory plan") {
				t.Errorf("%q: %v, want %q\n%s", c.template, err, c.err, status)
			}
			if unread := slices.Contains([]string{"none.jinja", "empty", "large"}, c.template); unread && strings.Contains(out+status, "listening on") {
				t.Errorf("%q: a port was open before the file was read:\n%s%s", c.template, out, status)
			}
		}
	}
}
