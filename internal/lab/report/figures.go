package report

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"

	"ossian/internal/bench/chart"
	"ossian/internal/lab/ledger"
)

// A drawing is a picture that becomes files beside the report.
type drawing interface {
	SVG(io.Writer) error
	PNG(io.Writer) error
}

// draw keeps a picture for its files and returns it for the page. Pictures are drawn from figures of the
// ledger alone, so that one that cannot be drawn is a fault of this program.
func (c *chapter) draw(picture drawing, name, alt string) *figure {
	var svg bytes.Buffer
	if err := picture.SVG(&svg); err != nil {
		panic(fmt.Sprintf("report: figure %s: %v", name, err))
	}
	c.figures = append(c.figures, picture)
	return &figure{name: name, alt: alt, svg: svg.Bytes()}
}

// bars are the chart of a conclusion.
type bars struct {
	chart.Bars
	metric    string
	workloads []string // of the pairs, by their full names
}

// newBars is a chart without bars, of the objective.
func (c *chapter) newBars() *bars {
	metric := c.campaign.Objective.Metric
	unit := "Throughput (TPS)"
	switch {
	case metric == "total_token_throughput" && c.perDevice(metric):
		unit = "Throughput (TPS, normalized by GPU count)"
	case metric != "total_token_throughput":
		unit = c.nameOf(metric)
	}
	return &bars{chart.Bars{Name: c.prefix + "conclusion", Title: chart.Drawable(c.title()), Unit: unit, Before: "Baseline", After: "Optimized"}, metric, nil}
}

// add appends a workload, if its objective was measured.
func (b *bars) add(c *chapter, label string, p pairing) {
	before, has := p.before[b.metric]
	if !has || len(b.Pairs) >= 12 {
		return
	}
	pair := chart.Pair{Before: before, After: nan}
	if c.improved() {
		pair.After = p.after[b.metric]
		pair.Change = change(b.metric, before, pair.After)
		if tone := toneOf(b.metric, before, pair.After); c.certain(label) {
			pair.Better, pair.Worse = tone == better, tone == worse
		}
	}
	b.Pairs, b.workloads = append(b.Pairs, pair), append(b.workloads, label)
}

// wordsOf says what bars show.
func (c *chapter) wordsOf(b *bars) string {
	var parts []string
	for i, pair := range b.Pairs {
		if math.IsNaN(pair.After) {
			parts = append(parts, fmt.Sprintf("%s %s", b.workloads[i], number(pair.Before)))
			continue
		}
		parts = append(parts, fmt.Sprintf("%s %s to %s (%s)", b.workloads[i], number(pair.Before), number(pair.After), pair.Change))
	}
	return "Bars of " + b.Unit + ": " + strings.Join(parts, ", ")
}

// effects draws what each option did, with its interval.
func (c *chapter) effects() *figure {
	forest := &chart.Forest{Name: c.prefix + "options", Title: chart.Drawable("Effect of each option alone on " + c.nameOf(c.campaign.Objective.Metric)), Unit: c.gainName() + " (%)", Zone: 1}
	var words []string
	var subjects []string
	for _, decision := range c.about(c.model, ledger.StageRace) {
		if decision.Effect == nil {
			continue
		}
		effect := Gained(&decision)
		subjects = append(subjects, decision.Subject)
		forest.Effects = append(forest.Effects, chart.Effect{Value: 100 * effect.Value, Low: 100 * effect.Low, High: 100 * effect.High,
			Kept: decision.Verdict == ledger.Kept, Text: share(effect.Value) + ", " + decision.Verdict})
		words = append(words, decision.Subject+" "+share(effect.Value)+" "+decision.Verdict)
	}
	if len(forest.Effects) == 0 {
		return nil
	}
	for i, label := range labels(subjects, widestEffect) {
		forest.Effects[i].Label = label
	}
	return c.draw(forest, forest.Name, "Options with intervals: "+strings.Join(words, ", "))
}

// How many letters labels have room for: in a row of the figure of options, below bars.
const (
	widestEffect = 40
	widestBar    = 22
)

// labels are names that fit, in letters that can be drawn, each another one: where cutting them makes two
// alike, their numbers go before them.
func labels(names []string, width int) []string {
	shown := make([]string, len(names))
	for i, name := range names {
		shown[i] = chart.Drawable(name)
	}
	out := Shorten(shown, width)
	for i := range out {
		if len([]rune(out[i])) > width {
			number := fmt.Sprintf("%d: ", i+1)
			out[i] = number + cutMiddle(shown[i], width-len(number))
		}
	}
	return out
}

