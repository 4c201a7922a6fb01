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

// summarizeCommand is ossian bench summarize.
func summarizeCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "summarize FILE...",
		Short: "Print the numbers of results again",
		Long: `Print the numbers of results again: the whole report of logs (ossian bench serve --log,
also of runs that were interrupted), and a table of all files. FILE#3 is the third result
of a file, as the table numbers them.`,
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
// What is to be known about it is written to notes. FILE#3 is the third result of a file that
// has several, unless a file has that name.
func readResults(name string, notes io.Writer) (log *report.Summary, results []report.Result, err error) {
	path, number := report.SplitSource(name)
	if _, err := os.Stat(name); number == 0 || err == nil {
		path, number = name, 0
	}
	if log, results, err = readFile(path, notes); err != nil || number == 0 {
		return log, results, err
	}
	if number > len(results) {
		return nil, nil, fmt.Errorf("%s: %s has %d results; bench summarize numbers them", name, path, len(results))
	}
	return log, results[number-1 : number], nil
}

// readFile reads all results of a file.
func readFile(name string, notes io.Writer) (log *report.Summary, results []report.Result, err error) {
	if isFolder(name) {
		return nil, nil, fmt.Errorf("%s is a folder; expected a file of results", name)
	}
	file, err := os.Open(name)
	if err != nil {
		return nil, nil, fmt.Errorf("%w; expected a result of ossian bench serve, or of another tool, and its path", err)
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
	tokens := tokensOf(recording, name, notes)
	defer tokens.Close()
	return report.Summarize(recording, tokens.Count()), nil
}

// tokensOf opens the tokenizer that counted texts in a run; nil where there was none, or it is not
// here.
func tokensOf(recording *bench.Recording, name string, notes io.Writer) *client.Tokens {
	used := recording.Setup.Tokenizer
	if used == "" {
		return nil
	}
	tokens, err := client.OpenTokens(used)
	if err != nil {
		fmt.Fprintf(notes, "%s: the tokenizer of the run, %s, is not here: tokens are those that the server counted, or else events\n", name, used)
	}
	return tokens
}
