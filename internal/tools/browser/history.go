package browser

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"

	"ossian/internal/tools/browser/page"
)

// The kinds of sheets.
const (
	ofSearch = "search" // what was found
	ofPage   = "page"
	ofSource = "source" // the document of a page as it is
	ofFind   = "find"   // where a pattern is on a page
)

// Bounds of what a conversation keeps, in bytes. Texts of sheets go first, those shown longest ago;
// they are made again when they are asked for.
const (
	maxKept   = 8 << 20   // while it answers
	maxStored = 256 << 10 // with its response
)

// A sheet is what a display shows a part of.
type sheet struct {
	Kind    string   `json:"kind"`
	URL     string   `json:"url,omitempty"`     // of the page, or of the page that was searched; of ofSearch none
	Query   string   `json:"query,omitempty"`   // of ofSearch
	Wanted  int      `json:"wanted,omitempty"`  // of ofSearch: how many results
	Pattern string   `json:"pattern,omitempty"` // of ofFind
	Within  string   `json:"within,omitempty"`  // of ofFind: the kind of what was searched
	Title   string   `json:"title,omitempty"`
	Text    string   `json:"text,omitempty"`   // "" = it was given up
	Links   []string `json:"links,omitempty"`  // by id
	Titles  []string `json:"titles,omitempty"` // of ofSearch: those of Links
	Lines   []int    `json:"lines,omitempty"`  // of ofFind: that of each link

	wrapped []string // Text in lines, once they were asked for
	name    string   // key, likewise
}

// address is that of a sheet as displays have it.
func (s *sheet) address() string {
	prefix := ""
	if s.Kind == ofSource || s.Within == ofSource {
		prefix = viewSource
	}
	if s.Kind == ofFind {
		return prefix + s.URL + "/find?pattern=" + quoted(s.Pattern)
	}
	return prefix + s.URL
}

// key tells sheets apart. Searches are apart even where the query is the same.
func (s *sheet) key() string {
	if s.Kind != ofSearch && s.name == "" {
		s.name = s.Kind + " " + s.address()
	}
	return s.name
}

func (s *sheet) lines() []string {
	if s.wrapped == nil {
		s.wrapped = page.Wrap(s.Text)
	}
	return s.wrapped
}

// giveUp drops what can be made again: what a page is now, but not what a search found once.
func (s *sheet) giveUp() {
	s.Text, s.Lines, s.wrapped = "", nil, nil
	if s.Kind != ofSearch {
		s.Links = nil
	}
}

// bytes is what a sheet takes as JSON without what can be given up, rounded up.
func (s *sheet) bytes() int {
	n := 150 + inJSON(s.URL, s.Query, s.Pattern, s.Title)
	if s.Kind == ofSearch {
		n += inJSON(s.Links...) + inJSON(s.Titles...)
	}
	return n
}

// content is what the rest of it takes.
func (s *sheet) content() int {
	n := inJSON(s.Text) + 21*len(s.Lines)
	if s.Kind != ofSearch {
		n += inJSON(s.Links...)
	}
	return n
}

