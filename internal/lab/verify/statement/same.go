package statement

// One figure said twice in a sentence: in two units, as a time of day and a duration, as
// runs and their mean; and shares that no whole has.

import (
	"fmt"
	"math"
	"strings"

	"ossian/internal/lab/verify/document"
	"ossian/internal/lazyregexp"
)

var (
	bracketOpens = lazyregexp.New(`^ ?\((?:i\.e\.,? |= ?|~ ?|≈ ?|or |about )?$`)
	samePhrase   = lazyregexp.New(`(?i)^,? ?(?:i\.e\.|that is|which is|= |or in other words|d\.h\.|das sind),? ?(?:about |~|≈)?$`)
	saidAgain    = lazyregexp.New(`\((?:i\.e\.|= ?|≈ ?)`)
	bracketEnds  = lazyregexp.New(`^ ?\)`)
)

// checkEquivalents compares a figure with the same one in another unit: "0.5 s (500 ms)".
func (c *checker) checkEquivalents(s *sentence) {
	for i := 0; i+1 < len(s.quantities); i++ {
		first, second := perMinuteCount(s.text, s.quantities[i]), perMinuteCount(s.text, s.quantities[i+1])
		between := s.text[first.end:second.start]
		phrase := samePhrase.MatchString(between)
		bracket := bracketOpens.MatchString(between) && bracketEnds.MatchString(s.text[second.end:])
		if (!phrase && !bracket) || !convertible(&first, &second) {
			continue
		}
		said := bracket && saidAgain.MatchString(between)
		if !said && first.unit == second.unit && first.printed != second.printed && !strings.ContainsAny(first.printed+second.printed, "kKM") {
			continue // two figures of one unit are two figures
		}
		a, b := first.span(), second.span()
		if first.kind == memory { // people write GB for GiB
			a, b = widen(a, 0.08), widen(b, 0.08)
		}
		if widen(a, 0.005).Meets(b) {
			continue
		}
		base := map[kind]string{tokenRate: "tok/s", requestRate: "req/s", duration: "ms", memory: "GB", bandwidth: "GB/s", compute: "TFLOP/s"}[first.kind]
		c.find(Arithmetic, Certain, s, fmt.Sprintf("%s is %s %s, and %s is %s %s", first.printed, document.Figure(first.number.Value), base, second.printed, document.Figure(second.number.Value), base), "one figure in two units is one figure")
	}
}

// perMinuteWords turn a count into a rate: "2,400 requests per minute".
var perMinuteWords = lazyregexp.New(`(?i)^ ?(?:/|per|an?) ?(?:(sec(?:ond)?\b)|(min(?:ute)?\b)|(hour\b)|(day\b))`)

// perMinuteCount is a count with words that make it a rate as a rate.
func perMinuteCount(text string, q quantity) quantity {
	match := perMinuteWords.FindStringSubmatch(text[q.end:])
	if match == nil || (q.kind != requests && q.kind != tokens) {
		return q
	}
	scale := 1.0
	switch {
	case match[2] != "":
		scale = 1.0 / 60
	case match[3] != "":
		scale = 1.0 / 3600
	case match[4] != "":
		scale = 1.0 / 86400
	}
	q.kind = map[kind]kind{requests: requestRate, tokens: tokenRate}[q.kind]
	q.end += len(match[0])
	q.number, q.unit, q.printed = times(q.number, scale), q.unit+match[0], q.printed+match[0]
	return q
}

// convertible reports whether two figures can be one in two units.
func convertible(a, b *quantity) bool {
	switch a.kind {
	case tokenRate, requestRate, duration, memory, bandwidth, compute:
		return a.kind == b.kind && a.per == b.per && !a.ranged && !b.ranged && !a.least && !a.most && !b.least && !b.most && !a.signed && !b.signed
	}
	return false
}

var (
	lessens   = lazyregexp.New(`(?i)\b(?:reduc(?:es?|ed|ing)|cuts?|lower(?:s|ed)?|decreas(?:es?|ed)|sav(?:es?|ed|ing)|shrinks?|shorten(?:s|ed)?|drop(?:s|ped)?|fell|declin(?:es|ed))\b[^0-9.;]{0,40}$`)
	reduction = lazyregexp.New(`(?i)^ ?(?:reduction|less|lower|fewer|saved|savings?|decrease|shorter|smaller)\b`)
	wholeOf   = lazyregexp.New(`(?i)\b(?:MFU|MBU|HFU|cache hit rate|hit rate|acceptance rate|success rate|(?:model )?(?:flops?|bandwidth) utili[sz]ation|GPU utili[sz]ation|SM occupancy|memory bandwidth utili[sz]ation)\b[^0-9.;]{0,30}$`)
	ofPeak    = lazyregexp.New(`(?i)^ ?of (?:the )?(?:theoretical |peak |hardware )?(?:peak\b|memory bandwidth|bandwidth|roofline|peak flops|flops|HBM)`)
	improves  = lazyregexp.New(`(?i)\b(?:from|by|faster|improv\w+|increas\w+|relative)\b[^0-9.;]{0,20}$`)
)

