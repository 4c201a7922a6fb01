package dataset

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"ossian/internal/bench/jsonfile"
)

// Conversations come in two forms: turns of ShareGPT's file have "from" and "value", those of
// the API, and of data sets made for it, "role" and "content". They stand under
// "conversations" or "messages", in a JSON array or as JSON lines. The published tools read
// "from" and "value" under "conversations" in an array; how that is read is theirs, the rest
// gives what the same conversation would give in ShareGPT's form.

// maxLead is how many turns are looked at for the first two that a conversation begins with: in
// the API's form a few of the system's may stand before them.
const maxLead = 8

// A conversation is an entry of a file. Turns are read where they are needed.
type conversation struct {
	Conversations []json.RawMessage `json:"conversations"`
	Conversation  []json.RawMessage `json:"conversation"` // under the rules of LMDeploy and SGLang
	Messages      []json.RawMessage `json:"messages"`
}

// said are the turns, under the name that all rules know.
func (c *conversation) said() []json.RawMessage {
	if c.Conversations == nil {
		return c.Messages
	}
	return c.Conversations
}

// A turn is what one side says.
type turn struct {
	fields map[string]json.RawMessage
	number int // of the conversation, from 1
}

// readTurn reads a turn.
func readTurn(raw json.RawMessage, number int) (turn, error) {
	one := turn{number: number}
	if err := json.Unmarshal(raw, &one.fields); err != nil || one.fields == nil {
		return one, fmt.Errorf("turn %d is %s, want an object with \"from\" and \"value\", or \"role\" and \"content\"", number, jsonfile.Kind(raw))
	}
	return one, nil
}

// ofAPI reports whether the turn has the API's form.
func (t turn) ofAPI() bool { return t.fields["value"] == nil && t.fields["content"] != nil }

// speaker is who speaks, in ShareGPT's words: human, gpt or another.
func (t turn) speaker() string {
	name := ""
	if !t.ofAPI() {
		_ = json.Unmarshal(t.fields["from"], &name) // another kind of value is nobody
		return name
	}
	_ = json.Unmarshal(t.fields["role"], &name)
	switch name {
	case "user":
		return "human"
	case "assistant":
		return "gpt"
	}
	return name
}

// leads reports whether the turn stands before a conversation and is none of its two sides. In
// ShareGPT's form the tools take what comes first, whoever says it.
func (t turn) leads() bool {
	name := t.speaker()
	return t.ofAPI() && (name == "system" || name == "developer")
}

// text is what the turn says.
func (t turn) text() (string, error) {
	field := "value"
	if t.ofAPI() {
		field = "content"
	}
	raw, ok := t.fields[field]
	switch {
	case !ok:
		return "", fmt.Errorf("turn %d has neither \"value\" nor \"content\", found %s", t.number, jsonfile.Names(t.fields))
	case field == "content" && jsonfile.IsNull(raw): // an answer that is a call of a tool
		return "", nil
	case field == "content" && jsonfile.Kind(raw) == "an array":
		return t.parts(raw)
	}
	text := new(string)
	if err := json.Unmarshal(raw, &text); err != nil || text == nil {
		return "", fmt.Errorf("field %q of turn %d is %s, want a string", field, t.number, jsonfile.Kind(raw))
	}
	return *text, nil
}

// parts is the text of a content that comes in parts, as the API has it.
func (t turn) parts(raw json.RawMessage) (string, error) {
	var list []struct {
		Type string  `json:"type"`
		Text *string `json:"text"`
	}
	if err := json.Unmarshal(raw, &list); err != nil {
		return "", fmt.Errorf("field \"content\" of turn %d: %w", t.number, jsonfile.Explain(err))
	}
	var texts []string
	for i, part := range list {
		if part.Text == nil {
			return "", fmt.Errorf("part %d of field \"content\" of turn %d has type %.40q and no \"text\": only text is sent", i+1, t.number, part.Type)
		}
		texts = append(texts, *part.Text)
	}
	return strings.Join(texts, "\n"), nil
}

// eachConversation reads an array of them, or one object behind another, one at a time. Errors
// say in which entry.
func eachConversation(src io.Reader, do func(*conversation) error) error {
	bounds := newBounded(src)
	in := unmarked(bounds)
	first, err := firstByte(in)
	if err != nil {
		return jsonfile.Explain(err)
	}
	dec := json.NewDecoder(in)
	switch first {
	case '[':
		if _, err := dec.Token(); err != nil {
			return jsonfile.Explain(err)
		}
	case '{': // JSON lines
	default:
		return fmt.Errorf("it begins with %q, want a JSON array of conversations as in ShareGPT_V3_unfiltered_cleaned_split.json, or an object on each line", first)
	}
	entries := 0 // the bound is for each: the file as a whole may be large
	for ; dec.More(); entries++ {
		bounds.unit = maxUnit
		var entry conversation
		if err = jsonfile.Explain(dec.Decode(&entry)); err == nil {
			err = do(&entry)
		}
		if err != nil {
			return fmt.Errorf("entry %d: %w", entries+1, err)
		}
	}
	if _, err := dec.Token(); err != nil && !(err == io.EOF && first == '{') {
		return fmt.Errorf("after entry %d: %w", entries, jsonfile.Explain(err))
	}
	return nil
}

// firstByte looks at the first byte that is not space, and leaves it there.
func firstByte(in io.ByteScanner) (byte, error) {
	for {
		first, err := in.ReadByte()
		if err != nil {
			return 0, err
		}
		if !strings.ContainsRune(" \t\r\n", rune(first)) {
			return first, in.UnreadByte()
		}
	}
}
