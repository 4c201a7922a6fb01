//go:build !linux

package server

import (
	"syscall"
	"time"
)

// hungUp cannot look behind unread bytes on this system: net/http's own watch over
// the connection has to do.
func hungUp(syscall.Conn) bool { return false }

// giveUpAfter does nothing on this system: write deadlines have to do.
func giveUpAfter(syscall.Conn, time.Duration) {}

// silence is not known on this system.
func silence(syscall.Conn, bool) time.Duration { return 0 }

// descriptorLimit is not known on this system.
func descriptorLimit() int64 { return 0 }
