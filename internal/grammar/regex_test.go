package grammar

import (
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"ossian/internal/soak"
)

func TestRegex(t *testing.T) {
	checkAccepting(t, Regex, []accepting{
		{name: "literal", source: `abc`, yes: []string{"abc"}, no: []string{"ab", "abcd", ""}},
		{name: "anchors at the ends say nothing new", source: `^abc$`, yes: []string{"abc"}, no: []string{"xabc"}},
		{name: "anchor inside", source: `a^b|c`, yes: []string{"c"}, no: []string{"ab", "a^b"}},
		{name: "end before the beginning", source: `a*$^b*`, yes: []string{""}, no: []string{"a", "b", "ab"}},
		{name: "ends in a loop", source: `(a$|^b|$)*`, yes: []string{"a", "b", "ba", ""}, no: []string{"aa", "ab"}},
		{name: "unicode escape", source: `[\u00e4-\u00fc]\u{1F600}\uD83D\uDE01`, yes: []string{"é😀😁"}, no: []string{"e😀😁"}},
		{name: "escaped slash", source: `a\/b\-c`, yes: []string{"a/b-c"}},
		{name: "bracket in a class", source: `[a[]+`, yes: []string{"a[["}, no: []string{"]"}},
		{name: "anything", source: `[^]x`, yes: []string{"\nx", "日x"}, no: []string{"x"}},
		{name: "dot", source: `.`, yes: []string{"a", "日"}, no: []string{"\n", "", "\xe6"}},
		{name: "fold", source: `(?i)aß`, yes: []string{"Aß", "aẞ"}, no: []string{"ass"}},
		{name: "named groups and laziness", source: `(?<y>\d{4}?)-(?P<m>\d\d)`, yes: []string{"2024-12"}},
		{name: "control", source: `\cA\x41\t`, yes: []string{"\x01A\t"}},
		{name: "letters", source: `\p{L}+`, yes: []string{"äж日"}, no: []string{"1"}},
	})
}

func TestRegexErrors(t *testing.T) {
	checkErrors(t, Regex, []struct{ name, source, want string }{
		{"look-ahead at the end", `a(?=b)`, "no text can match"},
		{"look-ahead that repeats", `^(?:(?=a)b)*$`, "inside of a repetition"},
		{"look-ahead without end", `a(?=b`, ") is missing"},
		{"look-ahead in front of ^", `a|(?=b)^b`, "write it in front"},
		{"look-behind", `(?<!a)b`, "look-behind"},
		{"back-reference", `(a)\1`, "back-reference"},
		{"named back-reference", `(?<n>a)\k<n>`, "back-reference"},
		{"word boundary", `\bword`, `\b`},
		{"multiline", `(?m)^a`, "flag m"},
		{"repetition", `a{1001}`, "{1001}, with the repetitions around it, repeats more than 1000 times"},
		{"repetition backwards", `a{3,2}`, "{3,2} has the larger number first"},
		{"product of repetitions", `((a{1,100}){1,100}){1,100}`, "repeats more than 1000 times"},
		{"unclosed", `(a`, "missing closing )"},
		{"half of a pair", `\ud800`, "four hexadecimal digits"},
		{"nothing", `[^\x{0}-\x{10ffff}]`, "no text can match"},
		{"too long", strings.Repeat("a", maxPattern+1), "bytes"},
		{"not UTF-8", "\xff", "UTF-8"},
		{"exponential", `(a|b)*a(a|b){16}c`, "too large"},
	})
}

// randomPattern writes an expression of depth d.
func randomPattern(rng *rand.Rand, d int) string {
	atoms := []string{"a", "b", "c", ".", `\d`, `[a-c]`, `[^a]`, `\w`, "ab", "é", `\s`, `[b-é]`}
	if d == 0 {
		return atoms[rng.IntN(len(atoms))]
	}
	x := randomPattern(rng, d-1)
	switch rng.IntN(9) {
	case 0:
		return x + randomPattern(rng, d-1)
	case 1:
		return "(?:" + x + "|" + randomPattern(rng, d-1) + ")"
	case 2:
		return "(?:" + x + ")*"
	case 3:
		return "(?:" + x + ")?"
	case 4:
		return "(" + x + ")" + []string{"{1,3}", "{0,2}", "{2,}", "{2,4}"}[rng.IntN(4)]
	case 5:
		return "(?:" + x + ")+?"
	case 6:
		return "^" + x
	case 7:
		return x + "$"
	}
	return x
}

func randomText(rng *rand.Rand, letters []string, most int) string {
	var s strings.Builder
	for range rng.IntN(most + 1) {
		s.WriteString(letters[rng.IntN(len(letters))])
	}
	return s.String()
}

