package statement

// Gains in sentences against the two figures that they are of: "from 100 to 120, a 20 % gain",
// "3x faster (210 vs 70 tok/s)", "halved from 200 to 100 ms".

import (
	"fmt"
	"math"
	"strings"

	"ossian/internal/lab/verify/document"
	"ossian/internal/lazyregexp"
)

// A pair is two figures of one thing that a sentence compares.
type pair struct {
	old, fresh quantity
	start, end int
	directed   bool // which is the old one is said
}

// text writes a pair: without units where both have the same.
func (p *pair) text() string {
	if p.old.unitScale != p.fresh.unitScale {
		return p.old.printed + " → " + p.fresh.printed
	}
	return p.old.short() + " → " + p.fresh.short()
}

// A direction is what the words beside a change say.
type direction int

const (
	unsaid direction = iota
	upward
	downward
	quicker // faster, better: of a time and of a rate
)

// A gain is a change that a sentence prints, as a percentage or as a factor.
type gain struct {
	quantity
	direction direction
	percentOf bool // "120 % of": a ratio, not a difference
	share     bool // "efficiency", per device
}

var (
	arrowBetween  = lazyregexp.New(`(?i)^[^0-9]{0,16}?(?:→|->|-->|=>|⇒)[^0-9]{0,12}$`)
	toBetween     = lazyregexp.New(`(?i)^[^0-9.;]{0,24}?(?:\bto\b|\bauf\b|\bà\b|到|至)[^0-9.;]{0,16}$`)
	fromBetween   = lazyregexp.New(`(?i)^[^0-9;:(]{0,40}?\b(?:up from|down from|from|instead of|rather than|compared to|compared with|as opposed to|in place of|statt|gegenüber)\b[^0-9;]{0,30}$`)
	versusBetween = lazyregexp.New(`(?i)^[^0-9;]{0,40}?\b(?:vs\.?|versus|against|gegen|than)\b[^0-9;]{0,40}$`)
	thenBetween   = lazyregexp.New(`(?i)^[^0-9;]{0,30}?\b(?:before|without|previously|vorher)\b[^0-9;]{0,50}?$`)
	fromBefore    = lazyregexp.New(`(?i)(?:\bfrom\b|\bvon\b|从|由)[^0-9]{0,24}$`)
	moved         = lazyregexp.New(`(?i)\b(?:went|goes|rose|rises?|fell|falls?|increas\w+|decreas\w+|improv\w+|drop\w*|reduc\w+|gr[eo]w\w*|jump\w*|cut\w*|rais\w+|halv\w+|doubl\w+|lower\w*|boost\w*|brings?|brought|mov\w+|scal\w+|climb\w*|stieg|steigt|fiel|sank)\b|提升|提高|降|增加|减少`)
	wasAndNow     = lazyregexp.New(`(?i)\b(?:was|were|before|previously|used to|baseline|stock|old)\b`)
	nowWords      = lazyregexp.New(`(?i)\b(?:now|after|afterwards|new|today)\b`)

	upWords      = `more|higher|increase[ds]?|increasing|rise|raised?|rose|growth|mehr|höher|gain(?:s|ed)?|improve(?:ment|d|s)?|improving|boost(?:ed|s)?|uplift|jump|up\b|提升|提高|增加`
	quickWords   = `faster|quicker|speed[- ]?ups?|better|schneller|加速|快`
	downWords    = `less|lower(?:ed|s)?|fewer|reduction|reduc(?:ed|es|ing)|decrease[ds]?|decreasing|drop(?:ped|s)?|smaller|slower|saved|savings?|cuts?|shorter|worse|loss|regression|down\b|weniger|langsamer|niedriger|降低|减少|下降`
	changeAfter  = lazyregexp.New(`(?i)^(?:[ -](?:relative|throughput|latency|overall|total|net|end-to-end|performance|TTFT|TPOT|ITL|E2E|decode|prefill|P99|mean|median|token)){0,2}[ -]?\(?(?:(` + upWords + `)|(` + quickWords + `)|(` + downWords + `))`)
	changeBefore = lazyregexp.New(`(?i)(?:(` + upWords + `)|(` + quickWords + `)|(` + downWords + `))(?:(?: ?[:=]? |了)(?:(?:overall|total|end-to-end|e2e|serving|inference|system|its|our|average|throughput|latency|performance|it|this|that|the|ttft|tpot|itl|rate|output|mean|median|p99|decode|speed) ){0,3}(?:by|of|um)? ?(?:(?:a|an|about|around|roughly|nearly|almost|over|more than|up to|~|≈|factor of|another) ?){0,2})?$`)
	// Between two figures and their change, nothing of another thing.
	filler   = lazyregexp.New(`(?i)^(?:[\s,:=(\[—–~≈+\-/)]|i\.e\.|\b(?:a|an|or|that is|which|makes?|it|so|this|these|also|are|means|gives|for|on|the|same|machine|hardware|is|about|around|roughly|nearly|almost|up|down|by|of|um|reduced|increased|decreased|improved|faster|slower|higher|lower|reduction|increase|decrease|improvement|gain|speedup|per|second|token|tokens|output|total|only|now|just|over|more|than|at least|vllm|sglang|sec|user|tok/s|tokens/s|req/s|ms|s|GB|GiB|MB)\b|提升|提高|降低|了)*$`)
	foreign  = lazyregexp.New(`(?i)^[ -]?(?:more |fewer |less |lower |higher |bigger |larger |smaller |cheaper |of (?:the |all |a |its |each |our |peak|those|requests|total)?)+ ?(?:the )?(?:gpus?|cards?|devices?|nodes?|cost|price|power|energy|memory|vram|requests|batch|parameters?|hardware|money|step|time\b|peak|bandwidth|users?|traffic|accuracy|lines|code|watts?|cases)|^[ -]?(?:fewer|less) (?:output |input )?tokens\b|^[ -]?(?:confidence|ci\b|of |load|utili[sz]|hit rate|quantile|percentile|sparsity|sla\b|accuracy|cheaper|discount|overhead|margin|fewer|noise|slack|idle|busy|headroom)`)
	cautious = lazyregexp.New(`(?i)(?:\b(?:at|under|within|with|only|top|p|of which|for|uses?|using|takes?|costs?|±|whereas|while|despite)|±) ?$`)
	scaledBy = lazyregexp.New(`(?i)normali[sz]ed|\bper[- ](gpu|device|card|npu)|/\s?(gpu|device|card|npu)|\beach (gpu|device|card)`)
)

