package document

// Tables that are neither Markdown nor HTML: those of LaTeX, and those that programs draw on
// a console.

import (
	"strings"

	"ossian/internal/lazyregexp"
)

var (
	boxRow     = lazyregexp.New(`^\s*[│┃║].*[│┃║]\s*$`)
	boxFrame   = lazyregexp.New(`^\s*[┏┌╔├┡╞╠└╚╰╭┗]`)
	boxSides   = lazyregexp.New(`[│┃║]`)
	latexRule  = lazyregexp.New(`\\(?:hline|toprule|midrule|bottomrule|cmidrule(?:\([lr]+\))?\{[^}]*\}|cline\{[^}]*\})`)
	latexWords = lazyregexp.New(`\\(?:textbf|textit|texttt|emph|underline|mathbf|text|mathrm)\{([^{}]*)\}`)
	latexSigns = strings.NewReplacer(`$\times$`, "x", `\times`, "x", `\%`, "%", `\_`, "_", `\&`, "+", `$\pm$`, "±", `\pm`, "±", `$\uparrow$`, "", `$\downarrow$`, "", "$", "", "~", " ")
)

// maxDrawn is how many lines of a drawn table are read.
const maxDrawn = 5_000

// plainLatex is a piece of LaTeX as a reader sees it.
func plainLatex(text string) string {
	return strings.TrimSpace(latexSigns.Replace(latexWords.ReplaceAllString(text, "$1")))
}

// latexTable reads the table that begins in line at, counted from 0, and says in which it ends.
func (d *Document) latexTable(at int) (Table, int) {
	found := Table{Line: at + 1}
	row := ""
	for i := at + 1; i < min(len(d.Lines), at+maxDrawn); i++ {
		if strings.Contains(d.Lines[i], `\end{tabular`) {
			return found, i
		}
		row += " " + latexRule.ReplaceAllString(d.Lines[i], "")
		// A row goes to its two backslashes, over as many lines as it takes.
		text, rest, ended := strings.Cut(row, `\\`)
		if !ended {
			continue
		}
		row = rest
		cells := strings.SplitN(plainLatex(text), "&", maxColumns+1)
		cells = cells[:min(len(cells), maxColumns)]
		found.addRow(cells, i+1)
	}
	return found, at
}

// boxTable reads the drawn table that begins in line at, counted from 0, and says in which it
// ends.
func (d *Document) boxTable(at int) (Table, int) {
	found, end := Table{Line: at + 1}, at
	for i := at; i < min(len(d.Lines), at+maxDrawn); i++ {
		line := strings.TrimSpace(d.Lines[i])
		switch {
		case boxRow.MatchString(line):
			cells := boxSides.Split(line, maxColumns+2)
			found.addRow(cells[1:len(cells)-1], i+1)
		case !boxFrame.MatchString(line):
			return found, end
		}
		end = i
	}
	return found, end
}

// addRow adds a row, the first one as the header.
func (t *Table) addRow(cells []string, line int) {
	if t.Header != nil {
		if len(t.Rows) < maxRows {
			t.add(cells, line)
		}
		return
	}
	for _, name := range cells {
		t.Header = append(t.Header, Plain(name))
	}
}
