// Package dataset makes the workloads of benchmarks: which prompts, in which order,
// with how much output. The generators draw the numbers that the published tools draw,
// so a seed names the same workload here and there (bench.md 2). Everything that draws is
// therefore in the order of the tool that it reproduces: a draw more, less or elsewhere
// changes all that come behind it.
package dataset

import (
	"encoding/json"
	"time"
)

// A Query is one request of a workload. Exactly one of Prompt, IDs and Messages is set.
type Query struct {
	Prompt   string          `json:"prompt,omitempty"`   // text
	IDs      []int32         `json:"ids,omitempty"`      // the prompt as token ids
	Messages json.RawMessage `json:"messages,omitempty"` // the messages array of a chat, sent as it is
	Input    int             `json:"input"`              // tokens of the prompt, as the workload counts them
	Output   int             `json:"output"`             // tokens to generate
	ID       string          `json:"id,omitempty"`       // goes behind the prefix of x-request-id; "" = no such header
	At       time.Duration   `json:"at,omitempty"`       // of a trace: when it is sent, since the run began
	Body     json.RawMessage `json:"body,omitempty"`     // an object whose members replace those of the request body
	Session  string          `json:"session,omitempty"`  // of a turn of a conversation: goes behind the prefix of x-session-id
	Turn     int             `json:"turn,omitempty"`     // of the conversation, from 0; its turns follow one another
}
