package verify

// V-ARITH: figures of one block that follow from others of it (bench.md 1.6): rates from
// counts and the duration, totals from their parts, percentiles in their order.

import (
	"fmt"
	"strings"

	"ossian/internal/lab/verify/document"
)

// A quotient is a rate that is a sum of counts by the duration.
type quotient struct {
	rate, label string
	counts      []string
}

var quotients = []quotient{
	{"request_throughput", "request throughput", []string{"completed"}},
	{"input_throughput", "input token throughput", []string{"total_input_tokens"}},
	{"output_throughput", "output token throughput", []string{"total_output_tokens"}},
	{"total_token_throughput", "total token throughput", []string{"total_input_tokens", "total_output_tokens"}},
}

// arithmetic is V-ARITH.
func (j *judge) arithmetic() {
	for _, block := range j.doc.Blocks {
		for _, q := range quotients {
			j.checkRate(block, q)
		}
		j.checkSum(block, "total_token_throughput", "total token throughput", "input_throughput", "output_throughput")
		j.checkSum(block, "total_input_tokens", "total input tokens", "total_input_text_tokens", "total_input_vision_tokens")
		for _, latency := range []string{"ttft", "tpot", "itl", "e2el"} {
			j.checkOrder(block, latency)
		}
	}
}

// checkRate compares a rate with its counts by the duration.
func (j *judge) checkRate(block *document.Block, quotient quotient) {
	if !block.Has(quotient.rate, "duration") || !block.Has(quotient.counts...) || block.Value("duration") <= 0 {
		return
	}
	var sum document.Span
	var terms []string
	for _, key := range quotient.counts {
		sum = sum.Plus(block.Values[key].Span())
		terms = append(terms, block.Values[key].Text)
	}
	follows, printed := sum.Over(block.Values["duration"].Span()), block.Values[quotient.rate]
	if follows.Meets(printed.Span()) {
		return
	}
	// A tool with windows of its own gives rates that are somewhat above: read, not judged.
	if block.Windows {
		j.find(Info, block.LineOf(quotient.rate), block.Name, quotient.label+" "+printed.Text,
			fmt.Sprintf("count by duration is %s", document.Figure(sum.Middle()/block.Value("duration"))), "this tool takes rates over a window shorter than the duration")
		return
	}
	count := strings.Join(terms, " + ")
	if len(terms) > 1 {
		count = "(" + count + ")"
	}
	j.find(Wrong, block.LineOf(quotient.rate), block.Name, quotient.label+" "+printed.Text,
		fmt.Sprintf("%s / %s s = %s", count, block.Values["duration"].Text, document.Figure(sum.Middle()/block.Value("duration"))),
		allowed("the printed operands", document.Figure(follows.Low), document.Figure(follows.High)))
}

// checkSum compares a total with its parts.
func (j *judge) checkSum(block *document.Block, total, label, first, second string) {
	if !block.Has(total, first, second) {
		return
	}
	follows, printed := block.Values[first].Span().Plus(block.Values[second].Span()), block.Values[total]
	if follows.Meets(printed.Span()) {
		return
	}
	j.find(Wrong, block.LineOf(total), block.Name, label+" "+printed.Text,
		fmt.Sprintf("%s + %s = %s", block.Values[first].Text, block.Values[second].Text, document.Figure(follows.Middle())), "a total is the sum of its parts")
}

// checkOrder compares percentiles of one latency: each is at most the next, the mean at
// most the greatest, and at least what half of the requests at the median give it.
func (j *judge) checkOrder(block *document.Block, latency string) {
	last := ""
	for _, name := range document.Orders {
		key := name + "_" + latency + "_ms"
		if !block.Has(key) {
			continue
		}
		if last != "" && block.Values[key].Span().High < block.Values[last].Span().Low {
			j.find(Wrong, block.LineOf(key), block.Name, fmt.Sprintf("%s %s", key, block.Values[key].Text),
				fmt.Sprintf("%s is %s", last, block.Values[last].Text), "a higher percentile is never less than a lower one")
		}
		last = key
	}
	mean, median, most := "mean_"+latency+"_ms", "median_"+latency+"_ms", "max_"+latency+"_ms"
	if block.Has(mean, most) && block.Values[mean].Span().Low > block.Values[most].Span().High {
		j.find(Wrong, block.LineOf(mean), block.Name, mean+" "+block.Values[mean].Text, most+" is "+block.Values[most].Text, "a mean is never above the greatest value")
	}
	if block.Has(mean, median) && block.Values[mean].Span().High < block.Values[median].Span().Low/2 {
		j.find(Wrong, block.LineOf(mean), block.Name, mean+" "+block.Values[mean].Text, median+" is "+block.Values[median].Text,
			"half of all values are at least the median, so the mean is at least half of it")
	}
}
