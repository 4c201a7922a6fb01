package main

import (
	"bytes"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"ossian/internal/bench"
	"ossian/internal/bench/report"
)

func benchCompareCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "compare A B",
		Short: "Say what differs between two results, and what of it is more than chance",
		Long: `Compare two results: JSON of vllm bench serve, sglang or ossian, lmdeploy's CSV, logs of
ossian bench serve --log, or text with console reports pasted into it. A file with
several results is taken as repetitions of one measurement.`,
		Args: usage(cobra.ExactArgs(2)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return compareFiles(cmd.OutOrStdout(), args[0], args[1])
		},
	}
}

// compareFiles writes what differs between the results in two files.
func compareFiles(w io.Writer, a, b string) error {
	var both [2][]report.Result
	for i, name := range []string{a, b} {
		r, err := readResults(name)
		if err != nil {
			return err
		}
		both[i] = r
	}
	c, err := report.Compare(both[0], both[1])
	if err != nil {
		return err
	}
	_, err = fmt.Fprint(w, c)
	return err
}

func benchSummarizeCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "summarize FILE...",
		Short: "Print the numbers of results again",
		Long: `Print the numbers of results again: the whole report of logs (ossian bench serve --log,
also of runs that were interrupted), and a table of all files.`,
		Args: usage(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			var all []report.Result
			for _, name := range args {
				if s, err := readLog(name); err != nil {
					return err
				} else if s != nil {
					fmt.Fprint(cmd.OutOrStdout(), s.Console(), s.OssianConsole())
				}
				r, err := readResults(name)
				if err != nil {
					return err
				}
				all = append(all, r...)
			}
			fmt.Fprint(cmd.OutOrStdout(), report.Table(all))
			return nil
		},
	}
}

// readResults reads a file of results, or the log of a run.
func readResults(name string) ([]report.Result, error) {
	if s, err := readLog(name); err != nil {
		return nil, err
	} else if s != nil {
		r, err := s.Result(name)
		return []report.Result{r}, err
	}
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	return report.Import(name, data)
}

// readLog reads the log of a run, made with its own tokenizer where that is at hand;
// nil = the file is something else.
func readLog(name string) (*report.Summary, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	if !bytes.HasPrefix(data, []byte(`{"run":`)) {
		return nil, nil
	}
	rec, complete, err := bench.ReadLog(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if !complete {
		fmt.Fprintf(os.Stderr, "%s: the run was interrupted; %d requests had ended\n", name, len(rec.Samples))
	}
	m := &measurement{o: &benchOptions{tokenizer: rec.Setup.Tokenizer, skipTokenizer: rec.Setup.Tokenizer == ""}, setup: &rec.Setup}
	if err := m.tokenizer(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if m.model != nil {
		defer m.model.Close()
	}
	return report.Summarize(rec, m.count()), nil
}
