package chat

import (
	"ossian/internal/api"
	"ossian/internal/generate"
	"ossian/internal/host"
	"ossian/internal/tools"
	"ossian/internal/wire"
)

// A codec writes chat replies (api.Codec).
type codec struct {
	front     *api.Front
	head      wire.Head
	field     wire.ReasoningField
	stream    *wire.ChatStream
	logprobs  bool
	legacy    bool    // a call is a function_call
	promptIDs []int32 // nil = not asked for or sent
	delta     wire.Delta
	call      wire.CallDelta // of delta

	events bool                 // calls of the server's tools are told
	event  wire.ToolEvent       // of delta
	cited  [][]wire.URLCitation // [choice]
	unsent [][]int32            // [choice]: ids that came with what is not shown
}

func (h *Handler) codec(req *wire.ChatRequest, model *host.Model, ids []int32, field wire.ReasoningField) *codec {
	made := &codec{front: h.front, head: h.front.Head("chatcmpl-", req.RequestID, model), field: field, logprobs: req.Logprobs, legacy: req.Legacy}
	if req.ReturnTokenIDs {
		made.promptIDs = ids
	}
	made.events = req.StreamOptions != nil && req.StreamOptions.ToolEvents
	made.cited, made.unsent = make([][]wire.URLCitation, req.Choices()), make([][]int32, req.Choices())
	made.stream = wire.NewChatStream(made.head, req.StreamOptions, field)
	return made
}

// Begin implements api.Encoder.
func (c *codec) Begin(dst []byte, i int, usage *wire.Usage) []byte {
	c.delta = wire.Delta{Index: i, Role: true, PromptIDs: c.promptIDs}
	c.promptIDs = nil
	return c.stream.Append(dst, &c.delta, usage)
}

// Chunk implements api.Encoder.
func (c *codec) Chunk(dst []byte, i int, delta *generate.Delta, ids []int32, usage *wire.Usage) []byte {
	c.delta = wire.Delta{Index: i, TokenIDs: ids}
	if delta.Tool != nil || delta.Field == generate.Cited {
		return c.tool(dst, i, delta, ids, usage)
	}
	c.delta.TokenIDs = c.ids(i, ids)
	switch delta.Field {
	case generate.Reasoning:
		c.delta.Reasoning = delta.Text
	case generate.Content:
		c.delta.Content = delta.Text
		c.delta.Logprobs = c.given(delta.Logprobs)
	case generate.CallName:
		// Name and id of a call come once, with its first piece; arguments follow under its index.
		c.call = wire.CallDelta{Index: delta.Call, ID: c.front.NewID("call_"), Name: delta.Text, Custom: delta.Custom, Legacy: c.legacy}
		c.delta.Call = &c.call
	case generate.CallArguments:
		c.call = wire.CallDelta{Index: delta.Call, Arguments: delta.Text, Custom: delta.Custom, Legacy: c.legacy}
		c.delta.Call = &c.call
	}
	return c.stream.Append(dst, &c.delta, usage)
}

// tool takes what a delta says of the server's tools. Most of it is not shown.
func (c *codec) tool(dst []byte, i int, delta *generate.Delta, ids []int32, usage *wire.Usage) []byte {
	if delta.Field == generate.Cited {
		c.cited[i] = append(c.cited[i], annotation(delta.Citation))
	} else if c.events && c.tell(delta) {
		c.delta.ToolEvent, c.delta.TokenIDs = &c.event, c.ids(i, ids)
		return c.stream.Append(dst, &c.delta, usage)
	}
	c.unsent[i] = append(c.unsent[i], ids...)
	return dst
}

// ids returns the ids of a chunk: those that came with it, behind those that were not sent.
func (c *codec) ids(i int, ids []int32) []int32 {
	if len(c.unsent[i]) == 0 {
		return ids
	}
	all := append(c.unsent[i], ids...)
	c.unsent[i] = nil
	return all
}

// tell makes an event of a delta, if it is one that is told.
func (c *codec) tell(delta *generate.Delta) bool {
	call := delta.Tool
	c.event = wire.ToolEvent{Index: call.Index, Tool: call.Recipient}
	if call.Offer != nil {
		c.event.Label = call.Offer.Label
	}
	switch delta.Field {
	case generate.ToolBegins:
		c.event.Status = "in_progress"
	case generate.ToolRuns:
		c.event.Status, c.event.Arguments = "running", call.Arguments
	case generate.ToolEnds:
		// A call that was cut, or of which nothing came back, stays incomplete.
		c.event.Status = "incomplete"
		if call.Result != nil && !delta.Cut {
			c.event.Outcome = call.Result.Outcome.String()
			c.event.Status = "failed"
			if call.Result.Outcome == tools.Done {
				c.event.Status = "completed"
			}
		}
	default:
		return false
	}
	return true
}

func annotation(of *generate.Citation) wire.URLCitation {
	return wire.URLCitation{Start: of.Start, End: of.End, URL: of.URL, Title: of.Title}
}

// given returns logprobs as they are sent: not null if they were asked for.
func (c *codec) given(list []wire.TokenLogprob) []wire.TokenLogprob {
	if list == nil && c.logprobs {
		return []wire.TokenLogprob{}
	}
	return list
}

// End implements api.Encoder.
func (c *codec) End(dst []byte, i int, answer *generate.Answer, usage *wire.Usage) []byte {
	c.delta = wire.Delta{Index: i, Finish: c.finish(answer), Stop: answer.Stop, Empty: answer.EmptyReason(), TokenIDs: c.ids(i, answer.NewIDs), Annotations: c.cited[i]}
	return c.stream.Append(dst, &c.delta, usage)
}

// finish returns the reason in the words of the request.
func (c *codec) finish(answer *generate.Answer) string {
	if c.legacy && answer.Finish == wire.FinishToolCalls {
		return wire.FinishFunction
	}
	return answer.Finish
}

// Finish implements api.Encoder.
func (c *codec) Finish(dst []byte, usage *wire.Usage) []byte {
	return append(c.stream.AppendUsage(dst, usage), wire.Done...)
}

// Fail implements api.Encoder.
func (c *codec) Fail(dst []byte, err *wire.Error) []byte {
	return append(wire.AppendErrorEvent(dst, err), wire.Done...)
}

// Reply implements api.Codec.
func (c *codec) Reply(dst []byte, answers []*generate.Answer, choices []api.Choice, usage wire.Usage) []byte {
	reply := wire.ChatReply{Head: c.head, Usage: usage, Field: c.field, Legacy: c.legacy, PromptIDs: c.promptIDs, PromptLogprobs: answers[0].PromptLogprobs}
	for i := range choices {
		choice, answer := &choices[i], answers[i]
		out := wire.ChatChoice{Content: choice.Content.String(), Reasoning: choice.Reasoning.String(), Calls: choice.Calls, Logprobs: c.given(choice.Logprobs),
			Finish: c.finish(answer), Stop: answer.Stop, Empty: answer.EmptyReason(), TokenIDs: answer.NewIDs}
		for k := range choice.Citations {
			out.Annotations = append(out.Annotations, annotation(&choice.Citations[k]))
		}
		for k := range out.Calls {
			out.Calls[k].ID, out.Calls[k].Arguments = c.front.NewID("call_"), choice.Arguments[k].String()
		}
		reply.Choices = append(reply.Choices, out)
	}
	return reply.Append(dst)
}
