package token

import "strings"

// A scanner returns the end of the piece that starts at text[at:], where at < len(text).
// Pieces are encoded one by one; together they are the text. Each scanner equals
// one regular expression of formats.md §8, written out because the standard
// library has no look-ahead.
type scanner func(c *charTable, s string, i int) int

// anyClass is what punctuation is not.
const anyClass = letter | number | space

// scanO200k splits for o200k: words by case, up to three digits.
func scanO200k(chars *charTable, text string, at int) int {
	if end := o200kWord(chars, text, at); end > at {
		return contraction(text, end, true)
	}
	if end := digits(chars, text, at, 3); end > at {
		return end
	}
	if end := punctuation(chars, text, at, "\r\n/"); end > at {
		return end
	}
	return whitespace(chars, text, at, true, 0)
}

// scanQwen2 splits for Qwen2 and Qwen3: letters, single digits.
func scanQwen2(chars *charTable, text string, at int) int { return scanWords(chars, text, at, 1) }

// scanLlama3 splits for Llama 3: letters, up to three digits.
func scanLlama3(chars *charTable, text string, at int) int { return scanWords(chars, text, at, 3) }

// scanWords is the pattern that Qwen2 and Llama 3 share: letters with one other character
// before them, up to maxDigits digits. The order of alternatives is that of the pattern.
func scanWords(chars *charTable, text string, at, maxDigits int) int {
	if end := contraction(text, at, true); end > at {
		return end
	}
	bits, size := chars.at(text, at)
	start := at
	if bits&(letter|number|newline) == 0 {
		start += size
	}
	if end := chars.run(text, start, letter); end > start {
		return end
	}
	if end := digits(chars, text, at, maxDigits); end > at {
		return end
	}
	if end := punctuation(chars, text, at, "\r\n"); end > at {
		return end
	}
	return whitespace(chars, text, at, true, 0)
}

// scanGPT2 splits for GPT-2: letters or digits, each with one leading blank.
func scanGPT2(chars *charTable, text string, at int) int {
	return scanBlankWords(chars, text, at, false)
}

// scanSmolLM takes every digit alone and splits what lies between digits like
// GPT-2, to which each digit is the end of the text.
func scanSmolLM(chars *charTable, text string, at int) int {
	if end := digits(chars, text, at, 1); end > at {
		return end
	}
	return scanBlankWords(chars, text, at, true)
}

// scanBlankWords is the pattern of GPT-2. With untilDigit, digits end the text.
func scanBlankWords(chars *charTable, text string, at int, untilDigit bool) int {
	if end := contraction(text, at, false); end > at {
		return end
	}
	start := at
	if text[at] == ' ' {
		start++
	}
	if end := chars.run(text, start, letter); end > start {
		return end
	}
	var stop uint8 // what may follow white space like the end of the text
	if untilDigit {
		stop = number
	} else if end := chars.run(text, start, number); end > start {
		return end
	}
	if end := punctuation(chars, text, at, ""); end > at {
		return end
	}
	return whitespace(chars, text, at, false, stop)
}

// o200kWord returns the end of a word without its contraction, or at. The word may
// take one character before it that is no letter, digit or line end. Its form is
// U*W+ or, failing that, U+W* with U and W the classes upper and lower, which
// overlap: each form is tried with the prefix, then without.
func o200kWord(chars *charTable, text string, at int) int {
	bits, size := chars.at(text, at)
	start := at
	if bits&(letter|number|newline) == 0 {
		start += size
	}
	if end := upperLower(chars, text, start); end > start {
		return end
	}
	if start > at {
		if end := upperLower(chars, text, at); end > at {
			return end
		}
	}
	if end := upperOnly(chars, text, start); end > start {
		return end
	}
	return upperOnly(chars, text, at)
}

// upperLower matches U*W+ from at and returns its end, or at. Where no W follows the
// run of U, the match ends after the last character of the run that is also W.
func upperLower(chars *charTable, text string, at int) int {
	end := at
	for next := at; ; {
		bits, size := chars.at(text, next)
		if bits&upper == 0 {
			if bits&lower != 0 {
				return chars.run(text, next, lower)
			}
			return end
		}
		next += size
		if bits&lower != 0 {
			end = next
		}
	}
}

// upperOnly matches U+W* from at and returns its end, or at.
func upperOnly(chars *charTable, text string, at int) int {
	end := chars.run(text, at, upper)
	if end == at {
		return at
	}
	return chars.run(text, end, lower)
}

// contraction matches 's 't 're 've 'm 'll 'd at the byte at and returns its end, or at. With
// fold, case does not matter and the long s (U+017F) is an s.
func contraction(text string, at int, fold bool) int {
	if at+1 >= len(text) || text[at] != '\'' {
		return at
	}
	letter := func(pos int) byte { // 0 = behind the end
		if pos >= len(text) {
			return 0
		}
		if fold && 'A' <= text[pos] && text[pos] <= 'Z' {
			return text[pos] + 'a' - 'A'
		}
		return text[pos]
	}
	switch letter(at + 1) {
	case 's', 't', 'm', 'd':
		return at + 2
	case 'r', 'v':
		if letter(at+2) == 'e' {
			return at + 3
		}
	case 'l':
		if letter(at+2) == 'l' {
			return at + 3
		}
	}
	if fold && strings.HasPrefix(text[at+1:], "ſ") {
		return at + 1 + len("ſ")
	}
	return at
}

// digits matches up to most numbers at the byte at and returns their end, or at.
func digits(chars *charTable, text string, at, most int) int {
	for range most {
		bits, size := chars.at(text, at)
		if bits&number == 0 {
			break
		}
		at += size
	}
	return at
}

// punctuation matches an optional blank, characters that are no space, letter or
// number (marks are taken), then any characters of trail; it returns the end, or at.
func punctuation(chars *charTable, text string, at int, trail string) int {
	end := at
	if text[at] == ' ' {
		end++
	}
	start := end // a blank alone is no punctuation
	for {
		bits, size := chars.at(text, end)
		if size == 0 || bits&anyClass != 0 {
			break
		}
		end += size
	}
	if end == start {
		return at
	}
	for end < len(text) && strings.IndexByte(trail, text[end]) >= 0 {
		end++
	}
	return end
}

// whitespace returns the end of the whitespace piece at the byte at. With lines, a run that
// contains a line end stops after its last one. Otherwise a run leaves its last
// character to what follows, unless that is the end of the text or in classes stop.
func whitespace(chars *charTable, text string, at int, lines bool, stop uint8) int {
	end, before, afterLine := at, at, at
	bits, size := chars.at(text, at)
	for bits&space != 0 {
		before = end
		end += size
		if bits&newline != 0 {
			afterLine = end
		}
		bits, size = chars.at(text, end)
	}
	if lines && afterLine > at {
		return afterLine
	}
	if size == 0 || bits&stop != 0 || before == at {
		return end
	}
	return before
}