// comparable reports whether two figures can be of one thing.
func comparable(a, b *quantity) bool {
	switch {
	case a.isChange() && (a.kind != percent || b.kind != percent):
		return false
	case a.kind == devices || a.ranged || b.ranged || a.signed || b.signed:
		return false
	case a.kind == b.kind:
		return (a.kind != bare || a.unit == b.unit) && a.per == b.per && !(a.kind == users)
	}
	return false
}

// pairsIn are the compared figures of a sentence. The first of two may leave its unit to the
// second, and the second to the first.
func pairsIn(s *sentence) []pair {
	var out []pair
	text, figures := withoutSettings(s)
	for i := 0; i+1 < len(figures); i++ {
		first, second := figures[i], figures[i+1]
		between := text[first.end:second.start]
		// A unit that only one has is that of both.
		if first.kind == bare && !second.isChange() && second.kind != devices && second.kind != users && strings.TrimSpace(between) != "" {
			adopt(&first, &second)
		} else if second.kind == bare && !first.isChange() && first.kind != devices && first.kind != users {
			adopt(&second, &first)
		}
		if !comparable(&first, &second) || first.number.Value <= 0 || second.number.Value <= 0 || adoptedFar(&figures[i], &figures[i+1], &first, &second) {
			continue
		}
		before := text[:first.start]
		found := pair{old: first, fresh: second, start: first.start, end: second.end, directed: true}
		switch {
		case arrowBetween.MatchString(between):
		case toBetween.MatchString(between) && (fromBefore.MatchString(before) || moved.MatchString(before)):
		case toBetween.MatchString(between) && strings.HasPrefix(strings.TrimSpace(s.text[second.end:]), "("):
		case i+2 < len(figures) && fromBefore.MatchString(text[:second.start]) && leadsOn(text[second.end:figures[i+2].start]):
			continue // the second is the old one of the next two
		case fromBetween.MatchString(between):
			found.old, found.fresh = second, first
		case thenBetween.MatchString(between) && !nowWords.MatchString(before):
			if !nowWords.MatchString(between) && !nowWords.MatchString(s.text[second.end:min(len(s.text), second.end+24)]) {
				continue
			}
		case versusBetween.MatchString(between): // "new vs old", more often than not
			found.old, found.fresh, found.directed = second, first, false
		default:
			continue
		}
		out = append(out, found)
		i++ // a figure is in one pair
	}
	return out
}

