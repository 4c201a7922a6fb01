package response

import "ossian/internal/wire"

// A summary of reasoning is the reasoning itself: there is no second model that would
// shorten it. It is written where a request asks for one, besides the parts of the content:
// the providers of several client libraries show summaries and nothing else.

// summarised reports whether the open item has a summary.
func (r *Response) summarised() bool { return r.summarise && r.item.Type == ItemReasoning }

// inSummary appends the beginning of an event about the summary of the open item.
func (r *Response) inSummary(dst []byte, kind string) []byte {
	dst = r.indexed(r.event(dst, kind))
	dst = wire.AppendString(append(dst, `,"item_id":`...), r.item.ID)
	return append(dst, `,"summary_index":0`...)
}

// summaryPart appends the event that a part of the summary begins or is done.
func (r *Response) summaryPart(dst []byte, change, text string) []byte {
	dst = append(r.inSummary(dst, "reasoning_summary_part."+change), `,"part":`...)
	return append(appendParts(dst, summaryType, wire.Content{text}, ""), "}\n\n"...)
}

// summaryText appends an event with text of the summary in a member.
func (r *Response) summaryText(dst []byte, change, member, text string) []byte {
	dst = append(append(append(r.inSummary(dst, summaryEvents+change), `,"`...), member...), `":`...)
	dst = wire.AppendString(dst, text)
	if change == "delta" {
		dst = r.counted(dst)
	}
	return append(dst, "}\n\n"...)
}

const (
	summaryType   = "summary_text"
	summaryEvents = "reasoning_summary_text."
)
