package lab

// What a plan names under compare: results of others that stand in the report beside its own.

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	benchreport "ossian/internal/bench/report"
	"ossian/internal/lab/ledger"
	"ossian/internal/lab/report"
)

// maxCompared bounds a file of results that is read whole, in bytes.
const maxCompared = 64 << 20

// A compareError is about a file that a plan names under compare.
type compareError struct{ error }

// compared reads result files of any tool, and ledgers: of those what baseline and winner reached.
func compared(names []string) (out []ledger.Compared, err error) {
	for _, name := range names {
		info, err := os.Stat(name)
		switch {
		case err != nil:
			return nil, compareError{fmt.Errorf("a result file or a ledger expected: %w", err)}
		// A ledger can be named by its file or by the folder of its campaign.
		case info.IsDir() || filepath.Base(name) == ledger.FileName:
			dir := name
			if !info.IsDir() {
				dir = filepath.Dir(name)
			}
			lines, err := ledger.Read(dir)
			if err != nil {
				return nil, compareError{fmt.Errorf("a result file or a ledger expected: %w", err)}
			}
			out = append(out, report.Columns(name, lines)...)
			continue
		case info.Size() > maxCompared:
			return nil, compareError{fmt.Errorf("%s has %d bytes: at most %d are read", name, info.Size(), maxCompared)}
		}
		data, err := os.ReadFile(name)
		if err != nil {
			return nil, compareError{fmt.Errorf("a result file or a ledger expected: %w", err)}
		}
		results, err := benchreport.Import(name, data)
		if err != nil {
			return nil, compareError{fmt.Errorf("a result file or a ledger expected: %w", err)}
		}
		for _, result := range results {
			out = append(out, ledger.Compared{Source: result.Source, Label: labelOf(&result), Metrics: result.Values})
		}
	}
	return out, nil
}

// labelOf is what a result says of itself.
func labelOf(result *benchreport.Result) string {
	var words []string
	for _, key := range []string{"model_id", "backend", "label"} {
		if word := result.Info[key]; word != "" {
			words = append(words, word)
		}
	}
	return strings.Join(append(words, benchreport.DescribeWorkload(result)), ", ")
}