// inJSON is about how many bytes texts take in JSON.
func inJSON(texts ...string) (n int) {
	for _, text := range texts {
		n += len(text) + strings.Count(text, "\n") + strings.Count(text, `"`) + strings.Count(text, `\`) + 4
	}
	return n
}

// A history is what a conversation has seen.
type history struct {
	Sheets []*sheet `json:"sheets"`
	Stack  []int    `json:"stack"`           // of displays, the latest last: indices of Sheets; -1 = the sheet is gone
	First  int      `json:"first,omitempty"` // the cursor of Stack[0]: displays before it are forgotten
}

// maxStack is how many displays are remembered.
const maxStack = 4096

// restored is a history as it was stored; an empty one where that makes no sense.
func restored(state json.RawMessage) *history {
	stored := &history{}
	if len(state) == 0 || json.Unmarshal(state, stored) != nil || slices.Contains(stored.Sheets, nil) {
		return &history{}
	}
	if stored.First < 0 || stored.First > math.MaxInt32 || len(stored.Stack) > maxStack {
		return &history{}
	}
	// What clients store comes back unchecked: every index has to be of a sheet.
	for i := range stored.Stack {
		if stored.Stack[i] < -1 || stored.Stack[i] >= len(stored.Sheets) {
			return &history{}
		}
	}
	for _, s := range stored.Sheets {
		if s.Kind != ofSearch && s.Kind != ofPage && s.Kind != ofSource && s.Kind != ofFind {
			return &history{}
		}
		if len(s.Lines) > len(s.Links) || (s.Kind == ofSearch && len(s.Titles) != len(s.Links)) {
			return &history{}
		}
	}
	return stored
}

// state is the history as it is stored.
func (h *history) state() json.RawMessage {
	if len(h.Stack) == 0 {
		return nil
	}
	h.keep(maxStored)
	var state bytes.Buffer
	encoder := json.NewEncoder(&state)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(h) // strings and numbers
	return bytes.TrimSpace(state.Bytes())
}

// push shows a sheet: it takes the place of the one of the same address, and gets the next cursor.
func (h *history) push(s *sheet) {
	// Searches are apart even where the query is the same, so they have no key.
	at := -1
	if key := s.key(); key != "" {
		at = slices.IndexFunc(h.Sheets, func(other *sheet) bool { return other.key() == key })
	} else {
		at = slices.Index(h.Sheets, s)
	}
	if at < 0 {
		at = len(h.Sheets)
		h.Sheets = append(h.Sheets, s)
	}
	h.Sheets[at] = s
	h.Stack = append(h.Stack, at)
	// The oldest cursors are given up, and the numbers of the others stay.
	if more := len(h.Stack) - maxStack; more > 0 {
		h.Stack, h.First = slices.Clone(h.Stack[more:]), h.First+more
	}
	total := 0
	for _, s := range h.Sheets {
		total += 500 + len(s.Text)
	}
	if total > maxKept {
		h.keep(maxKept)
	}
}

// pop takes the last display back.
func (h *history) pop() { h.Stack = h.Stack[:len(h.Stack)-1] }

// find returns the sheet of an address if there is one.
func (h *history) find(kind, url string) *sheet {
	for _, s := range h.Sheets {
		if s.Kind == kind && s.URL == url {
			return s
		}
	}
	return nil
}

// cursor is that of the latest display.
func (h *history) cursor() int { return h.First + len(h.Stack) - 1 }

// shown returns the sheet of a display; nil = it is not known any more.
func (h *history) shown(cursor int) *sheet {
	at := cursor - h.First
	if at < 0 || at >= len(h.Stack) || h.Stack[at] < 0 {
		return nil
	}
	return h.Sheets[h.Stack[at]]
}

// at returns the sheet that a call means by a cursor: -1 is the latest, -2 the one before it.
func (h *history) at(cursor integer) (*sheet, error) {
	at := cursor.value
	switch {
	case len(h.Stack) == 0:
		return nil, misused("No pages to access!")
	case at < 0:
		at += h.cursor() + 1
	}
	if at < 0 || at > h.cursor() {
		return nil, misused("Cursor `" + cursor.text + "` is out of range. Available cursor indices: [0 - " + strconv.Itoa(h.cursor()) + "].")
	}
	found := h.shown(at)
	if found == nil {
		return nil, misused("The page of cursor `" + cursor.text + "` is no longer kept. Open it again by its URL.")
	}
	return found, nil
}

// keep gives up what is too much: the contents of sheets that were shown longest ago, and where
// even the rest of them is too much, the sheets. The latest display's sheet stays.
func (h *history) keep(limit int) {
	order := h.order()
	left := limit - 8*len(h.Stack) - 100
	gone := map[int]bool{}
	for i, at := range order {
		s := h.Sheets[at]
		if left -= s.bytes(); left < 0 && i > 0 {
			gone[at] = true
		}
	}
	for i, at := range order {
		s := h.Sheets[at]
		if need := s.content(); need <= left || (i == 0 && limit == maxKept) {
			left -= need
		} else {
			s.giveUp()
		}
	}
	h.forget(gone)
}

// order returns the indices of the sheets, those that were shown last first, those that were never
// shown last.
func (h *history) order() []int {
	order := make([]int, 0, len(h.Sheets))
	seen := make([]bool, len(h.Sheets))
	for _, at := range slices.Backward(h.Stack) {
		if at >= 0 && !seen[at] {
			seen[at] = true
			order = append(order, at)
		}
	}
	for at := range h.Sheets {
		if !seen[at] {
			order = append(order, at)
		}
	}
	return order
}

// forget takes sheets out.
func (h *history) forget(gone map[int]bool) {
	if len(gone) == 0 {
		return
	}
	moved := make([]int, len(h.Sheets))
	kept := h.Sheets[:0:0]
	for at, sheet := range h.Sheets {
		// Indices of the stack follow the sheets; -1 is one that is gone.
		moved[at] = len(kept)
		if gone[at] {
			moved[at] = -1
			continue
		}
		kept = append(kept, sheet)
	}
	h.Sheets = kept
	for i, at := range h.Stack {
		if at >= 0 {
			h.Stack[i] = moved[at]
		}
	}
}

// quoted is Python's urllib.parse.quote: percent signs for all but letters, digits and _.-~/.
func quoted(text string) string {
	var out strings.Builder
	for i := range len(text) {
		c := text[i]
		if (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || strings.IndexByte("_.-~/", c) >= 0 {
			out.WriteByte(c)
			continue
		}
		out.WriteString("%" + string("0123456789ABCDEF"[c>>4]) + string("0123456789ABCDEF"[c&15]))
	}
	return out.String()
}
