package statement

// Figures of prose with their units: what each is of, in one base unit a kind, with the room
// that its rounding and the words before it leave.

import (
	"math"
	"strings"

	"ossian/internal/lab/verify/document"
	"ossian/internal/lazyregexp"
)

// A kind is what a figure is of.
type kind int

const (
	bare        kind = iota // no unit
	percent                 // percent
	points                  // percentage points
	factor                  // times
	tokenRate               // tokens per second
	requestRate             // requests per second
	duration                // milliseconds
	memory                  // gigabytes
	bandwidth               // gigabytes per second
	compute                 // TFLOP/s
	tokens                  // a count of tokens
	requests                // a count of requests
	users                   // requests or users at the same time
	devices                 // a count of devices
	money                   // dollars
)

// A quantity is a figure of a sentence.
type quantity struct {
	kind       kind
	number     document.Number // in the base unit of its kind
	thousands  float64         // what a suffix such as "k" multiplies by; 1 without one
	unitScale  float64         // from the unit as printed to the base unit
	unit       string          // as printed
	printed    string
	start, end int
	per        string // "user" or "device": of one of them
	signed     bool
	ranged     bool // an end of a range, or beside another figure that it is one number with
	about      bool // "about", "~"
	least      bool // "more than"
	most       bool // "up to"
	nearly     bool // "almost"
}

// A unit is how a kind is written. Patterns begin behind the figure.
type unit struct {
	kind    kind
	scale   float64 // to the base unit
	pattern *lazyregexp.Regexp
}

const (
	tokenWord   = `(?i:(?:(?:output|input|total|generated|prompt|decode|prefill|completion)[ -])?(?:tokens?|toks?|tks?|个? ?词元))`
	perSecond   = `(?i: ?/ ?(?:s|secs?|seconds?|sekunde)\b| ?/ ?秒| per (?:s\b|sec\b|second)| pro sekunde)`
	perMinute   = `(?i: ?/ ?(?:min|minute)\b| per minute)`
	perHour     = `(?i: ?/ ?(?:h|hr|hour)\b| per hour)`
	requestWord = `(?i:reqs?|requests?|queries|prompts?)`
)

// units are all units, the longer before the shorter.
var units = []unit{
	{tokenRate, 1, lazyregexp.New(`^[ -]?(?:` + tokenWord + perSecond + `|t/s\b|tps\b|TPS\b|tok/sec\b)`)},
	{tokenRate, 1.0 / 60, lazyregexp.New(`^[ -]?` + tokenWord + perMinute)},
	{requestRate, 1, lazyregexp.New(`^ ?(?:` + requestWord + perSecond + `|(?i:rps|qps)\b)`)},
	{requestRate, 1.0 / 60, lazyregexp.New(`^ ?(?:` + requestWord + perMinute + `|(?i:rpm)\b)`)},
	{tokenRate, 1.0 / 3600, lazyregexp.New(`^[ -]?` + tokenWord + perHour)},
	{requestRate, 1.0 / 3600, lazyregexp.New(`^ ?` + requestWord + perHour)},
	{bandwidth, 1000, lazyregexp.New(`^ ?TB(?:/s| per second)`)},
	{bandwidth, 1, lazyregexp.New(`^ ?GB(?:/s| per second)`)},
	{compute, 1, lazyregexp.New(`^ ?TFLOPs?(?:/s)?\b|^ ?TFLOPS\b`)},
	{compute, 1000, lazyregexp.New(`^ ?PFLOPs?(?:/s)?\b|^ ?PFLOPS\b`)},
	{points, 1, lazyregexp.New(`^ ?(?i:%? ?(?:percentage[- ]points?|prozentpunkte?n?)|% ?points?\b|pp\b|ppt\b)|^ ?个百分点`)},
	{percent, 1, lazyregexp.New(`^ ?(?:%|(?i:percent|per cent|prozent)\b)`)},
	{duration, 1e-6, lazyregexp.New(`^ ?(?:ns|nanoseconds?)\b`)},
	{duration, 1e-3, lazyregexp.New(`^ ?(?:µs|μs|us|microseconds?)\b|^ ?微秒`)},
	{duration, 1, lazyregexp.New(`^[ -]?(?i:ms|msec|millis(?:econds?)?|milliseconds?|millisekunden)\b|^ ?毫秒`)},
	{duration, 1000, lazyregexp.New(`^[ -]?(?i:s|secs?|seconds?|sekunden?)\b|^ ?秒`)},
	{duration, 60_000, lazyregexp.New(`^[ -]?(?i:mins?|minutes?|minuten)\b|^ ?分钟`)},
	{duration, 3_600_000, lazyregexp.New(`^[ -]?(?i:hours?|hrs?|stunden?)\b|^ ?小时`)},
	{memory, 1.073741824, lazyregexp.New(`^ ?GiB\b`)},
	{memory, 1, lazyregexp.New(`^ ?GB\b`)},
	{memory, 0.001, lazyregexp.New(`^ ?Mi?B\b`)},
	{memory, 1000, lazyregexp.New(`^ ?Ti?B\b`)},
	{devices, 1, lazyregexp.New(`^(?:[ -]?[x×])?[ -](?:(?i:nvidia|amd) )?(?:(?i:gpus?|cards?|devices?|accelerators?|npus?)\b|[A-Z]{1,3}[0-9]{2,4}[A-Z]{0,2}s?\b)|^[x×] ?[A-Z]{1,3}[0-9]{2,4}`)},
	{factor, 1, lazyregexp.New(`^ ?[x×](?:[^A-Za-z0-9]|$)|^[- ]fold\b|^ times (?i:as|faster|higher|more|the|slower|lower|better)\b|^ ?倍`)},
	{tokens, 1, lazyregexp.New(`^[ -](?i:(?:(?:output|input|prompt|generated|completion|new|total|decoded) )?tokens?)\b`)},
	{users, 1, lazyregexp.New(`^[ -](?i:(?:concurrent |simultaneous |parallel |active )(?:users?|clients?|streams?|sequences?|requests?|sessions?)|users?|clients?|streams?)\b`)},
	{requests, 1, lazyregexp.New(`^ (?i:(?:[A-Za-z]+ )?(?:requests|prompts|queries|conversations))\b`)},
}

