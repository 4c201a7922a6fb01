package cost

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
)

// kernels.csv is what a run on a card records of kernels at model shapes (cuda.md 12): one row for a kernel,
// a shape and a number of tokens, timed by events over many launches, gaps included. Columns are found
// by their names in the first line; those that follow from the others are written for people.
//
//	card,kernel,shape,tokens,us,gb_s,tflop_s,share,predicted_us,ratio
//	H200,linear_mxfp4_8,rows=5760 cols=2880,4,7.9,…
//
// A shape is KEY=NUMBER separated by spaces, as ParseWork says.

// A Record is a row of kernels.csv.
type Record struct {
	Card, Kernel, Shape string
	Tokens              int
	Micros              float64 // measured
	Works               []Work  // of its kernels, which run one behind another
}

// Seconds returns how long the constants say that a record takes, gaps included, and what limits the
// longest of its kernels.
func (r *Record) Seconds(card *Card, c *Constants) (total float64, by Limit) {
	longest := 0.0
	for i := range r.Works {
		seconds, limit := c.Seconds(card, &r.Works[i])
		if seconds > longest {
			longest, by = seconds, limit
		}
		total += seconds + c.Gap
	}
	return total, by
}

// sums returns what the kernels of a record move, compute, and need at least.
func (r *Record) sums(card *Card) (memory, flops, bound float64) {
	for i := range r.Works {
		w := &r.Works[i]
		memory, flops, bound = memory+w.Memory, flops+w.FLOPs, bound+w.Bound(card)
	}
	return memory, flops, bound
}

// Columns of kernels.csv.
var (
	needed  = []string{"card", "kernel", "shape", "tokens", "us"}
	derived = []string{"gb_s", "tflop_s", "share", "predicted_us", "ratio"}
)

// A table is a file of times whose first line has been read.
type table struct {
	*csv.Reader
	at map[string]int // columns by their names
}

// lacks returns the first of these columns that the table does not have.
func (t *table) lacks(columns []string) (string, bool) {
	for _, name := range columns {
		if _, ok := t.at[name]; !ok {
			return name, true
		}
	}
	return "", false
}

// next returns a row and its line, nil at the end.
func (t *table) next() ([]string, int, error) {
	row, err := t.Read()
	if errors.Is(err, io.EOF) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, fmt.Errorf("kernels.csv: %w", err)
	}
	line, _ := t.FieldPos(0)
	return row, line, nil
}

// time reads tokens and time of a row.
func (t *table) time(r *Record, row []string, column string) (err error) {
	if r.Tokens, err = strconv.Atoi(row[t.at["tokens"]]); err != nil {
		return err
	}
	if r.Micros, err = strconv.ParseFloat(row[t.at[column]], 64); err == nil && !(r.Micros > 0 && r.Micros < 1e9) {
		err = fmt.Errorf("%v us: a time above 0 expected", r.Micros)
	}
	return err
}

// ReadRecords reads kernels.csv of either kind; one of operations (times.go) is of that card, whose products
// are by these kernels. Errors name the line.
func ReadRecords(from io.Reader, card string, by Products) ([]Record, error) {
	t := &table{csv.NewReader(from), map[string]int{}}
	head, err := t.Read()
	if err != nil {
		return nil, fmt.Errorf("kernels.csv: %w: a first line with the names of columns expected: %s", err, strings.Join(needed, ","))
	}
	for i, name := range head {
		t.at[strings.TrimSpace(name)] = i
	}
	if _, other := t.lacks(timed); !other {
		return t.readTimes(card, by)
	}
	if name, ok := t.lacks(needed); ok {
		return nil, fmt.Errorf("kernels.csv: no column %q; %s expected, or %s", name, strings.Join(needed, ","), strings.Join(timed, ","))
	}
	var all []Record
	for {
		row, line, err := t.next()
		if row == nil || err != nil {
			return all, err
		}
		record := Record{Card: row[t.at["card"]], Kernel: row[t.at["kernel"]], Shape: row[t.at["shape"]], Works: make([]Work, 1)}
		err = t.time(&record, row, "us")
		if err == nil {
			record.Works[0], err = ParseWork(record.Kernel, record.Shape, record.Tokens)
		}
		if err != nil {
			return nil, fmt.Errorf("kernels.csv: line %d: %w", line, err)
		}
		all = append(all, record)
	}
}

