package statement

// Tables that compare states: columns "before | after | gain" or "A | B | Δ", and the same
// turned on its side. No name of a metric is needed to check such arithmetic: which columns
// a change is of follows from the headings, or from the rows for which it holds.

import (
	"fmt"
	"math"
	"strings"

	"ossian/internal/lab/verify/document"
	"ossian/internal/lazyregexp"
)

// A grid is a table as rows of one comparison each.
type grid struct {
	headers []string
	rows    []gridRow
	turned  bool // rows of the table are columns here
}

type gridRow struct {
	name  string
	line  int
	cells []entry
}

// An entry is what a cell holds: a figure, a change, or neither.
type entry struct {
	text   string
	figure *quantity
	change *quantity
	beside bool // the change stands beside a figure of its own
}

var (
	changeHeader = lazyregexp.New(`(?i)\bgain\b|delta|[Δ∆]|\bdiff(?:erence)?\b|change|improve|speed-?up|increase|reduction|uplift|\bratio\b|boost|saving|saved|\bfactor\b|faster|slowdown|overhead|better|\bscaling\b|^\W*(?:x|vs\.?\b.*)\W*$|提升|变化|加速|Änderung|Veränderung|Gewinn|Verbesserung`)
	improvement  = lazyregexp.New(`(?i)gain|improve|speed-?up|uplift|boost|saving|saved|faster|better|reduction|decrease|lower|提升|Verbesserung|Gewinn`)
	lessHeader   = lazyregexp.New(`(?i)reduction|saving|saved|decrease|lower|slow|overhead|loss|drop|regress`)
	configHeader = lazyregexp.New(`(?i)batch|concurr|\busers?\b|\btp\b|\bgpus?\b|\blen|length|\bisl\b|\bosl\b|\bsize\b|param|\bmodel|\bseq|requests?\b|\bqps\b|\brate\b|layers|nodes|\bnum|#|count|ctx|context|\bngl\b|\bcost\b|price|date|version|rank|shape|\b[mnk]\b|dim|heads|block|threads?|prompts?$`)
	stateHeader  = lazyregexp.New(`(?i)\b(?:baseline|before|default|original|without|w/o|unoptimi[sz]ed|reference|stock|old|base|main|master|upstream|vanilla|current|prev(?:ious)?|naive|fused|unfused|triton|flashinfer|flash-?attention|fa[234]|cutlass|cublas|deepgemm|marlin|torch|pytorch|compiled?|hf|transformers|[abhlr][0-9]{2,3}s?|rtx ?[0-9]{4}|mi3[0-9]{2}x?|[td]p ?=? ?[0-9]{1,2}|[0-9]{1,2} ?x? ?gpus?|after|new|now|ours?|this pr|pr|tuned|optimi[sz]ed|patched|patch|with|w/|candidate|proposed|updated|branch|enabled|disabled|on|off|vllm|sglang|tensorrt-?llm|trt-?llm|tgi|lmdeploy|llama\.cpp|ollama|ossian|eager|graphs?|fp(?:4|8|16|32)|bf16|int[48]|awq|gptq|nvfp4|mxfp4|w[48]a(?:8|16)|vorher|nachher|pre|post|left|right)\b|^\W*(?:[A-Da-d]|v?[0-9]+(?:\.[0-9]+)+(?:\.?(?:post|rc)[0-9]+)?)\W*$|优化|之前|之后|[前后]$`)
	timeWords    = lazyregexp.New(`(?i)latency|\btime|ttft|tpot|\bitl\b|e2e|\bms\b|duration|seconds|memory|vram|\bcost\b|延迟|时延|Latenz|Zeit`)
	rateWords    = lazyregexp.New(`(?i)throughput|tok(?:en)?s?/s|tokens? per|req(?:uests?)?/s|\b(?:tps|qps|rps)\b|t/s|bandwidth|flops|吞吐|Durchsatz`)
)

// checkStates checks the changes of a table against the states beside them, read by rows and
// by columns.
func (c *checker) checkStates(table *document.Table) {
	if len(table.Rows) > 400 || (len(table.Header) < 3 && len(table.Rows) < 3) {
		return
	}
	upright := gridOf(table)
	for _, g := range []grid{upright, upright.turn()} {
		for column := range g.headers {
			c.checkChangeColumn(&g, column)
		}
	}
}

