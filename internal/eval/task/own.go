package task

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

const maxTaskFile = 1 << 20 // bytes

// written is a task as its file has it.
type written struct {
	Name    string   `yaml:"name"`
	Kind    Kind     `yaml:"kind"`
	Prompt  string   `yaml:"prompt"`
	Answer  string   `yaml:"answer"`
	Options []string `yaml:"options"`
	Pattern string   `yaml:"pattern"`
}

// Load reads a task of one's own from a YAML file:
//
//	name: capitals
//	kind: exact                # choice, integer, exact or regex
//	prompt: "Capital of {country}? The name only."
//	answer: capital            # the field with the right answer
//	options: [capital, other]  # choice: all fields with options; {A} to {D} in the prompt
//	pattern: 'It is (\w+)'     # regex: its first group is the answer
//
// Braces that are text are doubled.
func Load(path string) (*Task, error) {
	data, err := readSmall(path, maxTaskFile)
	if err != nil {
		return nil, err
	}
	t, err := readTask(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return t, nil
}

// readSmall reads a regular file of at most so many bytes.
func readSmall(path string, most int64) ([]byte, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, err
	case info.IsDir():
		return nil, fmt.Errorf("%s is a directory; name the file in it", path)
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is no regular file; write it to one", path)
	case info.Size() > most:
		return nil, fmt.Errorf("%s has %d bytes; at most %d are read", path, info.Size(), most)
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return io.ReadAll(io.LimitReader(file, most))
}

// readTask reads the content of a task file.
func readTask(data []byte) (*Task, error) {
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	decoder.KnownFields(true)
	var written written
	if err := decoder.Decode(&written); err != nil {
		if errors.Is(err, io.EOF) {
			err = errors.New("an empty file; expected name, kind, prompt and answer")
		}
		return nil, errors.New(strings.Join(strings.Fields(err.Error()), " ")) // one line
	}
	task := &Task{Name: written.Name, Kind: written.Kind, template: written.Prompt, answer: written.Answer, low: 1} // any integer
	if err := written.check(task); err != nil {
		return nil, err
	}
	task.columns = fieldsOf(written.Prompt)
	if task.Kind == Choice {
		task.columns = slices.DeleteFunc(task.columns, func(name string) bool { return isLetter(name, len(written.Options)) })
		task.options = append([]string{written.Answer}, slices.DeleteFunc(slices.Clone(written.Options), func(name string) bool { return name == written.Answer })...)
	}
	for _, name := range append(slices.Clone(task.options), written.Answer) {
		if !slices.Contains(task.columns, name) {
			task.columns = append(task.columns, name)
		}
	}
	return task, nil
}

// check says what is wrong with a task, and compiles its pattern.
func (w *written) check(task *Task) (err error) {
	if !validName.MatchString(w.Name) {
		return fmt.Errorf("name: %.60q; expected up to 40 letters, digits, - and _", w.Name)
	}
	if _, err := Find(w.Name); err == nil {
		return fmt.Errorf("name: %s is the name of a built-in task; choose another", w.Name)
	}
	if !slices.Contains(kinds, w.Kind) {
		return fmt.Errorf("kind: %.40q; expected choice, integer, exact or regex", w.Kind)
	}
	if err := checkTemplate(w.Prompt); err != nil {
		return fmt.Errorf("prompt: %w", err)
	}
	if w.Answer == "" {
		return errors.New("answer: missing; expected the name of the field with the right answer")
	}
	// Each kind has fields that the others have no use for: there they are probably a mistake.
	switch {
	case w.Kind == Choice && (len(w.Options) < 2 || len(w.Options) > 4 || !slices.Contains(w.Options, w.Answer)):
		return fmt.Errorf("options: %v; expected two to four fields, of which the answer, %s, is one", w.Options, w.Answer)
	case w.Kind != Choice && len(w.Options) > 0:
		return fmt.Errorf("options: a task of kind %s has none", w.Kind)
	case w.Kind != Regex && w.Pattern != "":
		return fmt.Errorf("pattern: a task of kind %s has none", w.Kind)
	case w.Kind == Regex && w.Pattern == "":
		return errors.New("pattern: missing; expected a regular expression whose first group is the answer")
	}
	if w.Kind == Choice {
		for i := range w.Options {
			if name := string(rune('A' + i)); !slices.Contains(fieldsOf(w.Prompt), name) {
				return fmt.Errorf("prompt: no {%s}; each of the %d options is asked by its letter", name, len(w.Options))
			}
		}
	}
	if w.Kind == Regex {
		if task.pattern, err = regexp.Compile(w.Pattern); err != nil {
			return fmt.Errorf("pattern: %w", err)
		}
	}
	return nil
}

var validName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,39}$`)

// isLetter reports whether a field of a prompt is the letter of one of so many options.
func isLetter(name string, options int) bool {
	return len(name) == 1 && name[0] >= 'A' && int(name[0]-'A') < options
}

// expand fills in a template: {name} is a field, {{ and }} are braces.
func expand(template string, field func(name string) string) string {
	var out strings.Builder
	for template != "" {
		at := strings.IndexAny(template, "{}")
		if at < 0 {
			out.WriteString(template)
			break
		}
		out.WriteString(template[:at])
		brace := template[at]
		template = template[at+1:]
		if template != "" && template[0] == brace { // doubled
			out.WriteByte(brace)
			template = template[1:]
			continue
		}
		name, rest, _ := strings.Cut(template, "}")
		out.WriteString(field(name))
		template = rest
	}
	return out.String()
}

// checkTemplate says what is wrong with a template, if something is.
func checkTemplate(template string) error {
	if strings.TrimSpace(template) == "" {
		return errors.New("missing; expected a text with {field} where a field of the data stands")
	}
	for rest := template; ; {
		at := strings.IndexAny(rest, "{}")
		if at < 0 {
			break
		}
		brace := rest[at]
		rest = rest[at+1:]
		// Two braces stand for one.
		if rest != "" && rest[0] == brace {
			rest = rest[1:]
			continue
		}
		end := strings.IndexAny(rest, "{}")
		if brace == '}' || end <= 0 || rest[end] != '}' {
			return errors.New("a brace alone; {field} is a field, {{ and }} are braces")
		}
		rest = rest[end+1:]
	}
	if len(fieldsOf(template)) == 0 {
		return errors.New("no {field}; every question would be the same")
	}
	return nil
}

// fieldsOf are the names of fields in a template, each once.
func fieldsOf(template string) (names []string) {
	expand(template, func(name string) string {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
		return ""
	})
	return names
}
