// Package lab is ossian lab: the performance lab on the command line (lab.md 2). Each
// command is a file of its own; what they share is the meaning of exit statuses: 0 done, 1
// done with nothing decided or a gate failed, 2 usage, a plan or a document that cannot be
// read, before anything was started.
package lab

import (
	"github.com/spf13/cobra"

	"ossian/internal/command"
)

// statusUsage is the exit status of what could not begin.
const statusUsage = 2

// Command returns the command, which only has others.
func Command() *cobra.Command {
	cmd := command.Family(&cobra.Command{Use: "lab", Short: "Plan, predict, compare and check performance measurements"})
	// A word that names no command is an error of usage too.
	family := cmd.RunE
	cmd.RunE = func(c *cobra.Command, args []string) error { return command.WithStatus(statusUsage, family(c, args)) }
	cmd.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return command.WithStatus(statusUsage, command.Suggest(c.Flags(), err))
	})
	cmd.AddCommand(calibrateCommand(), predictCommand(), quickCommand(), reportCommand(), runCommand(), sizeCommand(), verifyCommand())
	return cmd
}

// usage is command.Usage with the lab's exit status.
func usage(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if err := command.Usage(check)(c, args); err != nil {
			return command.WithStatus(statusUsage, err)
		}
		return nil
	}
}
