package statement

// Facts of one run: what a sentence, a row or a column of a table, or a list of keys and
// values says of it, each by its role. Only a role that has one value in a set is used, as
// sets with two are about two runs.

import (
	"strings"

	"ossian/internal/lab/verify/document"
	"ossian/internal/lazyregexp"
)

// A role is what a figure is of in a run.
type role string

// The roles; latencies have a statistic too.
const (
	requestCount role = "requests"
	runTime      role = "duration"
	inputTotal   role = "input tokens"
	outputTotal  role = "output tokens"
	outputLength role = "output tokens of a request"
	requestSpeed role = "request throughput"
	inputSpeed   role = "input throughput"
	outputSpeed  role = "output throughput"
	totalSpeed   role = "total throughput"
	anySpeed     role = "throughput" // of which tokens is not said
	userSpeed    role = "throughput per user"
	deviceSpeed  role = "throughput per device"
	deviceCount  role = "devices"
	userCount    role = "concurrency"
	firstToken   role = "TTFT"
	perToken     role = "TPOT"
	betweenGaps  role = "ITL"
	wholeRequest role = "E2E latency"
	otherTime    role = "a time"
	price        role = "price per hour"
	millionPrice role = "price per million tokens"
)

// A fact is one figure with its role.
type fact struct {
	role      role
	statistic string // mean, median, p90, min, max; "" = not said
	number    document.Number
	printed   string
	bound     bool // "up to", "about": no figure to compute with
	each      bool // a price: of one device
	sum       bool // calls itself the total of several
	line      int
}

// facts are what is said of one run.
type facts struct {
	line  int
	place string
	text  string // the sentence, or the row
	all   []fact
}

// one is the only fact of a role; false where there is none, or another value too.
func (f *facts) one(wanted role, statistics ...string) (fact, bool) {
	var found fact
	count := 0
	for _, candidate := range f.all {
		if candidate.role != wanted || candidate.bound {
			continue
		}
		fits := len(statistics) == 0
		for _, statistic := range statistics {
			fits = fits || candidate.statistic == statistic
		}
		if !fits || (count > 0 && candidate.number.Span().Meets(found.number.Span())) {
			continue
		}
		found = candidate
		count++
	}
	return found, count == 1
}

// has reports whether a role has any fact, bounded ones too.
func (f *facts) has(wanted role) bool {
	for i := range f.all {
		if f.all[i].role == wanted {
			return true
		}
	}
	return false
}

// Words of latencies and of statistics in labels.
var (
	latencies = []struct {
		role    role
		pattern *lazyregexp.Regexp
	}{
		{firstToken, lazyregexp.New(`(?i)\bttft\b|time[- ]to[- ]first|first[- ]token|首字|首 ?token`)},
		{perToken, lazyregexp.New(`(?i)\btpot\b|time per (?:output )?token|per[- ]token latency|ms/token`)},
		{betweenGaps, lazyregexp.New(`(?i)\bitl\b|inter[- ]?token|token[- ]to[- ]token|\btbt\b`)},
		{wholeRequest, lazyregexp.New(`(?i)\be2el?\b|end[- ]to[- ]end|request latency|total latency|\blatency\b|response time`)},
	}
	partLatency = lazyregexp.New(`(?i)(?:prefill|decode|step|kernel|network|token|queue\w*|scheduling|attention|load\w*|start\w*|link|memory|tool) (?:latency|time)`)
	statistics  = []struct {
		name    string
		pattern *lazyregexp.Regexp
	}{
		{"mean", lazyregexp.New(`(?i)\b(?:mean|average|avg\.?|durchschnitt\w*|mittel\w*)\b|平均`)},
		{"median", lazyregexp.New(`(?i)\b(?:median|p50)\b|中位`)},
		{"p75", lazyregexp.New(`(?i)\bp75\b`)}, {"p90", lazyregexp.New(`(?i)\bp90\b`)}, {"p95", lazyregexp.New(`(?i)\bp95\b`)},
		{"p99.9", lazyregexp.New(`(?i)\bp99\.9\b|\bp999\b`)}, {"p99", lazyregexp.New(`(?i)\bp99\b`)}, {"p25", lazyregexp.New(`(?i)\bp25\b`)},
		{"min", lazyregexp.New(`(?i)\b(?:min\.?|minimum|lowest|fastest)\b`)}, {"max", lazyregexp.New(`(?i)\b(?:max\.?|maximum|highest|slowest|worst(?:-case)?)\b`)},
	}
	otherStatistic = lazyregexp.New(`(?i)\bp[0-9]{1,2}\b|std|dev\b|variance|\bcv\b|jitter|\bmad\b|stdev|iqr`)
)

