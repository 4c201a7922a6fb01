package bench

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"ossian/internal/bench/report"
	"ossian/internal/command"
)

// compareCommand is ossian bench compare.
func compareCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "compare A B",
		Short: "Say what differs between two results, and what of it is more than chance",
		Long: `Compare two results: JSON of vllm bench serve, sglang or ossian, lmdeploy's CSV, logs of
ossian bench serve --log, or text with console reports pasted into it. Results of one
workload in a file are taken as repetitions of one measurement; of several workloads, each
is compared with the same one of the other file. FILE#3 is the third result of a file, as
bench summarize numbers them.

A and B may be folders, of sweeps or of any results: what has the same setting (the name of
its folder or file), or else the same workload, is compared, and what has no partner is
named. Answers are compared too where both results were saved with --save-detailed.`,
		Args: command.Usage(cobra.ExactArgs(2)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return compareFiles(cleaner{cmd.OutOrStdout()}, cleaner{cmd.ErrOrStderr()}, args[0], args[1])
		},
	}
}

// compareFiles writes what differs between the results in two files, or in two folders, and
// what is to be known about these to notes.
func compareFiles(out, notes io.Writer, a, b string) error {
	first, second := isFolder(a), isFolder(b)
	switch {
	case first && second:
		return compareFolders(out, notes, a, b)
	case first != second:
		return fmt.Errorf("%s and %s: one is a folder and the other a file; compare two of a kind, such as files in them", a, b)
	}
	var both [2][]report.Result
	for i, name := range []string{a, b} {
		var err error
		if _, both[i], err = readResults(name, notes); err != nil {
			return err
		}
	}
	return compareAll(out, matchWorkloads("", both[0], both[1]))
}

// isFolder reports whether a name is that of a folder.
func isFolder(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.IsDir()
}

// A match is what is compared: results of one setting and workload of each side. One without a
// partner has none on the other side.
type match struct {
	title string // "" = there is nothing else
	a, b  []report.Result
}

// matchWorkloads pairs the workloads of two lists of results under a setting. One workload on
// each side is compared in any case: what differs is a warning of the comparison.
func matchWorkloads(setting string, a, b []report.Result) (out []match) {
	one, other := report.ByWorkload(a), report.ByWorkload(b)
	if len(one) == 1 && len(other) == 1 {
		return []match{{setting, a, b}}
	}
	title := func(group []report.Result) string {
		return strings.Trim(setting+": "+report.DescribeWorkload(&group[0]), ": ")
	}
	for _, group := range one {
		found := match{title: title(group), a: group}
		// The same model before another one, which may be what is compared.
		for _, same := range []func(a, b *report.Result) bool{report.SameMeasurement, report.SameWorkload} {
			at := slices.IndexFunc(other, func(theirs []report.Result) bool { return same(&group[0], &theirs[0]) })
			if at >= 0 {
				found.b = other[at]
				other = slices.Delete(other, at, at+1)
				break
			}
		}
		out = append(out, found)
	}
	// A unit on one side alone is no error where others match: it is listed below the tables.
	for _, group := range other {
		out = append(out, match{title: title(group), b: group})
	}
	return out
}

// compareAll writes a table for each match, and names what has no partner. It fails if nothing
// has one.
func compareAll(out io.Writer, matches []match) error {
	var lonely []string
	var failed error
	tables := 0
	for _, each := range matches {
		if len(each.a) == 0 || len(each.b) == 0 {
			only := slices.Concat(each.a, each.b)
			side := "A"
			if len(each.a) == 0 {
				side = "B"
			}
			lonely = append(lonely, fmt.Sprintf("only in %s: %s (%s)", side, cmp.Or(each.title, report.DescribeWorkload(&only[0])), only[0].Source))
			continue
		}
		compared, err := report.Compare(each.a, each.b)
		if err != nil {
			// What cannot be compared is an error at the end; the other matches are shown.
			failed = errors.Join(failed, fmt.Errorf("%s: %w", cmp.Or(each.title, each.a[0].Source), err))
			continue
		}
		if tables++; len(matches) > 1 {
			fmt.Fprintf(out, "\n%s", report.Heading(each.title, "="))
		}
		fmt.Fprint(out, compared)
	}
	for _, line := range lonely {
		fmt.Fprintln(out, line)
	}
	if tables == 0 && failed == nil {
		return errors.New("nothing in A has the setting and the workload of anything in B; FILE#1 FILE#2 compares two results whatever they are of")
	}
	return failed
}

