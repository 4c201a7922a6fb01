package statement

// What follows from the facts of one run for others of them: rates from counts and times,
// totals from parts, statistics in their order, Little's law, prices.

import (
	"fmt"
	"math"
	"strings"

	"ossian/internal/lab/verify/document"
	"ossian/internal/lazyregexp"
)

// fail reports that a fact is not what others give.
func (c *checker) fail(f *facts, rule Rule, degree Degree, printed, follows, why string) {
	line := f.line
	if f.place == "sentence" {
		printed = f.text
	}
	c.add(Contradiction{rule, degree, line, f.place, printed, follows, why})
}

// plainFigure writes what printed figures give as they stand: the middle of all that they can
// mean lies beside their product.
func plainFigure(value float64) string { return document.Figure(math.Round(1e6*value) / 1e6) }

// asked are words that say that a rate was offered, not reached.
var (
	reached   = lazyregexp.New(`(?i)sustain|serv(?:ed|es|ing)|achiev|complet|process|handl|throughput|deliver|reach|finish|did\b`)
	twoRuns   = lazyregexp.New(`(?i)\b(?:vs\.?|versus|compared|instead of|than|up from|down from|respectively|whereas|while|both|previously|before|earlier)\b|→|->`)
	oneStream = lazyregexp.New(`(?i)\bbatch(?:[- ]size)?(?: of)? ?=? ?(?:1|one)\b|\bbs ?=? ?1\b|(?:single|one)[- ](?:user|stream|request|sequence|client)|concurrency(?: of)? ?[=:]? ?(?:1|one)\b|one (?:request|user|stream) at a time|batch[- ]1\b|\bc ?= ?1\b|a single (?:user|stream|request)`)
)

// severalStreams goes on with a list of which one is the first.
var severalStreams = lazyregexp.New(`^ ?(?:/|,|–|—|-|to\b|and\b|or\b|through\b) ?[0-9]`)

// singleStream reports whether a text is about one request at a time, and no list of loads.
func singleStream(text string) bool {
	at := oneStream.FindStringIndex(text)
	return at != nil && !severalStreams.MatchString(text[at[1]:])
}

// checkSentenceFacts checks a sentence that is about one run.
func (c *checker) checkSentenceFacts(s *sentence) {
	c.checkAccepted(s)
	if len(s.quantities) < 2 {
		return
	}
	if twoRuns.MatchString(s.text) {
		return
	}
	f := factsIn(s)
	c.checkOrder(&f)
	c.checkRange(s)
	c.checkIdentities(&f)
}

// checkIdentities applies everything that follows within a set.
func (c *checker) checkIdentities(f *facts) {
	c.checkRate(f, requestSpeed, requestCount)
	c.checkRate(f, outputSpeed, outputTotal)
	c.checkRate(f, inputSpeed, inputTotal)
	if !f.has(outputSpeed) && !f.has(inputTotal) {
		c.checkRate(f, anySpeed, outputTotal)
	}
	c.checkTotals(f)
	c.checkDevices(f)
	c.checkUsers(f)
	c.checkLengths(f)
	c.checkLittle(f)
	c.checkWhole(f)
	c.checkInverse(f)
	c.checkPrice(f)
}

// checkRate compares a rate with its count by the duration. A rate may be below that of all
// requests where some failed, so that only one above is certain.
func (c *checker) checkRate(f *facts, rate, count role) {
	speed, okSpeed := f.one(rate)
	number, okCount := f.one(count)
	time, okTime := f.one(runTime)
	if !okSpeed || !okCount || !okTime || time.number.Value <= 0 {
		return
	}
	follows := number.number.Span().Over(times(time.number, 1e-3).Span())
	// Windows and warm-up differ by little.
	if follows.Meets(widen(speed.number.Span(), 0.01)) {
		return
	}
	degree := Certain
	if speed.number.Value < follows.Low && !servedWords.MatchString(f.text) {
		degree = Doubtful
	}
	c.fail(f, Arithmetic, degree, string(rate)+" "+speed.printed, fmt.Sprintf("%s %s in %s is %s", number.number.Text, count, time.printed, plainFigure(1000*number.number.Value/time.number.Value)), "a rate is a count by the time that it took")
}

