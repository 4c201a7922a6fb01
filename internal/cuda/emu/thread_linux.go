package emu

import "syscall"

// threadID identifies the thread that runs the calling goroutine.
func threadID() int { return syscall.Gettid() }
