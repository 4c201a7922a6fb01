package chat

import (
	"ossian/internal/api"
	"ossian/internal/generate"
	"ossian/internal/host"
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
}

func (h *Handler) codec(req *wire.ChatRequest, model *host.Model, ids []int32, field wire.ReasoningField) *codec {
	c := &codec{front: h.front, head: h.front.Head("chatcmpl-", req.RequestID, model), field: field, logprobs: req.Logprobs, legacy: req.Legacy}
	if req.ReturnTokenIDs {
		c.promptIDs = ids
	}
	c.stream = wire.NewChatStream(c.head, req.StreamOptions, field)
	return c
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
	switch delta.Field {
	case generate.Reasoning:
		c.delta.Reasoning = delta.Text
	case generate.Content:
		c.delta.Content = delta.Text
		c.delta.Logprobs = c.given(delta.Logprobs)
	case generate.CallName:
		c.call = wire.CallDelta{Index: delta.Call, ID: c.front.NewID("call_"), Name: delta.Text, Custom: delta.Custom, Legacy: c.legacy}
		c.delta.Call = &c.call
	case generate.CallArguments:
		c.call = wire.CallDelta{Index: delta.Call, Arguments: delta.Text, Custom: delta.Custom, Legacy: c.legacy}
		c.delta.Call = &c.call
	}
	return c.stream.Append(dst, &c.delta, usage)
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
	c.delta = wire.Delta{Index: i, Finish: c.finish(answer), Stop: answer.Stop, Empty: answer.EmptyReason(), TokenIDs: answer.NewIDs}
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
		for k := range out.Calls {
			out.Calls[k].ID, out.Calls[k].Arguments = c.front.NewID("call_"), choice.Arguments[k].String()
		}
		reply.Choices = append(reply.Choices, out)
	}
	return reply.Append(dst)
}
