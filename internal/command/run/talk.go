package run

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"ossian/internal/chat"
	"ossian/internal/ckpt"
	"ossian/internal/load"
	"ossian/internal/token"
)

// A talk is a conversation with one model. Its system message, if it has one, is its first
// turn; then user and assistant take turns.
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
	begun.setSystem(system)
	return begun, nil
}

// ask adds what the user says and returns the ids of the prompt. What cannot be rendered is
// not added.
func (t *talk) ask(text string) ([]int32, error) {
	t.conv.Turns = append(t.conv.Turns, chat.Turn{Role: chat.User, Parts: []string{text}})
	p := t.tok.Prompt()
	err := t.format.Render(p, &t.conv)
	if err != nil {
		t.forget()
	}
	return p.IDs(), err
}

// held returns what holds the next answer to the format, as a server's is; nil = nothing.
func (t *talk) held() (chat.Constraint, error) {
	fresh, err := t.format.Constraint(&t.conv, &chat.Rules{}, nil) // without forms there is nothing to compile
	if err != nil || fresh == nil {
		return nil, err
	}
	return fresh(), nil
}

// forget takes back what the user said last.
func (t *talk) forget() { t.conv.Turns = t.conv.Turns[:len(t.conv.Turns)-1] }

// said returns the turns of user and assistant.
func (t *talk) said() []chat.Turn {
	if len(t.conv.Turns) > 0 && t.conv.Turns[0].Role == chat.System {
		return t.conv.Turns[1:]
	}
	return t.conv.Turns
}

// setSystem replaces the system message; "" = there is none.
func (t *talk) setSystem(text string) { t.restart(text, t.said()) }

// restart makes the talk one of a system message, "" = none, and turns.
func (t *talk) restart(system string, turns []chat.Turn) {
	if system != "" {
		turns = slices.Concat([]chat.Turn{{Role: chat.System, Parts: []string{system}}}, turns)
	}
	t.conv.Turns = slices.Clip(turns)
}
