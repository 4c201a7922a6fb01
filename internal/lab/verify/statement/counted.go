package statement

// Shares of counts: "37 of 1,200 requests failed (3.1 %)".

import (
	"fmt"
	"math"

	"ossian/internal/lab/verify/document"
	"ossian/internal/lazyregexp"
)

var (
	ofBetween    = lazyregexp.New(`(?i)^ ?(?:of|out of|von|/) ?(?:(?:the|all|our|its|a total of) )*$`)
	shareOpens   = lazyregexp.New(`(?i)^[^0-9.;()]{0,48}(?:\( ?(?:i\.e\.,? |= ?|~ ?|≈ ?|or |about )?|, (?:or|i\.e\.|that is|which is) (?:about )?|(?:=|≈) ?)$`)
	shareCloses  = lazyregexp.New(`(?i)^ ?(?:[).,;]|$|(?:of (?:them|all|the (?:total|requests|prompts|runs)))\b)`)
	countBracket = lazyregexp.New(`(?i)^[^0-9.;()]{0,40}\( ?$`)
	// Words that make a percentage beside a count one of something else.
	otherShare = lazyregexp.New(`(?i)\b(?:improv\w*|faster|slower|increas\w*|decreas\w*|gain\w*|speed\w*|more|less|higher|lower|reduc\w*|by|regress\w*|time|utili[sz]\w*)\b`)
)

// checkCounted compares a share with the two counts that it is of.
func (c *checker) checkCounted(s *sentence) {
	for i := 0; i+2 < len(s.quantities); i++ {
		a, b, d := &s.quantities[i], &s.quantities[i+1], &s.quantities[i+2]
		first, second := s.text[a.end:b.start], s.text[b.end:d.start]
		switch {
		case ofBetween.MatchString(first) && d.kind == percent && shareOpens.MatchString(second) && shareCloses.MatchString(s.text[d.end:]) && !otherShare.MatchString(second):
			c.checkShare(s, a, b, d)
		case a.kind == percent && countBracket.MatchString(first) && ofBetween.MatchString(second) && bracketEnds.MatchString(s.text[d.end:]) && !otherShare.MatchString(s.text[:a.start]+first):
			c.checkShare(s, b, d, a)
		}
	}
}

// counts are kinds of which one can be a share of another.
func counts(part, whole *quantity) bool {
	switch whole.kind {
	case bare, tokens, requests, users, devices, memory:
		return (part.kind == bare || part.kind == whole.kind) && !part.ranged && !whole.ranged && !part.signed && part.number.Value <= whole.number.Value && whole.number.Value > 0
	}
	return false
}

// checkShare compares a percentage with a part of a whole, or with the rest of it.
func (c *checker) checkShare(s *sentence, part, whole, share *quantity) {
	inUnit := *part
	if part.kind == bare && whole.kind != bare {
		adopt(&inUnit, whole)
	}
	if !counts(part, whole) || inUnit.number.Value > whole.number.Value || share.signed || share.ranged || part.about || whole.about || part.least || part.most {
		return
	}
	of := inUnit.span().Over(whole.span())
	if whole.kind != memory && part.thousands == 1 && whole.thousands == 1 { // counts are exact
		exact := inUnit.number.Value / whole.number.Value
		of = document.Between(exact, exact)
	}
	taken, left := document.Between(100*of.Low, 100*of.High), document.Between(100*(1-of.High), 100*(1-of.Low))
	if admits(share, taken) || admits(share, left) {
		return
	}
	ratio := 100 * inUnit.number.Value / whole.number.Value
	c.find(Percentage, Certain, s, fmt.Sprintf("%s of %s is %s %%", part.short(), whole.short(), document.Figure(math.Round(100*ratio)/100)), "a share is the part by the whole")
}
