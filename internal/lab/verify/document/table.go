package document

// Tables in Markdown and HTML: cells with the figures in them, each with the metric it is of
// and the percentage or factor printed beside it.

import (
	"slices"
	"strconv"
	"strings"

	"ossian/internal/lazyregexp"
)

// Limits of tables.
const (
	maxTables  = 5_000
	maxCells   = 200_000 // of a document
	maxRows    = 5_000   // of a table
	maxColumns = 64      // of a table; those beyond are not looked at
)

// A Table is one table; all its rows are cut or filled to the width of the header.
type Table struct {
	Line   int
	Header []string
	Rows   []Row
}

// A Row is one row below the header.
type Row struct {
	Line  int
	Name  string // its first cell
	Cells []Cell
}

// A Cell is what stands in one place of a table.
type Cell struct {
	Text    string
	Figures []TableFigure
	Changes []Change // percentages that stand there alone
}

// A TableFigure is one figure of a cell.
type TableFigure struct {
	Label  string // in small letters: what stands before it in the cell, else the column's header
	Metric string // its key (bench.md 1.8); "" = not known
	Number Number
	Scale  float64 // of "x2" behind it: the figure is of one of so many; 1 = none
	Change *Change // printed beside it
}

// A Change is a printed percentage or factor.
type Change struct {
	Text     string
	at       int    // where it begins in its cell
	Value    Number // in percent, or times
	Factor   bool   // times, not percent
	PerUnit  bool   // "/GPU" and its like
	Faster   bool   // says faster or slower, not how a figure changed
	Interval bool   // an interval follows: an estimate of its own, not the ratio of two printed figures
	Saving   bool   // says how much less: "saved", "reduction"
}

var (
	separatorRow = lazyregexp.New(`^\s*\|?[\s:|-]+\|[\s:|-]*$`)
	htmlCell     = lazyregexp.New(`(?is)<t[hd][^>]{0,200}>(.*?)(?:</t[hd]>|$)`)
	labelled     = lazyregexp.New(`^([A-Za-z][A-Za-z0-9 .()/%_-]{0,60}?)\s*[:=]\s*(.*)$`)
	leadFigure   = lazyregexp.New(`^[~≈]?\s*([-+]?[0-9][0-9,]*(?:\.[0-9]+)?)\s*([x×]\s?[0-9]+)?\s*([A-Za-zµ%][A-Za-z/%.]{0,20}(?:/[A-Za-z]+)?)?`)
	changeText   = lazyregexp.New(`([-+\x{2212}]?\s?[0-9][0-9,]*(?:\.[0-9]+)?)\s?(%|x|×)\s?(/\s?(?:GPU|gpu|device|card|NPU|npu)|per (?:GPU|device|card))?\s?([a-z]+(?: [a-z]+)?)?`)
)

// findTables finds the tables of a text.
func (d *Document) findTables() {
	cells := 0
	for i := 0; i+1 < len(d.Lines) && len(d.Tables) < maxTables && cells < maxCells; i++ {
		line := d.Lines[i]
		var found Table
		switch {
		case strings.Contains(line, "|") && separatorRow.MatchString(d.Lines[i+1]) && strings.Contains(d.Lines[i+1], "-"):
			found = d.markdownTable(i)
			i += len(found.Rows) + 1
		case strings.Contains(strings.ToLower(line), "<table"):
			var end int
			found, end = d.htmlTable(i)
			i = end
		case strings.Contains(line, `\begin{tabular`):
			found, i = d.latexTable(i)
		case boxRow.MatchString(line):
			found, i = d.boxTable(i)
		default:
			continue
		}
		for _, r := range found.Rows {
			cells += len(r.Cells)
		}
		if len(found.Rows) > 0 {
			d.Tables = append(d.Tables, found)
		}
	}
}

// splitRow is the cells of a row of Markdown.
func splitRow(line string) []string {
	line = strings.TrimSpace(line)
	line = strings.TrimSuffix(strings.TrimPrefix(line, "|"), "|")
	return strings.SplitN(line, "|", maxColumns+1)[:min(maxColumns, 1+strings.Count(line, "|"))]
}

// markdownTable reads the table whose header is line at, counted from 0.
func (d *Document) markdownTable(at int) Table {
	found := Table{Line: at + 1}
	for _, name := range splitRow(d.Lines[at]) {
		found.Header = append(found.Header, Plain(name))
	}
	for i := at + 2; i < len(d.Lines) && strings.Contains(d.Lines[i], "|") && strings.TrimSpace(d.Lines[i]) != "" && len(found.Rows) < maxRows; i++ {
		found.add(splitRow(d.Lines[i]), i+1)
	}
	return found
}

