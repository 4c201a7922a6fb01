package eval

import (
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"ossian/internal/bench/jsonfile"
	"ossian/internal/command"
	"ossian/internal/eval"
	"ossian/internal/eval/report"
)

// maxResult is how many bytes of a result are read.
const maxResult = 1 << 30

// compareCommand is ossian eval compare.
func compareCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "compare A B",
		Short: "Compare two results question by question, and say what of the difference is more than chance",
		Long: `Compare two results question by question, and say what of the difference is more than chance.
A and B are files result.json, or the folders of --out that have them.`,
		Args: command.Usage(cobra.ExactArgs(2)),
		RunE: func(cmd *cobra.Command, args []string) error {
			first, err := readResult(args[0])
			if err != nil {
				return command.WithStatus(statusInvalid, err)
			}
			second, err := readResult(args[1])
			if err != nil {
				return command.WithStatus(statusInvalid, err)
			}
			all, err := eval.Compare(first, second)
			if err != nil {
				return command.WithStatus(statusInvalid, fmt.Errorf("%s and %s: %w", args[0], args[1], err))
			}
			for _, warning := range differences(first, second) {
				fmt.Fprintln(cmd.ErrOrStderr(), "note:", warning)
			}
			return report.CompareConsole(cmd.OutOrStdout(), all)
		},
	}
}

// readResult reads a result.json, or that of a folder of --out.
func readResult(path string) (*eval.Result, error) {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		path = filepath.Join(path, "result.json")
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("%w; expected a result.json of ossian eval, or the folder of its --out", err)
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxResult))
	if err != nil {
		return nil, err
	}
	out, err := eval.ReadResult(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w; expected a result.json of ossian eval", path, jsonfile.ExplainIn(text, err))
	}
	return out, nil
}

// differences are options that were not the same, which a difference may be due to.
func differences(a, b *eval.Result) (all []string) {
	for _, c := range []struct {
		name string
		a, b any
	}{{"temperature", a.Asked.Temperature, b.Asked.Temperature}, {"max tokens", a.Asked.MaxTokens, b.Asked.MaxTokens},
		{"answers a question", a.Asked.Repeats, b.Asked.Repeats}, {"API", a.Asked.API, b.Asked.API}} {
		if c.a != c.b {
			all = append(all, fmt.Sprintf("%s: %v in A, %v in B", c.name, c.a, c.b))
		}
	}
	if !a.Valid || !b.Valid || !a.Complete || !b.Complete {
		all = append(all, "a result is not valid or not complete")
	}
	return all
}
