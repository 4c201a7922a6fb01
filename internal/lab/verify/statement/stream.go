package statement

// V-ROOF for one stream: a decoded token reads the weights that it uses, so that one request
// at a time, and each user of many, is never faster than the memory's bandwidth by those
// bytes. What is not said is taken in favour of the document: the fastest card of a name, the
// smallest weights, no bytes of the cache, all devices together.

import (
	"fmt"
	"math"
	"strings"

	"ossian/internal/lab/verify/document"
	"ossian/internal/lazyregexp"
)

var (
	severalTokens = lazyregexp.New(`(?i)specul|eagle|\bdraft|\bmtp\b|medusa|lookahead|n-?gram|multi-token|lookup decod|early exit|layer skip|diffusion|pruned|sparsity|sparse|jacobi|parallel decod|offload`)
	hypothetical  = lazyregexp.New(`(?i)\b(?:theoretical\w*|bound|limit|roofline|would|ideal\w*|expect\w*|estimat\w*|target|goal|cannot|can't|not|never|impossible|claims?|at most|upper)\b`)
	promptSpeed   = lazyregexp.New(`(?i)\b(?:input|prompts?|prefill|pp[0-9]+|total|ingest\w*|combined|aggregate)\b`)
	weightBits    = lazyregexp.New(`(?i)\bi?q([1-8])(?:_[a-z0-9_]+)?\b|\b([1-8])[- ]?bits?\b|\b([0-9](?:\.[0-9]+)?) ?bpw\b`)
	weightNames   = lazyregexp.New(`(?i)\b(?:(mxfp4|nvfp4|fp4|int4|awq|gptq|w4a16|w4a8|nf4)|(fp8|int8|w8a8|w8a16)|(bf16|fp16|bfloat16|float16|half precision))\b`)
	parallelSize  = lazyregexp.New(`(?i)\btp ?(?:size)? ?[=:]? ?([0-9]{1,2})\b|tensor[- ]parallel(?:ism|[- ]size)?(?: of| =|=|:| ) ?([0-9]{1,2})\b|-tp ([0-9]{1,2})\b`)
	countedCards  = lazyregexp.New(`(?i)\b([0-9]{1,3}) ?[x×] ?(?:nvidia |amd )?[a-z]|\b([0-9]{1,3}) (?:nvidia |amd )?(?:gpus?|cards?|devices?|[a-z]{1,3}[0-9]{2,4}[a-z]{0,2}s)\b|[a-z0-9] ?[x×] ?([0-9]{1,2})\b|\b(two|dual|three|four|eight|quad)\b`)
	manyCards     = lazyregexp.New(`(?i)\b(?:dgx|hgx|cluster|multi-?gpu|nodes|nvl72|nvlink|gpus)\b`)
	generatesOne  = lazyregexp.New(`(?i)\btg ?[0-9]{1,5}\b`)
	// Families whose names tell the parameters of all experts, not those of a token.
	mixtures = lazyregexp.New(`(?i)deepseek|glm|mixtral|granite|kimi|minimax|ernie|hunyuan|llama-?4|scout|maverick|qwen3[.-](?:next|5)|moe`)
)

// bestOf are bandwidths in GB/s of the fastest card that a name stands for, where the usual
// one is slower.
var bestOf = map[string]float64{"H100": 3938, "V100": 1134, "RTX 3090": 1008, "Gaudi": 3700, "H20": 4800, "A100": 2039, "L4": 300}

// A reader is what one stream runs on.
type reader struct {
	model   document.ModelName
	device  document.DeviceName
	count   float64
	bits    float64 // of a weight
	said    bool    // bits are named
	context string
}

// readerOf gathers what a text runs on: from itself, from the headings above it, and from the
// rest of the document where that names one thing only.
func (c *checker) readerOf(text string, line int) (reader, bool) {
	out := reader{context: text}
	for _, heading := range c.doc.Above(line) {
		out.context += "\n" + heading.Text
	}
	title := c.doc.Title()
	if title != text && !strings.Contains(text, title) {
		out.context += "\n" + title
	}
	var ok bool
	if out.model, ok = onlyModel(text, out.context, c.models); !ok {
		return out, false
	}
	if out.device, ok = onlyDevice(text, out.context, c.doc.HeadText()+"\n"+c.all); !ok || out.device.Bandwidth == 0 {
		return out, false
	}
	if best := bestOf[out.device.Text]; best > 0 {
		out.device.Bandwidth = best
	}
	out.bits, out.said = bitsIn(text)
	if !out.said {
		out.bits, out.said = bitsIn(out.context)
	}
	if !out.said {
		out.bits, out.said = bitsIn(c.all)
	}
	out.count = c.devicesOf(text, out.context)
	return out, true
}

