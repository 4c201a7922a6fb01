package dataset

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"time"

	"ossian/internal/bench/jsonfile"
)

// TraceOptions are the flags of data set timed_trace (bench.md 2.6).
type TraceOptions struct {
	Common
	Path  string  // --dataset-path: JSONL
	Chunk int     // --timed-trace-chunk-hash-size: tokens that a hash stands for
	Unit  float64 // --timed-trace-sec-multiplier: seconds that 1 of a time stamp is
	// Output is how many tokens a row asks for that does not say so; 0 = all rows have to.
	Output int
	// Names of the fields, --timed-trace-label-…; "" = timestamp, input_length,
	// output_length, hash_ids.
	Timestamp, InputLength, OutputLength, HashIDs string
}

// TraceGaps says what rows of a trace leave out, which is optional. Lines count from 1.
type TraceGaps struct {
	Rows      int // in all
	Times     int // rows without a time stamp, whose Query.At is 0
	FirstTime int // the line of the first of these
	Outputs   int // rows without a number of output tokens, which got TraceOptions.Output
	Hashes    int // rows without hashes, whose prompts share nothing
}

// TimedTrace returns the requests of a trace with their times, and what it does not say of them.
// Prompts are ids: each hash stands for a fixed random block of them, so that equal hashes are
// equal prefixes; a row without hashes is a block of its own. A trace whose hashes do not cover
// the length of a prompt is refused, as its prompts would silently be shorter.
func TimedTrace(opts TraceOptions) ([]Query, TraceGaps, error) {
	var gaps TraceGaps
	if err := opts.check(0, flag{"--timed-trace-chunk-hash-size", opts.Chunk, 1}, flag{"--output-len", opts.Output, 0}); err != nil {
		return nil, gaps, err
	}
	if !(opts.Unit > 0 && opts.Unit <= 1e6) {
		return nil, gaps, fmt.Errorf("--timed-trace-sec-multiplier %v: want a positive number, 0.001 for milliseconds", opts.Unit)
	}
	coder, err := newCoder(opts.Tokenizer)
	if err != nil {
		return nil, gaps, err
	}
	rows, err := readFile(opts.Path, "--dataset-path", opts.read)
	if err != nil {
		return nil, gaps, err
	}
	// Blocks outlive a row: the same hash is the same block in all of them.
	made := blocks{pool: coder.allowed(), made: map[block][]int32{}}
	queries := make([]Query, len(rows))
	for i, row := range rows {
		queries[i] = Query{IDs: made.prompt(row, opts.Chunk), Input: row.in, Output: row.out, ID: opts.id(row.line - 1), At: row.at}
		gaps.add(row)
	}
	return queries, gaps, nil
}

// add counts what a row leaves out.
func (g *TraceGaps) add(row traceRow) {
	g.Rows++
	if row.untimed {
		if g.Times == 0 {
			g.FirstTime = row.line
		}
		g.Times++
	}
	if row.unsized {
		g.Outputs++
	}
	if len(row.hashes) == 0 {
		g.Hashes++
	}
}

// A traceRow is a line of the trace.
type traceRow struct {
	line    int // counted from 1
	at      time.Duration
	in, out int     // tokens
	hashes  []int64 // none = the row has none
	untimed bool    // the row has no time stamp
	unsized bool    // the row has no number of output tokens
}

// read returns as many rows as there are to be prompts.
func (opts *TraceOptions) read(src io.Reader) ([]traceRow, error) {
	var rows []traceRow
	total := 0
	err := eachLine(src, func(before int, line []byte) (bool, error) {
		row, err := opts.row(line)
		if err != nil {
			return false, err
		}
		row.line = before + 1
		if total += row.in; total > maxTotal {
			return false, fmt.Errorf("the prompts so far have %d tokens together, at most %d are supported; lower --num-prompts", total, maxTotal)
		}
		rows = append(rows, row)
		return len(rows) < opts.Prompts, nil
	})
	if err == nil && len(rows) == 0 {
		err = errors.New("it has no rows")
	}
	return rows, err
}

// traceExample is a line of a trace with all that it must have and most of what it may.
const traceExample = `{"timestamp": 0, "input_length": 40, "output_length": 5}`

