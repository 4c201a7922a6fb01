//go:build !unix

package mcp

import "os/exec"

// ownGroup has a command and what it starts end together, where systems have groups.
func ownGroup(*exec.Cmd) {}

// terminate ends a command: here is no signal that asks it to.
func terminate(cmd *exec.Cmd) { kill(cmd) }

// kill ends a command.
func kill(cmd *exec.Cmd) { _ = cmd.Process.Kill() }