var servedWords = lazyregexp.New(`(?i)successful|completed|served|finished|generated|produced`)

// widen is a span with a share more on both sides.
func widen(span document.Span, share float64) document.Span {
	return document.Between(span.Low-share*math.Abs(span.Low), span.High+share*math.Abs(span.High))
}

// checkTotals compares the total rate of tokens with its parts.
func (c *checker) checkTotals(f *facts) {
	total, okTotal := f.one(totalSpeed)
	input, okInput := f.one(inputSpeed)
	output, okOutput := f.one(outputSpeed)
	if !okTotal || !okOutput {
		return
	}
	if okInput {
		sum := input.number.Span().Plus(output.number.Span())
		if !sum.Meets(widen(total.number.Span(), 0.01)) {
			c.fail(f, Arithmetic, Certain, "total "+total.printed, fmt.Sprintf("%s + %s = %s", input.number.Text, output.number.Text, document.Figure(sum.Middle())), "a total is the sum of its parts")
		}
		return
	}
	if output.number.Span().Low > 1.01*total.number.Span().High {
		c.fail(f, Arithmetic, Certain, "output "+output.printed, "the total is "+total.printed, "a part is not more than its total")
	}
}

// checkDevices compares a rate per device with that of all.
func (c *checker) checkDevices(f *facts) {
	each, okEach := f.one(deviceSpeed)
	count, okCount := f.one(deviceCount)
	if !okEach || !okCount || count.number.Value < 1 {
		return
	}
	var all fact
	found := 0
	for _, wanted := range []role{anySpeed, outputSpeed, totalSpeed} {
		if candidate, ok := f.one(wanted); ok {
			all = candidate
			found++
		}
	}
	if found != 1 {
		return
	}
	exact := count.number.Value
	sum := document.Between(each.number.Span().Low*exact, each.number.Span().High*exact)
	if sum.Meets(widen(all.number.Span(), 0.02)) {
		return
	}
	degree := Certain
	if f.place != "sentence" { // in a table other devices may take part, as those that read prompts
		degree = Doubtful
	}
	c.fail(f, Arithmetic, degree, all.printed+" and "+each.printed+" per device", fmt.Sprintf("%s × %s = %s", count.number.Text, each.number.Text, plainFigure(exact*each.number.Value)), "all devices together are their number times one")
}

// checkUsers compares a rate of one user with that of all: users wait, so that all together
// get at most their number times the rate of one.
func (c *checker) checkUsers(f *facts) {
	each, okEach := f.one(userSpeed)
	count, okCount := f.one(userCount)
	all, okAll := f.one(outputSpeed)
	if !okAll && !f.has(outputSpeed) {
		all, okAll = f.one(anySpeed)
	}
	if !okEach || !okCount || !okAll || f.has(totalSpeed) {
		return
	}
	const spread = 1.1 // means of rates and of times differ
	most := each.number.Span().High * count.number.Span().High
	least := each.number.Span().Low * count.number.Value
	degree := Certain
	switch {
	case all.number.Span().Low > spread*most:
		if all.role == anySpeed && f.place != "sentence" {
			degree = Doubtful // prompts may be counted
		}
	case all.sum && all.number.Span().High < 0.85*least:
		// Rates of answers leave out the wait for the first token, unless the total is drawn from them.
		if all.number.Span().High >= 0.8*least || !drawnTotal.MatchString(f.text) {
			degree = Doubtful
		}
	default:
		return
	}
	c.fail(f, Arithmetic, degree, all.printed, fmt.Sprintf("%s × %s = %s", count.number.Text, each.number.Text, document.Figure(count.number.Value*each.number.Value)), "all users together get at most their number times the rate of one")
}

// drawnTotal makes a total the sum of what stands before it.
var drawnTotal = lazyregexp.New(`(?i)(?:\b(?:for|so|thus|hence|therefore|giving|making|yielding|i\.e\.|which (?:is|makes|gives))|=) (?:(?:a|an|the|that|is|it|makes|gives|combined|aggregate|about) )*(?:total|[0-9][0-9,.]*k? (?:(?:output )?(?:tok|tokens)(?:/s| per second) )?(?:in total|total|together|combined|altogether))`)

