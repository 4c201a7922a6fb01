package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"ossian/internal/bench"
	"ossian/internal/stat"
)

// A Finding is a reason to distrust a run, or some of its metrics (TouchesMetric).
type Finding struct {
	ID       string  `json:"id"`
	What     string  `json:"what"`
	Measured float64 `json:"measured"`
	Bound    float64 `json:"bound"`
	Warning  bool    `json:"warning"` // the run counts all the same

	// Touches are the metrics that it is about: keys of bench.md 1.8, names of latencies, as
	// "itl" for every key with _itl_ms, or Everything. Empty = none of these.
	Touches []string `json:"touches"`
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
	FaultLate       = "client-bound-sending" // p99 send lateness > 5 % of the mean gap, and > 5 ms; of shards 1 %, and 1 ms
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

// shardLate is the same for the parts of a run that several clients make, of whose mean gap they
// may be late by a hundredth.
const shardLate = 0.001

// findings checks a run; an empty list means that nothing speaks against it.
func findings(rec *bench.Recording, summary *Summary, ext *Extension, collected *collection) []Finding {
	found := &ledger{list: []Finding{}}
	queries := len(rec.Samples)
	found.refuse(FaultCut, rec.Interrupted, float64(queries), 0, "requests had ended when the run was interrupted: the log has no end, and nothing of those under way")
	// Whether it is whole, whether requests succeeded, whether times and tokens can be true,
	// whether what was asked for was sent, and last whether the client itself was in the way.
	share := 100 * float64(summary.Completed) / float64(max(1, queries))
	found.refuse(FaultBroken, rec.Skipped > 0, float64(rec.Skipped), 0, "lines of the log are broken and were skipped, so what they held is in no number; the first is %v", rec.FirstSkipped)
	found.refuse(FaultFailures, share < 95, share, 95, "percent of the requests succeeded: %d of %d", summary.Completed, queries)
	bursts := rec.Setup.Stream && summary.ITL.N > 0 && summary.ITL.Median < 0.01 && summary.TPOT.Median >= 1
	guessed := summary.Spec != nil && 2*summary.Spec.Accepted >= summary.ITL.N // a step's guesses that hold come with its token
	found.refuse(FaultBursts, bursts && !guessed, summary.ITL.Median, 0.01, "ms between events at the median, with %.2f ms per output token: events come in bursts", summary.TPOT.Median)
	if bursts && guessed {
		found.warn(FaultBursts, true, summary.ITL.Median, 0.01, "ms between events at the median: guesses that hold come together")
		found.narrow(FaultBursts, "itl")
	}
	found.refuse(FaultPeakLow, summary.Duration >= 20 && ext.Stream.Peak < 0.95*ext.Stream.Rate, ext.Stream.Peak, 0.95*ext.Stream.Rate, "peak tokens/s are below the mean: tokens are reported that did not come")
	most := ext.Stream.PeakRequests
	found.refuse(FaultPeakHigh, rec.Setup.Stream && most > 0 && ext.Stream.Peak > 1000*float64(most), ext.Stream.Peak, 1000*float64(most),
		"peak tokens/s with at most %d requests at once", most)
	if summary.TPOT.N > 0 && summary.TPOT.Median < 1 { // not only the fullest second: the count cannot be true
		found.narrow(FaultPeakHigh, slices.Concat(gapMetrics, countMetrics)...)
	}
	apart := summary.streamGap()
	found.refuse(FaultStreamTime, apart > 1, apart, 1, "percent between the sum of ITL and E2EL - TTFT: streams go on after their last token")
	found.refuse(FaultLength, rec.Setup.IgnoreEOS && collected.wrong > 0, float64(collected.wrong), 0,
		"of %d outputs have another length than asked for, though the end of text was to be ignored", collected.sized)
	found.warn(FaultLength, rec.Setup.MultiTurn != nil && !rec.Setup.IgnoreEOS && collected.wrong > 0, float64(collected.wrong), 0, "of %d answers are not as long as min_tokens says", collected.sized)
	reached, slots := rateReached(rec), rec.Setup.Arrivals.Concurrency
	missed := summary.openLoop() && reached < 80
	found.refuse(FaultRate, missed && slots == 0, reached, 80, "percent of the offered rate at which requests were sent")
	found.warn(FaultRate, missed && slots > 0, reached, 80, "percent of the offered rate at which requests were sent: they waited for one of %d slots, as --max-concurrency has it, so the load was that of a closed loop", slots)
	if missed && slots > 0 { // which every number is of; only the rate is not what it says
		found.narrow(FaultRate, "request_rate")
	}
	found.judgeClient(rec, summary, ext)
	if rec.Client.Shared {
		found.shared()
	}
	found.judgeCache(rec, ext, collected)
	found.refuse(FaultCut, rec.Cut, float64(len(rec.Samples)), float64(max(summary.Queries, len(summary.Requests))), "requests were sent before the run was interrupted; those under way then count as failed")
	return found.list
}

// A ledger collects findings.
type ledger struct{ list []Finding }

// refuse adds a finding that makes the run invalid, if it was found.
func (l *ledger) refuse(id string, found bool, measured, bound float64, what string, values ...any) {
	if found {
		l.list = append(l.list, Finding{ID: id, What: fmt.Sprintf(what, values...), Measured: measured, Bound: bound, Touches: touchesOf(id)})
	}
}

// warn adds one that does not.
func (l *ledger) warn(id string, found bool, measured, bound float64, what string, values ...any) {
	before := len(l.list)
	l.refuse(id, found, measured, bound, what, values...)
	if len(l.list) > before {
		l.list[before].Warning = true
	}
}

// narrow says that the last finding, if it is of that kind, touches only some metrics.
func (l *ledger) narrow(id string, metrics ...string) {
	if n := len(l.list); n > 0 && l.list[n-1].ID == id {
		l.list[n-1].Touches = append([]string{}, metrics...)
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

// judgeClient judges whether the client spoilt the numbers and writes the verdict. Times are
// those of the kernel's receipt wherever the lag is known, so reading late spoils them only
// where it lasts beyond the next event: both are read at once then and get one time.
// Before that it delays what follows an answer, the next request of a slot or the next
// turn, which is worth a warning (the tenth is the bound of bench.md 6, item 4).
func (l *ledger) judgeClient(rec *bench.Recording, summary *Summary, ext *Extension) {
	before := len(l.list)
	gap := summary.ITL.Median
	switch {
	case summary.TPOT.N == 0: // no answer has a second token: the next event is another answer's
		gap = summary.E2EL.Median
	case gap < 0.01: // bursts say nothing about the pace
		gap = summary.TPOT.Median
	}
	lag, known := ext.Client.Lag.P99, ext.Client.Lag.N > 0 && gap > 0
	closed := rec.Setup.Arrivals.Concurrency > 0 || rec.Setup.MultiTurn != nil // where answers are followed by requests
	slowed := closed && lag > summary.E2EL.Median/100
	l.refuse(FaultLag, known && lag > gap, lag, gap, "ms at p99 from the kernel's receipt to the handling: events of a stream were read together and have one time")
	if known && lag > gap && slowed {
		l.narrow(FaultLag, slices.Concat(touchesOf(FaultLag), rateMetrics)...)
	}
	l.warn(FaultLag, known && lag > gap/10 && lag <= gap, lag, gap/10, "ms at p99 from the kernel's receipt to the handling: times hold, but what follows an answer was sent late")
	switch mild := known && lag > gap/10 && lag <= gap; {
	case mild && slowed:
		l.narrow(FaultLag, rateMetrics...)
	case mild:
		l.narrow(FaultLag)
	}
	bound := math.Max(meanGap(rec)/20, lateEnough) * 1000
	if rec.Setup.Shard != nil { // what several clients are late by does not show in one of them
		bound = math.Max(meanGap(rec)/100, shardLate) * 1000
	}
	l.refuse(FaultLate, meanGap(rec) > 0 && ext.Client.SendLate.P99 > bound, ext.Client.SendLate.P99, bound, "ms at p99 that requests were sent late")
	if rateReached(rec) < 99 { // the rate of answers is then the client's
		l.narrow(FaultLate, slices.Concat(latencyMetrics, rateMetrics)...)
	}
	for _, f := range l.list[before:] {
		ext.Client.Verdict = "client-bound"
		ext.Client.Reasons = append(ext.Client.Reasons, f.ID)
	}
}

// judgeCache warns of what makes a server look faster than it is.
func (l *ledger) judgeCache(rec *bench.Recording, ext *Extension, collected *collection) {
	fresh := strings.HasPrefix(rec.Setup.Dataset, "random") && rec.Setup.MultiTurn == nil // promises prompts that share nothing
	l.warn(FaultCache, fresh && ext.Cache.HitPercent >= 1, ext.Cache.HitPercent, 1, "percent of the prompt tokens came from the prefix cache")
	l.warn(FaultRepeats, fresh && rec.Setup.Repeats > 0, float64(rec.Setup.Repeats), 0, "prompts had been sent before in this run")
	l.warn(FaultEmpty, ext.Outcomes.Empty > 0, float64(ext.Outcomes.Empty), 0, "requests ended well without a token; most tools count them as successes")
	// Which event starts TTFT is the profile's choice, so it is the profile's time that counts.
	early := ext.FirstToken.Median - NewDist(collected.ttft).Median
	bound := max(5, ext.FirstToken.Median/10)
	l.warn(FaultEarly, early > bound, early, bound, "ms at the median from the event that starts TTFT to the first token")
}

// streamGap is how far the sum of all gaps is from the sum of E2EL - TTFT, percent.
func (s *Summary) streamGap() float64 {
	gaps, streams := 0.0, 0.0
	for i := range s.Requests {
		request := &s.Requests[i]
		if !request.OK || len(request.ITL) == 0 {
			continue
		}
		gaps += stat.Mean(request.ITL) * float64(len(request.ITL))
		streams += request.Latency - request.TTFT
	}
	if streams <= 0 {
		return 0
	}
	return 100 * math.Abs(gaps-streams) / streams
}

// lastTimes are the moments at which the last query was to be sent and was sent, seconds.
func lastTimes(rec *bench.Recording) (scheduled, sent float64) {
	for i := range rec.Samples {
		scheduled = max(scheduled, rec.Samples[i].Scheduled.Seconds())
		sent = max(sent, rec.Samples[i].Sent.Seconds())
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

// Repeats counts the queries of a workload whose prompt an earlier one had.
func Repeats(workload bench.Workload) int {
	seen, repeats := map[string]bool{}, 0
	for i := range workload {
		key := "t" + workload[i].Prompt
		switch {
		case workload[i].Messages != nil:
			key = "m" + string(workload[i].Messages)
		case workload[i].IDs != nil:
			key = fmt.Sprint("i", workload[i].IDs)
		}
		if seen[key] {
			repeats++
		}
		seen[key] = true
	}
	return repeats
}
