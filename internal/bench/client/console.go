package client

import (
	"cmp"
	"fmt"
	"strconv"
	"time"

	"ossian/internal/bench"
	"ossian/internal/bench/jsonstyle"
)

// say writes a line to standard output that the profile's tool writes there, so that
// pasted consoles look alike (bench.md 1.2 and 4; vllm 0.33.0 and 0.11.0, sglang 0.5.23).
// The compiled client writes a log with times of day instead; under its profile the lines
// are those of the Python client. A search for the load has a table and says nothing.
func (c *Client) say(form string, values ...any) {
	if c.Out != nil {
		fmt.Fprintf(c.Out, form+"\n", values...)
	}
}

// sayWorkload is what is said of a data set.
func (c *Client) sayWorkload() {
	switch {
	case c.plain():
		in, out := c.Totals()
		c.say("\n#Input tokens: %d\n#Output tokens: %d", in, out)
	case c.setup.Profile == bench.VLLM && !c.sends("temperature"):
		c.say("WARNING: vllm bench serve no longer sets temperature==0 (greedy) in requests by default. " +
			"The default will be determined on the server side and can be model/API specific. For the old behavior, include --temperature=0.")
	}
}

// sayGaps says what a trace leaves out and what stands in for it. Without any time stamps its
// requests go at --request-rate; with some, nobody knows when the others go.
func (c *Client) sayGaps() error {
	gaps := c.Data.gaps
	if gaps.Outputs > 0 {
		c.say("%d of %d rows of the trace have no output length: they ask for %d tokens (--output-len).", gaps.Outputs, gaps.Rows, cmp.Or(c.Data.Output, c.Data.Random.Output))
	}
	if gaps.Hashes > 0 {
		c.say("%d of %d rows of the trace have no hashes: their prompts share nothing.", gaps.Hashes, gaps.Rows)
	}
	switch {
	case !c.setup.Arrivals.Timed || gaps.Times == 0:
		return nil
	case gaps.Times < gaps.Rows:
		return fmt.Errorf("%s: line %d: field %q is missing, and other rows have it; --no-self-timed sends all at --request-rate",
			c.Data.Path, gaps.FirstTime, cmp.Or(c.Data.Trace.Timestamp, "timestamp"))
	}
	c.setup.Arrivals.Timed = false
	c.say("The trace has no times: requests are sent at --request-rate.")
	return nil
}

// plain reports whether the profile is one of those that are not vLLM's.
func (c *Client) plain() bool {
	return c.setup.Profile == bench.LMDeploy || c.setup.Profile == bench.SGLang
}

// Totals adds up those of the workload.
func (c *Client) Totals() (in, out int) {
	for i := range c.work {
		in, out = in+c.work[i].Input, out+c.work[i].Output
	}
	return in, out
}

// sayFirst is said before a run.
func (c *Client) sayFirst() {
	if c.setup.Profile == bench.SGLang {
		c.say("Starting warmup with %d sequences...", c.Warmups)
	}
	if c.plain() {
		return
	}
	c.say("Starting initial single prompt test run...")
	if c.Ready == 0 {
		c.say("Skipping endpoint ready check.")
	}
}

// sayMain is said when what comes before the measurement is over.
func (c *Client) sayMain() {
	switch c.setup.Profile {
	case bench.VLLM, bench.VLLMRust:
		c.say("Starting main benchmark run...")
	case bench.SGLang:
		c.say("Warmup completed with %d sequences. Starting main benchmark run...", c.Warmups)
	}
}

// stage is said at a stage of a run; spent is the time since the one before.
func (c *Client) stage(stage bench.Stage, spent time.Duration) {
	profile := c.setup.Profile
	switch {
	case stage == bench.Waiting:
		c.say("Waiting for endpoint to become up in %g seconds", c.Ready.Seconds())
	case stage == bench.Answered && profile == bench.VLLM011:
		c.say("Initial test run completed. Starting main benchmark run...")
	case stage == bench.Answered:
		c.say("Initial test run completed.")
	case profile == bench.LMDeploy && stage == bench.WarmingUp:
		c.say("Starting initial single prompt test run...")
	case profile == bench.LMDeploy && stage == bench.WarmedUp:
		c.say("Initial test run completed. Starting main benchmark run...\nwarmup time: %.2fs", spent.Seconds())
	// Plain profiles say it in their own words, above, or not at all.
	case stage == bench.WarmingUp && !c.plain():
		c.say("Warming up with %d requests...", c.Warmups)
	case stage == bench.WarmedUp && !c.plain():
		c.say("Warmup run completed.")
	case stage == bench.Measuring && !c.plain():
		c.sayTraffic(&c.setup.Arrivals)
	}
}

// sayTraffic says when requests are sent.
func (c *Client) sayTraffic(arrivals *bench.Arrivals) {
	kind, concurrency := "Gamma distribution", "None"
	if arrivals.Burstiness == 1 {
		kind = "Poisson process"
	}
	if arrivals.Concurrency > 0 {
		concurrency = strconv.Itoa(arrivals.Concurrency)
	}
	switch {
	case arrivals.Timed:
		c.say("Self timing is set, using the timestamps from the trace file.")
	case arrivals.Ramp.Strategy != "":
		c.say("Traffic ramp-up strategy: %s.\nWill increase RPS from %g to %g RPS over the duration of the benchmark.", arrivals.Ramp.Strategy, arrivals.Ramp.Start, arrivals.Ramp.End)
	default:
		c.say("Traffic request rate: %s", jsonstyle.PyFloat(arrivals.Rate))
	}
	if !arrivals.Timed {
		c.say("Burstiness factor: %s (%s)\nMaximum request concurrency: %s", jsonstyle.PyFloat(arrivals.Burstiness), kind, concurrency)
	}
	if c.ProbeRate > 0 {
		c.say("Probe request rate: %s req/s", jsonstyle.PyFloat(c.ProbeRate))
	}
}
