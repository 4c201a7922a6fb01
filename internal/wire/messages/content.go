package messages

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"

	"ossian/internal/limits"
	"ossian/internal/wire"
)

// accounting begins a block that Claude Code puts before its instructions: it is for bills, says
// nothing to a model, and differs in every request, so that no prompt would share a prefix with
// another.
const accounting = "x-anthropic-billing-header:"

// readSystem reads the instructions: text, or blocks of it.
func readSystem(in *wire.Reader) (texts wire.Content) {
	if in.Kind() == '"' {
		return wire.Content{in.Text()}
	}
	if in.Kind() != '[' {
		in.Expected("a string or an array of text blocks")
		return nil
	}
	in.Array(limits.ContentParts, "blocks", func(int) {
		b := readBlock(in)
		switch {
		case in.Failed():
		case b.kind != "text":
			in.Fail(wire.Unsupported(in.Path()+".type", fmt.Sprintf("text expected, found %.40q", b.kind)))
		case !strings.HasPrefix(b.text, accounting):
			texts = append(texts, b.text)
		}
	})
	return texts
}

// A block is one of a message's content: which members count, its kind says.
type block struct {
	kind     string
	text     string          // text, document
	thinking string          // thinking
	id       string          // tool_use: its id; tool_result: that of the call
	name     string          // tool_use
	input    json.RawMessage // tool_use
	result   wire.Content    // tool_result
	image    string          // of an image: what it is, in words
}

// readMessage reads a message of the request, which is several of a chat: results of tools are
// messages of their own there.
func (r *Request) readMessage(in *wire.Reader) {
	role, path := in.Member("role"), in.Path()
	var blocks []block
	given := false
	in.Object(func(key string) bool {
		switch key {
		case "role":
			in.Text()
		case "content":
			blocks, given = r.readBlocks(in, role), true
		default:
			return false
		}
		return true
	})
	// Members come in any order, so what belongs together is judged behind the last one.
	switch {
	case in.Failed():
	case role == "":
		in.Missing("role")
	case role != "user" && role != "assistant" && role != "system":
		in.Fail(wire.Invalid(path+".role", fmt.Sprintf("user or assistant expected, found %.40q", role)))
	case !given:
		in.Missing("content")
	case role == "assistant":
		r.said(path, blocks)
	default:
		r.asked(path, role, blocks)
	}
}

// readBlocks reads the content of a message: a string is a block of text.
func (r *Request) readBlocks(in *wire.Reader, role string) (blocks []block) {
	if in.Kind() == '"' {
		return []block{{kind: "text", text: in.Text()}}
	}
	if in.Kind() != '[' {
		in.Expected("a string or an array of blocks")
		return nil
	}
	in.Array(limits.ContentParts, "blocks", func(int) {
		kind := in.Member("type")
		// Which blocks may be where depends on who speaks.
		if needed, known := members[kind]; !known || (needed != "" && needed != role) {
			misplaced(in, kind, role, known)
			return
		}
		if b := readBlock(in); !in.Failed() {
			b.check(in)
			blocks = append(blocks, b)
		}
	})
	return blocks
}

// members are the kinds of blocks that are read, each with the role that may have it; "" = any.
var members = map[string]string{"text": "", "image": "user", "document": "user", "search_result": "user", "thinking": "assistant", "redacted_thinking": "assistant",
	"tool_use": "assistant", "tool_result": "user"}

// misplaced refuses a block, or leaves out one of tools that other servers run.
func misplaced(in *wire.Reader, kind, role string, known bool) {
	switch {
	case in.Failed():
	case kind == "":
		in.Missing("type")
	case known:
		in.Fail(wire.Invalid(in.Path()+".type", fmt.Sprintf("a message of the %s has no %s", role, kind)))
	default:
		in.LeaveOut(kind)
	}
}

// readBlock reads one block.
func readBlock(in *wire.Reader) (read block) {
	read.kind = in.Member("type")
	in.Object(func(key string) bool {
		switch key {
		case "type":
			in.Text()
		case "text":
			read.text = in.Text()
		case "thinking":
			read.thinking = in.Text()
		case "id", "tool_use_id":
			read.id = in.Text()
		case "name":
			read.name = in.Text()
		case "input":
			read.input = in.Raw()
		case "content":
			read.result = readResult(in)
		case "source":
			read.source(in)
		// What only Anthropic's models and servers have a use for.
		case "title", "context", "signature", "data", "is_error", "cache_control", "citations", "caller":
			in.Skip()
		default:
			return false
		}
		return true
	})
	return read
}

