package page

import (
	"slices"
	"strings"
	"unicode"
)

// Width is how many characters a line of a display has at most.
const Width = 80

// Wrap cuts a text into lines of at most Width characters, as Python's
// textwrap.wrap(replace_whitespace=False, drop_whitespace=False) does with each of its lines
// (tools.md 3.3): at white space, behind hyphens within words, and where it must within a word.
// Models cite lines by number, so the cuts must be those that they know.
func Wrap(text string) []string {
	lines := make([]string, 0, len(text)/60+1)
	for line := range strings.SplitSeq(text, "\n") {
		if len(line) <= Width && !strings.Contains(line, "\t") {
			lines = append(lines, line)
			continue
		}
		lines = wrapLine(lines, expandTabs(line))
	}
	return lines
}

// wrapLine appends the pieces of one line, which is not empty.
func wrapLine(lines []string, line []rune) []string {
	words := chunks(line)
	for len(words) > 0 {
		var out []rune
		for len(words) > 0 && len(out)+len(words[0]) <= Width {
			out = append(out, words[0]...)
			words = words[1:]
		}
		if len(words) > 0 && len(words[0]) > Width {
			end := cut(words[0], Width-len(out))
			out = append(out, words[0][:end]...)
			words[0] = words[0][end:]
		}
		lines = append(lines, string(out))
	}
	return lines
}

// cut is where a word that is longer than a line is cut, given the room that is left: behind its
// last hyphen there if that does not stand at its front.
func cut(word []rune, room int) int {
	hyphen := room - 1
	for hyphen > 0 && word[hyphen] != '-' {
		hyphen--
	}
	if hyphen > 0 && slices.ContainsFunc(word[:hyphen], func(r rune) bool { return r != '-' }) {
		return hyphen + 1
	}
	return room
}

// expandTabs replaces tabs by spaces up to the next multiple of 8.
func expandTabs(line string) []rune {
	out := make([]rune, 0, len(line))
	column := 0
	for _, char := range line {
		switch char {
		case '\t':
			for more := true; more; more = column%8 != 0 {
				out = append(out, ' ')
				column++
			}
			continue
		case '\r':
			column = -1
		}
		out = append(out, char)
		column++
	}
	return out
}

// chunks splits a line where it may be cut. Together they are the line.
func chunks(line []rune) (all [][]rune) {
	for at := 0; at < len(line); {
		end := chunkEnd(line, at)
		all = append(all, line[at:end])
		at = end
	}
	return all
}

// chunkEnd returns where the chunk ends that begins at a character: it is white space, a dash of
// several hyphens between words, or a word or part of one (wordsep_re of Python's textwrap).
func chunkEnd(line []rune, at int) int {
	end := at + 1
	if isBlank(line[at]) {
		for end < len(line) && isBlank(line[end]) {
			end++
		}
		return end
	}
	// Only between two words are hyphens a dash.
	if at > 0 && isWordOrMark(line[at-1]) {
		if end := dashEnd(line, at); end > 0 {
			return end
		}
	}
	for ; end < len(line) && !isBlank(line[end]); end++ {
		if hyphenated(line, end) {
			return end + 1
		}
		if isWordOrMark(line[end-1]) && dashEnd(line, end) > 0 {
			return end
		}
	}
	return end
}

// dashEnd returns where hyphens end that begin at a character, if there are two or more and a word
// behind them; else 0.
func dashEnd(line []rune, at int) int {
	end := at
	for end < len(line) && line[end] == '-' {
		end++
	}
	if end-at >= 2 && end < len(line) && isWord(line[end]) {
		return end
	}
	return 0
}

// hyphenated reports whether at a character there is the hyphen of a compound word: two letters
// before it, or a letter, a hyphen and a letter, and two letters behind it, a hyphen between them
// or not.
func hyphenated(line []rune, at int) bool {
	letter := func(i int) bool { return i >= 0 && i < len(line) && isLetter(line[i]) }
	hyphen := func(i int) bool { return i >= 0 && i < len(line) && line[i] == '-' }
	before := letter(at-1) && (letter(at-2) || (hyphen(at-2) && letter(at-3)))
	behind := letter(at+1) && (letter(at+2) || (hyphen(at+2) && letter(at+3)))
	return hyphen(at) && before && behind
}

// isBlank reports what textwrap calls white space, which is that of ASCII.
func isBlank(r rune) bool { return r == ' ' || (r >= '\t' && r <= '\r') }

// isWord is \w of Python's regular expressions.
func isWord(r rune) bool { return r == '_' || unicode.IsLetter(r) || unicode.IsNumber(r) }

func isLetter(r rune) bool { return isWord(r) && !unicode.IsDigit(r) }

func isWordOrMark(r rune) bool { return isWord(r) || strings.ContainsRune(`!"'&.,?`, r) }

// isSpace is \s of Python's regular expressions.
func isSpace(r rune) bool { return unicode.IsSpace(r) || (r >= 0x1c && r <= 0x1f) }

// collapse makes one space of every run of white space.
func collapse(text string) string {
	var out strings.Builder
	space := false
	for _, char := range text {
		if isSpace(char) {
			space = true
			continue
		}
		if space {
			out.WriteByte(' ')
			space = false
		}
		out.WriteRune(char)
	}
	if space {
		out.WriteByte(' ')
	}
	return out.String()
}
