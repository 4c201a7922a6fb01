package report

import "ossian/internal/lab/ledger"

// Columns are what baseline and winner of another campaign reached on each of its workloads, as columns
// of this one.
func Columns(source string, lines []ledger.Line) (out []ledger.Compared) {
	f := gather(lines)
	for _, model := range f.campaign.Models {
		c := newChapter(f, model, "")
		for _, load := range f.campaign.Workloads {
			p := c.bothOn(load.Name)
			add := func(setting ledger.Setting, metrics map[string]float64) {
				if len(metrics) > 0 {
					label := model + ", " + setting.Engine + " " + flagsOf(&setting) + ", " + load.Name
					out = append(out, ledger.Compared{Source: source, Label: label, Metrics: metrics})
				}
			}
			add(c.baseline, p.before)
			if c.improved() {
				add(c.winner, p.after)
			}
		}
	}
	return out
}

// comparedPart shows what the plan has beside what was measured here.
func (c *chapter) comparedPart(level int) {
	if len(c.campaign.Compared) == 0 {
		return
	}
	c.heading(level, "Beside results from elsewhere")
	columns := []string{"Source", "Result"}
	for _, metric := range c.shown() {
		columns = append(columns, ">"+c.nameOf(metric))
	}
	var rows [][]cell
	for _, result := range c.campaign.Compared {
		row := []cell{of(say("").code(result.Source)), of(say(result.Label))}
		for _, metric := range c.shown() {
			value := "-"
			if measured, has := result.Metrics[metric]; has {
				value = number(measured)
			}
			row = append(row, of(say(value)))
		}
		rows = append(rows, row)
	}
	c.table(columns, rows)
}
