package statement

// Gains of parts that are claimed for the whole.
// If a part with share s of the time becomes k times as fast, the whole becomes g times as
// fast with 1 − 1/g = s (1 − 1/k) (lab.md 7).

import (
	"fmt"
	"math"
	"strings"

	"ossian/internal/lab/verify/document"
	"ossian/internal/lazyregexp"
)

var (
	partWords   = lazyregexp.New(`(?i)\b(?:sampl(?:ing|er)|attention|softmax|rope|layer ?norm|rms ?norm|gemms?|matmuls?|mlp|ffn|moe|experts?|(?:[a-z]+ )?kernels?|all-?reduces?|communication|detokeni[sz]\w*|tokeni[sz]\w*|schedul(?:er|ing)|logits|top-[kp]|dequanti[sz]\w*|embeddings?|lm[_ -]head|activations?|router|draft model|memory copies|kv[- ]cache (?:reads?|writes?|copies|transfer)|prefill|host overhead|cpu overhead)\b`)
	wholeThing  = lazyregexp.New(`(?i)\b(?:throughput|tokens?(?: per second|/s)|tok/s|end[- ]to[- ]end|e2e|overall|serving|inference|total (?:latency|time)|qps|requests per second|whole|system)\b`)
	causes      = lazyregexp.New(`(?i)\b(?:so|therefore|thus|hence|which (?:means?|gives?|results?|yields?|translates?)|mean(?:s|ing)|giv(?:es|ing)|result(?:s|ing)?(?: in)?|translat\w+|yield\w*|lead(?:s|ing)? to|improv(?:es|ed|ing)|as a result|deliver\w*|consequently|makes?|made|also|daher|deshalb|dadurch)\b|→|=>|因此|所以|从而`)
	shareOfTime = lazyregexp.New(`(?i)\b(?:takes?|took|accounts? for|is|was|makes? up|spends?|uses?|only|but)\b[^0-9.;]{0,24}$`)
	timeShare   = lazyregexp.New(`(?i)^ of (?:(?:the|each|every|a|all|our|total|overall) )*(?:decode |decoding |generation |inference |forward |prefill |wall[- ]clock |GPU |run |total )?(?:steps?|time|latency|runtime|iteration|pass|cost)`)
	timeGain    = lazyregexp.New(`(?i)\b(?:latency|time|tpot|ttft|itl|duration)\b`)
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
		follows := causes.MatchString(s.text[part.end:whole.start])
		given := document.Span{}
		if shareOf != "" && (sameWord(shareOf, part.subject) || anyKernel.MatchString(part.subject)) {
			given = share
		}
		// "With a kernel that is 2x faster, …" is enough where the share is known.
		if !follows && !(given.High > 0 && means.MatchString(s.text[:part.start])) {
			continue
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

// anyKernel is a kernel that no name tells from the part before it.
var anyKernel = lazyregexp.New(`(?i)^(?:(?:faster|new|better|fused|custom|own|quicker|our|this|the|a|optimi[sz]ed) )?kernels?$`)

// sameWord reports whether two names of parts begin alike.
func sameWord(a, b string) bool {
	a, b = strings.ToLower(a), strings.ToLower(b)
	length := min(len(a), len(b), 5)
	return length > 2 && a[:length] == b[:length]
}

// means are words that make what follows an effect of what they name.
var means = lazyregexp.New(`(?i)\b(?:with|using|by|through|thanks to|after)\b`)

// partAndWhole are the gain of a part and behind it that of the whole.
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
		case firstOf(after, partWords, wholeThing):
			entry.subject = partWords.FindString(after)
		case wholeThing.MatchString(after):
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
	return effects[0], effects[1], true
}

// firstOf reports whether a pattern is met in a text, and before another: "25 % faster sampling
// throughput" is of the throughput, "a 2x faster kernel for the whole model" is of the kernel.
func firstOf(text string, wanted, other *lazyregexp.Regexp) bool {
	at, rival := wanted.FindStringIndex(text), other.FindStringIndex(text)
	return at != nil && (rival == nil || (at[0] < rival[0] && strings.TrimSpace(text[at[1]:rival[0]]) != ""))
}

var changeVerb = lazyregexp.New(`(?i)\b(?:improv\w+|rais\w+|increas\w+|boost\w*|speeds? up|reduc\w+|cuts?|lower\w*|gives?|gain\w*)\b[^0-9]{0,40}$`)

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

var clauseStop = lazyregexp.New(`(?i)[,;:()]|\b(?:so|which|and|but|thus|hence|therefore|resulting|giving|yielding|translat\w+|leads?|with)\b|[0-9](?:%|x)? `)

// verbStop begins what is said of something else.
var verbStop = lazyregexp.New(`(?i)\b(?:improv(?:es|ed)|ma[kd]es?|gave)\b`)

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

// speed is the factor that a gain is as printed, the greatest where it can be of time or speed.
func (e *effect) speed() float64 {
	value := math.Abs(e.number.Value)
	switch {
	case e.kind == factor:
		return math.Max(1, value)
	case e.direction == downward, e.subject != "" && e.speedOf().High > 1+e.span().High/100:
		return 1 / (1 - math.Min(value, 99)/100)
	}
	return 1 + value/100
}

// checkPart compares the gain of a part with that of the whole.
func (c *checker) checkPart(s *sentence, part, whole *effect, share document.Span) {
	k, g := part.speedOf(), whole.speedOf()
	if k.Low <= 1 || g.Low <= 1 || whole.most || whole.number.Value <= 0 {
		return
	}
	if share.High > 0 && share.High <= 1 {
		// The bound has all room of rounding, the words have the figures as they are printed.
		most := 1 / (1 - share.High*(1-1/k.High))
		if g.Low > 1.02*most {
			c.find(Claim, Certain, s, fmt.Sprintf("%.0f %% of the time made %s times as fast makes the whole %+.1f %% faster", 100*share.Middle(), document.Figure(math.Round(100*part.speed())/100), 100*(1/(1-share.Middle()*(1-1/part.speed()))-1)), "1 − 1/g = s (1 − 1/k)")
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
