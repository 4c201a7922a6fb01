package response

import (
	"encoding/json"
	"slices"
	"strconv"

	"ossian/internal/limits"
	"ossian/internal/wire"
)

// Types of items of tools that the server itself runs.
const (
	ItemWebSearch        = "web_search_call"
	ItemCode             = "code_interpreter_call"
	ItemMCPCall          = "mcp_call"
	ItemMCPTools         = "mcp_list_tools"
	ItemApprovalRequest  = "mcp_approval_request"
	ItemApprovalResponse = "mcp_approval_response"
)

// What the events of a call are called that say that it runs; also statuses of its item.
const (
	StatusSearching    = "searching"
	StatusInterpreting = "interpreting"
)

// A Served is what items have of tools that the server runs. Which members count says the type.
type Served struct {
	Label     string     // of mcp: the request's name for the server
	Output    *string    // mcp_call: what the tool gave; nil = nothing
	Error     *CallError // mcp_call: why it has failed; nil = it has not
	Approval  string     // mcp_call, mcp_approval_response: the id of the request for approval; "" = nobody was asked
	Approved  bool       // mcp_approval_response
	Reason    string     // mcp_approval_response; "" = none is given
	Container string     // code_interpreter_call
	Logs      []string   // code_interpreter_call: what was printed; nil = the client does not want it
	Action    Action     // web_search_call
	Results   []Source   // web_search_call: what was found; nil = the client does not want it
	Tools     []Listed   // mcp_list_tools
	Problem   string     // mcp_list_tools: why there are none; "" = there are
}

// An Action is what a browser did, or is about to do.
type Action struct {
	Type    string   // search, open_page or find_in_page
	Query   string   // search
	Pattern string   // find_in_page
	URL     string   // open_page, find_in_page; "" = not known
	Sources []string // search: URLs; nil = the client does not want them
}

// A Source is a page that was found.
type Source struct{ URL, Title string }

// A Listed is a tool of a server of the Model Context Protocol.
type Listed struct {
	Name, Description   string
	Schema, Annotations json.RawMessage // objects; Annotations nil = none
}

// A CallError says why a call has failed.
type CallError struct {
	Type    string // mcp_tool_execution_error, mcp_protocol_error or http_error
	Code    int    // of the latter two
	Message string
}

// IsServed reports whether the item is a call that the server ran. A request for approval is none.
func (it *Item) IsServed() bool {
	return it.Type == ItemWebSearch || it.Type == ItemCode || it.Type == ItemMCPCall
}

// Approval returns the id of the request for approval that a call, or an answer, belongs to; "" =
// none.
func (it *Item) Approval() string {
	if it.Served == nil {
		return ""
	}
	return it.Served.Approval
}

// ofServer reports whether a type of item is one of tools that the server runs.
func ofServer(kind string) bool {
	switch kind {
	case ItemWebSearch, ItemCode, ItemMCPCall, ItemMCPTools, ItemApprovalRequest, ItemApprovalResponse:
		return true
	}
	return false
}

// appendServed writes the rest of such an item, behind its status.
func (it *Item) appendServed(dst []byte) []byte {
	served := it.Served
	if served == nil {
		served = &Served{}
	}
	switch it.Type {
	case ItemWebSearch:
		dst = served.Action.append(append(dst, `,"action":`...))
		if served.Results != nil {
			dst = appendSources(append(dst, `,"results":`...), served.Results)
		}
		return append(dst, '}')
	case ItemCode:
		dst = wire.AppendString(append(dst, `,"container_id":`...), served.Container)
		dst = wire.AppendString(append(dst, `,"code":`...), it.Arguments)
		return append(appendLogs(append(dst, `,"outputs":`...), served.Logs), '}')
	case ItemApprovalResponse:
		// OpenAI's schema wants the id of the request under a second name.
		dst = wire.AppendString(append(dst, `,"approval_request_id":`...), served.Approval)
		dst = wire.AppendString(append(dst, `,"request_id":`...), served.Approval)
		dst = strconv.AppendBool(append(dst, `,"approve":`...), served.Approved)
		return append(wire.AppendText(append(dst, `,"reason":`...), wire.Text(served.Reason)), '}')
	}
	dst = wire.AppendString(append(dst, `,"server_label":`...), served.Label)
	if it.Type == ItemMCPTools {
		return append(served.appendTools(dst), '}')
	}
	dst = wire.AppendString(append(dst, `,"name":`...), it.Name)
	dst = wire.AppendString(append(dst, `,"arguments":`...), it.Arguments)
	if it.Type == ItemMCPCall {
		dst = wire.AppendText(append(dst, `,"approval_request_id":`...), wire.Text(served.Approval))
		dst = append(dst, `,"output":`...)
		if served.Output == nil {
			dst = append(dst, "null"...)
		} else {
			dst = wire.AppendString(dst, *served.Output)
		}
		dst = served.Error.append(append(dst, `,"error":`...))
	}
	return append(dst, '}')
}