// documentText is the text of a document that is looked at for what it runs on, and the models that
// it names.
func documentText(doc *document.Document) (all string, models []document.ModelName) {
	const most = 2_000 // lines
	lines := doc.Lines[:min(len(doc.Lines), most)]
	for _, line := range lines {
		models = append(models, document.ModelsIn(line)...)
	}
	return strings.Join(lines, "\n"), models
}

// onlyModel is the one model of the nearest text that names any.
func onlyModel(text, context string, all []document.ModelName) (document.ModelName, bool) {
	for _, models := range [][]document.ModelName{document.ModelsIn(text), document.ModelsIn(context), all} {
		if len(models) == 0 {
			continue
		}
		for _, other := range models[1:] {
			if !other.Matches(models[0]) {
				return document.ModelName{}, false
			}
		}
		return models[0], true
	}
	return document.ModelName{}, false
}

// onlyDevice is the one device of the nearest text that names any.
func onlyDevice(texts ...string) (document.DeviceName, bool) {
	for _, text := range texts {
		if devices := document.DevicesIn(text); len(devices) > 0 {
			return devices[0], len(devices) == 1
		}
	}
	return document.DeviceName{}, false
}

// bitsIn are the bits of a weight that a text names, the least where it names several.
func bitsIn(text string) (bits float64, said bool) {
	bits = math.Inf(1)
	for _, match := range weightBits.FindAllStringSubmatch(text, 50) {
		if value, ok := document.ParseNumber(match[1] + match[2] + match[3]); ok && value.Value > 0 {
			bits, said = math.Min(bits, value.Value), true
		}
	}
	for _, match := range weightNames.FindAllStringSubmatch(text, 50) {
		said = true
		switch {
		case match[1] != "":
			bits = math.Min(bits, 4)
		case match[2] != "":
			bits = math.Min(bits, 8)
		default:
			bits = math.Min(bits, 16)
		}
	}
	return bits, said
}

// devicesOf is how many devices share a model: as the text says, else the most that the
// document names anywhere.
func (c *checker) devicesOf(text, context string) float64 {
	most := countIn(text)
	switch {
	case most > 0:
		return most
	case oneDevice.MatchString(text) && !manyCards.MatchString(text):
		return 1
	}
	if most = countIn(context); most > 0 {
		return most
	}
	if oneDevice.MatchString(context) {
		return 1
	}
	if most = countIn(c.all); most > 0 {
		return most
	}
	if manyCards.MatchString(c.all) && !oneDevice.MatchString(c.all) {
		return 8
	}
	return 1
}

// countIn is the largest number of devices above one that a text names; 0 for none.
func countIn(text string) float64 {
	most := 0.0
	for _, match := range append(parallelSize.FindAllStringSubmatch(text, 50), countedCards.FindAllStringSubmatch(text, 50)...) {
		joined := strings.Join(match[1:], "")
		value, ok := document.ParseNumber(joined)
		if !ok {
			value.Value = map[string]float64{"two": 2, "dual": 2, "three": 3, "four": 4, "quad": 4, "eight": 8}[strings.ToLower(joined)]
		}
		if value.Value > 1 && value.Value <= 1024 {
			most = math.Max(most, value.Value)
		}
	}
	return most
}

// notRead is the share of a model's parameters that a token may not read: rows of the
// embedding that it does not look up.
const notRead = 0.1

// bound is how many tokens a second one stream can have at most, and how that is.
func (r *reader) bound(bits float64) (rate float64, how string) {
	_, active := r.model.Billions()
	reads := active * bits / 8 * (1 - notRead)
	if r.model.Family == "gptoss" {
		reads = r.model.BytesPerToken("") * 0.9
	}
	rate = r.device.Bandwidth * r.count / reads
	return rate, fmt.Sprintf("at least %.1f GB per token at %.3g bits a weight allow %.0f tok/s on %.0f × %.2f TB/s (%s)", reads, bits, rate, r.count, r.device.Bandwidth/1000, r.device.Text)
}

// checkStreams checks what sentences, rows and blocks say of one stream.
func (c *checker) checkStreams(paragraphs []paragraph) {
	if len(c.doc.Lines) == 0 || severalTokens.MatchString(c.all) {
		return // several tokens a step, or weights that are not read
	}
	for p := range paragraphs {
		around := ""
		for i := range paragraphs[p].sentences {
			around += paragraphs[p].sentences[i].text + " "
		}
		for i := range paragraphs[p].sentences {
			c.checkStream(&paragraphs[p].sentences[i], around)
		}
	}
	for t := range c.doc.Tables {
		c.checkStreamRows(&c.doc.Tables[t])
	}
	for _, block := range c.doc.Blocks {
		if most, _ := c.doc.AtOnce(block); most == 1 && block.Has("output_throughput") {
			about := c.doc.ModelOf(block)
			if block.Server != nil {
				about += " " + block.Server.Text
			}
			c.checkSpeed(block.Values["output_throughput"].Span().Low, "output "+block.Values["output_throughput"].Text+" tok/s, one request at a time", block.Name, about, block.LineOf("output_throughput"))
		}
	}
}

