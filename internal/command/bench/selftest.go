package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"ossian/internal/bench"
	"ossian/internal/bench/scripted"
	"ossian/internal/command"
	"ossian/internal/self"
)

// A selfTest measures the client with a scripted server in a process of its own.
type selfTest struct {
	streams []int
	rate    float64       // tokens per second and stream
	most    float64       // tokens per second of all streams together
	length  time.Duration // of a stream
	arrive  float64       // requests per second of the last measurement; 0 = none
	server  func(ctx context.Context, args ...string) *exec.Cmd
}

// selftestCommand is ossian bench selftest.
func selftestCommand() *cobra.Command {
	var test selfTest
	cmd := &cobra.Command{
		Use:   "selftest",
		Short: "Measure the benchmark client",
		Long: "Measure the benchmark client against a scripted server that says when it sent what. TTFT error: what the client\n" +
			"says less what the server did, from the receipt of the request to its first write. ITL error: by how much a gap\n" +
			"differs; also with the times at which the kernel had the bytes, where it tells them.",
		Args: command.Usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			program, err := self.Path()
			if err != nil {
				return err
			}
			// The scripted server is a process of its own, so that it does not take its time from
			// the client that it measures.
			test.server = func(ctx context.Context, args ...string) *exec.Cmd { return exec.CommandContext(ctx, program, args...) }
			return test.run(cmd.Context(), cmd.OutOrStdout())
		},
	}
	flags := cmd.Flags()
	flags.IntSliceVar(&test.streams, "streams", []int{1, 10, 100, 500, 1000, 5000}, "streams at once")
	flags.Float64Var(&test.rate, "rate", 100, "tokens per second and stream")
	flags.Float64Var(&test.most, "most", 100_000, "tokens per second of all streams; more streams are slower")
	flags.DurationVar(&test.length, "length", 5*time.Second, "of a stream")
	flags.Float64Var(&test.arrive, "arrivals", 5000, "requests of one token per second, at last; 0 = none")
	return cmd
}

// check refuses what cannot be measured: the times between events would be none, or the
// record of the events would take all memory.
func (t *selfTest) check() error {
	// Written so that NaN is refused.
	for _, limit := range []struct {
		flag               string
		value, least, most float64
	}{{"rate", t.rate, 1e-3, 1e6}, {"most", t.most, 1, 1e9}, {"length", t.length.Seconds(), 1e-3, 3600}, {"arrivals", t.arrive, 0, 1e6}} {
		if !(limit.value >= limit.least && limit.value <= limit.most) {
			return fmt.Errorf("--%s %v: expected %v to %v", limit.flag, limit.value, limit.least, limit.most)
		}
	}
	const events = 100_000_000
	if requests := t.arrive * t.length.Seconds(); requests > events {
		return fmt.Errorf("--arrivals %v: %.0f requests in %v, expected at most %d", t.arrive, requests, t.length, events)
	}
	for _, streams := range t.streams {
		if streams < 1 || streams > 100_000 {
			return fmt.Errorf("--streams %d: expected 1 to 100000", streams)
		}
		if plan := t.plan(streams); plan.tokens > events/streams {
			return fmt.Errorf("--streams %d: %d tokens each in %v, expected at most %d in all; lower --rate, --most or --length", streams, plan.tokens, t.length, events)
		}
	}
	return nil
}

