package report

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"ossian/internal/stat"
)

// Stretches of a run that Compare takes as independent measurements. Neighbouring requests
// wait for each other, so their latencies are not independent; statistics of long
// stretches nearly are (batch means; Law and Carson, Operations Research 27, 1979).
const (
	mostBatches  = 30
	leastBatches = 5
	perBatch     = 10  // requests for a mean or a median
	perTail      = 100 // requests for a P99
)

// batches returns statistics of consecutive stretches of the run, by the key of the
// result that they belong to; keys are missing where the run is too short.
func batches(requests []Request) map[string][]float64 {
	out := map[string][]float64{}
	var ok []*Request
	for i := range requests {
		if requests[i].OK {
			ok = append(ok, &requests[i])
		}
	}
	slices.SortStableFunc(ok, func(a, b *Request) int { return cmp.Compare(a.Start, b.Start) })
	// Latencies: so many requests in each stretch that its statistic means something.
	for _, metric := range []struct {
		key    string
		values func(q *Request) []float64
	}{
		{"ttft", func(q *Request) []float64 { return []float64{q.TTFT} }},
		{"tpot", func(q *Request) []float64 {
			if t, ok := q.tpot(); ok {
				return []float64{t}
			}
			return nil
		}},
		{"itl", func(q *Request) []float64 { return q.ITL }},
		{"e2el", func(q *Request) []float64 { return []float64{q.Latency} }},
	} {
		with := slices.DeleteFunc(slices.Clone(ok), func(q *Request) bool { return len(metric.values(q)) == 0 }) // the mean of none is no 0
		for _, part := range stretches(with, perBatch) {
			d := NewDist(valuesOf(part, metric.values))
			out["mean_"+metric.key+"_ms"] = append(out["mean_"+metric.key+"_ms"], d.Mean)
			out["median_"+metric.key+"_ms"] = append(out["median_"+metric.key+"_ms"], d.Median)
		}
		for _, part := range stretches(with, perTail) {
			out["p99_"+metric.key+"_ms"] = append(out["p99_"+metric.key+"_ms"], NewDist(valuesOf(part, metric.values)).P(99))
		}
	}
	rates(ok, out)
	return out
}

// intervals are those of the means over the stretches; a mean of medians is no median, so
// there are none for those.
func intervals(batches map[string][]float64) map[string]stat.Interval {
	out := map[string]stat.Interval{}
	for key, values := range batches {
		if strings.HasPrefix(key, "median_") || strings.HasPrefix(key, "p99_") {
			continue
		}
		if i, ok := stat.MeanInterval(values, stat.Confidence); ok {
			out[key] = i
		}
	}
	return out
}

// valuesOf are the values of all requests of a stretch.
func valuesOf(part []*Request, values func(q *Request) []float64) []float64 {
	var out []float64
	for _, q := range part {
		out = append(out, values(q)...)
	}
	return out
}

// stretches cuts requests into at most mostBatches parts of at least least, nil if that
// gives fewer than leastBatches.
func stretches(requests []*Request, least int) [][]*Request {
	count := min(mostBatches, len(requests)/least)
	if count < leastBatches {
		return nil
	}
	out := make([][]*Request, count)
	for i := range out {
		out[i] = requests[i*len(requests)/count : (i+1)*len(requests)/count]
	}
	return out
}

// rates adds throughputs: what came in equal windows from the first start to the last
// end. Ramp and drain make the windows differ, which makes the test careful.
func rates(requests []*Request, out map[string][]float64) {
	const windows = 20
	if len(requests) < windows*perBatch {
		return
	}
	// Requests that are under way at an end of a window are in both, each with its part.
	first, last := math.Inf(1), math.Inf(-1)
	for _, request := range requests {
		first, last = min(first, request.Start), max(last, request.Start+request.Latency)
	}
	if !(last > first) || math.IsInf(last-first, 0) {
		return
	}
	done, output, total := make([]float64, windows), make([]float64, windows), make([]float64, windows)
	long := (last - first) / windows
	at := func(t float64) int { return min(max(int((t-first)/long), 0), windows-1) }
	for _, request := range requests {
		done[at(request.Start+request.Latency)] += 1 / long
		total[at(request.Start+request.TTFT)] += float64(request.Input) / long
		share := float64(request.Output) / float64(1+len(request.ITL)) / long
		request.arrivals(func(t float64) {
			output[at(t)] += share
			total[at(t)] += share
		})
	}
	out["request_throughput"], out["output_throughput"], out["total_token_throughput"] = done, output, total
}
