package report

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"

	"ossian/internal/bench"
	"ossian/internal/stat"
)

// An Extension is what the published tools do not say about a run (bench.md 6). It is
// the member "ossian" of the result. Its times are of requests that gave output: failed,
// broken and empty ones are counted, never averaged in (reliability.md BEN-3).
type Extension struct {
	Compat   string   `json:"compat"`
	Backend  string   `json:"backend"`
	Dialect  string   `json:"dialect"`
	URL      string   `json:"url"`
	Model    string   `json:"model"`
	Workload Workload `json:"workload"`
	Args     []string `json:"args"`

	Environment map[string]string `json:"environment,omitempty"` // machines and versions, as far as known

	Outcomes   Outcomes                 `json:"outcomes"`
	Stream     Stream                   `json:"stream"`
	FirstChunk Dist                     `json:"first_chunk"` // from sending to the first event with choices
	FirstToken Dist                     `json:"first_token"` // from sending to the first text or reasoning
	Service    Dist                     `json:"service"`     // from sending to the last token
	QueueWait  Dist                     `json:"queue_wait"`  // in the client, for a slot
	OpenLoop   OpenLoop                 `json:"open_loop"`
	Client     Client                   `json:"client"`
	Cache      Cache                    `json:"cache"`
	Certified  []Certified              `json:"certified"`
	Batches    map[string][]float64     `json:"batches"`   // statistics of stretches of the run, by key of the result; what Compare tests
	Intervals  map[string]stat.Interval `json:"intervals"` // of means and throughputs, by key of the result; 95 %, from the stretches
	Steady     *Steady                  `json:"steady_state,omitempty"`

	Findings []Finding `json:"findings"`
	Valid    bool      `json:"valid"`
}

// A Workload names what was sent.
type Workload struct {
	Dataset     string  `json:"dataset"`
	Hash        string  `json:"hash"`
	Seed        int64   `json:"seed"`
	Queries     int     `json:"queries"`
	Repeats     int     `json:"repeats"`        // queries whose prompt an earlier one had
	Salt        string  `json:"salt,omitempty"` // what the beginnings of prompts were changed with; hash and repeats are of those before
	Rate        float64 `json:"rate"`           // requests per second; 0 = all at once
	Concurrency int     `json:"concurrency"`
	IgnoreEOS   bool    `json:"ignore_eos"`
}

// Outcomes are the queries by what became of them.
type Outcomes struct {
	Output  int            `json:"output"`  // ended well, with output
	Empty   int            `json:"empty"`   // ended well, without a token
	Refused int            `json:"refused"` // failed before anything came
	Aborted int            `json:"aborted"` // failed in the middle of the stream
	Causes  map[string]int `json:"causes"`
}

// A Stream counts tokens where the tools count events.
type Stream struct {
	Tokens         float64 `json:"tokens"`
	Chunks         int     `json:"chunks"` // events with tokens
	TokensPerChunk float64 `json:"tokens_per_chunk"`
	Rate           float64 `json:"tokens_per_s"` // over the run
	Peak           float64 `json:"peak_tokens_per_s"`
	PeakRequests   int     `json:"peak_requests"` // at one moment
	Counted        bool    `json:"counted"`       // the server says how many tokens are in each event; else they are spread evenly
}

// An OpenLoop has latencies from the moment at which the arrival process wanted the
// request: what a user waits who does not know about the client.
type OpenLoop struct {
	FirstToken Dist `json:"first_token"`
	E2EL       Dist `json:"e2el"`
}

// A Client says what the measuring cost and how far it may have spoilt the numbers.
type Client struct {
	SendLate    Dist     `json:"send_lateness"`
	Lag         Dist     `json:"kernel_lag"`  // from the kernel's receipt to the handler; N = 0: not known
	CPUPercent  float64  `json:"cpu_percent"` // of one core
	CPUPerEvent float64  `json:"cpu_us_per_event"`
	MaxPause    float64  `json:"gc_pause_ms"`
	Threads     int      `json:"threads"`
	Unknown     bool     `json:"usage_unknown,omitempty"` // the log has no end: CPU, pauses and threads are not known
	Kernel      bool     `json:"kernel_times"`
	Shared      bool     `json:"shared_process"` // CPU is the server's too
	Verdict     string   `json:"verdict"`        // ok, client-bound
	Reasons     []string `json:"reasons"`
}

// A Cache says how much of the prompts the server had already.
type Cache struct {
	Prompt        int     `json:"prompt_tokens"` // of requests whose usage says how many were cached
	Cached        int     `json:"cached_tokens"`
	Requests      int     `json:"requests_with_hits"`
	ServerQueries float64 `json:"server_queries"` // tokens, from its counters
	ServerHits    float64 `json:"server_hits"`
	HitPercent    float64 `json:"hit_percent"` // the larger of the two shares
}

