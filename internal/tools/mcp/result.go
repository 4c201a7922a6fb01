package mcp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"ossian/internal/tools"
)

// An answer is the result of a call as the server sends it.
type answer struct {
	Content       []block                    `json:"content"`
	Structured    json.RawMessage            `json:"structuredContent"`
	IsError       bool                       `json:"isError"`
	Type          string                     `json:"resultType"`
	InputRequests map[string]json.RawMessage `json:"inputRequests"`
	RequestState  string                     `json:"requestState"`
}

// A block is one part of what a tool says.
type block struct {
	Type     string    `json:"type"`
	Text     string    `json:"text"`
	Data     string    `json:"data"`
	MimeType string    `json:"mimeType"`
	URI      string    `json:"uri"`
	Name     string    `json:"name"`
	Title    string    `json:"title"`
	Resource *resource `json:"resource"`
}

// A resource that is part of a result.
type resource struct {
	URI      string  `json:"uri"`
	MimeType string  `json:"mimeType"`
	Text     *string `json:"text"`
	Blob     string  `json:"blob"`
}

// readAnswer reads a result.
func readAnswer(raw []byte) (*answer, *fault) {
	a := new(answer)
	if !isKind(raw, '{') || json.Unmarshal(raw, a) != nil {
		return nil, &fault{kind: nonsense, text: "its result is no message of the protocol"}
	}
	return a, nil
}

// result is the answer as models and clients get it.
func (a *answer) result() tools.Result {
	result := tools.Result{Text: a.text()}
	if a.IsError {
		if result.Text == "" {
			result.Text = "The tool failed and did not say why."
		}
		result.Outcome = tools.Failed
		result.Failure = &tools.Failure{Type: "mcp_tool_execution_error", Message: result.Text}
	}
	return result
}

// text joins what the blocks say. What is structured repeats it, and counts where they say nothing.
func (a *answer) text() string {
	var parts []string
	said := false
	for i := range a.Content {
		text, words := a.Content[i].text()
		said = said || words
		parts = append(parts, text)
	}
	if !said && len(a.Structured) > 0 && !isNull(a.Structured) {
		var compact bytes.Buffer
		if json.Compact(&compact, a.Structured) == nil {
			parts = append(parts, compact.String())
		}
	}
	return strings.Join(parts, "\n")
}

// text is what a block says, and whether these are words of the tool.
func (b *block) text() (text string, words bool) {
	switch b.Type {
	case "text":
		return b.Text, true
	case "image", "audio":
		return placeholder(b.Type, b.MimeType, b.Data), false
	case "resource_link":
		return titled(b.Title, b.Name, b.URI), false
	case "resource":
		switch {
		case b.Resource == nil:
			return "[resource]", false
		case b.Resource.Text != nil:
			return *b.Resource.Text, true
		}
		return placeholder("resource", b.Resource.MimeType, b.Resource.Blob) + " " + b.Resource.URI, false
	}
	return fmt.Sprintf("[%.40s]", b.Type), false
}

// titled is a link: what it is called, and where it leads.
func titled(title, name, uri string) string {
	if title == "" {
		title = name
	}
	if title == "" {
		return uri
	}
	return title + " (" + uri + ")"
}

// placeholder stands for bytes that a model cannot read.
func placeholder(kind, mime, base64 string) string {
	bytes := len(strings.TrimRight(base64, "=")) * 3 / 4
	return strings.Join(strings.Fields(fmt.Sprintf("[%s %.100s, %d bytes]", kind, mime, bytes)), " ")
}

// declined answers what a server wants to ask a user; false = it asks for something else too.
func (a *answer) declined() (sdk.InputResponseMap, bool) {
	responses := sdk.InputResponseMap{}
	for id, raw := range a.InputRequests {
		var request struct {
			Method string `json:"method"`
		}
		if json.Unmarshal(raw, &request) != nil || request.Method != "elicitation/create" {
			return nil, false
		}
		responses[id] = &sdk.ElicitResult{Action: "decline"}
	}
	return responses, len(responses) > 0
}
