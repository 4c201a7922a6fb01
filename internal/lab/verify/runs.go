package verify

// Rules on several runs of one document: V-CARRY, V-TOKENS, V-REPEAT, V-SLOWER, V-DUP.

import (
	"fmt"
	"math"
	"slices"
	"sort"
	"strings"

	"ossian/internal/lab/verify/document"
)

// carry is V-CARRY: rows of random prompts with one seed on one server.
func (j *judge) carry() {
	type session struct{ server, seed string }
	groups := map[session][]*document.Block{}
	var order []session
	for _, block := range j.doc.Blocks {
		load := j.doc.LoadOf(block)
		if load.Dataset != "random" || block.Windows || !block.Has("total_input_tokens") {
			continue
		}
		seed := "the default seed"
		if load.Seed != nil {
			seed = fmt.Sprintf("seed %d", *load.Seed)
		}
		key := session{seed: seed}
		if block.Server != nil {
			key.server = fmt.Sprint(block.Server.Line)
		}
		if groups[key] == nil {
			order = append(order, key)
		}
		groups[key] = append(groups[key], block)
	}
	for _, key := range order {
		j.checkCarry(groups[key], key.seed)
	}
}

// checkCarry reports what each row of a server shares with those before it.
func (j *judge) checkCarry(blocks []*document.Block, seed string) {
	signatures := 0
	// Each row is compared with those before it, so a long list is cut.
	const mostRows = 500
	blocks = blocks[:min(len(blocks), mostRows)]
	for i, block := range blocks {
		longest, count, name := 0.0, 0.0, ""
		for _, before := range blocks[:i] {
			if before.Fitting() == block.Fitting() {
				continue // the same load again, or another setting of it
			}
			shared := math.Min(before.Value("completed"), block.Value("completed"))
			if length := before.Value("total_input_tokens") / math.Max(before.Value("completed"), 1); shared >= count {
				longest, count, name = length, shared, before.ShortName()
				if load := j.doc.LoadOf(before); load.Stated {
					name = fmt.Sprintf("the %.0f/%.0f run", load.Asked.Input, load.Asked.Output)
				}
			}
		}
		if count == 0 {
			continue
		}
		load := j.doc.LoadOf(block)
		// A burst is served in order, so waiting times spread evenly and mean and median agree,
		// unless the first ones went faster. Long answers in few places do that too.
		mean, median := block.Value("mean_ttft_ms"), block.Value("median_ttft_ms")
		short := load.Output*block.Value("mean_tpot_ms") < 0.2*1000*block.Value("duration")
		if !load.Burst() || !short || median <= 0 || median > 0.9*mean {
			continue
		}
		signatures++
		j.find(Caution, block.Line, block.Name, fmt.Sprintf("median TTFT %.0f < mean %.0f ms", median, mean),
			fmt.Sprintf("the first %.0f of %.0f prompts begin as those of %s (%s): up to %.0f tokens of each were in the prefix cache", count, block.Value("completed"), name, seed, math.Min(longest, load.Input)),
			"random prompts of one seed share prefixes, whatever their length; a server that is not restarted or emptied keeps them"+j.carried(block))
	}
	loads := map[[2]float64]bool{}
	for _, b := range blocks {
		loads[b.Fitting()] = true
	}
	if len(loads) > 1 && signatures == 0 {
		j.find(Caution, blocks[0].Line, fmt.Sprintf("%d blocks of random prompts", len(blocks)), "one server, "+seed, "request i of each row begins like request i of the others",
			"where the server keeps prefixes, later rows read less than their prompts")
	}
}

// carried says how long a run is predicted to take with the prefixes that the server has seen
// before, and without them; "" where nobody can say.
func (j *judge) carried(block *document.Block) string {
	for _, predictor := range j.against {
		setting, ok := j.settingOf(block, predictor)
		if !ok || len(setting.Before) == 0 {
			continue
		}
		with, errWith := predictor.Predict(setting)
		setting.Before = nil
		without, errWithout := predictor.Predict(setting)
		if errWith == nil && errWithout == nil {
			return fmt.Sprintf("; %s predicts %.1f s with them and %.1f s without, printed are %s s", predictor.Name(), with.Duration.Value, without.Duration.Value, block.Values["duration"].Text)
		}
	}
	return ""
}

// relative is by how much a value differs from another, in percent.
func relative(fresh, old float64) float64 { return 100 * (fresh/old - 1) }

