package statement

import (
	"regexp"
	"testing"
)

// TestExpressions: an expression that is none would end the program at its first use.
func TestExpressions(t *testing.T) {
	if len(expressions) < 100 {
		t.Fatalf("%d expressions, where there are some two hundred", len(expressions))
	}
	for _, made := range expressions {
		if _, err := regexp.Compile(made.source); err != nil {
			t.Error(err)
		}
	}
}
