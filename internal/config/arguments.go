package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"ossian/internal/nearest"
)

// origins takes items, or one item that is vLLM's JSON list.
func origins(items []string) ([]string, error) {
	if len(items) == 1 && strings.HasPrefix(items[0], "[") {
		var out []string
		if err := json.Unmarshal([]byte(items[0]), &out); err != nil {
			return nil, errors.New("a JSON list of strings expected")
		}
		items = out
	}
	return names(items, "an origin")
}

// find returns the row of that name, nil if there is none.
func (c *Config) find(name string) *row {
	for i := range c.rows {
		if c.rows[i].name == name {
			return &c.rows[i]
		}
	}
	return nil
}

// known lists the names that may be given, no-name included, each behind prefix.
func (c *Config) known(prefix string) []string {
	out := make([]string, 0, len(c.rows))
	for _, row := range c.rows {
		out = append(out, prefix+row.name)
		if row.kind == boolean {
			out = append(out, prefix+"no-"+row.name)
		}
	}
	return out
}

// lookup finds the row of a flag or key; off says that it was written as no-name.
// Underscores count as hyphens.
func (c *Config) lookup(name string) (r *row, off bool) {
	name = strings.ReplaceAll(name, "_", "-")
	if r = c.find(name); r != nil {
		return r, false
	}
	if positive, ok := strings.CutPrefix(name, "no-"); ok {
		if r = c.find(positive); r != nil && r.kind == boolean {
			return r, true
		}
	}
	return nil, false
}

// arguments reads the command line in vLLM's language: --a_b as --a-b, --no-x,
// --x=v and --x v, several values behind a list flag, dotted JSON (--cc.a.b 1),
// -tp. A repeated flag replaces; of a list and of dotted JSON it adds.
func (c *Config) arguments(args []string) (map[string]*value, error) {
	given := map[string]*value{}
	const origin = "command line"
	// Each turn takes a flag with its values, or the model.
	for len(args) > 0 {
		arg := args[0]
		args = args[1:]
		if arg == "--help" || arg == "-h" {
			return nil, ErrHelp
		}
		if arg == "--" {
			continue
		}
		if !strings.HasPrefix(arg, "-") || arg == "-" {
			if err := c.add(given, c.find("model"), one(arg), false, origin); err != nil {
				return nil, err
			}
			continue
		}
		// --name.path=value: any part but the name may be missing.
		name, inlined, inline := strings.Cut(arg, "=")
		name, dotted, isDotted := strings.Cut(name, ".")
		if full := aliases[name]; full != "" {
			if note := aliasNotes[name]; note != "" {
				c.Notes = append(c.Notes, fmt.Sprintf("%s is taken as --%s: %s", name, full, note))
			}
			name = "--" + full
		}
		name, long := strings.CutPrefix(name, "--")
		if !long {
			short := strings.TrimLeft(name, "-")
			return nil, fmt.Errorf("unknown flag -%.40s%s", short, orElse(nearest.Flag(short, c.known("--")), ": flags begin with --"))
		}
		row, off := c.lookup(name)
		if row == nil || (isDotted && row.kind != object) {
			return nil, fmt.Errorf("unknown flag --%.60s%s", name, nearest.Flag(name, c.known("--")))
		}
		var err error
		switch {
		case row.kind == boolean && inline:
			return nil, fmt.Errorf("--%s takes no value; write --%s or --no-%s", row.name, row.name, row.name)
		case row.kind == boolean:
			err = c.flip(given, row, !off, origin)
		default:
			var items []string
			items, args, err = operands(row, inlined, inline, args)
			if err == nil && isDotted {
				items, err = merge(given[row.name], dotted, items[0])
			}
			if err == nil {
				err = c.add(given, row, items, isDotted, origin)
			}
		}
		if err != nil {
			return nil, err
		}
	}
	return given, nil
}

// orElse returns text, or what stands in its place where it is empty.
func orElse(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}

// flip sets a boolean; on and off in one source contradict each other.
func (c *Config) flip(given map[string]*value, r *row, on bool, origin string) error {
	text := strconv.FormatBool(on)
	if before := given[r.name]; before != nil && before.texts[0] != text {
		return fmt.Errorf("--%s and --no-%s contradict each other (%s)", r.name, r.name, origin)
	}
	given[r.name] = &value{texts: one(text), origin: origin}
	return nil
}

