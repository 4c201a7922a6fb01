package statement

// Sums: gains of several options that are added, and additions that a sentence prints.

import (
	"fmt"
	"math"
	"strings"

	"ossian/internal/lab/verify/document"
	"ossian/internal/lazyregexp"
)

var (
	totalBefore = lazyregexp.New(`(?i)(?:\btotal\w*|together|\bwith both\b|combined|\badd(?:s|ing)? up|altogether|\bin all\b|\boverall\b|\bsums?\b|cumulative\w*|insgesamt|zusammen|合计|总共|总计)[^0-9.;]{0,40}$`)
	totalAfter  = lazyregexp.New(`(?i)^ ?(?:[a-z]+ ){0,2}(?:in total|total|together|combined|overall|altogether)\b`)
	shareWords  = lazyregexp.New(`(?i)\b(?:takes?|accounts? for|share|breakdown|of (?:the|a|each) (?:step|time|total)|spends?|utili[sz]ation|traffic|requests)\b`)
	gainWords   = lazyregexp.New(`(?i)` + upWords + `|` + quickWords + `|` + downWords + `|\bgives?\b|\badds?\b|\bspeed`)
)

// checkSum looks in a sentence for gains of several options whose total is their sum.
func (c *checker) checkSum(s *sentence) {
	var parts []quantity
	for i := range s.quantities {
		q := s.quantities[i]
		if q.kind != percent || q.ranged {
			continue
		}
		total := totalBefore.MatchString(s.text[:q.start]) || totalAfter.MatchString(s.text[q.end:])
		if total && len(parts) >= 2 {
			c.checkAdded(s, parts, &q)
			return
		}
		parts = append(parts, q)
	}
}

// derived makes a total follow from the gains before it.
var derived = lazyregexp.New(`(?i)(?:\b(?:so|thus|hence|therefore|consequently|which (?:makes|gives|is|means)|adds? up|sums?)\b|=|⇒|=>)`)

// checkAdded compares a total with the sum and the product of its parts.
func (c *checker) checkAdded(s *sentence, parts []quantity, total *quantity) {
	if shareWords.MatchString(s.text) || !(gainWords.MatchString(s.text) || allSigned(parts)) {
		return
	}
	sum, product, less := document.Span{}, document.Between(1, 1), document.Between(1, 1)
	plainSum, plainProduct, plainLess := 0.0, 1.0, 1.0
	for i := range parts {
		value, plain := parts[i].span(), math.Abs(parts[i].number.Value)
		if parts[i].number.Value <= 0 && parts[i].signed {
			value = document.Between(-value.High, -value.Low)
		}
		sum = sum.Plus(value)
		product = product.Times(document.Between(1+value.Low/100, 1+value.High/100))
		less = less.Times(document.Between(1-math.Min(value.High, 100)/100, 1-math.Min(value.Low, 100)/100))
		plainSum, plainProduct, plainLess = plainSum+plain, plainProduct*(1+plain/100), plainLess*(1-math.Min(plain, 100)/100)
	}
	value := total.span()
	if value.Low > 99.5 && reducing.MatchString(s.text) {
		c.find(Claim, Certain, s, fmt.Sprintf("one after the other they leave %.0f %%, which is %.0f %% less", 100*plainLess, 100*(1-plainLess)), "reductions are multiplied, and never reach all")
		return
	}
	falling := reducing.MatchString(s.text) || (parts[0].signed && parts[0].number.Value < 0)
	gain, loss := document.Between(100*(product.Low-1), 100*(product.High-1)), document.Between(100*(1-less.High), 100*(1-less.Low))
	name, together := "product", 100*(plainProduct-1)
	if falling {
		name, together = "combination", -100*(1-plainLess)
	}
	// Printed exactly as the sum, a step of its last digit from the product or more.
	exact := math.Abs(math.Abs(total.number.Value)-plainSum) < 1e-6 && math.Abs(plainSum-math.Abs(together)) >= 2*total.number.Half
	switch {
	case exact, sum.Meets(value) && !gain.Meets(value) && !loss.Meets(value):
		c.find(Claim, Doubtful, s, fmt.Sprintf("%s is the sum of the %d gains; their %s is %+.1f %%", total.printed, len(parts), name, together), "gains of separate options do not add up: they are multiplied, or measured together")
	case value.Low > 1.02*math.Max(sum.High, gain.High):
		degree := Doubtful // options may help each other
		if derived.MatchString(s.text[parts[len(parts)-1].end:total.start]) {
			degree = Certain
		}
		c.find(Claim, degree, s, fmt.Sprintf("the sum of the %d gains is %s %%, their %s is %+.1f %%", len(parts), plainFigure(plainSum), name, together), "gains of separate options are multiplied, or measured together")
	}
}

