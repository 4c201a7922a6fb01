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
func arithmetic(j *judge) {
	for _, b := range j.doc.Blocks {
		for _, q := range quotients {
			j.checkRate(b, q)
		}
		j.checkSum(b, "total_token_throughput", "total token throughput", "input_throughput", "output_throughput")
		j.checkSum(b, "total_input_tokens", "total input tokens", "total_input_text_tokens", "total_input_vision_tokens")
		for _, latency := range []string{"ttft", "tpot", "itl", "e2el"} {
			j.checkOrder(b, latency)
		}
	}
}

// checkRate compares a rate with its counts by the duration.
func (j *judge) checkRate(b *document.Block, q quotient) {
	if !b.Has(q.rate, "duration") || !b.Has(q.counts...) || b.Value("duration") <= 0 {
		return
	}
	var sum document.Span
	var terms []string
	for _, key := range q.counts {
		sum = sum.Plus(b.Values[key].Span())
		terms = append(terms, b.Values[key].Text)
	}
	follows, printed := sum.Over(b.Values["duration"].Span()), b.Values[q.rate]
	if follows.Meets(printed.Span()) {
		return
	}
	// A tool with windows of its own gives rates that are somewhat above: read, not judged.
	if b.Windows {
		j.find(Info, b.LineOf(q.rate), b.Name, q.label+" "+printed.Text,
			fmt.Sprintf("count by duration is %s", document.Figure(sum.Middle()/b.Value("duration"))), "this tool takes rates over a window shorter than the duration")
		return
	}
	count := strings.Join(terms, " + ")
	if len(terms) > 1 {
		count = "(" + count + ")"
	}
	j.find(Wrong, b.LineOf(q.rate), b.Name, q.label+" "+printed.Text,
		fmt.Sprintf("%s / %s s = %s", count, b.Values["duration"].Text, document.Figure(sum.Middle()/b.Value("duration"))),
		fmt.Sprintf("the printed operands allow %s to %s", document.Figure(follows.Low), document.Figure(follows.High)))
}

// checkSum compares a total with its parts.
func (j *judge) checkSum(b *document.Block, total, label, first, second string) {
	if !b.Has(total, first, second) {
		return
	}
	follows, printed := b.Values[first].Span().Plus(b.Values[second].Span()), b.Values[total]
	if follows.Meets(printed.Span()) {
		return
	}
	j.find(Wrong, b.LineOf(total), b.Name, label+" "+printed.Text,
		fmt.Sprintf("%s + %s = %s", b.Values[first].Text, b.Values[second].Text, document.Figure(follows.Middle())), "a total is the sum of its parts")
}

// checkOrder compares percentiles of one latency: each is at most the next, the mean at
// most the greatest, and at least what half of the requests at the median give it.
func (j *judge) checkOrder(b *document.Block, latency string) {
	last := ""
	for _, name := range document.Orders {
		key := name + "_" + latency + "_ms"
		if !b.Has(key) {
			continue
		}
		if last != "" && b.Values[key].Span().High < b.Values[last].Span().Low {
			j.find(Wrong, b.LineOf(key), b.Name, fmt.Sprintf("%s %s", key, b.Values[key].Text),
				fmt.Sprintf("%s is %s", last, b.Values[last].Text), "a higher percentile is never less than a lower one")
		}
		last = key
	}
	mean, median, most := "mean_"+latency+"_ms", "median_"+latency+"_ms", "max_"+latency+"_ms"
	if b.Has(mean, most) && b.Values[mean].Span().Low > b.Values[most].Span().High {
		j.find(Wrong, b.LineOf(mean), b.Name, mean+" "+b.Values[mean].Text, most+" is "+b.Values[most].Text, "a mean is never above the greatest value")
	}
	if b.Has(mean, median) && b.Values[mean].Span().High < b.Values[median].Span().Low/2 {
		j.find(Wrong, b.LineOf(mean), b.Name, mean+" "+b.Values[mean].Text, median+" is "+b.Values[median].Text,
			"half of all values are at least the median, so the mean is at least half of it")
	}
}
