package generate

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"ossian/internal/token"
)

// What of a result a model gets to read, where it would be more than the context has room for.

// cutResult returns the beginning and the end of a text that has more than most ids, with a
// notice between them.
func cutResult(tok *token.BPE, text string, most int) string {
	if len(text) <= most { // an id has a byte at least
		return text
	}
	ids := tok.Encode(nil, text)
	if len(ids) <= most {
		return text
	}
	head, tail := most*3/4, most/4
	begin := strings.TrimRightFunc(tok.Decode(ids[:head]), broken)
	end := strings.TrimLeftFunc(tok.Decode(ids[len(ids)-tail:]), broken)
	return strings.ToValidUTF8(begin, "") + fmt.Sprintf("\n…[%d tokens omitted]…\n", len(ids)-head-tail) + strings.ToValidUTF8(end, "")
}

// broken reports whether a character was cut.
func broken(r rune) bool { return r == utf8.RuneError }

// leastResult is how many ids of a result are worth reading.
const leastResult = 32

// fit makes the results of a step shorter by over ids together. At the second try, or where
// little would be left of them, a notice stands for each, and the next step has to be the answer.
func (t *turn) fit(tok *token.BPE, over, try int) {
	sizes, all := make([]int, len(t.calls)), 0
	for i, call := range t.calls {
		sizes[i] = len(tok.Encode(nil, call.result))
		all += sizes[i]
	}
	const notice = 16 // ids of a notice, about
	left := all - over - notice*len(t.calls)
	for i, call := range t.calls {
		if share := left * sizes[i] / max(all, 1); try == 0 && share >= leastResult {
			call.result = cutResult(tok, call.result, share)
			continue
		} else if sizes[i] <= leastResult {
			continue
		}
		call.result = fmt.Sprintf("[The result of %d tokens does not fit into the context.]", sizes[i])
		t.held = muteAll
	}
}
