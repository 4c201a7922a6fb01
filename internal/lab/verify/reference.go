package verify

// V-REF: figures of tables and sentences that stand in no result block of the document, and
// commands that serve another model than the text around them is about.

import (
	"fmt"
	"strings"

	"ossian/internal/lab/verify/document"
	"ossian/internal/lazyregexp"
)

// references is V-REF.
func (j *judge) references() {
	if len(j.doc.Blocks) > 0 {
		for i := range j.doc.Tables {
			j.checkTable(&j.doc.Tables[i])
		}
		j.checkSentences()
		j.checkSummaries()
	}
	for i := range j.doc.Commands {
		j.checkModel(&j.doc.Commands[i])
	}
}

// checkTable looks for the figures of a table in the blocks. Only tables of which some
// figure is in a block are about them.
func (j *judge) checkTable(table *document.Table) {
	found, looked := 0, 0
	for r := range table.Rows {
		for c := range table.Rows[r].Cells {
			for i := range table.Rows[r].Cells[c].Figures {
				figure := &table.Rows[r].Cells[c].Figures[i]
				if figure.Metric == "" || !j.doc.Known(figure.Metric) || figure.Number.Value == 0 {
					continue
				}
				looked++
				if len(j.doc.Sources(figure)) > 0 {
					found++
				}
			}
		}
	}
	if found == 0 || found*3 < looked {
		return
	}
	for r := range table.Rows {
		for c := range table.Rows[r].Cells {
			j.checkCell(table, &table.Rows[r], &table.Rows[r].Cells[c])
		}
	}
}

// checkCell looks for the figures of a cell, or of a whole row where its cells have one
// each: together they are one block's.
func (j *judge) checkCell(table *document.Table, row *document.Row, c *document.Cell) {
	figures := c.Figures
	if len(figures) == 1 {
		if c != firstFigureCell(row) {
			return
		}
		figures = nil
		for i := range row.Cells {
			if len(row.Cells[i].Figures) == 1 {
				figures = append(figures, row.Cells[i].Figures[0])
			}
		}
	}
	// How many of the figures each block has: a changed digit leaves all others in one.
	together := map[*document.Block]int{}
	known := 0
	for i := range figures {
		if figures[i].Metric == "" || !j.doc.Known(figures[i].Metric) || figures[i].Number.Value == 0 {
			continue
		}
		known++
		for _, b := range j.doc.Sources(&figures[i]) {
			together[b]++
		}
	}
	for i := range figures {
		figure := &figures[i]
		if figure.Metric == "" || !j.doc.Known(figure.Metric) || figure.Number.Value == 0 || len(j.doc.Sources(figure)) > 0 {
			continue
		}
		j.reportMissing(table, row, figure, together, known)
	}
}

// firstFigureCell is the first cell of a row that has one figure.
func firstFigureCell(r *document.Row) *document.Cell {
	for i := range r.Cells {
		if len(r.Cells[i].Figures) == 1 {
			return &r.Cells[i]
		}
	}
	return nil
}

// reportMissing reports a figure that is in no block: wrong where the other figures of its cell
// are those of one block, which has another value for this one.
func (j *judge) reportMissing(t *document.Table, r *document.Row, figure *document.TableFigure, together map[*document.Block]int, known int) {
	where := place(t, r)
	printed := figure.Label + " " + figure.Number.Text
	best := bestBlock(together)
	// All other figures beside it must be of one block: rounded figures are alike by chance.
	if best != nil && known > 1 && together[best] >= known-1 && saysWhich(figure) {
		for _, key := range document.KeysOf(figure.Metric) {
			if value, ok := best.Figure(key); ok {
				j.find(Wrong, figure.Number.Line, where, printed, fmt.Sprintf("%s, line %d, has %s", best.Name, best.LineOf(key), value.Text),
					"the other figures beside it are of that block")
				return
			}
		}
	}
	follows := "in no result block of the document"
	if near, key := j.doc.Nearest(figure); near != nil {
		value, _ := near.Figure(key)
		if document.DigitApart(value, figure.Number) && j.doc.Around(key, value) == 1 {
			j.find(Wrong, figure.Number.Line, where, printed, fmt.Sprintf("%s, line %d, has %s", near.Name, near.LineOf(key), value.Text), "they differ in one digit")
			return
		}
		follows += fmt.Sprintf("; nearest is %s in %s, line %d", value.Text, near.Name, near.LineOf(key))
	}
	j.find(Unsupported, figure.Number.Line, where, printed, follows, "a table gives figures of runs that can be looked up")
}

