//go:build !linux

package self

// Switch does nothing: only files for Linux have two forms.
func Switch(string) {}
