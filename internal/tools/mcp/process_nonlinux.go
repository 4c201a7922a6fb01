//go:build unix && !linux

package mcp

import "syscall"

// endWithUs does nothing: these systems tell a process of our end by that of its input.
func endWithUs(*syscall.SysProcAttr) {}