// saysWhich reports whether a label says which figure of a block it is of. Rates of other things, as
// of one user, are in tokens per second too, so that the unit alone does not.
func saysWhich(figure *document.TableFigure) bool {
	return len(document.KeysOf(figure.Metric)) == 1 || strings.Contains(figure.Label, "throughput") || strings.Contains(figure.Label, "tps")
}

// bestBlock is the block with most of the figures, where there is one.
func bestBlock(together map[*document.Block]int) *document.Block {
	var best *document.Block
	for b, count := range together {
		if best == nil || count > together[best] || (count == together[best] && b.Line < best.Line) {
			best = b
		}
	}
	return best
}

var (
	sentenceRate  = lazyregexp.New(`([0-9][0-9,]*\.[0-9]+)\s?(tok/s|tokens/s|req/s|tok/sec)`)
	rankedFigures = lazyregexp.New(`([A-Za-z][\w .+-]{0,40}?)\s?\(([0-9][0-9,]*(?:\.[0-9]+)?)\s?([A-Za-z/]+)?\)\s*([<>])`)
	lastRanked    = lazyregexp.New(`^\s*([A-Za-z][\w .+-]{0,40}?)\s?\(([0-9][0-9,]*(?:\.[0-9]+)?)\s?([A-Za-z/]+)?\)`)
)

// checkSentences looks for rates of sentences in blocks and tables, and at the order of
// "A (1.0 tok/s) > B (0.5 tok/s)".
func (j *judge) checkSentences() {
	inBlock := j.doc.BlockLines()
	for i, raw := range j.doc.Lines {
		if inBlock[i+1] || strings.Contains(raw, "|") || len(raw) > 2000 {
			continue
		}
		line := document.Plain(raw)
		j.checkRanking(line, i+1)
		if j.doc.Fenced[i] {
			continue
		}
		for _, match := range sentenceRate.FindAllStringSubmatchIndex(line, 20) {
			value, ok := document.ParseNumber(document.Submatch(line, match, 1))
			// A difference of two figures is in no block.
			if before := line[:match[0]]; !ok || strings.HasSuffix(strings.TrimRight(before, " ~"), "by") || document.RangeBefore.MatchString(before) {
				continue
			}
			metric := "token_throughput"
			if document.Submatch(line, match, 2) == "req/s" {
				metric = "request_throughput"
			}
			figure := document.TableFigure{Metric: metric, Number: value, Scale: 1, Label: "throughput"}
			if len(j.doc.Sources(&figure)) > 0 || j.doc.InTables(value) {
				continue
			}
			near, key := j.doc.Nearest(&figure)
			if near == nil {
				continue
			}
			follows := "in no result block and in no table of the document"
			if nearest, _ := near.Figure(key); document.DigitApart(nearest, value) && j.doc.Around(key, nearest) == 1 {
				j.find(Wrong, i+1, "sentence", clip(line), fmt.Sprintf("%s, line %d, has %s", near.Name, near.LineOf(key), nearest.Text), "they differ in one digit")
				continue
			}
			j.find(Unsupported, i+1, "sentence", clip(line), value.Text+" stands "+follows, "figures of a report are of runs that can be looked up")
		}
	}
}

