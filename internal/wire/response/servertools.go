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

// readChoice reads tool_choice.
func (r *Request) readChoice(in *wire.Reader) {
	raw := in.Peek()
	if r.choice, r.ToolChoice = raw, in.ToolChoice(true); r.ToolChoice.Served != nil && !in.Failed() {
		r.choice = showChoice(raw)
	}
}

// showChoice returns a choice among the server's tools as replies have it: of these tools no more
// than what names them, as a client may repeat a tool as a whole.
func showChoice(raw json.RawMessage) json.RawMessage {
	in := wire.NewReader(raw, limits.Defaults())
	if kind := in.Member("type"); wire.IsServerTool(kind) {
		return showChosen(in, kind)
	}
	// Members are written in the order in which they came.
	dst := []byte(`{"type":"allowed_tools"`)
	in.Members(func(key string) {
		switch key {
		case "mode":
			dst = append(append(dst, `,"mode":`...), in.Raw()...)
		case "tools":
			dst = append(dst, `,"tools":[`...)
			in.Array(limits.Tools, "tools", func(i int) {
				if i > 0 {
					dst = append(dst, ',')
				}
				if kind := in.Member("type"); wire.IsServerTool(kind) {
					dst = append(dst, showChosen(in, kind)...)
				} else {
					dst = wire.AppendCompact(dst, in.Peek())
				}
				in.Skip()
			})
			dst = append(dst, ']')
		default:
			in.Skip()
		}
	})
	return append(dst, '}')
}

// showChosen returns what names the tool that comes next, in the words of OpenAI's schema.
func showChosen(in *wire.Reader, kind string) json.RawMessage {
	switch kind {
	case "mcp":
		dst := wire.AppendString([]byte(`{"type":"mcp","server_label":`), in.Member("server_label"))
		if name := in.Member("name"); name != "" {
			dst = wire.AppendString(append(dst, `,"name":`...), name)
		}
		return append(dst, '}')
	case "web_search", "web_search_2025_08_26", "browser_search":
		kind = "web_search_preview"
	}
	return append(wire.AppendString([]byte(`{"type":`), kind), '}')
}

// checkServed refuses a choice that names no server, or is of tools that nothing here runs.
func (r *Request) checkServed() *wire.Error {
	if chosen := r.ToolChoice.Served; !r.served && chosen != nil && (r.ToolChoice.Mode == "named" || len(r.Tools) == 0) {
		return wire.Unserved(chosen[0].Type, "tool_choice")
	}
	for i := range r.ToolChoice.Served {
		if choice := &r.ToolChoice.Served[i]; choice.Type == "mcp" && choice.Label == "" && r.served {
			return wire.Missing("tool_choice.server_label")
		}
	}
	return nil
}

// checkedChoice is the choice as far as it is among Tools.
func (r *Request) checkedChoice() *wire.ToolChoice {
	choice := r.ToolChoice
	if !r.served {
		return &choice
	}
	if choice.Served != nil && choice.Mode == "named" {
		return &wire.ToolChoice{}
	}
	// One of the server's tools can be what has to be called.
	if choice.Mode == "required" && (choice.Served != nil || (len(r.Tools) == 0 && len(r.ServerTools) > 0)) {
		choice.Mode = "auto"
	}
	if choice.Served != nil && len(r.Tools) == 0 {
		choice.Allowed = nil
	}
	return &choice
}