// row reads a line of the trace.
func (opts *TraceOptions) row(line []byte) (row traceRow, err error) {
	fields, err := object(line, traceExample)
	if err != nil {
		return row, err
	}
	in := cmp.Or(opts.InputLength, "input_length")
	if row.in, err = wholeNumber(in, fields, 1, maxTokens); err != nil {
		return row, fmt.Errorf("%w; --timed-trace-label-input-length names the field", err)
	}
	for _, read := range []func(*traceRow, map[string]json.RawMessage) error{opts.output, opts.time, opts.hashes} {
		if err := read(&row, fields); err != nil {
			return row, err
		}
	}
	return row, nil
}

// output reads how many tokens a row asks for.
func (opts *TraceOptions) output(row *traceRow, fields map[string]json.RawMessage) (err error) {
	name := cmp.Or(opts.OutputLength, "output_length")
	if row.unsized = jsonfile.IsNull(fields[name]); row.unsized && opts.Output > 0 {
		row.out = opts.Output
		return nil
	}
	if row.out, err = wholeNumber(name, fields, 1, maxTokens); err != nil {
		return fmt.Errorf("%w; --timed-trace-label-output-length names the field, --output-len stands in for it", err)
	}
	return nil
}

// time reads when a row is sent.
func (opts *TraceOptions) time(row *traceRow, fields map[string]json.RawMessage) error {
	const longest = 1e9 // seconds; the unit of a time stamp differs from trace to trace
	name := cmp.Or(opts.Timestamp, "timestamp")
	if row.untimed = jsonfile.IsNull(fields[name]); row.untimed {
		return nil
	}
	var at float64
	if err := json.Unmarshal(fields[name], &at); err != nil || !(at >= 0 && at*opts.Unit <= longest) {
		return fmt.Errorf("field %q is %.40q, want a time of 0 or more; --timed-trace-label-timestamp names the field, --timed-trace-sec-multiplier its unit",
			name, fields[name])
	}
	row.at = time.Duration(at * opts.Unit * float64(time.Second))
	return nil
}

// hashes reads which blocks the prompt of a row is made of. No hashes at all are none to cover
// it with; too few are a mistake.
func (opts *TraceOptions) hashes(row *traceRow, fields map[string]json.RawMessage) error {
	name := cmp.Or(opts.HashIDs, "hash_ids")
	if jsonfile.IsNull(fields[name]) {
		return nil
	}
	if err := json.Unmarshal(fields[name], &row.hashes); err != nil {
		return fmt.Errorf("field %q is %.40q, want an array of whole numbers; --timed-trace-label-hash-ids names the field", name, fields[name])
	}
	if need := (row.in + opts.Chunk - 1) / opts.Chunk; len(row.hashes) > 0 && len(row.hashes) < need {
		return fmt.Errorf("%d tokens need %d hashes of %d tokens, field %q has %d; set --timed-trace-chunk-hash-size (Mooncake's traces have 512)",
			row.in, need, opts.Chunk, name, len(row.hashes))
	}
	return nil
}

// A block is what one hash stands for: the last of a prompt can be cut.
type block struct {
	hash int64
	size int // tokens
}

// blocks makes the ids of blocks.
type blocks struct {
	pool []int32 // ids to draw from
	made map[block][]int32
}

// prompt is the prompt of a row: its blocks one behind another, the last one cut.
func (b *blocks) prompt(row traceRow, chunk int) []int32 {
	if len(row.hashes) == 0 {
		return b.draw(fmt.Sprintf("line %d:%d", row.line, row.in), row.in) // no hash is spelt like this
	}
	ids := make([]int32, 0, row.in)
	for _, hash := range row.hashes {
		if len(ids) == row.in {
			break
		}
		key := block{hash, min(chunk, row.in-len(ids))}
		if b.made[key] == nil {
			b.made[key] = b.draw(fmt.Sprintf("%d:%d", key.hash, key.size), key.size)
		}
		ids = append(ids, b.made[key]...)
	}
	return ids
}

// draw makes a block from its name and nothing else. vLLM seeds with Python's hash of
// the same text, which differs from run to run.
func (b *blocks) draw(name string, size int) []int32 {
	sum := fnv.New64a()
	_, _ = io.WriteString(sum, name) // a hash takes all bytes
	rng := NewPython(int64(sum.Sum64() >> 1))
	ids := make([]int32, size)
	for i := range ids {
		ids[i] = b.pool[rng.Pick(len(b.pool))]
	}
	return ids
}
