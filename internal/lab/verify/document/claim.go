package document

// Claims in documents: options with the gains that are said of them, in tables, in lists
// under headings, and in chains of rates. What a claim is of, by how much, and whether it is
// said to be on, is read here; whether it holds is decided in claims.go and roof.go.

import (
	"strings"
	"unicode"

	"ossian/internal/lazyregexp"
)

// A Claim is one gain that is said of one option.
type Claim struct {
	Line        int
	Option      string // canonical: words in small letters
	Name        string // as printed
	Text        string // the words of the claim
	Source      string // table, list, chain
	Gain        Span   // the factor of the speed, 1.1 for +10 %
	Part        string // of what the gain is, where it is not of the whole: sampling
	Conditional bool   // for some requests only
	Off         bool   // not in use: potential, missing
}

// maxClaims bounds the claims of one document.
const maxClaims = 1_000

// A MemoryClaim says by how much an option lessens memory.
type MemoryClaim struct {
	Line     int
	Option   string
	Text     string
	Value    Number // percent, or times
	Factor   bool
	Old, New Number // "70 GB instead of 240 GB": both, and no value
}

// A ChainStep is a line of a chain: a rate after one more option.
type ChainStep struct {
	Line      int
	Name      string
	added     bool // begins with +
	Rate      Span
	Printed   string
	Potential bool
}

// A StatusClaim says which state an option has.
type StatusClaim struct {
	Line               int
	Option, Name, Text string
}

var (
	percentRange = lazyregexp.New(`([-+~\x{2212}]*)\s?([0-9]+(?:\.[0-9]+)?)\s?%?\s?(?:(?:[-–…]|to)\s?([0-9]+(?:\.[0-9]+)?)\s?)?%`)
	factorRange  = lazyregexp.New(`([0-9]+(?:\.[0-9]+)?)\s?x?\s?(?:[-–]\s?([0-9]+(?:\.[0-9]+)?)\s?)?[x×]`)
	listItem     = lazyregexp.New(`^\s*[-*•]\s+(?:\*\*)?([A-Z][A-Za-z ()]{1,40}?)(?:\*\*)?:(?:\*\*)?\s*(.+)$`)
	chainLine    = lazyregexp.New(`^[\s│├└─>|*•-]*(\+\s*)?([A-Za-z][^:|]{1,80}?)\s*:\s*[~≈]?\s*([0-9]+(?:\.[0-9]+)?)(?:\s?[-–]\s?([0-9]+(?:\.[0-9]+)?))?\s*(tok/s|tokens/s|tokens/sec|tok/sec|TPS|t/s|req/s)(.*)$`)
	rateChange   = lazyregexp.New(`[~≈]?([0-9]+(?:\.[0-9]+)?)\s*(?:→|->|=>|to)\s*[~≈]?([0-9]+(?:\.[0-9]+)?)(?:\s?[-–]\s?([0-9]+(?:\.[0-9]+)?))?\s*(?:tok/s|tokens/s|TPS|t/s)`)
	memoryPair   = lazyregexp.New(`[~≈]?\s?([0-9]+(?:\.[0-9]+)?)\s?(GB|GiB|MB|TB)\s*(instead of|rather than|down from|vs\.?|→|->|to)\s*[~≈]?\s?([0-9]+(?:\.[0-9]+)?)\s?(GB|GiB|MB|TB)`)
	partOf       = lazyregexp.New(`(?i)%\s*(?:faster|quicker|speed-?up (?:of|in|for)|higher|better)\s+([a-z][a-z -]{2,30})`)
	conditional  = lazyregexp.New(`(?i)\*\s*$|%\s*\*|\bfor (?:repeated|long|shared|identical|multi-turn|some)\b|\bif\b|\bwhen\b|\bup to\b`)
	offWords     = lazyregexp.New(`(?i)❌|✗|⚠|not installed|not enabled|disabled|\bno\b|\boff\b|missing|potential|target|expected|🎯`)
	costWords    = lazyregexp.New(`(?i)%\s*(?:[a-z]+\s)?(?:overhead|slower|cost|penalty|loss|degradation|decrease)`)
	speedHeader  = lazyregexp.New(`(?i)speed|gain|throughput|performance|effect|impact|improvement`)
	memoryHeader = lazyregexp.New(`(?i)memory|vram|saved`)
	stateHeader  = lazyregexp.New(`(?i)enabled|status|active|state|in use`)
	optionHeader = lazyregexp.New(`(?i)optimi[sz]ation|option|technique|feature|setting|component|method`)
	inBrackets   = lazyregexp.New(`\([^)]*\)`)
	oneChange    = lazyregexp.New(`([0-9]+(?:\.[0-9]+)?)\s?(%|x|×)`)
	wholeWords   = lazyregexp.New(`(?i)^(?:overall|inference|generation|throughput|decod|respons|performance|kernel|execution|for\b|than\b|and\b|on\b|in\b|with\b|per\b|tok|speed|model|serving|latency|by\b|compared|when\b|at\b|end|output|total|request|token)`)
)

