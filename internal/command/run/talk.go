package run

import (
	"errors"
	"fmt"
	"time"

	"ossian/internal/chat"
	"ossian/internal/ckpt"
	"ossian/internal/load"
	"ossian/internal/token"
)

// A talk is a conversation with one model.
type talk struct {
	tok    *token.BPE
	format chat.Format
	conv   chat.Conversation
}

// newTalk begins a talk; system and effort may be "".
func newTalk(checkpoint *ckpt.Model, system, effort string) (*talk, error) {
	format, err := load.ChatFormat(checkpoint, "")
	if errors.Is(err, chat.ErrNoTemplate) {
		return nil, fmt.Errorf("%w: use --raw to complete text without one", err)
	}
	if err != nil {
		return nil, err
	}
	begun := &talk{tok: checkpoint.Tokenizer, format: format, conv: chat.Conversation{Effort: effort, Now: time.Now()}}
	if system != "" {
		begun.conv.Turns = []chat.Turn{{Role: chat.System, Parts: []string{system}}}
	}
	return begun, nil
}

// ask adds what the user says and returns the ids of the prompt.
func (t *talk) ask(text string) ([]int32, error) {
	t.conv.Turns = append(t.conv.Turns, chat.Turn{Role: chat.User, Parts: []string{text}})
	p := t.tok.Prompt()
	err := t.format.Render(p, &t.conv)
	return p.IDs(), err
}

// forget takes back what the user said last.
func (t *talk) forget() { t.conv.Turns = t.conv.Turns[:len(t.conv.Turns)-1] }
