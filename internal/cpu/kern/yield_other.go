//go:build !linux

package kern

import "runtime"

// yield lets another goroutine have this processor.
func yield() { runtime.Gosched() }
