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
	Repeats     int     `json:"repeats"`         // queries whose prompt an earlier one had
	Salt        string  `json:"salt,omitempty"`  // what the beginnings of prompts were changed with; hash and repeats are of those before
	Cache       string  `json:"cache,omitempty"` // what was done about the server's prefix cache before the run: reset, salt, carry; "" = nothing was asked for
	Rate        float64 `json:"rate"`            // requests per second; 0 = all at once
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

// A sampleReading is a sample as the extension sees it, whatever the profile.
type sampleReading struct {
	events  []bench.Chunk // that bring something to see
	carry   []bench.Chunk // events that tokens are in: those, or where the server counts, also ones without text
	tokens  float64
	counted bool // the events say how many tokens they have
}

// readSample says what a sample gave; count re-tokenizes, nil = no tokenizer.
func readSample(sample *bench.Sample, count func(string) int) sampleReading {
	reading := sampleReading{events: eventsWith(sample, bench.Text|bench.Reasoning)}
	usage := sample.Counts.Completion
	if len(reading.events) == 0 {
		if usage <= 1 { // one token and no text: the end of the text came first
			return sampleReading{}
		}
		if reading.events = eventsWith(sample, bench.Output); len(reading.events) == 0 { // tool calls
			reading.events = eventsWith(sample, bench.Choices)
		}
	}
	// A server counts tokens if it does so in every event that shows something; then tokens
	// of other events, which decode to no text, are in the count too.
	inEvents := 0
	if !slices.ContainsFunc(reading.events, func(chunk bench.Chunk) bool { return chunk.Tokens < 0 }) {
		for _, chunk := range eventsWith(sample, bench.Choices) {
			if chunk.Tokens > 0 {
				reading.carry = append(reading.carry, chunk)
				inEvents += int(chunk.Tokens)
			}
		}
	}
	if reading.counted = inEvents > 0; !reading.counted {
		reading.carry = reading.events
	}
	switch { // the best source that there is
	case usage > 0:
		reading.tokens = float64(usage)
	case reading.counted:
		reading.tokens = float64(inEvents)
	case count != nil:
		reading.tokens = float64(count(sample.Text) + count(sample.Thought))
	default:
		reading.tokens = float64(len(reading.events))
	}
	return reading
}

// eventsWith are the events of any of some kinds.
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
func (r *sampleReading) arrivals(out []arrival) []arrival {
	for _, chunk := range r.carry {
		tokens := r.tokens / float64(len(r.carry))
		if r.counted {
			tokens = float64(chunk.Tokens)
		}
		out = append(out, arrival{chunk.At.Seconds(), tokens})
	}
	return out
}

// extend computes the extension of a summary, whose other numbers are there already.
func extend(rec *bench.Recording, summary *Summary, count func(string) int) Extension {
	// What was asked for, then what came of it, and in the end the judgement on both.
	set := &rec.Setup
	ext := Extension{Compat: set.Profile.String(), Backend: set.Backend, Dialect: set.Dialect, URL: set.URL, Model: set.Model,
		Args: append([]string{}, set.Args...), Environment: set.Environment,
		Workload: Workload{Dataset: set.Dataset, Hash: set.Hash, Seed: set.Seed, Queries: len(rec.Samples), Repeats: set.Repeats, Salt: set.Salt, Cache: set.Cache,
			Concurrency: set.Arrivals.Concurrency, IgnoreEOS: set.IgnoreEOS}}
	if summary.hasRate() {
		ext.Workload.Rate = set.Arrivals.Rate
	}
	collected := collect(rec, summary, count)
	ext.Outcomes = collected.outcomes
	ext.Stream = collected.streamNumbers(summary)
	ext.FirstChunk, ext.FirstToken, ext.Service = NewDist(collected.chunk), NewDist(collected.first), NewDist(collected.service)
	ext.QueueWait = NewDist(collected.queue)
	ext.OpenLoop = OpenLoop{FirstToken: NewDist(collected.openFirst), E2EL: NewDist(collected.openLast)}
	ext.Client = newClient(rec, summary, collected)
	ext.Cache = newCache(rec)
	ext.Certified = summary.certify()
	ext.Batches = batches(summary.Requests)
	ext.Intervals = intervals(ext.Batches)
	ext.Steady = summary.findSteady(cmp.Or(set.Steady.Threshold, SteadyThreshold), set.Steady.Shortest, collected.arrivals)
	ext.Findings = findings(rec, summary, &ext, collected)
	ext.Valid = !slices.ContainsFunc(ext.Findings, func(f Finding) bool { return !f.Warning })
	return ext
}

