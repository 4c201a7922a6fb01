package predict

import (
	"cmp"
	"math"
	"slices"
	"strings"
)

// The client's view: numbers of bench.md 1.6 from the times of a run.

// metrics returns every number under its key of bench.md 1.8; times in ms, duration_s in seconds.
func (r *run) metrics() map[string]float64 {
	var ttft, tpot, e2el []float64
	input, output, duration := 0, 0, 0.0
	for i := range r.requests {
		request := &r.requests[i]
		input += len(request.request.Prompt)
		output += request.tokens
		duration = math.Max(duration, request.end)
		ttft = append(ttft, 1e3*(request.early-request.sent))
		e2el = append(e2el, 1e3*(request.end-request.sent))
		if request.tokens > 1 {
			tpot = append(tpot, 1e3*(request.end-request.early)/float64(request.tokens-1))
		}
	}
	m := map[string]float64{"duration_s": duration, "completed": float64(len(r.requests)),
		"total_input_tokens": float64(input), "total_output_tokens": float64(output)}
	m["request_throughput"] = float64(len(r.requests)) / duration
	m["output_throughput"] = float64(output) / duration
	m["total_token_throughput"] = float64(input+output) / duration
	describe(m, "ttft_ms", ttft)
	describe(m, "tpot_ms", tpot)
	describe(m, "e2el_ms", e2el)
	r.describeGaps(m)
	return m
}

// describe adds mean, median and P99 of values; percentiles interpolate (bench.md 1.6).
func describe(m map[string]float64, key string, values []float64) {
	if len(values) == 0 {
		m["mean_"+key], m["median_"+key], m["p99_"+key] = 0, 0, 0
		return
	}
	slices.Sort(values)
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	m["mean_"+key] = sum / float64(len(values))
	m["median_"+key], m["p99_"+key] = percentile(values, 0.5), percentile(values, 0.99)
}

// percentile interpolates in sorted values.
func percentile(values []float64, p float64) float64 {
	at := p * float64(len(values)-1)
	low := int(at)
	high := min(low+1, len(values)-1)
	return values[low] + (at-float64(low))*(values[high]-values[low])
}

// A weighted gap stands for several of the same length.
type weighted struct {
	ms    float64
	count int
	step  int // that ends it
}

// sortedGaps returns the gaps between chunks, shortest first: of most sequences a step each, so
// steps are counted, not tokens. Where a chunk has several tokens, so many steps lie between.
func (r *run) sortedGaps() (gaps []weighted, count int, sum float64) {
	gaps = make([]weighted, 0, len(r.steps)+len(r.gaps))
	add := func(ms float64, n, step int) {
		if n > 0 {
			gaps = append(gaps, weighted{ms, n, step})
			count, sum = count+n, sum+ms*float64(n)
		}
	}
	for i := r.interval; i < len(r.steps); i++ {
		add(1e3*(r.ends[i]-r.ends[i-r.interval]), (r.steps[i].regular+r.interval-1)/r.interval, i)
	}
	for _, gap := range r.gaps {
		add(1e3*(r.ends[gap.to]-r.ends[gap.from]), 1, gap.to)
	}
	slices.SortFunc(gaps, func(a, b weighted) int { return cmp.Or(cmp.Compare(a.ms, b.ms), cmp.Compare(a.step, b.step)) })
	return gaps, count, sum
}

// gapAt returns the index of the gap at a share of all.
func gapAt(gaps []weighted, count int, share float64) int {
	left := int(share * float64(count-1))
	for i, gap := range gaps {
		if left -= gap.count; left < 0 {
			return i
		}
	}
	return len(gaps) - 1
}

// describeGaps adds mean, median and P99 of the gaps between tokens.
func (r *run) describeGaps(m map[string]float64) {
	gaps, count, sum := r.sortedGaps()
	m["mean_itl_ms"], m["median_itl_ms"], m["p99_itl_ms"] = 0, 0, 0
	if count > 0 {
		m["mean_itl_ms"], m["median_itl_ms"], m["p99_itl_ms"] = sum/float64(count), gaps[gapAt(gaps, count, 0.5)].ms, gaps[gapAt(gaps, count, 0.99)].ms
	}
}

// likeness names the metrics whose slopes a metric's interval is made of; none = it is exact.
func likeness(key string) []string {
	switch {
	case strings.HasPrefix(key, "total_") && strings.HasSuffix(key, "tokens"), key == "completed":
		return nil
	case strings.Contains(key, "ttft"):
		return []string{"mean_ttft_ms"}
	case key == "median_itl_ms", key == "p99_itl_ms":
		return []string{key}
	case strings.Contains(key, "tpot"), strings.Contains(key, "itl"):
		return []string{"mean_tpot_ms"}
	case strings.Contains(key, "e2el"):
		return []string{"mean_ttft_ms", "mean_tpot_ms"}
	}
	return []string{"duration_s"}
}