// source reads where an image or a document is from: of the latter only text can be read.
func (b *block) source(in *wire.Reader) {
	if in.Kind() == '"' { // of a search result: an address
		in.Text()
		return
	}
	kind, media, data := in.Member("type"), in.Member("media_type"), ""
	in.Object(func(key string) bool {
		if key == "data" {
			data = in.Text()
		} else {
			in.Skip()
		}
		return true
	})
	if b.kind == "document" && kind == "text" {
		b.text = data
		return
	}
	b.image = fmt.Sprintf("[%s %.60s, %d bytes: this model reads text only]", b.kind, media, base64.StdEncoding.DecodedLen(len(data)))
	if kind == "url" {
		b.image = "[" + b.kind + " at an address: this model reads text only]"
	}
}

// readResult reads what a tool gave: text, or blocks. An image in it is told in words, as the
// conversation could not go on otherwise: nobody chose to send it.
func readResult(in *wire.Reader) wire.Content {
	if in.Kind() == '"' {
		return wire.Content{in.Text()}
	}
	texts := wire.Content{}
	if in.Kind() != '[' {
		in.Expected("a string or an array of blocks")
		return texts
	}
	in.Array(limits.ContentParts, "blocks", func(int) {
		switch kind := in.Member("type"); kind {
		case "text", "image", "document", "search_result":
			b := readBlock(in)
			// Blocks of a tool's result are one text each here.
			if b.image != "" {
				b.text = b.image
			}
			texts = append(texts, append(wire.Content{b.text}, b.result...)...)
		case "":
			in.Missing("type")
		default:
			in.LeaveOut(kind)
		}
	})
	return texts
}

// check refuses a block that lacks what its kind needs, and what the model cannot read.
func (b *block) check(in *wire.Reader) {
	switch {
	case b.image != "":
		in.Fail(wire.Unsupported(in.Path(), fmt.Sprintf("%s: this model reads text only; describe it in words, or leave it out", b.kind)))
	case (b.kind == "tool_use" || b.kind == "tool_result") && b.id == "":
		in.Missing(map[string]string{"tool_use": "id", "tool_result": "tool_use_id"}[b.kind])
	case b.kind == "tool_use" && b.name == "":
		in.Missing("name")
	}
}

// said adds what the assistant said: reasoning, then text, then calls are one message of a chat.
func (r *Request) said(path Place, blocks []block) {
	message := wire.Message{Role: "assistant"}
	empty := true
	// A message of the chat ends where another begins: models may think again behind text or calls.
	next := func() {
		if !empty {
			r.add(path, message)
		}
		message, empty = wire.Message{Role: "assistant"}, true
	}
	for i := range blocks {
		block := &blocks[i]
		switch block.kind {
		case "thinking":
			if message.Content != nil || message.ToolCalls != nil {
				next()
			}
			message.Reasoning += block.thinking
		case "text":
			if message.ToolCalls != nil {
				next()
			}
			message.Content = append(message.Content, block.text)
		case "tool_use":
			message.ToolCalls = append(message.ToolCalls, wire.ToolCall{ID: block.id, Name: block.name, Arguments: arguments(block.input)})
		default:
			continue
		}
		empty = false
	}
	next()
}

// arguments is the input of a call as the model wrote it: what could not be parsed was wrapped
// (Reply).
func arguments(input json.RawMessage) string {
	var wrapped map[string]json.RawMessage
	if json.Unmarshal(input, &wrapped) == nil && len(wrapped) == 1 && wrapped[invalidInput] != nil {
		var text string
		if json.Unmarshal(wrapped[invalidInput], &text) == nil {
			return text
		}
	}
	if input == nil {
		return "{}"
	}
	return string(input)
}

// asked adds what the user said: the results of tools first, as they answer what came before.
func (r *Request) asked(path Place, role string, blocks []block) {
	message := wire.Message{Role: role}
	for i := range blocks {
		block := &blocks[i]
		switch {
		case block.kind == "tool_result":
			if block.result == nil {
				block.result = wire.Content{""}
			}
			r.add(fmt.Sprintf("%s.content[%d]", path, i), wire.Message{Role: "tool", ToolCallID: block.id, Content: block.result})
		case block.kind == "search_result":
			message.Content = append(message.Content, strings.Join(block.result, "\n"))
		default:
			message.Content = append(message.Content, block.text)
		}
	}
	if message.Content != nil {
		r.add(path, message)
	}
}

func (r *Request) add(from Place, message wire.Message) {
	r.Chat.Messages, r.From = append(r.Chat.Messages, message), append(r.From, from)
}
