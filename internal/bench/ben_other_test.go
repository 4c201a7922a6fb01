//go:build !linux

package bench

import "testing"

// pin does nothing here: the system does not say which core a thread may have.
func pin(*testing.T) {}
