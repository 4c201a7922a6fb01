package dataset

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"ossian/internal/bench/jsonfile"
)

// CustomOptions are the flags of data set custom (bench.md 2.4).
type CustomOptions struct {
	Common              // no Tokenizer: prompts and answers count as one token, as in vLLM
	Path         string // --dataset-path: JSONL with "prompt" and perhaps "output_tokens"
	Output       int    // --custom-output-len; -1 = output_tokens of each row
	KeepOrder    bool   // --disable-shuffle
	NoOversample bool   // --no-oversample
	// Render puts a prompt in the chat template; nil = prompts are sent as they are
	// (--skip-chat-template). VLLMRust never renders.
	Render func(prompt string) (string, error)
}

// Custom returns the prompts of a file; Prompts 0 or less = all of them.
func Custom(opts CustomOptions) ([]Query, error) {
	if opts.Output == 0 || opts.Output < -1 || opts.Output > maxTokens {
		return nil, fmt.Errorf("--custom-output-len %d: want 1 to %d, or -1 for the field \"output_tokens\" of each row", opts.Output, maxTokens)
	}
	if opts.Prompts > maxPrompts {
		return nil, fmt.Errorf("--num-prompts %d: want at most %d", opts.Prompts, maxPrompts)
	}
	rows, err := readFile(opts.Path, "--dataset-path", func(r io.Reader) ([]customRow, error) { return readCustom(r, opts.Output == -1) })
	if err != nil {
		return nil, err
	}
	// The order is drawn for all rows, whatever is taken of them then.
	if !opts.KeepOrder {
		opts.shuffle(len(rows), func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
	}
	if opts.Prompts <= 0 {
		opts.Prompts = len(rows)
	}
	var coder *textCoder // nil without a tokenizer
	if opts.Tokenizer != nil {
		if coder, err = newCoder(opts.Tokenizer); err != nil {
			return nil, err
		}
	}
	queries := make([]Query, 0, opts.Prompts)
	for i, row := range rows[:min(len(rows), opts.Prompts)] {
		query, err := opts.query(coder, row)
		if err != nil {
			return nil, fmt.Errorf("%s: line %d: %w", opts.Path, row.line, err)
		}
		query.ID = opts.id(i)
		queries = append(queries, query)
	}
	if !opts.NoOversample {
		pick := NewPython(opts.Seed).Below
		if opts.Rules == VLLMRust { // seeds with the number of rows
			pick = NewRust(uint64(len(queries))).Below
		}
		queries = opts.oversample(queries, pick)
	}
	return queries, nil
}

// query makes a query of a row.
func (opts *CustomOptions) query(coder *textCoder, row customRow) (Query, error) {
	if coder == nil {
		return Query{Prompt: row.prompt, Input: 1, Output: 1}, nil
	}
	query := Query{Prompt: row.prompt, Output: opts.Output}
	if opts.Output == -1 {
		query.Output = row.output
	}
	if opts.Render != nil && opts.Rules != VLLMRust {
		text, err := opts.Render(row.prompt)
		if err != nil {
			return query, fmt.Errorf("chat template: %w; --skip-chat-template sends prompts as they are", err)
		}
		query.Prompt = text
	}
	query.Input = coder.count(query.Prompt)
	return query, nil
}

// A customRow is a line of the file.
type customRow struct {
	line   int // counted from 1
	prompt string
	output int // tokens; 0 unless they are asked for
}

// customExample is a line of the file.
const customExample = `{"prompt": "…"}`

// readCustom reads JSON lines; outputs says whether output_tokens are needed.
func readCustom(r io.Reader, outputs bool) ([]customRow, error) {
	var rows []customRow
	err := eachLine(r, func(before int, line []byte) (bool, error) {
		row, err := readRow(line, outputs)
		if err != nil {
			return false, err
		}
		row.line = before + 1
		if rows = append(rows, row); len(rows) > maxPrompts {
			return false, fmt.Errorf("more than %d rows", maxPrompts)
		}
		return true, nil
	})
	if err == nil && len(rows) == 0 {
		err = errors.New("it has no rows, want lines like " + customExample)
	}
	return rows, err
}

// readRow reads a line of the file.
func readRow(line []byte, outputs bool) (row customRow, err error) {
	fields, err := object(line, customExample)
	if err != nil {
		return row, err
	}
	prompt := fields["prompt"]
	if jsonfile.IsNull(prompt) {
		err := jsonfile.Missing("prompt", fields)
		// A file of conversations is often given here by mistake.
		if fields["messages"] != nil || fields["conversations"] != nil {
			err = fmt.Errorf("%w; --dataset-name sharegpt reads conversations", err)
		}
		return row, err
	}
	if err := json.Unmarshal(prompt, &row.prompt); err != nil {
		return row, fmt.Errorf("field \"prompt\" is %s, want a string", jsonfile.Kind(prompt))
	}
	if outputs {
		if row.output, err = wholeNumber("output_tokens", fields, 1, maxTokens); err != nil {
			return row, fmt.Errorf("%w; or set --custom-output-len", err)
		}
	}
	return row, nil
}
