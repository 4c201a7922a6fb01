package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"ossian/internal/self"
)

// The commands for which the program's other form is started are there, and every command that has
// the flag --device is among them.
func TestDeviceCommands(t *testing.T) {
	for _, words := range self.Commands {
		found, rest, err := root().Find(strings.Fields(words))
		if err != nil || len(rest) > 0 || found.CommandPath() != "ossian "+words {
			t.Errorf("%s: found %s, %v", words, found.CommandPath(), err)
		}
	}
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		if path := strings.TrimPrefix(c.CommandPath(), "ossian "); c.Flags().Lookup("device") != nil && !slices.Contains(self.Commands, path) {
			t.Errorf("ossian %s has the flag --device and is not in self.Commands", path)
		}
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(root())
}