// allSigned reports whether all figures have a sign.
func allSigned(all []quantity) bool {
	for i := range all {
		if !all[i].signed {
			return false
		}
	}
	return len(all) > 0
}

// checkSumOfSentences looks in a paragraph for gains and their total, a sentence each.
func (c *checker) checkSumOfSentences(p *paragraph) {
	const most = 6 // sentences
	if len(p.sentences) < 3 || len(p.sentences) > most {
		return
	}
	joined := sentence{line: p.line}
	for i := range p.sentences {
		if only := p.sentences[i].quantities; len(only) != 1 || only[0].kind != percent {
			return
		}
		joined.text += p.sentences[i].text + " "
	}
	joined.text = strings.TrimSpace(joined.text)
	joined.quantities = quantitiesIn(joined.text)
	c.checkSum(&joined)
}

var reducing = lazyregexp.New(`(?i)\b(?:cuts?|reduc\w+|lower\w*|sav\w+|decreas\w+|less)\b`)

var listedGain = lazyregexp.New(`^.{3,60}[:–—-] ?$`)

// checkLists looks for lists of gains, one an item, whose total behind them is their sum.
func (c *checker) checkLists(paragraphs []paragraph) {
	var parts []quantity
	for i := range paragraphs {
		p := &paragraphs[i]
		if len(p.sentences) != 1 {
			parts = nil
			continue
		}
		s := &p.sentences[0]
		only := len(s.quantities) == 1 && s.quantities[0].kind == percent && !s.quantities[0].ranged
		switch {
		case only && len(parts) >= 2 && (totalBefore.MatchString(s.text[:s.quantities[0].start]) || totalAfter.MatchString(s.text[s.quantities[0].end:])):
			joined := *s
			if !gainWords.MatchString(s.text) {
				joined.text += " (gain)"
			}
			c.checkAdded(&joined, parts, &s.quantities[0])
			parts = nil
		case only && p.list && listedGain.MatchString(strings.TrimSuffix(s.text[:s.quantities[0].start], "+")):
			parts = append(parts, s.quantities[0])
		default:
			parts = nil
		}
	}
}

var (
	plusBetween  = lazyregexp.New(`^ ?(?:\+|plus|und) (?:[a-z][A-Za-z -]{0,20} )?$|^ ?\+ ?$`)
	equalBetween = lazyregexp.New(`(?i)^ ?(?:=|is|are|makes?|gives?|equals?|for a total of|ergibt|sind) ?$|^ [a-z][a-z -]{1,30} = ?$`)
	goesOn       = lazyregexp.New(`^\)? ?(?:[-+−*/×·÷^]|x [0-9])`)
)

// checkAdditions calculates what a sentence adds: "1.2M + 0.3M = 1.5M tokens".
func (c *checker) checkAdditions(s *sentence) {
	for i := 0; i+2 < len(s.quantities); i++ {
		last := i
		for last+1 < len(s.quantities) && plusBetween.MatchString(s.text[s.quantities[last].end:s.quantities[last+1].start]) {
			last++
		}
		if last == i || last+1 >= len(s.quantities) {
			continue
		}
		terms, total := s.quantities[i:last+1], s.quantities[last+1]
		before := s.text[:terms[0].start]
		i = last
		if !equalBetween.MatchString(s.text[terms[len(terms)-1].end:total.start]) || operator.MatchString(before) || strings.HasSuffix(before, "(") || goesOn.MatchString(s.text[total.end:]) {
			continue
		}
		c.checkAddition(s, terms, &total)
	}
}

// checkAddition compares a printed sum with its terms.
func (c *checker) checkAddition(s *sentence, terms []quantity, total *quantity) {
	sum, plain, large := document.Span{}, 0.0, total.number.Value >= 10
	unit := *total
	if unit.kind == bare { // the unit of the last term is that of the sum
		unit = terms[len(terms)-1]
		adopt(total, &unit)
	}
	for i := range terms {
		term := terms[i]
		if term.kind == bare && unit.kind != bare {
			adopt(&term, &unit)
		}
		if term.kind != total.kind || term.isChange() || term.per != total.per || term.ranged || term.number.Value <= 0 {
			return
		}
		sum, plain, large = sum.Plus(term.span()), plain+term.number.Value, large || strings.Contains(term.number.Text, ".")
	}
	room := 0.01
	if total.kind == memory { // people write GB for GiB
		room = 0.08
	}
	if !large || total.isChange() || total.ranged || widen(sum, room).Meets(total.span()) {
		return
	}
	scale := total.unitScale * total.thousands
	c.find(Arithmetic, Certain, s, fmt.Sprintf("the sum is %s", strings.Replace(total.printed, total.number.Text, plainFigure(plain/scale), 1)), "beyond the rounding of the printed figures")
}
