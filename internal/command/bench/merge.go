package bench

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"ossian/internal/bench"
	"ossian/internal/bench/report"
	"ossian/internal/bench/shards"
	"ossian/internal/command"
)

// mergeCommand is ossian bench merge.
func mergeCommand() *cobra.Command {
	var log, result string
	var detailed bool
	cmd := &cobra.Command{
		Use:   "merge LOG...",
		Short: "Put the logs of bench serve --shard together",
		Long: `Put the logs of ossian bench serve --shard together: those of all clients that made one run. Every
number is computed anew from all requests. Logs that are not all parts of one run, each once, that
began together are refused.`,
		Example: `  ossian bench serve --shard 0/2 --start-at 2026-11-26T12:00:00Z --base-url http://server:8000 --log 0.log
  ossian bench serve --shard 1/2 --start-at 2026-11-26T12:00:00Z --base-url http://server:8000 --log 1.log
  ossian bench merge 0.log 1.log --log run.log`,
		Args: command.Usage(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := cmp.Or(command.OutputFile("--log", log), command.OutputFile("--output", result)); err != nil {
				return err
			}
			parts, err := readParts(args, cleaner{cmd.ErrOrStderr()})
			if err != nil {
				return err
			}
			whole, err := shards.Merge(parts)
			if err != nil {
				return err
			}
			return reportMerged(cleaner{cmd.OutOrStdout()}, cleaner{cmd.ErrOrStderr()}, parts, whole, log, result, detailed)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&log, "log", "", "`FILE` that gets the log of the whole run: what bench summarize reads")
	flags.StringVar(&result, "output", "", "`FILE` that gets the result as JSON")
	flags.BoolVar(&detailed, "save-detailed", false, "with the times of every request")
	return cmd
}

// readParts reads the logs of shards.
func readParts(names []string, notes io.Writer) (parts []shards.Part, err error) {
	for _, name := range names {
		file, err := os.Open(name)
		if err != nil {
			return nil, fmt.Errorf("%w; expected a log of ossian bench serve --shard", err)
		}
		recording, complete, err := bench.ReadLog(bufio.NewReader(file))
		if err = errors.Join(err, file.Close()); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if !complete {
			fmt.Fprintf(notes, "%s: the run was interrupted; %d requests had ended\n", name, len(recording.Samples))
		}
		parts = append(parts, shards.Part{Name: filepath.Base(name), Recording: recording})
	}
	return parts, nil
}

// reportMerged prints the parts and the whole, and writes the files that were asked for. A run of
// which a part was sent late is an error, as any whose numbers cannot be trusted.
func reportMerged(out, notes io.Writer, parts []shards.Part, whole *bench.Recording, log, result string, detailed bool) error {
	tokens := tokensOf(whole, "the shards", notes)
	defer tokens.Close()
	late := 0
	fmt.Fprintf(out, "%-8s %10s %22s %18s\n", "Shard", "Requests", "Send lateness p99 (ms)", "Clock of server")
	for _, part := range parts {
		ext := report.Summarize(part.Recording, tokens.Count()).Ossian
		clock := "not told"
		if ahead := part.Setup.Shard.Clock; ahead != nil {
			clock = fmt.Sprintf("%+.3f s", ahead.Seconds())
		}
		fmt.Fprintf(out, "%-8v %10d %22.3f %18s\n", part.Setup.Shard, len(part.Samples), ext.Client.SendLate.P99, clock)
		if slices.Contains(ext.Client.Reasons, report.FaultLate) {
			late++
		}
	}
	summary := report.Summarize(whole, tokens.Count())
	fmt.Fprint(out, summary.Console(), summary.OssianConsole())
	var errs []error
	// What was measured is written even where it is not to be trusted: the error says so, and why.
	if log != "" {
		errs = append(errs, writeTo(log, func(w io.Writer) error { return bench.WriteLog(w, whole) }))
	}
	if result != "" {
		errs = append(errs, summary.WriteFile(result, detailed, false))
	}
	if late > 0 && summary.Valid() {
		errs = append(errs, fmt.Errorf("%d of %d shards sent their requests late; give each fewer, or more processors", late, len(parts)))
	}
	return cmp.Or(errors.Join(errs...), untrusted(summary))
}
