package sweep

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"ossian/internal/bench/jsonfile"
)

// nameKey is the member of a setting that names it and is no parameter.
const nameKey = "_benchmark_name"

// Limits of parameter files.
const (
	maxParams  = 16 << 20 // bytes
	maxObjects = 100_000
)

// ReadParams reads a parameter file. Without one there is one setting that changes
// nothing.
func ReadParams(path string) ([]Object, error) {
	if path == "" {
		return []Object{{}}, nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	out, err := ParseParams(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return out, nil
}

// ParseParams reads settings (bench.md 3.3): a list of objects, or an object of objects by
// name.
func ParseParams(text []byte) ([]Object, error) {
	list, err := elements(text)
	if err != nil {
		return nil, err
	}
	names := map[string]bool{}
	for _, setting := range list {
		if raw, named := setting.Get(nameKey); named {
			name := pyStr(raw)
			if names[name] {
				return nil, fmt.Errorf("%s %q is there twice; results of the second would overwrite those of the first", nameKey, name)
			}
			names[name] = true
		}
	}
	return list, nil
}

// elements reads a list of objects, or an object of them whose names they get.
func elements(text []byte) ([]Object, error) {
	var all json.RawMessage
	if len(text) > maxParams {
		return nil, fmt.Errorf("%d bytes, at most %d are read", len(text), maxParams)
	}
	text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, jsonfile.ExplainIn(text, err)
	}
	// Names of a JSON object become members like any other, which settings in a list may have.
	var out []Object
	if all = bytes.TrimSpace(all); all[0] == '{' {
		named, err := parseObject(all)
		if err != nil {
			return nil, err
		}
		for _, member := range named {
			object, err := parseObject(member.Value)
			if err != nil {
				return nil, fmt.Errorf("%q: %w", member.Key, err)
			}
			out = append(out, Object{{nameKey, jsonText(member.Key)}}.withAll(object))
		}
	} else {
		var list []json.RawMessage
		if err := json.Unmarshal(all, &list); err != nil {
			return nil, fmt.Errorf("found %s, expected a list of objects, or an object of objects by name", brief(all))
		}
		for i, raw := range list {
			object, err := parseObject(raw)
			if err != nil {
				return nil, fmt.Errorf("element %d: %w", i+1, err)
			}
			out = append(out, object)
		}
	}
	if len(out) == 0 || len(out) > maxObjects {
		return nil, fmt.Errorf("%d settings, expected 1 to %d", len(out), maxObjects)
	}
	return out, nil
}

// Name is the name of a setting: the one it has, or its parameters.
func (o Object) Name() string {
	if raw, ok := o.Get(nameKey); ok {
		return pyStr(raw)
	}
	return o.text("-")
}

// text lists the parameters.
func (o Object) text(separator string) string {
	var parts []string
	for _, m := range o {
		if m.Key != nameKey {
			parts = append(parts, m.Key+"="+pyStr(m.Value))
		}
	}
	return strings.Join(parts, separator)
}

// spellings are the ways to write the name of a flag, in the order in which a command is
// searched for them. What stands behind a dot is a name inside the flag's value, which
// stays as it is.
func spellings(key string) [3]string {
	flag, inner := key, ""
	if i := strings.IndexByte(key, '.'); i >= 0 {
		flag, inner = key[:i], key[i:]
	}
	return [3]string{strings.ReplaceAll(flag, "_", "-") + inner, strings.ReplaceAll(flag, "-", "_") + inner, key}
}

// Has reports whether o sets a parameter, however it is spelt.
func (o Object) Has(key string) bool {
	for _, s := range spellings(key) {
		if _, ok := o.Get(s); ok {
			return true
		}
	}
	return false
}

// words are a parameter on a command line.
func (m Member) words() []string {
	name := "--" + spellings(m.Key)[0]
	switch value := string(m.Value); {
	case value != "true" && value != "false":
		if value[0] == '{' {
			return []string{name, pyDumps(m.Value)}
		}
		return []string{name, pyStr(m.Value)}
	case strings.Contains(m.Key, "."):
		return []string{name + "=" + value}
	case value == "false":
		return []string{"--" + spellings("no-" + m.Key)[0]}
	}
	return []string{name}
}

// Apply returns a command with the parameters of o: they take the places of flags that
// are there, and otherwise come last.
func (o Object) Apply(command []string) []string {
	out := slices.Clone(command)
	for _, member := range o {
		if member.Key == nameKey {
			continue
		}
		at := -1 // of the flag in the command
		for _, spelling := range spellings(member.Key) {
			if at = slices.Index(out, "--"+spelling); at >= 0 {
				break
			}
		}
		switch words := member.words(); {
		case at < 0:
			out = append(out, words...)
		case at+len(words) > len(out) || (len(words) == 2 && strings.HasPrefix(out[at+1], "--")): // it had no value
			out = slices.Replace(out, at, at+1, words...)
		default:
			copy(out[at:], words)
		}
	}
	return out
}

// A Link keeps only combinations in which a parameter of the server and one of the client
// are equal.
type Link struct{ Serve, Bench string }

// ParseLinks reads --link-vars, such as max_num_seqs=max_concurrency,a=b.
func ParseLinks(text string) (out []Link, err error) {
	if text == "" {
		return nil, nil
	}
	for pair := range strings.SplitSeq(text, ",") {
		serve, bench, ok := strings.Cut(pair, "=")
		serve, bench = strings.TrimSpace(serve), strings.TrimSpace(bench)
		if !ok || serve == "" || bench == "" || strings.Contains(bench, "=") {
			return nil, fmt.Errorf("%q: want PARAMETER OF THE SERVER=PARAMETER OF THE CLIENT, such as max_num_seqs=max_concurrency", pair)
		}
		out = append(out, Link{serve, bench})
	}
	return out, nil
}

// linked reports whether a combination is to be measured.
func linked(links []Link, serve, bench Object) bool {
	for _, link := range links {
		serving, has := serve.Get(link.Serve)
		sending, too := bench.Get(link.Bench)
		if !has || !too || !same(serving, sending) {
			return false
		}
	}
	return true
}

// fileName makes a name for a file or a folder out of a text.
func fileName(text string) string {
	text = strings.ReplaceAll(strings.ReplaceAll(text, "/", "_"), "..", "__")
	return strings.Trim(strings.Trim(text, "'"), `"`)
}

// Split splits a command into words as a shell does, without its expansions (Python's
// shlex.split).
func Split(command string) ([]string, error) {
	var out []string
	var word strings.Builder
	begun := false // a word, which may be empty if it is quoted
	var quote rune // the one we are in; 0 = none
	escaped := false
	for _, char := range command {
		switch {
		case escaped:
			if quote == '"' && char != '"' && char != '\\' {
				word.WriteByte('\\')
			}
			word.WriteRune(char)
			escaped = false
		case char == '\\' && quote != '\'':
			escaped, begun = true, true
		case quote != 0:
			if char == quote {
				quote = 0
			} else {
				word.WriteRune(char)
			}
		case char == '"' || char == '\'':
			quote, begun = char, true
		case strings.ContainsRune(" \t\r\n", char):
			if begun {
				out = append(out, word.String())
				word.Reset()
				begun = false
			}
		default:
			word.WriteRune(char)
			begun = true
		}
	}
	if quote != 0 || escaped {
		return nil, fmt.Errorf("%q: a quote is not closed, or nothing follows the last backslash", command)
	}
	if begun {
		out = append(out, word.String())
	}
	if len(out) == 0 {
		return nil, errors.New("the command is empty")
	}
	return out, nil
}