// leadsOn reports whether a text between two figures makes the second the new one.
func leadsOn(between string) bool {
	return toBetween.MatchString(between) || arrowBetween.MatchString(between)
}

// settingBefore are words before a number that is no result: of a load, of a size, of a year.
var settingBefore = lazyregexp.New(`(?i)\b(?:concurrency|batch(?:[ -]sizes?)?|bs|tp|ep|dp|pp|size|length|len|context|top|rank|qps|port|case|table|step|level|depth|width|heads?|layers?|isl|osl|k|n|c|january|february|march|april|may|june|july|august|september|october|november|december|jan|feb|mar|apr|jun|jul|aug|sep|oct|nov|dec)\.? ?(?:of |=|:)? ?$|@ ?$`)

// withoutSettings are the figures of a sentence but for settings and years, whose digits are
// blanks in the text.
func withoutSettings(s *sentence) (string, []quantity) {
	text := []byte(s.text)
	var out []quantity
	for i := range s.quantities {
		q := s.quantities[i]
		year := q.kind == bare && q.number.Value >= 1990 && q.number.Value < 2100 && len(q.number.Text) == 4
		if q.kind == bare && (year || settingBefore.MatchString(s.text[:q.start])) {
			for at := q.start; at < q.end; at++ {
				text[at] = ' '
			}
			continue
		}
		out = append(out, q)
	}
	return string(text), out
}

// adopt gives a bare figure the kind and the unit of another, and where it has no suffix of
// thousands of its own, that of the other: "from 4.1 to 4.9k tok/s", "from 900 to 1.2k tok/s".
func adopt(bare, other *quantity) {
	bare.kind, bare.unit, bare.per = other.kind, other.unit, other.per
	bare.unitScale = other.unitScale
	scale := other.unitScale
	if bare.thousands == 1 && other.thousands > 1 {
		// Not where that would make the two far apart.
		const far = 30
		if ratio := bare.number.Value * other.thousands * scale / other.number.Value; ratio <= far && ratio >= 1.0/far {
			scale *= other.thousands
		}
	}
	bare.number = times(bare.number, scale)
}

// adoptedFar reports whether two figures are a hundred times apart only because one took the
// unit of the other: "from 1.2 to 900 MB" leaves a unit out.
func adoptedFar(printedFirst, printedSecond, first, second *quantity) bool {
	const far = 100
	ratio := first.number.Value / second.number.Value
	return printedFirst.kind != printedSecond.kind && (ratio > far || ratio < 1.0/far)
}

// gainAt reads what the words beside a change say; false where they say that it is of
// something else, or nothing at all.
func gainAt(s *sentence, index int) (gain, bool) {
	found := gain{quantity: s.quantities[index]}
	if !found.isChange() || found.ranged {
		return found, false
	}
	after, before := s.text[found.end:], s.text[:found.start]
	found.percentOf = strings.HasPrefix(after, " of ") && !strings.Contains(before, "by")
	switch match := changeAfter.FindStringSubmatch(after); {
	case strings.HasPrefix(strings.ToLower(strings.TrimLeft(after, " ")), "scaling efficiency") || scalingBefore.MatchString(before):
		found.share = true
		return found, true
	case denial.MatchString(before), foreign.MatchString(after) || (cautious.MatchString(before) && match == nil):
		return found, false
	case match != nil:
		found.direction = directionOf(match)
		return found, !foreign.MatchString(after[len(match[0])-len(match[1]+match[2]+match[3]):])
	}
	if match := changeBefore.FindStringSubmatch(before); match != nil {
		found.direction = directionOf(match)
		return found, true
	}
	// Alone in brackets, or behind a comma with its sign.
	bracketed := strings.HasSuffix(before, "(") && (strings.HasPrefix(after, ")") || strings.HasPrefix(after, ",") || strings.HasPrefix(after, " "))
	return found, bracketed || found.signed || byBefore.MatchString(before)
}

// byBefore is what stands right before the size of a change.
var byBefore = lazyregexp.New(`(?i)(?:\b(?:by|um)|提升了?|降低了?|增加了?|减少了?) ?$`)

// denial says that something did not change by so much.
var denial = lazyregexp.New(`(?i)\b(?:not|never|rather than|instead of|no) (?:[a-z]+ ){0,2}(?:by )?$`)

var scalingBefore = lazyregexp.New(`(?i)scaling efficiency (?:of |is |= ?|: ?)?(?:about |~)?$`)

