package dataset

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
)

// BurstGPTOptions are the flags of data set burstgpt (bench.md 2.6).
type BurstGPTOptions struct {
	Common
	Path string // --dataset-path: BurstGPT's CSV
}

// BurstGPT returns prompts as long as the ones that ChatGPT was asked, by a random sample
// of the rows of GPT-4. What they say is a run of the vocabulary, and its length is the
// number of these ids, whatever the text encodes to.
func BurstGPT(opts BurstGPTOptions) ([]Query, error) {
	if err := opts.check(0); err != nil {
		return nil, err
	}
	rows, err := readFile(opts.Path, "--dataset-path", readBurst)
	if err != nil {
		return nil, err
	}
	coder, err := newCoder(opts.Tokenizer)
	if err != nil {
		return nil, err
	}
	rng, err := NewLegacy(opts.Seed)
	if err != nil {
		return nil, err
	}
	// Without repeats as long as there are enough rows.
	pick := func(int) int { return rng.Randint(0, len(rows)) }
	if opts.Prompts <= len(rows) {
		order := rng.Permutation(len(rows))
		pick = func(i int) int { return order[i] }
	}
	queries, total := make([]Query, opts.Prompts), 0
	for i := range queries {
		row := rows[pick(i)]
		if total += row.in; total > maxTotal {
			return nil, fmt.Errorf("%s: %d prompts have %d tokens together, at most %d are supported; ask for fewer", opts.Path, i+1, total, maxTotal)
		}
		ids := make([]int32, row.in)
		for j := range ids {
			ids[j] = int32((i + j) % coder.vocab)
		}
		queries[i] = Query{Prompt: coder.bpe.Decode(ids), Input: row.in, Output: row.out, ID: opts.id(i)}
	}
	return queries, nil
}

// A burstRow is a request of the log, in tokens.
type burstRow struct{ in, out int }

// readBurst returns the rows of GPT-4 that were answered.
func readBurst(r io.Reader) ([]burstRow, error) {
	bounds := newBounded(r)
	in := csv.NewReader(unmarked(bounds))
	in.ReuseRecord = true
	head, err := in.Read()
	if err == io.EOF {
		return nil, errors.New("want CSV with a line of column names, found an empty file")
	}
	if err != nil {
		return nil, fmt.Errorf("want CSV with a line of column names: %w", err)
	}
	columns := len(head) // what head holds changes with each row
	model, request, response := slices.Index(head, "Model"), slices.Index(head, "Request tokens"), slices.Index(head, "Response tokens")
	if model < 0 || request < 0 || response < 0 {
		return nil, fmt.Errorf("columns are %.200q, want \"Model\", \"Request tokens\" and \"Response tokens\" among them", head)
	}
	// Rows that failed have no answer; the other model's are not asked for.
	var rows []burstRow
	for {
		bounds.unit = maxUnit
		record, err := in.Read() // errors name the line
		if err == io.EOF {
			break
		}
		if errors.Is(err, csv.ErrFieldCount) {
			line, _ := in.FieldPos(0)
			return nil, fmt.Errorf("line %d has %d columns, the header %d", line, len(record), columns)
		}
		if err != nil {
			return nil, err
		}
		if record[model] != "GPT-4" || record[response] == "0" {
			continue
		}
		row := burstRow{parseTokens(record[request]), parseTokens(record[response])}
		if row.in < 0 || row.out < 1 {
			line, _ := in.FieldPos(0)
			return nil, fmt.Errorf("line %d: %.40q request and %.40q response tokens, want whole numbers up to %d", line, record[request], record[response], maxTokens)
		}
		rows = append(rows, row)
	}
	if len(rows) == 0 {
		return nil, errors.New("no row has \"GPT-4\" in column \"Model\" and an answer")
	}
	return rows, nil
}

// parseTokens returns a number of tokens, or -1.
func parseTokens(text string) int {
	count, err := strconv.Atoi(text)
	if err != nil || count < 0 || count > maxTokens {
		return -1
	}
	return count
}