// A speed is a setting by what its users and its devices get.
type speed struct {
	setting     ledger.Setting
	user, share float64 // tokens per second: of one user; of one device
	best        bool    // no other setting gives more of both
}

// speeds are all settings that were measured on the objective's workload. A user's speed is that between
// tokens, 1000/mean TPOT.
func (c *chapter) speeds() []speed {
	workload := c.campaign.Objective.Workload
	var out []speed
	seen := map[string]bool{}
	for i := range c.trials {
		t := &c.trials[i]
		name := t.Setting.Engine + " " + flagsOf(&t.Setting)
		if t.Model != c.model || t.Workload != workload || seen[name] || t.Role == ledger.RoleSmoke {
			continue
		}
		seen[name] = true
		runs := c.of(c.model, t.Setting, func(t *trial) bool {
			return t.Workload == workload && t.Role != ledger.RoleSmoke && t.good("output_throughput") && t.good("mean_tpot_ms")
		})
		if len(runs) == 0 {
			continue
		}
		var rate, gap float64
		for _, run := range runs {
			rate += math.Log(run.Metrics["output_throughput"] / float64(max(run.Devices, 1)))
			gap += math.Log(run.Metrics["mean_tpot_ms"])
		}
		count := float64(len(runs))
		out = append(out, speed{setting: t.Setting, user: 1000 / math.Exp(gap/count), share: math.Exp(rate / count)})
	}
	for i := range out {
		out[i].best = !slices.ContainsFunc(out, func(other speed) bool {
			return other.user >= out[i].user && other.share >= out[i].share && (other.user > out[i].user || other.share > out[i].share)
		})
	}
	slices.SortStableFunc(out, func(a, b speed) int {
		if a.user < b.user {
			return -1
		} else if a.user > b.user {
			return 1
		}
		return 0
	})
	return out
}

// frontier draws them; those on the frontier are joined.
func (c *chapter) frontierFigure(speeds []speed) *figure {
	best := chart.Line{Name: "on the frontier", Style: chart.Marks}
	others := chart.Line{Name: "dominated", Style: chart.Dots | chart.Rings}
	panel := chart.Panel{X: chart.Axis{Title: "tokens/s per user"}, Y: chart.Axis{Title: "output tokens/s per device"}}
	for _, s := range speeds {
		at := chart.Point{X: s.user, Y: s.share}
		if s.best {
			best.Points = append(best.Points, at)
			panel.Notes = append(panel.Notes, chart.Note{At: at, Text: chart.Drawable(flagsOf(&s.setting))})
		} else {
			others.Points = append(others.Points, at)
		}
	}
	panel.Lines = []chart.Line{best, others}
	picture := &chart.Figure{Name: c.prefix + "frontier", Title: "What users and devices get", Panels: [][]chart.Panel{{panel}}}
	return c.draw(picture, picture.Name, fmt.Sprintf("%s, %d of them on the frontier", plural(len(speeds), "setting"), len(best.Points)))
}

// drift draws the baseline's objective over the campaign.
func (c *chapter) drift() *figure {
	metric := c.campaign.Objective.Metric
	lines := map[string]*chart.Line{}
	first, count := 0.0, 0
	for _, t := range c.of(c.model, c.baseline, func(t *trial) bool {
		return t.Workload == c.campaign.Objective.Workload && t.Role != ledger.RoleSmoke && t.good(metric)
	}) {
		if lines[t.Role] == nil {
			// Roles differ in their strokes as well as in colour.
			styles := []chart.Style{chart.Marks, chart.Marks | chart.Dashed | chart.Rings, chart.Marks | chart.Rings, chart.Marks | chart.Dashed}
			lines[t.Role] = &chart.Line{Name: t.Role, Style: styles[len(lines)%len(styles)]}
		}
		if count == 0 {
			first = t.hours
		}
		count++
		lines[t.Role].Points = append(lines[t.Role].Points, chart.Point{X: 60 * (t.hours - first), Y: c.value(t, metric)})
	}
	if count < 3 {
		return nil
	}
	panel := chart.Panel{X: chart.Axis{Title: "minutes since the first"}, Y: chart.Axis{Title: c.nameOf(metric)}}
	for _, role := range slices.Sorted(maps.Keys(lines)) {
		panel.Lines = append(panel.Lines, *lines[role])
	}
	picture := &chart.Figure{Name: c.prefix + "drift", Title: "The baseline over the campaign", Panels: [][]chart.Panel{{panel}}}
	return c.draw(picture, picture.Name, fmt.Sprintf("The baseline's %s in %s, by time", c.nameOf(metric), plural(count, "trial")))
}
