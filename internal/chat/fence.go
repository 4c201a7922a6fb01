package chat

import (
	"slices"
	"strings"
	"unicode/utf8"

	"ossian/internal/jinja"
	"ossian/internal/token"
)

// mark is a noncharacter: no text means it, and templates pass it on. stop is
// another one, where the last turn ends that is to be continued.
const (
	mark = "\uFDD0"
	stop = "\uFDD1"
)

// A fence keeps text from becoming added tokens on its way through a template: it
// puts a mark into every name of one, and into what could become one together with
// text before or after (SEC-6). Templates that put a name together around a word of
// the caller's do so on purpose: that word is not looked at.
type fence struct {
	names  map[string]bool
	starts [256]bool        // bytes that names begin with
	sizes  map[string][]int // of the names that begin so, with their first heads bytes
	heads  int              // at most the length of the shortest
	edges  map[string]bool  // proper prefixes and suffixes of names
	longer int              // length of the longest of edges
	drop   *strings.Replacer
}

func newFence(tok *token.BPE) *fence {
	f := &fence{names: map[string]bool{}, edges: map[string]bool{}, sizes: map[string][]int{}, heads: 4, drop: strings.NewReplacer(mark, "\uFFFD", stop, "\uFFFD")}
	for _, a := range tok.Added() {
		f.names[a.Text], f.heads = true, min(f.heads, len(a.Text))
		f.starts[a.Text[0]] = true
		for i := 1; i < len(a.Text); i++ {
			f.edges[a.Text[:i]], f.edges[a.Text[i:]] = true, true
		}
		f.longer = max(f.longer, len(a.Text)-1)
	}
	for name := range f.names {
		if head := name[:f.heads]; !slices.Contains(f.sizes[head], len(name)) {
			f.sizes[head] = append(f.sizes[head], len(name))
		}
	}
	return f
}

// text returns s as valid UTF-8 with its marks.
func (f *fence) text(s string) string {
	s = f.drop.Replace(strings.ToValidUTF8(s, "\uFFFD"))
	var out strings.Builder
	done := 0
	for i := range len(s) {
		if (!f.starts[s[i]] && i > 0) || !f.risky(s, i) {
			continue
		}
		_, n := utf8.DecodeRuneInString(s[i:])
		out.WriteString(s[done : i+n])
		out.WriteString(mark)
		done = i + n
	}
	if done == 0 {
		return s
	}
	out.WriteString(s[done:])
	return out.String()
}

// risky reports whether a name begins at s[i], might begin there and go on in the
// text after s, or, for i = 0, might have begun in the text before.
func (f *fence) risky(s string, i int) bool {
	if i == 0 {
		for n := 1; n <= min(len(s), f.longer); n++ {
			if f.edges[s[:n]] {
				return true
			}
		}
	}
	if len(s)-i <= f.longer && f.edges[s[i:]] {
		return true
	}
	return len(s)-i >= f.heads && slices.ContainsFunc(f.sizes[s[i:i+f.heads]], func(n int) bool { return n <= len(s)-i && f.names[s[i:i+n]] })
}

// value fences every string in v, keys of mappings included.
func (f *fence) value(v jinja.Value) jinja.Value {
	switch v := v.(type) {
	case string:
		return f.text(v)
	case *jinja.List:
		items := make([]jinja.Value, v.Len())
		for i := range items {
			items[i] = f.value(v.At(i))
		}
		return jinja.NewList(items...)
	case *jinja.Dict:
		d := jinja.NewDict()
		for i := range v.Len() {
			key, item := v.Entry(i)
			if name, ok := key.(string); ok {
				d.Set(f.text(name), f.value(item))
			}
		}
		return d
	}
	return v
}

// unfence adds a rendered template to p. What stands before a mark is text; the
// rest is the template's, whose names of added tokens become ids.
func unfence(p *token.Prompt, rendered string) {
	pieces := strings.Split(rendered, mark)
	last := len(pieces) - 1
	for _, s := range pieces[:last] {
		_, n := utf8.DecodeLastRuneInString(s)
		p.Markup(s[:len(s)-n])
		p.Text(s[len(s)-n:])
	}
	p.Markup(pieces[last])
}