// run measures with each number of streams, a line of the table each, and then arrivals
// alone. An event that the client has not seen as it was sent is an error.
func (t *selfTest) run(ctx context.Context, out io.Writer) error {
	if err := t.check(); err != nil {
		return err
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "\t\t\t\tTTFT error, ms\t\tITL error, ms\t\tkernel\tclient late, ms\t\tserver late\tclient\tmemory\t")
	fmt.Fprintln(table, "streams\ttok/s\tevents\tlost\tmean\tp99\tp50\tp99\tp99\tp99\tmax\tp99\tµs/event\tKB/stream\t")
	lost := 0
	for _, streams := range t.streams {
		result, err := t.level(ctx, t.plan(streams))
		if err != nil {
			return errors.Join(fmt.Errorf("%d streams: %w", streams, err), table.Flush())
		}
		lost += result.handled.Missed
		result.write(table)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	// As many requests as arrive in that time, of one token each.
	if t.arrive > 0 {
		result, err := t.level(ctx, selfPlan{max(int(t.arrive*t.length.Seconds()), 1), 1, time.Second, t.arrive})
		if err != nil {
			return fmt.Errorf("%v requests per second: %w", t.arrive, err)
		}
		lost += result.handled.Missed
		fmt.Fprintf(out, "\n%v requests per second, one token each: %d sent, %d lost; late by %s ms in the median, p99 %s, at most %s; %.1f µs of CPU each\n",
			t.arrive, result.client.N, result.handled.Missed, millis(result.client.P50), millis(result.client.P99), millis(result.client.Max), float64(result.cpu)/1e3)
	}
	if lost > 0 {
		return fmt.Errorf("%d requests are not as the server sent them", lost)
	}
	return nil
}

// A selfPlan is what one line of the table measures.
type selfPlan struct {
	streams, tokens int
	gap             time.Duration
	arrive          float64 // streams that begin per second
}

// plan spreads the beginnings over two seconds: of connections that are all opened at
// once the last ones wait for the server, not for the client.
func (t *selfTest) plan(streams int) selfPlan {
	rate := min(t.rate, t.most/float64(streams))
	gap := time.Duration(float64(time.Second) / rate)
	return selfPlan{streams, max(int(t.length/gap), 2), gap, max(float64(streams)/2, 1)}
}

// level starts the server of a line and measures with it.
func (t *selfTest) level(ctx context.Context, plan selfPlan) (*selfResult, error) {
	ctx, stop := context.WithCancel(ctx)
	server := t.server(ctx, "bench", "scripted", "--port", "0", "--gap", plan.gap.String())
	server.Stderr = os.Stderr
	defer func() {
		stop()
		_ = server.Wait() // it was killed; what it had to say has been read
	}()
	pipe, err := server.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := server.Start(); err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(pipe).ReadString('\n')
	url, ok := strings.CutPrefix(strings.TrimSpace(line), "listening on ")
	if !ok {
		return nil, errors.Join(fmt.Errorf("scripted server: said %q, expected its address", line), err)
	}
	return plan.measure(ctx, url)
}

// measure runs the client against the scripted server at url.
func (p selfPlan) measure(ctx context.Context, url string) (*selfResult, error) {
	setup := bench.Setup{
		Profile: bench.VLLM, Backend: "openai", Dialect: "vllm", URL: url + "/v1/completions", Model: "scripted", Stream: true,
		Arrivals: bench.Arrivals{Rate: p.arrive, Burstiness: math.Inf(1)},
	}
	client, err := bench.NewHTTP(bench.HTTPConfig{Setup: &setup, IDPrefix: "selftest-"})
	if err != nil {
		return nil, err
	}
	work := make(bench.Workload, p.streams)
	for i := range work {
		work[i].Prompt, work[i].Input, work[i].Output, work[i].ID = "Count.", 6, p.tokens, strconv.Itoa(i)
	}
	debug.FreeOSMemory()
	peak := watchMemory()
	rec, err := bench.Run(ctx, client, work, bench.Options{Setup: setup})
	grown := peak()
	client.Close() // the log needs a descriptor
	if err != nil {
		return nil, err
	}
	log, err := scripted.Fetch(ctx, url)
	if err != nil {
		return nil, err
	}
	return compareSelf(p, rec, log, grown), nil
}

// watchMemory follows the memory that this process has from the system; peak ends that
// and returns by how much it grew at most.
func watchMemory() (peak func() uint64) {
	sample := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	read := func() uint64 {
		metrics.Read(sample)
		return sample[0].Value.Uint64() - sample[1].Value.Uint64()
	}
	// Readings are frequent enough for a heap that grows, and few enough not to be measured.
	base := read()
	most := base
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			most = max(most, read())
			select {
			case <-tick.C:
			case <-quit:
				return
			}
		}
	}()
	return func() uint64 {
		close(quit)
		<-done
		return most - base
	}
}

// A selfResult is a line of the table.
type selfResult struct {
	plan    selfPlan
	handled scripted.Errors // by the times at which the client handled events
	kernel  scripted.Errors // by those at which the kernel had them; no events = not known
	client  scripted.Spread // how late requests were sent
	server  scripted.Spread // how late events were sent
	cpu     time.Duration   // of the client, per event
	memory  uint64          // per stream, with its record
}

// compareSelf makes a line of what the client and the server have recorded of the same run.
func compareSelf(plan selfPlan, rec *bench.Recording, log *scripted.Log, grown uint64) *selfResult {
	result := &selfResult{plan: plan, handled: log.Compare(seenBy(rec, false)), server: log.Lateness(), memory: grown / uint64(plan.streams)}
	if rec.Client.Kernel {
		result.kernel = log.Compare(seenBy(rec, true))
	}
	late := make([]time.Duration, len(rec.Samples))
	for i, s := range rec.Samples {
		late[i] = s.Sent - s.Scheduled
	}
	result.client = scripted.Spreads(late)
	if n := result.handled.Events; n > 0 {
		result.cpu = rec.Client.CPU / time.Duration(n)
	}
	return result
}

// seenBy is what the client says, by the times at which it handled events or by those at
// which the kernel had them.
func seenBy(rec *bench.Recording, kernel bool) []scripted.Seen {
	var out []scripted.Seen
	for i := range rec.Samples {
		sample := &rec.Samples[i]
		seen := scripted.Seen{Index: sample.Index}
		last := time.Duration(-1)
		for _, chunk := range sample.Chunks {
			if chunk.Kind&bench.Choices == 0 {
				continue
			}
			at := chunk.At // of the kernel; the client handled it Lag later
			if !kernel {
				at += time.Duration(max(chunk.Lag, 0))
			}
			if last < 0 {
				seen.TTFT = at - sample.Sent
			} else {
				seen.Gaps = append(seen.Gaps, at-last)
			}
			last = at
		}
		if last >= 0 {
			out = append(out, seen)
		}
	}
	return out
}

// write writes the line.
func (r *selfResult) write(out io.Writer) {
	kernel := "-"
	if r.kernel.Events > 0 {
		kernel = millis(r.kernel.Gap.P99)
	}
	fmt.Fprintf(out, "%d\t%.0f\t%d\t%d\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%.2f\t%.1f\t\n",
		r.plan.streams, float64(r.plan.streams)/r.plan.gap.Seconds(), r.handled.Events, r.handled.Missed,
		millis(r.handled.TTFT.Mean), millis(r.handled.TTFT.P99), millis(r.handled.Gap.P50), millis(r.handled.Gap.P99), kernel,
		millis(r.client.P99), millis(r.client.Max), millis(r.server.P99), float64(r.cpu)/1e3, float64(r.memory)/1e3)
}

// millis writes a time in milliseconds.
func millis(d time.Duration) string { return fmt.Sprintf("%.3f", float64(d)/1e6) }
