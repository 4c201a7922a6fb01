package bench

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"ossian/internal/bench"
	"ossian/internal/bench/chart"
	"ossian/internal/bench/report"
	"ossian/internal/command"
)

// writable returns why something of what was asked for cannot be written, so that no result is lost.
func (o *clientOptions) writable() (err error) {
	if o.save || o.detailed || o.add || o.timeline || o.stats {
		if err = command.OutputFolder("--result-dir", cmp.Or(o.dir, ".")); err == nil && o.file != "" {
			err = command.OutputFile("--result-filename", filepath.Join(o.dir, o.file))
		}
	}
	return cmp.Or(err, command.OutputFile("--output-file", o.output), command.OutputFile("--log", o.log), command.OutputFile("--html", o.html))
}

// store writes the files that were asked for and returns the name of the result.
func (m *measurement) store(summary *report.Summary, rec *bench.Recording, index int) (string, error) {
	// Plots lie beside where the result is or would be.
	path := filepath.Join(m.o.dir, cmp.Or(m.o.file, summary.FileName()))
	stem := numbered(path, index)
	stem = strings.TrimSuffix(stem, filepath.Ext(stem))
	if m.o.output != "" {
		path = m.o.output
	} else if p := m.Setup().Profile; !m.o.add && p != bench.LMDeploy && p != bench.SGLang { // which add to what there is
		path = numbered(path, index)
	}
	var errs []error
	if m.o.save || m.o.detailed || m.o.add || m.o.output != "" {
		errs = append(errs, summary.WriteFile(path, m.o.detailed, m.o.add || m.o.output != ""))
	}
	if m.o.timeline {
		errs = append(errs, writeTo(stem+".timeline.html", func(w io.Writer) error {
			return chart.TimelineHTML(w, chart.Run{Name: m.Setup().Model, Summary: summary, Recording: rec}, m.o.limits)
		}))
	}
	if m.o.stats {
		errs = append(errs, writeTo(stem+".dataset_stats.png", chart.DatasetStats(m.Workload()).PNG))
	}
	return path, errors.Join(errs...)
}

// numbered is the name of the file of a run, the first having index 0.
func numbered(path string, index int) string {
	if index == 0 {
		return path
	}
	ext := filepath.Ext(path)
	return fmt.Sprintf("%s-run%d%s", strings.TrimSuffix(path, ext), index+1, ext)
}

// writeTo writes a file whole, in a folder that it makes, or says why not.
func writeTo(path string, write func(io.Writer) error) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return err
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}
