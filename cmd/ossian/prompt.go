package main

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"ossian/internal/jinja"
	"ossian/internal/token"
)

// A turn is one message of a conversation.
type turn struct {
	Role, Text string
	Own        bool // written by the model: visible tokens such as <tool_call> in it are tokens again
}

// A conversation turns messages into ids through the checkpoint's template.
type conversation struct {
	tok     *token.BPE
	tmpl    *jinja.Template
	special map[string]string // bos_token, eos_token, … as the template spells them
	began   time.Time         // the template's clock stands still, so that earlier turns render the same
	effort  string            // reasoning_effort, "none" = no thinking, "" = the template's default
	turns   []turn
}

func newConversation(tok *token.BPE, template string, special map[string]string, effort string) (*conversation, error) {
	if template == "" {
		return nil, fmt.Errorf("the checkpoint has no chat template: use --raw to complete text without one")
	}
	t, err := jinja.Compile(template)
	if err != nil {
		return nil, fmt.Errorf("chat template: %w", err)
	}
	return &conversation{tok: tok, tmpl: t, special: special, began: time.Now(), effort: effort}, nil
}

// add appends a message of a person, unless it is empty.
func (c *conversation) add(role, text string) {
	if text != "" {
		c.turns = append(c.turns, turn{Role: role, Text: text})
	}
}

// completion returns the ids of a text to go on with: control names in it become
// ids, and it begins as the tokenizer wants.
func completion(tok *token.BPE, text string) []int32 {
	p := tok.Prompt()
	begin(p, tok, text)
	p.Markup(text)
	return p.IDs()
}

// begin adds the id with which the tokenizer begins every text, unless text does so itself.
func begin(p *token.Prompt, tok *token.BPE, text string) {
	if bos, add := tok.BOS(); add && !strings.HasPrefix(text, tok.Text(bos)) {
		p.Control(bos)
	}
}

// ids renders the conversation with the prompt for an answer.
func (c *conversation) ids() ([]int32, error) {
	vars := jinja.NewDict()
	var messages []jinja.Value
	for _, m := range c.turns {
		d := jinja.NewDict()
		d.Set("role", m.Role)
		d.Set("content", c.fence(m.Text, m.Own))
		messages = append(messages, d)
	}
	vars.Set("messages", jinja.NewList(messages...))
	vars.Set("add_generation_prompt", true)
	for name, text := range c.special {
		vars.Set(name, text)
	}
	switch c.effort {
	case "":
	case "none": // the switch of models that either think or do not
		vars.Set("enable_thinking", false)
	default:
		vars.Set("reasoning_effort", c.effort)
	}
	text, err := c.tmpl.Render(vars, func() time.Time { return c.began })
	if err != nil {
		return nil, fmt.Errorf("chat template: %w", err)
	}
	p := c.tok.Prompt()
	begin(p, c.tok, text)
	unfence(p, text)
	return p.IDs(), nil
}

// mark is a noncharacter: no text means it, and templates pass it on.
const mark = "\uFDD0"

// fence returns text with a mark inside every name of an added token, so that a
// template can carry it without it becoming one (see unfence). In the model's own
// text only names of control tokens get one: the tokens themselves are not part of
// it, so what spells them is text.
func (c *conversation) fence(text string, own bool) string {
	text = strings.ReplaceAll(text, mark, "\uFFFD")
	for _, a := range c.tok.Added() {
		if own && !a.Control {
			continue
		}
		_, first := utf8.DecodeRuneInString(a.Text)
		text = strings.ReplaceAll(text, a.Text, a.Text[:first]+mark+a.Text[first:])
	}
	return text
}

// unfence adds a rendered template to p. What stands before a mark is text;
// the rest is the template's, whose control names become ids.
func unfence(p *token.Prompt, rendered string) {
	pieces := strings.Split(rendered, mark)
	last := len(pieces) - 1
	for _, s := range pieces[:last] {
		_, n := utf8.DecodeLastRuneInString(s)
		p.Markup(s[:len(s)-n])
		p.Text(s[len(s)-n:])
	}
	p.Markup(pieces[last])
}