// A Certified says what a percentile of so many values is worth (bench.md 6, item 8), as
// if they were independent, which the gaps of one stream are not quite.
type Certified struct {
	Metric    string         `json:"metric"`
	P         float64        `json:"percentile"`
	N         int            `json:"samples"`
	Need      int            `json:"needed"` // 0 = no number certifies it
	Certified bool           `json:"certified"`
	Value     float64        `json:"value_ms"`
	Interval  *stat.Interval `json:"interval_ms"` // 95 %; nil = too few samples
	Upper     *float64       `json:"upper_ms"`    // not exceeded with 99 % confidence; nil = not certified
}

// An arrival is tokens at a time, seconds since the run began.
type arrival struct{ at, tokens float64 }

// A reading is a sample as the extension sees it, whatever the profile.
type reading struct {
	events  []bench.Chunk // that bring something to see
	carry   []bench.Chunk // events that tokens are in: those, or where the server counts, also ones without text
	tokens  float64
	counted bool // the events say how many tokens they have
}

// read says what s gave; count re-tokenizes, nil = no tokenizer.
func read(s *bench.Sample, count func(string) int) reading {
	r := reading{events: eventsWith(s, bench.Text|bench.Reasoning)}
	usage := s.Counts.Completion
	if len(r.events) == 0 {
		if usage <= 1 { // one token and no text: the end of the text came first
			return reading{}
		}
		if r.events = eventsWith(s, bench.Output); len(r.events) == 0 { // tool calls
			r.events = eventsWith(s, bench.Choices)
		}
	}
	inEvents := 0
	if !slices.ContainsFunc(r.events, func(c bench.Chunk) bool { return c.Tokens < 0 }) {
		for _, c := range eventsWith(s, bench.Choices) {
			if c.Tokens > 0 {
				r.carry = append(r.carry, c)
				inEvents += int(c.Tokens)
			}
		}
	}
	if r.counted = inEvents > 0; !r.counted {
		r.carry = r.events
	}
	switch {
	case usage > 0:
		r.tokens = float64(usage)
	case r.counted:
		r.tokens = float64(inEvents)
	case count != nil:
		r.tokens = float64(count(s.Text) + count(s.Thought))
	default:
		r.tokens = float64(len(r.events))
	}
	return r
}

func eventsWith(s *bench.Sample, kind bench.Kind) []bench.Chunk {
	var out []bench.Chunk
	for _, c := range s.Chunks {
		if c.Kind&kind != 0 {
			out = append(out, c)
		}
	}
	return out
}

// arrivals spreads the tokens over the events.
func (r *reading) arrivals(out []arrival) []arrival {
	for _, c := range r.carry {
		n := r.tokens / float64(len(r.carry))
		if r.counted {
			n = float64(c.Tokens)
		}
		out = append(out, arrival{c.At.Seconds(), n})
	}
	return out
}

// extend computes the extension of s, whose other numbers are there already.
func extend(r *bench.Recording, s *Summary, count func(string) int) Extension {
	set := &r.Setup
	x := Extension{Compat: set.Profile.String(), Backend: set.Backend, Dialect: set.Dialect, URL: set.URL, Model: set.Model,
		Args: append([]string{}, set.Args...), Environment: set.Environment,
		Workload: Workload{Dataset: set.Dataset, Hash: set.Hash, Seed: set.Seed, Queries: len(r.Samples), Repeats: set.Repeats, Salt: set.Salt,
			Concurrency: set.Arrivals.Concurrency, IgnoreEOS: set.IgnoreEOS}}
	if s.finite() {
		x.Workload.Rate = set.Arrivals.Rate
	}
	c := collect(r, s, count)
	x.Outcomes = c.outcomes
	x.Stream = c.stream(s)
	x.FirstChunk, x.FirstToken, x.Service = NewDist(c.chunk), NewDist(c.first), NewDist(c.service)
	x.QueueWait = NewDist(c.queue)
	x.OpenLoop = OpenLoop{FirstToken: NewDist(c.openFirst), E2EL: NewDist(c.openLast)}
	x.Client = client(r, s, c)
	x.Cache = cache(r)
	x.Certified = s.certify()
	x.Batches = batches(s.Requests)
	x.Intervals = intervals(x.Batches)
	x.Steady = s.steady(cmp.Or(set.Steady.Threshold, SteadyThreshold), set.Steady.Shortest, c.arrivals)
	x.Findings = findings(r, s, &x, c)
	x.Valid = !slices.ContainsFunc(x.Findings, func(f Finding) bool { return !f.Warning })
	return x
}

