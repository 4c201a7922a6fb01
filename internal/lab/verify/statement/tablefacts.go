package statement

// Facts of tables and of lists of keys and values: rows that are runs with columns that are
// metrics, the same on its side, and statistics of one metric in a row.

import (
	"strings"

	"ossian/internal/lab/verify/document"
	"ossian/internal/lazyregexp"
)

// checkTableFacts checks each run of a table.
func (c *checker) checkTableFacts(table *document.Table) {
	const most = 2_000 // rows
	rows := table.Rows[:min(len(table.Rows), most)]
	before := len(c.found)
	held := false
	switch {
	case labels(table.Header) >= 2:
		for r := range rows {
			f := c.rowFacts(table, &rows[r])
			c.checkOrder(&f)
			c.checkIdentities(&f)
			held = held || devicesHold(&f)
		}
	case labels(rowNames(rows)) >= 1:
		c.checkMetricRows(table, rows)
	}
	// Where another row of the table is number times one, this is what its columns mean.
	for i := before; held && i < len(c.found); i++ {
		if strings.HasSuffix(c.found[i].Printed, "per device") {
			c.found[i].Degree = Certain
		}
	}
	c.checkRunColumns(table, rows)
}

// rowNames are the first cells of rows.
func rowNames(rows []document.Row) []string {
	out := make([]string, len(rows))
	for i := range rows {
		out[i] = rows[i].Name
	}
	return out
}

// labels counts the labels that say by themselves what is of a run.
func labels(names []string) int {
	count := 0
	for _, name := range names {
		if _, ok := labelFact(name, document.Number{}, ""); ok || latencyOf(name) != "" {
			count++
		}
	}
	return count
}

// cellFigure is the only figure of a cell with its unit; false where there are more, or words.
func cellFigure(text string) (number document.Number, unit string, ok bool) {
	if strings.Contains(text, "±") {
		text, _, _ = strings.Cut(text, "±")
	}
	text = strings.TrimSpace(changeBehind.ReplaceAllString(text, ""))
	found := quantitiesIn(text)
	if len(found) != 1 || found[0].start > 0 || found[0].isChange() || found[0].ranged || otherWords.MatchString(text[found[0].end:]) {
		return number, "", false
	}
	number, ok = document.ParseNumber(found[0].number.Text)
	if ok && found[0].thousands > 1 {
		number = times(number.Rounded(false), found[0].thousands)
	}
	return number, found[0].unit, ok
}

var (
	changeBehind = lazyregexp.New(`\s*\([-+−]?[0-9.,]+ ?[%x×][^)]*\)\s*$`)
	otherWords   = lazyregexp.New(`[A-Za-z]{2,}|[0-9]`)
)

// rowFacts are the facts of a row whose columns are metrics.
func (c *checker) rowFacts(table *document.Table, row *document.Row) facts {
	out := facts{line: row.Line, place: "table row " + row.Name, text: strings.Join(table.Header, " | ")}
	for column := range row.Cells {
		if number, unit, ok := cellFigure(row.Cells[column].Text); ok {
			if found, ok := labelFact(table.Header[column], number, unit); ok {
				out.all = append(out.all, found)
			}
		}
	}
	return out
}

// devicesHold reports whether a row has its total by its devices.
func devicesHold(f *facts) bool {
	each, okEach := f.one(deviceSpeed)
	count, okCount := f.one(deviceCount)
	if !okEach || !okCount || count.number.Value < 2 {
		return false
	}
	for i := range f.all {
		if all := &f.all[i]; all.role == anySpeed || all.role == outputSpeed || all.role == totalSpeed {
			exact := count.number.Value
			if (document.Between(each.number.Span().Low*exact, each.number.Span().High*exact)).Meets(widen(all.number.Span(), 0.02)) {
				return true
			}
		}
	}
	return false
}

