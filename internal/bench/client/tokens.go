package client

import (
	"encoding/json"
	"fmt"
	"strings"

	"ossian/internal/chat"
	"ossian/internal/ckpt"
	"ossian/internal/load"
	"ossian/internal/token"
)

// Tokens are a tokenizer, and the chat template of its model where that is at hand. Several
// clients may use the same one after the other.
type Tokens struct {
	Name       string // as --tokenizer names it
	BPE        *token.BPE
	checkpoint *ckpt.Model // nil = the tokenizer alone
}

// OpenTokens finds a tokenizer by the name of a model, a folder or a file. That of gpt-oss is
// built in. Close gives back what it holds.
func OpenTokens(name string) (*Tokens, error) {
	checkpoint, err := load.OpenModel(name)
	switch {
	case err == nil:
		return &Tokens{Name: name, BPE: checkpoint.Tokenizer, checkpoint: checkpoint}, nil
	case strings.Contains(strings.ToLower(name), "gpt-oss"): // whatever else is in the name
		bpe, err := token.Harmony()
		if err != nil {
			return nil, err
		}
		return &Tokens{Name: name, BPE: bpe}, nil
	}
	return nil, fmt.Errorf("no tokenizer: %w; --tokenizer MODEL names another model that has it, --skip-tokenizer-init does without", err)
}

// TokensOf returns those of a model that is open, and stays so for as long as they are used.
func TokensOf(checkpoint *ckpt.Model) *Tokens {
	return &Tokens{BPE: checkpoint.Tokenizer, checkpoint: checkpoint}
}

// Close closes the files of the model; t may be nil.
func (t *Tokens) Close() {
	if t != nil && t.checkpoint != nil {
		t.checkpoint.Close()
	}
}

// Count returns what counts the tokens of a text; nil if t is, for there is no tokenizer then.
func (t *Tokens) Count() func(text string) int {
	if t == nil {
		return nil
	}
	return func(text string) int { return len(t.BPE.Encode(nil, text)) }
}

// bpe is the tokenizer; nil if there is none.
func (t *Tokens) bpe() *token.BPE {
	if t == nil {
		return nil
	}
	return t.BPE
}

// A Renderer puts a prompt in the chat template of the model.
type Renderer func(prompt string) (string, error)

// Renderer returns that of the model, with the variables of a JSON object for its template
// ("" = none); nil if there is no template.
func (t *Tokens) Renderer(vars string) Renderer {
	if t == nil || t.checkpoint == nil {
		return nil
	}
	format, err := load.ChatFormat(t.checkpoint, "")
	if err != nil {
		return nil
	}
	return func(prompt string) (string, error) {
		ids := t.BPE.Prompt()
		talk := &chat.Conversation{Turns: []chat.Turn{{Role: chat.User, Parts: []string{prompt}}}, Vars: json.RawMessage(vars)}
		if err := format.Render(ids, talk); err != nil {
			return "", err
		}
		return t.BPE.Decode(ids.IDs()), nil
	}
}
