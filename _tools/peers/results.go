package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A record is what one process gave: a line of the results file.
type record struct {
	Processor string `json:",omitempty"` // of the machine; none: of the model, or what an older version of this tool wrote
	Model     string
	Program   string             `json:",omitempty"` // none: what is known of the model, in Values
	Tool      string             `json:",omitempty"`
	Build     string             `json:",omitempty"` // of the tool
	Commit    string             `json:",omitempty"` // that the tool reports
	Part      string             `json:",omitempty"`
	Variant   string             `json:",omitempty"`
	Time      string             `json:",omitempty"`
	Values    map[string]float64 // by case; of a load, by name
	CPU       float64            `json:",omitempty"` // seconds, all threads
	Wall      float64            `json:",omitempty"` // seconds
	Peak      float64            `json:",omitempty"` // bytes
	Bandwidth float64            `json:",omitempty"` // bytes per second, just before
}

// A file is the results with what can be asked of them.
type file struct {
	*os.File
	records []record
	on      string // the processor whose figures are asked for
}

func openResults(name string) (*file, error) {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	r := &file{File: f}
	if err := r.read(f); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", name, err), f.Close())
	}
	return r, nil
}

func (f *file) read(from io.Reader) error {
	lines := bufio.NewScanner(from)
	for n := 1; lines.Scan(); n++ {
		var r record
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
		f.keep(r)
	}
	return lines.Err()
}

// keep takes a record in. Those of an older build of the same tool, and what was known
// of the model before, are forgotten.
func (f *file) keep(r record) {
	f.records = slices.DeleteFunc(f.records, func(o record) bool {
		if r.Program == "" {
			return o.Program == "" && o.Model == r.Model
		}
		return o.Program == r.Program && o.Tool == r.Tool && o.Build != r.Build && o.Processor == r.Processor
	})
	f.records = append(f.records, r)
}

// add writes a record to the end of the file.
func (f *file) add(r record) error {
	line, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if _, err := f.Write(append(line, '\n')); err != nil {
		return err
	}
	f.keep(r)
	return nil
}

// count says how many figures of a task there are.
func (f *file) count(model, program, part, variant, build, processor string) int {
	n := 0
	for _, r := range f.records {
		if r.Model == model && r.Program == program && r.Part == part && r.Variant == variant && r.Build == build && r.Processor == processor {
			n++
		}
	}
	return n
}

// Names of what is known of a model.
const (
	perToken = "bytes per token" // that one sequence reads to decode
	weights  = "bytes"           // of all weights
)

// learn asks Ossian how much memory decoding reads.
func (f *file) learn(ctx context.Context, s *subject, model string) error {
	if f.known(s.name, perToken) > 0 {
		return nil
	}
	out, err := command(ctx, *bin, "inspect", model, "--json").Output()
	if err != nil {
		return fmt.Errorf("ossian inspect %s: %w", model, err)
	}
	var r struct {
		Bytes  float64
		Decode []struct {
			Bytes float64 `json:"bytes_per_token"`
		}
	}
	if err := json.Unmarshal(out, &r); err != nil || len(r.Decode) == 0 {
		return fmt.Errorf("ossian inspect %s: no table of decoding: %w", model, err)
	}
	return f.add(record{Model: s.name, Values: map[string]float64{weights: r.Bytes, perToken: r.Decode[0].Bytes}})
}

func (f *file) known(model, what string) float64 {
	for _, r := range f.records {
		if r.Model == model && r.Program == "" {
			return r.Values[what]
		}
	}
	return 0
}

// A series is a figure of all runs.
type series []float64

func (s series) median() float64 {
	if len(s) == 0 {
		return 0
	}
	s = slices.Sorted(slices.Values(s))
	if n := len(s); n%2 == 0 {
		return (s[n/2-1] + s[n/2]) / 2
	}
	return s[len(s)/2]
}

// String is the median with the range, and the number of figures unless it is five.
func (s series) String() string {
	switch len(s) {
	case 0:
		return "–"
	case 1:
		return short(s[0]) + " ×1"
	case 5:
		return s.spread()
	}
	return fmt.Sprintf("%s ×%d", s.spread(), len(s))
}

// spread is the median of some figures with the range.
func (s series) spread() string {
	return short(s.median()) + " (" + short(slices.Min(s)) + "–" + short(slices.Max(s)) + ")"
}

// short writes three or four digits.
func short(x float64) string {
	switch {
	case x >= 100:
		return fmt.Sprintf("%.0f", x)
	case x >= 10:
		return fmt.Sprintf("%.1f", x)
	}
	return fmt.Sprintf("%.2f", x)
}

