package bench

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"ossian/internal/bench"
	"ossian/internal/bench/report"
	"ossian/internal/terminal"
)

// A cleaner writes to another writer what may hold texts of others, of servers and of authors of
// result files: their names, versions and errors must not steer the terminal. Each call of Write
// has whole characters, as those of package fmt.
type cleaner struct{ to io.Writer }

// Write implements io.Writer.
func (c cleaner) Write(text []byte) (int, error) {
	if _, err := io.WriteString(c.to, strings.Map(terminal.Printable, string(text))); err != nil {
		return 0, err
	}
	return len(text), nil
}

// A sharedWriter lets several goroutines write: a server in this process logs where the
// measurement writes.
type sharedWriter struct {
	mu sync.Mutex // held while to is written to
	to io.Writer
}

// shared returns a writer that several goroutines may use. Files can be used so anyway, and
// what is a terminal has to stay one.
func shared(to io.Writer) io.Writer {
	if _, file := to.(*os.File); file {
		return to
	}
	return &sharedWriter{to: to}
}

// Write implements io.Writer.
func (w *sharedWriter) Write(text []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.to.Write(text)
}

// say writes a line to standard output that the profile's tool writes there, so that
// pasted consoles look alike (bench.md 1.2 and 4; vllm 0.33.0 and 0.11.0, sglang 0.5.23).
// The compiled client writes a log with times of day instead; under its profile the lines
// are those of the Python client. A search for the load has a table and says nothing.
func (m *measurement) say(form string, values ...any) {
	if !m.terse {
		fmt.Fprintf(m.out, form+"\n", values...)
	}
}

// sayCommand is the command line, where the tools show their arguments.
func (m *measurement) sayCommand() {
	words := make([]string, len(m.setup.Args))
	for i, word := range m.setup.Args {
		if words[i] = word; word == "" || strings.ContainsAny(word, " \t\n\"'\\{}$`*?;&|<>()") {
			words[i] = strconv.Quote(word)
		}
	}
	m.say("%s", strings.Join(append([]string{"ossian bench serve"}, words...), " "))
}

// sayWorkload is what is said of a data set.
func (m *measurement) sayWorkload() {
	switch {
	case m.plain():
		in, out := m.tokens()
		m.say("\n#Input tokens: %d\n#Output tokens: %d", in, out)
	case m.setup.Profile == bench.VLLM && !m.flags.Changed("temperature"):
		m.say("WARNING: vllm bench serve no longer sets temperature==0 (greedy) in requests by default. " +
			"The default will be determined on the server side and can be model/API specific. For the old behavior, include --temperature=0.")
	}
}

// sayGaps says what a trace leaves out and what stands in for it. Without any time stamps its
// requests go at --request-rate; with some, nobody knows when the others go.
func (m *measurement) sayGaps() error {
	gaps := m.o.data.gaps
	if gaps.Outputs > 0 {
		m.say("%d of %d rows of the trace have no output length: they ask for %d tokens (--output-len).", gaps.Outputs, gaps.Rows, cmp.Or(m.o.data.output, m.o.data.random.output))
	}
	if gaps.Hashes > 0 {
		m.say("%d of %d rows of the trace have no hashes: their prompts share nothing.", gaps.Hashes, gaps.Rows)
	}
	switch {
	case !m.setup.Arrivals.Timed || gaps.Times == 0:
		return nil
	case gaps.Times < gaps.Rows:
		return fmt.Errorf("%s: line %d: field %q is missing, and other rows have it; --no-self-timed sends all at --request-rate",
			m.o.data.path, gaps.FirstTime, cmp.Or(m.o.data.trace.Timestamp, "timestamp"))
	}
	m.setup.Arrivals.Timed = false
	m.say("The trace has no times: requests are sent at --request-rate.")
	return nil
}

// plain reports whether the profile is one of those that are not vLLM's.
func (m *measurement) plain() bool {
	return m.setup.Profile == bench.LMDeploy || m.setup.Profile == bench.SGLang
}

// tokens adds up those of the workload.
func (m *measurement) tokens() (in, out int) {
	for i := range m.work {
		in, out = in+m.work[i].Input, out+m.work[i].Output
	}
	return in, out
}

// sayFirst is said before a run.
func (m *measurement) sayFirst() {
	if m.setup.Profile == bench.SGLang {
		m.say("Starting warmup with %d sequences...", m.o.warmups)
	}
	if m.plain() {
		return
	}
	m.say("Starting initial single prompt test run...")
	if m.o.ready == 0 {
		m.say("Skipping endpoint ready check.")
	}
}

// sayMain is said when what comes before the measurement is over.
func (m *measurement) sayMain() {
	switch m.setup.Profile {
	case bench.VLLM, bench.VLLMRust:
		m.say("Starting main benchmark run...")
	case bench.SGLang:
		m.say("Warmup completed with %d sequences. Starting main benchmark run...", m.o.warmups)
	}
}

// stage is said at a stage of a run; spent is the time since the one before.
func (m *measurement) stage(stage bench.Stage, spent time.Duration) {
	profile := m.setup.Profile
	switch {
	case stage == bench.Waiting:
		m.say("Waiting for endpoint to become up in %g seconds", m.o.ready)
	case stage == bench.Answered && profile == bench.VLLM011:
		m.say("Initial test run completed. Starting main benchmark run...")
	case stage == bench.Answered:
		m.say("Initial test run completed.")
	case profile == bench.LMDeploy && stage == bench.WarmingUp:
		m.say("Starting initial single prompt test run...")
	case profile == bench.LMDeploy && stage == bench.WarmedUp:
		m.say("Initial test run completed. Starting main benchmark run...\nwarmup time: %.2fs", spent.Seconds())
	case stage == bench.WarmingUp && !m.plain():
		m.say("Warming up with %d requests...", m.o.warmups)
	case stage == bench.WarmedUp && !m.plain():
		m.say("Warmup run completed.")
	case stage == bench.Measuring && !m.plain():
		m.sayTraffic(&m.setup.Arrivals)
	}
}

// sayTraffic says when requests are sent.
func (m *measurement) sayTraffic(arrivals *bench.Arrivals) {
	kind, concurrency := "Gamma distribution", "None"
	if arrivals.Burstiness == 1 {
		kind = "Poisson process"
	}
	if arrivals.Concurrency > 0 {
		concurrency = strconv.Itoa(arrivals.Concurrency)
	}
	switch {
	case arrivals.Timed:
		m.say("Self timing is set, using the timestamps from the trace file.")
	case arrivals.Ramp.Strategy != "":
		m.say("Traffic ramp-up strategy: %s.\nWill increase RPS from %g to %g RPS over the duration of the benchmark.", arrivals.Ramp.Strategy, arrivals.Ramp.Start, arrivals.Ramp.End)
	default:
		m.say("Traffic request rate: %s", report.PyFloat(arrivals.Rate))
	}
	if !arrivals.Timed {
		m.say("Burstiness factor: %s (%s)\nMaximum request concurrency: %s", report.PyFloat(arrivals.Burstiness), kind, concurrency)
	}
	if m.o.probeRate > 0 {
		m.say("Probe request rate: %s req/s", report.PyFloat(m.o.probeRate))
	}
}
