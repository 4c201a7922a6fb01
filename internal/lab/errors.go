package lab

import "fmt"

// UsageError says that a campaign cannot begin as it was asked for; nothing was started, and the exit
// status is 2.
type UsageError struct{ Text string }

func (e *UsageError) Error() string { return e.Text }

// ChangedError says that the plan is not the one that the directory was begun with. Its text is the
// difference.
type ChangedError struct {
	Dir  string
	Diff string // lines with - before and + after
}

func (e *ChangedError) Error() string {
	return fmt.Sprintf("%s was begun with another plan:\n%s--yes goes on with this one and keeps the trials that still apply; --out DIR begins another", e.Dir, e.Diff)
}
