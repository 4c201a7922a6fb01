package callid

import (
	"slices"
	"testing"
)

// TestAnswer gives results in the order of calls, and passes over calls of earlier rounds.
func TestAnswer(t *testing.T) {
	var calls Calls
	calls.Add("first", 1)
	calls.Add("second", 1)
	got := []string{calls.Answer()}
	calls.Add("third", 2) // somebody spoke: second gets no result
	got = append(got, calls.Answer(), calls.Answer())
	if want := []string{"first", "third", "third"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
