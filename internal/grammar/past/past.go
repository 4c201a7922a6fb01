// Package past remembers the elements of JSON lists in a text that grows, so that an element can be
// told that was there before, and one on its way to become such. Elements are compared by their
// text: whoever writes the text spells equal values alike.
package past

import (
	"slices"
	"sort"
	"strings"
)

// A Past is the text of one output, for one reader of it. Lists are named by the byte at which they
// begin, or the space before them.
type Past struct {
	text     []byte            // what was accepted, and what is being tried behind it
	accepted int               // bytes of it
	lists    map[int]*finished // by where they begin in text
}

// A finished is what is known of a list from the accepted text.
type finished struct {
	elements []string // that are finished, sorted
	upto     int      // where the last of them ends
}

// New returns the past of an empty text.
func New() *Past { return &Past{lists: map[int]*finished{}} }

// Try has b follow the first bytes of the text, so many, which are what was accepted at least.
func (p *Past) Try(bytes int, b byte) { p.text = append(p.text[:bytes], b) }

// Accept says that the first bytes of the text, so many, stay.
func (p *Past) Accept(bytes int) { p.accepted = bytes }

// Back forgets what was tried.
func (p *Past) Back() { p.text = p.text[:p.accepted] }

// Accepted is the text that stays.
func (p *Past) Accepted() string { return string(p.text[:p.accepted]) }

// element finds the next element of a list behind at: it is text[from:to]. It has ended if
// nothing can be added to it; a number at the end of the text has not.
func element(text []byte, at int) (from, to int, ended bool) {
	for at < len(text) && strings.IndexByte(", \t\r\n", text[at]) >= 0 {
		at++
	}
	from = at
	depth, inString := 0, false
	for ; at < len(text); at++ {
		switch char := text[at]; {
		case inString && char == '\\':
			at++
			continue
		case char == '"':
			inString = !inString
		case inString:
			continue
		case char == '[' || char == '{':
			depth++
		case depth == 0 && strings.IndexByte(",]} \t\r\n", char) >= 0:
			return from, at, at > from
		case char == ']' || char == '}':
			depth--
		}
		// Strings, lists and objects say where they end.
		if first := text[from]; depth == 0 && !inString && (first == '"' || first == '[' || first == '{') {
			return from, at + 1, true
		}
	}
	return from, len(text), false
}

// at returns the list that begins at start, or behind space there, with the elements of the
// accepted text. Not ok: there is no list.
func (p *Past) at(start int) (*finished, bool) {
	known := p.lists[start]
	if known == nil {
		from, _, _ := element(p.text, start)
		if from >= len(p.text) || p.text[from] != '[' {
			return nil, false
		}
		// Elements of the accepted text stay; what is tried behind it is forgotten with the list.
		known = &finished{upto: from + 1}
		if from < p.accepted {
			p.lists[start] = known
		}
	}
	for known.upto < p.accepted {
		from, to, ended := element(p.text[:p.accepted], known.upto)
		if !ended {
			break
		}
		one := string(p.text[from:to])
		at, _ := slices.BinarySearch(known.elements, one)
		known.elements, known.upto = slices.Insert(known.elements, at, one), to
	}
	return known, true
}

// split returns the finished elements of the list at start and the text behind them: the element
// that the text ends in or with, which may have ended too. recent are those that are finished in
// text that is being tried. Not ok: the list has ended.
func (p *Past) split(start int) (elements, recent []string, last []byte, ended, ok bool) {
	known, ok := p.at(start)
	if !ok {
		return nil, nil, nil, false, false
	}
	for at := known.upto; ; {
		from, to, ended := element(p.text, at)
		if to == len(p.text) {
			return known.elements, recent, p.text[from:], ended, true
		}
		if !ended {
			return nil, nil, nil, false, false
		}
		recent, at = append(recent, string(p.text[from:to])), to
	}
}

// A Front is elements that one may become of which their first Have bytes are there. They are
// sorted and have these in common.
type Front struct {
	Rest []string
	Have int
}

// Whole reports whether one of the elements is there to its end.
func (f Front) Whole() bool { return f.Have > 0 && len(f.Rest[0]) == f.Have }

// Following returns what of f goes on with b. Between elements, where Have is 0, space and
// commas lead nowhere.
func (f Front) Following(b byte) Front {
	if f.Have == 0 && strings.IndexByte(", \t\r\n", b) >= 0 {
		return f
	}
	from := sort.Search(len(f.Rest), func(i int) bool { return len(f.Rest[i]) > f.Have && f.Rest[i][f.Have] >= b })
	to := from
	if from < len(f.Rest) && f.Rest[from][f.Have] == b {
		to += sort.Search(len(f.Rest)-from, func(i int) bool { return f.Rest[from+i][f.Have] > b })
	}
	return Front{f.Rest[from:to], f.Have + 1}
}

// Fronts returns the elements of the lists at starts that those may become that the text ends in.
func (p *Past) Fronts(starts []int) (out []Front) {
	for _, start := range starts {
		elements, recent, last, ended, ok := p.split(start)
		if !ok {
			continue
		}
		if ended { // a further one begins
			recent, last = append(recent, string(last)), nil
		}
		all := []Front{{Rest: elements}}
		for i := range recent {
			all = append(all, Front{Rest: recent[i : i+1]})
		}
		for _, f := range all {
			for _, b := range last {
				f = f.Following(b)
			}
			if len(f.Rest) > 0 {
				out = append(out, f)
			}
		}
	}
	return out
}

// InString reports whether the text ends within a string of the list at start.
func (p *Past) InString(start int) (in bool) {
	_, _, last, _, _ := p.split(start)
	for at := 0; at < len(last); at++ {
		switch {
		case in && last[at] == '\\':
			at++
		case last[at] == '"':
			in = !in
		}
	}
	return in
}

// Twice reports whether the element of the list at start that the text ends with was there before.
func (p *Past) Twice(start int) bool {
	elements, recent, last, _, _ := p.split(start)
	_, found := slices.BinarySearch(elements, string(last))
	return found || slices.Contains(recent, string(last))
}

// Begun returns the element of the list at start that has begun behind the one that was open in
// the accepted text. Not ok: it has not, or more have ended since.
func (p *Past) Begun(start int) (text string, ok bool) {
	_, recent, last, ended, ok := p.split(start)
	return string(last), ok && len(recent) == 1 && !ended
}

// Copy returns a past of the same accepted text, nil of nil.
func (p *Past) Copy() *Past {
	if p == nil {
		return nil
	}
	out := &Past{text: slices.Clone(p.text[:p.accepted]), accepted: p.accepted, lists: make(map[int]*finished, len(p.lists))}
	for start, list := range p.lists {
		out.lists[start] = &finished{slices.Clone(list.elements), list.upto}
	}
	return out
}