var (
	figureStart = lazyregexp.New(`[-+−]?(?:[0-9]{1,3}(?:,[0-9]{3})+(?:\.[0-9]+)?|[0-9]+(?:\.[0-9]+)?)`)
	suffix      = lazyregexp.New(`^((?:[kKM]|[KMG]i))\b|^ ?(万|(?i:thousand|million|billion|mn|bn))\b|^ ?(万)|^ ?([kKM])(?: ?(?i:tok|tks?\b|t/s|tps|req))|^(m)(?: (?i:tok|req|prompts|queries))`)
	multiples   = map[string]float64{"k": 1e3, "m": 1e6, "ki": 1 << 10, "mi": 1 << 20, "gi": 1 << 30, "万": 1e4, "thousand": 1e3, "million": 1e6, "mn": 1e6, "billion": 1e9, "bn": 1e9}
	ofOne       = lazyregexp.New(`^(?i: ?(?:/|per|pro|for each|each) ?(?:(user|request|req|stream|sequence|client|session)|(gpu|device|card|npu|chip|accelerator|h100|h200|a100|b200))s?\b| (?:on |for |from )?each (?:(user|client|stream|request)|(gpu|device|card))\b)`)
	eachBefore  = lazyregexp.New(`(?i)\b(?:(?:each|every|one|a single) (user|client|stream|request)|(?:each|every) (gpu|device|card)|(users|clients|streams|requests|sessions) each|(gpus|devices|cards) each|each of (?:the |our |all )?[0-9]+ (?:(?:concurrent )?(users|clients|streams|requests|sessions)|(gpus|devices|cards)))\b[^0-9]{0,24}$`)
	aboutWords  = lazyregexp.New(`(?i)(?:[~≈]|\b(?:about|around|approximately|approx\.?|roughly|some|circa|ca\.|etwa|rund|ungefähr|order of)|约|大约)\s*(?:an? |the )?$`)
	leastWords  = lazyregexp.New(`(?i)(?:[>≥]|\b(?:more than|over|at least|above|exceed(?:s|ing)?|beyond|no less than|mehr als|über|mindestens|well over|better than)|超过)\s*(?:an? )?$`)
	mostWords   = lazyregexp.New(`(?i)(?:[<≤]|\b(?:up to|at most|less than|under|below|as much as|bis zu|höchstens|no more than|as high as|within)|最多|高达)\s*(?:an? )?$`)
	nearlyWords = lazyregexp.New(`(?i)(?:\b(?:nearly|almost|close to|just under|just shy of|knapp)|近|接近)\s*(?:an? )?$`)
	rangeAfter  = lazyregexp.New(`^ ?(?:[-–—…~]|\.\.+) ?[0-9]`)
	rangeWords  = lazyregexp.New(`(?:[0-9%xsKkM] ?(?:[-–—…~]|\.\.+) ?|±\s?)$`)
)

// quantitiesIn are the figures of a sentence.
func quantitiesIn(text string) []quantity {
	var out []quantity
	const most = 60 // figures of a sentence; one with more is a list
	for _, at := range figureStart.FindAllStringIndex(text, -1) {
		start, end := at[0], at[1]
		if len(out) >= most {
			return nil
		}
		// A dash between a word or a figure and this one is no sign.
		sign := text[start] == '+' || text[start] == '-' || strings.HasPrefix(text[start:], "−")
		if sign && start > 0 && !strings.ContainsAny(text[start-1:start], " (~≈,|[:") {
			start += len(text[start:end]) - len(strings.TrimLeft(text[start:end], "+-−"))
			sign = false
		}
		if partOfName(text, at[0], start, end) {
			continue
		}
		found, ok := readQuantity(text, start, end)
		if !ok {
			continue
		}
		found.signed = sign
		out = append(out, found)
	}
	return out
}

