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
func Sonnet(opts SonnetOptions) ([]Query, error) {
	err := opts.check(opts.Input, flag{"--sonnet-input-len", opts.Input, 1}, flag{"--sonnet-output-len", opts.Output, 1}, flag{"--sonnet-prefix-len", opts.Prefix, 0})
	if err != nil {
		return nil, err
	}
	lines, err := readFile(opts.Path, "--dataset-path", readPoem)
	if err != nil {
		return nil, err
	}
	coder, err := newCoder(opts.Tokenizer)
	if err != nil {
		return nil, err
	}
	if opts.Render == nil {
		opts.Render = func(prompt string) (string, error) { return prompt, nil }
	}
	shared, own, err := opts.lines(coder, lines)
	if err != nil {
		return nil, err
	}
	head := sonnetHead + strings.Join(lines[:shared], "")
	rng := NewPython(opts.Seed)
	queries := make([]Query, 0, opts.Prompts)
	// Lines differ in length, so that some prompts are too long; these are drawn again.
	for misses := 0; len(queries) < opts.Prompts; {
		var drawn strings.Builder
		drawn.WriteString(head)
		for range own {
			drawn.WriteString(lines[rng.Pick(len(lines))])
		}
		prompt := drawn.String()
		text, err := opts.Render(prompt)
		if err != nil {
			return nil, fmt.Errorf("chat template: %w", err)
		}
		tokens := coder.count(text)
		if tokens > opts.Input {
			if misses++; misses > 1000 {
				return nil, fmt.Errorf("--sonnet-input-len %d: a thousand prompts of %d lines were all longer, %d tokens the last; raise it", opts.Input, shared+own, tokens)
			}
			continue
		}
		misses = 0
		if opts.Plain {
			text = prompt
		}
		queries = append(queries, Query{Prompt: text, Input: tokens, Output: opts.Output, ID: opts.id(len(queries))})
	}
	return queries, nil
}

// lines returns how many lines all prompts share, and how many each has of its own.
func (opts *SonnetOptions) lines(coder *textCoder, poem []string) (shared, own int, err error) {
	sum := 0
	for _, line := range poem {
		sum += coder.count(line)
	}
	text, err := opts.Render(sonnetHead)
	if err != nil {
		return 0, 0, fmt.Errorf("chat template: %w", err)
	}
	base, mean := coder.count(text), float64(sum)/float64(len(poem))
	if mean < 1 {
		return 0, 0, fmt.Errorf("%s: its %d lines have %d tokens, want one in each at least", opts.Path, len(poem), sum)
	}
	if opts.Input <= base {
		return 0, 0, fmt.Errorf("--sonnet-input-len %d: the prompt without a line has %d tokens already; raise it", opts.Input, base)
	}
	// Numbers of lines are by their mean length, rounded as Python rounds.
	count := func(tokens int) int { return int(math.RoundToEven(float64(tokens-base) / mean)) }
	fixed := max(count(opts.Prefix), 0)
	return min(fixed, len(poem)), max(count(opts.Input)-fixed, 0), nil
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
