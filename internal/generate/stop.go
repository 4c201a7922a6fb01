package generate

import (
	"slices"
	"strings"
	"unicode/utf8"

	"ossian/internal/chat"
	"ossian/internal/wire"
)

// Stop strings: package stops finds them in the text of an answer as it comes, byte by byte.
// Text that may be the beginning of one is held back, as pieces, one for each token;
// released, it becomes deltas. Where a stop string was found, what is held is cut there.

// A piece is what one token adds to the visible text. Of the tokens of one
// character the last has the text; the bytes are those of the token.
type piece struct {
	text, bytes string
	token       int  // its index in the answer
	hidden      bool // has no text because it is not to be shown
}

// hide takes a token that is not shown.
func (a *Answer) hide(token int) {
	if a.spec.hiddenLogprobs {
		a.held = append(a.held, piece{token: token, hidden: true})
	}
}

// visible takes text of the content: what of it cannot be part of a stop string is out.
func (a *Answer) visible(event *chat.Event) {
	if event.Kind == chat.Start {
		if !a.spec.items {
			a.leadText, a.leadBytes = event.Text, event.Text
		}
		return
	}
	if event.Text == "" && event.Bytes == "" {
		return
	}
	// What stands between messages goes with the first token that has text, or bytes.
	part := piece{text: event.Text, bytes: event.Bytes, token: event.Token}
	if part.bytes != "" {
		part.bytes, a.leadBytes = a.leadBytes+part.bytes, ""
	}
	if part.text != "" {
		part.text, a.leadText = a.leadText+part.text, ""
	}
	before := 0 // bytes held
	for i := range a.held {
		before += len(a.held[i].text)
	}
	a.held = append(a.held, part)
	if a.stops != nil {
		if found, at := a.find(part.text); found != "" {
			visible := before + at
			if !a.spec.includeStop {
				visible -= len(found)
			}
			a.held = cut(a.held, visible)
			a.release(len(a.held))
			a.finish(wire.FinishStop, wire.StopReason{Text: found})
			return
		}
	}
	a.release(a.settled(before + len(part.text)))
}

// settled returns how many of the held pieces, which have so many bytes of text, cannot be
// part of a stop string: whole characters at a time, as the bytes of one that is not
// complete may be cut off.
func (a *Answer) settled(bytes int) (pieces int) {
	needed := a.stops.Held()
	for i := range a.held {
		part := &a.held[i]
		if bytes -= len(part.text); bytes < needed {
			break
		}
		torn := a.spec.logprobs && a.stops != nil && unfinished(part.bytes)
		if part.text != "" && !torn {
			pieces = i + 1
		}
	}
	return pieces
}

// find returns the stop string that ends first in text and where.
func (a *Answer) find(text string) (found string, at int) {
	for i := range len(text) {
		if found := a.stops.Push(text[i]); found != "" && a.Tokens > a.spec.minTokens {
			return found, i + 1
		}
	}
	return "", 0
}

// release makes deltas of the first of the held pieces.
func (a *Answer) release(first int) {
	for _, part := range a.held[:first] {
		if a.spec.logprobs && (part.bytes != "" || part.hidden) {
			a.entries = append(a.entries, a.entry(part))
		}
		if part.text != "" {
			a.said = true
			delta := Delta{Field: Content, Text: part.text, Logprobs: a.entries}
			a.entries = nil
			if a.turn != nil && a.turn.cites != nil {
				a.turn.cites.push(a, delta)
				continue
			}
			a.Deltas = append(a.Deltas, delta)
		}
	}
	a.held = slices.Delete(a.held, 0, first)
}

// cut returns the pieces of so many bytes of the text, whole characters.
func cut(all []piece, left int) []piece {
	var joined strings.Builder
	for i := range all {
		joined.WriteString(all[i].bytes)
	}
	// A token's text and its bytes may be apart: characters of several tokens have their
	// text with the last. So both are counted.
	spelt := spelling(joined.String(), left)
	less := false
	for i := range all {
		part := &all[i]
		text, bytes := part.text[:min(left, len(part.text))], part.bytes[:min(spelt, len(part.bytes))]
		less = less || len(text) < len(part.text) || len(bytes) < len(part.bytes)
		part.text, part.bytes = text, bytes
		left, spelt = left-len(text), spelt-len(bytes)
		if less && left == 0 {
			return all[:i+1]
		}
	}
	return all
}

// spelling returns how many bytes at the beginning of raw give n bytes of text, where
// U+FFFD stands for bytes that are no character.
func spelling(raw string, n int) (used int) {
	for n > 0 && used < len(raw) {
		r, size := utf8.DecodeRuneInString(raw[used:])
		if r == utf8.RuneError && size == 1 { // the longest that may begin a character, at least a byte
			for used+size < len(raw) && !utf8.FullRuneInString(raw[used:used+size]) && !utf8.FullRuneInString(raw[used:used+size+1]) {
				size++
			}
		}
		n -= utf8.RuneLen(r)
		used += size
	}
	return used
}

// unfinished reports whether more bytes may complete a character at the end of s.
func unfinished(s string) bool {
	for n := 1; n <= min(len(s), utf8.UTFMax-1); n++ {
		if tail := s[len(s)-n:]; utf8.RuneStart(tail[0]) {
			return !utf8.FullRuneInString(tail)
		}
	}
	return false
}
