package callid

import (
	"slices"
	"testing"
)

// TestAnswer gives results in the order of calls, and passes over calls of earlier rounds.
func TestAnswer(t *testing.T) {
	var calls Calls
	calls.Add(Call{Name: "first"}, 1)
	calls.Add(Call{Name: "second", Builtin: true}, 1)
	got := []Call{calls.Answer()}
	calls.Add(Call{Name: "third"}, 2) // somebody spoke: second gets no result
	got = append(got, calls.Answer(), calls.Answer())
	if want := []Call{{Name: "first"}, {Name: "third"}, {Name: "third"}}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