// statisticOf is the statistic that a label names; "" for none, "?" for one that is not known.
func statisticOf(label string) string {
	for _, statistic := range statistics {
		if statistic.pattern.MatchString(label) {
			return statistic.name
		}
	}
	if otherStatistic.MatchString(label) {
		return "?"
	}
	return ""
}

// latencyOf is the latency that a label names; "" for none.
func latencyOf(label string) role {
	for _, latency := range latencies {
		if latency.pattern.MatchString(label) {
			if latency.role == wholeRequest && partLatency.MatchString(label) {
				return otherTime
			}
			return latency.role
		}
	}
	return ""
}

// Words of rates and counts in labels.
var (
	inputWord   = lazyregexp.New(`(?i)\b(?:input|prompt|prefill|pp[0-9]+)\b`)
	outputWord  = lazyregexp.New(`(?i)\b(?:output|generat\w+|decod\w+|completion)\b`)
	bothWord    = lazyregexp.New(`(?i)total[ -]token|total tok|total throughput|total TPS|input *(?:\+|and|/) *output|input and output|overall token`)
	userWord    = lazyregexp.New(`(?i)(?:per[ -]|/ ?)(?:user|request|req|stream|client|session|seq\w*)\b|interactivity`)
	deviceWord  = lazyregexp.New(`(?i)(?:per[ -]|/ ?)(?:gpu|device|card|npu|chip|accelerator)s?\b`)
	tokenSpeed  = lazyregexp.New(`(?i)(?:tok(?:en)?s?|tks) ?(?:/|per) ?s|\btps\b|\bt/s\b|token throughput|tokens per second`)
	otherSpeeds = lazyregexp.New(`(?i)eval|peak|max\b|steady|speedup|accept|draft|request rate|target|offered|configured|ideal|theoretical|goodput|limit`)
	eachWord    = lazyregexp.New(`(?i)\b(?:each|apiece|per (?:request|prompt|query|answer)|length|long|every)\b`)
	inAll       = lazyregexp.New(`(?i)\b(?:in total|generated|produced|altogether|total|overall|written)\b`)
	inTime      = lazyregexp.New(`(?i)\b(?:in|took|takes|over|within|for|lasted|duration(?: of)?|elapsed|ran(?: for)?|run time(?: of)?|finish\w* in)[: ]*(?:about |exactly )?$`)
	limitWords  = lazyregexp.New(`(?i)concurren\w*|max_concurrency|in[- ]flight|users|clients|parallel\w*`)
)

// rateRole is the role of a rate of tokens by its label.
func rateRole(label string, per string) role {
	switch {
	case otherSpeeds.MatchString(label):
		return ""
	case per == "user" || userWord.MatchString(label):
		return userSpeed
	case per == "device" || deviceWord.MatchString(label):
		return deviceSpeed
	case bothWord.MatchString(label):
		return totalSpeed
	case outputWord.MatchString(label):
		return outputSpeed
	case inputWord.MatchString(label):
		return inputSpeed
	}
	return anySpeed
}

// A factReader reads the figures of a sentence one after the other.
type factReader struct {
	sentence *sentence
	last     role    // the latency that statistics listed behind it are of
	behind   bool    // statistics stand behind their figures
	listed   float64 // the unit of times in the head of the sentence, in ms; 0 without one
}

// factsIn reads a sentence. A latency that is named once, or in the head of a list, holds for
// the statistics listed behind it.
func factsIn(s *sentence) facts {
	out := facts{line: s.line, place: "sentence", text: s.text}
	reader := newFactReader(s)
	for i := range s.quantities {
		if found := reader.read(i); found.role != "" && found.statistic != "?" {
			out.all = append(out.all, found)
		}
	}
	return out
}

// listHead is the head of a list of figures: "Latency over 500 requests:", "TTFT (ms):".
var listHead = lazyregexp.New(`^[^:=;]{3,80}[:=] `)

