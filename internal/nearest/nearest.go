// Package nearest finds what was probably meant by a name that nobody knows: a mistyped flag,
// key, file or model. Its users need not know how the likeness of names is measured.
package nearest

import "strings"

// Hint returns "; did you mean --x?" for the known name that is least unlike a flag or key,
// to be appended to an error; "" if none is similar. A third of the letters may be wrong, and
// two in any case where there are two.
func Hint(name string, known []string) string {
	best := Of(name, known, min(max(2, len(name)/3), len(strings.TrimLeft(name, "-"))))
	if best == "" {
		return ""
	}
	return "; did you mean " + best + "?"
}

// Of returns the known name that takes the fewest edits to become name, at most so many; of
// several the first, "" if there is none.
func Of(name string, known []string, most int) string {
	return of(name, known, most, func(text string) string { return text })
}

// Fold is Of where upper and lower case make no difference.
func Fold(name string, known []string, most int) string {
	return of(name, known, most, strings.ToLower)
}

// of is Of for names as fold sees them.
func of(name string, known []string, most int, fold func(string) string) string {
	best, least := "", most+1
	for _, candidate := range known {
		if edits := Edits(fold(name), fold(candidate), least); edits < least {
			best, least = candidate, edits
		}
	}
	return best
}

// Edits counts the bytes that are inserted, deleted or replaced, and the neighbours that
// change places, to make b of a (optimal string alignment distance); it returns most if there
// are at least as many.
func Edits(a, b string, most int) int {
	if len(a)-len(b) >= most || len(b)-len(a) >= most {
		return most
	}
	// row[j] are the edits from a[:i] to b[:j]; last and before are those of a[:i-1] and
	// a[:i-2]. A swap reaches two rows back.
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			edits := last[j-1]
			if a[i-1] != b[j-1] {
				edits = 1 + min(edits, last[j], row[j-1])
			}
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				edits = min(edits, before[j-2]+1)
			}
			row[j] = edits
		}
		before, last, row = last, row, before
	}
	return min(last[len(b)], most)
}
