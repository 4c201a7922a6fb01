package dataset

import (
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
)

// SonnetOptions are the flags of data set sonnet (bench.md 2.6).
type SonnetOptions struct {
	Common
	Path   string // --dataset-path: a poem, line by line
	Input  int    // --sonnet-input-len: most tokens of a prompt
	Output int    // --sonnet-output-len
	Prefix int    // --sonnet-prefix-len: tokens that all prompts begin with
	// Render puts a prompt in the chat template, whose tokens count; nil = there is none.
	Render func(prompt string) (string, error)
	Plain  bool // send the prompt as it was before Render: chat, where the server renders
}

// sonnetHead is what each prompt begins with.
const sonnetHead = "Pick as many lines as you can from these poem lines:\n"

// Sonnet returns prompts of lines of a poem, the first ones the same in all.
func Sonnet(o SonnetOptions) ([]Query, error) {
	err := o.check(o.Input, flag{"--sonnet-input-len", o.Input, 1}, flag{"--sonnet-output-len", o.Output, 1}, flag{"--sonnet-prefix-len", o.Prefix, 0})
	if err != nil {
		return nil, err
	}
	lines, err := readFile(o.Path, "--dataset-path", readPoem)
	if err != nil {
		return nil, err
	}
	c, err := newCoder(o.Tokenizer)
	if err != nil {
		return nil, err
	}
	if o.Render == nil {
		o.Render = func(prompt string) (string, error) { return prompt, nil }
	}
	shared, own, err := o.lines(c, lines)
	if err != nil {
		return nil, err
	}
	head := sonnetHead + strings.Join(lines[:shared], "")
	g := NewPython(o.Seed)
	queries := make([]Query, 0, o.Prompts)
	for misses := 0; len(queries) < o.Prompts; {
		var b strings.Builder
		b.WriteString(head)
		for range own {
			b.WriteString(lines[g.Pick(len(lines))])
		}
		prompt := b.String()
		text, err := o.Render(prompt)
		if err != nil {
			return nil, fmt.Errorf("chat template: %w", err)
		}
		tokens := c.count(text)
		if tokens > o.Input {
			if misses++; misses > 1000 {
				return nil, fmt.Errorf("--sonnet-input-len %d: a thousand prompts of %d lines were all longer, %d tokens the last; raise it", o.Input, shared+own, tokens)
			}
			continue
		}
		misses = 0
		if o.Plain {
			text = prompt
		}
		queries = append(queries, Query{Prompt: text, Input: tokens, Output: o.Output, ID: o.id(len(queries))})
	}
	return queries, nil
}

// lines returns how many lines all prompts share, and how many each has of its own.
func (o *SonnetOptions) lines(c *coder, poem []string) (shared, own int, err error) {
	sum := 0
	for _, line := range poem {
		sum += c.count(line)
	}
	text, err := o.Render(sonnetHead)
	if err != nil {
		return 0, 0, fmt.Errorf("chat template: %w", err)
	}
	base, mean := c.count(text), float64(sum)/float64(len(poem))
	if mean < 1 {
		return 0, 0, fmt.Errorf("%s: its %d lines have %d tokens, want one in each at least", o.Path, len(poem), sum)
	}
	if o.Input <= base {
		return 0, 0, fmt.Errorf("--sonnet-input-len %d: the prompt without a line has %d tokens already; raise it", o.Input, base)
	}
	count := func(tokens int) int { return int(math.RoundToEven(float64(tokens-base) / mean)) }
	fixed := max(count(o.Prefix), 0)
	return min(fixed, len(poem)), max(count(o.Input)-fixed, 0), nil
}

// readPoem returns lines with their ends, which are \n whatever the file has.
func readPoem(r io.Reader) ([]string, error) {
	data, err := io.ReadAll(&bounded{r, maxUnit, maxUnit})
	if err != nil {
		return nil, err
	}
	if len(data) == 0 {
		return nil, errors.New("it is empty, want a poem")
	}
	text := strings.ReplaceAll(string(data), "\r\n", "\n")
	lines := strings.SplitAfter(strings.ReplaceAll(text, "\r", "\n"), "\n")
	if lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	return lines, nil
}
