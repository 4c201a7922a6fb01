package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"ossian/internal/bench"
	"ossian/internal/stat"
)

// A Finding is a reason to distrust a run.
type Finding struct {
	ID       string  `json:"id"`
	What     string  `json:"what"`
	Measured float64 `json:"measured"`
	Bound    float64 `json:"bound"`
	Warning  bool    `json:"warning"` // the run counts all the same
}

// The faults that are told from a recording: the gate of bench.md 6, item 7, are seven; items 4 and 6 and BEN-1
// to BEN-3 make twelve; then 1.5, a server that fakes TTFT, and what is missing (BEN-4).
const (
	FaultFailures   = "failures"             // success < 95 %
	FaultBursts     = "bursts"               // median ITL < 0.01 ms with TPOT >= 1 ms: events were held back and came together
	FaultPeakLow    = "peak-below-mean"      // in tokens, runs of 20 s and more: peak < 0.95 x mean, so tokens are counted that never came
	FaultPeakHigh   = "peak-too-high"        // peak > 1000 tokens/s for each of the most requests at once
	FaultStreamTime = "stream-time"          // sum of ITL is not E2EL - TTFT within 1 %
	FaultLength     = "output-length"        // outputs are not as long as asked, under ignore_eos
	FaultRate       = "rate-not-reached"     // sent at < 80 % of the offered rate; a warning under a bound on concurrency
	FaultLag        = "client-bound-reading" // p99 from the kernel to the handler > the median ITL; a warning from 10 % of it on
	FaultLate       = "client-bound-sending" // p99 send lateness > 5 % of the mean gap, and > 5 ms
	FaultCache      = "prefix-cache-hits"    // >= 1 % of the prompt tokens of random prompts were cached
	FaultRepeats    = "repeated-prompts"     // random prompts that were sent before
	FaultEmpty      = "empty-outputs"        // requests that ended well without a token
	FaultEarly      = "first-chunk-early"    // the event that starts TTFT comes > 10 % of TTFT and > 5 ms before the first token
	FaultCut        = "interrupted"          // the run was ended early, or killed
	FaultBroken     = "broken-log"           // lines of the log cannot be read
)

// lateEnough is the send lateness below which nobody is disturbed, seconds. bench.md 6
// asks for 5 % of the mean gap alone, which no client keeps at 5 000 requests/s (10 us);
// reliability.md BEN-1 sets 5 ms at 1 000/s. The run is invalid where both are exceeded.
const lateEnough = 0.005

// findings checks a run; an empty list means that nothing speaks against it.
func findings(r *bench.Recording, s *Summary, x *Extension, c *collection) []Finding {
	l := &ledger{list: []Finding{}}
	queries := len(r.Samples)
	l.refuse(FaultCut, r.Interrupted, float64(queries), 0, "requests had ended when the run was interrupted: the log has no end, and nothing of those under way")
	share := 100 * float64(s.Completed) / float64(max(1, queries))
	l.refuse(FaultBroken, r.Skipped > 0, float64(r.Skipped), 0, "lines of the log are broken and were skipped, so what they held is in no number; the first is %v", r.FirstSkipped)
	l.refuse(FaultFailures, share < 95, share, 95, "percent of the requests succeeded: %d of %d", s.Completed, queries)
	bursts := r.Setup.Stream && s.ITL.N > 0 && s.ITL.Median < 0.01 && s.TPOT.Median >= 1
	l.refuse(FaultBursts, bursts, s.ITL.Median, 0.01, "ms between events at the median, with %.2f ms per output token: events come in bursts", s.TPOT.Median)
	l.refuse(FaultPeakLow, s.Duration >= 20 && x.Stream.Peak < 0.95*x.Stream.Rate, x.Stream.Peak, 0.95*x.Stream.Rate, "peak tokens/s are below the mean: tokens are reported that did not come")
	most := x.Stream.PeakRequests
	l.refuse(FaultPeakHigh, r.Setup.Stream && most > 0 && x.Stream.Peak > 1000*float64(most), x.Stream.Peak, 1000*float64(most),
		"peak tokens/s with at most %d requests at once", most)
	apart := s.streamGap()
	l.refuse(FaultStreamTime, apart > 1, apart, 1, "percent between the sum of ITL and E2EL - TTFT: streams go on after their last token")
	l.refuse(FaultLength, r.Setup.IgnoreEOS && c.wrong > 0, float64(c.wrong), 0,
		"of %d outputs have another length than asked for, though the end of text was to be ignored", c.sized)
	l.warn(FaultLength, r.Setup.MultiTurn != nil && !r.Setup.IgnoreEOS && c.wrong > 0, float64(c.wrong), 0, "of %d answers are not as long as min_tokens says", c.sized)
	reached, slots := rateReached(r), r.Setup.Arrivals.Concurrency
	missed := s.open() && reached < 80
	l.refuse(FaultRate, missed && slots == 0, reached, 80, "percent of the offered rate at which requests were sent")
	l.warn(FaultRate, missed && slots > 0, reached, 80, "percent of the offered rate at which requests were sent: they waited for one of %d slots, as --max-concurrency has it, so the load was that of a closed loop", slots)
	l.client(r, s, x)
	if r.Client.Shared {
		l.shared()
	}
	l.warmth(r, x)
	l.refuse(FaultCut, r.Cut, float64(len(r.Samples)), float64(max(s.Queries, len(s.Requests))), "requests were sent before the run was interrupted; those under way then count as failed")
	return l.list
}

// A ledger collects findings.
type ledger struct{ list []Finding }

