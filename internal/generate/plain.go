package generate

import (
	"slices"

	"ossian/internal/chat"
	"ossian/internal/host"
	"ossian/internal/token"
	"ossian/internal/wire"
)

// Plain returns what makes parsers of answers without a format: all of them is content,
// but for control tokens if these are to be hidden, and the tokens that end an answer.
func Plain(model *host.Model, asked *wire.Sampling, hideControls bool) func() chat.Parser {
	stops := model.Stops
	if asked.IgnoreEOS {
		stops = nil
	}
	return func() chat.Parser {
		return &plain{tok: model.Tokenizer, detok: model.Tokenizer.Detok(), hideControls: hideControls, stops: stops}
	}
}

// A plain parser reads text without a format.
type plain struct {
	tok          *token.BPE
	detok        *token.Detok
	hideControls bool    // skip_special_tokens
	stops        []int32 // always hidden
	pushed       int
}

// Push implements chat.Parser.
func (p *plain) Push(dst []chat.Event, id int32) []chat.Event {
	p.pushed++
	if (p.hideControls && p.tok.IsControl(id)) || slices.Contains(p.stops, id) {
		return append(dst, chat.Event{Kind: chat.Skip, Part: chat.Content, Token: p.pushed - 1, Count: 1})
	}
	return append(dst, chat.Event{Kind: chat.Delta, Part: chat.Content, Text: p.detok.Push(id), Bytes: p.tok.Text(id), Token: p.pushed - 1, Count: 1})
}

// Close implements chat.Parser.
func (p *plain) Close(dst []chat.Event) []chat.Event {
	return append(dst, chat.Event{Kind: chat.Delta, Part: chat.Content, Text: p.detok.Flush(), Token: max(p.pushed-1, 0)})
}
