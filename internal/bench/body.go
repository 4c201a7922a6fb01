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
// bench.md 1.4 and 4.1: the base, ignore_eos, sampling, extra; the later wins.
func (c *HTTPConfig) template(a api) ([]Member, error) {
	members := c.baseMembers(a)
	if setup := c.Setup; setup.IgnoreEOS && !setup.Profile.plain() {
		members = setMember(members, "ignore_eos", "true")
	}
	for _, member := range c.Sampling {
		if !json.Valid(member.Value) {
			return nil, fmt.Errorf("%s: %q is not JSON", member.Name, member.Value)
		}
		members = setMember(members, member.Name, string(member.Value))
	}
	return mergeMembers(members, c.Extra)
}

// baseMembers are those that the tool of the profile sends, in its order.
func (c *HTTPConfig) baseMembers(api api) []Member {
	setup := c.Setup
	greedy := setup.Profile == VLLM011 || setup.Profile.plain()
	prompt := [...]string{completions: "prompt", chat: "messages", responses: "input"}[api]
	limit := [...]string{completions: "max_tokens", chat: "max_completion_tokens", responses: "max_output_tokens"}[api]
	var members []Member
	// The order of these lines is the order of the members.
	add := func(when bool, name, value string) {
		if when {
			members = append(members, Member{name, json.RawMessage(value)})
		}
	}
	add(true, "model", string(wire.AppendString(nil, setup.Model)))
	add(true, prompt, promptSlot)
	add(greedy, "temperature", "0.0")
	if setup.Profile.plain() {
		add(api == completions, "best_of", "1")
		add(true, limit, outputSlot)
		add(true, "stream", strconv.FormatBool(setup.Stream))
		add(true, "ignore_eos", strconv.FormatBool(setup.IgnoreEOS))
	} else {
		add(api == completions, "repetition_penalty", "1.0")
		add(true, limit, outputSlot)
		add(api == completions || (api == chat && c.Logprobs != nil), "logprobs", c.logprobs(api))
		add(api == chat && c.Logprobs != nil, "top_logprobs", c.logprobs(completions))
		add(true, "stream", strconv.FormatBool(setup.Stream))
		add(api == responses, "store", "false")
		add(api != responses && setup.Stream, "stream_options", `{"include_usage":true}`)
	}
	add(api == chat && needsMaxTokens(setup.Dialect), "max_tokens", outputSlot)
	return members
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

// setMember gives a member its value, in its place if it has one.
func setMember(members []Member, name, value string) []Member {
	for i := range members {
		if members[i].Name == name {
			members[i].Value = json.RawMessage(value)
			return members
		}
	}
	return append(members, Member{name, json.RawMessage(value)})
}

// mergeMembers lets the members of a JSON object replace those of the same name; others follow
// in their order. No object changes nothing.
func mergeMembers(members []Member, object json.RawMessage) ([]Member, error) {
	if len(object) == 0 {
		return members, nil
	}
	if !json.Valid(object) || bytes.TrimLeft(object, " \t\r\n")[0] != '{' {
		return nil, fmt.Errorf("%s: want a JSON object whose members join the body", brief(object))
	}
	decoder := json.NewDecoder(bytes.NewReader(object))
	if _, err := decoder.Token(); err != nil {
		return nil, err
	}
	for decoder.More() {
		name, err := decoder.Token()
		if err != nil {
			return nil, err
		}
		var value json.RawMessage
		if err := decoder.Decode(&value); err != nil {
			return nil, err
		}
		members = setMember(members, name.(string), string(value)) // a name of a member is a string
	}
	return members, nil
}

// appendBody appends the request body for a query.
func (h *HTTP) appendBody(dst []byte, query *dataset.Query) ([]byte, error) {
	members := h.members // shared: a query with members of its own gets a copy
	if len(query.Body) > 0 {
		var err error
		if members, err = mergeMembers(append([]Member(nil), members...), query.Body); err != nil {
			return nil, err
		}
	}
	before := byte('{') // what stands before the next member
	for _, member := range members {
		dst = append(wire.AppendString(append(dst, before), member.Name), ':')
		before = ','
		switch string(member.Value) {
		case promptSlot:
			var err error
			if dst, err = h.appendPrompt(dst, query); err != nil {
				return nil, err
			}
		case outputSlot:
			dst = strconv.AppendInt(dst, int64(query.Output), 10)
		default:
			dst = append(dst, member.Value...)
		}
	}
	return append(dst, '}'), nil
}

var errPrompt = errors.New("want exactly one of a prompt, token ids and messages")

// appendPrompt appends the value that carries the prompt of a query.
func (h *HTTP) appendPrompt(dst []byte, query *dataset.Query) ([]byte, error) {
	switch ids, messages := query.IDs != nil, query.Messages != nil; {
	case (ids && messages) || (query.Prompt != "" && (ids || messages)):
		return nil, errPrompt
	case ids && h.api != completions:
		return nil, errors.New("token ids can only be sent to completions; use another backend or a workload with text")
	case ids:
		dst = append(dst, '[')
		for i, id := range query.IDs {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = strconv.AppendInt(dst, int64(id), 10)
		}
		return append(dst, ']'), nil
	case messages && h.api == completions:
		return nil, errors.New("messages cannot be sent to completions; use backend openai-chat or a workload with text")
	case messages:
		return append(dst, query.Messages...), nil
	case h.api != chat:
		return wire.AppendString(dst, query.Prompt), nil
	}
	return append(appendUser(append(dst, '['), query.Prompt, h.setup.Profile.plain()), ']'), nil
}
