package report

import (
	"math"
	"slices"

	"ossian/internal/bench"
)

// total adds up what the requests have, by request.
func (s *Summary) total() {
	s.Attained = make([]int, len(s.Setup.Goodput)+1)
	for i := range s.Requests {
		request := &s.Requests[i]
		if !request.OK {
			// Failed requests count as that alone: what they had is in no mean and no rate.
			s.Failed++
			continue
		}
		s.Completed++
		s.Input += request.Input
		s.Output += request.Output
		s.Retokenized += request.Retokenized
		s.attain(request)
	}
	s.RequestRate = s.perSecond(float64(s.Completed))
	s.InputRate = s.perSecond(float64(s.Input))
	s.OutputRate = s.perSecond(float64(s.Output))
	s.TotalRate = s.perSecond(float64(s.Input + s.Output))
	if len(s.Setup.Goodput) > 0 {
		s.Goodput = s.perSecond(float64(s.Attained[len(s.Setup.Goodput)]))
	}
}

// perSecond returns a total per second of the run; 0 where it took no time.
func (s *Summary) perSecond(total float64) float64 {
	if s.Duration <= 0 {
		return 0
	}
	return total / s.Duration
}

// attain counts the objectives that a request keeps; TPOT of a request without one is 0.
func (s *Summary) attain(request *Request) {
	tpot, _ := request.tpot()
	all := true
	for i, slo := range s.Setup.Goodput {
		value := request.TTFT
		switch slo.Metric {
		case "tpot":
			value = tpot
		case "e2el":
			value = request.Latency
		}
		if value <= slo.Limit.Seconds() {
			// The last place counts requests that keep all.
			s.Attained[i]++
		} else {
			all = false
		}
	}
	if all {
		s.Attained[len(s.Setup.Goodput)]++
	}
}

// times makes the distributions over the requests that succeeded.
func (s *Summary) times() {
	// TPOT is missing for requests with one token; ITL has many values of each request.
	var ttft, tpot, itl, e2el, queue, both []float64
	sum := 0.0
	for i := range s.Requests {
		request := &s.Requests[i]
		if !request.OK {
			continue
		}
		ttft = append(ttft, request.TTFT)
		e2el = append(e2el, request.Latency)
		queue = append(queue, request.Queue)
		both = append(both, request.Latency+request.Queue)
		itl = append(itl, request.ITL...)
		if t, ok := request.tpot(); ok {
			tpot = append(tpot, t)
		}
		sum += request.Latency
	}
	s.TTFT, s.TPOT, s.ITL, s.E2EL = NewDist(ttft), NewDist(tpot), NewDist(itl), NewDist(e2el)
	s.Queue, s.E2ELQueue = NewDist(queue), NewDist(both)
	s.Concurrency = s.perSecond(sum)
}

// arrivals calls each with the time of each token event of q: start, then TTFT, then every
// gap added in turn, which is how the tools rebuild it (and rounds as they do).
func (q *Request) arrivals(each func(at float64)) {
	at := q.Start + q.TTFT
	each(at)
	for _, gap := range q.ITL {
		at += gap
		each(at)
	}
}

// firstAndLast returns the first start and the last end of the requests that succeeded; false
// where none did.
func firstAndLast(requests []Request) (first, last float64, ok bool) {
	first, last = math.Inf(1), math.Inf(-1)
	for i := range requests {
		if q := &requests[i]; q.OK {
			first, last, ok = min(first, q.Start), max(last, q.Start+q.Latency), true
		}
	}
	return first, last, ok
}

// peakTokens counts token events per second since the first start and returns the most.
func peakTokens(requests []Request) float64 {
	first, last, ok := firstAndLast(requests)
	if !ok {
		return 0
	}
	buckets := math.Ceil(last-first) + 1 // of the tool; what lies beyond is not counted
	seconds := map[int]int{}             // by second: a broken clock costs no memory
	most := 0
	for i := range requests {
		if !requests[i].OK {
			continue
		}
		requests[i].arrivals(func(at float64) {
			if second := math.Trunc(at - first); second >= 0 && second < buckets {
				seconds[int(second)]++
				most = max(most, seconds[int(second)])
			}
		})
	}
	return float64(most)
}

// startsAndEnds returns the sorted starts and ends of the requests that succeeded.
func startsAndEnds(requests []Request) (starts, ends []float64) {
	for i := range requests {
		if q := &requests[i]; q.OK {
			starts = append(starts, q.Start)
			ends = append(ends, q.Start+q.Latency)
		}
	}
	slices.Sort(starts)
	slices.Sort(ends)
	return starts, ends
}

// peakExact is the most requests under way at one moment, half-open intervals.
func peakExact(requests []Request) int {
	starts, ends := startsAndEnds(requests)
	now, most, ended := 0, 0, 0
	for _, start := range starts {
		for ended < len(ends) && ends[ended] <= start {
			now--
			ended++
		}
		now++
		most = max(most, now)
	}
	return most
}

// peakSeconds is the most requests that touched the same second since the first start:
// the rule of all released tools (vllm 0.33.0 too; bench.md 0 gives it the exact one).
func peakSeconds(requests []Request) int {
	first, _, ok := firstAndLast(requests)
	if !ok {
		return 0
	}
	change := map[int]int{} // of the number under way, by second
	for i := range requests {
		if q := &requests[i]; q.OK {
			change[int(q.Start-first)]++
			change[int(q.Start+q.Latency-first)+1]--
		}
	}
	seconds := make([]int, 0, len(change))
	for second := range change {
		seconds = append(seconds, second)
	}
	slices.Sort(seconds)
	now, most := 0, 0
	for _, second := range seconds {
		now += change[second]
		most = max(most, now)
	}
	return most
}

// probes summarises the side stream; nil where no probe succeeded.
func probes(all []bench.Probe) *Probes {
	var e2el []float64
	for _, p := range all {
		if p.Err == "" {
			e2el = append(e2el, (p.Done - p.Sent).Seconds())
		}
	}
	if len(e2el) == 0 {
		return nil
	}
	return &Probes{Completed: len(e2el), Failed: len(all) - len(e2el), E2EL: NewDist(e2el)}
}
