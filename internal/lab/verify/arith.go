package verify

// V-ARITH: figures of one block that follow from others of it (bench.md 1.6): rates from
// counts and the duration, totals from their parts, percentiles in their order.

import (
	"fmt"
	"strings"
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
	for _, b := range j.doc.blocks {
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
func (j *judge) checkRate(b *block, q quotient) {
	if !b.has(q.rate, "duration") || !b.has(q.counts...) || b.value("duration") <= 0 {
		return
	}
	var sum span
	var terms []string
	for _, key := range q.counts {
		sum = sum.plus(b.values[key].span())
		terms = append(terms, b.values[key].text)
	}
	follows, printed := sum.over(b.values["duration"].span()), b.values[q.rate]
	if follows.meets(printed.span()) {
		return
	}
	count := strings.Join(terms, " + ")
	if len(terms) > 1 {
		count = "(" + count + ")"
	}
	j.find(Wrong, b.lineOf(q.rate), b.name, q.label+" "+printed.text,
		fmt.Sprintf("%s / %s s = %s", count, b.values["duration"].text, figure(sum.middle()/b.value("duration"))),
		fmt.Sprintf("the printed operands allow %s to %s", figure(follows.low), figure(follows.high)))
}

// checkSum compares a total with its parts.
func (j *judge) checkSum(b *block, total, label, first, second string) {
	if !b.has(total, first, second) {
		return
	}
	follows, printed := b.values[first].span().plus(b.values[second].span()), b.values[total]
	if follows.meets(printed.span()) {
		return
	}
	j.find(Wrong, b.lineOf(total), b.name, label+" "+printed.text,
		fmt.Sprintf("%s + %s = %s", b.values[first].text, b.values[second].text, figure(follows.middle())), "a total is the sum of its parts")
}

// orders are the percentiles that reports have, each at most the next.
var orders = []string{"median", "p75", "p90", "p95", "p99", "p99.9", "max"}

// checkOrder compares percentiles of one latency: each is at most the next, the mean at
// most the greatest, and at least what half of the requests at the median give it.
func (j *judge) checkOrder(b *block, latency string) {
	last := ""
	for _, name := range orders {
		key := name + "_" + latency + "_ms"
		if !b.has(key) {
			continue
		}
		if last != "" && b.values[key].span().high < b.values[last].span().low {
			j.find(Wrong, b.lineOf(key), b.name, fmt.Sprintf("%s %s", key, b.values[key].text),
				fmt.Sprintf("%s is %s", last, b.values[last].text), "a higher percentile is never less than a lower one")
		}
		last = key
	}
	mean, median, most := "mean_"+latency+"_ms", "median_"+latency+"_ms", "max_"+latency+"_ms"
	if b.has(mean, most) && b.values[mean].span().low > b.values[most].span().high {
		j.find(Wrong, b.lineOf(mean), b.name, mean+" "+b.values[mean].text, most+" is "+b.values[most].text, "a mean is never above the greatest value")
	}
	if b.has(mean, median) && b.values[mean].span().high < b.values[median].span().low/2 {
		j.find(Wrong, b.lineOf(mean), b.name, mean+" "+b.values[mean].text, median+" is "+b.values[median].text,
			"half of all values are at least the median, so the mean is at least half of it")
	}
}