// newFactReader reads the head of a sentence.
func newFactReader(s *sentence) factReader {
	reader := factReader{sentence: s}
	head := listHead.FindString(s.text)
	if head == "" || statisticOf(head) != "" {
		return reader
	}
	reader.last = latencyOf(head)
	if scale, ok := timeScale(head); ok && reader.last != "" && headUnit.MatchString(head) {
		reader.listed = scale
	}
	return reader
}

var headUnit = lazyregexp.New(`[(\[,] ?(?:in )?(?:ms|s|sec|seconds|us|µs)[)\]]? ?[:=] $|\bin (?:ms|seconds|milliseconds) ?[:=] $`)

// read is the fact of one figure; without a role where it has none.
func (r *factReader) read(index int) fact {
	s := r.sentence
	q := &s.quantities[index]
	before, after := windows(s, index)
	found := fact{number: q.number, printed: q.printed, line: s.line, bound: q.ranged || q.least || q.most || q.nearly || q.signed}
	switch q.kind {
	case duration:
		found.role, found.statistic = r.time(before, after)
	case tokenRate:
		found.role = rateRole(before+" "+q.unit+" "+after, perEach(s, q))
		found.sum = saysTotal(s, q)
	case requestRate:
		found.role = requestSpeed
		if q.per != "" || otherSpeeds.MatchString(before) {
			found.role = ""
		}
	case requests:
		found.role = requestCount
		if strings.Contains(q.unit, "concurrent") || limitWords.MatchString(q.unit+" "+before) {
			found.role = userCount
		} else if otherSpeeds.MatchString(before) || strings.Contains(after, "fail") {
			found.role = ""
		}
	case users:
		found.role = userCount
	case devices:
		found.role = deviceCount
	case tokens:
		found.role = tokenRole(before, q.unit, after)
	case money:
		found.role = priceRole(q, s.text[:q.start], s.text[q.end:])
		found.each = found.role == price && (q.per == "device" || ofDevice.MatchString(s.text[q.end:]))
	case bare:
		r.readBare(&found, q, before, after)
	}
	return found
}

// time is the role and the statistic of a time.
func (r *factReader) time(before, after string) (found role, statistic string) {
	found, statistic, r.behind = timeRole(before, after, r.last, r.behind)
	if found != runTime && found != "" {
		r.last = found
	}
	return found, statistic
}

// readBare reads a figure without a unit: a concurrency, a time whose unit the head of the
// list has, or the total of rates that are given for one of many.
func (r *factReader) readBare(found *fact, q *quantity, before, after string) {
	if concurrencyBefore.MatchString(before) {
		found.role = userCount
		return
	}
	if r.listed > 0 && statisticOf(before) != "" {
		found.role, found.statistic = r.time(before, after)
		found.number = times(found.number, r.listed)
		return
	}
	if !saysTotal(r.sentence, q) {
		return
	}
	for i := range r.sentence.quantities {
		rate := &r.sentence.quantities[i]
		if rate.kind == tokenRate && rate.start < q.start && perEach(r.sentence, rate) != "" {
			found.role, found.sum = anySpeed, true
			found.number = times(q.number, rate.unitScale)
		}
	}
}

// saysTotal reports whether a figure calls itself the total.
func saysTotal(s *sentence, q *quantity) bool {
	return totalBefore.MatchString(s.text[:q.start]) || totalAfter.MatchString(s.text[q.end:])
}

// perEach is of one of what a rate is: "8 GPUs deliver 1,000 tok/s each".
func perEach(s *sentence, q *quantity) string {
	if q.per != "" || !strings.HasPrefix(s.text[q.end:], " each") {
		return q.per
	}
	for i := range s.quantities {
		switch s.quantities[i].kind {
		case devices:
			return "device"
		case users:
			return "user"
		}
	}
	return "user"
}

var concurrencyBefore = lazyregexp.New(`(?i)(?:concurrency|in[- ]flight|max_concurrency|max-concurrency|clients|users)(?: limit)? ?(?:of|is|=|:)? ?$`)

// windows are the words before and behind a figure, up to the next figure or the next stop.
func windows(s *sentence, index int) (before, after string) {
	start, end := 0, len(s.text)
	if index > 0 {
		start = s.quantities[index-1].end
	}
	if index+1 < len(s.quantities) {
		end = s.quantities[index+1].start
	}
	before = s.text[start:s.quantities[index].start]
	if at := strings.LastIndexAny(before, ",;("); at >= 0 && index > 0 {
		before = before[at+1:]
	}
	after = s.text[s.quantities[index].end:end]
	if at := windowStop.FindStringIndex(after); at != nil {
		after = after[:at[0]]
	}
	return before, after
}

