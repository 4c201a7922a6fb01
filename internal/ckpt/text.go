package ckpt

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
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
	data, err := m.small(tokenizerConfigName, 16<<20) // lists every added token
	if err == nil && data != nil {
		err = m.tokenizerConfig(filepath.Join(m.Path, tokenizerConfigName), data)
	}
	if err != nil {
		return err
	}
	if err := m.templateFiles(); err != nil {
		return err
	}
	if err := m.legacyTemplate(); err != nil {
		return err
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
	given := &m.Generation
	advice.decode("do_sample", "true or false", &given.Sample)
	advice.decode("top_k", "an integer", &given.TopK)
	for _, each := range []struct {
		name  string
		most  float64 // of sample.Params
		value **float64
	}{{"temperature", 2, &given.Temperature}, {"top_p", 1, &given.TopP}, {"min_p", 1, &given.MinP}, {"repetition_penalty", 1000, &given.RepetitionPenalty}} {
		advice.decode(each.name, "a number", each.value)
		if number := *each.value; number != nil && (*number < 0 || *number > each.most) {
			advice.fail(each.name, fmt.Sprintf("a number from 0 to %g; without the key there is no advice", each.most), *number)
		}
	}
	return *advice.err
}

// ids takes begin and end ids; those of a later file win or are added.
func (m *Model) ids(config object) {
	if bos := config.ids("bos_token_id"); len(bos) > 0 {
		m.BOS = bos[0]
	}
	m.Stops = append(m.Stops, config.ids("eos_token_id")...)
}

// tokenizerConfig takes the templates and the special tokens.
func (m *Model) tokenizerConfig(path string, data []byte) error {
	config, err := parseObject(path, data)
	if err != nil {
		return err
	}
	for _, name := range []string{"bos_token", "eos_token", "pad_token", "unk_token"} {
		if text := config.token(name); text != "" {
			m.Special[name] = text
		}
	}
	m.eos = m.Special["eos_token"]
	m.templates(config, tokenizerConfigName)
	return *config.err
}

// token returns a special token, which is spelled as a string or as an object with its content.
func (o object) token(name string) string {
	_, raw := o.get(name)
	if raw == nil {
		return ""
	}
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	var added struct{ Content *string }
	if json.Unmarshal(raw, &added) != nil || added.Content == nil {
		o.fail(name, "a string, or an object with its content", raw2text(raw))
		return ""
	}
	return *added.Content
}

// templates takes the chat template of a file: a text, or a list of named ones of which one is
// the default.
func (m *Model) templates(config object, from string) {
	const key = "chat_template"
	_, raw := config.get(key)
	if raw == nil {
		return
	}
	m.From = from
	if json.Unmarshal(raw, &m.Template) == nil {
		return
	}
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) != nil {
		config.fail(key, "a text, or a list of templates with name and template", raw2text(raw))
		return
	}
	if len(list) > maxNamed {
		config.unsupported(key, fmt.Sprintf("at most %d templates", maxNamed), len(list))
		return
	}
	found := false
	var names []string
	for i, raw := range list {
		var one struct{ Name, Template *string }
		if json.Unmarshal(raw, &one) != nil || one.Name == nil || one.Template == nil {
			config.fail(fmt.Sprintf("%s[%d]", key, i), "an object with the texts name and template", raw2text(raw))
			return
		}
		if *one.Name == "default" {
			m.Template, found = *one.Template, true
			continue
		}
		names = append(names, *one.Name)
		m.keepTemplate(*one.Name, *one.Template)
	}
	if !found {
		config.unsupported(key, "a template named default", strings.Join(names, ", "))
	}
}

// keepTemplate keeps a named template, as far as there may be more.
func (m *Model) keepTemplate(name, template string) {
	if len(m.Named) < maxNamed && len(name) <= maxNamed {
		if m.Named == nil {
			m.Named = map[string]string{}
		}
		m.Named[name] = strings.ToValidUTF8(template, "\ufffd")
	}
}

// templateFiles reads the templates that lie in files of their own. They take the place of all
// that tokenizer_config.json has, as in the reference client.
func (m *Model) templateFiles() error {
	const file = "chat_template.jinja"
	template, err := m.small(file, maxTemplate)
	// A pointer or a page would be sent to the model as the beginning of each prompt.
	path := filepath.Join(m.Path, file)
	if err = cmp.Or(err, pointer(path, template), page(path, template)); err != nil {
		return err
	}
	if template != nil {
		if m.Template != "" && m.Template != string(template) {
			m.Overruled = append(m.Overruled, m.From)
		}
		m.Template, m.From, m.Named = strings.ToValidUTF8(string(template), "\ufffd"), file, nil
	}
	if m.fsys != nil {
		return nil
	}
	entries, err := os.ReadDir(filepath.Join(m.Path, namedFolder))
	if err != nil { // hardly any model has it
		return nil
	}
	for _, entry := range entries[:min(len(entries), maxNamed)] {
		name, ok := strings.CutSuffix(entry.Name(), ".jinja")
		if !ok || name == "" {
			continue
		}
		path := filepath.Join(namedFolder, entry.Name())
		text, err := m.small(path, maxTemplate)
		path = filepath.Join(m.Path, path)
		if err = cmp.Or(err, pointer(path, text), page(path, text)); err != nil {
			return err
		}
		m.keepTemplate(name, string(text))
	}
	return nil
}

// legacyTemplate reads chat_template.json, which processors of images wrote beside the tokenizer
// until 2025. The tokenizer of the reference client never reads it, and converters to GGUF only
// without another template: so it counts where there is no other.
func (m *Model) legacyTemplate() error {
	const name = "chat_template.json"
	data, err := m.small(name, maxConfig)
	if err != nil || data == nil {
		return err
	}
	config, err := parseObject(filepath.Join(m.Path, name), data)
	switch {
	case m.Template != "": // what is wrong with this one does not matter
		if err != nil || config.string("", "chat_template") != m.Template {
			m.Overruled = append(m.Overruled, name)
		}
		return nil
	case err != nil:
		return err
	case !config.has("chat_template"):
		config.missing([]string{"chat_template"})
	}
	m.templates(config, name)
	return *config.err
}

const (
	tokenizerConfigName = "tokenizer_config.json"

	namedFolder = "additional_chat_templates" // holds NAME.jinja
	maxNamed    = 64                          // named templates, and bytes of a name
)

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
