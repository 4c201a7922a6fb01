package verify

// V-CLAIM: gains that nothing carries, that contradict each other, or that cannot be those
// of the whole.

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"ossian/internal/lab/verify/document"
	"ossian/internal/lazyregexp"
)

// claimed is V-CLAIM.
func (j *judge) claimed() {
	j.checkEffects()
	j.checkProduct()
	j.checkParts()
	j.checkRatings()
	j.checkStatuses()
	j.checkUnmeasured()
}

// gainText writes a gain as percentages.
func gainText(gain document.Span) string {
	low, high := fmt.Sprintf("%+.0f", 100*(gain.Low-1)), fmt.Sprintf("%+.0f", 100*(gain.High-1))
	if low == high {
		return low + " %"
	}
	return low + "…" + high + " %"
}

// apart is by how much two gains must differ to be two: roundings of ranges are coarse.
const apart = 0.05

// checkEffects looks for an option with two effects: in two tables, or in two kinds of
// places. Items of one list are of different things.
func (j *judge) checkEffects() {
	claims := j.doc.Claims
	reported := map[string]bool{}
	for i := range claims {
		for k := i + 1; k < len(claims) && k < i+500; k++ {
			said, other := &claims[i], &claims[k]
			if said.Part != "" || other.Part != "" || said.Conditional || other.Conditional || !document.SameOption(said.Option, other.Option) ||
				otherSetting(said.Name, other.Name) || (said.Source == other.Source && said.Source != "table") {
				continue
			}
			if said.Gain.Low <= other.Gain.High+apart && other.Gain.Low <= said.Gain.High+apart {
				continue
			}
			key := shorter(said.Option, other.Option)
			if reported[key] {
				continue
			}
			reported[key] = true
			// The chain is what a table or a list is held against.
			if said.Source == "chain" {
				said, other = other, said
			}
			where := "elsewhere"
			if other.Source == "chain" {
				where = "in the breakdown"
			}
			j.find(Unsupported, said.Line, said.Name, fmt.Sprintf("%q (%s)", said.Text, gainText(said.Gain)), fmt.Sprintf("%s, line %d, it is %s (%s)", where, other.Line, gainText(other.Gain), other.Text),
				"one option has two effects")
		}
	}
}

// flagValue is a flag with its value, as reports name settings by them.
var flagValue = lazyregexp.New(`[A-Za-z][A-Za-z0-9_.-]*=[^\s` + "`" + `|]+`)

// otherSetting reports whether two names are of settings that differ in their flags: an option at another
// value, or beside others, may well do something else.
func otherSetting(a, b string) bool {
	first, second := flagValue.FindAllString(a, -1), flagValue.FindAllString(b, -1)
	slices.Sort(first)
	slices.Sort(second)
	return len(first) > 0 && len(second) > 0 && !slices.Equal(first, second)
}

// shorter is the shorter of two texts.
func shorter(a, b string) string {
	if len(a) < len(b) {
		return a
	}
	return b
}

// checkProduct multiplies the gains of a table and compares the product with the total that
// is printed.
func (j *judge) checkProduct() {
	// Only what is on, and on for every request, is part of the total.
	product, factors := document.Between(1, 1), 0
	line := 0
	for i := range j.doc.Claims {
		claim := &j.doc.Claims[i]
		if claim.Source != "table" || claim.Off || claim.Conditional || strings.Contains(claim.Option, "total") || strings.Contains(claim.Option, "combined") || strings.Contains(claim.Option, "overall") {
			continue
		}
		product = product.Times(claim.Gain)
		factors++
		line = claim.Line
	}
	if factors < 2 {
		return
	}
	for i := range j.doc.Claims {
		c := &j.doc.Claims[i]
		if c.Source == "table" && (strings.Contains(c.Option, "total") || strings.Contains(c.Option, "combined") || strings.Contains(c.Option, "overall")) && !c.Gain.Meets(document.Between(product.Low*0.98, product.High*1.02)) {
			j.find(Unsupported, c.Line, c.Name, c.Text, fmt.Sprintf("the product of the %d listed factors is %s", factors, gainText(product)), "gains are multiplied, or measured together")
		}
	}
	for _, chain := range j.doc.Chains {
		base, last := chain[0], chain[0]
		for _, step := range chain {
			if !step.Potential {
				last = step
			}
		}
		follows := product.Times(base.Rate)
		if last.Line == base.Line || follows.Meets(last.Rate) {
			continue
		}
		total := j.doc.CurrentRate(last)
		j.find(Unsupported, last.Line, last.Name, fmt.Sprintf("%s after %d options, gains in the table up to line %d", last.Printed, len(chain)-1, line),
			fmt.Sprintf("the product of the %d listed factors from %s is %.0f–%.0f, not %s", factors, base.Printed, follows.Low, follows.High, total), "a chain of gains must lead to its total")
	}
}

