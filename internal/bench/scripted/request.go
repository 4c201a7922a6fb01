package scripted

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

const (
	maxBody   = 256 << 20 // bytes
	maxTokens = 1 << 20   // of one answer
)

// An ask is what the server reads of a request, of any of the APIs.
type ask struct {
	Prompt              json.RawMessage `json:"prompt"`
	Messages            json.RawMessage `json:"messages"`
	Input               json.RawMessage `json:"input"`
	MaxTokens           int             `json:"max_tokens"`
	MaxCompletionTokens int             `json:"max_completion_tokens"`
	MaxOutputTokens     int             `json:"max_output_tokens"`
	Stream              bool            `json:"stream"`
	ReturnTokenIDs      bool            `json:"return_token_ids"`
	StreamOptions       struct {
		IncludeUsage         bool `json:"include_usage"`
		ContinuousUsageStats bool `json:"continuous_usage_stats"`
	} `json:"stream_options"`
}

func parseAsk(text []byte) (*ask, error) {
	req := new(ask)
	if err := json.Unmarshal(text, req); err != nil {
		return nil, fmt.Errorf("request body: %w", err)
	}
	if n := req.tokens(); n < 1 || n > maxTokens {
		return nil, fmt.Errorf("request body: %d tokens asked for, expected 1 to %d", n, maxTokens)
	}
	return req, nil
}

// tokens is how many tokens the request asks for.
func (a *ask) tokens() int {
	for _, n := range []int{a.MaxCompletionTokens, a.MaxOutputTokens, a.MaxTokens} {
		if n != 0 {
			return n
		}
	}
	return 16
}

func (a *ask) wantsUsage() bool        { return a.StreamOptions.IncludeUsage }
func (a *ask) wantsRunningUsage() bool { return a.StreamOptions.ContinuousUsageStats }

// prompt is how many tokens the request brings, by the rule of countTokens.
func (a *ask) prompt() int {
	tokens := 0
	for _, raw := range []json.RawMessage{a.Prompt, a.Messages, a.Input} {
		var v any
		if len(raw) > 0 && json.Unmarshal(raw, &v) == nil {
			tokens += countTokens(v)
		}
	}
	return tokens
}

// countTokens counts what is in a prompt, messages or input: an id is a token, and so is
// each code point of a text.
func countTokens(value any) int {
	switch value := value.(type) {
	case string:
		return utf8.RuneCountInString(value)
	case float64:
		return 1
	case []any:
		count := 0
		for _, element := range value {
			count += countTokens(element)
		}
		return count
	case map[string]any:
		return countTokens(value["content"]) + countTokens(value["text"])
	}
	return 0
}

// index returns the number behind the last hyphen of an x-request-id, -1 = none.
func index(id string) int {
	number, err := strconv.Atoi(id[strings.LastIndexByte(id, '-')+1:])
	if err != nil || number < 0 {
		return -1
	}
	return number
}
