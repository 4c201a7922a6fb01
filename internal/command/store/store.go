// Package store is ossian store: what an operator may ask about stored responses without a
// server. Its users need not know where a store keeps what.
package store

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"ossian/internal/command"
	"ossian/internal/store"
	"ossian/internal/terminal"
)

// Command returns the command, which only has others.
func Command() *cobra.Command {
	c := command.Family(&cobra.Command{Use: "store", Short: "Look after stored responses"})
	c.AddCommand(check())
	return c
}

func check() *cobra.Command {
	return &cobra.Command{
		Use:   "check PATH",
		Short: "Say what is damaged in a store of responses, and what a start would lose",
		Long: `Read a whole store of responses and say what is wrong with it: damaged records, lost
ones, parts of the file that hold nothing usable. Nothing is changed. PATH is the directory
that serve was given with --store, the file in it, or a damaged file that a server has kept
beside the new one (responses.db.damaged-1). No server may have it at the time.

The exit status is 1 where something is damaged, or where nothing could be read.`,
		Example: "  ossian store check ~/.local/state/ossian/responses-8000",
		Args:    command.Usage(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			report, err := store.Check(args[0])
			if err != nil {
				return fmt.Errorf("%s: %w", args[0], err)
			}
			write(cmd.OutOrStdout(), &report)
			if !report.Sound() {
				return fmt.Errorf("%s is damaged", report.File)
			}
			return nil
		},
	}
}

// write prints a report, a finding a line. Ids come from the file, so they are cleaned.
func write(out io.Writer, report *store.Report) {
	line := func(format string, args ...any) {
		_, _ = fmt.Fprintln(out, strings.Map(terminal.Printable, fmt.Sprintf(format, args...)))
	}
	line("%s: %d bytes, %d records", report.File, report.Bytes, report.Records)
	// Findings about records come first, then those about the file, and last what a start does.
	for _, damaged := range report.Damaged {
		line("damaged: %s: %s", damaged.ID, damaged.Problem)
	}
	for _, id := range report.Lost {
		line("lost: %s", id)
	}
	if report.Nameless > 0 {
		line("lost: %d more; parts of them are left but no id, so they cannot be named", report.Nameless)
	}
	if report.Absent > 0 {
		line("perhaps lost: %d that were stored between the oldest and the newest record that is left; nothing of them is in the file, "+
			"so neither ids nor times can be told, nor which of them were deleted before", report.Absent)
	}
	for _, unusable := range report.Ranges {
		line("unusable: %s", unusable)
	}
	for _, problem := range report.Structure {
		line("problem: %s", problem)
	}
	if report.Rebuild {
		line("a start makes a new file with %d records and keeps this one beside it", report.Records)
		return
	}
	line("a start uses it as it is")
}