// collect takes one number of each record of a task.
func (f *file) collect(model, program, part, variant string, number func(*record) (float64, bool)) series {
	var out series
	for i := range f.records {
		r := &f.records[i]
		if r.Processor != f.on || r.Model != model || r.Program != program || r.Part != part || (variant != anyVariant && r.Variant != variant) {
			continue
		}
		if x, ok := number(r); ok {
			out = append(out, x)
		}
	}
	return out
}

// anyVariant stands for all of them.
const anyVariant = "*"

func value(name string) func(*record) (float64, bool) {
	return func(r *record) (float64, bool) {
		x, ok := r.Values[name]
		return x, ok
	}
}

var contestants = []string{ossian, llamaCpp, ikLlama, vllm, vllmZen, openVINO}

// processors are those that there are figures of, in the order in which they came.
func (f *file) processors() (all []string) {
	for _, r := range f.records {
		if r.Program != "" && !slices.Contains(all, r.Processor) {
			all = append(all, r.Processor)
		}
	}
	return all
}

// present are the programs that there is a figure of for a model, Ossian among them in any case.
func (f *file) present(model string) []string {
	return slices.DeleteFunc(slices.Clone(contestants), func(program string) bool {
		return program != ossian && !slices.ContainsFunc(f.records, func(r record) bool { return r.Processor == f.on && r.Model == model && r.Program == program })
	})
}

// commits names what the programs were built from, as far as they say.
func (f *file) commits() string {
	said := map[string]string{}
	for _, r := range f.records {
		if r.Commit != "" && r.Processor == f.on {
			said[r.Program] = r.Commit
		}
	}
	var out []string
	for _, p := range contestants {
		switch {
		case said[p] == "":
		case strings.ContainsRune(said[p], ' '): // names and versions of packages
			out = append(out, p+": "+said[p])
		default:
			out = append(out, p+" at commit "+said[p])
		}
	}
	return strings.Join(out, ", ")
}

// print writes the tables of a model.
func (f *file) print(w io.Writer, s *subject) {
	if f.known(s.name, weights) == 0 || !slices.ContainsFunc(f.records, func(r record) bool { return r.Program != "" && r.Processor == f.on && r.Model == s.name }) {
		return
	}
	fmt.Fprintf(w, "### %s\n\n", s.title)
	f.printSpeed(w, s)
	f.printServed(w, s)
}

func (f *file) printSpeed(w io.Writer, s *subject) {
	type row struct{ part, variant, name, label string }
	rows := []row{{"decode", anyVariant, decodeCase(1), ""}}
	for _, n := range s.prefill {
		rows = append(rows, row{"prefill", anyVariant, prefillCase(n), ""})
	}
	for _, n := range together {
		rows = append(rows, row{"batch", anyVariant, decodeCase(n), ""})
	}
	rows = append(rows, row{"depth", anyVariant, deepCase, ""}, row{"ready", "", readyTime, "ready to serve, s"},
		row{"ready", "--no-repack", readyTime, "ready to serve, --no-repack, s"})
	present := f.present(s.name)
	heads := append([]string{"tokens/s"}, present...)
	for _, p := range present[1:] {
		heads = append(heads, "÷ "+p)
	}
	heads = append(heads, "CPU s per s", "read limit GB/s")
	fmt.Fprintf(w, "| %s |\n%s|\n", strings.Join(heads, " | "), strings.Repeat("|---", len(heads)))
	for _, r := range rows {
		var cells, busy []string
		var medians []float64
		var limits series
		for _, p := range present {
			has := func(number func(*record) float64) func(*record) (float64, bool) {
				return func(x *record) (float64, bool) {
					_, ok := x.Values[r.name]
					return number(x), ok
				}
			}
			figures := f.collect(s.name, p, r.part, r.variant, value(r.name))
			cells, medians = append(cells, figures.String()), append(medians, figures.median())
			use := f.collect(s.name, p, r.part, r.variant, has(func(x *record) float64 { return x.CPU / x.Wall }))
			busy = append(busy, cmp.Or(map[bool]string{true: short(use.median())}[len(use) > 0], "–"))
			limits = append(limits, f.collect(s.name, p, r.part, r.variant, has(func(x *record) float64 { return x.Bandwidth / 1e9 }))...)
		}
		if len(limits) == 0 {
			continue
		}
		times := func(peer int, target float64) string {
			a, b := medians[0], medians[peer]
			if r.part == "ready" {
				a, b = b, a
			}
			return ratio(a, b, target)
		}
		for i, p := range present[1:] {
			cells = append(cells, times(i+1, s.targets[r.name].of(p)))
		}
		fmt.Fprintf(w, "| %s | %s | %s | %s |\n", cmp.Or(r.label, r.name), strings.Join(cells, " | "), strings.Join(busy, " · "), limits.spread())
	}
	f.printMemory(w, s)
	f.printLimit(w, s)
}

