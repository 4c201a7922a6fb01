package bench

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"ossian/internal/bench"
	"ossian/internal/bench/client"
	"ossian/internal/bench/report"
	"ossian/internal/command"
)

// compareCommand is ossian bench compare.
func compareCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "compare A B",
		Short: "Say what differs between two results, and what of it is more than chance",
		Long: `Compare two results: JSON of vllm bench serve, sglang or ossian, lmdeploy's CSV, logs of
ossian bench serve --log, or text with console reports pasted into it. A file with
several results is taken as repetitions of one measurement.`,
		Args: command.Usage(cobra.ExactArgs(2)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return compareFiles(cleaner{cmd.OutOrStdout()}, cleaner{cmd.ErrOrStderr()}, args[0], args[1])
		},
	}
}

// compareFiles writes what differs between the results in two files, and what is to be
// known about these to notes.
func compareFiles(out, notes io.Writer, a, b string) error {
	var both [2][]report.Result
	for i, name := range []string{a, b} {
		var err error
		if _, both[i], err = readResults(name, notes); err != nil {
			return err
		}
	}
	c, err := report.Compare(both[0], both[1])
	if err != nil {
		return err
	}
	_, err = fmt.Fprint(out, c)
	return err
}

// summarizeCommand is ossian bench summarize.
func summarizeCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "summarize FILE...",
		Short: "Print the numbers of results again",
		Long: `Print the numbers of results again: the whole report of logs (ossian bench serve --log,
also of runs that were interrupted), and a table of all files.`,
		Args: command.Usage(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			var all []report.Result
			out, notes := cleaner{cmd.OutOrStdout()}, cleaner{cmd.ErrOrStderr()}
			var failed error // the others are read all the same
			for _, name := range args {
				summary, results, err := readResults(name, notes)
				if err != nil {
					failed = errors.Join(failed, err)
					continue
				}
				if summary != nil {
					fmt.Fprint(out, summary.Console(), summary.OssianConsole())
				}
				all = append(all, results...)
			}
			if len(all) > 0 {
				fmt.Fprint(out, report.Table(all))
			}
			return failed
		},
	}
}

// logStart is how the log of a run begins.
const logStart = `{"run":`

// readResults reads a file of results, or the log of a run, of which it returns the whole
// report too. A log is read line by line, once, so that it may come from a pipe and be
// larger than memory: what is kept of it are its events, 16 bytes each, and texts.
// What is to be known about it is written to notes.
func readResults(name string, notes io.Writer) (log *report.Summary, results []report.Result, err error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, nil, err
	}
	defer file.Close()
	in := bufio.NewReaderSize(file, 64<<10)
	if head, _ := in.Peek(len(logStart)); string(head) != logStart { // or it is shorter
		data, err := io.ReadAll(in)
		if err == nil {
			results, err = report.Import(name, data)
		}
		return nil, results, err
	}
	if log, err = readLog(in, name, notes); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", name, err)
	}
	r, err := log.Result(name)
	return log, []report.Result{r}, err
}

// readLog reads the log of a run, with its own tokenizer where that is at hand.
func readLog(in io.Reader, name string, notes io.Writer) (*report.Summary, error) {
	recording, complete, err := bench.ReadLog(in)
	if err != nil {
		return nil, err
	}
	if !complete {
		fmt.Fprintf(notes, "%s: the run was interrupted; %d requests had ended\n", name, len(recording.Samples))
	}
	if recording.Skipped > 0 {
		fmt.Fprintf(notes, "%s: %d broken lines were skipped; the first is %v\n", name, recording.Skipped, recording.FirstSkipped)
	}
	// Texts are counted with the tokenizer that counted them in the run.
	var tokens *client.Tokens
	if used := recording.Setup.Tokenizer; used != "" {
		if tokens, err = client.OpenTokens(used); err != nil {
			fmt.Fprintf(notes, "%s: the tokenizer of the run, %s, is not here: tokens are those that the server counted, or else events\n", name, used)
		}
		defer tokens.Close()
	}
	return report.Summarize(recording, tokens.Count()), nil
}