// windowStop ends what is said of the figure before it.
var windowStop = lazyregexp.New(`[,;()/]|\b(?:and|with|at|while|but|or|on|where)\b`)

// timeRole is the role and the statistic of a time. The statistic may stand right behind it;
// then it does so in all of the sentence.
func timeRole(before, after string, last role, behind bool) (role, string, bool) {
	statistic := statisticOf(before)
	if right := statisticOf(after); (statistic == "" || behind) && right != "" && rightBehind.MatchString(after) {
		statistic, behind = right, true
	} else if behind {
		statistic = ""
	}
	if named := latencyOf(before); named != "" {
		return named, statistic, behind
	}
	if named := latencyOf(after); named != "" {
		return named, statistic, behind
	}
	switch {
	case inTime.MatchString(before):
		return runTime, "", behind
	case statistic != "" && last != "":
		return last, statistic, behind
	}
	return "", statistic, behind
}

var rightBehind = lazyregexp.New(`(?i)^ ?\(?(?:p[0-9]{2}|mean|median|avg|average|min|max)\b`)

// tokenRole is the role of a count of tokens.
func tokenRole(before, unit, after string) role {
	label := before + " " + unit + " " + after
	output, input := outputWord.MatchString(label), inputWord.MatchString(unit+" "+after)
	switch {
	case eachWord.MatchString(before + " " + after):
		if output && !input {
			return outputLength
		}
	case inAll.MatchString(label) || generatedBefore.MatchString(before):
		if input && !output {
			return inputTotal
		}
		if (output || generatedBefore.MatchString(before)) && !input {
			return outputTotal
		}
	case outputWord.MatchString(unit):
		return outputLength
	}
	return ""
}

var generatedBefore = lazyregexp.New(`(?i)\b(?:generated|produced|wrote|emitted)\b[^0-9]{0,20}$`)

// priceRole is the role of a sum of money by the words around it.
func priceRole(q *quantity, before, after string) role {
	switch {
	case regexpHour.MatchString(after), q.per == "device" && deviceHour.MatchString(after):
		return price
	case regexpMillion.MatchString(after), millionBefore.MatchString(before):
		return millionPrice
	}
	return ""
}

var (
	regexpHour    = lazyregexp.New(`(?i)^ ?(?:/|per|an|a) ?(?:gpu[- ]?)?(?:hour|hr?\b)`)
	ofDevice      = lazyregexp.New(`(?i)^ ?(?:/|per) ?gpu|^ ?(?:/|per|an) ?(?:hour|hr?) (?:each|per gpu|/ ?gpu)`)
	deviceHour    = lazyregexp.New(`(?i)^[- /]?(?:hours?|hr?)\b`)
	regexpMillion = lazyregexp.New(`(?i)^ ?(?:/|per|for|a|for a) ?(?:1 ?)?(?:m\b|million|mtok)`)
	millionBefore = lazyregexp.New(`(?i)\b(?:(?:a|one|1|per|each) ?(?:m|million)|1m) (?:(?:output|input|generated|total) )?tok(?:en)?s?\b[^0-9;.$€£]{0,24}[$€£]$`)
)

