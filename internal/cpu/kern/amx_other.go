//go:build amd64 && !linux && !purego

package kern

// hasTiles is false where nobody has tried how the operating system is asked for tiles.
func hasTiles() bool { return false }