// directionOf is what the words of a match say.
func directionOf(match []string) direction {
	switch {
	case match[3] != "" && !strings.EqualFold(match[3], "slower"):
		return downward
	case match[2] != "" || match[3] != "":
		return quicker
	}
	return upward
}

// checkChanges checks the gains of a sentence against its pairs.
func (c *checker) checkChanges(s *sentence) {
	pairs := pairsIn(s)
	var gains []gain
	changes := 0
	for i := range s.quantities {
		if s.quantities[i].isChange() {
			changes++
		}
		if found, ok := gainAt(s, i); ok && !withinPair(pairs, &s.quantities[i]) {
			gains = append(gains, found)
		}
	}
	if len(pairs) == 0 && len(gains) == 1 && changes == 1 {
		if only, ok := onlyPair(s); ok {
			pairs = append(pairs, only)
		}
	}
	used := map[int]bool{}
	for _, p := range pairs {
		if c.checkWords(s, &p, len(pairs)) {
			continue
		}
		for i := range gains {
			g := &gains[i]
			if used[i] || !belongs(s, &p, g, len(pairs) == 1 && changes == 1) {
				continue
			}
			used[i] = true
			c.checkGain(s, &p, g)
			break
		}
	}
}

var beforeAndAfter = lazyregexp.New(`(?is)\b(?:before|baseline|old)\b.*\b(?:after|now|new|optimi[sz]ed)\b`)

// checkTogether checks a short paragraph that gives two figures and their change a sentence
// each: "Before: 1,000 tok/s. After: 1,500 tok/s. Improvement: 25 %."
func (c *checker) checkTogether(p *paragraph) {
	const most = 4 // sentences
	if len(p.sentences) < 2 || len(p.sentences) > most {
		return
	}
	joined := sentence{line: p.line}
	for i := range p.sentences {
		if len(p.sentences[i].quantities) > 2 {
			return
		}
		joined.text += p.sentences[i].text + " "
	}
	joined.quantities = quantitiesIn(joined.text)
	if beforeAndAfter.MatchString(joined.text) && len(joined.quantities) == 3 {
		c.checkChanges(&joined)
	}
}

// withinPair reports whether a percentage is itself one of two compared figures.
func withinPair(pairs []pair, q *quantity) bool {
	for _, p := range pairs {
		if q.start == p.old.start || q.start == p.fresh.start {
			return true
		}
	}
	return false
}

// onlyPair is the two figures of one kind in a sentence that has no more, and says that they
// are compared.
func onlyPair(s *sentence) (pair, bool) {
	var both []quantity
	for i := range s.quantities {
		q := s.quantities[i]
		if q.isChange() || q.kind == devices || q.kind == bare || q.kind == users || q.kind == tokens || q.kind == requests || q.kind == money {
			continue
		}
		both = append(both, q)
	}
	if len(both) != 2 || !comparable(&both[0], &both[1]) || both[0].number.Value <= 0 || both[1].number.Value <= 0 {
		return pair{}, false
	}
	out := pair{old: both[0], fresh: both[1], start: both[0].start, end: both[1].end}
	before, between, after := s.text[:both[0].start], s.text[both[0].end:both[1].start], s.text[both[1].end:]
	old := wasAndNow.MatchString(before) || wasAndNow.MatchString(between)
	if !(old && (nowWords.MatchString(between) || nowWords.MatchString(after) || nowWords.MatchString(before))) && !compared.MatchString(s.text) {
		return pair{}, false
	}
	return out, true
}

// compared are words that say that the two figures of a sentence are compared.
var compared = lazyregexp.New(`(?i)\b(?:compared|versus|vs\.?|instead of|than|up from|down from)\b`)

// belongs reports whether a gain is that of a pair: right behind it, right before it, or the
// only one of the only pair.
func belongs(s *sentence, p *pair, g *gain, only bool) bool {
	const reach = 90
	switch {
	case g.start >= p.end && g.start-p.end <= reach && filler.MatchString(withoutDifference(s, p, g)):
		return true
	case g.end <= p.start && p.start-g.end <= reach && leadsTo.MatchString(s.text[g.end:p.start]):
		return true
	}
	return only && p.old.kind != bare
}

// withoutDifference is the text between two figures and their change, without the difference
// of the two where that is given too.
func withoutDifference(s *sentence, p *pair, g *gain) string {
	text := s.text[p.end:g.start]
	difference := math.Abs(p.fresh.number.Value - p.old.number.Value)
	for i := range s.quantities {
		q := &s.quantities[i]
		if q.start < p.end || q.end > g.start || q.isChange() {
			continue
		}
		if off := math.Abs(math.Abs(q.number.Value) - difference); off > q.number.Half+p.old.number.Half+p.fresh.number.Half+1e-9*difference {
			return "another figure"
		}
		return s.text[p.end:q.start] + s.text[q.end:g.start]
	}
	return text
}