// checkRanking checks the order of figures between signs.
func (j *judge) checkRanking(line string, at int) {
	matches := rankedFigures.FindAllStringSubmatchIndex(line, 20)
	for _, match := range matches {
		left, okLeft := document.ParseNumber(document.Submatch(line, match, 2))
		next := lastRanked.FindStringSubmatch(line[match[1]:])
		if next == nil || !okLeft || (next[3] != "" && document.Submatch(line, match, 3) != "" && next[3] != document.Submatch(line, match, 3)) {
			continue
		}
		right, okRight := document.ParseNumber(next[2])
		greater := document.Submatch(line, match, 4) == ">"
		if !okRight || left.Value == right.Value || (left.Value > right.Value) == greater {
			continue
		}
		j.find(Wrong, at, "ranking", clip(line), fmt.Sprintf("%s is not %s than %s", left.Text, map[bool]string{true: "more", false: "less"}[greater], right.Text), "the sign between two figures")
	}
}

// checkModel compares the model of a command with those that the headings above it name.
func (j *judge) checkModel(command *document.Command) {
	model, ok := document.ModelIn(command.Model)
	if !ok {
		return
	}
	// A chapter about another model than the title has a heading that says so.
	var named []document.ModelName
	for _, h := range j.doc.Above(command.Line) {
		named = append(named, document.ModelsIn(h.Text)...)
		if len(named) > 0 {
			break // the nearest heading that names one
		}
	}
	if len(named) == 0 {
		named = document.ModelsIn(j.doc.Title())
	}
	var others []string
	for _, other := range named {
		if other.Matches(model) {
			return
		}
		others = append(others, other.Text)
	}
	if len(others) == 0 {
		return
	}
	what := "loads"
	if command.Serves {
		what = "serves"
	}
	j.find(Unsupported, command.Line, "command", clip(command.Text), "it "+what+" "+command.Model, "the text is about "+strings.Join(others, ", "))
}

// checkSummaries checks tables that give one change an option against the blocks: some two
// runs of one load must differ by it.
func (j *judge) checkSummaries() {
	for i := range j.doc.Tables {
		table := &j.doc.Tables[i]
		if len(table.Header) != 2 {
			continue
		}
		for r := range table.Rows {
			cell := &table.Rows[r].Cells[1]
			if len(cell.Figures) != 0 || len(cell.Changes) != 1 {
				continue
			}
			if !j.someChange(cell.Changes[0]) {
				j.find(Unsupported, table.Rows[r].Line, place(table, &table.Rows[r]), table.Rows[r].Name+" "+cell.Changes[0].Text,
					"no two blocks of one load differ by this", "a change is that of one printed figure from another")
			}
		}
	}
}

// compared are the metrics of which a summary may give the change.
var compared = []string{"total_token_throughput", "output_throughput", "request_throughput", "mean_e2el_ms", "mean_tpot_ms", "mean_ttft_ms"}

// someChange reports whether two runs of one load differ by a printed change.
func (j *judge) someChange(printed document.Change) bool {
	const mostRuns = 300 // of which each is compared with each
	blocks := j.doc.Blocks[:min(len(j.doc.Blocks), mostRuns)]
	for _, base := range blocks {
		for _, block := range blocks {
			if block == base || block.Value("total_input_tokens") != base.Value("total_input_tokens") || block.Value("completed") != base.Value("completed") {
				continue
			}
			for _, metric := range compared {
				if !block.Has(metric) || !base.Has(metric) || base.Value(metric) <= 0 || block.Value(metric) <= 0 {
					continue
				}
				old := document.TableFigure{Metric: metric, Number: base.Values[metric], Scale: 1}
				fresh := document.TableFigure{Metric: metric, Number: block.Values[metric], Scale: 1}
				for _, devices := range []float64{1, 2, 3, 4, 6, 8, 16} {
					if holds(old, fresh, printed, devices) {
						return true
					}
				}
			}
		}
	}
	return false
}
