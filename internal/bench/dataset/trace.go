package dataset

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"time"
)

// TraceOptions are the flags of data set timed_trace (bench.md 2.6).
type TraceOptions struct {
	Common
	Path  string  // --dataset-path: JSONL
	Chunk int     // --timed-trace-chunk-hash-size: tokens that a hash stands for
	Unit  float64 // --timed-trace-sec-multiplier: seconds that 1 of a time stamp is
	// Names of the fields, --timed-trace-label-…; "" = timestamp, input_length,
	// output_length, hash_ids.
	Timestamp, InputLength, OutputLength, HashIDs string
}

// TimedTrace returns the requests of a trace with their times. Prompts are ids: each
// hash stands for a fixed random block of them, so that equal hashes are equal prefixes.
// A trace whose hashes do not cover the length of a prompt is refused, as its prompts
// would silently be shorter.
func TimedTrace(opts TraceOptions) ([]Query, error) {
	if err := opts.check(0, flag{"--timed-trace-chunk-hash-size", opts.Chunk, 1}); err != nil {
		return nil, err
	}
	if !(opts.Unit > 0 && opts.Unit <= 1e6) {
		return nil, fmt.Errorf("--timed-trace-sec-multiplier %v: want a positive number, 0.001 for milliseconds", opts.Unit)
	}
	coder, err := newCoder(opts.Tokenizer)
	if err != nil {
		return nil, err
	}
	rows, err := readFile(opts.Path, "--dataset-path", opts.read)
	if err != nil {
		return nil, err
	}
	// Blocks outlive a row: the same hash is the same block in all of them.
	made := blocks{pool: coder.allowed(), made: map[block][]int32{}}
	queries := make([]Query, len(rows))
	for i, row := range rows {
		queries[i] = Query{IDs: made.prompt(row, opts.Chunk), Input: row.in, Output: row.out, ID: opts.id(row.line - 1), At: row.at}
	}
	return queries, nil
}

// A traceRow is a line of the trace.
type traceRow struct {
	line    int // counted from 1
	at      time.Duration
	in, out int // tokens
	hashes  []int64
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

// row reads a line of the trace.
func (opts *TraceOptions) row(line []byte) (row traceRow, err error) {
	var fields map[string]json.RawMessage
	if err := parse(line, &fields); err != nil {
		return row, err
	}
	name := func(given, usual string) string {
		if given == "" {
			return usual
		}
		return given
	}
	in, out := name(opts.InputLength, "input_length"), name(opts.OutputLength, "output_length")
	if row.in, err = wholeNumber(in, fields[in], 1, maxTokens); err != nil {
		return row, fmt.Errorf("%w; --timed-trace-label-input-length names the field", err)
	}
	if row.out, err = wholeNumber(out, fields[out], 1, maxTokens); err != nil {
		return row, fmt.Errorf("%w; --timed-trace-label-output-length names the field", err)
	}
	const longest = 1e9 // seconds; the unit of a time stamp differs from trace to trace
	var at *float64
	when := name(opts.Timestamp, "timestamp")
	if err := json.Unmarshal(fields[when], &at); err != nil || at == nil || !(*at >= 0 && *at*opts.Unit <= longest) {
		return row, fmt.Errorf("field %q is %.40q, want a time of 0 or more; --timed-trace-label-timestamp names the field, --timed-trace-sec-multiplier its unit",
			when, fields[when])
	}
	row.at = time.Duration(*at * opts.Unit * float64(time.Second))
	ids := name(opts.HashIDs, "hash_ids")
	if err := json.Unmarshal(fields[ids], &row.hashes); err != nil {
		return row, fmt.Errorf("field %q is %.40q, want an array of whole numbers; --timed-trace-label-hash-ids names the field", ids, fields[ids])
	}
	if need := (row.in + opts.Chunk - 1) / opts.Chunk; len(row.hashes) < need {
		return row, fmt.Errorf("%d tokens need %d hashes of %d tokens, field %q has %d; set --timed-trace-chunk-hash-size (Mooncake's traces have 512)",
			row.in, need, opts.Chunk, ids, len(row.hashes))
	}
	return row, nil
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
	ids := make([]int32, 0, row.in)
	for _, hash := range row.hashes {
		if len(ids) == row.in {
			break
		}
		key := block{hash, min(chunk, row.in-len(ids))}
		if b.made[key] == nil {
			b.made[key] = b.draw(key)
		}
		ids = append(ids, b.made[key]...)
	}
	return ids
}

// draw makes a block from the hash and nothing else. vLLM seeds with Python's hash of
// the same text, which differs from run to run.
func (b *blocks) draw(key block) []int32 {
	sum := fnv.New64a()
	fmt.Fprintf(sum, "%d:%d", key.hash, key.size)
	rng := NewPython(int64(sum.Sum64() >> 1))
	ids := make([]int32, key.size)
	for i := range ids {
		ids[i] = b.pool[rng.Pick(len(b.pool))]
	}
	return ids
}
