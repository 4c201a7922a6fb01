package run

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"ossian/internal/chat"
	"ossian/internal/nearest"
)

const (
	savedVersion = 1
	maxSaved     = 64 << 20 // bytes of a file that is loaded
)

// A savedChat is a chat in a file: messages as the OpenAI API has them, and the settings
// that were in force. Settings that are missing are the defaults.
type savedChat struct {
	Version  int            `json:"ossian_chat"` // 1; what tells such a file from others
	Model    string         `json:"model"`       // with which it was; another one may go on
	Settings savedSettings  `json:"settings"`
	Messages []savedMessage `json:"messages"` // user and assistant by turns
}

// savedSettings are the settings of a chat by the names of /set; what belongs to a person
// and not to a chat is not among them.
type savedSettings struct {
	System            string   `json:"system,omitempty"`
	Effort            string   `json:"effort,omitempty"`
	Temperature       *float32 `json:"temperature,omitempty"` // nil, here and below: the checkpoint's advice
	TopP              *float32 `json:"top_p,omitempty"`
	TopK              *int     `json:"top_k,omitempty"`
	MinP              *float32 `json:"min_p,omitempty"`
	RepetitionPenalty *float32 `json:"repetition_penalty,omitempty"`
	FrequencyPenalty  float32  `json:"frequency_penalty,omitempty"`
	PresencePenalty   float32  `json:"presence_penalty,omitempty"`
	Seed              *int64   `json:"seed,omitempty"`
	MaxTokens         int      `json:"max_tokens,omitempty"` // 0 = no limit
}

// A savedMessage is one message.
type savedMessage struct {
	Role      string `json:"role"` // user or assistant
	Content   string `json:"content"`
	Reasoning string `json:"reasoning,omitempty"` // of the assistant
}

// roleNames are the names of those who speak in a chat.
var roleNames = map[chat.Role]string{chat.User: "user", chat.Assistant: "assistant"}

// given returns a pointer to a value unless the checkpoint's advice stands in its place.
func given[number int | int64 | float32](value number) *number {
	if value == advised {
		return nil
	}
	return &value
}

// orAdvised is the inverse of given.
func orAdvised[number int | int64 | float32](value *number) number {
	if value == nil {
		return advised
	}
	return *value
}

// save writes the chat to a file that is not there, or that holds an earlier state of this chat:
// nothing that was said is lost.
func (a *answerer) save(name string) error { return a.saveAs("save", name, false) }

// overwrite writes the chat to a file that may hold another chat.
func (a *answerer) overwrite(name string) error { return a.saveAs("overwrite", name, true) }

