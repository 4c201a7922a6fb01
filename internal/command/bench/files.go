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
)

// folders makes those that results go to, so that none is lost for the want of one.
func (o *clientOptions) folders() error {
	var all []string
	if o.save || o.detailed || o.add || o.timeline || o.stats {
		all = append(all, cmp.Or(o.dir, "."))
	}
	return foldersOf(all, o.output, o.html)
}

// foldersOf makes folders, and those of the files that are named.
func foldersOf(all []string, files ...string) error {
	for _, file := range files {
		if info, err := os.Stat(file); err == nil && info.IsDir() {
			return fmt.Errorf("%s is a folder, want a file to write results to; nothing was measured", file)
		}
		if file != "" {
			all = append(all, filepath.Dir(file))
		}
	}
	for _, dir := range all {
		if err := os.MkdirAll(dir, 0o777); err != nil {
			return fmt.Errorf("folder of results: %w; nothing was measured", err)
		}
	}
	return nil
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