// tokens is V-TOKENS.
func (j *judge) tokens() {
	for _, block := range j.doc.Blocks {
		const came = "total_output_tokens_retokenized"
		if !block.Has("total_output_tokens", came) || block.Value("total_output_tokens") <= 0 {
			continue
		}
		if off := relative(block.Value(came), block.Value("total_output_tokens")); math.Abs(off) > 1 {
			severity := Caution
			if math.Abs(off) > 10 {
				severity = Unsupported
			}
			j.find(severity, block.LineOf(came), block.Name, fmt.Sprintf("%s tokens requested, %s retokenized", block.Values["total_output_tokens"].Text, block.Values[came].Text),
				fmt.Sprintf("%+.1f %%", off), "rates count what was requested, not what came")
		}
	}
	seen := map[[2]*document.Block]bool{}
	for _, pair := range j.doc.Pairs() {
		if seen[[2]*document.Block{pair.Old, pair.New}] || pair.Old == pair.New || pair.Old.Fitting() != pair.New.Fitting() {
			continue
		}
		seen[[2]*document.Block{pair.Old, pair.New}] = true
		j.checkOutputs(pair)
	}
}

// checkOutputs compares what two runs of one load wrote.
func (j *judge) checkOutputs(pair document.Pair) {
	old, fresh := pair.Old, pair.New
	const total, output, count = "total_token_throughput", "output_throughput", "total_output_tokens"
	if !old.Has(count, output) || !fresh.Has(count, output) || old.Value(count) == fresh.Value(count) {
		return
	}
	wrote := fmt.Sprintf("%s → %s tokens (%+.1f %%)", old.Values[count].Text, fresh.Values[count].Text, relative(fresh.Value(count), old.Value(count)))
	rates := fmt.Sprintf("output %s → %s tok/s (%+.1f %%)", old.Values[output].Text, fresh.Values[output].Text, relative(fresh.Value(output), old.Value(output)))
	where := "table row " + pair.Row.Name
	switch {
	case old.Has(total) && fresh.Has(total) && fresh.Value(total) > old.Value(total) && fresh.Value(output) < old.Value(output):
		j.find(Unsupported, pair.Row.Line, where, fmt.Sprintf("total %s → %s tok/s (%+.1f %%)", old.Values[total].Text, fresh.Values[total].Text, relative(fresh.Value(total), old.Value(total))),
			rates+", "+wrote, "the gain of the total is one of reading prompts: fewer tokens were written, and more slowly")
	case math.Abs(relative(fresh.Value(count), old.Value(count))) > 0.5:
		j.find(Caution, pair.Row.Line, where, wrote, rates, "the compared runs did not write the same: part of a gain in total tokens/s is a difference in work")
	}
}

// slower is V-SLOWER.
func (j *judge) slower() {
	for t := range j.doc.Tables {
		table := &j.doc.Tables[t]
		for r := range table.Rows {
			row := &table.Rows[r]
			for column := range row.Cells {
				j.checkSlower(table, row, column)
			}
		}
	}
}

// checkSlower looks in a cell that prints an improvement for figures that are worse.
func (j *judge) checkSlower(table *document.Table, row *document.Row, column int) {
	gain := -1
	for i := range row.Cells[column].Figures {
		figure := &row.Cells[column].Figures[i]
		if figure.Change == nil || figure.Metric == "" {
			continue
		}
		if base, ok := document.RowBase(table, row, column, figure.Label); ok && better(figure, &base) > 0 {
			gain = i
		}
	}
	if gain < 0 {
		return
	}
	for i := range row.Cells[column].Figures {
		figure := &row.Cells[column].Figures[i]
		base, ok := document.RowBase(table, row, column, figure.Label)
		if !ok || figure.Metric == "" || better(figure, &base) >= 0 {
			continue
		}
		j.find(Caution, row.Line, place(table, row), fmt.Sprintf("%s %s", row.Cells[column].Figures[gain].Label, row.Cells[column].Figures[gain].Change.Text),
			fmt.Sprintf("%s %s → %s (%+.1f %%)", figure.Label, base.Number.Text, figure.Number.Text, relative(figure.Number.Value*figure.Scale, base.Number.Value*base.Scale)), "this metric got worse in a row that is called an improvement")
	}
}

// better is the sign of by how much a figure is better than its base, beyond rounding.
func better(figure, base *document.TableFigure) int {
	fresh, old := document.Between(figure.Number.Span().Low*figure.Scale, figure.Number.Span().High*figure.Scale), document.Between(base.Number.Span().Low*base.Scale, base.Number.Span().High*base.Scale)
	sign := 0
	switch {
	case fresh.Low > old.High:
		sign = 1
	case fresh.High < old.Low:
		sign = -1
	}
	if document.IsTime(figure.Metric) {
		return -sign
	}
	return sign
}

// duplicates is V-DUP.
func (j *judge) duplicates() {
	// By all printed digits: two runs never agree in eight figures or more.
	groups := map[string][]*document.Block{}
	var order []string
	for _, block := range j.doc.Blocks {
		if len(block.Values) < 8 || !block.Has("duration") {
			continue // too little to be sure that it is the same run
		}
		keys := make([]string, 0, len(block.Values))
		for key, value := range block.Values {
			keys = append(keys, key+"="+value.Text)
		}
		sort.Strings(keys)
		key := strings.Join(keys, " ")
		if groups[key] == nil {
			order = append(order, key)
		}
		groups[key] = append(groups[key], block)
	}
	for _, key := range order {
		group := groups[key]
		var settings []string
		for _, b := range group {
			if text := b.SettingText(); text != "" && !slices.Contains(settings, text) {
				settings = append(settings, text)
			}
		}
		if len(group) > 1 && len(settings) > 1 {
			j.find(Unsupported, group[1].Line, group[1].Name, fmt.Sprintf("the block of line %d again, digit by digit", group[0].Line),
				"it stands under "+clip(strings.Join(settings, " and under ")), "one run has one setting: the other one was not measured")
		}
	}
}

