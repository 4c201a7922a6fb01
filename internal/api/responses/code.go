package responses

import (
	"encoding/json"
	"strings"

	"ossian/internal/wire"
)

// A code is the text of a call of a namespace itself, while it comes. Models write it as it is;
// a server of MCP gets it as {"code": TEXT}, and clients are promised JSON.
type code struct {
	json  bool // there is something to do
	begun bool
}

// more is what a piece of text adds to the arguments.
func (c *code) more(text string) string {
	if !c.json {
		return text
	}
	quoted := string(wire.AppendString(nil, text))
	quoted = quoted[1 : len(quoted)-1]
	if !c.begun {
		c.begun = true
		return `{"code":"` + quoted
	}
	return quoted
}

// rest is what completes the arguments, given the whole text.
func (c *code) rest(text string) string {
	switch {
	case !c.json:
		return ""
	case !c.begun:
		text = c.more(text)
	default:
		text = ""
	}
	c.json = false
	return text + `"}`
}

// codeOf is the text of a call of a namespace itself, given the arguments that its item has.
func codeOf(recipient, arguments string) (text string, isCode bool) {
	var of struct{ Code *string }
	if strings.Contains(recipient, ".") || json.Unmarshal([]byte(arguments), &of) != nil || of.Code == nil {
		return arguments, false
	}
	return *of.Code, true
}