func (l *ledger) refuse(id string, found bool, measured, bound float64, what string, values ...any) {
	if found {
		l.list = append(l.list, Finding{ID: id, What: fmt.Sprintf(what, values...), Measured: measured, Bound: bound})
	}
}

func (l *ledger) warn(id string, found bool, measured, bound float64, what string, values ...any) {
	n := len(l.list)
	l.refuse(id, found, measured, bound, what, values...)
	if len(l.list) > n {
		l.list[n].Warning = true
	}
}

// shared makes warnings of what a server in the same process does to this client: it
// takes the client's time, and with a tiny model it is faster than the bounds allow for.
// That is known from the start, and no fault of the numbers' bookkeeping.
func (l *ledger) shared() {
	slow := []string{FaultBursts, FaultPeakHigh, FaultStreamTime, FaultLag, FaultLate}
	for i := range l.list {
		if f := &l.list[i]; slices.Contains(slow, f.ID) {
			f.Warning = true
			f.What += "; the server is in the same process, --base-url measures another"
		}
	}
}

// client judges whether the client spoilt the numbers and writes the verdict. Times are
// those of the kernel's receipt wherever the lag is known, so reading late spoils them only
// where it lasts beyond the next event: both are read at once then and get one time.
// Before that it delays what follows an answer, the next request of a slot or the next
// turn, which is worth a warning (the tenth is the bound of bench.md 6, item 4).
func (l *ledger) client(r *bench.Recording, s *Summary, x *Extension) {
	n := len(l.list)
	gap := s.ITL.Median
	if gap < 0.01 { // bursts say nothing about the pace
		gap = s.TPOT.Median
	}
	lag, known := x.Client.Lag.P99, x.Client.Lag.N > 0 && gap > 0
	l.refuse(FaultLag, known && lag > gap, lag, gap, "ms at p99 from the kernel's receipt to the handling: events of a stream were read together and have one time")
	l.warn(FaultLag, known && lag > gap/10 && lag <= gap, lag, gap/10, "ms at p99 from the kernel's receipt to the handling: times hold, but what follows an answer was sent late")
	bound := math.Max(meanGap(r)/20, lateEnough) * 1000
	l.refuse(FaultLate, meanGap(r) > 0 && x.Client.SendLate.P99 > bound, x.Client.SendLate.P99, bound, "ms at p99 that requests were sent late")
	for _, f := range l.list[n:] {
		x.Client.Verdict = "client-bound"
		x.Client.Reasons = append(x.Client.Reasons, f.ID)
	}
}

// warmth warns of what makes a server look faster than it is.
func (l *ledger) warmth(r *bench.Recording, x *Extension) {
	fresh := strings.HasPrefix(r.Setup.Dataset, "random") && r.Setup.MultiTurn == nil // promises prompts that share nothing
	l.warn(FaultCache, fresh && x.Cache.HitPercent >= 1, x.Cache.HitPercent, 1, "percent of the prompt tokens came from the prefix cache")
	l.warn(FaultRepeats, fresh && r.Setup.Repeats > 0, float64(r.Setup.Repeats), 0, "prompts had been sent before in this run")
	l.warn(FaultEmpty, x.Outcomes.Empty > 0, float64(x.Outcomes.Empty), 0, "requests ended well without a token; most tools count them as successes")
	early := x.FirstToken.Median - x.FirstChunk.Median
	bound := max(5, x.FirstToken.Median/10)
	l.warn(FaultEarly, early > bound, early, bound, "ms at the median from the event that starts TTFT to the first token")
}

// streamGap is how far the sum of all gaps is from the sum of E2EL - TTFT, percent.
func (s *Summary) streamGap() float64 {
	gaps, streams := 0.0, 0.0
	for i := range s.Requests {
		q := &s.Requests[i]
		if !q.OK || len(q.ITL) == 0 {
			continue
		}
		gaps += stat.Mean(q.ITL) * float64(len(q.ITL))
		streams += q.Latency - q.TTFT
	}
	if streams <= 0 {
		return 0
	}
	return 100 * math.Abs(gaps-streams) / streams
}

// lastTimes are the moments at which the last query was to be sent and was sent, seconds.
func lastTimes(r *bench.Recording) (scheduled, sent float64) {
	for i := range r.Samples {
		scheduled = max(scheduled, r.Samples[i].Scheduled.Seconds())
		sent = max(sent, r.Samples[i].Sent.Seconds())
	}
	return scheduled, sent
}

// rateReached is the rate of sending in percent of the offered one; 100 where all were to
// be sent at once. Runs that are late by less than the lateness that disturbs nobody
// count as on time.
func rateReached(r *bench.Recording) float64 {
	scheduled, sent := lastTimes(r)
	if scheduled <= 0 || sent-scheduled < lateEnough {
		return 100
	}
	return 100 * scheduled / sent
}

// meanGap is the mean time between two queries of the arrival process, seconds; 0 where
// all were to be sent at once.
func meanGap(r *bench.Recording) float64 {
	scheduled, _ := lastTimes(r)
	return scheduled / float64(max(1, len(r.Samples)-1))
}

// Valid reports whether nothing but warnings speaks against the run.
func (s *Summary) Valid() bool { return s.Ossian.Valid }

// Repeats counts the queries of w whose prompt an earlier one had.
func Repeats(w bench.Workload) int {
	seen, n := map[string]bool{}, 0
	for i := range w {
		key := "t" + w[i].Prompt
		switch {
		case w[i].Messages != nil:
			key = "m" + string(w[i].Messages)
		case w[i].IDs != nil:
			key = fmt.Sprint("i", w[i].IDs)
		}
		if seen[key] {
			n++
		}
		seen[key] = true
	}
	return n
}
