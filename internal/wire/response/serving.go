package response

import (
	"encoding/json"
	"strconv"
	"strings"

	"ossian/internal/wire"
)

// Events of tools that the server runs (api.md 3.3). A call is written while it is made: it
// begins when it is known whom it goes to, its text comes as it is sampled, then it runs, which
// may take long, and is done with what it gave:
//
//	Begin → Add … → Run → Served → End
//
// A list of tools, and a request for approval, come whole: Begin → End.

// A phase is how far an open call has come.
type phase uint8

const (
	sampled phase = iota // its text is being sampled
	running              // its text is complete
	ended                // that it has completed or failed was told, where there is an event for that
)

// callEvents is what the events of a type begin with.
var callEvents = map[string]string{ItemWebSearch: "web_search_call.", ItemCode: "code_interpreter_call.", ItemMCPCall: "mcp_call.", ItemMCPTools: "mcp_list_tools."}

// runEvents say that a call runs. Calls of MCP have none.
var runEvents = map[string]string{ItemWebSearch: StatusSearching, ItemCode: StatusInterpreting}

// beginServed is Begin of such an item.
func (r *Response) beginServed(dst []byte) []byte {
	own := *r.item.Served
	r.phase, r.item.Served = sampled, &own
	it := r.item
	switch it.Type {
	case ItemApprovalRequest, ItemApprovalResponse: // it is told when it is complete
		r.item.Status = ""
		return dst
	case ItemMCPTools:
		it.Status, it.Served = "", &Served{Label: it.Served.Label}
	default:
		it = it.clearServed()
	}
	whole := r.item
	r.item = it
	dst = r.callEvent(r.itemEvent(dst, "added"), StatusInProgress)
	r.item = whole
	r.item.Status = it.Status
	return dst
}

// callEvent appends an event of the open call.
func (r *Response) callEvent(dst []byte, kind string) []byte {
	return append(r.inPart(r.event(dst, callEvents[r.item.Type]+kind)), "}\n\n"...)
}

// Run appends that the open call runs. Its arguments are those that were added, or the given ones
// where none were.
func (r *Response) Run(dst []byte, arguments string) []byte {
	if !r.open || r.item.Served == nil || r.phase != sampled {
		return dst
	}
	if r.text.Len() == 0 && arguments != "" {
		dst = r.Add(dst, arguments, nil)
	}
	dst = r.endText(dst)
	if event := runEvents[r.item.Type]; event != "" {
		dst = r.callEvent(dst, event)
	}
	return dst
}

// endText says that the text of the open call is complete.
func (r *Response) endText(dst []byte) []byte {
	if r.phase != sampled {
		return dst
	}
	r.phase, r.item.Arguments = running, r.text.String()
	if r.item.Type == ItemWebSearch { // the item says in its action what the text does
		r.item.Served.Action = r.item.Served.Action.from(r.item.Arguments)
		r.item.Arguments = ""
	}
	name := map[string]string{ItemMCPCall: "arguments", ItemCode: "code"}[r.item.Type]
	if name == "" {
		return dst
	}
	dst = r.inPart(r.event(dst, itemEvents[r.item.Type]+"done"))
	dst = append(append(append(dst, `,"`...), name...), `":`...)
	return append(wire.AppendString(dst, r.item.Arguments), "}\n\n"...)
}

// from returns the action with what arguments of a call say of it.
func (a Action) from(arguments string) Action {
	var said struct {
		Query   string `json:"query"`
		Pattern string `json:"pattern"`
		ID      any    `json:"id"` // of open: a number, or an address
	}
	if json.Unmarshal([]byte(arguments), &said) != nil {
		return a
	}
	switch address, _ := said.ID.(string); a.Type {
	case "search":
		a.Query = said.Query
	case "find_in_page":
		a.Pattern = said.Pattern
	case "open_page":
		if strings.Contains(address, ".") { // others are numbers of links
			a.URL = address
		}
	}
	return a
}

// Served changes what is said of the open call: what it gave.
func (r *Response) Served(fill func(it *Item)) {
	if r.open && r.item.Served != nil {
		fill(&r.item)
	}
}

// Open returns the id of the open item, "" = there is none.
func (r *Response) Open() string {
	if !r.open {
		return ""
	}
	return r.item.ID
}

// Unask makes of the open request for approval, of which nothing was told, a call with that id.
func (r *Response) Unask(dst []byte, id string) []byte {
	if !r.open || r.item.Type != ItemApprovalRequest {
		return dst
	}
	it, text := r.item, r.text.String()
	it.Type, it.ID = ItemMCPCall, id
	r.open = false
	if dst = r.Begin(dst, it); text != "" {
		dst = r.Add(dst, text, nil)
	}
	return dst
}

// endServed is End of such an item.
func (r *Response) endServed(dst []byte, text, status string) []byte {
	it := &r.item
	it.Status = finished(it.Type, status)
	switch it.Type {
	case ItemApprovalRequest:
		if r.phase != sampled { // it was told before a restart
			break
		}
		it.Arguments = text
		dst = r.itemEvent(dst, "added")
	case ItemMCPTools:
		event := StatusCompleted
		if it.Served.Problem != "" {
			event = StatusFailed
		}
		if r.phase != ended {
			dst = r.callEvent(dst, event)
		}
	default:
		dst = r.endText(dst)
		// An incomplete call has no event of its own, and a search none for its failure.
		tells := status == StatusCompleted || (status == StatusFailed && it.Type == ItemMCPCall)
		if tells && r.phase != ended {
			dst = r.callEvent(dst, status)
		}
		r.phase = ended
	}
	dst = r.itemEvent(dst, "done")
	r.Output = append(r.Output, *it)
	return dst
}

// Cite appends that text of the open message, all of which was added before, is a citation.
func (r *Response) Cite(dst []byte, citation Citation) []byte {
	if !r.open || r.item.Type != ItemMessage {
		return dst
	}
	dst = r.inPart(r.event(dst, "output_text.annotation.added"))
	dst = strconv.AppendInt(append(dst, `,"annotation_index":`...), int64(len(r.item.Citations)), 10)
	dst = append(citation.append(append(dst, `,"annotation":`...)), "}\n\n"...)
	r.item.Citations = append(r.item.Citations, citation)
	return dst
}