// leadsTo is what stands between a gain and the figures behind it.
var leadsTo = lazyregexp.New(`(?i)^[ -]?(?:[a-z/ -]{0,40})[(:,]? ?(?:from |at |i\.e\. |with )?(?:about |~)?$`)

// checkGain compares a gain with its pair.
func (c *checker) checkGain(s *sentence, p *pair, g *gain) {
	if p.old.kind == percent {
		c.checkPoints(s, p, g)
		return
	}
	if g.kind == points || g.percentOf {
		return
	}
	ratio := p.fresh.span().Over(p.old.span())
	if g.share {
		c.checkScaling(s, p, g, ratio)
		return
	}
	allowed := allowedFor(ratio, p, g)
	// By devices, where the sentence is about them.
	if scaledBy.MatchString(s.text) {
		for _, count := range []float64{2, 3, 4, 6, 8, 16} {
			allowed = append(allowed, allowedFor(document.Between(ratio.Low/count, ratio.High/count), p, g)...)
		}
	}
	for _, span := range allowed {
		if admits(&g.quantity, span) {
			return
		}
	}
	follows := fmt.Sprintf("%s is %s", p.text(), ratioText(p.fresh.number.Value/p.old.number.Value, g.kind == percent))
	degree, why := Certain, "beyond the rounding of the printed figures"
	if g.about || g.nearly {
		why = "beyond what “about” leaves open"
	}
	c.find(Percentage, degree, s, follows, why)
}

// allowedFor are the values that a gain may print for a ratio of new to old.
func allowedFor(ratio document.Span, p *pair, g *gain) []document.Span {
	// The larger by the smaller, as direction is in the words.
	larger := ratio
	if ratio.Middle() < 1 {
		larger = document.Between(1/ratio.High, 1/ratio.Low)
	}
	if g.kind == factor {
		out := []document.Span{larger, document.Between(1/larger.High, 1/larger.Low)}
		if g.direction == upward { // "2x more" may mean as much again twice
			out = append(out, document.Between(larger.Low-1, larger.High-1))
		}
		return out
	}
	rise := document.Between(100*(larger.Low-1), 100*(larger.High-1))
	fall := document.Between(100*(1-1/larger.Low), 100*(1-1/larger.High))
	lessIsBetter := p.old.kind == duration || p.old.kind == memory || p.old.kind == bare
	fell := p.directed && ratio.Middle() < 1
	switch {
	case g.signed && g.number.Value < 0 && fell:
		return []document.Span{fall}
	case g.direction == downward && !fell && p.directed && !lessIsBetter:
		return []document.Span{fall, rise}
	case g.direction == downward:
		return []document.Span{fall}
	case g.direction == quicker && (lessIsBetter || fell || !p.directed):
		return []document.Span{rise, fall}
	case g.direction == upward && lessIsBetter, g.direction == unsaid && (fell || !p.directed):
		return []document.Span{rise, fall}
	}
	return []document.Span{rise}
}

// admits reports whether a printed change can be one of a span, with the words before it.
func admits(q *quantity, actual document.Span) bool {
	value := math.Abs(q.number.Value)
	half := math.Max(q.number.Half, 0)
	switch {
	case q.least:
		return actual.High >= value-half
	case q.most:
		return actual.Low <= value+half
	case q.nearly:
		return actual.High >= 0.8*value-half && actual.Low <= 1.03*value+half
	case q.about:
		half = math.Max(half, 0.1*value)
	}
	// Rounded once more from a rounded figure, or cut instead of rounded.
	half *= 1.1
	return actual.Meets(document.Between(value-half, value+1.9*half))
}

// ratioText writes a ratio as a signed percentage, or as a factor of at least 1.
func ratioText(ratio float64, percent bool) string {
	if percent {
		return fmt.Sprintf("%+.1f %%", 100*(ratio-1))
	}
	return fmt.Sprintf("%.1f×", math.Max(ratio, 1/ratio))
}