// checkLengths compares the tokens of all requests with their number times the length of one.
func (c *checker) checkLengths(f *facts) {
	count, okCount := f.one(requestCount)
	total, okTotal := f.one(outputTotal)
	length, okLength := f.one(outputLength)
	if !okCount || !okTotal || !okLength || length.statistic == "min" {
		return
	}
	product := count.number.Span().Times(length.number.Span())
	switch {
	case product.Meets(widen(total.number.Span(), 0.01)):
	case total.number.Span().Low > product.High || exactLength.MatchString(f.text):
		c.fail(f, Arithmetic, Certain, total.printed, fmt.Sprintf("%s × %s = %s", count.number.Text, length.number.Text, plainFigure(count.number.Value*length.number.Value)), "all requests together have their number times the tokens of one")
	}
}

var exactLength = lazyregexp.New(`(?i)\bexactly\b|\bfixed\b|ignore[-_]eos`)

// checkLittle applies Little's law: requests at the same time are their rate times their
// mean time, and never more than the limit.
func (c *checker) checkLittle(f *facts) {
	rate, okRate := f.one(requestSpeed)
	limit, okLimit := f.one(userCount)
	latency, okLatency := f.one(wholeRequest, "mean", "")
	if !okRate || !okLimit || !okLatency || (latency.statistic == "" && f.place != "sentence") {
		return
	}
	inside := rate.number.Span().Times(times(latency.number, 1e-3).Span())
	if inside.Low <= 1.05*limit.number.Span().High {
		return
	}
	degree := Certain
	if f.place == "sentence" && (!reached.MatchString(f.text) || latency.statistic == "") {
		degree = Doubtful // the rate may be the one that was offered, the time a percentile
	}
	c.fail(f, Little, degree, string(requestSpeed)+" "+rate.printed, fmt.Sprintf("%s × %s is %s requests at once, there were at most %s", rate.printed, latency.printed, plainFigure(rate.number.Value*latency.number.Value/1000), limit.number.Text), "Little's law: rate × mean time")
}

// checkWhole compares the latency of a whole request with those of its parts.
func (c *checker) checkWhole(f *facts) {
	whole, okWhole := f.one(wholeRequest, "mean", "")
	first, okFirst := f.one(firstToken, "mean", "")
	if !okWhole || !okFirst || (f.place == "sentence" && !wholeWords.MatchString(f.text)) {
		return
	}
	if whole.number.Span().High < first.number.Span().Low && whole.statistic == first.statistic {
		c.fail(f, Arithmetic, Certain, "E2E "+whole.printed, "TTFT is "+first.printed, "the first token comes before the last")
		return
	}
	gap, okGap := f.one(perToken, "mean", "")
	if !okGap && !f.has(perToken) {
		gap, okGap = f.one(betweenGaps, "mean", "")
	}
	length, okLength := f.one(outputLength, "mean", "")
	if !okGap || !okLength || length.number.Value < 2 {
		return
	}
	n := length.number.Span()
	follows := first.number.Span().Plus(gap.number.Span().Times(document.Between(n.Low-1, n.High)))
	// Means of products are no products of means where answers differ in length.
	if widen(follows, 0.1).Meets(whole.number.Span()) {
		return
	}
	degree := Certain
	if f.place != "sentence" {
		degree = Doubtful
	}
	c.fail(f, Arithmetic, degree, "E2E "+whole.printed, fmt.Sprintf("%s + %s × (%s − 1) is %s ms", first.printed, gap.printed, length.number.Text, document.Figure(math.Round(first.number.Value+gap.number.Value*(length.number.Value-1)))), "a request takes its first token and the gaps to all others")
}

var wholeWords = lazyregexp.New(`(?i)e2e|end[- ]to[- ]end|request latency|total latency`)

