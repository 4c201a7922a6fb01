package responses

import (
	"cmp"
	"encoding/json"

	"ossian/internal/generate"
	"ossian/internal/tools"
	"ossian/internal/wire"
	"ossian/internal/wire/response"
)

// A call is one of the server's tools whose item is open.
type call struct {
	index int
	asked bool // its item is a request for approval, of which nothing was told yet
	code  code
}

// listTools tells what the servers of the request have, where the conversation does not say it.
func (m *maker) listTools(dst []byte) []byte {
	for i := range m.req.listed {
		of := &m.req.listed[i]
		if m.req.told[of.Label] {
			continue
		}
		it := m.identified(response.Item{Type: response.ItemMCPTools})
		it.Served = &response.Served{Label: of.Label, Tools: []response.Listed{}, Problem: of.Problem}
		for k := range of.Tools {
			it.Served.Tools = append(it.Served.Tools, listedTool(&of.Tools[k]))
		}
		dst, m.changed = m.object.End(m.object.Begin(dst, it), response.StatusCompleted), true
	}
	return dst
}

func listedTool(tool *tools.Tool) response.Listed {
	schema := json.RawMessage(`{"type":"object","properties":{}}`)
	for _, known := range []json.RawMessage{tool.Parameters, tool.Listed} {
		if known != nil {
			schema = known
		}
	}
	return response.Listed{Name: tool.Name, Description: tool.Description, Schema: schema, Annotations: tool.Annotations}
}

// holds keeps a delta for later if another call's item is open: items are told one after another,
// and calls of one step begin before the first of them runs.
func (m *maker) holds(delta *generate.Delta) bool {
	if m.call == nil || (delta.Tool != nil && delta.Tool.Index == m.call.index) {
		return false
	}
	m.held = append(m.held, *delta)
	return true
}

// tool appends what a delta says of a call that the server runs.
func (m *maker) tool(dst []byte, delta *generate.Delta) []byte {
	made := delta.Tool
	if m.call == nil && delta.Field != generate.ToolArguments { // calls that waited for the client begin when they run
		dst = m.begin(dst, made)
	}
	switch delta.Field {
	case generate.ToolArguments:
		dst = m.object.Add(dst, m.call.code.more(delta.Text), nil)
	case generate.ToolRuns:
		dst = m.object.Run(m.coded(m.unasked(dst), made.Arguments), made.Arguments)
	case generate.ToolEnds:
		dst = m.ends(dst, delta)
	case generate.ToolAsks:
		if m.trail.Asked == nil {
			m.trail.Asked = map[string]string{}
		}
		m.trail.Asked[m.object.Open()] = made.Recipient
		m.asking = true
		dst = m.coded(dst, made.Arguments)
		dst = m.release(m.object.End(dst, response.StatusCompleted))
	}
	return dst
}

// begin opens the item of a call.
func (m *maker) begin(dst []byte, made *generate.ToolCall) []byte {
	it := response.Item{Type: response.ItemMCPCall, Name: made.Tool, Served: &response.Served{Approval: made.Approval, Label: made.Recipient}}
	m.call = &call{index: made.Index}
	if made.Tool == "" {
		it.Name = made.Recipient
	}
	switch offer := made.Offer; {
	case offer == nil:
	case m.asking || (made.Approval == "" && offer.Approve != nil && offer.Approve(made.Tool)):
		// With a call that the client is asked about, all behind it in its step wait.
		it.Type, m.call.asked = response.ItemApprovalRequest, true
		it.Served.Label = cmp.Or(offer.Label, offer.Namespace.Name)
	case offer.Kind == tools.Browser:
		it.Type, it.Name = response.ItemWebSearch, ""
		it.Served.Action.Type = cmp.Or(actions[made.Tool], "search")
	case offer.Kind == tools.Python:
		it.Type, it.Name = response.ItemCode, ""
		it.Served.Container = m.container
	default:
		it.Served.Label = offer.Label
	}
	m.call.code.json = made.Tool == "" && (it.Type == response.ItemMCPCall || it.Type == response.ItemApprovalRequest)
	return m.object.Begin(dst, m.identified(it))
}