// checkParts looks for the speed-up of a part that is claimed for the whole. If a part with
// share s of the time becomes k times as fast, the whole becomes g times as fast with
// 1 − 1/g = s (1 − 1/k), so s must be at least (1 − 1/g)/(1 − 1/k) (lab.md 7).
func (j *judge) checkParts() {
	for i := range j.doc.Claims {
		part := &j.doc.Claims[i]
		if part.Part == "" || part.Gain.Low <= 1 {
			continue
		}
		for k := range j.doc.Claims {
			whole := &j.doc.Claims[k]
			if k == i || whole.Part != "" || whole.Gain.Low <= 1 || !document.SameOption(part.Option, whole.Option) {
				continue
			}
			// The smallest share goes with the least gain of the whole and the greatest of the part.
			least := (1 - 1/whole.Gain.Low) / (1 - 1/part.Gain.High)
			most := math.Min(1, (1-1/whole.Gain.High)/(1-1/part.Gain.Low))
			if least < 0.3 {
				continue // a share that such a part may have
			}
			share := fmt.Sprintf("%.0f–%.0f %%", 100*math.Min(least, 1), 100*most)
			if least >= 1 {
				share = "more than 100 %"
			}
			why := "(1 − 1/g)/(1 − 1/k) of the time must be that part's"
			if strings.HasPrefix(part.Part, "sampling") {
				why += "; a kernel for top-p and top-k acts on requests with these alone"
			}
			j.find(Unsupported, part.Line, part.Name, fmt.Sprintf("%q, and of the whole %q (line %d)", part.Text, whole.Text, whole.Line),
				fmt.Sprintf("that needs %s to be %s of a step", part.Part, share), why)
			break
		}
	}
}

var (
	ratingText = lazyregexp.New(`(?i)\brating\b|[★⭐]{2,}|\b[0-9]{1,3}\s?% optimi[sz]ed\b|\b[0-9](?:\.[0-9])?/10\b`)
	praiseText = lazyregexp.New(`(?i)\b(?:world-class|exceptional performance|excellent performance)\b`)
)

// checkRatings looks for judgements without a criterion, and says what could be said.
func (j *judge) checkRatings() {
	verdict := ""
	for i, raw := range j.doc.Lines {
		if len(raw) > maxSentence || len(j.findings) >= maxFindings {
			continue
		}
		line := document.Plain(raw)
		rating := ratingText.MatchString(line)
		if !rating && !praiseText.MatchString(line) {
			continue
		}
		if verdict == "" {
			verdict = j.roofline()
		}
		severity := Unsupported
		if !rating {
			severity = Info
		}
		follows := "no criterion is given"
		if verdict != "" {
			follows += "; " + verdict
		}
		j.find(severity, i+1, "rating", clip(line), follows, "a share needs a whole: of a bound, or of a measured best")
	}
}

// Words for states that say that something is there, and those that say that it is used.
var (
	installedWords = lazyregexp.New(`(?i)\b(?:installed|available|present|supported)\b`)
	notInstalled   = lazyregexp.New(`(?i)\bnot (?:installed|available|present|supported)\b`)
	usedWords      = lazyregexp.New(`(?i)\b(?:active|enabled|in use|used|captured|running|on)\b`)
)

// checkStatuses looks for options that are counted as used because they are installed.
func (j *judge) checkStatuses() {
	devices := document.DevicesIn(j.doc.HeadText())
	for _, status := range j.doc.Statuses {
		if !installedWords.MatchString(status.Text) || notInstalled.MatchString(status.Text) || usedWords.MatchString(status.Text) {
			continue
		}
		why := "installed is not used: a metric, a flag or a line of the start log would show it"
		if model, ok := j.doc.Model(); ok && model.Family == "gptoss" && strings.Contains(status.Option, "xformers") {
			why = "installed is not used: xformers has no attention with sinks, which this model needs"
			for _, device := range devices {
				if device.Text == "RTX PRO 6000" {
					why += "; this card takes Triton attention and Marlin (vllm#40153)"
				}
			}
		}
		j.find(Unsupported, status.Line, status.Name, "status: "+status.Text, "nothing shows that it is used", why)
	}
}

// checkUnmeasured reports gains in documents that hold no measurement.
func (j *judge) checkUnmeasured() {
	if len(j.doc.Blocks) > 0 || len(j.doc.Claims) == 0 || j.hasIntervals() {
		return
	}
	for _, t := range j.doc.Tables {
		for _, r := range t.Rows {
			for _, c := range r.Cells {
				for _, f := range c.Figures {
					if f.Change != nil && f.Metric != "" {
						return // figures with their changes: measured, if without blocks
					}
				}
			}
		}
	}
	seen := map[string]bool{}
	for i := range j.doc.Claims {
		claim := &j.doc.Claims[i]
		if seen[claim.Option] || claim.Source == "chain" {
			continue
		}
		seen[claim.Option] = true
		j.find(Unsupported, claim.Line, claim.Name, clip(claim.Text), "no measurement, no workload and no interval in the document", "a gain is that of one setting over another under one load")
	}
}