// gridOf reads the cells of a table.
func gridOf(table *document.Table) grid {
	out := grid{headers: table.Header}
	for r := range table.Rows {
		row := &table.Rows[r]
		next := gridRow{name: row.Name, line: row.Line}
		for column := range row.Cells {
			next.cells = append(next.cells, readEntry(row.Cells[column].Text, column > 0))
		}
		out.rows = append(out.rows, next)
	}
	return out
}

var leadingSign = lazyregexp.New(`^[~≈]?\s*[+\-−]`)

// readEntry reads a cell: a figure at its beginning, and a change.
func readEntry(text string, inside bool) entry {
	out := entry{text: text}
	if !inside || len(text) > 80 {
		return out
	}
	found := quantitiesIn(text)
	for i := range found {
		q := &found[i]
		if q.ranged {
			return entry{text: text}
		}
		switch {
		case q.isChange() && out.change == nil:
			out.change = q
		case i == 0 && q.start <= 1 && !q.isChange():
			out.figure = q
		case q.isChange():
			return entry{text: text} // two changes: of what is not said
		}
	}
	out.beside = out.figure != nil && out.change != nil
	return out
}

// turn is a grid with rows for columns.
func (g *grid) turn() grid {
	out := grid{turned: true, headers: []string{""}}
	for _, row := range g.rows {
		out.headers = append(out.headers, row.name)
	}
	for column := 1; column < len(g.headers); column++ {
		next := gridRow{name: g.headers[column], cells: []entry{{}}}
		for _, row := range g.rows {
			next.cells = append(next.cells, row.cells[column])
			next.line = row.line
		}
		out.rows = append(out.rows, next)
	}
	return out
}

// checkChangeColumn checks the changes of one column.
func (c *checker) checkChangeColumn(g *grid, column int) {
	if column == 0 {
		return
	}
	named := changeHeader.MatchString(g.headers[column])
	var at []int
	for r := range g.rows {
		cell := &g.rows[r].cells[column]
		switch {
		case cell.change != nil && (named || cell.beside || leadingSign.MatchString(cell.text) || strings.TrimSpace(g.headers[column]) == ""):
			at = append(at, r)
		case named && cell.figure != nil && cell.change == nil:
			at = append(at, r)
		}
	}
	if len(at) == 0 || intervals.MatchString(joined(g, at, column)) {
		return
	}
	first, second, sure, directed := g.statesOf(column, at)
	if first < 0 {
		c.checkBaseRow(g, column, at)
		return
	}
	// Where the change holds between two states in other rows, one that holds between two rows
	// does so by chance.
	supported := g.support(column, first, second, at)
	for _, r := range at {
		row := &g.rows[r]
		if row.cells[first].figure == nil || row.cells[second].figure == nil || g.explained(r, column, supported) {
			continue
		}
		if sure {
			c.reportChange(g, row, column, first, second, directed)
		}
	}
}

// checkBaseRow checks a column of factors of the first row, whose own is 1: one that does not
// hold where another does, and is the only such one, is wrong.
func (c *checker) checkBaseRow(g *grid, column int, rows []int) {
	first := g.rows[0].cells[column].change
	if g.turned || len(rows) < 3 || rows[0] != 0 || first == nil || first.kind != factor || first.number.Value != 1 {
		return
	}
	for a := 1; a < len(g.headers); a++ {
		base := g.rows[0].cells[a].figure
		if a == column || base == nil || configHeader.MatchString(g.headers[a]) {
			continue
		}
		var off []int
		hold := 0
		for _, r := range rows[1:] {
			cells := g.rows[r].cells
			switch {
			case cells[a].figure == nil || cells[column].change == nil:
			case changeHolds(base, cells[a].figure, &cells[column], g.context(r, column), true):
				hold++
			default:
				off = append(off, r)
			}
		}
		// Several that do not hold are of something else.
		if hold < 1 || len(off) != 1 || g.explained(off[0], column, false) {
			continue
		}
		c.reportFactor(g, off[0], column, base, a)
	}
}