// A collection holds what extend takes from the samples; times are seconds.
type collection struct {
	outcomes                     Outcomes
	chunk, first, service, queue []float64
	openFirst, openLast          []float64
	arrivals                     []arrival
	began                        float64 // when the first of the queries with output was sent
	tokens                       float64
	chunks, events               int // with tokens; all
	counted                      bool
	wrong                        int // outputs whose length is not the one asked for
	sized                        int // outputs whose length is known exactly
}

func collect(r *bench.Recording, s *Summary, count func(string) int) *collection {
	c := &collection{outcomes: Outcomes{Causes: map[string]int{}}, counted: true, began: math.Inf(1)}
	for i := range r.Samples {
		v := &r.Samples[i]
		c.events += len(v.Chunks)
		if !v.OK() {
			c.fail(v, s.Requests[i].Err)
			continue
		}
		g := read(v, count) // nothing, where only the profile calls it a failure
		if len(g.events) == 0 {
			c.outcomes.Empty++
			c.size(v.Asked, max(0, v.Counts.Completion))
			continue
		}
		c.outcomes.Output++
		c.began = min(c.began, v.Sent.Seconds())
		c.arrivals = g.arrivals(c.arrivals)
		c.chunks += len(g.carry)
		c.tokens += g.tokens
		c.counted = c.counted && g.counted
		if v.Counts.Completion > 0 {
			c.size(v.Asked, v.Counts.Completion)
		}
		first, last := g.events[0].At, g.events[len(g.events)-1].At
		if e := eventsWith(v, bench.Choices|bench.Text|bench.Reasoning); len(e) > 0 {
			c.chunk = append(c.chunk, (e[0].At - v.Sent).Seconds())
		}
		c.first = append(c.first, (first - v.Sent).Seconds())
		c.service = append(c.service, (last - v.Sent).Seconds())
		c.queue = append(c.queue, (v.Sent - v.Released).Seconds())
		c.openFirst = append(c.openFirst, (first - v.Scheduled).Seconds())
		c.openLast = append(c.openLast, (last - v.Scheduled).Seconds())
	}
	return c
}

// size compares the length of an output with the one asked for.
func (c *collection) size(asked, tokens int) {
	if asked <= 0 {
		return
	}
	c.sized++
	if tokens != asked {
		c.wrong++
	}
}

// fail counts a query that failed, by cause; at most 20 causes are told apart.
func (c *collection) fail(v *bench.Sample, cause string) {
	if len(v.Chunks) > 0 {
		c.outcomes.Aborted++
	} else {
		c.outcomes.Refused++
	}
	if v.Status != 200 && v.Status != 0 {
		cause = "HTTP " + strconv.Itoa(v.Status)
	}
	cause = bench.OneLine(strings.SplitN(cause, "\n", 2)[0])
	if len(cause) > 120 {
		cause = strings.ToValidUTF8(cause[:120], "") + "…"
	}
	if _, known := c.outcomes.Causes[cause]; !known && len(c.outcomes.Causes) >= 20 {
		cause = "other"
	}
	c.outcomes.Causes[cause]++
}

// stream counts tokens per second since the first start.
func (c *collection) stream(s *Summary) Stream {
	out := Stream{PeakRequests: peakExact(s.Requests), Tokens: c.tokens, Chunks: c.chunks, Counted: c.counted && c.chunks > 0}
	seconds := map[int]float64{}
	for _, a := range c.arrivals {
		second := int(a.at - c.began)
		seconds[second] += a.tokens
		out.Peak = max(out.Peak, seconds[second])
	}
	if c.chunks > 0 {
		out.TokensPerChunk = out.Tokens / float64(c.chunks)
	}
	out.Rate = s.per(out.Tokens)
	return out
}

// client judges the measuring process; the limits are in validity.go.
func client(r *bench.Recording, s *Summary, c *collection) Client {
	var late, lag []float64
	for i := range r.Samples {
		v := &r.Samples[i]
		sent := v.Sent
		if r.Setup.Arrivals.Concurrency > 0 {
			sent = v.Released // what follows is the wait for a slot, which was asked for
		}
		if v.Sent > 0 || v.Done > 0 {
			late = append(late, max(0, (sent-v.Scheduled).Seconds()))
		}
		for _, e := range v.Chunks {
			if r.Client.Kernel && e.Lag >= 0 {
				lag = append(lag, float64(e.Lag)/1e9)
			}
		}
	}
	out := Client{SendLate: NewDist(late), Lag: NewDist(lag), CPUPercent: s.per(r.Client.CPU.Seconds()) * 100,
		MaxPause: r.Client.MaxPause.Seconds() * 1000, Threads: r.Client.Threads, Kernel: r.Client.Kernel,
		Unknown: r.Interrupted, Shared: r.Client.Shared, Verdict: "ok", Reasons: []string{}}
	if c.events > 0 {
		out.CPUPerEvent = r.Client.CPU.Seconds() * 1e6 / float64(c.events)
	}
	return out
}

