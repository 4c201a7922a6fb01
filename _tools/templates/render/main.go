// Command render renders chat templates with internal/jinja, in the format of
// the reference scripts beside it.
//
//	go run ./_tools/templates/render TEMPLATES CONVERSATIONS.json OUT.jsonl
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"ossian/internal/jinja"
)

type line struct {
	Template     string  `json:"template"`
	Conversation string  `json:"conversation"`
	Text         *string `json:"text,omitempty"`
	Error        string  `json:"error,omitempty"`
}

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: render TEMPLATES CONVERSATIONS.json OUT.jsonl")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, "render:", err)
		os.Exit(1)
	}
}

func run(templates, conversations, out string) error {
	data, err := os.ReadFile(conversations)
	if err != nil {
		return err
	}
	v, err := jinja.FromJSON(data)
	if err != nil {
		return err
	}
	all, ok := v.(*jinja.Dict)
	if !ok {
		return fmt.Errorf("%s: expected an object of conversations", conversations)
	}
	files, err := filepath.Glob(filepath.Join(templates, "*.jinja"))
	if err != nil {
		return err
	}
	w, err := os.Create(out)
	if err != nil {
		return err
	}
	defer w.Close()
	enc := json.NewEncoder(w)
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		for i := range all.Len() {
			name, conv := all.Entry(i)
			l := line{Template: strings.TrimSuffix(filepath.Base(file), ".jinja"), Conversation: name.(string)}
			if text, err := render(string(source), conv.(*jinja.Dict)); err != nil {
				l.Error = err.Error()
			} else {
				l.Text = &text
			}
			if err := enc.Encode(l); err != nil {
				return err
			}
		}
	}
	return nil
}

func render(source string, conv *jinja.Dict) (string, error) {
	t, err := jinja.Compile(source)
	if err != nil {
		return "", err
	}
	vars := jinja.NewDict()
	vars.Set("tools", nil)
	vars.Set("documents", nil)
	vars.Set("bos_token", "<|bos|>")
	vars.Set("eos_token", "<|eos|>")
	for i := range conv.Len() {
		key, v := conv.Entry(i)
		vars.Set(key.(string), v)
	}
	return t.Render(vars, func() time.Time { return time.Date(2026, 11, 21, 12, 34, 56, 0, time.UTC) })
}
