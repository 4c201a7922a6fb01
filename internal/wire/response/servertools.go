package response

import (
	"encoding/json"
	"net/url"
	"slices"

	"ossian/internal/limits"
	"ossian/internal/wire"
)

// Tools that the server runs, as requests have them and as replies show them: without what is
// secret, and with what OpenAI's schema wants.

// A ServerChoice is a tool of the server that tool_choice names, or allows.
type ServerChoice struct {
	Type  string // as that of wire.ServerTool
	Label string // of mcp
	Name  string // of mcp: one of its tools; "" = all of them
}

// readServerTool reads such a tool.
func (r *Request) readServerTool(in *wire.Reader) {
	raw := in.Peek()
	var tool wire.ServerTool
	tool.Read(in)
	if in.Failed() {
		return
	}
	r.ServerTools = append(r.ServerTools, tool)
	r.tools = append(r.tools, shownTool{raw: showServerTool(&tool, raw), server: len(r.ServerTools)})
}

// Show keeps in the reply those of the server's tools that the request gets.
func (r *Request) Show(gets func(tool *wire.ServerTool) bool) {
	r.tools = slices.DeleteFunc(r.tools, func(shown shownTool) bool {
		return shown.server > 0 && !gets(&r.ServerTools[shown.server-1])
	})
}

// shownMembers are what replies repeat of such a tool: neither headers nor tokens are among them.
var shownMembers = map[string]byte{"search_context_size": '"', "user_location": '{', "filters": '{', "external_web_access": 't',
	"container": 0, "server_description": '"', "allowed_tools": 0, "require_approval": 0}

// showServerTool returns the tool as replies have it.
func showServerTool(tool *wire.ServerTool, raw json.RawMessage) json.RawMessage {
	kind := tool.Type
	if kind == "browser_search" { // no type of OpenAI's
		kind = "web_search"
	}
	dst := wire.AppendString([]byte(`{"type":`), kind)
	if tool.Type == "mcp" {
		dst = wire.AppendString(append(dst, `,"server_label":`...), tool.Label)
		// What is behind the host may be as good as a password.
		if at, err := url.Parse(tool.URL); err == nil && at.Host != "" {
			dst = wire.AppendString(append(dst, `,"server_url":`...), at.Scheme+"://"+at.Host)
		}
	}
	place := false
	in := wire.NewReader(raw, limits.Defaults())
	in.Members(func(key string) {
		kind, shown := shownMembers[key]
		found := in.Kind()
		if found == 'f' {
			found = 't'
		}
		value := in.Raw()
		if !shown || (key == "allowed_tools" && found == '"') || (kind != 0 && kind != found) || (key == "search_context_size" && !slices.Contains([]string{`"low"`, `"medium"`, `"high"`}, string(value))) {
			return
		}
		place = place || key == "container"
		dst = append(wire.AppendString(append(dst, ','), key), ':')
		dst = wire.AppendCompact(dst, value)
	})
	if tool.Type == "code_interpreter" && !place {
		dst = append(dst, `,"container":{"type":"auto"}`...)
	}
	return append(dst, '}')
}

// readChoice reads tool_choice where it names tools of the server; false = it does not.
func (r *Request) readChoice(in *wire.Reader) bool {
	switch kind := in.Member("type"); {
	case !r.served:
		return false
	case wire.IsServerTool(kind):
		var choice ServerChoice
		r.choice = choice.read(in)
		r.ServerChoices, r.ToolChoice = []ServerChoice{choice}, wire.ToolChoice{Mode: "named"}
		return true
	case kind == "allowed_tools" && choosesServer(in.Ahead()):
		r.readAllowed(in)
		return true
	}
	return false
}

// read reads such a choice and returns it as replies have it.
func (c *ServerChoice) read(in *wire.Reader) json.RawMessage {
	in.Object(func(key string) bool {
		switch key {
		case "type":
			c.Type = in.Text()
		case "server_label":
			c.Label = in.Text()
		case "name":
			c.Name = in.Text()
		default: // a client may repeat the tool as a whole
			in.Skip()
		}
		return true
	})
	if c.Type != "mcp" {
		kind := c.Type
		if kind == "web_search" || kind == "web_search_2025_08_26" || kind == "browser_search" { // not to OpenAI's schema
			kind = "web_search_preview"
		}
		return append(wire.AppendString([]byte(`{"type":`), kind), '}')
	}
	if c.Label == "" && !in.Failed() {
		in.Missing("server_label")
	}
	dst := wire.AppendString([]byte(`{"type":"mcp","server_label":`), c.Label)
	if c.Name != "" {
		dst = wire.AppendString(append(dst, `,"name":`...), c.Name)
	}
	return append(dst, '}')
}

// choosesServer reports whether the choice that is ahead allows a tool of the server.
func choosesServer(ahead *wire.Reader) (found bool) {
	ahead.Members(func(key string) {
		if key != "tools" || ahead.Kind() != '[' {
			ahead.Skip()
			return
		}
		ahead.Array(limits.Tools, "tools", func(int) {
			found = found || wire.IsServerTool(ahead.Member("type"))
			ahead.Skip()
		})
	})
	return found
}

// readAllowed reads allowed_tools with tools of the server among them.
func (r *Request) readAllowed(in *wire.Reader) {
	choice := wire.ToolChoice{}
	shown := []byte{'['}
	in.Object(func(key string) bool {
		switch key {
		case "type":
			in.Text()
		case "mode":
			choice.Mode = in.Text()
		case "tools":
			choice.Allowed = []string{}
			in.Array(limits.Tools, "tools", func(i int) {
				if i > 0 {
					shown = append(shown, ',')
				}
				if wire.IsServerTool(in.Member("type")) {
					var one ServerChoice
					shown = append(shown, one.read(in)...)
					r.ServerChoices = append(r.ServerChoices, one)
					return
				}
				shown = wire.AppendCompact(shown, in.Peek())
				choice.Allowed = append(choice.Allowed, allowedName(in))
			})
		default:
			return false
		}
		return true
	})
	if choice.Mode != "auto" && choice.Mode != "required" && !in.Failed() {
		in.Invalid("mode auto or required expected")
	}
	r.ToolChoice = choice
	r.choice = append(append(wire.AppendString([]byte(`{"type":"allowed_tools","mode":`), choice.Mode), `,"tools":`...), append(shown, "]}"...)...)
}

// allowedName reads one of the tools that are allowed and returns its name.
func allowedName(in *wire.Reader) string {
	var tool wire.Tool
	tool.Read(in)
	if findClientTool(tool.Type) != nil {
		return tool.Type
	}
	return tool.Name
}

// checkedChoice is the choice as far as it is among Tools.
func (r *Request) checkedChoice() *wire.ToolChoice {
	choice := r.ToolChoice
	if len(r.ServerChoices) > 0 && choice.Mode == "named" {
		return &wire.ToolChoice{}
	}
	if len(r.ServerTools) == 0 {
		return &choice
	}
	// One of the server's tools can be what has to be called.
	if choice.Mode == "required" && (len(r.Tools) == 0 || len(r.ServerChoices) > 0) {
		choice.Mode = "auto"
	}
	if len(choice.Allowed) == 0 && len(r.Tools) == 0 {
		choice.Allowed = nil
	}
	return &choice
}
