package wire

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
