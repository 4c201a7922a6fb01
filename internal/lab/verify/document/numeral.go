package document

// Ways of writing numbers other than 1,234.5: thousands set off by spaces or apostrophes, the
// decimal comma, full-width signs. A text is brought into one form before anything is read in
// it, so that no rule takes "3,5 %" for thirty-five.

import (
	"strings"

	"ossian/internal/lazyregexp"
)

var (
	// Thousands set off by a space that does not break, or by an apostrophe.
	setOff = lazyregexp.New(`([0-9])(?:[\x{00a0}\x{202f}\x{2009}'’]|&nbsp;|\\,|\{,\})([0-9]{3})\b`)
	// Thousands set off by plain spaces, where a unit or a word of comparison shows that it is one number.
	spacedOut = lazyregexp.New(`(^|[^0-9.,A-Za-z] |[a-z] |[(|])([0-9]{1,3}(?: [0-9]{3})+)( (?:tok|to\b|req|ms\b|GB\b|TPS|t/s|\|))`)
	// What only a decimal comma explains: one or two digits behind it, and a unit; or points before it.
	commaDecimal = lazyregexp.New(`(?:^|[^0-9.,])(?:[0-9]+,[0-9]{1,2}|[0-9]{1,3}(?:\.[0-9]{3})+,[0-9]+)\s?k?\s?(?:%|ms\b|s\b|[Tt]ok|[x×]\b|GB\b|req)`)
	// What only a decimal point explains.
	pointDecimal = lazyregexp.New(`(?:^|[^0-9.,])(?:[0-9]+\.[0-9]{1,2}|[0-9]{1,3}(?:,[0-9]{3})+\.[0-9]+)\s?k?\s?(?:%|ms\b|s\b|[Tt]ok|[x×]\b|GB\b|req)`)
	// A number with points between thousands, a decimal comma, or both.
	commaNumber = lazyregexp.New(`[0-9]{1,3}(?:\.[0-9]{3})+(?:,[0-9]+)?|[0-9]+,[0-9]+`)
	fullWidth   = strings.NewReplacer("％", "%", "，", ", ", "。", ". ", "；", "; ", "：", ": ", "（", " (", "）", ") ", "～", "~")
)

// oneForm writes the numbers of a text with commas between thousands and a decimal point.
func oneForm(lines []string) {
	commas, points := false, false
	for i, line := range lines {
		if strings.ContainsAny(line, "％，。；：（）～") {
			lines[i] = fullWidth.Replace(line)
		}
		// Twice, as one match takes the digit that the next one begins with.
		if strings.ContainsAny(line, "\u00a0\u202f\u2009'’&\\") {
			lines[i] = setOff.ReplaceAllString(setOff.ReplaceAllString(lines[i], "$1,$2"), "$1,$2")
		}
		if len(line) > maxNames {
			continue
		}
		lines[i] = spacedOut.ReplaceAllStringFunc(lines[i], joinThousands)
		commas = commas || (strings.Contains(line, ",") && commaDecimal.MatchString(lines[i]))
		points = points || (strings.Contains(line, ".") && pointDecimal.MatchString(lines[i]))
	}
	// Where both are found, the text has two authors, and the usual form is kept.
	if !commas || points {
		return
	}
	for i, line := range lines {
		if len(line) <= maxNames && strings.ContainsAny(line, ".,") {
			lines[i] = pointNumbers(line)
		}
	}
}

// joinThousands puts commas for the spaces within a number.
func joinThousands(text string) string {
	match := spacedOut.FindStringSubmatch(text)
	return match[1] + strings.ReplaceAll(match[2], " ", ",") + match[3]
}

// pointNumbers writes the numbers of a line that have a decimal comma with a decimal point.
func pointNumbers(line string) string {
	var out strings.Builder
	end := 0
	for _, match := range commaNumber.FindAllStringIndex(line, -1) {
		before, after := line[:match[0]], line[match[1]:]
		// Parts of names, of versions and of lists are no such numbers.
		if withinNumeral.MatchString(before) || aroundNumeral.MatchString(after) {
			continue
		}
		whole, decimals, _ := strings.Cut(line[match[0]:match[1]], ",")
		out.WriteString(line[end:match[0]] + strings.ReplaceAll(whole, ".", ""))
		if decimals != "" {
			out.WriteString("." + decimals)
		}
		end = match[1]
	}
	return out.String() + line[end:]
}

var (
	withinNumeral = lazyregexp.New(`[0-9A-Za-z.,_]$|[A-Za-z]-$`)
	aroundNumeral = lazyregexp.New(`^(?:[0-9A-Za-z_]*[0-9]|[.,][0-9])`)
)