func (a *Action) append(dst []byte) []byte {
	switch a.Type {
	case "open_page":
		return append(wire.AppendText(append(dst, `{"type":"open_page","url":`...), wire.Text(a.URL)), '}')
	case "find_in_page":
		dst = wire.AppendString(append(dst, `{"type":"find_in_page","pattern":`...), a.Pattern)
		return append(wire.AppendString(append(dst, `,"url":`...), a.URL), '}')
	}
	dst = wire.AppendString(append(dst, `{"type":"search","query":`...), a.Query)
	dst = append(dst, `,"queries":[`...)
	// Some clients read query, others queries: one search is told to both.
	if a.Query != "" {
		dst = wire.AppendString(dst, a.Query)
	}
	dst = append(dst, ']')
	if a.Sources == nil {
		return append(dst, '}')
	}
	dst = append(dst, `,"sources":[`...)
	for i, url := range a.Sources {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(wire.AppendString(append(dst, `{"type":"url","url":`...), url), '}')
	}
	return append(dst, "]}"...)
}

func appendSources(dst []byte, sources []Source) []byte {
	dst = append(dst, '[')
	for i := range sources {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = wire.AppendString(append(dst, `{"type":"url","url":`...), sources[i].URL)
		dst = append(wire.AppendString(append(dst, `,"title":`...), sources[i].Title), '}')
	}
	return append(dst, ']')
}

func appendLogs(dst []byte, logs []string) []byte {
	if logs == nil {
		return append(dst, "null"...)
	}
	dst = append(dst, '[')
	for i, text := range logs {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(wire.AppendString(append(dst, `{"type":"logs","logs":`...), text), '}')
	}
	return append(dst, ']')
}

func (e *CallError) append(dst []byte) []byte {
	if e == nil {
		return append(dst, "null"...)
	}
	dst = wire.AppendString(append(dst, `{"type":`...), e.Type)
	if e.Type == "mcp_tool_execution_error" {
		dst = wire.AppendString(append(dst, `,"content":[{"type":"text","text":`...), e.Message)
		return append(dst, "}]}"...)
	}
	dst = strconv.AppendInt(append(dst, `,"code":`...), int64(e.Code), 10)
	return append(wire.AppendString(append(dst, `,"message":`...), e.Message), '}')
}

func (s *Served) appendTools(dst []byte) []byte {
	dst = append(dst, `,"tools":[`...)
	for i := range s.Tools {
		tool := &s.Tools[i]
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = wire.AppendString(append(dst, `{"name":`...), tool.Name)
		dst = wire.AppendText(append(dst, `,"description":`...), wire.Text(tool.Description))
		dst = wire.AppendCompact(append(dst, `,"input_schema":`...), tool.Schema)
		dst = append(dst, `,"annotations":`...)
		if tool.Annotations == nil {
			dst = append(dst, "null"...)
		} else {
			dst = wire.AppendCompact(dst, tool.Annotations)
		}
		dst = append(dst, '}')
	}
	return wire.AppendText(append(dst, `],"error":`...), wire.Text(s.Problem))
}

// servedField reads a member of such an item.
func (it *Item) servedField(in *wire.Reader, key string) bool {
	served := it.Served
	switch key {
	case "type":
		in.Text()
	case "id":
		it.ID = in.Text()
	case "status":
		it.Status = in.Text()
	case "name":
		it.Name = in.Text()
	case "arguments", "code":
		it.Arguments = in.Text()
	case "server_label":
		served.Label = in.Text()
	case "container_id":
		served.Container = in.Text()
	case "approval_request_id":
		served.Approval = in.Text()
	case "approve":
		served.Approved = in.Boolean()
	case "reason":
		served.Reason = in.Text()
	case "action":
		served.Action.read(in)
	case "results":
		served.Results = readSources(in)
	case "outputs":
		served.Logs = readLogs(in)
	case "output":
		served.Output = wire.Ptr(in.Text())
	case "error":
		it.readProblem(in)
	case "tools":
		served.Tools = readListed(in)
	// Members that other servers write and that say nothing here.
	case "request_id", "created_by", "caller", "agent":
		in.Skip()
	default:
		return false
	}
	return true
}

func (a *Action) read(in *wire.Reader) {
	in.Object(func(key string) bool {
		switch key {
		case "type":
			if a.Type = in.Text(); a.Type == "find" { // its name in older clients
				a.Type = "find_in_page"
			}
		case "query":
			a.Query = in.Text()
		case "pattern":
			a.Pattern = in.Text()
		case "url":
			a.URL = in.Text()
		case "queries":
			in.Skip() // the query
		case "sources":
			a.Sources = []string{}
			for _, source := range readSources(in) {
				a.Sources = append(a.Sources, source.URL)
			}
		default:
			return false
		}
		return true
	})
}

func readSources(in *wire.Reader) []Source {
	out := []Source{}
	in.Array(limits.Messages, "sources", func(int) {
		var source Source
		in.Object(func(key string) bool {
			switch key {
			case "url":
				source.URL = in.Text()
			case "title":
				source.Title = in.Text()
			default:
				in.Skip()
			}
			return true
		})
		out = append(out, source)
	})
	return out
}