// optionName is the canonical form of an option's name: its words in small letters without
// brackets, numbers of lists, endings that differ between a noun and a verb.
func optionName(name string) string {
	name = inBrackets.ReplaceAllString(Plain(name), " ")
	var words []string
	for _, word := range strings.FieldsFunc(strings.ToLower(name), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '.' }) {
		word = strings.Trim(word, ".")
		if word == "" || strings.Trim(word, "0123456789") == "" {
			continue
		}
		for long, short := range map[string]string{"mxfp4": "fp4", "nvfp4": "fp4", "parallelism": "parallel", "graphs": "graph", "quantisation": "quantization", "cache": "caching"} {
			if word == long {
				word = short
			}
		}
		words = append(words, word)
	}
	return strings.Join(words, " ")
}

// SameOption reports whether two canonical names can be of one option: all words of the
// shorter one stand in the longer one.
func SameOption(a, b string) bool {
	if a == "" || b == "" {
		return false
	}
	if len(a) > len(b) {
		a, b = b, a
	}
	words := strings.Fields(b)
	for _, word := range strings.Fields(a) {
		found := false
		for _, other := range words {
			found = found || other == word
		}
		if !found {
			return false
		}
	}
	return true
}

// gainOf reads a gain in words: "+10-20%", "~10% overhead", "1.8-2x speedup". False where
// there is none.
func gainOf(text string) (Span, bool) {
	if match := percentRange.FindStringSubmatch(text); match != nil {
		low, _ := ParseNumber(match[2])
		high := low
		if match[3] != "" {
			high, _ = ParseNumber(match[3])
		}
		gain := Span{1 + low.Value/100, 1 + high.Value/100}
		if strings.ContainsAny(match[1], "-\u2212") || costWords.MatchString(text) {
			gain = Span{1 - high.Value/100, 1 - low.Value/100}
		}
		return gain, gain.Low <= gain.High && gain.Low > 0
	}
	if match := factorRange.FindStringSubmatch(text); match != nil {
		low, _ := ParseNumber(match[1])
		high := low
		if match[2] != "" {
			high, _ = ParseNumber(match[2])
		}
		return Span{low.Value, high.Value}, low.Value > 0 && low.Value <= high.Value
	}
	return Span{}, false
}

// findClaims finds the claims of a text.
func (d *Document) findClaims() {
	for i := range d.Tables {
		d.tableClaims(&d.Tables[i])
	}
	d.listClaims()
	d.findChains()
}

// tableClaims reads a table of options whose gains are given in words, not by figures.
func (d *Document) tableClaims(table *Table) {
	if len(table.Header) < 2 || !optionHeader.MatchString(table.Header[0]) {
		return
	}
	for r := range table.Rows {
		row := &table.Rows[r]
		off := false
		for column := 1; column < len(row.Cells); column++ {
			off = off || (stateHeader.MatchString(table.Header[column]) && offWords.MatchString(row.Cells[column].Text))
		}
		for column := 1; column < len(row.Cells) && len(d.Claims) < maxClaims; column++ {
			text := row.Cells[column].Text
			if len(row.Cells[column].Figures) > 0 {
				continue
			}
			switch {
			case memoryHeader.MatchString(table.Header[column]):
				d.memoryClaims(row.Name, text, row.Line)
			case speedHeader.MatchString(table.Header[column]):
				if gain, ok := gainOf(text); ok {
					d.Claims = append(d.Claims, Claim{Line: row.Line, Option: optionName(row.Name), Name: row.Name, Text: text, Source: "table", Gain: gain,
						Conditional: conditional.MatchString(text), Off: off})
				}
			}
		}
	}
}

// memoryClaims reads what is said about memory.
func (d *Document) memoryClaims(name, text string, line int) {
	entry := MemoryClaim{Line: line, Option: optionName(name), Text: text}
	if match := memoryPair.FindStringSubmatch(text); match != nil && match[2] == match[5] {
		first, _ := ParseNumber(match[1])
		second, _ := ParseNumber(match[4])
		about := strings.ContainsAny(text, "~≈")
		entry.Old, entry.New = second.Rounded(about), first.Rounded(about)
		if match[3] == "→" || match[3] == "->" || match[3] == "to" {
			entry.Old, entry.New = entry.New, entry.Old
		}
		d.Memory = append(d.Memory, entry)
		return
	}
	if match := oneChange.FindStringSubmatch(text); match != nil {
		value, _ := ParseNumber(match[1])
		entry.Value, entry.Factor = value.Rounded(false), match[2] != "%"
		d.Memory = append(d.Memory, entry)
	}
}

