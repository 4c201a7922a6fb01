package verify

// V-PCT: printed percentages and factors against the printed figures that they are of, in
// rows and columns of tables. Sentences, and tables of states, are package statement's.

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"ossian/internal/lab/verify/document"
	"ossian/internal/lazyregexp"
)

// percentages is V-PCT.
func (j *judge) percentages() {
	for i := range j.doc.Tables {
		table := &j.doc.Tables[i]
		for r := range table.Rows {
			j.checkRow(table, &table.Rows[r])
		}
		for column := range table.Header {
			j.checkColumn(table, column)
			j.checkGains(table, column)
		}
	}
	j.memorySavings()
}

// maxSentence is how long a line may be that is read as a sentence.
const maxSentence = 4 << 10

// checkRow checks the changes of a row against the same metric in its base column.
func (j *judge) checkRow(table *document.Table, row *document.Row) {
	for column := range row.Cells {
		for i := range row.Cells[column].Figures {
			figure := &row.Cells[column].Figures[i]
			if figure.Change == nil || figure.Change.Interval {
				continue
			}
			// The change of a later step may be one from the step before it.
			if base, ok := document.RowBase(table, row, column, figure.Label); ok && !ofEarlier(row, column, figure) {
				j.checkChange(place(table, row), base, *figure, *figure.Change, j.scalesNear(table, row))
			}
		}
	}
}

// ofEarlier reports whether a change is one from a figure of the same label in a column
// between the base and its own.
func ofEarlier(row *document.Row, column int, figure *document.TableFigure) bool {
	for _, cell := range row.Cells[:column] {
		for _, earlier := range cell.Figures {
			if earlier.Label == figure.Label && earlier.Change != nil && holds(earlier, *figure, *figure.Change, 1) {
				return true
			}
		}
	}
	return false
}

// checkGains checks a column that has nothing but changes: each must be that of some figure
// of its row from the same metric in another row.
func (j *judge) checkGains(table *document.Table, column int) {
	for at := range table.Rows {
		row := &table.Rows[at]
		if len(row.Cells[column].Figures) > 0 || len(row.Cells[column].Changes) != 1 || row.Cells[column].Changes[0].Interval {
			continue
		}
		// Any two rows will do: which one is the base is often not said.
		printed := row.Cells[column].Changes[0]
		if len(strings.Fields(row.Cells[column].Text)) > 3 {
			continue // a sentence, of something else
		}
		metrics, found, inRow := 0, false, false
		for other := range row.Cells {
			if len(row.Cells[other].Figures) != 1 || row.Cells[other].Figures[0].Metric == "" {
				continue
			}
			figure := row.Cells[other].Figures[0]
			metrics++
			for _, second := range row.Cells[other+1:] { // before and after in one row
				inRow = inRow || (len(second.Figures) == 1 && second.Figures[0].Metric == figure.Metric)
			}
			inRow = inRow || betweenColumns(row, printed)
			for from := range table.Rows {
				base := &table.Rows[from].Cells[other]
				found = found || (from != at && len(base.Figures) == 1 && base.Figures[0].Number.Value > 0 && holds(base.Figures[0], figure, printed, 1))
			}
		}
		if metrics == 0 || found || inRow || len(table.Rows) < 2 || neutral(printed) || !isGain(table.Header[column], printed) {
			continue
		}
		severity := Unsupported // of which of several metrics the change is, is not said
		if metrics == 1 && gainAlone.MatchString(table.Header[column]) {
			severity = Wrong
		}
		j.find(severity, row.Line, place(table, row)+", "+table.Header[column], printed.Text, "no two figures of the table differ by this", "a change is that of one printed figure from another")
	}
}

// betweenColumns reports whether a change can be that of any two figures of a row.
func betweenColumns(row *document.Row, printed document.Change) bool {
	for from := range row.Cells {
		for to := range row.Cells {
			if from == to || len(row.Cells[from].Figures) != 1 || len(row.Cells[to].Figures) != 1 || row.Cells[from].Figures[0].Number.Value <= 0 || row.Cells[to].Figures[0].Number.Value <= 0 {
				continue
			}
			if holds(row.Cells[from].Figures[0], row.Cells[to].Figures[0], printed, 1) {
				return true
			}
		}
	}
	return false
}

// neutral reports whether a change says that there is none, as that of a base does.
func neutral(printed document.Change) bool {
	return printed.Value.Value == 0 || (printed.Value.Value == 1 && printed.Factor) || (printed.Value.Value == 100 && !printed.Factor)
}