// checkMetricRows checks a table whose rows are metrics: the statistics of a row, and the
// runs that its columns are.
func (c *checker) checkMetricRows(table *document.Table, rows []document.Row) {
	columns := make([]facts, len(table.Header))
	for column := range columns {
		columns[column] = facts{line: table.Line, place: "table column " + table.Header[column], text: strings.Join(rowNames(rows), " | ")}
	}
	for r := range rows {
		line := facts{line: rows[r].Line, place: "table row " + rows[r].Name}
		for column := 1; column < len(rows[r].Cells); column++ {
			if changeHeader.MatchString(table.Header[column]) {
				continue
			}
			number, unit, ok := cellFigure(rows[r].Cells[column].Text)
			if !ok {
				continue
			}
			label := rows[r].Name
			statistic := statisticOf(table.Header[column])
			if statistic == "?" {
				continue
			}
			if statistic != "" {
				label += " " + table.Header[column]
			}
			found, ok := labelFact(label, number, unit)
			if !ok && latencyOf(label) != "" { // all of a row are in one unit, whatever it is
				found, ok = fact{role: latencyOf(label), statistic: statistic, number: number.Rounded(false), printed: number.Text, line: number.Line}, statistic != ""
				if ok {
					line.all = append(line.all, found)
				}
				continue
			}
			if ok {
				columns[column].all = append(columns[column].all, found)
				if statistic != "" {
					line.all = append(line.all, found)
				}
			}
		}
		c.checkOrder(&line)
	}
	for column := 1; column < len(columns); column++ {
		if statisticOf(table.Header[column]) == "" {
			c.checkOrder(&columns[column])
		}
		if statistic := statisticOf(table.Header[column]); statistic == "" || statistic == "mean" {
			c.checkIdentities(&columns[column])
		}
	}
}

var (
	runHeader  = lazyregexp.New(`(?i)^\W*(?:run|trial|rep(?:eat|etition)?|iter(?:ation)?|seed|round|try|lauf)?\s*#?\s*[0-9]{1,2}\W*$`)
	meanHeader = lazyregexp.New(`(?i)^\W*(?:mean|average|avg\.?|mittel\w*)\W*$`)
)

// checkRunColumns compares the mean of repeated runs, a column each, with them.
func (c *checker) checkRunColumns(table *document.Table, rows []document.Row) {
	var runs []int
	mean := -1
	for column := 1; column < len(table.Header); column++ {
		switch {
		case runHeader.MatchString(table.Header[column]):
			runs = append(runs, column)
		case meanHeader.MatchString(table.Header[column]):
			mean = column
		}
	}
	if len(runs) < 2 || mean < 0 {
		return
	}
	for r := range rows {
		var listed []document.Number
		for _, column := range runs {
			if number, _, ok := cellFigure(rows[r].Cells[column].Text); ok {
				listed = append(listed, number.Rounded(false))
			}
		}
		printed, _, ok := cellFigure(rows[r].Cells[mean].Text)
		if !ok || len(listed) != len(runs) || meanOf(listed, printed.Rounded(false)) {
			continue
		}
		c.add(Contradiction{Arithmetic, Certain, rows[r].Line, "table row " + rows[r].Name, table.Header[mean] + " " + printed.Text, "the mean of its runs is " + document.Figure(plainMean(listed)), "a mean is the sum by the count"})
	}
}

var keyValue = lazyregexp.New(`^\s*(?:[-*•]\s+)?(?:\*\*)?([A-Za-z#][^:=|]{1,60}?)(?:\*\*)?\s*[:=]\s*(?:\*\*)?\s*([0-9][^|]{0,40})$`)

// checkKeyed checks lists of keys with values, a line each.
func (c *checker) checkKeyed() {
	inBlock := c.doc.BlockLines()
	var group facts
	flush := func() {
		if len(group.all) >= 2 {
			c.checkOrder(&group)
			c.checkIdentities(&group)
		}
		group = facts{}
	}
	for i, raw := range c.doc.Lines {
		line := document.Plain(raw)
		match := keyValue.FindStringSubmatch(line)
		if match == nil || len(raw) > maxLength || inBlock[i+1] {
			flush()
			continue
		}
		number, unit, ok := cellFigure(strings.TrimSpace(match[2]))
		if !ok {
			continue
		}
		if found, ok := labelFact(match[1], number, unit); ok {
			found.line = i + 1
			if len(group.all) == 0 {
				group = facts{line: i + 1, place: "list of figures"}
			}
			group.text += match[1] + " | "
			group.all = append(group.all, found)
		}
	}
	flush()
}
