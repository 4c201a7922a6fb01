package wire

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"ossian/internal/limits"
)

// A ServerTool is a tool that a request asks the server to run: its browser, its interpreter, or
// a server of the Model Context Protocol.
type ServerTool struct {
	Type string // as it came: web_search and its like, code_interpreter, mcp
	Path string // where the request has it: tools[0]

	Container string   // of code_interpreter: whose variables it goes on with; "" = a new one
	Domains   []string // of the browser: its pages are of these and of those below them, in lower case; nil = all

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

// A ServerChoice names a tool that the server runs.
type ServerChoice struct {
	Type  string // as that of ServerTool
	Label string // of mcp
	Name  string // of mcp: one of its tools; "" = all of them
}

// serverChoice returns what the object that comes next names, and does not move.
func (in *Reader) serverChoice() ServerChoice {
	choice := ServerChoice{Type: in.Member("type")}
	if choice.Type == "mcp" {
		choice.Label, choice.Name = in.Member("server_label"), in.Member("name")
	}
	return choice
}

// The types of tools that servers run, by what runs them.
var (
	browserTypes = []string{"web_search", "web_search_2025_08_26", "web_search_preview", "web_search_preview_2025_03_11", "browser_search"}
	serverTypes  = append(slices.Clone(browserTypes), "code_interpreter", "mcp")
)

// IsServerTool reports whether tools of a type are run by a server.
func IsServerTool(kind string) bool { return slices.Contains(serverTypes, kind) }

// Unserved refuses a type of tool that no server here is for.
func Unserved(kind, param string) *Error {
	help := "start it with --tool-server demo, or with a server of MCP that is named so"
	if kind == "mcp" {
		help = "start it with --tool-server ADDRESS, or with --mcp-allow HOST for servers that requests bring"
	}
	return &Error{Message: fmt.Sprintf("this server runs no tool of type %s: %s", kind, help), Type: TypeInvalidRequest, Param: param, Code: CodeUnsupportedTool}
}

// Unknown refuses, in strict mode, what Reader.Ignored names: a member, or a type of tool.
func Unknown(name string) *Error {
	if at := strings.LastIndexByte(name, '.'); at >= 0 && strings.HasPrefix(name, "tools[") && IsServerTool(name[at+1:]) {
		return Unserved(name[at+1:], name[:at]+".type")
	}
	return &Error{Message: "unknown field, or a type that nothing here serves", Type: TypeInvalidRequest, Param: name, Code: CodeUnsupported}
}

// Browses reports whether the tool asks for the browser.
func (t *ServerTool) Browses() bool { return slices.Contains(browserTypes, t.Type) }

// Read reads a tool of one of the types of IsServerTool. What is said of a value never repeats
// it: it may be a secret.
func (t *ServerTool) Read(in *Reader) {
	t.Path = in.Path()
	t.Type = in.Member("type")
	in.Object(func(key string) bool {
		switch {
		case key == "type":
			in.Text()
		case key == "search_context_size" || key == "user_location" || key == "external_web_access" || key == "search_content_types":
			in.Skip() // nothing here depends on them
		case key == "filters" && t.Browses():
			in.Object(func(key string) bool { return key == "allowed_domains" && t.domains(in) })
		case key == "container" && t.Type == "code_interpreter":
			t.Container = in.container()
		case t.Type == "mcp":
			return t.mcp(in, key)
		default:
			return false
		}
		return true
	})
	if !in.Failed() && t.Type == "mcp" {
		t.checkMCP(in)
	}
}

// domains reads allowed_domains. An empty list allows all, as none does.
func (t *ServerTool) domains(in *Reader) bool {
	in.Array(limits.Tools, "domains", func(int) {
		name := strings.ToLower(strings.TrimSuffix(in.Text(), "."))
		if at, err := url.Parse("//" + name); !in.Failed() && (err != nil || at.Host == "" || at.Host != name || at.Port() != "" || strings.ContainsAny(name, "*[] ")) {
			in.Invalid("a domain expected, such as example.com, without https:// and path; those below it are allowed, too")
		}
		t.Domains = append(t.Domains, name)
	})
	return true
}

// container reads the id of a container, or {"type":"auto"}: a new one.
func (in *Reader) container() (id string) {
	if in.Kind() == '"' {
		return in.Text()
	}
	if in.Kind() != '{' {
		in.Expected(`the id of a container or {"type":"auto"}`)
	}
	in.Object(func(key string) bool {
		if key == "type" && in.Text() != "auto" {
			in.Invalid("auto expected")
		}
		return key == "type"
	})
	return ""
}

// mcp reads a member of a tool of type mcp.
func (t *ServerTool) mcp(in *Reader, key string) bool {
	switch key {
	case "server_label":
		t.Label = in.Text()
	case "server_url":
		t.URL = in.Text()
		checkServerURL(in, t.URL)
	case "connector_id":
		in.Fail(Unsupported(in.Path(), "there are no connectors here: name the server by server_url, or by the label that it is configured under"))
	case "headers":
		t.Headers = in.headers()
	case "authorization":
		t.Authorization = in.Text()
		checkHeader(in, "Authorization", t.Authorization)
	case "allowed_tools":
		t.allowed(in)
	case "require_approval":
		t.Approval = in.approval()
	case "server_description":
		in.Text() // the server tells the model itself what it is for
	default:
		return false
	}
	return true
}

// checkMCP checks what members of a tool of type mcp say together.
func (t *ServerTool) checkMCP(in *Reader) {
	at := in.Path() + "."
	label := func(r rune) bool { return !nameRune(r) }
	switch {
	case t.Label == "":
		in.Missing("server_label")
	case int64(len(t.Label)) > in.lim[limits.ToolName]:
		in.Fail(exceeds(at+"server_label", len(t.Label), in.lim[limits.ToolName], "bytes", limits.ToolName))
	case strings.ContainsFunc(t.Label, label):
		in.Fail(Invalid(at+"server_label", fmt.Sprintf("letters a to z, digits, _, - and . expected, found %.64q", t.Label)))
	case t.URL == "" && t.Headers != nil:
		in.Fail(Invalid(at+"headers", "needs server_url: headers go there and nowhere else"))
	case t.URL == "" && t.Authorization != "":
		in.Fail(Invalid(at+"authorization", "needs server_url: it goes there and nowhere else"))
	case t.Authorization != "" && hasHeader(t.Headers, "Authorization"):
		in.Fail(Invalid(at+"authorization", "excludes headers.Authorization: send one of them"))
	}
}

// longestURL is the most bytes that an address may have.
const longestURL = 2048

// checkServerURL refuses what is no address of an HTTP server. A user in an address would be a
// secret outside the members for secrets.
func checkServerURL(in *Reader, text string) {
	at, err := url.Parse(text)
	switch {
	case in.Failed():
	case len(text) > longestURL:
		in.Invalid("%d bytes, at most %d are accepted", len(text), longestURL)
	case err != nil || (at.Scheme != "http" && at.Scheme != "https") || at.Hostname() == "":
		in.Invalid("the address of a server expected, such as https://example.com/mcp")
	case at.User != nil:
		in.Invalid("an address without user and password expected: authorization and headers are for secrets")
	}
}

// headers reads an object of header fields.
func (in *Reader) headers() map[string]string {
	fields, size := map[string]string{}, 0
	in.Members(func(name string) {
		value := in.Text()
		checkHeader(in, name, value)
		if hasHeader(fields, name) {
			in.Invalid("given twice: case makes no difference in names of headers")
		}
		fields[name] = value
		size += len(name) + len(value)
	})
	if !in.Failed() {
		in.Within(size, limits.HeaderBytes, "bytes of headers")
	}
	return fields
}

// hasHeader reports whether there is a header field of a name, in any case.
func hasHeader(fields map[string]string, name string) bool {
	for other := range fields {
		if strings.EqualFold(other, name) {
			return true
		}
	}
	return false
}

// checkHeader refuses what no header field could carry, above all line breaks, and the fields
// that belong to the connection.
func checkHeader(in *Reader, name, value string) {
	token := func(r rune) bool {
		return r <= ' ' || r >= 0x7f || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, r)
	}
	printed := func(r rune) bool { return (r < ' ' && r != '\t') || r == 0x7f }
	switch {
	case name == "" || strings.ContainsFunc(name, token):
		in.Invalid("this is no name of a header")
	case slices.ContainsFunc([]string{"Host", "Content-Length", "Connection", "Transfer-Encoding", "Upgrade", "Te", "Trailer", "Keep-Alive"}, func(own string) bool { return strings.EqualFold(own, name) }):
		in.Invalid("this header is the connection's own")
	case strings.ContainsFunc(value, printed):
		in.Invalid("a header of one line expected: there are line breaks or other control characters in it")
	}
}

