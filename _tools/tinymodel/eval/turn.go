package main

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"

	"ossian/internal/token"
)

// A turn is what the model said: its last message, and whether all of it is
// well formed.
type turn struct {
	channel, to, body, end string
	proper                 bool   // every message is, and the last ends with what stops the turn
	text                   string // everything, control tokens by name
}

// parse is deliberately strict, unlike a server's parser: a turn is any number of
// analysis messages closed by <|end|>, then a final message closed by <|return|> or
// a call closed by <|call|>, and nothing after it.
func parse(tok *token.BPE, ids []int32) turn {
	var t turn
	t.text = render(tok, ids)
	rest := t.text
	for {
		head, after, ok := strings.Cut(rest, "<|message|>")
		if !ok || !t.header(head) {
			return t
		}
		i := strings.Index(after, "<|")
		if i < 0 {
			return t
		}
		t.body, after = after[:i], after[i:]
		t.end, rest, _ = strings.Cut(after, "|>")
		t.end += "|>"
		if t.channel != "analysis" {
			stop := "<|return|>"
			if t.to != "" {
				stop = "<|call|>"
			}
			t.proper = t.end == stop && rest == ""
			return t
		}
		if rest, ok = strings.CutPrefix(rest, "<|start|>assistant"); !ok || t.end != "<|end|>" {
			return t
		}
	}
}

// header takes "<|channel|>CHANNEL[ to=RECIPIENT][ <|constrain|>json]".
func (t *turn) header(s string) bool {
	s, ok := strings.CutPrefix(s, "<|channel|>")
	s, _ = strings.CutSuffix(s, " <|constrain|>json")
	var addressed bool
	t.channel, t.to, addressed = strings.Cut(s, " to=")
	switch t.channel {
	case "analysis", "final":
		return ok && !addressed
	case "commentary":
		return ok && strings.HasPrefix(t.to, "functions.")
	}
	return false
}

// render spells ordinary tokens so that none looks like a control token.
func render(tok *token.BPE, ids []int32) string {
	var b strings.Builder
	d := tok.Detok()
	for _, id := range ids {
		if tok.IsControl(id) {
			b.WriteString(strings.ReplaceAll(d.Flush(), "<|", "<\u200b|"))
			b.WriteString(tok.Text(id))
			continue
		}
		b.WriteString(strings.ReplaceAll(d.Push(id), "<|", "<\u200b|"))
	}
	b.WriteString(d.Flush())
	return b.String()
}

func (t *turn) right(it *item) bool {
	if !t.proper || t.channel != it.Channel || t.to != it.To || t.end != it.End {
		return false
	}
	if !it.JSON {
		return t.body == it.Want
	}
	got, ok := decode(t.body)
	want, _ := decode(it.Want)
	return ok && reflect.DeepEqual(got, want)
}

// decode reads one JSON value; numbers stay as they are spelled.
func decode(s string) (v any, ok bool) {
	d := json.NewDecoder(bytes.NewBufferString(s))
	d.UseNumber()
	if d.Decode(&v) != nil {
		return nil, false
	}
	return v, !d.More()
}