// Go's regexp decides: the whole text, and in search mode any part of it.
func TestRegexLikeGo(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	letters := []string{"a", "b", "c", "1", " ", "é", "\n", "日", `"`, `\`, "x"}
	for range soak.Cases(t, 150, 20_000) {
		text := randomPattern(rng, 3)
		whole, part := regexp.MustCompile(`^(?:`+text+`)$`), regexp.MustCompile(text)
		for _, p := range []pattern{{}, {search: true}, {search: true, quoted: true}, {count: 2}, {search: true, count: 2}, {search: true, quoted: true, count: 2}} {
			b := &budget{left: maxUnits, stop: func() error { return nil }}
			a, err := compilePattern(text, p, b)
			if err != nil && err != errNoMatch {
				t.Fatalf("%s: %v", text, err)
			}
			for range 20 {
				s := randomText(rng, letters, 6)
				want := whole.MatchString(s)
				if p.search {
					want = part.MatchString(s)
				}
				spelled := s
				if p.quoted {
					spelled = quoted(s)
				}
				if got := err == nil && a.matches(spelled); got != want {
					t.Fatalf("%s with %+v on %q: got %v, want %v", text, p, s, got, want)
				}
			}
		}
	}
}

// Products and complements, as patternProperties and bounds need them.
func TestProductLikeGo(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 8))
	letters := []string{"a", "b", "c", "1", "é"}
	for range soak.Cases(t, 80, 10_000) {
		x, y := randomPattern(rng, 2), randomPattern(rng, 2)
		not := rng.IntN(2) == 0
		b := &budget{left: maxUnits, stop: func() error { return nil }}
		ax, errX := compilePattern(x, pattern{search: true}, b)
		ay, errY := compilePattern(y, pattern{search: true}, b)
		if errX != nil || errY != nil {
			continue // something like a$b
		}
		a, err := product(ax, ay, not, b)
		if err != nil && err != errNoMatch {
			t.Fatal(err)
		}
		for range 20 {
			s := randomText(rng, letters, 5)
			want := regexp.MustCompile(x).MatchString(s) && regexp.MustCompile(y).MatchString(s) != not
			if got := err == nil && a.matches(s); got != want {
				t.Fatalf("%s, %s, not %v on %q: got %v, want %v", x, y, not, s, got, want)
			}
		}
	}
}

// Lengths beside a pattern, with counts and with states for each, and where they cannot
// be counted.
func TestLengthsLikeGo(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 8))
	letters := []string{"a", "b", "c", "1", "é", "\n"}
	counted, copied := 0, 0
	for range soak.Cases(t, 200, 20_000) {
		text := randomPattern(rng, 2)
		lo := rng.IntN(4)
		hi := lo + rng.IntN(5) - 1
		b := &budget{left: maxUnits, stop: func() error { return nil }}
		a, err := compilePattern(text, pattern{search: true, quoted: true}, b)
		chars, _ := simple(star(class(anyRune...)), true, b)
		if hi < 0 {
			hi = -1
		}
		if err != nil || (hi >= 0 && lo > hi) {
			continue
		}
		as, erra := lengths(a, chars, lo, hi, true, b)
		bs, errb := lengths(a, chars, lo, hi, false, b)
		if erra != errb {
			t.Fatalf("%s of %d to %d: with counts error %v, without %v", text, lo, hi, erra, errb)
		}
		if erra != nil {
			continue
		}
		if as.counts() {
			counted++
		} else {
			copied++
		}
		for range 30 {
			s := randomText(rng, letters, 7)
			n := utf8.RuneCountInString(s)
			want := regexp.MustCompile(text).MatchString(s) && n >= lo && (hi < 0 || n <= hi)
			if as.matches(quoted(s)) != want || bs.matches(quoted(s)) != want {
				t.Fatalf("%s of %d to %d on %q: with counts %v, without %v, want %v", text, lo, hi, s, as.matches(quoted(s)), bs.matches(quoted(s)), want)
			}
		}
	}
	if counted == 0 || copied == 0 {
		t.Errorf("%d with counts, %d without", counted, copied)
	}
}

// What users write compiles, with few states, within a tenth of the budget, and its masks
// are what is accepted. Times are for benchmarks.
func TestLargePatterns(t *testing.T) {
	lengths := []string{"", `,"maxLength":40`, `,"minLength":17,"maxLength":900`}
	for i, text := range []string{`^\p{L}+$`, `^.{1,300}$`, `^\p{L}{1,300}$`, `^[\p{L}\p{N} .,'-]{1,100}$`, `^.{0,1000}$`, `^\p{Lu}\p{Ll}+( \p{Lu}\p{Ll}+)*$`, `^\S.*\S$`, `\p{L}`, `^https?://.{1,900}$`, `^[^@]{1,64}@[^@]{1,255}$`, `^(\w+ ){1,50}$`} {
		if i > 7 {
			lengths = lengths[:1] // two counts at a time there are not
		}
		for _, more := range lengths {
			b := &budget{left: maxUnits / 10, stop: func() error { return nil }}
			g, err := compileWithin(b, Source{Text: `{"type":"string","pattern":` + quote(text) + more + `}`}, small())
			if err != nil {
				t.Errorf("%s%s: %v", text, more, err)
				continue
			}
			if len(g.automaton.states) > 2000 {
				t.Errorf("%s%s: %d states", text, more, len(g.automaton.states))
			}
		}
	}
}
