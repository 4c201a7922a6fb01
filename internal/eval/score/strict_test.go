package score

import (
	"os"
	"strings"
	"testing"
)

// TestStrict: 300 answers labelled by hand.
func TestStrict(t *testing.T) {
	text, err := os.ReadFile("testdata/strict.txt")
	if err != nil {
		t.Fatal(err)
	}
	cases, seen := 0, map[string]bool{}
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		parts := strings.SplitN(strings.TrimSuffix(line, "\n"), "|", 3)
		if len(parts) != 3 || seen[line] {
			t.Fatalf("%q: want kind|label|text, once", line)
		}
		seen[line] = true
		answer := strings.NewReplacer(`\\`, `\`, `\n`, "\n").Replace(parts[2])
		got := ""
		switch parts[0] {
		case "choice":
			got = StrictChoice(answer)
		case "integer":
			got = StrictInteger(answer, 0, Largest)
		default:
			t.Fatalf("%q: kind %q", line, parts[0])
		}
		if want := strings.TrimPrefix(parts[1], "-"); got != want {
			t.Errorf("%s of %q: %q, by hand %q", parts[0], answer, got, want)
		}
		cases++
	}
	if cases < 300 {
		t.Errorf("%d cases; want 300", cases)
	}
}

// TestTable: where both rules part, as docs/eval.md has it.
func TestTable(t *testing.T) {
	for _, c := range []struct{ text, reference, strict string }{
		{"The correct option is D", "T", "D"},
		{"Answer: A is tempting but wrong.\n\nAnswer: D", "A", "D"},
		{"Option A is wrong; Option B is right.", "A", ""},
		{"Both mechanisms apply", "B", ""},
		{"Dipole", "D", ""},
		{`\boxed{\text{Carbon}}`, "C", ""},
	} {
		if a, b := ReferenceChoice(c.text), StrictChoice(c.text); a != c.reference || b != c.strict {
			t.Errorf("%q: %q and %q, want %q and %q", c.text, a, b, c.reference, c.strict)
		}
	}
	for _, c := range []struct{ text, reference, strict string }{
		{`\boxed{\text{070}}`, "", "70"},
		{`\boxed{70^\circ}`, "", "70"},
		{`\boxed{1{,}234}`, "", ""}, // the reference stops at the first closing brace: "1{,"
		{"5 of 3", "3", ""},
	} {
		if a, b := ReferenceInteger(c.text), StrictInteger(c.text, 0, Largest); a != c.reference || b != c.strict {
			t.Errorf("%q: %q and %q, want %q and %q", c.text, a, b, c.reference, c.strict)
		}
	}
	if got := StrictInteger(`\boxed{-12,345}`, 1, 0); got != "-12345" {
		t.Errorf("any integer: %q", got)
	}
}

// TestLoops: texts of models that say the same for ever are read in one pass, not in one for each
// of their braces.
func TestLoops(t *testing.T) {
	for _, piece := range []string{`\boxed{`, `\boxed{\text{`, "Answer: ", "(A", "**", `{\`, "1 ", "option "} {
		text := strings.Repeat(piece, 200_000/len(piece))
		if got := StrictInteger(text, 0, Largest); got != "" {
			t.Errorf("%q for ever: %q", piece, got)
		}
		_, _, _ = StrictChoice(text), ReferenceChoice(text), ReferenceInteger(text)
	}
	if got := StrictInteger(strings.Repeat(`\boxed{`, 50_000)+"7"+strings.Repeat("}", 50_000), 0, Largest); got != "7" {
		t.Errorf("boxes in boxes: %q", got)
	}
}

func FuzzExtraction(f *testing.F) {
	for _, seed := range []string{"", "**", `\boxed{\text{A}}`, "Answer: (C)", `\boxed{{{`, "framebox{1,2}", "\xff\\boxed{\xfe}", "Answer\u00a0B"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if got := StrictChoice(text); got != "" && !strings.Contains("ABCD", got) {
			t.Errorf("choice %q", got)
		}
		for _, number := range []string{StrictInteger(text, 0, Largest), ReferenceInteger(text), StrictInteger(text, 1, 0)} {
			if digits := strings.TrimPrefix(number, "-"); strings.Trim(digits, "0123456789") != "" || (len(digits) > 1 && digits[0] == '0') {
				t.Errorf("integer %q", number)
			}
		}
		_, _ = ReferenceChoice(text), LeadingDigits(text)
	})
}