// htmlTable reads the table that begins in line at, counted from 0, and says in which it ends.
func (d *Document) htmlTable(at int) (Table, int) {
	found, end := Table{Line: at + 1}, at
	var text strings.Builder
	start := at + 1
	for i := at; i < min(len(d.Lines), at+5000); i++ {
		end = i
		lower := strings.ToLower(d.Lines[i])
		// Rows are taken whole, as they may go over several lines.
		if strings.Contains(lower, "<tr") {
			text.Reset()
			start = i + 1
		}
		text.WriteString(d.Lines[i] + "\n")
		if strings.Contains(lower, "</tr") {
			var cells []string
			for _, match := range htmlCell.FindAllStringSubmatch(text.String(), maxColumns) {
				cells = append(cells, match[1])
			}
			if found.Header == nil {
				for _, name := range cells {
					found.Header = append(found.Header, Plain(name))
				}
			} else if len(found.Rows) < maxRows {
				found.add(cells, start)
			}
			text.Reset()
		}
		if strings.Contains(lower, "</table") {
			break
		}
	}
	return found, end
}

// add adds a row.
func (t *Table) add(texts []string, line int) {
	row := Row{Line: line}
	for column := range t.Header {
		text := ""
		if column < len(texts) {
			text = texts[column]
		}
		if column == 0 {
			row.Name = Plain(text)
		}
		cell := readCell(text, t.Header[column], line)
		for i := range cell.Figures {
			switch figure := &cell.Figures[i]; {
			case column == 0: // names of rows: "8RPS" is no figure of one
				figure.Metric = ""
			case figure.Metric == "" || figure.Metric == someTime:
				// "| mean TTFT | 12 ms | 10 ms |": the row says what its states are of.
				if metric := MetricOf(row.Name); metric != "" && MetricOf(t.Header[column]) == "" {
					figure.Metric = metric
				}
			}
		}
		row.Cells = append(row.Cells, cell)
	}
	t.Rows = append(t.Rows, row)
}

// readCell reads the figures of a cell; header is that of its column.
func readCell(text, header string, line int) Cell {
	cell := Cell{Text: Plain(lineBreak.ReplaceAllString(text, "; "))}
	for _, part := range lineBreak.Split(text, 20) {
		part = Plain(part)
		label, rest := strings.ToLower(header), part
		if match := labelled.FindStringSubmatch(part); match != nil {
			label, rest = strings.ToLower(match[1]), match[2]
		}
		match := leadFigure.FindStringSubmatchIndex(rest)
		changes := findChanges(rest)
		if match == nil {
			cell.Changes = append(cell.Changes, changes...)
			continue
		}
		figure, ok := ParseNumber(rest[match[2]:match[3]])
		unit := Submatch(rest, match, 3)
		behind := Submatch(rest, match, 2)
		// "2.7x faster" and "+12.1%" are changes, not figures; "10-20%" is neither.
		if !ok || rangeBehind.MatchString(rest[match[3]:]) || strings.HasPrefix(unit, "%") || unit == "x" || strings.HasPrefix(unit, "x/") || strings.HasPrefix(rest[match[3]:], "×") {
			cell.Changes = append(cell.Changes, changes...)
			continue
		}
		figure.Line = line
		found := TableFigure{Label: label, Metric: MetricOf(label + " " + unit), Number: figure, Scale: 1}
		if found.Metric == "" && (unit == "s" || unit == "ms") {
			found.Metric = someTime
		}
		if behind != "" {
			if n, err := strconv.Atoi(strings.Trim(behind, "x× ")); err == nil && n > 1 && n <= 1024 {
				found.Scale = float64(n)
			}
		}
		if found.Metric == "mean_e2el_ms" && strings.HasPrefix(unit, "s") {
			found.Number.Value, found.Number.Half = figure.Value*1000, figure.Half*1000
		}
		// A change of the figure stands right behind it; words in between say of what it is.
		for i := range changes {
			if changes[i].at >= match[3] && !otherWords(rest[match[1]:max(match[1], changes[i].at)]) && changes[i].Text != behind {
				found.Change = &changes[i]
				break
			}
		}
		cell.Figures = append(cell.Figures, found)
	}
	return cell
}

// intervalBehind is an interval right behind a change.
var intervalBehind = lazyregexp.New(`^\s?(?:\(?95|[\[±(]\s?[-+\x{2212}]?[0-9.]+\s?%?\s?(?:,|;|…|to|–))`)

// RangeBefore is what makes a figure the upper end of a range.
var RangeBefore = lazyregexp.New(`[0-9]\s?[-–]\s?$`)

// rangeBehind is what makes a figure the lower end of a range.
var rangeBehind = lazyregexp.New(`^\s?[-–]\s?[0-9]`)

// otherWords reports whether there are words in a text, but for units and signs.
func otherWords(text string) bool { return regexpWords.MatchString(text) }

var regexpWords = lazyregexp.New(`[A-Za-z]{3,}`)

// Submatch is a group of a match, "" where it took no part.
func Submatch(text string, match []int, group int) string {
	if match[2*group] < 0 {
		return ""
	}
	return text[match[2*group]:match[2*group+1]]
}

