//go:build !linux

package kern

// Alloc returns n zeroed bytes.
func Alloc(n int) ([]byte, error) { return make([]byte, n), nil }

// Free gives back what Alloc returned.
func Free([]byte) {}