// A collection holds what extend takes from the samples; times are seconds.
type collection struct {
	outcomes                     Outcomes
	chunk, first, service, queue []float64
	openFirst, openLast          []float64
	ttft                         []float64 // as the profile has it, of those that are a success to it
	arrivals                     []arrival
	began                        float64 // when the first of the queries with output was sent
	tokens                       float64
	chunks, events               int // with tokens; all
	counted                      bool
	wrong                        int // outputs whose length is not the one asked for
	sized                        int // outputs whose length is known exactly
}

// collect goes through the samples once. The summary has the requests in the same order.
func collect(rec *bench.Recording, summary *Summary, count func(string) int) *collection {
	collected := &collection{outcomes: Outcomes{Causes: map[string]int{}}, counted: true, began: math.Inf(1)}
	for i := range rec.Samples {
		sample := &rec.Samples[i]
		collected.events += len(sample.Chunks)
		if !sample.OK() {
			collected.addFailure(sample, summary.Requests[i].Err)
			continue
		}
		reading := readSample(sample, count) // nothing, where only the profile calls it a failure
		if len(reading.events) == 0 {
			collected.outcomes.Empty++
			collected.addLength(sample.Asked, max(0, sample.Counts.Completion))
			continue
		}
		collected.outcomes.Output++
		collected.began = min(collected.began, sample.Sent.Seconds())
		collected.arrivals = reading.arrivals(collected.arrivals)
		collected.chunks += len(reading.carry)
		collected.tokens += reading.tokens
		collected.counted = collected.counted && reading.counted
		if sample.Counts.Completion > 0 {
			collected.addLength(sample.Asked, sample.Counts.Completion)
		}
		first, last := reading.events[0].At, reading.events[len(reading.events)-1].At
		if e := eventsWith(sample, bench.Choices|bench.Text|bench.Reasoning); len(e) > 0 {
			collected.chunk = append(collected.chunk, (e[0].At - sample.Sent).Seconds())
		}
		if summary.Requests[i].OK {
			collected.ttft = append(collected.ttft, summary.Requests[i].TTFT)
		}
		collected.first = append(collected.first, (first - sample.Sent).Seconds())
		collected.service = append(collected.service, (last - sample.Sent).Seconds())
		collected.queue = append(collected.queue, (sample.Sent - sample.Released).Seconds())
		collected.openFirst = append(collected.openFirst, (first - sample.Scheduled).Seconds())
		collected.openLast = append(collected.openLast, (last - sample.Scheduled).Seconds())
	}
	return collected
}

// addLength compares the length of an output with the one asked for.
func (c *collection) addLength(asked, tokens int) {
	if asked <= 0 {
		return
	}
	c.sized++
	if tokens != asked {
		c.wrong++
	}
}

// addFailure counts a query that failed, by cause; at most 20 causes are told apart.
func (c *collection) addFailure(sample *bench.Sample, cause string) {
	if len(sample.Chunks) > 0 {
		c.outcomes.Aborted++
	} else {
		c.outcomes.Refused++
	}
	if sample.Status != 200 && sample.Status != 0 {
		cause = "HTTP " + strconv.Itoa(sample.Status)
	}
	// Causes are texts of servers: one line, not too long, and few enough to read.
	cause = bench.OneLine(strings.SplitN(cause, "\n", 2)[0])
	if len(cause) > 120 {
		cause = strings.ToValidUTF8(cause[:120], "") + "…"
	}
	if _, known := c.outcomes.Causes[cause]; !known && len(c.outcomes.Causes) >= 20 {
		cause = "other"
	}
	c.outcomes.Causes[cause]++
}

