package check

// The report as text, in the order of lab.md 6. It prints what the report holds and computes nothing,
// so that every number in it is in the JSON (acceptance C3).

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"
)

// JSON is the report for programs.
func (r *Report) JSON() ([]byte, error) {
	text, err := json.MarshalIndent(r, "", "  ")
	return append(text, '\n'), err
}

// A document is a text that grows.
type document struct{ strings.Builder }

func (d *document) line(format string, values ...any) {
	text := fmt.Sprintf(format, values...)
	d.WriteString(strings.TrimRight(text, " ") + "\n")
}

// Text is the report for people.
func (r *Report) Text() string {
	d := &document{}
	name := r.Engine
	if r.Version != "" {
		name += " " + r.Version
	}
	d.line("%s: %s, model %s", r.URL, name, orNone(r.Model))
	if r.Played != nil {
		d.line("  it plays %s and computes nothing: figures below are of what it plays", r.Played)
	}
	for _, one := range r.Known {
		d.line("  known by %s: %s", one.Source, one.Text)
	}
	if len(r.Others) > 0 {
		d.line("  also answering: %s", strings.Join(r.Others, " "))
	}
	d.now(&r.Now)
	d.roofline(&r.Roofline)
	d.line("\noptimisations")
	var cells [][]string
	for i := range r.Rows {
		row := &r.Rows[i]
		cells = append(cells, []string{row.Area, row.Name, string(row.State), effectText(&row.Effect, row.State)})
	}
	d.table([]string{"area", "optimisation", "state", "effect"}, cells)
	d.line("\nevidence")
	for i := range r.Rows {
		row := &r.Rows[i]
		d.line("  %s: %s%s", row.Name, row.State, reason(row))
		for _, one := range row.Evidence {
			d.line("    %s: %s", one.Source, one.Text)
		}
	}
	d.missing(r.Missing)
	d.line("\nsystem")
	cells = nil
	for _, fact := range r.System {
		cells = append(cells, []string{fact.Name, fact.Value, fact.Origin})
	}
	d.table([]string{"what", "value", "from"}, cells)
	d.steps(r)
	d.stored(r.Stored)
	for _, note := range r.Notes {
		d.line("\nnote: %s", note)
	}
	return d.String()
}

func orNone(text string) string {
	if text == "" {
		return "not told"
	}
	return text
}

// reason is why a row is as it is.
func reason(row *Row) string {
	if row.Reason == "" {
		return ""
	}
	return " (" + row.Reason + ")"
}

// effectText is an effect as the table has it: never a range without origin.
func effectText(effect *Effect, state State) string {
	if effect.Origin == NotKnown {
		if state == Off {
			return NotKnown
		}
		return "–"
	}
	return fmt.Sprintf("%s %+g %% [%g, %g] of %s", effect.Origin, effect.Percent, effect.Low, effect.High, effect.Metric)
}

func (d *document) now(now *Now) {
	d.line("\nwhere you are")
	if now.NotMeasured != "" {
		d.line("  %s", now.NotMeasured)
	}
	for i := range now.Measured {
		one := &now.Measured[i]
		d.line("  %s: %d runs, %d requests", one.Workload, one.Runs, one.Requests)
		for _, value := range one.Values {
			interval := "no interval"
			if value.Interval != nil {
				interval = "95 % interval of the mean"
			}
			d.line("    %s: %s (%s, %s)", value.Name, value, value.Origin, interval)
		}
		for _, finding := range one.Findings {
			d.line("    finding: %s", finding)
		}
	}
	if len(now.Counters) > 0 {
		d.line("  since the server's start, of whatever clients sent:")
	}
	for _, one := range now.Counters {
		d.line("    %s: %s (%s)", one.Name, one, one.Origin)
	}
}

func (d *document) roofline(roofline *Roofline) {
	d.line("\nshare of the roofline")
	for _, verdict := range roofline.Verdicts {
		d.line("  %s", verdict)
	}
	if roofline.Why != "" {
		d.line("  %s", roofline.Why)
	}
	for _, one := range roofline.Figures {
		d.line("    %s: %s (%s)", one.Name, one, one.Origin)
	}
	if roofline.Note != "" {
		d.line("  %s", roofline.Note)
	}
}

func (d *document) missing(rows []Row) {
	d.line("\nmissing")
	if len(rows) == 0 {
		d.line("  nothing that was seen is off")
	}
	for i := range rows {
		row := &rows[i]
		d.line("  %s: %s%s", row.Area, row.Name, reason(row))
		d.remedy(row.Do, row.Command)
		if row.Effect.Why != "" {
			d.line("    effect unknown: %s", row.Effect.Why)
		}
	}
}

// remedy is what to do, in words and as a command.
func (d *document) remedy(do, command string) {
	if do != "" {
		d.line("    %s", do)
	}
	if command != "" {
		d.line("    %s", command)
	}
}

func (d *document) steps(r *Report) {
	d.line("\nnext steps")
	for i := range r.Steps {
		step := &r.Steps[i]
		d.line("  %s: %s", step.Name, effectText(&step.Effect, Off))
		d.remedy(step.Do, step.Command)
	}
	if r.StepNote != "" {
		d.line("  %s", r.StepNote)
	}
}

func (d *document) stored(all []Stored) {
	if len(all) == 0 {
		return
	}
	d.line("\nstored results of this model")
	for i := range all {
		one := &all[i]
		d.line("  %s: %s", one.Source, one.Workload)
		for _, value := range one.Values {
			d.line("    %s: %s", value.Name, value)
		}
		for _, value := range one.Against {
			d.line("    %s now: %s of the stored", value.Name, value)
		}
		if one.Note != "" {
			d.line("    %s", one.Note)
		}
	}
}

// table writes columns as wide as their widest cell.
func (d *document) table(head []string, rows [][]string) {
	widths := make([]int, len(head))
	all := append([][]string{head}, rows...)
	for _, row := range all {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for _, row := range all {
		text := ""
		for i, cell := range row {
			text += "  " + cell + strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
		}
		d.line("%s", text)
	}
}
