//go:build !linux

package kern

import "testing"

// guarded has no guard pages here; the Linux tests have them.
func guarded[T any](_ testing.TB, n int, _ bool) []T { return make([]T, n) }
