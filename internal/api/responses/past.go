package responses

import (
	"fmt"
	"strings"

	"ossian/internal/chat"
	"ossian/internal/tools"
	"ossian/internal/wire"
	"ossian/internal/wire/response"
)

// Calls of the server's tools in what a conversation says so far.

// A question is a call that a response ended with, for the client to agree to.
type question struct {
	id, recipient, arguments string
	label                    string
	replied                  bool // the client has said what is to become of it
	agreed                   bool
	reason                   string
	path                     string // of the reply, in this request; "" = an earlier one has it
	turns                    int    // how many there were when it came
	settled                  bool   // the conversation has its result
}

// served adds a call that the server ran, with what it gave. What is not known of it any more is
// left out: models are shown no call without a result.
func (past *history) served(it *response.Item, at int) {
	gave, known := past.gave[it.ID]
	if !known {
		gave, known = past.told(it)
	}
	past.placed(it)
	if !known {
		return
	}
	if asked := past.asked[it.Approval()]; asked != nil { // the call is there already
		past.settle(asked, gave.Text)
		return
	}
	id := past.call(it, gave.Recipient, at)
	past.append(chat.Turn{Role: chat.ToolRole, CallID: id, Parts: []string{gave.Text}}, -1)
}

// placed notes where code ran.
func (past *history) placed(it *response.Item) {
	if it.Type == response.ItemCode && it.Served.Container != "" {
		past.container = it.Served.Container
	}
}

// call adds a call without its result, and returns its id.
func (past *history) call(it *response.Item, recipient string, at int) string {
	call := chat.Call{ID: it.ID, Name: recipient, Builtin: true, Arguments: it.Arguments, Text: it.Type == response.ItemCode}
	if it.Type != response.ItemCode {
		call.Arguments, call.Text = codeOf(recipient, it.Arguments)
	}
	if call.ID == "" {
		call.ID = fmt.Sprintf("input[%d]", at)
	}
	if it.Type == response.ItemWebSearch && it.Arguments == "" {
		call.Arguments = it.Served.Action.Arguments()
	}
	past.calls(call, at)
	return call.ID
}

// told returns what an item itself says that a call gave: clients that keep conversations
// themselves send it back.
func (past *history) told(it *response.Item) (gave result, known bool) {
	switch served := it.Served; {
	case it.Type == response.ItemCode && served.Logs != nil:
		return result{Recipient: past.recipient(tools.Python, "", ""), Text: strings.Join(served.Logs, "\n")}, true
	case it.Type == response.ItemMCPCall && served.Output != nil:
		return result{Recipient: past.recipient(tools.MCP, served.Label, it.Name), Text: *served.Output}, true
	case it.Type == response.ItemMCPCall && served.Error != nil:
		return result{Recipient: past.recipient(tools.MCP, served.Label, it.Name), Text: served.Error.Message}, true
	}
	return gave, false
}

// recipient returns whom a call is for: of a server that is not offered what it would be called.
func (past *history) recipient(kind tools.Kind, label, tool string) string {
	space := label
	if kind == tools.Python {
		space = "python"
	}
	for i := range past.offers {
		offer := &past.offers[i]
		if offer.Kind != kind || offer.Label != label {
			continue
		}
		if space = offer.Namespace.Name; len(offer.Namespace.Tools) == 0 {
			return space
		}
		break
	}
	if tool == "" {
		return space
	}
	return space + "." + tool
}

// ask adds a call that waits for the client's word.
func (past *history) ask(it *response.Item, at int) {
	asked := &question{id: it.ID, arguments: it.Arguments, label: it.Served.Label, recipient: past.waiting[it.ID]}
	if asked.recipient == "" {
		asked.recipient = past.recipient(tools.MCP, it.Served.Label, it.Name)
	}
	if past.asked == nil {
		past.asked = map[string]*question{}
	}
	asked.arguments, _ = codeOf(asked.recipient, asked.arguments)
	past.asked[it.ID] = asked
	past.questions = append(past.questions, asked)
	past.call(it, asked.recipient, at)
}

// reply takes the client's word. Which item of this request it is, at says; -1 = of an earlier one.
func (past *history) reply(it *response.Item, at int) {
	asked := past.asked[it.Served.Approval]
	path := ""
	if at >= 0 {
		path = fmt.Sprintf("input[%d].approval_request_id", at)
	}
	switch {
	case asked == nil:
		past.fault(path, fmt.Sprintf("no request for approval has the id %.100q: send the item with the request back, or go on from its response by previous_response_id", it.Served.Approval))
	case asked.settled || asked.replied:
		past.fault(path, "the request for approval was answered before")
	default:
		asked.replied, asked.agreed, asked.reason, asked.path, asked.turns = true, it.Served.Approved, it.Served.Reason, path, len(past.turns)
	}
}

// fault notes what is wrong with this request.
func (past *history) fault(path, problem string) {
	if past.problem == nil && path != "" {
		past.problem = wire.Invalid(path, problem)
	}
}

// declined is the result of a call that the client did not agree to. Models know it with a reason
// behind it.
const declined = "The user declined this tool call."

// settle adds the result of a call that waited for the client.
func (past *history) settle(asked *question, text string) {
	if !asked.settled {
		asked.settled = true
		past.append(chat.Turn{Role: chat.ToolRole, CallID: asked.id, Parts: []string{text}}, -1)
	}
}

// settleAll ends what still waits, before the conversation goes on without an answer.
func (past *history) settleAll() {
	for _, asked := range past.questions {
		switch {
		case asked.settled:
		case asked.path != "":
			past.fault(asked.path, notLast)
		case !asked.replied || !asked.agreed:
			past.settle(asked, declined)
		default: // the response that ran it was broken off
			past.settle(asked, "Error: the call was interrupted.")
		}
	}
	past.questions = nil
}

const notLast = "the answer to a request for approval has to end the input: what follows it would be read before the call's result"

// agreed returns the calls that the conversation ends with and that the client has answered now.
func (past *history) agreed() (now []*question, err error) {
	var rest []*question
	for _, asked := range past.questions {
		switch {
		case asked.settled || !asked.replied || asked.path == "":
			rest = append(rest, asked)
		case asked.turns != len(past.turns):
			past.fault(asked.path, notLast)
		default:
			now = append(now, asked)
		}
	}
	if past.problem != nil {
		return nil, past.problem
	}
	past.questions = rest
	past.settleAll()
	return now, nil
}