// WriteRecords writes kernels.csv, with what follows from the times on a card and what these constants predict.
func WriteRecords(to io.Writer, card *Card, constants *Constants, records []Record) error {
	writer := csv.NewWriter(to)
	rows := [][]string{append(append([]string{}, needed...), derived...)}
	number := func(v float64) string { return strconv.FormatFloat(v, 'g', 4, 64) }
	for i := range records {
		r := &records[i]
		seconds := r.Micros * 1e-6
		predicted, _ := r.Seconds(card, constants)
		memory, flops, bound := r.sums(card)
		rows = append(rows, []string{r.Card, r.Kernel, r.Shape, strconv.Itoa(r.Tokens), number(r.Micros), number(memory / seconds / 1e9),
			number(flops / seconds / 1e12), number(bound / seconds), number(predicted * 1e6), number(predicted / seconds)})
	}
	return writer.WriteAll(rows)
}

// A shapeOf reads the numbers of a shape; the first that is missing or wrong is the error.
type shapeOf struct {
	text   string
	values map[string]int
	err    error
}

// parseShape splits KEY=NUMBER pairs.
func parseShape(text string) *shapeOf {
	s := &shapeOf{text: text, values: map[string]int{}}
	for _, part := range strings.Fields(text) {
		key, value, _ := strings.Cut(part, "=")
		n, err := strconv.Atoi(value)
		if err != nil || n < 0 || n > 1<<24 {
			s.err = fmt.Errorf("shape %q: %s: KEY=NUMBER expected", text, part)
			return s
		}
		s.values[key] = n
	}
	return s
}

// get returns a number that has to be there and is not 0.
func (s *shapeOf) get(key string) int {
	n := s.values[key]
	if n == 0 && s.err == nil {
		s.err = fmt.Errorf("shape %q: %s=NUMBER expected", s.text, key)
	}
	return max(n, 1)
}

// ParseWork returns what a kernel of that name does with so many tokens. Shapes, by kernel:
//
//	linear_FORMAT_TILE               rows cols
//	up_FORMAT_TILE, down_…, experts_ hidden inner experts topk; tokens are spread over experts evenly
//	add_norm, glu, select_rows       width
//	add_norm_experts_TOPK            width
//	embed_FORMAT                     rows cols
//	route, route_plan                experts topk
//	rotate_store                     heads kv dim
//	attend_…                         heads kv dim context, and window where there is one: tokens are the rows of
//	                                 one token each
//	attend_prefill_…                 the same: one row of so many tokens behind context others
func ParseWork(kernel, shape string, tokens int) (Work, error) {
	s := parseShape(shape)
	if s.err == nil && (tokens < 1 || tokens > 1<<20) {
		s.err = fmt.Errorf("%d tokens: 1 to %d expected", tokens, 1<<20)
	}
	if s.err != nil {
		return Work{}, s.err
	}
	works := s.works(kernel, tokens)
	if s.err != nil {
		return Work{}, fmt.Errorf("kernel %s: %w", kernel, s.err)
	}
	for _, w := range works {
		if w.Kernel == kernel {
			return w, nil
		}
	}
	var names []string
	for _, w := range works {
		names = append(names, w.Kernel)
	}
	return Work{}, fmt.Errorf("kernel %q does not run for shape %q and %d tokens; there run: %s", kernel, shape, tokens, strings.Join(names, ", "))
}

// works are the kernels that the operation runs to which a kernel belongs.
func (s *shapeOf) works(kernel string, tokens int) []Work {
	parts := strings.Split(kernel, "_")
	format := Format(parts[min(1, len(parts)-1)])
	known := decodings[format] != nil
	switch first := parts[0]; {
	case first == "linear" && known:
		return []Work{Linear(Matrix{format, s.get("rows"), s.get("cols")}, false, tokens)}
	case (first == "up" || first == "down") && known, first == "experts":
		if !known {
			format = MXFP4
		}
		return s.experts(format, tokens)
	case first == "embed" && known:
		return []Work{Embed(Matrix{format, s.get("rows"), s.get("cols")}, tokens)}
	case first == "add":
		return []Work{AddNorm(s.get("width"), tokens, false), AddNormExperts(s.get("width"), 4, tokens), AddNormExperts(s.get("width"), 8, tokens)}
	case first == "glu":
		return []Work{GLU(s.get("width"), tokens)}
	case first == "select":
		return []Work{Select(s.get("width"), tokens)}
	case first == "route":
		return []Work{Route(s.get("experts"), s.get("topk"), tokens), RoutePlan(s.get("experts"), s.get("topk"), min(tokens, planTokens))}
	case first == "rotate", first == "attend":
		return s.attention(kernel, tokens)
	}
	return nil
}

