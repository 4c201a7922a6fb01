package lab

// ossian lab report: the report of a ledger, written again, or of a campaign that still runs.

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/spf13/cobra"

	"ossian/internal/command"
	"ossian/internal/lab/ledger"
	"ossian/internal/lab/report"
)

func reportCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "report DIR",
		Short: "Write the report of a campaign's ledger: Markdown, HTML, SVG and PNG",
		Long: `Write report.md, report.html and the figures of the ledger in DIR beside it. The ledger is
the only source, so that the same ledger gives the same bytes. One that is still being
written gives a report that says so in its first line.`,
		Example: "  ossian lab report lab/quick",
		Args:    usage(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			path, err := report.Write(args[0])
			var broken *ledger.BrokenError
			switch {
			case errors.Is(err, fs.ErrNotExist):
				return command.WithStatus(statusUsage, fmt.Errorf("%s has no %s: a directory that `ossian lab run` or `ossian lab quick` wrote expected", args[0], ledger.FileName))
			case err != nil && !errors.As(err, &broken):
				return command.WithStatus(statusUsage, err)
			}
			fmt.Fprintln(cmd.OutOrStdout(), path)
			return err // of a broken ledger, after what is whole of it was reported
		},
	}
}