// readLogs reads the outputs of code. Images of other servers are passed over.
func readLogs(in *wire.Reader) []string {
	out := []string{}
	in.Array(limits.ContentParts, "outputs", func(int) {
		in.Object(func(key string) bool {
			if key == "logs" {
				out = append(out, in.Text())
			} else {
				in.Skip()
			}
			return true
		})
	})
	return out
}

// readProblem reads why a call or a list has failed: other servers send a text for both.
func (it *Item) readProblem(in *wire.Reader) {
	if in.Kind() == '"' {
		text := in.Text()
		if it.Served.Problem = text; it.Type == ItemMCPCall {
			it.Served.Problem, it.Served.Error = "", &CallError{Type: "mcp_tool_execution_error", Message: text}
		}
		return
	}
	problem := &CallError{Type: "mcp_tool_execution_error"}
	in.Object(func(key string) bool {
		switch key {
		case "type":
			problem.Type = in.Text()
		case "code":
			problem.Code = int(in.Integer())
		case "message":
			problem.Message = in.Text()
		case "content":
			problem.readContent(in)
		default:
			return false
		}
		return true
	})
	it.Served.Error = problem
}

func (e *CallError) readContent(in *wire.Reader) {
	if in.Kind() != '[' {
		in.Skip()
		return
	}
	in.Array(limits.ContentParts, "parts", func(int) {
		if in.Kind() == '{' {
			e.Message += in.Member("text")
		}
		in.Skip()
	})
}

func readListed(in *wire.Reader) []Listed {
	out := []Listed{}
	in.Array(limits.Messages, "tools", func(int) {
		tool := Listed{Schema: json.RawMessage("{}")}
		in.Object(func(key string) bool {
			switch object := in.Kind() == '{'; {
			case key == "name":
				tool.Name = in.Text()
			case key == "description":
				tool.Description = in.Text()
			case key == "input_schema" && object:
				// What is null, or is not known, is passed over: a client may send back more than
				// it was given.
				tool.Schema = compact(in.Raw())
			case key == "annotations" && object:
				tool.Annotations = compact(in.Raw())
			default:
				in.Skip()
			}
			return true
		})
		out = append(out, tool)
	})
	return out
}

// compact returns JSON without white space, apart from the request's body.
func compact(raw json.RawMessage) json.RawMessage { return wire.AppendCompact(nil, raw) }

// checkServed refuses an answer to no request. Other items that lack something say nothing to a
// model.
func (it *Item) checkServed(in *wire.Reader) {
	if it.Type == ItemApprovalResponse && it.Served.Approval == "" && !in.Failed() {
		in.Missing("approval_request_id")
	}
}

// saysServed is Says of such items: their ids say enough, where they were kept.
func (it *Item) saysServed(sent *Item) bool {
	own, theirs := it.Served, sent.Served
	switch {
	case it.Type != sent.Type || own == nil || theirs == nil:
		return false
	case sent.ID != "":
		return it.ID == sent.ID
	case it.Type == ItemWebSearch:
		return own.Action.Type == theirs.Action.Type && own.Action.Query == theirs.Action.Query && own.Action.URL == theirs.Action.URL && own.Action.Pattern == theirs.Action.Pattern
	}
	return it.Arguments == sent.Arguments && it.Name == sent.Name && own.Label == theirs.Label
}

// clearServed returns the item as it is before anything is known of its call.
func (it Item) clearServed() Item {
	blank := Served{Label: it.Served.Label, Container: it.Served.Container, Approval: it.Served.Approval, Action: Action{Type: it.Served.Action.Type}}
	it.Arguments, it.Served = "", &blank
	return it
}

// finished returns the status that an item of a type ends with, given how its call did; "" = it has
// none.
func finished(kind, status string) string {
	switch {
	case kind == ItemMCPTools || kind == ItemApprovalRequest || kind == ItemApprovalResponse:
		return ""
	case kind == ItemWebSearch && status == StatusIncomplete:
		return StatusFailed
	}
	return status
}

// servedStatuses are those that items of calls may have.
var servedStatuses = map[string][]string{
	ItemWebSearch: {StatusInProgress, StatusSearching, StatusCompleted, StatusFailed},
	ItemCode:      {StatusInProgress, StatusInterpreting, StatusCompleted, StatusIncomplete, StatusFailed},
	ItemMCPCall:   {StatusInProgress, "calling", StatusCompleted, StatusIncomplete, StatusFailed},
}

// settle gives an item of a client a status that its type has.
func (it *Item) settle() {
	if allowed := servedStatuses[it.Type]; !slices.Contains(allowed, it.Status) {
		it.Status = ""
		if allowed != nil {
			it.Status = StatusCompleted
		}
	}
}

// Arguments returns the call by which a browser does it, as far as the item says that.
func (a *Action) Arguments() string {
	member, text := "query", a.Query
	switch a.Type {
	case "open_page":
		member, text = "id", a.URL
	case "find_in_page":
		member, text = "pattern", a.Pattern
	}
	return string(append(wire.AppendString(append(wire.AppendString([]byte{'{'}, member), ':'), text), '}'))
}
