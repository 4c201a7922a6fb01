package statement

// Gains of parts that are claimed for the whole, and gains of several options that are added.
// If a part with share s of the time becomes k times as fast, the whole becomes g times as
// fast with 1 − 1/g = s (1 − 1/k) (lab.md 7).

import (
	"fmt"
	"math"
	"regexp"
	"strings"

	"ossian/internal/lab/verify/document"
)

var (
	partWords   = regexp.MustCompile(`(?i)\b(?:sampl(?:ing|er)|attention|softmax|rope|layer ?norm|rms ?norm|gemms?|matmuls?|mlp|ffn|moe|experts?|(?:[a-z]+ )?kernels?|all-?reduces?|communication|detokeni[sz]\w*|tokeni[sz]\w*|schedul(?:er|ing)|logits|top-[kp]|dequanti[sz]\w*|embeddings?|lm[_ -]head|activations?|router|draft model|memory copies|kv[- ]cache (?:reads?|writes?|copies|transfer)|prefill|host overhead|cpu overhead)\b`)
	wholeThing  = regexp.MustCompile(`(?i)\b(?:throughput|tokens?(?: per second|/s)|tok/s|end[- ]to[- ]end|e2e|overall|serving|inference|total (?:latency|time)|qps|requests per second|whole|system)\b`)
	causes      = regexp.MustCompile(`(?i)\b(?:so|therefore|thus|hence|which (?:means?|gives?|results?|yields?|translates?)|mean(?:s|ing)|giv(?:es|ing)|result(?:s|ing)?(?: in)?|translat\w+|yield\w*|lead(?:s|ing)? to|improv(?:es|ed|ing)|as a result|deliver\w*|consequently|makes?|made|also|daher|deshalb|dadurch)\b|→|=>|因此|所以|从而`)
	shareOfTime = regexp.MustCompile(`(?i)\b(?:takes?|took|accounts? for|is|was|makes? up|spends?|uses?|only|but)\b[^0-9.;]{0,24}$`)
	timeShare   = regexp.MustCompile(`(?i)^ of (?:(?:the|each|every|a|all|our|total|overall) )*(?:decode |decoding |generation |inference |forward |prefill |wall[- ]clock |GPU |run |total )?(?:steps?|time|latency|runtime|iteration|pass|cost)`)
	timeGain    = regexp.MustCompile(`(?i)\b(?:latency|time|tpot|ttft|itl|duration)\b`)
)

// An effect is a gain of a part or of the whole.
type effect struct {
	gain
	subject string // the words that name the part; "" = the whole
	text    string
}

// checkParts looks in a paragraph for the speed-up of a part that is carried over to the whole.
func (c *checker) checkParts(p *paragraph) {
	share, shareOf := document.Span{}, ""
	for i := range p.sentences {
		s := &p.sentences[i]
		if found, part, ok := shareIn(s); ok {
			share, shareOf = found, part
		}
		part, whole, ok := partAndWhole(s)
		if !ok {
			continue
		}
		given := document.Span{}
		if shareOf != "" && sameWord(shareOf, part.subject) {
			given = share
		}
		c.checkPart(s, &part, &whole, given)
	}
}

// shareIn is the share of the time that a sentence gives a part.
func shareIn(s *sentence) (document.Span, string, bool) {
	for i := range s.quantities {
		q := &s.quantities[i]
		if q.kind != percent || !timeShare.MatchString(s.text[q.end:]) || !shareOfTime.MatchString(s.text[:q.start]) {
			continue
		}
		if parts := partWords.FindAllString(s.text[:q.start], -1); len(parts) > 0 {
			return document.Between(q.span().Low/100, q.span().High/100), parts[len(parts)-1], true
		}
	}
	return document.Span{}, "", false
}

// sameWord reports whether two names of parts begin alike.
func sameWord(a, b string) bool {
	a, b = strings.ToLower(a), strings.ToLower(b)
	length := min(len(a), len(b), 5)
	return length > 2 && a[:length] == b[:length]
}

// partAndWhole are the gain of a part and behind it that of the whole, with a word that makes
// the second follow from the first.
func partAndWhole(s *sentence) (part, whole effect, ok bool) {
	var effects []effect
	for i := range s.quantities {
		q := &s.quantities[i]
		if (q.kind != percent && q.kind != factor) || timeShare.MatchString(s.text[q.end:]) {
			continue
		}
		found, ok := gainAt(s, i)
		if !ok || (found.direction == unsaid && !changeVerb.MatchString(s.text[:q.start])) {
			continue
		}
		before, after := clauseAround(s.text, q)
		// The nearer words name what it is of: those behind it first, as in "25 % faster sampling".
		entry := effect{gain: found, text: before + " " + after}
		switch {
		case wholeThing.MatchString(after):
		case partWords.MatchString(after):
			entry.subject = partWords.FindString(after)
		case wholeThing.MatchString(before):
		case partWords.MatchString(before):
			entry.subject = partWords.FindString(before)
		default:
			continue
		}
		effects = append(effects, entry)
	}
	if len(effects) != 2 || effects[0].subject == "" || effects[1].subject != "" {
		return part, whole, false
	}
	between := s.text[effects[0].end:effects[1].start]
	return effects[0], effects[1], causes.MatchString(between)
}

var changeVerb = regexp.MustCompile(`(?i)\b(?:improv\w+|rais\w+|increas\w+|boost\w*|speeds? up|reduc\w+|cuts?|lower\w*|gives?|gain\w*)\b[^0-9]{0,40}$`)

