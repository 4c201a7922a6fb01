package chart

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// HTML writes a report of the sweep as one file: the table of its runs, throughput and
// latencies over the load, the frontier, further figures, machines and versions, command
// lines and settings of each run, and the raw data. As the report of a run, it loads nothing.
func (s *Sweep) HTML(dst io.Writer, title string, further []*Figure) error {
	all := s.overviews()
	varied := loadOf(all)
	content := page{Title: clip(title, 200), Facts: s.environment()}
	// A section for each run, and among them how many differ in more than their number.
	measurements := map[string]bool{}
	key := s.measurement()
	for i, name := range unique(names(all)) {
		run := &s.rows[i]
		measurements[key(run)] = true
		sec := section{ID: i, Name: clip(name, 200), Values: all[i].cells()}
		sec.judge(run.ossian)
		if run.ossian != nil {
			sec.Command = clean(commandLine(run.ossian.Args))
		}
		for _, column := range slices.Sorted(maps.Keys(run.cells)) {
			sec.Facts = append(sec.Facts, pair{clean(column), clean(run.cells[column].text)})
		}
		content.Sections = append(content.Sections, sec)
	}
	content.Subtitle = fmt.Sprintf("%d runs, %d measurements", len(s.rows), len(measurements))
	for i := range s.failures {
		content.Sections = append(content.Sections, s.failures[i].section(len(s.rows)+i))
	}
	if n := len(s.failures); n > 0 {
		content.Subtitle += fmt.Sprintf(", %d failed or invalid", n)
	}
	figures := []*Figure{paretoOf(all, varied)}
	if varied != noLoad {
		figures = append([]*Figure{loadCurves(all, varied)}, figures...)
	}
	if err := content.draw(append(figures, further...)); err != nil {
		return err
	}
	if s.raw == nil {
		content.Data.Note = fmt.Sprintf("The results are left out here for their size, %d MB; they are in the summary.json files.", s.size>>20)
		return content.write(dst, "sweep")
	}
	var err error
	if content.Data, err = pack("sweep.json", slices.Concat([]byte("["), s.raw, []byte("]\n"))); err != nil {
		return err
	}
	return content.write(dst, "sweep")
}

// environment lists machines and versions, each fact with all the values that it had.
func (s *Sweep) environment() []pair {
	values := map[string][]string{}
	for i := range s.rows {
		if x := s.rows[i].ossian; x != nil {
			for key, v := range x.Environment {
				if !slices.Contains(values[key], v) {
					values[key] = append(values[key], v)
				}
			}
		}
	}
	facts := map[string]string{}
	for key, all := range values {
		facts[clean(key)] = clean(strings.Join(all, "; "))
	}
	return environmentFacts(facts)
}
