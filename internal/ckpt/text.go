package ckpt

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

const maxTemplate = 1 << 20 // bytes

// stopNames are the tokens that end an answer in a family whatever the
// configuration says: GGUF files of gpt-oss often name one of three (formats.md 6).
var stopNames = map[string][]string{
	"gpt-oss":  {"<|return|>", "<|call|>", "<|endoftext|>"},
	"qwen3":    {"<|im_end|>", "<|endoftext|>"},
	"qwen3moe": {"<|im_end|>", "<|endoftext|>"},
	"llama":    {"<|eot_id|>", "<|eom_id|>", "<|end_of_text|>"},
}

// readText reads what says how to talk to a model in a directory: the template,
// the special tokens, the stop ids and the advice on sampling.
func (m *Model) readText(configFile string, config []byte) error {
	parsed, err := parseObject(configFile, config)
	if err != nil {
		return err
	}
	if m.ids(parsed); *parsed.err != nil {
		return *parsed.err
	}
	const name = "tokenizer_config.json"
	data, err := m.small(name, 16<<20) // lists every added token
	if err == nil && data != nil {
		err = m.tokenizerConfig(filepath.Join(m.Path, name), data)
	}
	if err != nil {
		return err
	}
	if template, err := m.small("chat_template.jinja", maxTemplate); err != nil {
		return err
	} else if template != nil {
		m.Template = strings.ToValidUTF8(string(template), "\ufffd")
	}
	data, err = m.small("generation_config.json", maxConfig)
	if err != nil || data == nil {
		return err
	}
	return m.generation(filepath.Join(m.Path, "generation_config.json"), data)
}

// generation reads generation_config.json: advice on sampling, and further stop ids.
func (m *Model) generation(path string, data []byte) error {
	advice, err := parseObject(path, data)
	if err != nil {
		return err
	}
	m.ids(advice)
	const number = "a number"
	advice.decode("do_sample", "true or false", &m.Generation.Sample)
	advice.decode("temperature", number, &m.Generation.Temperature)
	advice.decode("top_p", number, &m.Generation.TopP)
	advice.decode("min_p", number, &m.Generation.MinP)
	advice.decode("repetition_penalty", number, &m.Generation.RepetitionPenalty)
	advice.decode("top_k", "an integer", &m.Generation.TopK)
	return *advice.err
}

// ids takes begin and end ids; those of a later file win or are added.
func (m *Model) ids(config object) {
	if bos := config.ids("bos_token_id"); len(bos) > 0 {
		m.BOS = bos[0]
	}
	m.Stops = append(m.Stops, config.ids("eos_token_id")...)
}

// tokenizerConfig takes the template and the special tokens.
func (m *Model) tokenizerConfig(path string, data []byte) error {
	var config struct {
		Template json.RawMessage `json:"chat_template"`
		BOS      specialToken    `json:"bos_token"`
		EOS      specialToken    `json:"eos_token"`
		Pad      specialToken    `json:"pad_token"`
		Unk      specialToken    `json:"unk_token"`
	}
	if err := json.Unmarshal(data, &config); err != nil {
		return damaged(path, -1, "content", "a tokenizer configuration", err)
	}
	for name, text := range map[string]specialToken{"bos_token": config.BOS, "eos_token": config.EOS, "pad_token": config.Pad, "unk_token": config.Unk} {
		if text != "" {
			m.Special[name] = string(text)
		}
	}
	m.eos = string(config.EOS)
	if len(config.Template) == 0 || string(config.Template) == "null" {
		return nil
	}
	// The template is a text, or a list of named ones of which one is the default.
	if json.Unmarshal(config.Template, &m.Template) == nil {
		return nil
	}
	var named []struct{ Name, Template string }
	if err := json.Unmarshal(config.Template, &named); err != nil {
		return damaged(path, -1, "chat_template", "a string or a list of named templates", err)
	}
	for _, template := range named {
		if template.Name == "default" {
			m.Template = template.Template
			return nil
		}
	}
	return unsupported(path, "chat_template", "a template named default", fmt.Sprintf("%d others", len(named)))
}

// A specialToken is spelled as a string or as an object with its content.
type specialToken string

// UnmarshalJSON takes either spelling; null leaves the token empty.
func (t *specialToken) UnmarshalJSON(data []byte) error {
	var text *string
	if json.Unmarshal(data, &text) == nil {
		if text != nil {
			*t = specialToken(*text)
		}
		return nil
	}
	var added struct{ Content string }
	err := json.Unmarshal(data, &added)
	*t = specialToken(added.Content)
	return err
}

// finish derives what both containers leave implicit and checks that tokenizer and
// weights belong together.
func (m *Model) finish() error {
	vocab := m.Spec.Vocab
	if ids := m.Tokenizer.Vocab(); ids > vocab {
		return &Error{Kind: Inconsistent, File: m.Path, Offset: -1, Problem: "tokenizer", Want: fmt.Sprintf("at most %d ids, the rows of the embedding", vocab), Got: fmt.Sprint(ids)}
	}
	names := stopNames[m.Spec.Family]
	if m.eos != "" {
		names = append([]string{m.eos}, names...)
	}
	for _, name := range names {
		if id, ok := m.Tokenizer.ID(name); ok {
			m.Stops = append(m.Stops, id)
		}
	}
	m.Stops = slices.DeleteFunc(m.Stops, func(id int32) bool { return id < 0 || int(id) >= vocab })
	slices.Sort(m.Stops)
	m.Stops = slices.Compact(m.Stops)
	if m.BOS < 0 || int(m.BOS) >= vocab {
		m.BOS = -1
	}
	// The embedding often has more rows than there are tokens: it is rounded up for training.
	for id := range int32(vocab) {
		text := m.Tokenizer.Text(id)
		reserved := m.Spec.Family == "gpt-oss" && (strings.HasPrefix(text, "<|reserved_") || text == "<|endofprompt|>") && m.Tokenizer.IsControl(id)
		if text == "" || reserved { // formats.md 9 and 10
			m.Unused = append(m.Unused, id)
		}
	}
	return nil
}
