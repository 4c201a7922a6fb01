//go:build !linux

package python

import "os/exec"

// runTogether runs a command to its end. What it started ends when it cannot write any more.
func runTogether(command *exec.Cmd) error { return command.Run() }