// clauseAround are the words of a clause before and behind a figure.
func clauseAround(text string, q *quantity) (before, after string) {
	before, after = text[:q.start], text[q.end:]
	if at := clauseStop.FindAllStringIndex(before, -1); len(at) > 0 {
		before = before[at[len(at)-1][1]:]
	}
	if at := verbStop.FindStringIndex(after); at != nil {
		after = after[:at[0]]
	}
	if at := clauseStop.FindStringIndex(after); at != nil {
		after = after[:at[0]]
	}
	return before, after
}

var clauseStop = regexp.MustCompile(`(?i)[,;:()]|\b(?:so|which|and|but|thus|hence|therefore|resulting|giving|yielding|translat\w+|leads?|with)\b|[0-9](?:%|x)? `)

// verbStop begins what is said of something else.
var verbStop = regexp.MustCompile(`(?i)\bimprov(?:es|ed)\b`)

// speedOf are the factors by which something can have become faster, least and most, as a
// percentage may be of the time or of the speed.
func (e *effect) speedOf() document.Span {
	value := e.span()
	if e.kind == factor {
		return document.Between(math.Max(1, value.Low), math.Max(1, value.High))
	}
	low, high := value.Low/100, math.Min(value.High/100, 0.99)
	faster, shorter := document.Between(1+low, 1+value.High/100), document.Between(1/(1-math.Min(low, 0.98)), 1/(1-high))
	switch {
	case e.subject == "" && !timeGain.MatchString(e.text):
		return faster // of a rate
	case e.direction == downward:
		return shorter
	}
	return document.Between(faster.Low, math.Max(faster.High, shorter.High))
}

// checkPart compares the gain of a part with that of the whole.
func (c *checker) checkPart(s *sentence, part, whole *effect, share document.Span) {
	k, g := part.speedOf(), whole.speedOf()
	if k.Low <= 1 || g.Low <= 1 || whole.most || whole.number.Value <= 0 {
		return
	}
	if share.High > 0 && share.High <= 1 {
		most := 1 / (1 - share.High*(1-1/k.High))
		if g.Low > 1.02*most {
			c.find(Claim, Certain, s, fmt.Sprintf("%.0f %% of the time made %.2g times as fast makes the whole at most %+.1f %% faster", 100*share.Middle(), k.High, 100*(most-1)), "1 − 1/g = s (1 − 1/k)")
		}
		return
	}
	least := (1 - 1/g.Low) / (1 - 1/k.High)
	switch {
	case part.kind == whole.kind && whole.number.Value >= part.number.Value && part.direction != downward:
		c.find(Claim, Certain, s, fmt.Sprintf("that needs %s to be all of a step", part.subject), "a part made faster by so much makes the whole faster by less: 1 − 1/g = s (1 − 1/k)")
	case least > 0.5:
		c.find(Claim, Doubtful, s, fmt.Sprintf("that needs %s to be at least %.0f %% of a step", part.subject, 100*math.Min(least, 1)), "(1 − 1/g)/(1 − 1/k) of the time must be that part's")
	}
}

var (
	totalBefore = regexp.MustCompile(`(?i)(?:\btotal\w*|together|combined|\badd(?:s|ing)? up|altogether|\bin all\b|\boverall\b|\bsums?\b|cumulative\w*|insgesamt|zusammen|合计|总共|总计)[^0-9.;]{0,40}$`)
	totalAfter  = regexp.MustCompile(`(?i)^ ?(?:[a-z]+ ){0,2}(?:in total|total|together|combined|overall|altogether)\b`)
	shareWords  = regexp.MustCompile(`(?i)\b(?:takes?|accounts? for|share|breakdown|of (?:the|a|each) (?:step|time|total)|spends?|utili[sz]ation|traffic|requests)\b`)
	gainWords   = regexp.MustCompile(`(?i)` + upWords + `|` + quickWords + `|` + downWords + `|\bgives?\b|\badds?\b|\bspeed`)
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

// checkAdded compares a total with the sum and the product of its parts.
func (c *checker) checkAdded(s *sentence, parts []quantity, total *quantity) {
	if shareWords.MatchString(s.text) || !gainWords.MatchString(s.text) {
		return
	}
	sum, product, less := document.Span{}, document.Between(1, 1), document.Between(1, 1)
	for i := range parts {
		value := parts[i].span()
		if parts[i].number.Value <= 0 && parts[i].signed {
			value = document.Between(-value.High, -value.Low)
		}
		sum = sum.Plus(value)
		product = product.Times(document.Between(1+value.Low/100, 1+value.High/100))
		less = less.Times(document.Between(1-math.Min(value.High, 100)/100, 1-math.Min(value.Low, 100)/100))
	}
	value := total.span()
	if value.Low > 99.5 && reducing.MatchString(s.text) {
		c.find(Claim, Certain, s, fmt.Sprintf("one after the other they leave %.0f %%, which is %.0f %% less", 100*less.Middle(), 100*(1-less.Middle())), "reductions are multiplied, and never reach all")
		return
	}
	gain := document.Between(100*(product.Low-1), 100*(product.High-1))
	if !sum.Meets(value) || gain.Meets(value) || (document.Between(100*(1-less.High), 100*(1-less.Low))).Meets(value) {
		return
	}
	c.find(Claim, Doubtful, s, fmt.Sprintf("%s is the sum of the %d gains; their product is %+.1f %%", total.printed, len(parts), gain.Middle()), "gains of separate options do not add up: they are multiplied, or measured together")
}

var reducing = regexp.MustCompile(`(?i)\b(?:cuts?|reduc\w+|lower\w*|sav\w+|decreas\w+|less)\b`)

var listedGain = regexp.MustCompile(`^.{3,60}[:–—-] ?$`)

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
