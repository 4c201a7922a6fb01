//go:build !linux

package python

import "os/exec"

// endTogether ends a command. What it started ends when it cannot write any more.
func endTogether(*exec.Cmd) {}