// reportFactor reports a factor that is not that of a figure from the same column's first.
func (c *checker) reportFactor(g *grid, r, column int, base *quantity, a int) {
	row := &g.rows[r]
	before, after := figureOf(base), figureOf(row.cells[a].figure)
	c.add(Contradiction{Percentage, Certain, row.line, "table row " + row.name + ", " + g.headers[column], row.cells[column].text,
		fmt.Sprintf("%s → %s is %s", before.Text, after.Text, tableRatio(after.Value/before.Value, row.cells[column].change)), "the other factors are those from the first row"})
}

// intervals are what makes a change an estimate of its own.
var intervals = lazyregexp.New(`±|\[\s?[-+−]?[0-9.]+\s?%?\s?[,;…]|95 ?%`)

// joined are the texts of the cells of a column.
func joined(g *grid, rows []int, column int) string {
	var out strings.Builder
	for _, r := range rows {
		out.WriteString(g.rows[r].cells[column].text + " ")
	}
	return out.String()
}

// statesOf finds the two columns that a column of changes is of: those for which most of its
// rows hold, else the only two whose headings are those of states. sure says that a row for
// which it does not hold is an error; -1 where no two are.
func (g *grid) statesOf(column int, rows []int) (first, second int, sure, directed bool) {
	// Columns with figures that are no settings.
	var values []int
	for other := 1; other < len(g.headers); other++ {
		figures := 0
		for _, r := range rows {
			if g.rows[r].cells[other].figure != nil {
				figures++
			}
		}
		inline := other == column && g.rows[rows[0]].cells[column].beside
		if (other != column || inline) && figures*2 >= len(rows) && !configHeader.MatchString(g.headers[other]) && !(other != column && changeHeader.MatchString(g.headers[other])) {
			values = append(values, other)
		}
	}
	best := 0
	first, second = -1, -1
	for i, a := range values {
		for _, b := range values[i+1:] {
			if g.rows[rows[0]].cells[column].beside && b != column && a != column {
				continue // the change of a figure is that of its own column
			}
			hold, seen := 0, 0
			for _, r := range rows {
				if holds, ok := g.holds(r, column, a, b, false); ok {
					seen++
					if holds {
						hold++
					}
				}
			}
			if hold > best && hold*5 >= seen*3 {
				first, second, best = a, b, hold
			}
		}
	}
	if best >= 2 || (best == 1 && len(values) == 2 && (len(rows) > 1 && g.stateLike(first, second))) {
		return first, second, true, false
	}
	if len(values) != 2 || !g.stateLike(values[0], values[1]) || (g.byRows(column, rows) && !g.support(column, values[0], values[1], rows)) {
		return -1, -1, false, false
	}
	return values[0], values[1], true, document.BaseWords.MatchString(g.headers[values[0]]) != document.BaseWords.MatchString(g.headers[values[1]])
}

// stateLike reports whether two headings are those of two states of one thing.
func (g *grid) stateLike(a, b int) bool {
	first, second := g.headers[a], g.headers[b]
	if stateHeader.MatchString(first) && stateHeader.MatchString(second) {
		// Two metrics of one state are no two states.
		one, other := document.MetricOf(first), document.MetricOf(second)
		return one == other || one == "" || other == ""
	}
	return false
}

// byRows reports whether changes of a column hold between rows, as those of steps do.
func (g *grid) byRows(column int, rows []int) bool {
	hold := 0
	for _, r := range rows {
		if g.ofOtherRow(r, column) {
			hold++
		}
	}
	return hold > 0 && hold*2 >= len(rows)
}

// explained reports whether a change can be that of any figure of its row from another of the
// row, or, where none of its column holds so elsewhere, from the same column of another row.
func (g *grid) explained(r, column int, supported bool) bool {
	cells := g.rows[r].cells
	for a := 1; a < len(cells); a++ {
		for b := a + 1; b < len(cells); b++ {
			if holds, ok := g.holds(r, column, a, b, true); ok && holds {
				return true
			}
		}
	}
	return !supported && g.ofOtherRow(r, column)
}

