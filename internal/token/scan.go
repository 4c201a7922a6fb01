package token

import "strings"

// A scanner returns the end of the piece that starts at s[i:], where i < len(s).
// Pieces are encoded one by one; together they are the text. Each scanner equals
// one regular expression of formats.md §8, written out because the standard
// library has no look-ahead.
type scanner func(c *classTable, s string, i int) int

const anyClass = letter | number | space

// scanO200k splits for o200k: words by case, up to three digits.
func scanO200k(c *classTable, s string, i int) int {
	if end := o200kWord(c, s, i); end > i {
		return contraction(s, end, true)
	}
	if end := digits(c, s, i, 3); end > i {
		return end
	}
	if end := punctuation(c, s, i, "\r\n/"); end > i {
		return end
	}
	return whitespace(c, s, i, true, 0)
}

// scanQwen2 splits for Qwen2 and Qwen3: letters, single digits.
func scanQwen2(c *classTable, s string, i int) int { return scanWords(c, s, i, 1) }

// scanLlama3 splits for Llama 3: letters, up to three digits.
func scanLlama3(c *classTable, s string, i int) int { return scanWords(c, s, i, 3) }

func scanWords(c *classTable, s string, i, maxDigits int) int {
	if end := contraction(s, i, true); end > i {
		return end
	}
	bits, size := c.at(s, i)
	start := i
	if bits&(letter|number|newline) == 0 {
		start += size
	}
	if end := c.run(s, start, letter); end > start {
		return end
	}
	if end := digits(c, s, i, maxDigits); end > i {
		return end
	}
	if end := punctuation(c, s, i, "\r\n"); end > i {
		return end
	}
	return whitespace(c, s, i, true, 0)
}

// scanGPT2 splits for GPT-2: letters or digits, each with one leading blank.
func scanGPT2(c *classTable, s string, i int) int { return scanBlankWords(c, s, i, false) }

// scanSmolLM takes every digit alone and splits what lies between digits like
// GPT-2, to which each digit is the end of the text.
func scanSmolLM(c *classTable, s string, i int) int {
	if end := digits(c, s, i, 1); end > i {
		return end
	}
	return scanBlankWords(c, s, i, true)
}

func scanBlankWords(c *classTable, s string, i int, untilDigit bool) int {
	if end := contraction(s, i, false); end > i {
		return end
	}
	start := i
	if s[i] == ' ' {
		start++
	}
	if end := c.run(s, start, letter); end > start {
		return end
	}
	var stop uint8
	if untilDigit {
		stop = number
	} else if end := c.run(s, start, number); end > start {
		return end
	}
	if end := punctuation(c, s, i, ""); end > i {
		return end
	}
	return whitespace(c, s, i, false, stop)
}

// o200kWord returns the end of a word without its contraction, or i. The word may
// take one character before it that is no letter, digit or line end. Its form is
// U*W+ or, failing that, U+W* with U and W the classes upper and lower, which
// overlap: each form is tried with the prefix, then without.
func o200kWord(c *classTable, s string, i int) int {
	bits, size := c.at(s, i)
	start := i
	if bits&(letter|number|newline) == 0 {
		start += size
	}
	if end := upperLower(c, s, start); end > start {
		return end
	}
	if start > i {
		if end := upperLower(c, s, i); end > i {
			return end
		}
	}
	if end := upperOnly(c, s, start); end > start {
		return end
	}
	return upperOnly(c, s, i)
}

// upperLower matches U*W+ from i and returns its end, or i. Where no W follows the
// run of U, the match ends after the last character of the run that is also W.
func upperLower(c *classTable, s string, i int) int {
	end := i
	for p := i; ; {
		bits, size := c.at(s, p)
		if bits&upper == 0 {
			if bits&lower != 0 {
				return c.run(s, p, lower)
			}
			return end
		}
		p += size
		if bits&lower != 0 {
			end = p
		}
	}
}

// upperOnly matches U+W* from i and returns its end, or i.
func upperOnly(c *classTable, s string, i int) int {
	end := c.run(s, i, upper)
	if end == i {
		return i
	}
	return c.run(s, end, lower)
}

// contraction matches 's 't 're 've 'm 'll 'd at i and returns its end, or i. With
// fold, case does not matter and the long s (U+017F) is an s.
func contraction(s string, i int, fold bool) int {
	if i+1 >= len(s) || s[i] != '\'' {
		return i
	}
	at := func(p int) byte {
		if p >= len(s) {
			return 0
		}
		if fold && 'A' <= s[p] && s[p] <= 'Z' {
			return s[p] + 'a' - 'A'
		}
		return s[p]
	}
	switch at(i + 1) {
	case 's', 't', 'm', 'd':
		return i + 2
	case 'r', 'v':
		if at(i+2) == 'e' {
			return i + 3
		}
	case 'l':
		if at(i+2) == 'l' {
			return i + 3
		}
	}
	if fold && strings.HasPrefix(s[i+1:], "ſ") {
		return i + 1 + len("ſ")
	}
	return i
}

// digits matches up to most numbers at i and returns their end, or i.
func digits(c *classTable, s string, i, most int) int {
	for range most {
		bits, size := c.at(s, i)
		if bits&number == 0 {
			break
		}
		i += size
	}
	return i
}

// punctuation matches an optional blank, characters that are no space, letter or
// number (marks are taken), then any characters of trail; it returns the end, or i.
func punctuation(c *classTable, s string, i int, trail string) int {
	end := i
	if s[i] == ' ' {
		end++
	}
	start := end
	for {
		bits, size := c.at(s, end)
		if size == 0 || bits&anyClass != 0 {
			break
		}
		end += size
	}
	if end == start {
		return i
	}
	for end < len(s) && strings.IndexByte(trail, s[end]) >= 0 {
		end++
	}
	return end
}

// whitespace returns the end of the whitespace piece at i. With lines, a run that
// contains a line end stops after its last one. Otherwise a run leaves its last
// character to what follows, unless that is the end of the text or in classes stop.
func whitespace(c *classTable, s string, i int, lines bool, stop uint8) int {
	end, before, afterLine := i, i, i
	bits, size := c.at(s, i)
	for bits&space != 0 {
		before = end
		end += size
		if bits&newline != 0 {
			afterLine = end
		}
		bits, size = c.at(s, end)
	}
	if lines && afterLine > i {
		return afterLine
	}
	if size == 0 || bits&stop != 0 || before == i {
		return end
	}
	return before
}
