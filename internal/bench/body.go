package bench

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"ossian/internal/bench/dataset"
	"ossian/internal/wire"
)

// A Member is a member of a request body.
type Member struct {
	Name  string
	Value json.RawMessage
}

// An api is a shape of requests and events.
type api uint8

const (
	completions api = iota
	chat
	responses
)

// apiOf returns what a backend speaks. The names with -chat and -oai are those of
// LMDeploy and SGLang.
func apiOf(backend string) (api, error) {
	switch backend {
	case "openai", "vllm", "ossian", "lmdeploy", "sglang-oai":
		return completions, nil
	case "openai-chat", "vllm-chat", "ossian-chat", "lmdeploy-chat", "sglang-oai-chat":
		return chat, nil
	case "openai-responses":
		return responses, nil
	}
	return 0, fmt.Errorf("backend %q: want openai, openai-chat, openai-responses, vllm, vllm-chat, lmdeploy, lmdeploy-chat, sglang-oai or sglang-oai-chat", backend)
}

// What stands for the values that differ from query to query.
const (
	promptSlot = "\x00prompt"
	outputSlot = "\x00output"
)

// template returns the members of the body that all queries share, in the order of
// bench.md 1.4 and 4.1: base, ignore_eos, sampling, extra; the later wins.
func (c *HTTPConfig) template(a api) ([]Member, error) {
	members := c.base(a)
	if s := c.Setup; s.IgnoreEOS && !s.Profile.plain() {
		members = set(members, "ignore_eos", "true")
	}
	for _, m := range c.Sampling {
		if !json.Valid(m.Value) {
			return nil, fmt.Errorf("%s: %q is not JSON", m.Name, m.Value)
		}
		members = set(members, m.Name, string(m.Value))
	}
	return merge(members, c.Extra)
}

func (c *HTTPConfig) base(a api) []Member {
	s := c.Setup
	greedy := s.Profile == VLLM011 || s.Profile.plain()
	prompt := [...]string{completions: "prompt", chat: "messages", responses: "input"}[a]
	limit := [...]string{completions: "max_tokens", chat: "max_completion_tokens", responses: "max_output_tokens"}[a]
	var m []Member
	add := func(when bool, name, value string) {
		if when {
			m = append(m, Member{name, json.RawMessage(value)})
		}
	}
	add(true, "model", string(wire.AppendString(nil, s.Model)))
	add(true, prompt, promptSlot)
	add(greedy, "temperature", "0.0")
	if s.Profile.plain() {
		add(a == completions, "best_of", "1")
		add(true, limit, outputSlot)
		add(true, "stream", strconv.FormatBool(s.Stream))
		add(true, "ignore_eos", strconv.FormatBool(s.IgnoreEOS))
	} else {
		add(a == completions, "repetition_penalty", "1.0")
		add(true, limit, outputSlot)
		add(a == completions || (a == chat && c.Logprobs != nil), "logprobs", c.logprobs(a))
		add(a == chat && c.Logprobs != nil, "top_logprobs", c.logprobs(completions))
		add(true, "stream", strconv.FormatBool(s.Stream))
		add(a == responses, "store", "false")
		add(a != responses && s.Stream, "stream_options", `{"include_usage":true}`)
	}
	add(a == chat && needsMaxTokens(s.Dialect), "max_tokens", outputSlot)
	return m
}

// needsMaxTokens reports whether chat at a server of that dialect is bounded by
// max_tokens only. Ollama does not know max_completion_tokens (its issue 7125) and would
// generate without end; llama.cpp learnt it late. Both ignore members that they do not
// know; TensorRT-LLM refuses those, and this one beside its newer name, so it stays out
// everywhere else.
func needsMaxTokens(dialect string) bool {
	return dialect == "ollama" || dialect == "llama.cpp"
}

// logprobs is the value of that member: a number for completions (null = none), a
// switch for chat.
func (c *HTTPConfig) logprobs(a api) string {
	switch {
	case c.Logprobs == nil:
		return "null"
	case a == chat:
		return "true"
	}
	return strconv.Itoa(*c.Logprobs)
}

// set gives a member its value, in its place if it has one.
func set(members []Member, name, value string) []Member {
	for i := range members {
		if members[i].Name == name {
			members[i].Value = json.RawMessage(value)
			return members
		}
	}
	return append(members, Member{name, json.RawMessage(value)})
}

// merge lets the members of a JSON object replace those of the same name; others follow
// in their order. No object changes nothing.
func merge(members []Member, object json.RawMessage) ([]Member, error) {
	if len(object) == 0 {
		return members, nil
	}
	if !json.Valid(object) || bytes.TrimLeft(object, " \t\r\n")[0] != '{' {
		return nil, fmt.Errorf("%s: want a JSON object whose members join the body", brief(object))
	}
	d := json.NewDecoder(bytes.NewReader(object))
	if _, err := d.Token(); err != nil {
		return nil, err
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, err
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, err
		}
		members = set(members, name.(string), string(value)) // a name of a member is a string
	}
	return members, nil
}

// appendBody appends the request body for q.
func (h *HTTP) appendBody(dst []byte, q *dataset.Query) ([]byte, error) {
	members := h.members
	if len(q.Body) > 0 {
		var err error
		if members, err = merge(append([]Member(nil), members...), q.Body); err != nil {
			return nil, err
		}
	}
	before := byte('{')
	for _, m := range members {
		dst = append(wire.AppendString(append(dst, before), m.Name), ':')
		before = ','
		switch string(m.Value) {
		case promptSlot:
			var err error
			if dst, err = h.appendPrompt(dst, q); err != nil {
				return nil, err
			}
		case outputSlot:
			dst = strconv.AppendInt(dst, int64(q.Output), 10)
		default:
			dst = append(dst, m.Value...)
		}
	}
	return append(dst, '}'), nil
}

var errPrompt = errors.New("want exactly one of a prompt, token ids and messages")

// appendPrompt appends the value that carries the prompt of q.
func (h *HTTP) appendPrompt(dst []byte, q *dataset.Query) ([]byte, error) {
	switch ids, messages := q.IDs != nil, q.Messages != nil; {
	case (ids && messages) || (q.Prompt != "" && (ids || messages)):
		return nil, errPrompt
	case ids && h.api != completions:
		return nil, errors.New("token ids can only be sent to completions; use another backend or a workload with text")
	case ids:
		dst = append(dst, '[')
		for i, id := range q.IDs {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = strconv.AppendInt(dst, int64(id), 10)
		}
		return append(dst, ']'), nil
	case messages && h.api == completions:
		return nil, errors.New("messages cannot be sent to completions; use backend openai-chat or a workload with text")
	case messages:
		return append(dst, q.Messages...), nil
	case h.api != chat:
		return wire.AppendString(dst, q.Prompt), nil
	}
	return append(appendUser(append(dst, '['), q.Prompt, h.setup.Profile.plain()), ']'), nil
}