// checkPoints checks the change of a percentage: in points, or relative to the old one.
func (c *checker) checkPoints(s *sentence, p *pair, g *gain) {
	difference := document.Between(p.fresh.span().Low-p.old.span().High, p.fresh.span().High-p.old.span().Low)
	if difference.Middle() < 0 {
		difference = document.Between(-difference.High, -difference.Low)
	}
	ratio := p.fresh.span().Over(p.old.span())
	inPoints := admits(&g.quantity, difference)
	relative := false
	for _, span := range allowedFor(ratio, &pair{old: quantity{kind: bare}, directed: p.directed}, g) {
		relative = relative || (g.kind != points && admits(&g.quantity, span))
	}
	follows := fmt.Sprintf("%s %% → %s %% are %s percentage points, %s", p.old.number.Text, p.fresh.number.Text, document.Figure(math.Abs(p.fresh.number.Value-p.old.number.Value)), ratioText(p.fresh.number.Value/p.old.number.Value, true))
	switch {
	case relative || (inPoints && g.kind == points):
	case inPoints && g.kind == percent:
		c.find(Percentage, Notable, s, follows, "a difference of percentages is in points")
	case g.kind == points || g.kind == percent:
		c.find(Percentage, Certain, s, follows, "beyond the rounding of the printed figures")
	}
}

// checkScaling checks a scaling efficiency: the ratio of rates by that of devices.
func (c *checker) checkScaling(s *sentence, p *pair, g *gain, ratio document.Span) {
	most := 0.0
	for i := range s.quantities {
		if s.quantities[i].kind == devices {
			most = math.Max(most, s.quantities[i].number.Value)
		}
	}
	if most < 2 || g.kind != percent || !(oneDevice.MatchString(s.text) || fromOne.MatchString(s.text)) {
		return
	}
	efficiency := document.Between(100*ratio.Low/most, 100*ratio.High/most)
	if !admits(&g.quantity, efficiency) {
		c.find(Percentage, Certain, s, fmt.Sprintf("%s → %s on %.0f devices is %.1f %% of %.0f times as much", p.old.number.Text, p.fresh.number.Text, most, efficiency.Middle(), most), "an efficiency is the ratio of rates by that of devices")
	}
}

var fromOne = lazyregexp.New(`(?i)\bfrom (?:1|one) to\b`)

var oneDevice = lazyregexp.New(`(?i)\b(?:1|one|a single|single)[ -]?(?:x\s?)?(?:(?:nvidia|amd) )?(?:gpu|card|device|accelerator|[a-z]{1,3}[0-9]{2,4}\b|rtx)`)

// Words that are changes: doubled, halved.
var (
	changeWords = lazyregexp.New(`(?i)((?:more than|over|nearly|almost|roughly|about|approximately|at least|less than) )?\b(doubl(?:ed|es|ing)|tripl(?:ed|es|ing)|quadrupl(?:ed|es|ing)|halv(?:ed|es|ing))\b`)
	otherThing  = lazyregexp.New(`(?i)\b(?:and|while|but|as|with|the number|batch)\b`)
	wordFactors = map[string]float64{"doubl": 2, "tripl": 3, "quadr": 4, "halve": 0.5, "halvi": 0.5}
)

// checkWords checks "doubled" and its like before the only pair of a sentence; true where
// such a word is there.
func (c *checker) checkWords(s *sentence, p *pair, pairs int) bool {
	match := changeWords.FindStringSubmatchIndex(s.text)
	if match == nil || pairs != 1 || !p.directed || match[1] > p.start || p.start-match[1] > 60 || strings.ContainsAny(s.text[match[1]:p.start], "0123456789;") {
		return false
	}
	// Doubling something else than what the figures are of.
	if otherThing.MatchString(s.text[match[1]:p.start]) {
		return true
	}
	word := strings.ToLower(s.text[match[4]:match[5]])
	value := wordFactors[word[:5]]
	modifier := strings.ToLower(document.Submatch(s.text, match, 1))
	ratio := p.fresh.span().Over(p.old.span())
	low, high := 0.9*value, 1.1*value
	switch {
	case strings.HasPrefix(modifier, "more than"), strings.HasPrefix(modifier, "over"), strings.HasPrefix(modifier, "at least"):
		low, high = 0.99*value, 1.6*value
		if value < 1 {
			low, high = 0, 1.01*value
		}
	case modifier != "":
		low, high = 0.8*value, 1.2*value
	}
	if !ratio.Meets(document.Between(low, high)) {
		c.find(Percentage, Certain, s, fmt.Sprintf("%s is %s", p.text(), ratioText(p.fresh.number.Value/p.old.number.Value, false)), fmt.Sprintf("%q is a factor of %s", word, document.Figure(value)))
	}
	return true
}
