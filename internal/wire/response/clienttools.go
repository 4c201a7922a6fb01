package response

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"ossian/internal/limits"
	"ossian/internal/wire"
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
func (tool *clientTool) tool() wire.Tool {
	t := wire.Tool{Type: tool.name, Name: tool.name, Description: tool.description, Parameters: json.RawMessage(tool.parameters), Strict: true}
	t.Raw = t.Nested()
	return t
}

// findClientTool returns the tool of a type in a request, nil if there is none.
func findClientTool(kind string) *clientTool {
	if tool := clientTools[kind]; tool != nil && tool.name == kind {
		return tool
	}
	return nil
}

// readClientTool reads such a tool. One that is not run by the client is left out.
func (r *Request) readClientTool(in *wire.Reader, tool *clientTool) {
	where := ""
	ahead := in.Ahead()
	ahead.Members(func(key string) {
		if key == "environment" {
			where = ahead.Member("type")
		}
		ahead.Skip()
	})
	// A container is run by OpenAI, not by the client.
	if where != "" && where != "local" {
		in.LeaveOut(tool.name)
		return
	}
	r.show(in.Peek())
	in.Object(func(key string) bool {
		switch key {
		case "type":
			in.Text()
		case "environment":
			in.Object(func(key string) bool { return key == "type" && in.Text() != "" })
		default:
			return false
		}
		return true
	})
	r.add(in, tool.tool())
}

// read reads what a client is to do. It returns that as the model writes it, without
// members that say nothing.
func (tool *clientTool) read(in *wire.Reader) string {
	dst := []byte{'{'}
	var found []string
	// A patch that deletes a file is the one that has no diff.
	diff := true
	in.Object(func(key string) bool {
		if key == "type" && tool.kind != "" {
			if kind := in.Text(); kind != tool.kind {
				in.Invalid("%s expected, found %.40q", tool.kind, kind)
			}
			return true
		}
		kind, known := tool.members[key]
		if !known {
			return false
		}
		in.Kind()
		start, empty := in.Offset(), false
		switch kind {
		case someTexts:
			in.Array(limits.ContentParts, "texts", func(int) { in.Text() })
		case textsMap:
			empty = true
			in.Members(func(string) { in.Text(); empty = false })
		case number:
			in.Integer()
		default:
			if text := in.Text(); key == "type" {
				if diff = text != "delete_file"; !slices.Contains([]string{"create_file", "update_file", "delete_file"}, text) {
					in.Invalid("create_file, update_file or delete_file expected, found %.40q", text)
				}
			}
		}
		// Kept as the client wrote it, but for white space: the model reads what it once wrote.
		if raw := in.Since(start); !in.Failed() && !empty {
			if len(dst) > 1 {
				dst = append(dst, ',')
			}
			dst = wire.AppendCompact(append(wire.AppendString(dst, key), ':'), raw)
		}
		found = append(found, key)
		return true
	})
	required := tool.required
	if tool.members["diff"] != 0 && diff {
		required = append(slices.Clip(required), "diff")
	}
	for _, name := range required {
		if !slices.Contains(found, name) && !in.Failed() {
			in.Missing(name)
		}
	}
	return string(append(dst, '}'))
}

// readText is read of a text that a model wrote.
func (tool *clientTool) readText(text string) (action string, ok bool) {
	if !json.Valid([]byte(text)) {
		return "", false
	}
	in := wire.NewReader([]byte(text), limits.Defaults())
	action = tool.read(in)
	return action, !in.Failed() && in.Ignored() == nil
}

// append writes the rest of the item of a call.
func (tool *clientTool) append(dst []byte, action string) []byte {
	dst = append(wire.AppendString(append(dst, ','), tool.member), `:{`...)
	if tool.kind != "" {
		dst = append(wire.AppendString(append(dst, `"type":`...), tool.kind), ',')
	}
	dst = append(dst, action[1:len(action)-1]...)
	// OpenAI's schema wants members that the model did not write.
	var found []string
	in := wire.NewReader([]byte(action), limits.Defaults())
	in.Members(func(key string) {
		found = append(found, key)
		in.Skip()
	})
	for _, m := range tool.defaults {
		if !slices.Contains(found, m[0]) {
			dst = append(append(wire.AppendString(append(dst, ','), m[0]), ':'), m[1]...)
		}
	}
	if dst = append(dst, '}'); tool.name == "shell" {
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
	return append(wire.AppendString(append(dst, `,"output":`...), strings.Join(it.Content, "\n")), '}')
}

// readShellOutput reads what lines in a shell have printed. It returns that in the form of
// the API.
func readShellOutput(in *wire.Reader) wire.Content {
	dst := []byte{'['}
	in.Array(limits.ContentParts, "outputs", func(i int) {
		var texts [2]string
		outcome, code := "", int64(0)
		in.Object(func(key string) bool {
			switch key {
			case "stdout":
				texts[0] = in.Text()
			case "stderr":
				texts[1] = in.Text()
			case "created_by":
				in.Skip()
			case "outcome":
				in.Object(func(key string) bool {
					switch key {
					case "type":
						if outcome = in.Text(); outcome != "exit" && outcome != "timeout" {
							in.Invalid("exit or timeout expected, found %.40q", outcome)
						}
					case "exit_code":
						code = in.Integer()
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
		if outcome == "" && !in.Failed() {
			in.Missing("outcome")
		}
		// Written anew in one order: equal outputs are equal texts in the prompt.
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = wire.AppendString(append(dst, `{"stdout":`...), texts[0])
		dst = wire.AppendString(append(dst, `,"stderr":`...), texts[1])
		dst = wire.AppendString(append(dst, `,"outcome":{"type":`...), outcome)
		if outcome == "exit" {
			dst = fmt.Appendf(dst, `,"exit_code":%d`, code)
		}
		dst = append(dst, "}}"...)
	})
	return wire.Content{string(append(dst, ']'))}
}

// Result returns the text of a call's result, as models are shown it.
func (it *Item) Result() wire.Content {
	if it.Type != "apply_patch_call_output" {
		return it.Content
	}
	if text := strings.Join(it.Content, "\n"); text != "" {
		return wire.Content{it.Status + "\n" + text}
	}
	return wire.Content{it.Status}
}