// checkInverse compares one stream's rate with its time per token.
func (c *checker) checkInverse(f *facts) {
	gap, okGap := f.one(perToken, "mean", "")
	if !okGap && !f.has(perToken) {
		gap, okGap = f.one(betweenGaps, "mean", "")
	}
	if !okGap || gap.number.Value <= 0 {
		return
	}
	single := f.place == "sentence" && singleStream(f.text)
	speed, okSpeed := f.one(userSpeed)
	if count, ok := f.one(userCount); ok && count.number.Value == 1 {
		single = true
	}
	if !okSpeed && single {
		if speed, okSpeed = f.one(outputSpeed); !okSpeed && !f.has(totalSpeed) {
			speed, okSpeed = f.one(anySpeed)
		}
	}
	// Users differ, and a mean of rates is above the rate of a mean.
	spread := 1.3
	if single {
		spread = 1.05
	}
	if !okSpeed {
		return
	}
	bound := 1000 / (gap.number.Value - gap.number.Half)
	if gap.number.Value > gap.number.Half && speed.number.Span().Low > spread*bound {
		c.fail(f, Arithmetic, Certain, speed.printed, fmt.Sprintf("a token in %s is %s tok/s", gap.printed, document.Figure(1000/gap.number.Value)), "a stream gives one token per time of a token")
	}
}

// checkPrice compares a price per million tokens with that of an hour.
func (c *checker) checkPrice(f *facts) {
	hour, okHour := f.one(price)
	million, okMillion := f.one(millionPrice)
	if !okHour || !okMillion {
		return
	}
	var spans []document.Span
	nominal := 0.0
	for i := range f.all {
		speed := &f.all[i]
		switch speed.role {
		case anySpeed, outputSpeed, inputSpeed, totalSpeed, deviceSpeed:
			spans = append(spans, hour.number.Span().Over(speed.number.Span()))
			nominal = hour.number.Value / speed.number.Value
		}
	}
	counts, several := []float64{1}, []float64(nil)
	if match := numberOfDevices.FindStringSubmatch(f.text); match != nil {
		counts = append(counts, wordNumbers[strings.ToLower(match[1])])
	} else if hour.each { // of how many the rate is may be said elsewhere
		several = []float64{2, 4, 8, 16}
	}
	for i := range f.all {
		if f.all[i].role == deviceCount {
			counts = append(counts, f.all[i].number.Value, 1/f.all[i].number.Value)
		}
	}
	if len(spans) != 1 {
		return
	}
	for _, count := range counts {
		per := document.Between(spans[0].Low*count*1e6/3600, spans[0].High*count*1e6/3600)
		if widen(per, 0.03).Meets(million.number.Span()) {
			return
		}
	}
	degree := Certain
	for _, count := range several {
		if per := document.Between(spans[0].Low*count*1e6/3600, spans[0].High*count*1e6/3600); widen(per, 0.03).Meets(million.number.Span()) {
			degree = Doubtful
		}
	}
	c.fail(f, Arithmetic, degree, million.printed+" per million tokens", fmt.Sprintf("%s an hour at that rate is %s%.3g per million tokens", hour.printed, currencyOf(hour.printed), nominal*1e6/3600), "an hour has 3,600 seconds")
}

// Numbers of devices in words.
var (
	numberOfDevices = lazyregexp.New(`(?i)\b(two|three|four|six|eight|sixteen) (?:[A-Za-z0-9-]+ )?(?:gpus|cards|devices|accelerators|[a-z]{1,3}[0-9]{2,4}s)\b`)
	wordNumbers     = map[string]float64{"two": 2, "three": 3, "four": 4, "six": 6, "eight": 8, "sixteen": 16}
)

// shares are how many of all values are at most a percentile.
var shares = map[string]float64{"p25": 0.25, "median": 0.5, "p75": 0.75, "p90": 0.9, "p95": 0.95, "p99": 0.99, "p99.9": 0.999}

// ordered are the statistics of which each is at most the next.
var ordered = []string{"min", "p25", "median", "p75", "p90", "p95", "p99", "p99.9", "max"}

// checkOrder compares the statistics of each latency with each other.
func (c *checker) checkOrder(f *facts) {
	for _, wanted := range []role{firstToken, perToken, betweenGaps, wholeRequest, otherTime} {
		last := fact{}
		for _, statistic := range ordered {
			found, ok := f.one(wanted, statistic)
			if !ok {
				continue
			}
			if last.statistic != "" && found.number.Span().High < last.number.Span().Low {
				c.fail(f, Arithmetic, Certain, fmt.Sprintf("%s %s %s", statistic, wanted, found.printed), fmt.Sprintf("%s is %s", last.statistic, last.printed), "a higher percentile is never less than a lower one")
				break
			}
			last = found
		}
		c.checkMean(f, wanted)
	}
}