// streamNumbers counts tokens per second since the first start.
func (c *collection) streamNumbers(summary *Summary) Stream {
	out := Stream{PeakRequests: peakExact(summary.Requests), Tokens: c.tokens, Chunks: c.chunks, Counted: c.counted && c.chunks > 0}
	seconds := map[int]float64{}
	for _, a := range c.arrivals {
		second := int(a.at - c.began)
		seconds[second] += a.tokens
		out.Peak = max(out.Peak, seconds[second])
	}
	if c.chunks > 0 {
		out.TokensPerChunk = out.Tokens / float64(c.chunks)
	}
	out.Rate = summary.perSecond(out.Tokens)
	return out
}

// newClient says what the measuring cost; the verdict is the ledger's, the limits are in validity.go.
func newClient(rec *bench.Recording, summary *Summary, collected *collection) Client {
	var late, lag []float64
	for i := range rec.Samples {
		sample := &rec.Samples[i]
		sent := sample.Sent
		if rec.Setup.Arrivals.Concurrency > 0 {
			sent = sample.Released // what follows is the wait for a slot, which was asked for
		}
		if sample.Sent > 0 || sample.Done > 0 {
			late = append(late, max(0, (sent-sample.Scheduled).Seconds()))
		}
		for _, e := range sample.Chunks {
			if rec.Client.Kernel && e.Lag >= 0 {
				lag = append(lag, float64(e.Lag)/1e9)
			}
		}
	}
	out := Client{SendLate: NewDist(late), Lag: NewDist(lag), CPUPercent: summary.perSecond(rec.Client.CPU.Seconds()) * 100,
		MaxPause: rec.Client.MaxPause.Seconds() * 1000, Threads: rec.Client.Threads, Kernel: rec.Client.Kernel,
		Unknown: rec.Interrupted, Shared: rec.Client.Shared, Verdict: "ok", Reasons: []string{}}
	if collected.events > 0 {
		out.CPUPerEvent = rec.Client.CPU.Seconds() * 1e6 / float64(collected.events)
	}
	return out
}

// newCache adds up what usage and the server's counters say about cached prompt tokens.
func newCache(rec *bench.Recording) Cache {
	// Two witnesses: what usage says of each request, and what the server's counters did
	// meanwhile, which other clients have a part in.
	var cache Cache
	for i := range rec.Samples {
		sample := &rec.Samples[i]
		if !sample.OK() || sample.Counts.Cached < 0 || sample.Counts.Prompt <= 0 {
			continue
		}
		cache.Prompt += sample.Counts.Prompt
		cache.Cached += sample.Counts.Cached
		if sample.Counts.Cached > 0 {
			cache.Requests++
		}
	}
	if cache.Prompt > 0 {
		cache.HitPercent = 100 * float64(cache.Cached) / float64(cache.Prompt)
	}
	cache.ServerHits, cache.ServerQueries, _ = prefixCache(rec.Before, rec.After)
	if cache.ServerQueries > 0 {
		cache.HitPercent = max(cache.HitPercent, 100*cache.ServerHits/cache.ServerQueries)
	}
	return cache
}

// certify judges the percentiles of the report, and P90 and P99 always.
func (s *Summary) certify() []Certified {
	wanted := []float64{90, 99} // each once
	for _, percentile := range s.percentiles() {
		if percentile != 90 && percentile != 99 {
			wanted = append(wanted, percentile)
		}
	}
	out := []Certified{}
	slices.Sort(wanted)
	for _, latency := range []metric{{key: "ttft", dist: s.TTFT}, {key: "tpot", dist: s.TPOT}, {key: "itl", dist: s.ITL}, {key: "e2el", dist: s.E2EL}} {
		for _, percentile := range wanted {
			certified := Certified{Metric: latency.key, P: percentile, N: latency.dist.N, Need: stat.Floor(percentile), Value: latency.dist.P(percentile)}
			if i, ok := stat.QuantileInterval(latency.dist.sorted, percentile, stat.Confidence); ok {
				certified.Interval = &stat.Interval{Low: i.Low * 1000, High: i.High * 1000}
			}
			if upper, ok := stat.UpperBound(latency.dist.sorted, percentile); ok {
				upper *= 1000
				certified.Certified, certified.Upper = true, &upper
			}
			out = append(out, certified)
		}
	}
	return out
}