// checkBounds looks for shares above the whole.
func (c *checker) checkBounds(s *sentence) {
	for i := range s.quantities {
		q := &s.quantities[i]
		if q.kind != percent || q.span().Low <= 100 || q.ranged {
			continue
		}
		before, after := s.text[:q.start], s.text[q.end:]
		switch {
		case (lessens.MatchString(before) && !strings.HasSuffix(strings.TrimSpace(before), "to") && !strings.HasSuffix(strings.TrimSpace(before), "from")) || reduction.MatchString(after):
			c.find(Percentage, Certain, s, fmt.Sprintf("%s less than all leaves less than nothing", q.printed), "a reduction is at most 100 %")
		case (wholeOf.MatchString(before) || ofPeak.MatchString(after)) && !improves.MatchString(before):
			c.find(Roof, Certain, s, q.printed+" of what there is", "a share is at most 100 %")
		}
	}
}

var clockRange = lazyregexp.New(`\b([0-9]{1,2}):([0-5][0-9])(?::([0-5][0-9]))?\s*(?:to|–|—|-|until|till|bis|→|and)\s*([0-9]{1,2}):([0-5][0-9])(?::([0-5][0-9]))?\b`)

// checkClock compares a duration in brackets with the times of day before it.
func (c *checker) checkClock(s *sentence) {
	match := clockRange.FindStringSubmatchIndex(s.text)
	if match == nil {
		return
	}
	value := func(group int) float64 {
		number, _ := document.ParseNumber("0" + document.Submatch(s.text, match, group))
		return number.Value
	}
	// Seconds that are not given may be any; a day may end in between.
	slack := 1.0
	if match[6] < 0 || match[12] < 0 {
		slack = 60
	}
	length := (value(4)-value(1))*3600 + (value(5)-value(2))*60 + value(6) - value(3)
	if length < 0 {
		length += 86400
	}
	for i := range s.quantities {
		q := &s.quantities[i]
		if q.kind != duration || q.start < match[1] || !bracketOpens.MatchString(s.text[match[1]:q.start]) {
			continue
		}
		if !(document.Between((length-slack)*1000, (length+slack)*1000)).Meets(widen(q.span(), 0.01)) {
			c.find(Arithmetic, Certain, s, fmt.Sprintf("from then to then are %s s", document.Figure(length)), "a duration is the difference of two times")
		}
		return
	}
}

var (
	runsText  = lazyregexp.New(`(?i)\b(?:runs?|trials?|repetitions?|repeats?|seeds?|measurements?)\b`)
	meanLater = lazyregexp.New(`(?i)(?:average|mean|avg\.?|Mittel\w*)(?: of| is|:| =|,)?(?: about)? ?$`)
	listComma = lazyregexp.New(`^ ?(?:,|,? and|,? und|;|/) ?$`)
)

// checkRuns compares a mean with the runs that a sentence lists.
func (c *checker) checkRuns(s *sentence) {
	if !runsText.MatchString(s.text) {
		return
	}
	for i := range s.quantities {
		q := &s.quantities[i]
		if i < 2 || !meanLater.MatchString(s.text[:q.start]) || q.isChange() {
			continue
		}
		// The list ends right before the mean, and goes back over commas.
		listed := []document.Number{s.quantities[i-1].number}
		first := s.quantities[i-1]
		for k := i - 2; k >= 0 && listComma.MatchString(s.text[s.quantities[k].end:s.quantities[k+1].start]); k-- {
			entry := s.quantities[k]
			if entry.kind == bare {
				adopt(&entry, &first)
			}
			if entry.kind != first.kind {
				break
			}
			listed = append(listed, entry.number)
		}
		mean := *q
		if mean.kind == bare {
			adopt(&mean, &first)
		}
		if len(listed) < 3 || mean.kind != first.kind || meanOf(listed, mean.number) {
			continue
		}
		c.find(Arithmetic, Certain, s, fmt.Sprintf("the mean of the %d runs is %s", len(listed), document.Figure(plainMean(listed))), "a mean is the sum by the count")
	}
}

// plainMean is the mean of figures.
func plainMean(listed []document.Number) float64 {
	sum := 0.0
	for _, number := range listed {
		sum += number.Value
	}
	return sum / float64(len(listed))
}

// meanOf reports whether a figure can be some mean of others: arithmetic, geometric, harmonic.
func meanOf(listed []document.Number, printed document.Number) bool {
	sum, logs, inverses, half := 0.0, 0.0, 0.0, 0.0
	for _, number := range listed {
		if number.Value <= 0 {
			return true // no rates
		}
		sum += number.Value
		logs += math.Log(number.Value)
		inverses += 1 / number.Value
		half += number.Half
	}
	count := float64(len(listed))
	for _, mean := range []float64{sum / count, math.Exp(logs / count), count / inverses} {
		if (document.Between(mean-half/count, mean+half/count)).Meets(printed.Span()) {
			return true
		}
	}
	return false
}