// checkMean compares a mean with the statistics around it: it lies between the least and the
// greatest value, and a share of values that are at least so much gives it that share of it.
func (c *checker) checkMean(f *facts, wanted role) {
	mean, ok := f.one(wanted, "mean")
	if !ok {
		return
	}
	if most, ok := f.one(wanted, "max"); ok && mean.number.Span().Low > most.number.Span().High {
		c.fail(f, Arithmetic, Certain, fmt.Sprintf("mean %s %s", wanted, mean.printed), "max is "+most.printed, "a mean is never above the greatest value")
		return
	}
	if least, ok := f.one(wanted, "min"); ok && mean.number.Span().High < least.number.Span().Low {
		c.fail(f, Arithmetic, Certain, fmt.Sprintf("mean %s %s", wanted, mean.printed), "min is "+least.printed, "a mean is never below the least value")
		return
	}
	for _, statistic := range ordered {
		found, ok := f.one(wanted, statistic)
		if share := shares[statistic]; ok && share > 0 && mean.number.Span().High < 0.98*(1-share)*found.number.Span().Low {
			c.fail(f, Arithmetic, Certain, fmt.Sprintf("mean %s %s", wanted, mean.printed), fmt.Sprintf("%s is %s", statistic, found.printed),
				fmt.Sprintf("%.3g %% of all values are at least that, so the mean is at least %.3g %% of it", 100*(1-share), 100*(1-share)))
			return
		}
	}
}

var (
	rangedText   = lazyregexp.New(`(?i)\b(?:rang(?:ed|es|ing) (?:from|between)|between|varied (?:from|between))\b`)
	averageAfter = lazyregexp.New(`(?i)\b(?:average|mean|median|avg)\b`)
)

// checkRange compares a mean with the range that is said with it: "ranged from 10 to 20 ms
// with an average of 25 ms".
func (c *checker) checkRange(s *sentence) {
	at := rangedText.FindStringIndex(s.text)
	if at == nil {
		return
	}
	var same []quantity
	for _, q := range s.quantities {
		if q.start > at[1] && !q.isChange() {
			same = append(same, q)
		}
	}
	if len(same) != 3 {
		return
	}
	low, high, mean := same[0], same[1], same[2]
	if low.kind == bare {
		adopt(&low, &high)
	}
	between := s.text[high.end:mean.start]
	if low.kind != high.kind || high.kind != mean.kind || !averageAfter.MatchString(between) || (latencyOf(between) != "" && latencyOf(between) != latencyOf(s.text[:low.start])) || low.number.Value > high.number.Value {
		return
	}
	if mean.span().Low > high.span().High || mean.span().High < low.span().Low {
		c.find(Arithmetic, Certain, s, fmt.Sprintf("%s is outside of %s to %s", mean.printed, low.printed, high.printed), "a mean lies between the least and the greatest value")
	}
}

var (
	draftTokens    = lazyregexp.New(`(?i)\b([0-9]{1,2}) (?:speculative|draft(?:ed)?) tokens\b|num[-_]speculative[-_]tokens["']?\s*[=: ]\s*([0-9]{1,2})\b|speculating ([0-9]{1,2}) tokens`)
	acceptedLength = lazyregexp.New(`(?i)\b(?:acceptance|accepted|accept) length(?: of| is|:| =)?(?: about)? ([0-9]+(?:\.[0-9]+)?)`)
)

// checkAccepted compares the tokens that a step keeps with those that it drafts and one more.
func (c *checker) checkAccepted(s *sentence) {
	drafted, accepted := draftTokens.FindStringSubmatch(s.text), acceptedLength.FindStringSubmatch(s.text)
	if drafted == nil || accepted == nil || len(draftTokens.FindAllString(s.text, 3)) > 1 {
		return
	}
	most, ok := document.ParseNumber(strings.Join(drafted[1:], ""))
	length, okLength := document.ParseNumber(accepted[1])
	if ok && okLength && length.Value > most.Value+1 {
		c.find(Arithmetic, Certain, s, fmt.Sprintf("a step with %s drafted tokens keeps at most %.0f", most.Text, most.Value+1), "all that were drafted, and the one that the model adds")
	}
}
