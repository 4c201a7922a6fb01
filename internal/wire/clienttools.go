package wire

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"ossian/internal/limits"
)

// A clientTool is one of OpenAI's tools that clients run. To the model it is a function;
// its calls and their results have items of their own.
type clientTool struct {
	name         string // its type in a request, and the function's name
	call, output string // types of the items
	member       string // of the call's item: what the client is to do
	kind         string // type in that, where the model does not say it; "" = it does
	members      map[string]byte
	required     []string
	defaults     [][2]string // members that OpenAI's schema wants of an item

	description, parameters string
}

// Kinds of members of what a client is to do.
const (
	oneText   = '"'
	someTexts = '['
	textsMap  = '{'
	number    = '0'
)

var clientTools = func() map[string]*clientTool {
	all := map[string]*clientTool{}
	for _, t := range []*clientTool{
		{name: "local_shell", call: "local_shell_call", output: "local_shell_call_output", member: "action", kind: "exec",
			members:  map[string]byte{"command": someTexts, "env": textsMap, "timeout_ms": number, "working_directory": oneText, "user": oneText},
			required: []string{"command"}, defaults: [][2]string{{"env", "{}"}},
			description: "Runs a command on the user's machine and returns what it prints.",
			parameters: `{"type":"object","properties":{"command":{"type":"array","items":{"type":"string"},"minItems":1,"description":"The program and its arguments."},` +
				`"working_directory":{"type":"string"},"timeout_ms":{"type":"integer","minimum":0},"env":{"type":"object","additionalProperties":{"type":"string"}},"user":{"type":"string"}},` +
				`"required":["command"],"additionalProperties":false}`},
		{name: "shell", call: "shell_call", output: "shell_call_output", member: "action",
			members:  map[string]byte{"commands": someTexts, "timeout_ms": number, "max_output_length": number},
			required: []string{"commands"}, defaults: [][2]string{{"timeout_ms", "null"}, {"max_output_length", "null"}},
			description: "Runs lines in a shell and returns what each prints and how it ends.",
			parameters: `{"type":"object","properties":{"commands":{"type":"array","items":{"type":"string"},"minItems":1},"timeout_ms":{"type":"integer","minimum":0},` +
				`"max_output_length":{"type":"integer","minimum":0,"description":"Characters of the output to return."}},"required":["commands"],"additionalProperties":false}`},
		{name: "apply_patch", call: "apply_patch_call", output: "apply_patch_call_output", member: "operation",
			members: map[string]byte{"type": oneText, "path": oneText, "diff": oneText}, required: []string{"type", "path"},
			description: "Creates, changes or deletes one file. A diff has a line for each line of the file, behind + if it is new, - if it goes, a blank if it stays; " +
				"before each part that changes there is a line @@, with the function or class around it if that helps. A new file is all +.",
			parameters: `{"anyOf":[` + patchSchema("create_file", true) + `,` + patchSchema("update_file", true) + `,` + patchSchema("delete_file", false) + `]}`},
	} {
		all[t.name], all[t.call], all[t.output] = t, t, t
	}
	return all
}()

func patchSchema(kind string, diff bool) string {
	member, required := "", ""
	if diff {
		member, required = `,"diff":{"type":"string"}`, `,"diff"`
	}
	return `{"type":"object","properties":{"type":{"type":"string","enum":["` + kind + `"]},"path":{"type":"string","minLength":1}` + member + `},"required":["type","path"` + required + `],"additionalProperties":false}`
}

// tool returns it as tools of a request are.
func (c *clientTool) tool() Tool {
	t := Tool{Type: c.name, Name: c.name, Description: c.description, Parameters: json.RawMessage(c.parameters), Strict: true}
	t.Raw = t.nested()
	return t
}

// findClientTool returns the tool of a type in a request, nil if there is none.
func findClientTool(kind string) *clientTool {
	if c := clientTools[kind]; c != nil && c.name == kind {
		return c
	}
	return nil
}

// readClientTool reads such a tool. One that is not run by the client is left out.
func (r *ResponseRequest) readClientTool(d *decoder, c *clientTool) {
	where := ""
	ahead := decoder{data: d.data, pos: d.pos, lim: d.lim}
	ahead.members(func(key string) {
		if key == "environment" {
			where = ahead.member("type")
		}
		ahead.skip()
	})
	if where != "" && where != "local" {
		d.leaveOut(c.name)
		return
	}
	r.tools = append(r.tools, d.peek())
	d.object(func(key string) bool {
		switch key {
		case "type":
			d.text()
		case "environment":
			d.object(func(key string) bool { return key == "type" && d.text() != "" })
		default:
			return false
		}
		return true
	})
	r.add(d, c.tool())
}

// leaveOut passes a value whose type is not known, and names it.
func (d *decoder) leaveOut(kind string) {
	at := len(d.path)
	d.path = append(append(d.path, '.'), kind...)
	d.ignore()
	d.path = d.path[:at]
	d.skip()
}