// An equation in words: "1,000 requests × 256 tokens = 256,000 tokens".
var equation = lazyregexp.New(`\b([0-9][0-9,]*(?:\.[0-9]+)?)( ?[A-Za-z/ ]{0,24}?)( x | ?[×*·÷] ?| / )([0-9][0-9,]*(?:\.[0-9]+)?)( ?[A-Za-z/ ]{0,24}?) ?(?:=| is | are | makes? | gives? | equals? )(?:~|≈|about |only )? ?([0-9][0-9,]*(?:\.[0-9]+)?)(k\b|K\b|M\b| ?%| ?[x×]| times|-)?`)

// The size of so many things each of which has a size that is said elsewhere.
var (
	bytesBehind = lazyregexp.New(`^ ?(?:[KMGT]i?)?B\b`)
	bytesWithin = lazyregexp.New(`(?i)\d ?(?:[kmgt]i?)?b\b|bytes?\b`)
)

// operator is what goes on with a longer equation.
var operator = lazyregexp.New(`(?:[-+*/×·÷=−^(.,0-9]|\bx) ?$|[-+*/×·÷=−] ?[A-Za-z$~≈]{1,12} ?$`)

// checkEquations calculates what a sentence calculates.
func (c *checker) checkEquations(s *sentence) {
	for _, at := range equation.FindAllStringSubmatchIndex(s.text, 5) {
		if operator.MatchString(s.text[:at[0]]) || (bytesBehind.MatchString(s.text[at[1]:]) && !bytesWithin.MatchString(s.text[at[0]:at[1]])) {
			continue // a longer one, or one with a size that is not printed
		}
		match := make([]string, 8)
		for i := range match {
			match[i] = strings.TrimSpace(document.Submatch(s.text, at, i))
		}
		left, okLeft := document.ParseNumber(match[1])
		right, okRight := document.ParseNumber(match[4])
		printed, ok := document.ParseNumber(match[6])
		if !okLeft || !okRight || !ok || left.Value <= 0 || right.Value <= 0 || printed.Value <= 0 || match[7] != "" {
			continue
		}
		left, right, printed = scaled(left, 1, false), scaled(right, 1, false), scaled(printed, 1, false)
		follows, plain := left.Span().Times(right.Span()), left.Value*right.Value
		if match[3] == "/" || match[3] == "÷" {
			follows, plain = left.Span().Over(right.Span()), left.Value/right.Value
		}
		// In another unit it is a power of ten apart, in minutes or gibibytes another factor.
		agree := false
		for _, unit := range []float64{1, 1e-9, 1e-6, 1e-3, 1e3, 1e6, 1e9, 60, 3600, 1.0 / 60, 1.0 / 3600, 8, 1.0 / 8, 100} {
			agree = agree || widen(document.Between(follows.Low*unit, follows.High*unit), 0.075).Meets(printed.Span())
		}
		if !agree {
			c.find(Arithmetic, Certain, s, fmt.Sprintf("%s %s %s = %s", match[1], match[3], match[4], plainFigure(plain)), "beyond the rounding of the printed figures")
		}
	}
}

var (
	slashedNames   = lazyregexp.New(`(?i)\b((?:p[0-9]{2}(?:\.9)?|median|min|max)(?: ?/ ?(?:p[0-9]{2}(?:\.9)?|median|min|max)){1,5})\b[^0-9.;]{0,40}?([0-9][0-9,]*(?:\.[0-9]+)?(?: ?/ ?[0-9][0-9,]*(?:\.[0-9]+)?){1,5}) ?(?:ms|s|seconds|µs)\b`)
	slashStatistic = map[string]int{"min": 0, "p25": 25, "p50": 50, "median": 50, "p75": 75, "p90": 90, "p95": 95, "p99": 99, "max": 1000}
)

// checkSlashed checks the order of "p50/p90/p99: 12/18/30 ms".
func (c *checker) checkSlashed(s *sentence) {
	for _, match := range slashedNames.FindAllStringSubmatch(s.text, 5) {
		names, figures := strings.Split(strings.ToLower(match[1]), "/"), strings.Split(match[2], "/")
		if len(names) != len(figures) {
			continue
		}
		rank, last := -1, document.Number{}
		for i := range names {
			value, ok := document.ParseNumber(figures[i])
			position, known := slashStatistic[strings.TrimSpace(names[i])]
			if !ok || !known || position <= rank {
				break // in no order that is known here
			}
			value = value.Rounded(false)
			if rank >= 0 && value.Span().High < last.Span().Low {
				c.find(Arithmetic, Certain, s, fmt.Sprintf("%s is %s, less than %s", strings.TrimSpace(names[i]), value.Text, last.Text), "a higher percentile is never less than a lower one")
				break
			}
			rank, last = position, value
		}
	}
}
