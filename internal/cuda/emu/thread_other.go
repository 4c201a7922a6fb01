//go:build !linux

package emu

// threadID takes all threads for one.
func threadID() int { return 0 }
