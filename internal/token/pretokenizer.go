package token

import (
	"errors"
	"fmt"
)

// The patterns as tokenizer.json spells them (formats.md §8).
const (
	patternO200k = `[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?` +
		`|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?` +
		`|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	patternQwen2  = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	patternLlama3 = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	patternGPT2   = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`
)

// patternScanner returns the scanner that equals a Split pattern of tokenizer.json.
// Spellings listed together were compared on random text (see _tools/tokens).
func patternScanner(pattern string) (scanner, error) {
	switch pattern {
	case patternO200k:
		return scanO200k, nil
	case patternQwen2,
		`(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`,
		`'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+`:
		return scanQwen2, nil
	case patternLlama3,
		`'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+`:
		return scanLlama3, nil
	case patternGPT2,
		`'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`,
		`'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s`:
		return scanGPT2, nil
	}
	return nil, fmt.Errorf("pre_tokenizer: Split pattern %q is not one of o200k, Qwen2, Llama 3 and GPT-2", pattern)
}

// scanner accepts the pre-tokenizers of the supported families: one Split or the
// GPT-2 pattern built into ByteLevel, the latter also after Digits.
func (p *jsonStep) scanner() (scanner, error) {
	steps := p.flatten(nil)
	if len(steps) == 0 || len(steps) > 2 || steps[len(steps)-1].Type != "ByteLevel" {
		return nil, fmt.Errorf("pre_tokenizer: %d steps, expected ByteLevel alone or after one Split or Digits", len(steps))
	}
	first, last := steps[0], steps[len(steps)-1]
	gpt2 := last.UseRegex == nil || *last.UseRegex
	switch {
	case last.AddPrefixSpace:
		return nil, errors.New("pre_tokenizer: add_prefix_space is not supported")
	case first == last && gpt2:
		return scanGPT2, nil
	case first.Type == "Split" && !gpt2:
		return first.split()
	case first.Type == "Digits" && first.IndividualDigits && gpt2:
		return scanSmolLM, nil
	}
	return nil, fmt.Errorf("pre_tokenizer: %s with use_regex %v in ByteLevel and individual_digits %v is not supported", first.Type, gpt2, first.IndividualDigits)
}

// flatten lists the steps of nested sequences.
func (p *jsonStep) flatten(list []*jsonStep) []*jsonStep {
	if p == nil {
		return list
	}
	if p.Type != "Sequence" {
		return append(list, p)
	}
	for i := range p.PreTokenizers {
		list = p.PreTokenizers[i].flatten(list)
	}
	return list
}

// split accepts a Split step with a known pattern.
func (p *jsonStep) split() (scanner, error) {
	if p.Behavior != "Isolated" || p.Invert {
		return nil, fmt.Errorf("pre_tokenizer: Split with behavior %q and invert %v, only Isolated and false are supported", p.Behavior, p.Invert)
	}
	if p.Pattern.Regex == nil {
		return nil, errors.New("pre_tokenizer: Split without a Regex pattern is not supported")
	}
	return patternScanner(*p.Pattern.Regex)
}