// labelFact reads a figure by the label of its row, its column or its key, and by its unit.
func labelFact(label string, number document.Number, unit string) (fact, bool) {
	found := fact{number: number.Rounded(false), printed: strings.TrimSpace(number.Text + " " + unit), line: number.Line}
	whole := label + " " + unit
	found.statistic = statisticOf(label)
	if found.statistic == "?" || skippedLabel.MatchString(label) {
		return found, false
	}
	if inThousands.MatchString(whole) {
		found.number = times(found.number, 1000)
	}
	if latency := latencyOf(label); latency != "" {
		scale, ok := timeScale(whole)
		if !ok {
			return found, false
		}
		found.role, found.number = latency, times(found.number, scale)
		return found, true
	}
	if scale, ok := timeScale(whole); ok && found.statistic != "" && statisticAlone.MatchString(label) {
		found.role, found.number = otherTime, times(found.number, scale)
		return found, true
	}
	switch {
	case deviceLabel.MatchString(label):
		found.role = deviceCount
	case tokenSpeed.MatchString(whole):
		found.role = rateRole(whole, "")
	case requestLabel.MatchString(whole) && !otherSpeeds.MatchString(label) && !userWord.MatchString(strings.ReplaceAll(whole, "req/s", "")) && !deviceWord.MatchString(whole):
		found.role = requestSpeed
	case runLabel.MatchString(label):
		scale, ok := timeScale(whole)
		if !ok {
			scale = 1000 // tools print it in seconds
		}
		found.role, found.number = runTime, times(found.number, scale)
	case limitLabel.MatchString(label):
		found.role = userCount
	case countLabel.MatchString(label):
		found.role, found.number = requestCount, number
	case outputTotalLabel.MatchString(label):
		found.role, found.number = outputTotal, number
	case inputTotalLabel.MatchString(label):
		found.role, found.number = inputTotal, number
	case outputLengthLabel.MatchString(label):
		found.role = outputLength
	}
	return found, found.role != ""
}

var (
	inThousands       = lazyregexp.New(`\b[kK] ?(?:tok|tks?\b|t/s|TPS|req)|\(k\)|\b(?i:in thousands)\b`)
	statisticAlone    = lazyregexp.New(`(?i)^\W*(?:p[0-9]{2}|median|mean|avg\.?|average|min|max)\W*(?:\(? ?\[?(?:ms|s|sec|seconds)\]? ?\)?)?\W*$`)
	skippedLabel      = lazyregexp.New(`(?i)speedup|gain|improve|change|delta|Δ|diff|\bratio\b|increase|reduction|%|normali[sz]ed|relative|\bvs\b`)
	deviceLabel       = lazyregexp.New(`(?i)^\W*(?:(?:#|no\.|num(?:ber of)?|total) ?)?(?:gpus?|devices|accelerators|cards)(?: count)?\W*$`)
	requestLabel      = lazyregexp.New(`(?i)(?:reqs?|requests?|queries|prompts) ?(?:/|per) ?s|request throughput|\brps\b|\bqps\b`)
	runLabel          = lazyregexp.New(`(?i)^\W*(?:(?:benchmark|run|total|wall(?:[- ]clock)?|elapsed|test) )?(?:duration|run ?time|wall(?:[- ]clock)? time|elapsed(?: time)?)\b`)
	limitLabel        = lazyregexp.New(`(?i)^\W*(?:max(?:imum)?\.? |request )?(?:concurrency|concurrent (?:users|requests|clients)|users|clients)\W*$`)
	countLabel        = lazyregexp.New(`(?i)^\W*(?:(?:successful|completed|num(?:ber of)?|#|total) )?(?:requests|prompts|queries)(?: completed| count)?(?: \(requests\))?\W*$|^\W*request count`)
	outputTotalLabel  = lazyregexp.New(`(?i)^\W*(?:total )?(?:generated|output) tokens\W*$|^\W*tokens generated\W*$|^\W*total (?:generated|output) tokens`)
	inputTotalLabel   = lazyregexp.New(`(?i)^\W*(?:total )?(?:input|prompt) tokens\W*$|^\W*total (?:input|prompt) tokens`)
	outputLengthLabel = lazyregexp.New(`(?i)output (?:sequence )?len|\bosl\b|output tokens (?:per|/) ?req`)
	milliseconds      = lazyregexp.New(`(?i)\bms\b|millisec|毫秒`)
	seconds           = lazyregexp.New(`(?i)[\[( ]s(?:ec(?:onds?)?)?[\]) ]|[\[( ]s(?:ec(?:onds?)?)?$|\bseconds\b|\bsec\b`)
	microseconds      = lazyregexp.New(`(?i)µs|μs|\bus\b`)
)

// timeScale is how many milliseconds the unit of a label has; false where none is named.
func timeScale(label string) (float64, bool) {
	switch {
	case milliseconds.MatchString(label):
		return 1, true
	case microseconds.MatchString(label):
		return 1e-3, true
	case seconds.MatchString(label):
		return 1000, true
	}
	return 0, false
}

// times is a figure in another unit.
func times(number document.Number, scale float64) document.Number {
	number.Value, number.Half = number.Value*scale, number.Half*scale
	return number
}
