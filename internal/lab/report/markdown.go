package report

import (
	"bytes"
	"fmt"
	"strings"
)

// markdown writes a document as Markdown that a plain viewer shows and a linter passes: blank lines around
// blocks, one heading of the first level, fences with a language, no line but in tables and code that
// has to be scrolled.
func (d *document) markdown() []byte {
	var out bytes.Buffer
	for i, p := range d.parts {
		if i > 0 {
			out.WriteByte('\n')
		}
		switch {
		case p.heading != nil:
			fmt.Fprintf(&out, "%s %s\n", strings.Repeat("#", p.heading.level), escape(p.heading.text))
		case p.quote != nil:
			out.WriteString(wrapped(p.quote.markdown(), "> ", "> "))
		case p.list != nil:
			for _, item := range p.list {
				out.WriteString(wrapped(item.markdown(), "- ", "  "))
			}
		case p.table != nil:
			p.table.markdown(&out)
		case p.code != nil:
			fence := fenceOf(p.code.text)
			fmt.Fprintf(&out, "%s%s\n%s\n%s\n", fence, p.code.language, strings.TrimRight(p.code.text, "\n"), fence)
		case p.figure != nil:
			fmt.Fprintf(&out, "![%s](%s.svg)\n", escape(p.figure.alt), p.figure.name)
		default:
			out.WriteString(wrapped(p.paragraph.markdown(), "", ""))
		}
	}
	return out.Bytes()
}

// fenceOf is a fence that does not stand in the text.
func fenceOf(text string) string {
	fence := "```"
	for strings.Contains(text, fence) {
		fence += "`"
	}
	return fence
}

func (t *table) markdown(out *bytes.Buffer) {
	row := func(words []string) { fmt.Fprintf(out, "| %s |\n", strings.Join(words, " | ")) }
	var names, rules []string
	for i, name := range t.columns {
		names = append(names, tableText(escape(name)))
		rule := "---"
		if t.numeric[i] {
			rule = "---:"
		}
		rules = append(rules, rule)
	}
	row(names)
	row(rules)
	for _, cells := range t.rows {
		var words []string
		for _, cell := range cells {
			words = append(words, cell.markdown())
		}
		row(words)
	}
}

// markdown writes a cell; tones are those of the published layout (bench.md 5).
func (c cell) markdown() string {
	var lines []string
	for _, line := range c.lines {
		lines = append(lines, tableText(line.markdown()))
	}
	words := strings.Join(lines, "<br>")
	if words == "" {
		words = "-" // linters want a table's cells filled or aligned
	}
	switch c.tone {
	case better:
		return `<span style="background-color:lightgreen">` + words + "</span>"
	case worse:
		return `<span style="background-color:#fbcaca">` + words + "</span>"
	}
	return words
}

// tableText is text within a cell, where a bar would end it.
func tableText(words string) string {
	return strings.ReplaceAll(strings.ReplaceAll(words, "|", `\|`), "\n", " ")
}

func (t text) markdown() string {
	var out strings.Builder
	for _, s := range t {
		words := escape(s.text)
		switch s.style {
		case strong:
			words = "**" + words + "**"
		case literal:
			words = codeSpan(s.text)
		}
		if s.link != "" {
			words = "[" + words + "](" + s.link + ")"
		}
		out.WriteString(words)
	}
	return out.String()
}

// codeSpan is text as it is, between as many backticks as it needs.
func codeSpan(words string) string {
	words = strings.ReplaceAll(words, "\n", " ")
	fence := "`"
	for strings.Contains(words, fence) {
		fence += "`"
	}
	if strings.HasPrefix(words, "`") || strings.HasSuffix(words, "`") {
		words = " " + words + " "
	}
	return fence + words + fence
}

// special are the letters that mean something within a line of Markdown.
var special = strings.NewReplacer(`\`, `\\`, "`", "\\`", "*", `\*`, "_", `\_`, "<", "&lt;", "[", `\[`, "]", `\]`, "\n", " ", "\r", " ")

// escape makes text that nothing in it is markup.
func escape(words string) string { return special.Replace(words) }

// maxWidth is how long lines of prose are.
const maxWidth = 100

// wrapped breaks a paragraph into lines; code and links are broken at no space.
func wrapped(words, first, others string) string {
	var out strings.Builder
	line := first
	empty := true
	for _, word := range unbroken(words) {
		if !empty && len([]rune(line))+1+len([]rune(word)) > maxWidth {
			out.WriteString(line + "\n")
			line, empty = others, true
		}
		if !empty {
			line += " "
		}
		line, empty = line+guarded(word, empty), false
	}
	out.WriteString(strings.TrimRight(line, " ") + "\n")
	return out.String()
}

// guarded keeps a word at the beginning of a line from being taken for a list, a heading or a quote.
func guarded(word string, atStart bool) string {
	if atStart && (word == "-" || word == "+" || strings.HasPrefix(word, "#") || strings.HasPrefix(word, ">") || numbered(word)) {
		return `\` + word
	}
	return word
}

// numbered reports whether a word would begin a numbered list.
func numbered(word string) bool {
	digits := strings.TrimRight(word, ".)")
	return len(digits) == len(word)-1 && digits != "" && strings.Trim(digits, "0123456789") == ""
}

// unbroken are the words of a paragraph; what stands between backticks is one.
func unbroken(words string) (out []string) {
	word, quoted := "", false
	for _, letter := range words {
		if letter == '`' {
			quoted = !quoted
		}
		if letter == ' ' && !quoted {
			if word != "" {
				out = append(out, word)
			}
			word = ""
			continue
		}
		word += string(letter)
	}
	if word != "" {
		out = append(out, word)
	}
	return out
}
