package wire

import "ossian/internal/limits"

// A ServerTool is a tool that a request asks the server to run: its browser, its interpreter, or
// a server of the Model Context Protocol.
type ServerTool struct {
	Type string // as it came: web_search and its like, code_interpreter, mcp
	Path string // where the request has it: tools[0]

	Container string // of code_interpreter: whose variables it goes on with; "" = a new one

	// Of mcp.
	Label         string
	URL           string            // "" = a server that is configured
	Headers       map[string]string // sent to URL and nowhere else
	Authorization string            // the same, as a bearer token
	Allowed       []string          // names of tools that may be called; nil = all
	ReadOnly      bool              // of these, only tools that change nothing
	Approval      Approval
}

// An Approval says which calls the client has to agree to.
type Approval struct {
	Mode   string  // "" = not given, never, always, or filter
	Always *Filter // of filter: calls that need it; nil = none is named
	Never  *Filter // of filter: calls that need none
}

// A Filter names tools.
type Filter struct {
	Names    []string // nil = any
	ReadOnly *bool    // only those that change nothing, or only others; nil = either
}

// IsServerTool reports whether a type of tool in a request is one that the server may run.
func IsServerTool(kind string) bool {
	switch kind {
	case "web_search", "web_search_2025_08_26", "web_search_preview", "web_search_preview_2025_03_11", "browser_search", "code_interpreter", "mcp":
		return true
	}
	return false
}

// Read reads a tool of the request. Members that only OpenAI's own servers know change nothing.
func (t *ServerTool) Read(in *Reader) {
	t.Path = in.Path()
	in.Object(func(key string) bool {
		switch key {
		case "type":
			t.Type = in.Text()
		case "container":
			t.readContainer(in)
		case "server_label":
			t.Label = in.Text()
		case "server_url":
			t.URL = in.Text()
		case "authorization":
			t.Authorization = in.Text()
		case "headers":
			t.Headers = map[string]string{}
			in.Members(func(name string) { t.Headers[name] = in.Text() })
		case "allowed_tools":
			t.readAllowed(in)
		case "require_approval":
			t.Approval.read(in)
		case "server_description", "search_context_size", "user_location", "filters", "external_web_access", "search_content_types":
			in.Skip()
		default:
			return false
		}
		return true
	})
	if t.Type == "mcp" && t.Label == "" && !in.Failed() {
		in.Missing("server_label")
	}
}

// readContainer reads whose variables code goes on with: an id, or what a new one needs.
func (t *ServerTool) readContainer(in *Reader) {
	if in.Kind() == '{' {
		in.Skip()
		return
	}
	t.Container = in.Text()
}

func (t *ServerTool) readAllowed(in *Reader) {
	if in.Kind() == '[' {
		t.Allowed = []string{}
		in.Array(limits.Tools, "tools", func(int) { t.Allowed = append(t.Allowed, in.Text()) })
		return
	}
	var filter Filter
	filter.read(in)
	t.Allowed, t.ReadOnly = filter.Names, filter.ReadOnly != nil && *filter.ReadOnly
}

func (a *Approval) read(in *Reader) {
	if in.Kind() == '"' {
		if a.Mode = in.Text(); a.Mode != "never" && a.Mode != "always" && !in.Failed() {
			in.Invalid("never, always or an object expected, found %.40q", a.Mode)
		}
		return
	}
	a.Mode = "filter"
	in.Object(func(key string) bool {
		switch key {
		case "always":
			a.Always = new(Filter)
			a.Always.read(in)
		case "never":
			a.Never = new(Filter)
			a.Never.read(in)
		default:
			return false
		}
		return true
	})
}

func (f *Filter) read(in *Reader) {
	in.Object(func(key string) bool {
		switch key {
		case "tool_names":
			f.Names = []string{}
			in.Array(limits.Tools, "names", func(int) { f.Names = append(f.Names, in.Text()) })
		case "read_only":
			f.ReadOnly = Ptr(in.Boolean())
		default:
			return false
		}
		return true
	})
}
