// Package fence keeps the text of callers from becoming control ids on its way through
// a chat template. Who uses it need not know where names of added tokens begin or
// end, or how text is told from what the template itself writes.
package fence

import (
	"slices"
	"strings"
	"unicode/utf8"

	"ossian/internal/jinja"
	"ossian/internal/token"
)

// textMark is a noncharacter: no text means it, and templates pass it on. The character
// before it is text.
const textMark = "\uFDD0"

// OpenEnd is another one, for the place where the last turn ends that is to be
// continued: no text holds it.
const OpenEnd = "\uFDD1"

// A Fence keeps text from becoming added tokens on its way through a template: it
// puts a mark into every name of one, and into what could become one together with
// text before or after (SEC-6). Templates that put a name together around a word of
// the caller's do so on purpose: that word is not looked at.
type Fence struct {
	names       map[string]bool
	starts      [256]bool        // bytes that names begin with
	sizes       map[string][]int // of the names that begin so, with their first heads bytes
	headSize    int              // at most the length of the shortest
	edges       map[string]bool  // proper prefixes and suffixes of names
	longestEdge int              // length of the longest of edges
	dropMarks   *strings.Replacer
}

// New makes the fence of a vocabulary.
func New(tok *token.BPE) *Fence {
	fenced := &Fence{names: map[string]bool{}, edges: map[string]bool{}, sizes: map[string][]int{}, headSize: 4, dropMarks: strings.NewReplacer(textMark, "\uFFFD", OpenEnd, "\uFFFD")}
	for _, added := range tok.Added() {
		fenced.names[added.Text], fenced.headSize = true, min(fenced.headSize, len(added.Text))
		fenced.starts[added.Text[0]] = true
		for i := 1; i < len(added.Text); i++ {
			fenced.edges[added.Text[:i]], fenced.edges[added.Text[i:]] = true, true
		}
		fenced.longestEdge = max(fenced.longestEdge, len(added.Text)-1)
	}
	for name := range fenced.names {
		if head := name[:fenced.headSize]; !slices.Contains(fenced.sizes[head], len(name)) {
			fenced.sizes[head] = append(fenced.sizes[head], len(name))
		}
	}
	return fenced
}

// Text returns text as valid UTF-8 with its marks.
func (f *Fence) Text(text string) string {
	text = f.dropMarks.Replace(strings.ToValidUTF8(text, "\uFFFD"))
	// A mark behind the first character of a name is enough: Write cuts there.
	var out strings.Builder
	done := 0
	for i := range len(text) {
		if (!f.starts[text[i]] && i > 0) || !f.risky(text, i) {
			continue
		}
		_, size := utf8.DecodeRuneInString(text[i:])
		out.WriteString(text[done : i+size])
		out.WriteString(textMark)
		done = i + size
	}
	if done == 0 {
		return text
	}
	out.WriteString(text[done:])
	return out.String()
}

// risky reports whether a name begins at text[at], might begin there and go on in the
// text behind, or, for at = 0, might have begun in the text before.
func (f *Fence) risky(text string, at int) bool {
	if at == 0 {
		for n := 1; n <= min(len(text), f.longestEdge); n++ {
			if f.edges[text[:n]] {
				return true
			}
		}
	}
	if len(text)-at <= f.longestEdge && f.edges[text[at:]] {
		return true
	}
	return len(text)-at >= f.headSize && slices.ContainsFunc(f.sizes[text[at:at+f.headSize]], func(n int) bool { return n <= len(text)-at && f.names[text[at:at+n]] })
}

// Value fences every string in v, keys of mappings included.
func (f *Fence) Value(value jinja.Value) jinja.Value {
	switch typed := value.(type) {
	case string:
		return f.Text(typed)
	case *jinja.List:
		items := make([]jinja.Value, typed.Len()) // a copy: the conversation stays as it is
		for i := range items {
			items[i] = f.Value(typed.At(i))
		}
		return jinja.NewList(items...)
	case *jinja.Dict:
		fenced := jinja.NewDict()
		for i := range typed.Len() {
			key, item := typed.Entry(i)
			if name, ok := key.(string); ok {
				fenced.Set(f.Text(name), f.Value(item))
			}
		}
		return fenced
	}
	return value
}

// Plain returns a rendered template without marks.
func Plain(rendered string) string { return strings.ReplaceAll(rendered, textMark, "") }

// Write adds a rendered template to a prompt. What stands before a mark is text; the
// rest is the template's, whose names of added tokens become ids.
func Write(prompt *token.Prompt, rendered string) {
	pieces := strings.Split(rendered, textMark)
	last := len(pieces) - 1
	for _, piece := range pieces[:last] {
		_, size := utf8.DecodeLastRuneInString(piece)
		prompt.Markup(piece[:len(piece)-size])
		prompt.Text(piece[len(piece)-size:])
	}
	prompt.Markup(pieces[last])
}