// support reports whether the changes of a column are those between two columns: they hold in
// half of the rows, and in as many as hold between rows. Two columns whose headings are not
// known as those of states need two such rows, and more than those.
func (g *grid) support(column, first, second int, rows []int) bool {
	hold, seen, between := 0, 0, g.ofSteps(column, rows)
	for _, r := range rows {
		if holds, ok := g.holds(r, column, first, second, false); ok {
			seen++
			if holds {
				hold++
			}
		}
	}
	if hold == 0 || hold*2 < seen {
		return false
	}
	return (g.stateLike(first, second) && hold >= between) || (hold >= 2 && hold > between)
}

// ofSteps counts the changes of a column that are those of one column from the row above, or
// from the first row: the most of any column.
func (g *grid) ofSteps(column int, rows []int) int {
	most := 0
	for a := 1; a < len(g.headers); a++ {
		fromAbove, fromFirst := 0, 0
		for _, r := range rows {
			cells := g.rows[r].cells
			if r == 0 || (a == column && !cells[a].beside) || cells[a].figure == nil {
				continue
			}
			if above := g.rows[r-1].cells[a].figure; above != nil && changeHolds(above, cells[a].figure, &cells[column], g.context(r, column), true) {
				fromAbove++
			}
			if first := g.rows[0].cells[a].figure; first != nil && changeHolds(first, cells[a].figure, &cells[column], g.context(r, column), true) {
				fromFirst++
			}
		}
		most = max(most, fromAbove, fromFirst)
	}
	return most
}

// ofOtherRow reports whether a change can be that of a figure of its row from the same column
// of another row.
func (g *grid) ofOtherRow(r, column int) bool {
	cells := g.rows[r].cells
	for a := 1; a < len(cells); a++ {
		for other := range g.rows {
			if other == r || (a == column && !cells[a].beside) || cells[a].figure == nil || g.rows[other].cells[a].figure == nil {
				continue
			}
			if changeHolds(g.rows[other].cells[a].figure, cells[a].figure, &cells[column], g.context(r, column), true) {
				return true
			}
		}
	}
	return false
}

// A setting of a change: the words that say how it is to be read.
type changeContext struct {
	header string
	about  string // words of the row and the header that say what it is of
}

func (g *grid) context(r, column int) changeContext {
	return changeContext{g.headers[column], g.rows[r].name + " " + g.headers[0] + " " + g.headers[column]}
}

// holds reports whether a change can be that between two columns; not ok where one is empty.
// The direction is that of the headings where they tell it.
func (g *grid) holds(r, column, a, b int, loose bool) (holds, ok bool) {
	cells := g.rows[r].cells
	if cells[a].figure == nil || cells[b].figure == nil || ((a == column || b == column) && !cells[column].beside) {
		return false, false
	}
	old, fresh := cells[a].figure, cells[b].figure
	context := g.context(r, column)
	context.about += " " + g.headers[a] + " " + g.headers[b]
	// Both ways round, where the headings do not say which is the base.
	baseFirst, baseSecond := document.BaseWords.MatchString(g.headers[a]), document.BaseWords.MatchString(g.headers[b])
	if (baseFirst || !baseSecond) && changeHolds(old, fresh, &cells[column], context, loose) {
		return true, true
	}
	if !baseFirst || baseSecond {
		return changeHolds(fresh, old, &cells[column], context, loose), true
	}
	return false, true
}

// figureOf is a figure of a table: whole ones are rounded to their last digit.
func figureOf(q *quantity) document.Number {
	number, _ := document.ParseNumber(strings.TrimPrefix(q.number.Text, "+"))
	if number.Value == 0 {
		return q.number
	}
	return times(number.Rounded(false), q.number.Value/number.Value)
}