// checkStream checks the rates of one stream in a sentence, and what a kernel is said to read.
func (c *checker) checkStream(s *sentence, around string) {
	if hypothetical.MatchString(s.text) {
		return
	}
	c.checkRead(s)
	f := factsIn(s)
	single := singleStream(s.text)
	if count, ok := f.one(userCount); ok && count.number.Value > 1 {
		single = false
	}
	for i := range f.all {
		found := &f.all[i]
		rate := 0.0
		switch {
		case found.bound && found.role != userSpeed:
			continue
		case found.role == userSpeed, (found.role == anySpeed || found.role == outputSpeed) && single && !promptSpeed.MatchString(s.text):
			rate = found.number.Span().Low
		case found.role == perToken && (found.statistic == "mean" || found.statistic == "" || found.statistic == "median"):
			rate = 1000 / found.number.Span().High
		}
		if rate > 0 {
			c.checkSpeed(rate, s.text, "sentence", around, s.line)
		}
	}
}

// checkSpeed compares the rate of one stream with what its devices can read.
func (c *checker) checkSpeed(rate float64, printed, place, text string, line int) {
	r, ok := c.readerOf(text, line)
	if !ok || (mixtures.MatchString(r.model.Text) && !r.model.KnownActive()) {
		return
	}
	bits, degree := r.bits, Certain
	if !r.said {
		bits = 4
	}
	most, how := r.bound(bits)
	why := "one stream cannot be faster than its weights are read; several tokens a step are not named"
	if rate <= most && !r.said && r.model.Family != "gptoss" {
		// Published weights have 16 bits: smaller ones would have to be named.
		if most, how = r.bound(16); rate > most {
			degree, why = Doubtful, "weights of less than 16 bits would have to be named"
		}
	}
	if rate > 1.02*most {
		c.add(Contradiction{Roof, degree, line, place, printed, how, why})
	}
}

// checkStreamRows checks the rows of a table with one request at a time.
func (c *checker) checkStreamRows(table *document.Table) {
	for r := range table.Rows {
		row := &table.Rows[r]
		f := c.rowFacts(table, row)
		text := ""
		single := false
		for column := range row.Cells {
			text += row.Cells[column].Text + " | "
			number, _, ok := cellFigure(row.Cells[column].Text)
			single = single || (ok && number.Value == 1 && streamHeader.MatchString(table.Header[column]))
		}
		single = single || generatesOne.MatchString(text)
		header := strings.Join(table.Header, " | ")
		if hypothetical.MatchString(header) {
			continue
		}
		for i := range f.all {
			found := &f.all[i]
			rate := 0.0
			switch {
			case found.role == userSpeed, (found.role == anySpeed || found.role == outputSpeed) && single:
				rate = found.number.Span().Low
			case found.role == perToken && (found.statistic == "mean" || found.statistic == "" || found.statistic == "median"):
				rate = 1000 / found.number.Span().High
			}
			if rate > 0 {
				c.checkSpeed(rate, clipped(text), f.place, header+" "+text, row.Line)
			}
		}
	}
}

var streamHeader = lazyregexp.New(`(?i)^\W*(?:batch(?:[ _-]size)?|bs|concurrency|max[ _-]concurrency|concurrent (?:requests|users)|users|clients|streams)\W*$`)

// clipped is a text that fits in a finding.
func clipped(text string) string {
	const most = 200
	runes := []rune(strings.TrimRight(text, " |"))
	if len(runes) > most {
		return string(runes[:most]) + " …"
	}
	return string(runes)
}

var readsMemory = lazyregexp.New(`(?i)memory bandwidth|\bhbm\b|dram|bandwidth`)

// checkRead compares a bandwidth that is said to be reached with that of the card.
func (c *checker) checkRead(s *sentence) {
	devices := document.DevicesIn(s.text)
	if len(devices) != 1 || devices[0].Bandwidth == 0 || !readsMemory.MatchString(s.text) || countIn(s.text) > 1 || nvlink.MatchString(s.text) {
		return
	}
	most := math.Max(devices[0].Bandwidth, bestOf[devices[0].Text])
	for i := range s.quantities {
		if q := &s.quantities[i]; q.kind == bandwidth && !q.ranged && q.span().Low > 1.03*most {
			c.find(Roof, Certain, s, fmt.Sprintf("%s has %.2f TB/s", devices[0].Text, most/1000), "no kernel reads faster than the memory")
		}
	}
}

var nvlink = lazyregexp.New(`(?i)nvlink|interconnect|all-?reduce|\bl2\b|shared memory|sram|cache bandwidth|aggregate|in total|effective`)
