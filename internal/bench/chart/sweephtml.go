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
func (s *Sweep) HTML(w io.Writer, title string, further []*Figure) error {
	all := s.overviews()
	l := loadOf(all)
	p := page{Title: clip(title, 200), Facts: s.environment()}
	measurements := map[string]bool{}
	key := s.measurement()
	for i, name := range unique(names(all)) {
		r := &s.rows[i]
		measurements[key(r)] = true
		sec := section{ID: i, Name: clip(name, 200), Values: all[i].cells()}
		sec.judge(r.ossian)
		if r.ossian != nil {
			sec.Command = clean(command(r.ossian.Args))
		}
		for _, column := range slices.Sorted(maps.Keys(r.cells)) {
			sec.Facts = append(sec.Facts, pair{clean(column), clean(r.cells[column].text)})
		}
		p.Sections = append(p.Sections, sec)
	}
	p.Subtitle = fmt.Sprintf("%d runs, %d measurements", len(s.rows), len(measurements))
	figures := []*Figure{paretoOf(all, l)}
	if l != noLoad {
		figures = append([]*Figure{loadCurves(all, l)}, figures...)
	}
	if err := p.draw(append(figures, further...)); err != nil {
		return err
	}
	if s.raw == nil {
		p.Data.Note = fmt.Sprintf("The results are left out here for their size, %d MB; they are in the summary.json files.", s.size>>20)
		return p.write(w, "sweep")
	}
	var err error
	if p.Data, err = pack("sweep.json", slices.Concat([]byte("["), s.raw, []byte("]\n"))); err != nil {
		return err
	}
	return p.write(w, "sweep")
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
	return environment(facts)
}
