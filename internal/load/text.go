package load

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"ossian/internal/chat"
	"ossian/internal/ckpt"
	"ossian/internal/token"
)

// maxTemplate is the size of the largest file that is read as a chat template.
const maxTemplate = 1 << 20

// ChatFormat is how conversations with a model are written: as template, the value of
// --chat-template, says, else as the checkpoint does. The error may be chat.ErrNoTemplate.
func ChatFormat(checkpoint *ckpt.Model, template string) (chat.Format, error) {
	facts := chat.Facts{Family: checkpoint.Spec.Family, Tokenizer: checkpoint.Tokenizer, Template: checkpoint.Template, Named: checkpoint.Named, Special: checkpoint.Special, Stops: checkpoint.Stops}
	// Without a template a model still completes text: the caller decides whether that is an error.
	if template == "" {
		format, err := chat.New(facts)
		if err != nil && !errors.Is(err, chat.ErrNoTemplate) {
			err = fmt.Errorf("%s: %w", templateSource(checkpoint, err), err)
		}
		return format, err
	}
	text, err := templateText(template)
	if err != nil {
		return nil, templateError(template, err)
	}
	facts.Template, facts.Chosen = text, true
	format, err := chat.New(facts)
	if errors.Is(err, chat.ErrFixed) {
		err = fmt.Errorf("%w; leave the flag out", err)
	}
	if err != nil {
		return nil, templateError(template, err)
	}
	return format, nil
}

// CheckTemplate reports what is wrong with the value of --chat-template whatever the model is: a file
// that cannot be read.
func CheckTemplate(template string) error {
	if template == "" {
		return nil
	}
	if _, err := templateText(template); err != nil {
		return templateError(template, err)
	}
	return nil
}

func templateError(template string, err error) error {
	return fmt.Errorf("--chat-template %.100q: %w", template, err)
}

// templateSource names the file, or the key of a GGUF file, whose template is wrong by err.
func templateSource(checkpoint *ckpt.Model, err error) string {
	const name = "tool_use"
	named := filepath.Join(checkpoint.Path, "additional_chat_templates", name+".jinja")
	switch about := strings.Contains(err.Error(), "chat template "+name+":"); {
	case checkpoint.Format == "GGUF":
		return fmt.Sprintf("%s: key %s", checkpoint.Path, checkpoint.From)
	case about && Exists(named):
		return named
	}
	return filepath.Join(checkpoint.Path, checkpoint.From)
}

// templateText reads a file, or takes what can be no name of one for the text, in which
// \n and the like stand for the characters that a command line cannot hold, as in vLLM.
func templateText(name string) (string, error) {
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
	text, err := io.ReadAll(io.LimitReader(file, maxTemplate+1)) // one more shows that there is more
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

// Completion returns the ids of a text to go on with: control names in it become
// ids, and it begins as the tokenizer wants.
func Completion(tok *token.BPE, text string) []int32 {
	prompt := tok.Prompt()
	prompt.Begin(text)
	prompt.Markup(text)
	return prompt.IDs()
}