// allowed reads allowed_tools: names, {"tool_names","read_only"}, or "*".
func (t *ServerTool) allowed(in *Reader) {
	switch in.Kind() {
	case '"':
		if in.Text() != "*" {
			in.Invalid(`names of tools, an object with tool_names and read_only, or "*" expected`)
		}
	case '[':
		t.Allowed = in.toolNames()
	default:
		filter := in.filter()
		t.Allowed, t.ReadOnly = filter.Names, filter.ReadOnly != nil && *filter.ReadOnly
	}
	if slices.Contains(t.Allowed, "*") {
		t.Allowed = nil
	}
}

func (in *Reader) toolNames() []string {
	names := []string{}
	in.Array(limits.Tools, "names of tools", func(int) { names = append(names, in.Text()) })
	return names
}

func (in *Reader) filter() *Filter {
	found := new(Filter)
	in.Object(func(key string) bool {
		switch key {
		case "tool_names":
			found.Names = in.toolNames()
		case "read_only":
			found.ReadOnly = Ptr(in.Boolean())
		default:
			return false
		}
		return true
	})
	return found
}

// approval reads require_approval.
func (in *Reader) approval() (a Approval) {
	if in.Kind() == '"' {
		if a.Mode = in.Text(); a.Mode != "never" && a.Mode != "always" {
			in.Invalid("never, always or an object with these expected")
		}
		return a
	}
	if in.Kind() != '{' {
		in.Expected("never, always or an object with these")
	}
	a.Mode = "filter"
	in.Object(func(key string) bool {
		switch key {
		case "always":
			a.Always = in.filter()
		case "never":
			a.Never = in.filter()
		default:
			in.Invalid("always or never expected")
		}
		return true
	})
	return a
}

// Needs reports whether a call of a tool needs the client's word; absent is what holds where
// the request does not say. A tool that both filters name needs it.
func (a *Approval) Needs(name string, readOnly, absent bool) bool {
	switch {
	case a.Mode == "never":
		return false
	case a.Mode == "always":
		return true
	case a.Always.has(name, readOnly):
		return true
	case a.Never.has(name, readOnly):
		return false
	}
	return absent
}

// has reports whether a filter is of a tool. One that names nothing is of none.
func (f *Filter) has(name string, readOnly bool) bool {
	if f == nil || (f.Names == nil && f.ReadOnly == nil) {
		return false
	}
	return (f.Names == nil || slices.Contains(f.Names, name)) && (f.ReadOnly == nil || *f.ReadOnly == readOnly)
}

// Allows reports whether the request lets a tool be called.
func (t *ServerTool) Allows(name string, readOnly bool) bool {
	return (t.Allowed == nil || slices.Contains(t.Allowed, name)) && (readOnly || !t.ReadOnly)
}