// findChanges finds percentages and factors in a text.
func findChanges(text string) []Change {
	var out []Change
	for _, match := range changeText.FindAllStringSubmatchIndex(text, 20) {
		// "7081.34x2" is a figure of one of two, not a factor.
		if after := strings.TrimLeft(text[match[5]:], " "); match[4] >= 0 && text[match[4]:match[5]] != "%" && after != "" && after[0] >= '0' && after[0] <= '9' {
			continue
		}
		value, ok := ParseNumber(strings.ReplaceAll(Submatch(text, match, 1), " ", ""))
		if !ok {
			continue
		}
		if RangeBefore.MatchString(text[:match[2]]) || (match[2] > 0 && text[match[2]] == '-' && text[match[2]-1] >= '0' && text[match[2]-1] <= '9') {
			continue // the upper end of a range
		}
		word := Submatch(text, match, 4)
		value = value.Rounded(false)
		out = append(out, Change{at: match[2], Text: strings.TrimSpace(text[match[2]:match[5]]) + Submatch(text, match, 3), Value: value, Factor: Submatch(text, match, 2) != "%",
			PerUnit: match[6] >= 0, Interval: intervalBehind.MatchString(text[match[5]:]), Faster: strings.HasPrefix(word, "faster") || strings.HasPrefix(word, "slower") || strings.HasPrefix(word, "speed"),
			Saving: strings.HasPrefix(word, "sav") || strings.HasPrefix(word, "reduc") || strings.HasPrefix(word, "less") || strings.HasPrefix(word, "lower")})
	}
	return out
}

// requestRate is a rate of requests, not the load that is called "8RPS".
var requestRate = lazyregexp.New(`(?:^|[^0-9a-z])rps\b`)

// someTime is the metric of a time of which a label does not say what it is of.
const someTime = "time_ms"

// rateWords are words for rates in labels; a count of tokens has none of them.
var rateWords = []string{"tps", "tok/s", "tokens/s", "tokens per second", "throughput", "t/s", "tok/sec", "token/s"}

// kindWords are words that settle of what a rate is, the first that is there.
var kindWords = []struct{ word, metric string }{{"req", "request_throughput"}, {"total", "total_token_throughput"}, {"output", "output_throughput"},
	{"generat", "output_throughput"}, {"decode", "output_throughput"}, {"input", "input_throughput"}, {"prompt", "input_throughput"}, {"prefill", "input_throughput"}}

// shareOfRate is what makes a rate that of one user or one device, which is another quantity than
// that of a whole run even where both are in tokens per second.
var shareOfRate = lazyregexp.New(`(?:\bper[ -]?|/ ?)(?:(?:each|concurrent|active|single) )?(?:(user|request|req|stream|sequence|seq|client|session)|(gpu|device|card|npu|chip|accelerator))s?\b`)

// latencyWords are words for latencies.
var latencyWords = []struct{ word, name string }{{"ttft", "ttft"}, {"first token", "ttft"}, {"tpot", "tpot"}, {"per output token", "tpot"},
	{"itl", "itl"}, {"inter-token", "itl"}, {"e2e", "e2el"}, {"end-to-end", "e2el"}, {"latency", "e2el"}}

// MetricOf is the key of the metric that a label is of; "throughput" for a rate of tokens of
// which kind the label does not say, "" where it is not known.
func MetricOf(label string) string {
	label = strings.ToLower(label)
	for _, latency := range latencyWords {
		if !strings.Contains(label, latency.word) {
			continue
		}
		for _, statistic := range Orders {
			if strings.Contains(label, statistic) {
				return statistic + "_" + latency.name + "_ms"
			}
		}
		return "mean_" + latency.name + "_ms"
	}
	if strings.Contains(label, "improvement") || strings.Contains(label, "gain") || strings.Contains(label, "change") {
		return ""
	}
	// Words for rates after those for latencies: "time per output token" has "output".
	has := func(word string) bool { return strings.Contains(label, word) }
	if match := shareOfRate.FindStringSubmatch(label); match != nil && (has("req/s") || has("requests/s")) {
		return match[1] + match[2] + "_share"
	}
	if has("req/s") || has("requests/s") || requestRate.MatchString(label) {
		return "request_throughput"
	}
	if !slices.ContainsFunc(rateWords, has) {
		return ""
	}
	if match := shareOfRate.FindStringSubmatch(label); match != nil {
		return match[1] + match[2] + "_share" // no figure of a block, as blocks have those of all together
	}
	for _, kind := range kindWords {
		if has(kind.word) {
			return kind.metric
		}
	}
	return "throughput"
}

// IsTime reports whether less of a metric is better.
func IsTime(metric string) bool { return strings.HasSuffix(metric, "_ms") }

// Orders are the percentiles that reports have, each at most the next.
var Orders = []string{"median", "p75", "p90", "p95", "p99", "p99.9", "max"}

// End is the last line of a table.
func (t *Table) End() int {
	if len(t.Rows) == 0 {
		return t.Line
	}
	return t.Rows[len(t.Rows)-1].Line
}
