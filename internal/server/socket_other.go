//go:build !linux

package server

import (
	"syscall"
	"time"
)

// giveUpAfter does nothing on this system: write deadlines have to do.
func giveUpAfter(syscall.Conn, time.Duration) {}

// quietFor is not known on this system.
func quietFor(syscall.Conn, bool) time.Duration { return 0 }

// unread is not known on this system.
func unread(syscall.Conn) bool { return false }

// descriptorLimit is not known on this system.
func descriptorLimit() int64 { return 0 }
