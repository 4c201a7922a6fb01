package report

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"regexp"
	"strings"
)

//go:embed report.css
var pageStyle string

// page is the frame of the HTML report: one file, no network, no script. A policy in its head holds the
// browser to that.
var page = template.Must(template.New("page").Parse(`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{{.Title}}</title>
<style>{{.Style}}</style>
</head>
<body>
<main>
{{.Body}}</main>
</body>
</html>
`))

// html writes a document as one page.
func (d *document) html() ([]byte, error) {
	var body bytes.Buffer
	title := "Report"
	for _, p := range d.parts {
		if p.heading != nil && p.heading.level == 1 {
			title = p.heading.text
		}
		p.html(&body)
	}
	var out bytes.Buffer
	err := page.Execute(&out, struct {
		Title string
		Style template.CSS
		Body  template.HTML
	}{title, template.CSS(pageStyle), template.HTML(body.String())}) // every text in body went through quote
	return out.Bytes(), err
}

func (p *part) html(out *bytes.Buffer) {
	switch {
	case p.heading != nil:
		id := anchor(p.heading.text)
		fmt.Fprintf(out, "<h%d id=\"%s\">%s</h%d>\n", p.heading.level, id, quote(p.heading.text), p.heading.level)
	case p.quote != nil:
		fmt.Fprintf(out, "<blockquote><p>%s</p></blockquote>\n", p.quote.html())
	case p.list != nil:
		out.WriteString("<ul>\n")
		for _, item := range p.list {
			fmt.Fprintf(out, "<li>%s</li>\n", item.html())
		}
		out.WriteString("</ul>\n")
	case p.table != nil:
		p.table.html(out)
	case p.code != nil:
		fmt.Fprintf(out, "<pre><code>%s</code></pre>\n", quote(p.code.text))
	case p.figure != nil:
		fmt.Fprintf(out, "<figure role=\"img\" aria-label=\"%s\">\n%s\n</figure>\n", quote(p.figure.alt), inline(p.figure.svg))
	default:
		fmt.Fprintf(out, "<p>%s</p>\n", p.paragraph.html())
	}
}

func (t *table) html(out *bytes.Buffer) {
	out.WriteString("<div class=\"scroll\"><table>\n<thead><tr>")
	for i, name := range t.columns {
		fmt.Fprintf(out, "<th%s>%s</th>", right(t.numeric[i]), quote(name))
	}
	out.WriteString("</tr></thead>\n<tbody>\n")
	for _, row := range t.rows {
		out.WriteString("<tr>")
		for i, cell := range row {
			var lines []string
			for _, line := range cell.lines {
				lines = append(lines, line.html())
			}
			class := right(t.numeric[i])
			switch cell.tone {
			case better:
				class = ` class="better"`
			case worse:
				class = ` class="worse"`
			}
			fmt.Fprintf(out, "<td%s>%s</td>", class, strings.Join(lines, "<br>"))
		}
		out.WriteString("</tr>\n")
	}
	out.WriteString("</tbody>\n</table></div>\n")
}

func right(is bool) string {
	if is {
		return ` class="number"`
	}
	return ""
}

func (t text) html() string {
	var out strings.Builder
	for _, s := range t {
		words := quote(s.text)
		switch s.style {
		case strong:
			words = "<strong>" + words + "</strong>"
		case literal:
			words = "<code>" + words + "</code>"
		}
		if s.link != "" {
			words = `<a href="` + quote(s.link) + `">` + words + "</a>"
		}
		out.WriteString(words)
	}
	return out.String()
}

// quote makes text that nothing in it is markup, in elements and in attributes.
func quote(words string) string { return template.HTMLEscapeString(words) }

// anchor is a heading's name in a link.
func anchor(words string) string {
	return strings.Trim(notInAnchor.ReplaceAllString(strings.ToLower(words), "-"), "-")
}

var notInAnchor = regexp.MustCompile(`[^a-z0-9]+`)

// inline is an SVG document as part of a page: without its declaration.
func inline(svg []byte) []byte {
	if start := bytes.Index(svg, []byte("<svg")); start > 0 {
		return svg[start:]
	}
	return svg
}