// A unit is what a folder has of one setting: the runs of a combination of a sweep, whose folder
// says the setting, or a file of results.
type unit struct {
	sweep   bool
	results []report.Result
}

// compareFolders compares what two folders have: first what has the same name in both, which is
// that of a setting, then all other files by their workloads.
func compareFolders(out, notes io.Writer, a, b string) error {
	one, err := readFolder(a, notes)
	if err != nil {
		return err
	}
	other, err := readFolder(b, notes)
	if err != nil {
		return err
	}
	var matches []match
	for _, name := range slices.Sorted(maps.Keys(one)) {
		if theirs, ok := other[name]; ok {
			matches = append(matches, matchWorkloads(name, one[name].results, theirs.results)...)
			delete(one, name)
			delete(other, name)
		}
	}
	// Names of files need not say a setting: tools put the date into them. Those of a sweep do.
	var rest [2][]report.Result
	for side, units := range []map[string]*unit{one, other} {
		for _, name := range slices.Sorted(maps.Keys(units)) {
			if !units[name].sweep {
				rest[side] = append(rest[side], units[name].results...)
				continue
			}
			alone := match{title: name, a: units[name].results}
			if side == 1 {
				alone.a, alone.b = nil, alone.a
			}
			matches = append(matches, alone)
		}
	}
	if len(rest[0])+len(rest[1]) > 0 {
		matches = append(matches, pairRest(rest[0], rest[1])...)
	}
	return compareAll(out, matches)
}

// pairRest is matchWorkloads of results that nothing says to be of one setting: only the same
// workload makes them partners.
func pairRest(a, b []report.Result) []match {
	if len(a) > 0 && len(b) > 0 && !report.SameWorkload(&a[0], &b[0]) && len(report.ByWorkload(a)) == 1 && len(report.ByWorkload(b)) == 1 {
		return []match{{report.DescribeWorkload(&a[0]), a, nil}, {report.DescribeWorkload(&b[0]), nil, b}}
	}
	matches := matchWorkloads("", a, b)
	for i := range matches {
		if all := slices.Concat(matches[i].a, matches[i].b); matches[i].title == "" {
			matches[i].title = report.DescribeWorkload(&all[0])
		}
	}
	return matches
}

// formats are the ends of files that may have results.
var formats = []string{".json", ".jsonl", ".csv", ".log", ".txt"}

// readFolder reads all results in a folder and below it, by setting. Of a combination of a sweep
// the summary counts, or where there is none the runs. Files that are no results are named in
// notes.
func readFolder(dir string, notes io.Writer) (map[string]*unit, error) {
	units := map[string]*unit{}
	err := filepath.WalkDir(filepath.Clean(dir)+string(filepath.Separator), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !slices.Contains(formats, filepath.Ext(path)) || ofSweep(entry.Name()) {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		// A run of a sweep, and the summary of its runs, are results of the combination, which is
		// their folder.
		run := strings.HasPrefix(entry.Name(), "run=")
		summed, summary := entry.Name() == "summary.json", filepath.Join(filepath.Dir(path), "summary.json")
		if run || summed {
			name = filepath.Dir(name)
		}
		// The summary holds every run beside it: both would count each run twice.
		if _, err := os.Stat(summary); run && err == nil {
			return nil
		}
		_, results, err := readFile(path, notes)
		if err != nil {
			fmt.Fprintf(notes, "skipped: %v\n", err)
			return nil
		}
		if units[name] == nil {
			units[name] = &unit{sweep: run || summed}
		}
		units[name].results = append(units[name].results, results...)
		return nil
	})
	if err == nil && len(units) == 0 {
		err = fmt.Errorf("%s: no result in it or below", dir)
	}
	return units, err
}

// ofSweep reports whether a file of a sweep is no result of its own, or one that does not count.
func ofSweep(name string) bool {
	switch name {
	case "summary.csv", "load.json", "warmup.json":
		return true
	}
	return strings.HasPrefix(name, "SLA--") || strings.HasSuffix(name, "failure.json") || strings.HasSuffix(name, ".invalid.json") || strings.HasSuffix(name, ".measuring.json")
}