// read reads what a client is to do. It returns that as the model writes it, without
// members that say nothing.
func (c *clientTool) read(d *decoder) string {
	dst := []byte{'{'}
	var found []string
	diff := true
	d.object(func(key string) bool {
		if key == "type" && c.kind != "" {
			if kind := d.text(); kind != c.kind {
				d.invalid("%s expected, found %.40q", c.kind, kind)
			}
			return true
		}
		kind, known := c.members[key]
		if !known {
			return false
		}
		d.kind()
		start, empty := d.pos, false
		switch kind {
		case someTexts:
			d.array(limits.ContentParts, "texts", func(int) { d.text() })
		case textsMap:
			empty = true
			d.members(func(string) { d.text(); empty = false })
		case number:
			d.integer()
		default:
			if text := d.text(); key == "type" {
				if diff = text != "delete_file"; !slices.Contains([]string{"create_file", "update_file", "delete_file"}, text) {
					d.invalid("create_file, update_file or delete_file expected, found %.40q", text)
				}
			}
		}
		if raw := d.data[start:d.pos]; d.err == nil && !empty {
			if len(dst) > 1 {
				dst = append(dst, ',')
			}
			dst = appendCompact(append(AppendString(dst, key), ':'), raw)
		}
		found = append(found, key)
		return true
	})
	required := c.required
	if c.members["diff"] != 0 && diff {
		required = append(slices.Clip(required), "diff")
	}
	for _, name := range required {
		if !slices.Contains(found, name) && d.err == nil {
			d.missing(name)
		}
	}
	return string(append(dst, '}'))
}

// readText is read of a text that a model wrote.
func (c *clientTool) readText(text string) (action string, ok bool) {
	if !json.Valid([]byte(text)) {
		return "", false
	}
	d := &decoder{data: []byte(text), lim: limits.Defaults()}
	action = c.read(d)
	return action, d.err == nil && d.ignored == nil
}

// append writes the rest of the item of a call.
func (c *clientTool) append(dst []byte, action string) []byte {
	dst = append(AppendString(append(dst, ','), c.member), `:{`...)
	if c.kind != "" {
		dst = append(AppendString(append(dst, `"type":`...), c.kind), ',')
	}
	dst = append(dst, action[1:len(action)-1]...)
	var found []string
	d := &decoder{data: []byte(action), lim: limits.Defaults()}
	d.members(func(key string) {
		found = append(found, key)
		d.skip()
	})
	for _, m := range c.defaults {
		if !slices.Contains(found, m[0]) {
			dst = append(append(AppendString(append(dst, ','), m[0]), ':'), m[1]...)
		}
	}
	if dst = append(dst, '}'); c.name == "shell" {
		dst = append(dst, `,"environment":null`...)
	}
	return append(dst, '}')
}

// appendOutput writes the rest of the item of a result.
func (it *Item) appendOutput(dst []byte) []byte {
	switch it.Type {
	case "shell_call_output":
		dst = append(append(dst, `,"output":`...), it.Content[0]...)
		return append(dst, `,"max_output_length":null}`...)
	case "apply_patch_call_output":
		if it.Content == nil {
			return append(dst, `,"output":null}`...)
		}
	}
	return append(AppendString(append(dst, `,"output":`...), strings.Join(it.Content, "\n")), '}')
}

// shellOutput reads what lines in a shell have printed. It returns that in the form of
// the API.
func (d *decoder) shellOutput() Content {
	dst := []byte{'['}
	d.array(limits.ContentParts, "outputs", func(i int) {
		var texts [2]string
		outcome, code := "", int64(0)
		d.object(func(key string) bool {
			switch key {
			case "stdout":
				texts[0] = d.text()
			case "stderr":
				texts[1] = d.text()
			case "created_by":
				d.skip()
			case "outcome":
				d.object(func(key string) bool {
					switch key {
					case "type":
						if outcome = d.text(); outcome != "exit" && outcome != "timeout" {
							d.invalid("exit or timeout expected, found %.40q", outcome)
						}
					case "exit_code":
						code = d.integer()
					default:
						return false
					}
					return true
				})
			default:
				return false
			}
			return true
		})
		if outcome == "" && d.err == nil {
			d.missing("outcome")
		}
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = AppendString(append(dst, `{"stdout":`...), texts[0])
		dst = AppendString(append(dst, `,"stderr":`...), texts[1])
		dst = AppendString(append(dst, `,"outcome":{"type":`...), outcome)
		if outcome == "exit" {
			dst = fmt.Appendf(dst, `,"exit_code":%d`, code)
		}
		dst = append(dst, "}}"...)
	})
	return Content{string(append(dst, ']'))}
}

// Result returns the text of a call's result, as models are shown it.
func (it *Item) Result() Content {
	if it.Type != "apply_patch_call_output" {
		return it.Content
	}
	if text := strings.Join(it.Content, "\n"); text != "" {
		return Content{it.Status + "\n" + text}
	}
	return Content{it.Status}
}