// printMemory adds the rows of peak memory; files that are mapped count.
func (f *file) printMemory(w io.Writer, s *subject) {
	for _, r := range []struct{ part, variant, label string }{{"ready", "", "server that is ready"}, {"ready", "--no-repack", "server, --no-repack"},
		{"prefill", anyVariant, "prefill"}, {"batch", anyVariant, "batches"}} {
		var cells []string
		some, present := false, f.present(s.name)
		for _, p := range present {
			peaks := f.collect(s.name, p, r.part, r.variant, func(x *record) (float64, bool) { return x.Peak / 1e9, x.Peak > 0 })
			some = some || len(peaks) > 0
			cells = append(cells, peaks.String())
		}
		if some {
			fmt.Fprintf(w, "| peak memory, %s, GB | %s |%s\n", r.label, strings.Join(cells, " | "), strings.Repeat(" |", len(present)+1))
		}
	}
	fmt.Fprintln(w)
}

// printLimit says what the read limit allows.
func (f *file) printLimit(w io.Writer, s *subject) {
	bytes := f.known(s.name, perToken)
	fmt.Fprintf(w, "Weights: %s GB, of which a token of one sequence reads %s GB.", short(f.known(s.name, weights)/1e9), short(bytes/1e9))
	share := func(p string) series {
		return f.collect(s.name, p, "decode", anyVariant, func(r *record) (float64, bool) {
			rate, ok := r.Values[decodeCase(1)]
			return 100 * rate * bytes / r.Bandwidth, ok
		})
	}
	if len(share(ossian)) > 0 {
		var shares []string
		for _, p := range f.present(s.name) {
			shares = append(shares, p+" "+share(p).String())
		}
		fmt.Fprintf(w, " Decoding one sequence reaches of the read limit, in %%: %s.", strings.Join(shares, ", "))
	}
	speed := func(p, part, name string) float64 {
		return f.collect(s.name, p, part, anyVariant, value(name)).median()
	}
	var kept []string
	for _, p := range f.present(s.name) {
		kept = append(kept, p+" "+ratio(speed(p, "depth", deepCase), speed(p, "decode", decodeCase(1)), 0))
	}
	if speed(ossian, "depth", deepCase) > 0 {
		fmt.Fprintf(w, " Behind %d tokens it keeps of its speed: %s.", deep, strings.Join(kept, ", "))
	}
	fmt.Fprint(w, "\n\n")
}

func (f *file) printServed(w io.Writer, s *subject) {
	var lines []string
	for _, l := range s.loads {
		variant := fmt.Sprint(l.streams)
		rate := func(p string) series { return f.collect(s.name, p, "served", variant, value(totalRate)) }
		for _, p := range f.present(s.name) {
			if len(rate(p)) == 0 {
				continue
			}
			cells := []string{variant, fmt.Sprint(l.requests), p}
			for _, name := range []string{totalRate, ttft, tpot, longestGap} {
				cells = append(cells, f.collect(s.name, p, "served", variant, value(name)).String())
			}
			use := f.collect(s.name, p, "served", variant, func(r *record) (float64, bool) { return r.CPU / r.Wall, true })
			limit := f.collect(s.name, p, "served", variant, func(r *record) (float64, bool) { return r.Bandwidth / 1e9, true })
			against, aim := "", 0.0
			if p == llamaCpp {
				aim = l.target
			}
			if p != ossian {
				against = ratio(rate(ossian).median(), rate(p).median(), aim)
			}
			lines = append(lines, "| "+strings.Join(append(cells, against, short(use.median()), limit.spread()), " | ")+" |")
		}
	}
	if len(lines) == 0 {
		return
	}
	fmt.Fprintf(w, "Served, %d tokens in and %d out, by `ossian bench serve`:\n\n", s.input, s.output)
	fmt.Fprintf(w, "| streams | requests | server | %s | %s | %s | %s | Ossian's total ÷ | CPU s per s | read limit GB/s |\n", totalRate, ttft, tpot, longestGap)
	fmt.Fprintf(w, "|---|---|---|---|---|---|---|---|---|---|\n%s\n\n", strings.Join(lines, "\n"))
}

// ratio is a over b, where both were measured, with the target in brackets if one is set.
func ratio(a, b, target float64) string {
	if a <= 0 || b <= 0 {
		return "–"
	}
	if target == 0 {
		return fmt.Sprintf("%.2f", a/b)
	}
	return fmt.Sprintf("%.2f (%g)", a/b, target)
}
