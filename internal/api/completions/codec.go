package completions

import (
	"ossian/internal/api"
	"ossian/internal/generate"
	"ossian/internal/host"
	"ossian/internal/wire"
)

// A codec writes completion replies (api.Codec).
type codec struct {
	head      wire.Head
	stream    *wire.CompletionStream
	logprobs  bool
	promptIDs [][]int32             // of each choice, until they are sent; nil = not asked for
	offsets   []int                 // code points that each choice has had
	choice    wire.CompletionChoice // of the chunk being written
}

func (h *Handler) codec(req *wire.CompletionRequest, model *host.Model, prompts [][]int32) *codec {
	perPrompt := int(req.Choices())
	made := &codec{head: h.front.Head("cmpl-", req.RequestID, model), logprobs: req.Logprobs != nil, offsets: make([]int, len(prompts)*perPrompt)}
	if req.ReturnTokenIDs {
		for i := range made.offsets {
			made.promptIDs = append(made.promptIDs, prompts[i/perPrompt])
		}
	}
	made.stream = wire.NewCompletionStream(made.head, req.StreamOptions)
	return made
}

// Begin implements api.Encoder: nothing opens a choice.
func (c *codec) Begin(dst []byte, _ int, _ *wire.Usage) []byte { return dst }

// Chunk implements api.Encoder.
func (c *codec) Chunk(dst []byte, i int, d *generate.Delta, ids []int32, usage *wire.Usage) []byte {
	c.choice = wire.CompletionChoice{Text: d.Text, TokenIDs: ids, PromptIDs: c.prompt(i), Logprobs: c.lists(i, d.Logprobs)}
	return c.stream.Append(dst, i, &c.choice, usage)
}

// Close implements api.Closer: as with other servers of this API the last text has the reason.
func (c *codec) Close(dst []byte, i int, d *generate.Delta, answer *generate.Answer, usage *wire.Usage) []byte {
	c.choice = wire.CompletionChoice{Text: d.Text, Finish: answer.Finish, Stop: answer.Stop, Empty: answer.EmptyReason(), TokenIDs: answer.NewIDs, PromptIDs: c.prompt(i),
		Logprobs: c.lists(i, d.Logprobs)}
	return c.stream.Append(dst, i, &c.choice, usage)
}

// End implements api.Encoder: no text came with the end, or it was sent.
func (c *codec) End(dst []byte, i int, answer *generate.Answer, usage *wire.Usage) []byte {
	c.choice = wire.CompletionChoice{Finish: answer.Finish, Stop: answer.Stop, Empty: answer.EmptyReason(), TokenIDs: answer.NewIDs, PromptIDs: c.prompt(i)}
	return c.stream.Append(dst, i, &c.choice, usage)
}

// prompt returns the ids of a choice's prompt for its first chunk.
func (c *codec) prompt(choice int) []int32 {
	if c.promptIDs == nil {
		return nil
	}
	ids := c.promptIDs[choice]
	c.promptIDs[choice] = nil
	return ids
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
	reply := wire.CompletionReply{Head: c.head, Usage: usage}
	for i := range choices {
		choice, answer := &choices[i], answers[i]
		reply.Choices = append(reply.Choices, wire.CompletionChoice{Text: choice.Content.String(), Logprobs: c.lists(i, choice.Logprobs), Finish: answer.Finish, Stop: answer.Stop,
			Empty: answer.EmptyReason(), TokenIDs: answer.NewIDs, PromptIDs: c.prompt(i), PromptLogprobs: answer.PromptLogprobs})
	}
	return reply.Append(dst)
}

// lists turns entries into the parallel lists of this API, one entry for each token of
// the text and for those that are not shown: evaluations count on that. The chosen
// token is always among its alternatives; what has no log probability has none.
func (c *codec) lists(choice int, entries []wire.TokenLogprob) *wire.CompletionLogprobs {
	if !c.logprobs {
		return nil
	}
	lists := &wire.CompletionLogprobs{}
	for k := range entries {
		entry := &entries[k]
		lists.Tokens = append(lists.Tokens, entry.Token)
		lists.Logprob = append(lists.Logprob, entry.Logprob)
		top := append(entry.Top, wire.TokenLogprob{Token: entry.Token, Logprob: entry.Logprob})
		if entry.Logprob != entry.Logprob { // not a number: the first token of a prompt
			top = nil
		}
		lists.Top = append(lists.Top, top)
		lists.Offset = append(lists.Offset, c.offsets[choice])
		for _, b := range []byte(entry.Bytes) {
			if b&0xc0 != 0x80 { // the first byte of a character
				c.offsets[choice]++
			}
		}
	}
	return lists
}