// gainHeader are headings of columns of changes; shares, efficiencies and rates of hits are in
// percent too.
var gainHeader = lazyregexp.New(`(?i)gain|delta|[Δ∆]|diff|change|improve|speed-?up|increase|reduction|uplift|boost|saving|effect|faster|better|^[^\pL\pN_]*$|^[^\pL\pN_]*(?:vs\.?|relative|over) `)

// gainAlone are headings that say nothing of what a change is of, so that it is of the metric
// of its table.
var gainAlone = lazyregexp.New(`(?i)^[^\pL\pN_]*(?:(?:relative|rel\.?|total|net|throughput|%) ?)?(?:gain|delta|[Δ∆]|diff(?:erence)?|change|improvement|speed-?up|increase|uplift|effect)?(?: ?(?:%|vs\.? (?:base(?:line)?|stock|default|previous|first)))?[^\pL\pN_]*$`)

// isGain reports whether a percentage or a factor of a column is a change.
func isGain(header string, printed document.Change) bool {
	return gainHeader.MatchString(header) || strings.ContainsAny(printed.Text, "+-\u2212")
}

// place is what a row is called in findings.
func place(t *document.Table, r *document.Row) string {
	return "table row " + r.Name
}

// A columnEntry is the only figure of a row's cell.
type columnEntry struct {
	row *document.Row
	f   document.TableFigure
}

// checkColumn checks the changes of a column against one row of it, where rows are states
// and each row has the metric once.
func (j *judge) checkColumn(table *document.Table, column int) {
	var changed, all []columnEntry
	for i := range table.Rows {
		row := &table.Rows[i]
		if len(row.Cells[column].Figures) != 1 {
			continue
		}
		figure := row.Cells[column].Figures[0]
		if _, inRow := document.RowBase(table, row, column, figure.Label); inRow {
			return // its base is in the row
		}
		all = append(all, columnEntry{row, figure})
		if figure.Change != nil && !figure.Change.Interval {
			changed = append(changed, columnEntry{row, figure})
		}
	}
	if len(changed) == 0 || len(all) < 2 {
		return
	}
	// The base is the row that is called so; else the one for which most changes hold.
	best, most := -1, 0
	for i := range all {
		if all[i].f.Change != nil {
			continue
		}
		hold := 0
		for _, e := range changed {
			if holds(all[i].f, e.f, *e.f.Change, 1) {
				hold++
			}
		}
		if document.BaseWords.MatchString(all[i].row.Name) {
			hold += len(changed) + 1
		}
		if hold > most {
			best, most = i, hold
		}
	}
	for _, entry := range changed {
		// The change of a later row may be one from any row before it: steps, or sections.
		earlier := slices.ContainsFunc(all, func(other columnEntry) bool {
			return other.row.Line < entry.row.Line && holds(other.f, entry.f, *entry.f.Change, 1)
		})
		switch {
		case earlier:
		case best >= 0:
			j.checkChange(place(table, entry.row)+", "+table.Header[column], all[best].f, entry.f, *entry.f.Change, j.scalesNear(table, entry.row))
		default:
			j.find(Unsupported, entry.row.Line, place(table, entry.row)+", "+table.Header[column], entry.f.Number.Text+" ("+entry.f.Change.Text+")",
				"no row of the table gives this change", "a percentage needs the figure that it is of")
		}
	}
}

// A scale is a number of devices by which a document may divide.
type scale struct {
	times float64
	said  bool // by the document: x2, /GPU, normalised
}

var normalised = lazyregexp.New(`(?i)normali[sz]ed|per[- ](gpu|device|card|npu)|/\s?(gpu|device|card|npu)`)

// scalesNear are the scales by which changes in a table may hold: those of its commands'
// devices and the usual ones.
func (j *judge) scalesNear(t *document.Table, r *document.Row) []scale {
	said := normalised.MatchString(j.doc.TextAround(t, r))
	out := []scale{}
	for _, times := range []float64{2, 3, 4, 6, 8, 16} {
		out = append(out, scale{times, said})
	}
	return out
}

