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
	for _, command := range self.Commands {
		found, rest, err := root().Find(strings.Fields(command.Words))
		if err != nil || len(rest) > 0 || found.CommandPath() != "ossian "+command.Words {
			t.Errorf("%s: found %s, %v", command.Words, found.CommandPath(), err)
		}
		if flag := found.Flags().Lookup("device"); flag != nil && flag.DefValue != command.Default {
			t.Errorf("%s: --device is %s by default, here %s", command.Words, flag.DefValue, command.Default)
		}
	}
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		if path := strings.TrimPrefix(c.CommandPath(), "ossian "); c.Flags().Lookup("device") != nil && !slices.ContainsFunc(self.Commands, func(known self.Command) bool { return known.Words == path }) {
			t.Errorf("ossian %s has the flag --device and is not in self.Commands", path)
		}
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(root())
}
