package report

import (
	"cmp"
	"fmt"
	"strconv"
	"time"

	"ossian/internal/bench"
)

// Turns are the numbers of conversations (bench.md 1.10).
type Turns struct {
	Conversations, Completed int
	Sent                     float64    // turns, mean over conversations; the last one may have failed
	Duration                 float64    // milliseconds, mean over conversations, with the waits between turns
	Each                     []*Summary // of the first turns, the second ones and so on; rates are per second of the whole run
}

// turns makes the numbers of r, whose requests are in s.
func (s *Summary) turns(r *bench.Recording) *Turns {
	t := new(Turns)
	failed := map[string]bool{} // conversations
	var began, sum time.Duration
	for i := range r.Samples {
		v := &r.Samples[i]
		failed[v.Session] = failed[v.Session] || !s.Requests[i].OK
		if i == 0 || r.Samples[i-1].Session != v.Session {
			began = v.Released
		}
		if i+1 == len(r.Samples) || r.Samples[i+1].Session != v.Session {
			sum += v.Done - began
		}
		for v.Turn >= len(t.Each) {
			t.Each = append(t.Each, &Summary{Setup: s.Setup, Duration: s.Duration})
		}
		t.Each[v.Turn].Requests = append(t.Each[v.Turn].Requests, s.Requests[i])
	}
	for _, e := range t.Each {
		e.total()
		e.times()
	}
	for _, f := range failed {
		if !f {
			t.Completed++
		}
	}
	t.Conversations = len(failed)
	n := float64(max(1, len(failed)))
	t.Sent, t.Duration = float64(len(r.Samples))/n, sum.Seconds()*1000/n
	return t
}

// concurrency is the bound on requests; without one all conversations go on at once.
func (s *Summary) concurrency() int {
	return cmp.Or(s.Setup.Arrivals.Concurrency, s.Turns.Conversations)
}

// turnsConsole is the report on conversations.
func (s *Summary) turnsConsole() string {
	t := s.Turns
	p := &page{frame: 60}
	row := func(label, form string, value any) { fmt.Fprintf(p, "%-45s "+form+"\n", label, value) }
	if s.Setup.Profile == bench.VLLM {
		s.failures(p)
	}
	p.title(" Multi-Turn Benchmark Result ", "=")
	row("Conversations completed/total:", "%s", fmt.Sprintf("%d/%d", t.Completed, t.Conversations))
	row("Turns per conversation (configured):", "%d", s.Setup.MultiTurn.Turns)
	row("Avg turns completed:", "%.1f", t.Sent)
	row("Avg conversation duration (ms):", "%.0f", t.Duration)
	row("Concurrency:", "%d", s.concurrency())
	row("Inter-turn delay (ms):", "%d", s.Setup.MultiTurn.Delay.Milliseconds())
	row("Benchmark duration (s):", "%.2f", s.Duration)
	s.turnSection(p, " Overall (All Turns) ")
	for i, e := range t.Each {
		e.turnSection(p, fmt.Sprintf(" Turn %d (%d samples) ", i+1, len(e.Requests)))
	}
	p.line("=")
	return p.String()
}

// turnSection is about all turns, or about those of one number.
func (s *Summary) turnSection(p *page, title string) {
	row := func(label, value string) { fmt.Fprintf(p, "%-45s %-10s\n", label, value) }
	two := func(f float64) string { return strconv.FormatFloat(f, 'f', 2, 64) }
	p.title(title, "-")
	row("Successful requests:", strconv.Itoa(s.Completed))
	row("Failed requests:", strconv.Itoa(s.Failed))
	row("Total input tokens:", strconv.Itoa(s.Input))
	row("Total generated tokens:", strconv.Itoa(s.Output))
	row("Request throughput (req/s):", two(s.RequestRate))
	row("Input token throughput (tok/s):", two(s.InputRate))
	row("Output token throughput (tok/s):", two(s.OutputRate))
	row("Total token throughput (tok/s):", two(s.TotalRate))
	for _, m := range s.metrics() {
		p.latency(m.title, m.name, m.dist, s.percentiles()...)
	}
}

// turnsResult writes the result of conversations.
func (s *Summary) turnsResult(o *object) {
	set, mt, t := &s.Setup, s.Setup.MultiTurn, s.Turns
	o.set("date", s.date())
	o.set("mode", "multi_turn")
	o.set("backend", set.Backend)
	o.set("model_id", set.ModelID)
	o.set("num_conversations", t.Conversations)
	o.set("max_model_len", s.flag("--max-model-len", nil))
	o.set("turns_per_conversation", mt.Turns)
	o.set("multi_turn_concurrency", s.concurrency())
	o.set("inter_turn_delay_ms", int(mt.Delay.Milliseconds()))
	if !mt.History() {
		o.set("prefix_global_ratio", mt.Global)
		o.set("prefix_conversation_ratio", mt.Own)
		o.set("prefix_unique_ratio", 1-(mt.Global+mt.Own))
		o.set("no_history_accumulation", true)
	}
	for _, m := range set.Metadata {
		o.set(m.Key, m.Value)
	}
	o.set("duration", s.Duration)
	o.set("conversations_completed", t.Completed)
	o.set("conversations_failed", t.Conversations-t.Completed)
	o.set("avg_turns_completed", t.Sent)
	o.set("avg_conversation_duration_ms", t.Duration)
	s.turnNumbers(o)
	each := make([]object, len(t.Each))
	for i, e := range t.Each {
		each[i] = object{{"turn_index", i}, {"num_samples", len(e.Requests)}}
		e.turnNumbers(&each[i])
	}
	o.set("per_turn_metrics", each)
}

func (s *Summary) turnNumbers(o *object) {
	o.set("completed", s.Completed)
	o.set("failed", s.Failed)
	if s.Turns != nil && s.Failed > 0 {
		var failed []object
		for i := range s.Requests {
			if q := &s.Requests[i]; !q.OK {
				failed = append(failed, q.failure(object{{"conversation_id", q.Session}, {"turn_index", q.Turn}}))
			}
		}
		o.set("failed_requests", failed)
	}
	o.set("total_input_tokens", s.Input)
	o.set("total_output_tokens", s.Output)
	o.set("request_throughput", s.RequestRate)
	o.set("input_throughput", s.InputRate)
	o.set("output_throughput", s.OutputRate)
	o.set("total_token_throughput", s.TotalRate)
	s.metricResult(o)
}
