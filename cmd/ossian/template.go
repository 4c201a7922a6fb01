package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"ossian/internal/chat"
	"ossian/internal/ckpt"
	"ossian/internal/config"
)

// maxTemplate is the size of the largest file that is read as a chat template.
const maxTemplate = 1 << 20

// chatFormat is how conversations with m are written: as --chat-template says, else as
// the checkpoint does. The error may be chat.ErrNoTemplate.
func chatFormat(cfg *config.Config, m *ckpt.Model) (chat.Format, error) {
	f := chat.Facts{Family: m.Spec.Family, Tokenizer: m.Tokenizer, Template: m.Template, Special: m.Special, Stops: m.Stops}
	if cfg.Template == "" {
		return chat.New(f)
	}
	text, err := readTemplate(cfg.Template)
	if err != nil {
		return nil, fmt.Errorf("--chat-template %.100q: %w", cfg.Template, err)
	}
	f.Template, f.Chosen = text, true
	format, err := chat.New(f)
	if errors.Is(err, chat.ErrFixed) {
		err = fmt.Errorf("%w; leave the flag out", err)
	}
	if err != nil {
		return nil, fmt.Errorf("--chat-template %.100q: %w", cfg.Template, err)
	}
	return format, nil
}

// readTemplate reads a file, or takes what can be no name of one for the text, in which
// \n and the like stand for the characters that a command line cannot hold, as in vLLM.
func readTemplate(name string) (string, error) {
	file, err := os.Open(name)
	if err != nil {
		if strings.ContainsAny(name, "{}\n") {
			return strings.NewReplacer(`\\`, `\`, `\n`, "\n", `\t`, "\t", `\r`, "\r", `\"`, `"`, `\'`, `'`).Replace(name), nil
		}
		if errors.Is(err, fs.ErrNotExist) {
			return "", errors.New("there is no such file, and a template would have braces")
		}
		return "", err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxTemplate+1))
	switch {
	case err != nil:
		return "", err
	case len(text) > maxTemplate:
		return "", fmt.Errorf("more than %d bytes", maxTemplate)
	case len(text) == 0:
		return "", errors.New("the file is empty")
	}
	return string(text), nil
}