// listClaims reads lists of properties under the heading of an option.
func (d *Document) listClaims() {
	for i, line := range d.Lines {
		match := listItem.FindStringSubmatch(line)
		if match == nil || d.Fenced[i] || len(d.Claims)+len(d.Memory)+len(d.Statuses) >= maxClaims {
			continue
		}
		// The heading names the option; the one above it may say that none of these is on.
		path := d.Above(i + 1)
		if len(path) == 0 {
			continue
		}
		key, text := strings.ToLower(match[1]), Plain(match[2])
		name := optionHeading(path[0].Text)
		option := optionName(name)
		within := ""
		if len(path) > 1 {
			within = path[1].Text
		}
		off := offWords.MatchString(path[0].Text + " " + within)
		switch {
		case strings.Contains(key, "status") || strings.Contains(key, "state"):
			d.Statuses = append(d.Statuses, StatusClaim{i + 1, option, name, text})
			continue
		case strings.Contains(key, "memory"):
			d.memoryClaims(name, text, i+1)
			continue
		case !strings.Contains(key, "impact") && !strings.Contains(key, "gain") && !strings.Contains(key, "effect") && !strings.Contains(key, "speed") && !strings.Contains(key, "improvement"):
			continue
		}
		for _, piece := range strings.Split(text, ",") {
			d.listClaim(Claim{Line: i + 1, Option: option, Name: name, Text: strings.TrimSpace(piece), Source: "list", Off: off})
		}
	}
}

// optionHeading is a heading without its number.
func optionHeading(text string) string {
	text = strings.TrimLeft(text, "0123456789. ")
	return strings.TrimRightFunc(text, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != ')' })
}

// listClaim reads one piece of a property.
func (d *Document) listClaim(claim Claim) {
	if strings.Contains(strings.ToLower(claim.Text), "memory") {
		d.memoryClaims(claim.Name, claim.Text, claim.Line)
		return
	}
	if match := rateChange.FindStringSubmatch(claim.Text); match != nil {
		from, _ := ParseNumber(match[1])
		low, _ := ParseNumber(match[2])
		high := low
		if match[3] != "" {
			high, _ = ParseNumber(match[3])
		}
		if from.Value > 0 {
			claim.Gain = Span{low.Value / from.Value, high.Value / from.Value}
			d.Claims = append(d.Claims, claim)
		}
		return
	}
	gain, ok := gainOf(claim.Text)
	if !ok {
		return
	}
	claim.Gain, claim.Conditional = gain, conditional.MatchString(claim.Text)
	if part := partOf.FindStringSubmatch(claim.Text); part != nil && !wholeWords.MatchString(part[1]) {
		claim.Part = strings.TrimSpace(part[1])
	}
	d.Claims = append(d.Claims, claim)
}

// Limits of chains.
const (
	maxChains = 50
	maxSteps  = 100
)

// findChains finds rates that grow option by option: lines in a row, most of which begin
// with a plus.
func (d *Document) findChains() {
	var steps []ChainStep
	flush := func() {
		added := 0
		for _, step := range steps {
			if step.added {
				added++
			}
		}
		if len(steps) >= 3 && added >= 2 && !steps[0].added {
			d.Chains = append(d.Chains, steps)
		}
		steps = nil
	}
	for i, line := range d.Lines {
		var match []string
		if len(line) <= 400 && strings.Contains(line, ":") && (strings.Contains(line, "/s") || strings.Contains(line, "TPS")) {
			match = chainLine.FindStringSubmatch(line)
		}
		if match == nil || len(d.Chains) >= maxChains || len(steps) >= maxSteps {
			flush()
			continue
		}
		low, _ := ParseNumber(match[3])
		high := low
		if match[4] != "" {
			high, _ = ParseNumber(match[4])
		}
		steps = append(steps, ChainStep{Line: i + 1, Name: strings.TrimSpace(match[2]), added: match[1] != "", Rate: Span{low.Value, high.Value},
			Printed: rangeText(match[3], match[4]) + " " + match[5], Potential: offWords.MatchString(match[2] + match[6])})
	}
	flush()
	// Each step says by how much its option speeds up what is there before it.
	for _, chain := range d.Chains {
		for i := 1; i < len(chain); i++ {
			before, after := chain[i-1].Rate, chain[i].Rate
			if before.Low <= 0 {
				continue
			}
			low, high := after.Low/before.Low, after.High/before.High
			if low > high {
				low, high = high, low
			}
			d.Claims = append(d.Claims, Claim{Line: chain[i].Line, Option: optionName(chain[i].Name), Name: chain[i].Name, Text: chain[i-1].Printed + " → " + chain[i].Printed,
				Source: "chain", Gain: Span{low, high}, Off: chain[i].Potential})
		}
	}
}

// rangeText is a range as printed.
func rangeText(low, high string) string {
	if high == "" {
		return low
	}
	return low + "–" + high
}
