//go:build !linux

package plan

// Available returns the bytes of memory that this process may still take, 0 when
// the system does not tell.
func Available() int64 { return 0 }