// saveAs is the command of that name. A file that is no chat is never overwritten, another chat
// only if over says so.
func (a *answerer) saveAs(command, given string, over bool) error {
	if given == "" {
		return fmt.Errorf("/%s FILE: the name of a file is missing", command)
	}
	name, err := fileName(given)
	if err != nil {
		return err
	}
	saved := a.saved()
	there, err := readSaved(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return fmt.Errorf("/%s %s: there is something else of that name (%w): choose another one", command, name, err)
	case !over && !there.beginning(saved):
		return fmt.Errorf("/%s %s: the file exists, with another chat of %d messages: choose another name, or /overwrite %s", command, name, len(there.Messages), given)
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(saved); err != nil {
		return fmt.Errorf("/%s %s: %w", command, name, err)
	}
	if err := replaceFile(name, text.Bytes()); err != nil {
		folder := filepath.Dir(name)
		if _, missing := os.Stat(folder); missing != nil { // the error is of a file that nobody named
			return fmt.Errorf("/%s %s: the directory %s: %w", command, name, folder, beyondPath(missing))
		}
		return fmt.Errorf("/%s %s: %w", command, name, beyondPath(err))
	}
	a.say("%d messages saved in %s", len(saved.Messages), name)
	return nil
}

// saved is the chat as a file has it.
func (a *answerer) saved() *savedChat {
	sampling := &a.o.sampling
	saved := &savedChat{Version: savedVersion, Model: a.checkpoint.Spec.Name, Messages: []savedMessage{}, Settings: savedSettings{
		System: a.o.system, Effort: a.o.effort, Temperature: given(sampling.Temperature), TopP: given(sampling.TopP), TopK: given(sampling.TopK),
		MinP: given(sampling.MinP), RepetitionPenalty: given(sampling.Repetition), FrequencyPenalty: sampling.Frequency,
		PresencePenalty: sampling.Presence, MaxTokens: a.o.max}}
	if sampling.Seed >= 0 {
		saved.Settings.Seed = &sampling.Seed
	}
	said := a.talk.said()
	for i := range said {
		saved.Messages = append(saved.Messages, savedMessage{roleNames[said[i].Role], strings.Join(said[i].Parts, "\n"), said[i].Reasoning})
	}
	return saved
}

// beginning reports whether all messages of s are the first ones of another chat.
func (s *savedChat) beginning(of *savedChat) bool {
	return len(s.Messages) <= len(of.Messages) && slices.Equal(s.Messages, of.Messages[:len(s.Messages)])
}

// load goes on with the chat in a file, whose settings count from now on.
func (a *answerer) load(name string) error {
	if name == "" {
		return errors.New("/load FILE: the name of a file is missing")
	}
	name, err := fileName(name)
	if err != nil {
		return err
	}
	saved, err := readSaved(name)
	if err != nil {
		return fmt.Errorf("/load %s: %w", name, err)
	}
	turns := make([]chat.Turn, len(saved.Messages))
	for i, message := range saved.Messages {
		turns[i] = chat.Turn{Role: chat.User, Parts: []string{message.Content}, Reasoning: message.Reasoning}
		if message.Role == roleNames[chat.Assistant] {
			turns[i].Role = chat.Assistant
		}
	}
	set := &saved.Settings
	// Settings come before the conversation: where one is refused, change takes all back and the
	// chat goes on as it was.
	err = a.change(func() error {
		a.o.system, a.o.effort, a.o.max = set.System, set.Effort, set.MaxTokens
		// What the file leaves out is the checkpoint's advice again, not what this chat had set.
		sampling := &a.o.sampling
		sampling.Temperature, sampling.TopP, sampling.TopK = orAdvised(set.Temperature), orAdvised(set.TopP), orAdvised(set.TopK)
		sampling.MinP, sampling.Repetition, sampling.Seed = orAdvised(set.MinP), orAdvised(set.RepetitionPenalty), orAdvised(set.Seed)
		sampling.Frequency, sampling.Presence = set.FrequencyPenalty, set.PresencePenalty
		return nil
	})
	if err != nil {
		return fmt.Errorf("/load %s: settings: %w", name, err)
	}
	a.talk.restart(a.o.system, turns)
	a.say("%d messages loaded", len(turns))
	if own := a.checkpoint.Spec.Name; saved.Model != own {
		a.say("They were said with %s; this is %s.", saved.Model, own)
	}
	return nil
}

// fileName reads ~ at the beginning of a name as the user's home, as shells do.
func fileName(name string) (string, error) {
	rest, ok := strings.CutPrefix(name, "~")
	if !ok || (rest != "" && !os.IsPathSeparator(rest[0])) {
		return name, nil
	}
	home, err := os.UserHomeDir()
	return home + rest, err
}

// readSaved reads a file of a chat. What is not one is refused with what is wrong; an error
// of the file itself is returned as it is.
func readSaved(name string) (*savedChat, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, beyondPath(err)
	}
	defer file.Close()
	if info, err := file.Stat(); err == nil && !info.Mode().IsRegular() {
		return nil, errors.New("no file, but a directory or a device")
	}
	text, err := io.ReadAll(io.LimitReader(file, maxSaved+1)) // one more shows that there is more
	if err != nil {
		return nil, beyondPath(err)
	}
	if len(text) > maxSaved {
		return nil, fmt.Errorf("no chat: more than %d bytes", maxSaved)
	}
	return parseSaved(text)
}

