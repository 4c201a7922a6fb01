package lab

// ossian lab verify: flags and console of package lab/verify, which judges documents.

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"ossian/internal/command"
	"ossian/internal/lab/forecast"
	"ossian/internal/lab/verify"
	"ossian/internal/terminal"
)

// maxInput is how many bytes of a file are read; verify refuses less.
const maxInput = 1 << 30

func verifyCommand() *cobra.Command {
	var asJSON bool
	var against []string
	cmd := &cobra.Command{
		Use:   "verify FILE...",
		Short: "Say what cannot be true, or is not supported, in published results and reports",
		Long: `Read reports, logs and result files (Markdown, text, JSON, CSV; - is standard input) and
say what cannot be true in them, what nothing in them supports, and what is easily misread.

A finding is a line: ID severity place: what is printed; what follows; why. Severities are
wrong (contradicts other printed figures beyond their rounding, or what is possible),
unsupported, caution and info.

The exit status is 0 where nothing is wrong, 1 where something is, 2 where a file cannot be
read or has nothing that can be checked.`,
		Example: "  ossian lab verify report.md\n  ossian lab verify --json runs/*.json",
		Args:    usage(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return verifyFiles(cmd, args, against, asJSON)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "write the findings as JSON")
	cmd.Flags().StringArrayVar(&against, "against", nil, "compare with predictions for `MODEL@MACHINE[,ENGINE@VERSION]`; may be given again")
	return cmd
}

// verifyFiles reads the files, judges them and writes what was found.
func verifyFiles(cmd *cobra.Command, names, against []string, asJSON bool) error {
	var options []verify.Option
	for _, text := range against {
		opponent, err := forecast.Against(text)
		if err != nil {
			return command.WithStatus(statusUsage, fmt.Errorf("--against: %w", err))
		}
		options = append(options, verify.Against(opponent))
	}
	inputs := make([]verify.Input, len(names))
	for i, name := range names {
		data, err := readInput(cmd, name)
		if err != nil {
			return command.WithStatus(statusUsage, err)
		}
		inputs[i] = verify.Input{Name: name, Data: data}
	}
	report, err := verify.Documents(inputs, options...)
	if _, unreadable := errors.AsType[*verify.UnreadableError](err); unreadable {
		return command.WithStatus(statusUsage, err)
	}
	if err != nil {
		return err
	}
	if err := writeReport(cmd.OutOrStdout(), &report, asJSON); err != nil {
		return err
	}
	// Findings of the other severities are read by people: only what is wrong fails the command.
	if wrong := report.Wrong(); wrong > 0 {
		return fmt.Errorf("lab verify: %d findings of severity wrong", wrong)
	}
	return nil
}

// readInput reads a file, or standard input.
func readInput(cmd *cobra.Command, name string) ([]byte, error) {
	source := cmd.InOrStdin()
	if name != "-" {
		file, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		defer func() { _ = file.Close() }()
		source = file
	}
	data, err := io.ReadAll(io.LimitReader(source, maxInput+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", name, err)
	case len(data) > maxInput:
		return nil, fmt.Errorf("%s: more than %d bytes", name, maxInput)
	}
	return data, nil
}

// writeReport writes the findings. Text quotes documents, so it is cleaned of what would
// steer a terminal; JSON escapes by itself.
func writeReport(out io.Writer, report *verify.Report, asJSON bool) error {
	if asJSON {
		text, err := report.JSON()
		if err != nil {
			return err
		}
		_, err = out.Write(text)
		return err
	}
	for line := range strings.Lines(report.Text()) {
		if _, err := fmt.Fprintln(out, strings.Map(terminal.Printable, strings.TrimSuffix(line, "\n"))); err != nil {
			return err
		}
	}
	return nil
}