// checkChange checks one printed change.
func (j *judge) checkChange(where string, base, figure document.TableFigure, printed document.Change, scales []scale) {
	if base.Number.Value <= 0 || figure.Number.Value < 0 {
		return
	}
	// Beside a figure of which nobody knows what it is, a share without a sign is no change.
	if figure.Metric == "" && base.Metric == "" && !printed.Factor && !strings.ContainsAny(printed.Text, "+-\u2212") {
		return
	}
	if holds(base, figure, printed, 1) {
		if figure.Scale > 1 {
			j.find(Info, figure.Number.Line, where, fmt.Sprintf("%sx%s (%s)", figure.Number.Text, document.Figure(figure.Scale), printed.Text),
				fmt.Sprintf("holds for all %s together", document.Figure(figure.Scale)), "the figure is of one of several servers or devices")
		}
		return
	}
	for _, scale := range scales {
		if !holds(base, figure, printed, scale.times) {
			continue
		}
		if scale.said || printed.PerUnit {
			j.find(Info, figure.Number.Line, where, figure.Number.Text+" ("+printed.Text+")", fmt.Sprintf("holds per device: divided by %s", document.Figure(scale.times)), "the document says that it scales by devices")
		} else {
			j.find(Caution, figure.Number.Line, where, figure.Number.Text+" ("+printed.Text+")",
				fmt.Sprintf("holds only divided by %s", document.Figure(scale.times)), "a scaling by the number of devices is not said")
		}
		return
	}
	devices := 1.0
	if printed.PerUnit { // by the number of devices that comes nearest
		nearest := math.Inf(1)
		for _, s := range scales {
			low, high := rangeOf(base, figure, s.times, printed.Factor)
			if off := math.Abs((low+high)/2 - printed.Value.Value); off < nearest {
				devices, nearest = s.times, off
			}
		}
	}
	low, high := rangeOf(base, figure, devices, printed.Factor)
	// Rounded once more from a rounded figure: 45.349 to 45.35 to 45.4.
	twice := printed.Value
	twice.Half *= 1.1
	if (document.Between(low, high)).Meets(twice.Span()) {
		j.find(Caution, figure.Number.Line, where, figure.Number.Text+" ("+printed.Text+")", fmt.Sprintf("%s → %s is %.3f", base.Number.Text, figure.Number.Text, (low+high)/2), "it was rounded twice")
		return
	}
	follows := fmt.Sprintf("%s → %s is %s", base.Number.Text, figure.Number.Text, changeFigure((low+high)/2, printed))
	j.find(Wrong, figure.Number.Line, where, figure.Number.Text+" ("+printed.Text+")", follows,
		allowed("the rounded operands", changeFigure(low, printed), changeFigure(high, printed)))
}

// allowed says what operands allow: a range, or one figure where their rounding does not show.
func allowed(operands, low, high string) string {
	if low == high {
		return operands + " allow nothing else"
	}
	return operands + " allow " + low + " to " + high
}

// changeFigure writes a change with the digits of a printed one and one more.
func changeFigure(value float64, printed document.Change) string {
	decimals := 1
	if _, after, ok := strings.Cut(printed.Value.Text, "."); ok {
		decimals = len(after)
	}
	if printed.Factor {
		return fmt.Sprintf("%.*f×", decimals, value)
	}
	text := fmt.Sprintf("%+.*f %%", decimals, value)
	if finer := fmt.Sprintf("%+.*f %%", decimals+1, value); strings.TrimRight(finer, "0 %") != strings.TrimRight(text, "0 %") {
		text += " (" + finer + ")"
	}
	return text
}

// rangeOf is by how much a figure differs from its base, in percent or as a factor, per one
// of so many devices.
func rangeOf(base, figure document.TableFigure, devices float64, factor bool) (low, high float64) {
	count := figure.Scale / base.Scale / devices
	ratio := figure.Number.Span().Over(base.Number.Span())
	ratio = document.Between(ratio.Low*count, ratio.High*count)
	if factor {
		if document.IsTime(figure.Metric) || document.IsTime(base.Metric) {
			return 1 / ratio.High, 1 / ratio.Low
		}
		return ratio.Low, ratio.High
	}
	return 100 * (ratio.Low - 1), 100 * (ratio.High - 1)
}

// holds reports whether a printed change can be that of a figure from its base. Times may be
// said to be so much less, or the server so much faster.
func holds(base, figure document.TableFigure, printed document.Change, devices float64) bool {
	low, high := rangeOf(base, figure, devices, printed.Factor)
	want := printed.Value.Span()
	if (document.Between(low, high)).Meets(want) {
		return true
	}
	// "So many times faster" of something that may be a time.
	if printed.Factor && (printed.Faster || figure.Metric == "") && document.Between(1/high, 1/low).Meets(want) {
		return true
	}
	if printed.Factor || !(document.IsTime(figure.Metric) || document.IsTime(base.Metric) || printed.Saving) {
		return false
	}
	// A reduction by so much is printed without its sign; "faster" counts the other way round.
	if (document.Between(-high, -low)).Meets(want) && !strings.HasPrefix(printed.Text, "+") {
		return true
	}
	faster := document.Between(100*(1/(1+high/100)-1), 100*(1/(1+low/100)-1))
	return faster.Meets(want)
}

// clip is a text that fits in a finding.
func clip(text string) string {
	const most = 240
	if len(text) <= most {
		return text
	}
	cut := most
	for cut > 0 && text[cut]&0xC0 == 0x80 {
		cut-- // not within a character
	}
	return text[:cut] + " …"
}