// cache adds up what usage and the server's counters say about cached prompt tokens.
func cache(r *bench.Recording) Cache {
	var c Cache
	for i := range r.Samples {
		v := &r.Samples[i]
		if !v.OK() || v.Counts.Cached < 0 || v.Counts.Prompt <= 0 {
			continue
		}
		c.Prompt += v.Counts.Prompt
		c.Cached += v.Counts.Cached
		if v.Counts.Cached > 0 {
			c.Requests++
		}
	}
	if c.Prompt > 0 {
		c.HitPercent = 100 * float64(c.Cached) / float64(c.Prompt)
	}
	c.ServerHits, c.ServerQueries, _ = prefixCache(r.Before, r.After)
	if c.ServerQueries > 0 {
		c.HitPercent = max(c.HitPercent, 100*c.ServerHits/c.ServerQueries)
	}
	return c
}

// certify judges the percentiles of the report, and P90 and P99 always.
func (s *Summary) certify() []Certified {
	wanted := []float64{90, 99}
	for _, p := range s.percentiles() {
		if p != 90 && p != 99 {
			wanted = append(wanted, p)
		}
	}
	out := []Certified{}
	slices.Sort(wanted)
	for _, m := range []metric{{key: "ttft", dist: s.TTFT}, {key: "tpot", dist: s.TPOT}, {key: "itl", dist: s.ITL}, {key: "e2el", dist: s.E2EL}} {
		for _, p := range wanted {
			c := Certified{Metric: m.key, P: p, N: m.dist.N, Need: stat.Floor(p), Value: m.dist.P(p)}
			if i, ok := stat.QuantileInterval(m.dist.sorted, p, stat.Confidence); ok {
				c.Interval = &stat.Interval{Low: i.Low * 1000, High: i.High * 1000}
			}
			if upper, ok := stat.UpperBound(m.dist.sorted, p); ok {
				upper *= 1000
				c.Certified, c.Upper = true, &upper
			}
			out = append(out, c)
		}
	}
	return out
}

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
	for _, m := range []struct {
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
		with := slices.DeleteFunc(slices.Clone(ok), func(q *Request) bool { return len(m.values(q)) == 0 }) // the mean of none is no 0
		for _, part := range parts(with, perBatch) {
			d := NewDist(pool(part, m.values))
			out["mean_"+m.key+"_ms"] = append(out["mean_"+m.key+"_ms"], d.Mean)
			out["median_"+m.key+"_ms"] = append(out["median_"+m.key+"_ms"], d.Median)
		}
		for _, part := range parts(with, perTail) {
			out["p99_"+m.key+"_ms"] = append(out["p99_"+m.key+"_ms"], NewDist(pool(part, m.values)).P(99))
		}
	}
	rates(ok, out)
	return out
}

// intervals are those of the means over the stretches; a mean of medians is no median, so
// there are none for those.
func intervals(batches map[string][]float64) map[string]stat.Interval {
	out := map[string]stat.Interval{}
	for key, x := range batches {
		if strings.HasPrefix(key, "median_") || strings.HasPrefix(key, "p99_") {
			continue
		}
		if i, ok := stat.MeanInterval(x, stat.Confidence); ok {
			out[key] = i
		}
	}
	return out
}

func pool(part []*Request, values func(q *Request) []float64) []float64 {
	var out []float64
	for _, q := range part {
		out = append(out, values(q)...)
	}
	return out
}

// parts cuts requests into at most mostBatches parts of at least least, nil if that
// gives fewer than leastBatches.
func parts(requests []*Request, least int) [][]*Request {
	n := min(mostBatches, len(requests)/least)
	if n < leastBatches {
		return nil
	}
	out := make([][]*Request, n)
	for i := range out {
		out[i] = requests[i*len(requests)/n : (i+1)*len(requests)/n]
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
	first, last := math.Inf(1), math.Inf(-1)
	for _, q := range requests {
		first, last = min(first, q.Start), max(last, q.Start+q.Latency)
	}
	if !(last > first) || math.IsInf(last-first, 0) {
		return
	}
	done, output, total := make([]float64, windows), make([]float64, windows), make([]float64, windows)
	long := (last - first) / windows
	at := func(t float64) int { return min(max(int((t-first)/long), 0), windows-1) }
	for _, q := range requests {
		done[at(q.Start+q.Latency)] += 1 / long
		total[at(q.Start+q.TTFT)] += float64(q.Input) / long
		share := float64(q.Output) / float64(1+len(q.ITL)) / long
		q.arrivals(func(t float64) {
			output[at(t)] += share
			total[at(t)] += share
		})
	}
	out["request_throughput"], out["output_throughput"], out["total_token_throughput"] = done, output, total
}
