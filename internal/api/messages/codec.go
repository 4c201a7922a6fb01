package messages

import (
	"ossian/internal/api"
	"ossian/internal/chat"
	"ossian/internal/generate"
	"ossian/internal/host"
	"ossian/internal/wire"
	"ossian/internal/wire/messages"
)

// A codec writes one reply (api.Encoder).
type codec struct {
	front     *api.Front
	requestID string
	reply     messages.Reply
	shown     bool // reasoning
	usage     wire.Usage
	last      *generate.Answer
}

func (h *Handler) codec(w *api.Reply, req *messages.Request, model *host.Model, prompt int) *codec {
	name := req.Chat.Model // one of several, perhaps: clients look for the one that they asked for
	if name == "" {
		name = model.Name
	}
	return &codec{front: h.front, requestID: w.ID, shown: req.Thinking, reply: messages.Reply{ID: h.front.NewID("msg_"), Model: name, InputTokens: prompt}}
}

// body is the reply of a request that does not stream, once it is complete.
func (c *codec) body() []byte { return c.reply.Append(nil, &c.usage) }

// Begin implements api.Encoder.
func (c *codec) Begin(dst []byte, _ int, _ *wire.Usage) []byte { return c.reply.Begin(dst) }

// Chunk implements api.Encoder.
func (c *codec) Chunk(dst []byte, _ int, delta *generate.Delta, _ []int32, _ *wire.Usage) []byte {
	switch delta.Field {
	case generate.ItemBegins:
		if delta.Part != chat.Reasoning {
			return c.reply.Start(dst, messages.Text, "", "")
		}
		if c.shown {
			return c.reply.Start(dst, messages.Thinking, "", "")
		}
		return dst
	case generate.CallName:
		return c.reply.Start(dst, messages.ToolUse, c.front.NewID("toolu_"), delta.Text)
	case generate.ItemEnds:
		return c.reply.Stop(dst)
	}
	return c.reply.Add(dst, delta.Text)
}

// End implements api.Encoder.
func (c *codec) End(dst []byte, _ int, answer *generate.Answer, _ *wire.Usage) []byte {
	c.last = answer
	return c.reply.Stop(dst)
}

// Finish implements api.Encoder.
func (c *codec) Finish(dst []byte, usage *wire.Usage) []byte {
	c.usage = *usage
	switch {
	case c.last.Finish == wire.FinishLength:
		c.reply.StopReason = "max_tokens"
	case c.last.Stop.Text != "":
		c.reply.StopReason, c.reply.StopText = "stop_sequence", c.last.Stop.Text
	case c.last.Finish == wire.FinishToolCalls:
		c.reply.StopReason = "tool_use"
	default:
		c.reply.StopReason = "end_turn"
	}
	return c.reply.Finish(dst, usage)
}

// Fail implements api.Encoder.
func (c *codec) Fail(dst []byte, err *wire.Error) []byte {
	return messages.AppendErrorEvent(dst, err, c.requestID)
}