// repeats is V-REPEAT.
func (j *judge) repeats() {
	type run struct {
		setting string
		load    [2]float64
	}
	// A block that is printed twice is one run.
	count := map[run]int{}
	seen := map[string]bool{}
	most := 0
	for _, block := range j.doc.Blocks {
		key := run{block.SettingText() + block.Section, block.Fitting()}
		if block.Server != nil {
			key.setting += block.Server.Text
		}
		identity := fmt.Sprint(key, block.Values["duration"].Text, block.Values["mean_ttft_ms"].Text)
		if !seen[identity] {
			seen[identity] = true
			count[key]++
			most = max(most, count[key])
		}
	}
	accepted, line := j.smallestGain()
	if len(j.doc.Blocks) < 2 || most >= 3 || line == 0 || j.hasIntervals() {
		return
	}
	rejected, about := j.largestRejected()
	follows := fmt.Sprintf("each setting was run once; %s is a gain", accepted)
	severity := Caution
	if about != "" {
		follows = fmt.Sprintf("each setting was run once; %+.2f %% (%s) is \"-\", %s is a gain", rejected, about, accepted)
	}
	if most == 2 {
		follows = strings.Replace(follows, "once", "at most twice", 1)
	}
	j.find(severity, line, "decisions", "gains from single runs", follows, "without repetitions nobody knows which differences are noise")
}

// hasIntervals reports whether a document prints intervals with its gains.
func (j *judge) hasIntervals() bool {
	for _, line := range j.doc.Lines {
		if intervalText.MatchString(line) {
			return true
		}
	}
	return false
}

// smallestGain is the smallest printed change in tables that is above 0, and its line.
func (j *judge) smallestGain() (string, int) {
	text, line, least := "", 0, math.Inf(1)
	look := func(c *document.Change, at int) {
		if c != nil && !c.Factor && c.Value.Value > 0 && c.Value.Value < least {
			text, line, least = c.Text, at, c.Value.Value
		}
	}
	for t := range j.doc.Tables {
		for r := range j.doc.Tables[t].Rows {
			row := &j.doc.Tables[t].Rows[r]
			for c := range row.Cells {
				for f := range row.Cells[c].Figures {
					look(row.Cells[c].Figures[f].Change, row.Line)
				}
				for i := range row.Cells[c].Changes {
					look(&row.Cells[c].Changes[i], row.Line)
				}
			}
		}
	}
	return text, line
}

// noise is up to which difference, in percent, a rejected option may have been rejected as
// noise rather than for its price.
const noise = 5

// largestRejected is the best gain of an option that a summary gives as "-": the best block
// of its section against the best of one load before it, and what the block is called.
func (j *judge) largestRejected() (gain float64, about string) {
	const metric = "total_token_throughput"
	for t := range j.doc.Tables {
		for r := range j.doc.Tables[t].Rows {
			row := &j.doc.Tables[t].Rows[r]
			if len(row.Cells) != 2 || strings.Trim(row.Cells[1].Text, " -–—") != "" || row.Cells[1].Text == "" {
				continue
			}
			var inside, before *document.Block
			for _, block := range j.doc.Blocks {
				if !block.Has(metric) || block.Server == nil {
					continue
				}
				// Sections are matched by the words of the option's name.
				switch {
				case sharesWords(block.Section, row.Name):
					if inside == nil || block.Value(metric) > inside.Value(metric) {
						inside = block
					}
				case inside == nil && (before == nil || block.Value(metric) > before.Value(metric)):
					before = block
				}
			}
			if inside == nil || before == nil || inside.Fitting() != before.Fitting() {
				continue
			}
			if difference := relative(inside.Value(metric), before.Value(metric)); difference > 0 && difference < noise && (about == "" || difference < gain) {
				gain, about = difference, inside.ShortName()
			}
		}
	}
	return gain, about
}

// sharesWords reports whether all words of an option's name, or all but general ones, stand
// in a heading.
func sharesWords(heading, option string) bool {
	heading = strings.ToLower(heading)
	shared := 0
	for _, word := range strings.FieldsFunc(strings.ToLower(option), func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') }) {
		if len(word) < 3 || word == "max" || word == "number" || word == "numbers" || word == "the" || word == "size" {
			continue
		}
		if !strings.Contains(heading, strings.TrimSuffix(word, "s")) {
			return false
		}
		shared++
	}
	return shared > 0
}
