package dataset

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
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
func Custom(o CustomOptions) ([]Query, error) {
	if o.Output == 0 || o.Output < -1 || o.Output > maxTokens {
		return nil, fmt.Errorf("--custom-output-len %d: want 1 to %d, or -1 for the field \"output_tokens\" of each row", o.Output, maxTokens)
	}
	if o.Prompts > maxPrompts {
		return nil, fmt.Errorf("--num-prompts %d: want at most %d", o.Prompts, maxPrompts)
	}
	rows, err := readFile(o.Path, "--dataset-path", func(r io.Reader) ([]customRow, error) { return readCustom(r, o.Output == -1) })
	if err != nil {
		return nil, err
	}
	if !o.KeepOrder {
		o.shuffle(len(rows), func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
	}
	if o.Prompts <= 0 {
		o.Prompts = len(rows)
	}
	var c *coder
	if o.Tokenizer != nil {
		if c, err = newCoder(o.Tokenizer); err != nil {
			return nil, err
		}
	}
	queries := make([]Query, 0, o.Prompts)
	for i, row := range rows[:min(len(rows), o.Prompts)] {
		q, err := o.query(c, row)
		if err != nil {
			return nil, fmt.Errorf("%s: line %d: %w", o.Path, row.line, err)
		}
		q.ID = o.id(i)
		queries = append(queries, q)
	}
	if !o.NoOversample {
		pick := NewPython(o.Seed).Below
		if o.Rules == VLLMRust {
			pick = NewRust(uint64(len(queries))).Below
		}
		queries = o.oversample(queries, pick)
	}
	return queries, nil
}

func (o *CustomOptions) query(c *coder, row customRow) (Query, error) {
	if c == nil {
		return Query{Prompt: row.prompt, Input: 1, Output: 1}, nil
	}
	q := Query{Prompt: row.prompt, Output: o.Output}
	if o.Output == -1 {
		q.Output = row.output
	}
	if o.Render != nil && o.Rules != VLLMRust {
		text, err := o.Render(row.prompt)
		if err != nil {
			return q, fmt.Errorf("chat template: %w; --skip-chat-template sends prompts as they are", err)
		}
		q.Prompt = text
	}
	q.Input = c.count(q.Prompt)
	return q, nil
}

// A customRow is a line of the file.
type customRow struct {
	line   int // counted from 1
	prompt string
	output int // tokens; 0 unless they are asked for
}

// readCustom reads JSON lines; outputs says whether output_tokens are needed.
func readCustom(r io.Reader, outputs bool) ([]customRow, error) {
	var rows []customRow
	err := eachLine(r, func(i int, line []byte) (bool, error) {
		var in struct {
			Prompt *string         `json:"prompt"`
			Output json.RawMessage `json:"output_tokens"`
		}
		if err := parse(line, &in); err != nil {
			return false, err
		}
		if in.Prompt == nil {
			return false, errors.New("field \"prompt\" is missing")
		}
		row := customRow{line: i + 1, prompt: *in.Prompt}
		if outputs {
			var err error
			if row.output, err = wholeNumber("output_tokens", in.Output, 1, maxTokens); err != nil {
				return false, fmt.Errorf("%w; or set --custom-output-len", err)
			}
		}
		if rows = append(rows, row); len(rows) > maxPrompts {
			return false, fmt.Errorf("more than %d rows", maxPrompts)
		}
		return true, nil
	})
	if err == nil && len(rows) == 0 {
		err = errors.New("it has no rows, want lines like {\"prompt\": \"…\"}")
	}
	return rows, err
}
