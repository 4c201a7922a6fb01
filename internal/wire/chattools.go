package wire

import (
	"fmt"
	"strconv"

	"ossian/internal/limits"
)

// What chats ask for of tools that the server runs, and tell of them; and what they expect of answers.

// TakeServed takes the tools that the server is asked to run out of Tools and returns them, those
// that other fields ask for among them; nil = the request says nothing of tools at all. The error
// is an *Error.
func (r *ChatRequest) TakeServed(lim *limits.Set) ([]ServerTool, error) {
	if r.Tools == nil && r.WebSearch == nil {
		return nil, nil
	}
	asked, own := []ServerTool{}, []Tool{}
	// Places remember where in the request each tool of the client's own was, for errors to name.
	r.fields.places = []int{}
	for i := range r.Tools {
		tool := &r.Tools[i]
		if !IsServerTool(tool.Type) {
			own, r.fields.places = append(own, *tool), append(r.fields.places, i)
			continue
		}
		in := &Reader{data: tool.Raw, lim: lim, path: fmt.Appendf(nil, "tools[%d]", i)}
		var served ServerTool
		if served.Read(in); in.err != nil {
			return nil, in.err
		}
		asked, r.Ignored = append(asked, served), append(r.Ignored, in.ignored...)
	}
	r.Tools = own
	if r.WebSearch != nil {
		asked = append(asked, ServerTool{Type: browserTypes[0], Path: "web_search_options"})
	}
	return asked, nil
}

// A URLCitation says which part of a message is from which page.
type URLCitation struct {
	Start, End int // in code points of the content, the second exclusive
	URL, Title string
}

func appendCitations(dst []byte, all []URLCitation) []byte {
	dst = append(dst, '[')
	for i := range all {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = strconv.AppendInt(append(dst, `{"type":"url_citation","url_citation":{"start_index":`...), int64(all[i].Start), 10)
		dst = strconv.AppendInt(append(dst, `,"end_index":`...), int64(all[i].End), 10)
		dst = AppendString(append(dst, `,"title":`...), all[i].Title)
		dst = append(AppendString(append(dst, `,"url":`...), all[i].URL), "}}"...)
	}
	return append(dst, ']')
}

// A ToolEvent says how far a call of a tool of the server is, an extension that streams have on
// request. What the tool gave is not in it.
type ToolEvent struct {
	Index     int    // of the call in its choice
	Status    string // in_progress: the model writes it; running, completed, failed, incomplete
	Tool      string // browser.search
	Label     string // of the server, by the request; "" = left out
	Arguments string // with running; "" = left out
	Outcome   string // how it ended; "" = left out
}

func (e *ToolEvent) append(dst []byte) []byte {
	dst = strconv.AppendInt(append(dst, `{"index":`...), int64(e.Index), 10)
	for _, member := range [...]struct{ name, value string }{
		{"status", e.Status}, {"tool", e.Tool}, {"server_label", e.Label}, {"arguments", e.Arguments}, {"outcome", e.Outcome},
	} {
		if member.value != "" {
			dst = append(append(append(dst, `,"`...), member.name...), `":`...)
			dst = AppendString(dst, member.value)
		}
	}
	return append(dst, '}')
}

// prediction reads what an answer is expected to have parts of.
func (in *Reader) prediction() *Prediction {
	expected := new(Prediction)
	in.Object(func(key string) bool {
		switch key {
		case "type":
			if expected.Type = in.Text(); expected.Type != "content" {
				in.Invalid("content expected, found %.40q", expected.Type)
			}
		case "content":
			expected.Content = new(Message).ReadContent(in)
		default:
			return false
		}
		return true
	})
	if expected.Content == nil && in.err == nil {
		in.Missing("content")
	}
	return expected
}