func (s *shapeOf) experts(format Format, tokens int) []Work {
	e := Experts{Up: Matrix{format, 2 * s.get("inner"), s.get("hidden")}, Down: Matrix{format, s.get("hidden"), s.get("inner")}, Count: s.get("experts"), TopK: s.get("topk")}
	return e.Works(tokens, evenly(tokens, e.Count, e.TopK))
}

func (s *shapeOf) attention(kernel string, tokens int) []Work {
	h := Heads{Heads: s.get("heads"), KV: s.get("kv"), Dim: s.get("dim"), Codes: strings.HasSuffix(kernel, "e4m3") || s.values["fp8"] > 0}
	if s.err == nil && (!h.Counted() || h.Heads < h.KV) {
		s.err = fmt.Errorf("shape %q: even heads of up to 128 elements expected, no fewer than kv heads", s.text)
	}
	if s.err != nil {
		return nil
	}
	if !strings.HasPrefix(kernel, "attend") {
		return []Work{h.RotateStore(tokens)}
	}
	rows := []Row{{s.values["context"], tokens}}
	if !strings.HasPrefix(kernel, "attend_prefill") {
		rows = nil
		for range tokens {
			rows = append(rows, Row{s.values["context"], 1})
		}
	}
	return h.Attend(rows, s.values["window"])
}

// Refit returns the constants of a card with which the model comes nearest to what was measured, from a
// start. Each constant is found from the rows that it limits: for a given gap the shares are medians of what
// rows reached, and which limit a row has follows from the shares, in turns until nothing moves. The
// gap is the one that leaves least. A constant that limits fewer than leastRows keeps its start.
func Refit(card *Card, start Constants, records []Record) (Fitted, error) {
	if len(records) < leastRows {
		return Fitted{}, fmt.Errorf("%d rows of %s: at least %d expected", len(records), card.Name, leastRows)
	}
	shortest := math.Inf(1)
	for i := range records {
		shortest = math.Min(shortest, records[i].Micros*1e-6/float64(len(records[i].Works)))
	}
	best := Fitted{Error: math.Inf(1)}
	for step := range 61 { // of the shortest time at most 0.9 is a gap
		gap := float64(step) / 60 * math.Min(0.9*shortest, 10e-6)
		if one := refitWithGap(card, start, records, gap); one.Error < best.Error {
			best = one
		}
	}
	return best, nil
}

// leastRows is how many rows say something about a constant.
const leastRows = 3

// refitWithGap finds the shares where the gap is known.
func refitWithGap(card *Card, start Constants, records []Record, gap float64) Fitted {
	constants := start
	constants.Gap = gap
	counts := map[string]int{}
	for range 20 {
		var reached [numLimits][]float64
		for i := range records {
			constants.reached(card, &records[i], &reached)
		}
		before := constants
		for limit := range numLimits {
			counts[limit.String()] = len(reached[limit])
			if len(reached[limit]) >= leastRows {
				constants.reach(limit, median(reached[limit]))
			}
		}
		if constants == before {
			break
		}
	}
	for limit := range numLimits { // one that some rows had in an earlier turn only
		if counts[limit.String()] < leastRows {
			*constants.of(limit) = *start.of(limit)
		}
	}
	sum := 0.0
	for i := range records {
		seconds, _ := records[i].Seconds(card, &constants)
		miss := math.Log(seconds / (records[i].Micros * 1e-6))
		sum += miss * miss
	}
	return Fitted{Card: card.Name, Constants: constants, Kernels: len(records), Error: math.Sqrt(sum / float64(len(records))), Rows: counts}
}

// reached adds what a record's kernels reach of their limits. Of several, each has its part of the measured
// time as the constants divide it.
func (c *Constants) reached(card *Card, r *Record, reached *[numLimits][]float64) {
	predicted, _ := r.Seconds(card, c)
	gaps := c.Gap * float64(len(r.Works))
	stretch := (r.Micros*1e-6 - gaps) / (predicted - gaps)
	for i := range r.Works {
		seconds, by := c.Seconds(card, &r.Works[i])
		demands := r.Works[i].Demands(card)
		reached[by] = append(reached[by], demands[by]/(seconds*stretch))
	}
}

// reach sets the constant of a limit to what rows reach of it.
func (c *Constants) reach(limit Limit, share float64) {
	if limit == ByTrips {
		share = 1 / share
	}
	*c.of(limit) = share
}

// of returns the constant of a limit.
func (c *Constants) of(limit Limit) *float64 {
	return []*float64{&c.Memory, &c.Cache, &c.MMA, &c.Issue, &c.Shared, &c.Chain, &c.Trip}[limit]
}

// median returns the middle of numbers, which it sorts.
func median(numbers []float64) float64 {
	slices.Sort(numbers)
	return numbers[len(numbers)/2]
}