// beyondPath returns what the operating system says of a file whose name is said already.
func beyondPath(err error) error {
	if of, ok := errors.AsType[*fs.PathError](err); ok {
		return of.Err
	}
	if of, ok := errors.AsType[*os.LinkError](err); ok { // of renaming
		return of.Err
	}
	return err
}

// parseSaved reads the text of a chat.
func parseSaved(text []byte) (*savedChat, error) {
	if !utf8.Valid(text) {
		return nil, errors.New("no chat: the text is not UTF-8")
	}
	// What kind of file it is, before what is wrong with its fields.
	var head map[string]json.RawMessage
	if err := json.Unmarshal(text, &head); err != nil {
		return nil, fmt.Errorf("no chat: a JSON object expected (%s)", jsonProblem(text, err))
	}
	if head["ossian_chat"] == nil {
		return nil, errors.New("no chat: the field ossian_chat, which /save writes, is missing")
	}
	if got := string(head["ossian_chat"]); got != "1" {
		return nil, fmt.Errorf("a chat of version %.20s: this program reads version %d", got, savedVersion)
	}
	saved := &savedChat{}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(saved); err != nil {
		return nil, errors.New(jsonProblem(text, err))
	}
	return saved, saved.check()
}

// check finds what no chat has.
func (s *savedChat) check() error {
	if !slices.Contains(efforts, s.Settings.Effort) {
		return fmt.Errorf("settings.effort is %.40q: low, medium, high or none expected%s", s.Settings.Effort, nearest.Hint(s.Settings.Effort, efforts[1:]))
	}
	if s.Settings.MaxTokens < 0 {
		return fmt.Errorf("settings.max_tokens is %d: at least 1 expected, or 0 for no limit", s.Settings.MaxTokens)
	}
	for i, message := range s.Messages {
		want := []string{"user", "assistant"}[i%2]
		switch {
		case message.Role != want:
			return fmt.Errorf("messages[%d].role is %.40q: %q expected, as user and assistant take turns; a system message is in settings.system", i, message.Role, want)
		case message.Content == "":
			return fmt.Errorf("messages[%d].content is empty or missing", i)
		case want == "user" && message.Reasoning != "":
			return fmt.Errorf("messages[%d].reasoning: only the assistant reasons", i)
		}
	}
	if len(s.Messages)%2 == 1 {
		return fmt.Errorf("messages[%d] is the user's and has no answer", len(s.Messages)-1)
	}
	return nil
}

// jsonProblem says what is wrong with JSON in words of the format, and in which line.
func jsonProblem(text []byte, err error) string {
	line := func(offset int64) int { return 1 + bytes.Count(text[:min(int(offset), len(text))], []byte("\n")) }
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		return fmt.Sprintf("line %d: %s", line(syntax.Offset), syntax)
	}
	if kind, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		if kind.Field == "" {
			return fmt.Sprintf("line %d: found %s", line(kind.Offset), kind.Value)
		}
		return fmt.Sprintf("line %d: field %s: found %s, %s expected", line(kind.Offset), kind.Field, kind.Value, kindNames[kind.Type.Kind().String()])
	}
	return strings.TrimPrefix(err.Error(), "json: ") // an unknown field, by name
}

// kindNames are the types of JSON by those of Go.
var kindNames = map[string]string{"string": "a string", "int": "a whole number", "int64": "a whole number", "float32": "a number", "slice": "a list", "struct": "an object", "map": "an object"}

// replaceFile puts a text, which is private, in the place of a file, whole or not at all.
func replaceFile(name string, text []byte) error {
	file, err := os.CreateTemp(filepath.Dir(name), ".ossian-chat-*") // 0600
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	if err = errors.Join(err, file.Sync(), file.Close()); err == nil {
		err = os.Rename(file.Name(), name)
	}
	if err != nil {
		_ = os.Remove(file.Name())
	}
	return err
}