// add stores what a flag was given: the items of a list and models with names add up, another
// value replaces the last one with a warning.
func (c *Config) add(given map[string]*value, r *row, items []string, quiet bool, origin string) (err error) {
	before := given[r.name]
	switch {
	case before != nil && r.name == "config":
		return errors.New("--config is given twice; one file expected")
	case before != nil && r.name == "model":
		if items, err = addModel(before.texts, items[0]); err != nil {
			return err
		}
	case before != nil && r.kind == list:
		items = append(before.texts, items...)
	case before != nil && !quiet:
		c.Notes = append(c.Notes, fmt.Sprintf("--%s is given twice; the last one counts", r.name))
	}
	given[r.name] = &value{texts: items, origin: origin}
	return nil
}

// operands takes the value of a flag off the arguments, for lists all up to the
// next flag.
func operands(r *row, inlined string, inline bool, args []string) (items, rest []string, err error) {
	if inline {
		return one(inlined), args, nil
	}
	for len(args) > 0 && (!strings.HasPrefix(args[0], "-") || isNumber(args[0]) || args[0] == "-") {
		items, args = append(items, args[0]), args[1:]
		if r.kind != list || r.single {
			break
		}
	}
	if len(items) == 0 {
		return nil, nil, fmt.Errorf("--%s needs a value", r.name)
	}
	return items, args, nil
}

// isNumber tells -1, which is a value, from a flag.
func isNumber(s string) bool {
	_, err := strconv.ParseFloat(s, 64)
	return err == nil
}

// merge puts the value of --name.path into the JSON object given so far.
func merge(before *value, path, text string) ([]string, error) {
	root := map[string]any{}
	if before != nil {
		if err := json.Unmarshal([]byte(before.texts[0]), &root); err != nil {
			return nil, fmt.Errorf("%.100q is no JSON object to add to", before.texts[0])
		}
	}
	keys := strings.Split(path, ".")
	if len(keys) > 16 {
		return nil, errors.New("more than 16 levels of JSON")
	}
	// Objects on the way are made where there are none; "name+" adds to a list.
	at := root
	for _, key := range keys[:len(keys)-1] {
		next, ok := at[key].(map[string]any)
		if !ok {
			next = map[string]any{}
			at[key] = next
		}
		at = next
	}
	last := keys[len(keys)-1]
	if name, isList := strings.CutSuffix(last, "+"); isList {
		items, _ := at[name].([]any)
		for item := range strings.SplitSeq(text, ",") {
			items = append(items, scalar(item))
		}
		at[name] = items
	} else {
		at[last] = scalar(text)
	}
	merged, err := json.Marshal(root)
	return one(string(merged)), err
}

// scalar is a JSON value if v is one, else the string v.
func scalar(v string) any {
	if json.Valid([]byte(v)) {
		return json.RawMessage(v)
	}
	return v
}

// environment reads OSSIAN_PORT for --port and so on. Other OSSIAN_ variables are
// none of ours: Kubernetes makes some for a service of this name, even OSSIAN_PORT.
func (c *Config) environment(env []string) map[string]*value {
	given := map[string]*value{}
	for _, kv := range env {
		key, text, _ := strings.Cut(kv, "=")
		name, ours := strings.CutPrefix(key, "OSSIAN_")
		if !ours || text == "" {
			continue
		}
		// What takes no part here may be set for another program: it is no error.
		row, off := c.lookup(strings.ToLower(name))
		if row == nil || row.accepted || row.command || off {
			continue
		}
		if row.name == "port" && strings.HasPrefix(text, "tcp://") {
			c.Notes = append(c.Notes, "OSSIAN_PORT is Kubernetes' address of a service, not a port: ignored")
			continue
		}
		items := one(text)
		if row.kind == list && !row.single {
			items = strings.Fields(text)
		}
		given[row.name] = &value{texts: items, origin: "environment " + key}
	}
	c.foreignNames(env, given)
	return given
}

// foreignNames reads settings under the names that other programs have for them.
func (c *Config) foreignNames(env []string, given map[string]*value) {
	for i := range c.rows {
		row := &c.rows[i]
		for _, kv := range env {
			if key, text, _ := strings.Cut(kv, "="); row.env != "" && key == row.env && text != "" && given[row.name] == nil {
				given[row.name] = &value{texts: one(text), origin: "environment " + key}
			}
		}
	}
}
