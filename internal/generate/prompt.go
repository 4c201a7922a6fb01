package generate

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"ossian/internal/chat"
	"ossian/internal/host"
	"ossian/internal/metrics"
	"ossian/internal/token"
	"ossian/internal/wire"
)

// Roles are those of messages, by their names in requests.
var Roles = map[string]chat.Role{"system": chat.System, "developer": chat.Developer, "user": chat.User, "assistant": chat.Assistant, "tool": chat.ToolRole}

// Render returns the prompt of a conversation that came in a field of the request.
func (s *Service) Render(model *host.Model, param string, conv *chat.Conversation) (*token.Prompt, error) {
	if model.Format == nil {
		return nil, wire.Unsupported(param, "this model has no chat template: use /v1/completions")
	}
	prompt := model.Tokenizer.Prompt()
	if err := model.Format.Render(prompt, conv); err != nil {
		if _, ok := errors.AsType[*chat.Error](err); !ok {
			s.cfg.Log.Warn("chat template failed", "error", err)
			err = wire.Invalid(param, "the model's chat template cannot write this conversation")
		}
		return nil, err
	}
	return prompt, nil
}

// Known returns what parsers have to know of a conversation: a stream does not keep
// the request's body.
func Known(conv *chat.Conversation) *chat.Conversation {
	known := *conv
	known.Response = nil // part of the body
	if known.Turns = nil; conv.Continue {
		known.Turns = conv.Turns[len(conv.Turns)-1:]
	}
	known.Tools = make([]chat.Tool, len(conv.Tools))
	for i := range conv.Tools {
		known.Tools[i] = chat.Tool{Name: conv.Tools[i].Name, Input: conv.Tools[i].Input}
	}
	known.Vars = json.RawMessage(bytes.Clone(conv.Vars))
	return &known
}

// Text returns the prompt of a text as it is: names of control tokens in it are
// control tokens (api.md 4).
func Text(tok *token.BPE, text string, special *bool) *token.Prompt {
	prompt := tok.Prompt()
	if special == nil || *special {
		prompt.Begin(text)
	}
	prompt.Markup(text)
	return prompt
}

// A Room is what a request says of the length of its prompt.
type Room struct {
	Param    string // the field that has the prompt
	Truncate *int64 // truncate_prompt_tokens: only so many of the last ones; -1 = as many as fit; nil = all
	Output   *int64 // tokens of output asked for; nil = as many as fit
}

// Encode returns the ids of a prompt, or says that they are too many. Where the bytes
// alone show it, nothing is encoded: a body can hold millions of tokens.
func (s *Service) Encode(model *host.Model, prompt *token.Prompt, room Room) (ids []int32, dropped int, err error) {
	if n := prompt.AtLeast(); room.Truncate == nil && n >= model.Engine.Capacity() {
		return nil, 0, s.tooLong(model, room, fmt.Sprintf("at least %d", n))
	}
	return s.Fit(model, prompt.IDs(), room)
}

// Fit applies truncate_prompt_tokens, says how many tokens that dropped, and refuses a
// prompt that leaves no room for output (LIF-7).
func (s *Service) Fit(model *host.Model, ids []int32, room Room) (fits []int32, dropped int, err error) {
	capacity := model.Engine.Capacity()
	most := capacity - 1
	if room.Output != nil {
		most = int(max(int64(capacity)-*room.Output, 1))
	}
	ids, dropped = truncate(ids, room.Truncate, most)
	if len(ids) >= capacity {
		return nil, dropped, s.tooLong(model, room, strconv.Itoa(len(ids)))
	}
	return ids, dropped, nil
}

// truncate drops tokens from the start of a prompt and returns how many; with last -1
// those beyond most.
func truncate(ids []int32, last *int64, most int) ([]int32, int) {
	if last == nil {
		return ids, 0
	}
	length := int(*last)
	if *last < 0 {
		length = most
	}
	dropped := max(len(ids)-length, 0)
	return ids[dropped:], dropped
}

// tooLong refuses a prompt that leaves no room for output, with the counts (LIF-7). It
// begins as OpenAI's message does: clients that cannot see the code look for those words.
func (s *Service) tooLong(model *host.Model, room Room, tokens string) *wire.Error {
	s.reject(model, metrics.RejectTooLong, 0)
	asked := "as many as fit"
	if room.Output != nil {
		asked = strconv.FormatInt(*room.Output, 10)
	}
	return &wire.Error{Message: fmt.Sprintf("This model's maximum context length is %d tokens, prompt and output together. The prompt has %s tokens and %s of output were asked for: shorten the prompt, so that there is room for at least one", model.Engine.Capacity(), tokens, asked),
		Type: wire.TypeInvalidRequest, Param: room.Param, Code: wire.CodeContextLength}
}