// changeHolds reports whether a printed change can be that from an old figure to a new one.
func changeHolds(old, fresh *quantity, cell *entry, context changeContext, loose bool) bool {
	before, after := figureOf(old), figureOf(fresh)
	if old.kind != fresh.kind && old.kind != bare && fresh.kind != bare {
		return false
	}
	if before.Value <= 0 || after.Value <= 0 {
		return true // no ratio
	}
	ratio := after.Span().Over(before.Span())
	printed := cell.change
	if printed == nil {
		printed = cell.figure
	}
	value := figureOf(printed)
	value.Half *= 1.1
	rising := document.Between(100*(ratio.Low-1), 100*(ratio.High-1))
	falling := document.Between(100*(1-ratio.High), 100*(1-ratio.Low))
	inverse := document.Between(100*(1/ratio.High-1), 100*(1/ratio.Low-1))
	var allowed []document.Span
	isPercent := printed.kind == percent || (printed.kind == bare && strings.Contains(context.header, "%"))
	isFactor := printed.kind == factor
	if printed.kind != percent && printed.kind != factor && !isPercent {
		// A figure without a sign of its kind: a difference, a factor, or a percentage.
		allowed = append(allowed, document.Between(after.Span().Low-before.Span().High, after.Span().High-before.Span().Low), document.Between(before.Span().Low-after.Span().High, before.Span().High-after.Span().Low))
		isFactor, isPercent = true, true
	}
	if isFactor {
		allowed = append(allowed, ratio, document.Between(1/ratio.High, 1/ratio.Low))
	}
	if isPercent {
		allowed = append(allowed, percentSpans(cell.text, context, old.kind, rising, falling, inverse, loose)...)
		if !strings.ContainsAny(cell.text, "+-−") { // "120 %" of the base
			allowed = append(allowed, document.Between(100*ratio.Low, 100*ratio.High), document.Between(100/ratio.High, 100/ratio.Low))
		}
	}
	for _, span := range allowed {
		if span.Meets(value.Span()) {
			return true
		}
	}
	return false
}

// percentSpans are what a percentage may say of a change, by its sign and by what it is of.
func percentSpans(text string, context changeContext, kind kind, rising, falling, inverse document.Span, loose bool) []document.Span {
	isTime := kind == duration || kind == memory || timeWords.MatchString(context.about)
	isRate := !isTime && (kind == tokenRate || kind == requestRate || kind == bandwidth || rateWords.MatchString(context.about))
	out := []document.Span{rising}
	signed := leadingSign.MatchString(text)
	switch {
	case isRate && signed && !lessHeader.MatchString(context.header):
	case loose:
		return append(out, falling, inverse)
	case isRate && !lessHeader.MatchString(context.header):
		out = append(out, document.Between(math.Max(0, falling.Low), math.Max(0, falling.High)))
	case !isTime && signed && !improvement.MatchString(context.header) && !lessHeader.MatchString(context.header):
		if strings.HasPrefix(strings.TrimSpace(text), "+") {
			out = append(out, inverse)
		}
	default:
		out = append(out, falling, inverse)
	}
	return out
}

// reportChange reports a row for which the change of its column does not hold.
func (c *checker) reportChange(g *grid, row *gridRow, column, first, second int, _ bool) {
	old, fresh := row.cells[first].figure, row.cells[second].figure
	before, after := figureOf(old), figureOf(fresh)
	if document.BaseWords.MatchString(g.headers[second]) && !document.BaseWords.MatchString(g.headers[first]) {
		before, after = after, before
	}
	printed := row.cells[column].change
	if printed == nil {
		printed = row.cells[column].figure
	}
	// "No change" is a judgement.
	if printed.number.Value == 0 || (printed.kind == factor && printed.number.Value == 1) {
		return
	}
	follows := fmt.Sprintf("%s → %s is %s", before.Text, after.Text, tableRatio(after.Value/before.Value, printed))
	if printed.kind != percent && printed.kind != factor {
		follows = fmt.Sprintf("%s → %s is %s more, %s", before.Text, after.Text, document.Figure(math.Round(1e6*(after.Value-before.Value))/1e6), ratioText(after.Value/before.Value, true))
	}
	name := "table row " + row.name
	if g.turned {
		name = "table column " + row.name
	}
	c.add(Contradiction{Percentage, Certain, row.line, name + ", " + g.headers[column], row.cells[column].text, follows, "a change is that of one printed figure from another"})
}

// tableRatio writes a ratio as a change is printed.
func tableRatio(ratio float64, printed *quantity) string {
	if printed.kind == factor {
		return fmt.Sprintf("%.2f×", math.Max(ratio, 1/ratio))
	}
	return ratioText(ratio, true)
}