// coded completes the arguments of a call whose text is code.
func (m *maker) coded(dst []byte, text string) []byte {
	rest := m.call.code.rest(text)
	if rest == "" {
		return dst
	}
	return m.object.Add(dst, rest, nil)
}

// unasked makes a call of what would have been a request for approval: it is answered without.
func (m *maker) unasked(dst []byte) []byte {
	if !m.call.asked {
		return dst
	}
	m.call.asked = false
	return m.object.Unask(dst, m.h.front.NewID((&response.Item{Type: response.ItemMCPCall}).IDPrefix()))
}

// actions are what a browser's functions do, in the words of the API.
var actions = map[string]string{"open": "open_page", "find": "find_in_page"}

// ends closes the item of a call with what it gave.
func (m *maker) ends(dst []byte, delta *generate.Delta) []byte {
	gave := delta.Tool.Result
	if dst = m.unasked(dst); gave == nil || delta.Cut {
		return m.release(m.object.End(dst, response.StatusIncomplete))
	}
	m.served = append(m.served, result{Item: m.object.Open(), Recipient: delta.Tool.Recipient})
	m.object.Served(func(it *response.Item) {
		m.fill(it, gave)
		m.keep(it, gave)
	})
	status := response.StatusCompleted
	switch {
	case gave.Outcome == tools.Cancelled && !delta.Tool.Declined:
		status = response.StatusIncomplete
	case gave.Outcome != tools.Done:
		status = response.StatusFailed
	}
	return m.release(m.object.End(dst, status))
}

// fill says in an item what its call gave, as far as the request wants to see it.
func (m *maker) fill(it *response.Item, gave *tools.Result) {
	served, output := it.Served, gave.Output
	if output == "" {
		output = gave.Text
	}
	switch it.Type {
	case response.ItemCode:
		if gave.Container != "" {
			served.Container, m.container = gave.Container, gave.Container
		}
		if m.req.Includes(codeOutputs) {
			served.Logs = []string{output}
		}
	case response.ItemWebSearch:
		m.fillSearch(served, gave.Action)
	case response.ItemMCPCall:
		// A call has an output or an error: what a tool printed before it failed is the error's
		// message.
		if gave.Outcome == tools.Done {
			served.Output = wire.Ptr(output)
			return
		}
		served.Error = &response.CallError{Type: "mcp_tool_execution_error", Message: output}
		if failure := gave.Failure; failure != nil {
			served.Error = &response.CallError{Type: failure.Type, Code: failure.Code, Message: failure.Message}
		}
	}
}

func (m *maker) fillSearch(served *response.Served, did *tools.Action) {
	if did == nil { // what the call was meant for has to do
		did = &tools.Action{}
	} else {
		served.Action = response.Action{Type: did.Type, Query: did.Query, Pattern: did.Pattern, URL: did.URL}
	}
	if m.req.Includes(searchSources) && served.Action.Type != "open_page" && served.Action.Type != "find_in_page" {
		served.Action.Sources = urlsOf(did.Sources)
	}
	if m.req.Includes(searchResults) {
		served.Results = resultsOf(did.Sources)
	}
}

// release goes on with what has waited for the item that was open.
func (m *maker) release(dst []byte) []byte {
	held := m.held
	m.call, m.held, m.changed = nil, nil, true
	for i := range held {
		if !m.holds(&held[i]) {
			dst = m.play(dst, &held[i])
		}
	}
	return dst
}

// cut ends what is open, and what has waited for it.
func (m *maker) cut(dst []byte, status string) []byte {
	if m.call != nil {
		dst, status = m.unasked(dst), response.StatusIncomplete
	}
	for dst = m.object.End(dst, status); len(m.held) > 0; dst = m.object.End(dst, response.StatusIncomplete) {
		if dst = m.release(dst); m.call != nil {
			dst = m.unasked(dst)
		}
	}
	m.call = nil
	return dst
}

// dropIDs forgets the ids of the latest step, the last one.
func (m *maker) dropIDs() {
	n := len(m.trail.Steps)
	if n == 0 {
		m.ids = nil
		return
	}
	last := &m.trail.Steps[n-1]
	m.ids, last.IDs = m.ids[:len(m.ids)-last.IDs], 0
}
