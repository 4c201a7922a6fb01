//go:build !purego && !linux && !darwin

package kern

// hasBF16 has nothing to ask here.
func hasBF16() bool { return false }