var (
	nameBefore = lazyregexp.New(`[A-Za-z0-9_.#:/@]$|[A-Za-z]-$|[0-9][,.]$|\b(?:v|version|step|section|table|fig(?:ure)?|port|line|row|pr|issue|seed) ?$`)
	nameAfter  = lazyregexp.New(`^(?:[:_][0-9A-Za-z]|\.[0-9]|,[0-9]|-[0-9]{2}-|[A-Za-z]+[0-9]|/[0-9]|B\b)`)
	// "8xH200" is eight cards.
	joinedCards = lazyregexp.New(`^[x×][A-Z]{1,3}[0-9]{2,4}\b`)
	wordBefore  = lazyregexp.New(`[A-Za-z_.:/]$`)
	currency    = lazyregexp.New(`[$€£]$`)
)

// partOfName reports whether digits belong to a name, a version, a date or a time of day.
func partOfName(text string, first, start, end int) bool {
	before := text[:start]
	if first == start && nameBefore.MatchString(strings.ToLower(before)) {
		return true
	}
	if joinedCards.MatchString(text[end:]) {
		return false
	}
	return (first != start && wordBefore.MatchString(text[:first])) || nameAfter.MatchString(text[end:])
}

// readQuantity reads the unit behind a figure and the words before it.
func readQuantity(text string, start, end int) (quantity, bool) {
	number, ok := document.ParseNumber(strings.TrimPrefix(text[start:end], "+"))
	if !ok {
		return quantity{}, false
	}
	found := quantity{number: number, start: start, end: end}
	found.thousands, found.unitScale = 1, 1
	if match := suffix.FindStringSubmatchIndex(text[end:]); match != nil {
		for group := 2; group < len(match); group += 2 {
			if match[group] >= 0 {
				found.thousands = multiples[strings.ToLower(text[end+match[group]:end+match[group+1]])]
				found.end = end + match[group+1]
			}
		}
	}
	rest := text[found.end:]
	for _, unit := range units {
		match := unit.pattern.FindString(rest)
		if match == "" {
			continue
		}
		found.kind, found.unit = unit.kind, strings.TrimSpace(match)
		if unit.kind == factor || unit.kind == devices {
			match = strings.TrimRight(match, ".,;:)( \n")
		}
		found.end += len(match)
		found.unitScale = unit.scale
		break
	}
	before := text[:start]
	found.printed = strings.TrimSpace(text[start:found.end])
	if sign := currency.FindString(before); sign != "" {
		found.kind, found.printed = money, sign+found.printed
	}
	found.read(text, before)
	found.number = scaled(found.number, found.thousands*found.unitScale, found.about)
	return found, true
}

// read reads the words around a figure.
func (q *quantity) read(text, before string) {
	q.about, q.least, q.most, q.nearly = aboutWords.MatchString(before), leastWords.MatchString(before), mostWords.MatchString(before), nearlyWords.MatchString(before)
	q.ranged = rangeAfter.MatchString(text[q.end:]) || rangeWords.MatchString(before)
	if match := ofOne.FindStringSubmatch(text[q.end:]); match != nil {
		q.end += len(match[0])
		q.per = "device"
		if match[1]+match[3] != "" {
			q.per = "user"
		}
	} else if match := eachBefore.FindStringSubmatch(before); match != nil && (q.kind == tokenRate || q.kind == requestRate) {
		q.per = "device"
		if match[1]+match[3]+match[5] != "" {
			q.per = "user"
		}
	}
}

// trusted is how many digits of a whole figure of prose are taken as meant.
const trusted = 3

// scaled is a figure of prose in its base unit: a whole one is rounded to its last digit, and
// zeros behind the digits that people trust may be rounding too; "about" makes all zeros so.
func scaled(number document.Number, scale float64, about bool) document.Number {
	digits := strings.TrimLeft(strings.ReplaceAll(number.Text, ",", ""), "+-−")
	if !strings.Contains(digits, ".") {
		number.Half = 0.5
		zeros := len(digits) - len(strings.TrimRight(digits, "0"))
		if !about {
			zeros = min(zeros, max(0, len(digits)-trusted))
		}
		number.Half *= math.Pow10(min(zeros, len(digits)-1))
	}
	if about {
		number.Half = math.Max(number.Half, 0.05*math.Abs(number.Value))
	}
	number.Value, number.Half = number.Value*scale, number.Half*scale
	return number
}

// short is a figure as printed, with its suffix of thousands and without its unit.
func (q *quantity) short() string {
	if q.thousands == 1 || !strings.HasPrefix(q.printed, q.number.Text) {
		return q.number.Text
	}
	return strings.TrimSpace(strings.TrimSuffix(q.printed, q.unit))
}

// currencyOf is the sign of a sum of money as printed; empty for none.
func currencyOf(printed string) string {
	return printed[:len(printed)-len(strings.TrimLeft(printed, "$€£"))]
}

// isChange reports whether a figure says by how much something differs.
func (q *quantity) isChange() bool { return q.kind == percent || q.kind == points || q.kind == factor }

// span is what a figure can mean.
func (q *quantity) span() document.Span { return q.number.Span() }
