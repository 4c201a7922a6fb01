package lab

import "fmt"

// UsageError says that a campaign cannot begin as it was asked for; nothing was started, and the exit
// status is 2.
type UsageError struct{ Text string }

func (e *UsageError) Error() string { return e.Text }

// MachineError says that the machine of the lab itself failed during a trial, which says nothing of the
// setting. The campaign stops; the same command goes on with that trial.
type MachineError struct{ Err error }

func (e *MachineError) Error() string {
	return "this machine failed during a trial, which is not held against its setting: " + e.Err.Error() + "; mend that, then run the same command again: it goes on where it was"
}

func (e *MachineError) Unwrap() error { return e.Err }

// ChangedError says that the plan is not the one that the directory was begun with. Its text is the
// difference.
type ChangedError struct {
	Dir  string
	Diff string // lines with - before and + after
}

func (e *ChangedError) Error() string {
	return fmt.Sprintf("%s was begun with another plan:\n%s--yes goes on with this one and keeps the trials that still apply; --out DIR begins another", e.Dir, e.Diff)
}
