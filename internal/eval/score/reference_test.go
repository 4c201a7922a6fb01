package score

import (
	"compress/gzip"
	"encoding/json"
	"os"
	"testing"

	"ossian/internal/lazyregexp"
)

func TestExpressions(t *testing.T) {
	if err := lazyregexp.Check(); err != nil {
		t.Error(err)
	}
}

// TestReference: both published rules on 4,000 texts, beside what the reference made of them
// (testdata/README.md): its own cases, what models write, and random mixes of both.
func TestReference(t *testing.T) {
	file, err := os.Open("testdata/reference.json.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	unpacked, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	var cases [][3]string // text, letter, integer
	if err := json.NewDecoder(unpacked).Decode(&cases); err != nil {
		t.Fatal(err)
	}
	if len(cases) < 2000 {
		t.Fatalf("%d texts; want 2,000 at least", len(cases))
	}
	kinds := map[string]int{}
	for _, c := range cases {
		if got := ReferenceChoice(c[0]); got != c[1] {
			t.Errorf("choice of %q: %q, the reference takes %q", c[0], got, c[1])
		}
		if got := ReferenceInteger(c[0]); got != c[2] {
			t.Errorf("integer of %q: %q, the reference takes %q", c[0], got, c[2])
		}
		kinds[c[1]]++
		if c[2] == "" {
			kinds["no integer"]++
		}
	}
	for _, kind := range []string{"A", "B", "C", "D", "no integer"} {
		if kinds[kind] < 100 {
			t.Errorf("%d texts of %q; want 100 at least", kinds[kind], kind)
		}
	}
}
