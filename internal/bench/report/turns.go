package report

import (
	"cmp"
	"fmt"
	"strconv"
	"time"

	"ossian/internal/bench"
	"ossian/internal/bench/jsonstyle"
)

// Turns are the numbers of conversations (bench.md 1.10).
type Turns struct {
	Conversations, Completed int
	Sent                     float64    // turns, mean over conversations; the last one may have failed
	Duration                 float64    // milliseconds, mean over conversations, with the waits between turns
	Each                     []*Summary // of the first turns, the second ones and so on; rates are per second of the whole run
}

// makeTurns makes the numbers of a recording, whose requests are in s.
func (s *Summary) makeTurns(rec *bench.Recording) *Turns {
	turns := new(Turns)
	// The turns of a conversation stand one behind the other. Each turn number is a summary of
	// its own, over the whole run.
	failed := map[string]bool{} // conversations
	var began, sum time.Duration
	for i := range rec.Samples {
		sample := &rec.Samples[i]
		failed[sample.Session] = failed[sample.Session] || !s.Requests[i].OK
		if i == 0 || rec.Samples[i-1].Session != sample.Session {
			began = sample.Released
		}
		if i+1 == len(rec.Samples) || rec.Samples[i+1].Session != sample.Session {
			sum += sample.Done - began
		}
		for sample.Turn >= len(turns.Each) {
			turns.Each = append(turns.Each, &Summary{Setup: s.Setup, Duration: s.Duration})
		}
		turns.Each[sample.Turn].Requests = append(turns.Each[sample.Turn].Requests, s.Requests[i])
	}
	for _, e := range turns.Each {
		e.total()
		e.times()
	}
	for _, f := range failed {
		if !f {
			turns.Completed++
		}
	}
	turns.Conversations = len(failed)
	n := float64(max(1, len(failed)))
	turns.Sent, turns.Duration = float64(len(rec.Samples))/n, sum.Seconds()*1000/n
	return turns
}

// concurrency is the bound on requests; without one all conversations go on at once.
func (s *Summary) concurrency() int {
	return cmp.Or(s.Setup.Arrivals.Concurrency, s.Turns.Conversations)
}

// turnsConsole is the report on conversations.
func (s *Summary) turnsConsole() string {
	turns := s.Turns
	page := &consolePage{frame: 60}
	// Labels are wider here than in the report of requests.
	row := func(label, form string, value any) { fmt.Fprintf(page, "%-45s "+form+"\n", label, value) }
	if s.Setup.Profile == bench.VLLM {
		s.failures(page)
	}
	page.title(" Multi-Turn Benchmark Result ", "=")
	row("Conversations completed/total:", "%s", fmt.Sprintf("%d/%d", turns.Completed, turns.Conversations))
	row("Turns per conversation (configured):", "%d", s.Setup.MultiTurn.Turns)
	row("Avg turns completed:", "%.1f", turns.Sent)
	row("Avg conversation duration (ms):", "%.0f", turns.Duration)
	row("Concurrency:", "%d", s.concurrency())
	row("Inter-turn delay (ms):", "%d", s.Setup.MultiTurn.Delay.Milliseconds())
	row("Benchmark duration (s):", "%.2f", s.Duration)
	s.turnSection(page, " Overall (All Turns) ")
	for i, e := range turns.Each {
		e.turnSection(page, fmt.Sprintf(" Turn %d (%d samples) ", i+1, len(e.Requests)))
	}
	page.line("=")
	return page.String()
}

// turnSection is about all turns, or about those of one number.
func (s *Summary) turnSection(page *consolePage, title string) {
	row := func(label, value string) { fmt.Fprintf(page, "%-45s %-10s\n", label, value) }
	two := func(f float64) string { return strconv.FormatFloat(f, 'f', 2, 64) }
	page.title(title, "-")
	row("Successful requests:", strconv.Itoa(s.Completed))
	row("Failed requests:", strconv.Itoa(s.Failed))
	row("Total input tokens:", strconv.Itoa(s.Input))
	row("Total generated tokens:", strconv.Itoa(s.Output))
	row("Request throughput (req/s):", two(s.RequestRate))
	row("Input token throughput (tok/s):", two(s.InputRate))
	row("Output token throughput (tok/s):", two(s.OutputRate))
	row("Total token throughput (tok/s):", two(s.TotalRate))
	for _, m := range s.metrics() {
		page.latency(m.title, m.name, m.dist, s.percentiles()...)
	}
}

// turnsResult writes the result of conversations.
func (s *Summary) turnsResult(object *jsonstyle.Object) {
	set, mt, turns := &s.Setup, s.Setup.MultiTurn, s.Turns
	object.Set("date", s.date())
	object.Set("mode", "multi_turn")
	object.Set("backend", set.Backend)
	object.Set("model_id", set.ModelID)
	object.Set("num_conversations", turns.Conversations)
	object.Set("max_model_len", s.flag("--max-model-len", nil))
	object.Set("turns_per_conversation", mt.Turns)
	object.Set("multi_turn_concurrency", s.concurrency())
	object.Set("inter_turn_delay_ms", int(mt.Delay.Milliseconds()))
	// Without a history turns have prefixes in common, and their shares are part of the result.
	if !mt.History() {
		object.Set("prefix_global_ratio", mt.Global)
		object.Set("prefix_conversation_ratio", mt.Own)
		object.Set("prefix_unique_ratio", 1-(mt.Global+mt.Own))
		object.Set("no_history_accumulation", true)
	}
	for _, m := range set.Metadata {
		object.Set(m.Key, m.Value)
	}
	object.Set("duration", s.Duration)
	object.Set("conversations_completed", turns.Completed)
	object.Set("conversations_failed", turns.Conversations-turns.Completed)
	object.Set("avg_turns_completed", turns.Sent)
	object.Set("avg_conversation_duration_ms", turns.Duration)
	s.turnNumbers(object)
	each := make([]jsonstyle.Object, len(turns.Each))
	for i, turn := range turns.Each {
		each[i] = jsonstyle.Of("turn_index", i, "num_samples", len(turn.Requests))
		turn.turnNumbers(&each[i])
	}
	object.Set("per_turn_metrics", each)
}

// turnNumbers writes the numbers of all turns, or of those of one number.
func (s *Summary) turnNumbers(object *jsonstyle.Object) {
	object.Set("completed", s.Completed)
	object.Set("failed", s.Failed)
	if s.Turns != nil && s.Failed > 0 {
		var failed []jsonstyle.Object
		for i := range s.Requests {
			if q := &s.Requests[i]; !q.OK {
				failed = append(failed, q.failure(jsonstyle.Of("conversation_id", q.Session, "turn_index", q.Turn)))
			}
		}
		object.Set("failed_requests", failed)
	}
	object.Set("total_input_tokens", s.Input)
	object.Set("total_output_tokens", s.Output)
	object.Set("request_throughput", s.RequestRate)
	object.Set("input_throughput", s.InputRate)
	object.Set("output_throughput", s.OutputRate)
	object.Set("total_token_throughput", s.TotalRate)
	s.metricResult(object)
}
