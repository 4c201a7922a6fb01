package lab

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// docPredictions are examples of lab predict in the page on the lab: a command, and what it printed.
var docPredictions = regexp.MustCompile("```sh\n(ossian lab predict [^`]*)```\n\n```text numbers\n([^`]*)```")

// The page for users prints figures of predictions. They are functions of what is shipped, so that the page
// holds what the program prints, to the letter.
func TestDocumentedPredictions(t *testing.T) {
	page, err := os.ReadFile("../../../docs/lab.md")
	if err != nil {
		t.Fatal(err)
	}
	examples := docPredictions.FindAllStringSubmatch(string(page), -1)
	if len(examples) < 2 {
		t.Fatalf("%d examples found", len(examples))
	}
	for _, example := range examples {
		args := strings.Fields(example[1])[2:] // behind ossian lab
		printed, err := run(t, args...)
		if err != nil {
			t.Errorf("%v: %v", args, err)
		}
		lines := strings.Split(printed, "\n")
		for want := range strings.Lines(example[2]) {
			if want = strings.TrimSuffix(want, "\n"); want != "…" && !slices.Contains(lines, want) {
				t.Errorf("docs/lab.md has\n%s\nof %s, which prints\n%s", want, strings.TrimSpace(example[1]), printed)
			}
		}
	}
}
