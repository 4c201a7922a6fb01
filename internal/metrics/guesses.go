package metrics

import (
	"maps"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
)

// Guesses is what became of the guesses of an engine: speculative decoding. Without it there are no
// series of it, as in vLLM.
type Guesses struct {
	Most       int             // of a row; 0 = nothing is guessed
	Rows       uint64          // rows that had guesses: vLLM's drafts
	AcceptedAt []uint64        // accepted guesses, by their place in a row; Most of them at least
	Sources    []GuessedFrom   // in a fixed order
	StepCosts  map[int]float64 // by tokens of a step: how many times as long as with one it takes, as learned
}

// GuessedFrom counts the guesses of one source.
type GuessedFrom struct {
	Source                       string
	Accepted, Refused, Unchecked uint64 // Unchecked: behind one that was refused
}

// count adds the counters of other engines.
func (g *Guesses) count(other *Guesses) {
	if other.Most == 0 {
		return
	}
	if g.Most == 0 { // asleep
		*g = *other
		g.StepCosts = nil
		return
	}
	g.Rows += other.Rows
	for place := range min(len(g.AcceptedAt), len(other.AcceptedAt)) {
		g.AcceptedAt[place] += other.AcceptedAt[place]
	}
	for i := range min(len(g.Sources), len(other.Sources)) {
		g.Sources[i].Accepted += other.Sources[i].Accepted
		g.Sources[i].Refused += other.Sources[i].Refused
		g.Sources[i].Unchecked += other.Sources[i].Unchecked
	}
}

// guessDescs describe the series of guesses.
type guessDescs struct {
	drafts, guessed, accepted, acceptedAt, results, cost *prometheus.Desc
}

// newGuessDescs returns those of a model.
func newGuessDescs(server *Server, labels prometheus.Labels) guessDescs {
	desc := func(name, help string, more ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, more, maps.Clone(labels))
	}
	return guessDescs{
		drafts:     desc(server.prefix+":spec_decode_num_drafts_total", "Rows of steps that carried guesses."),
		guessed:    desc(server.prefix+":spec_decode_num_draft_tokens_total", "Guesses that steps carried."),
		accepted:   desc(server.prefix+":spec_decode_num_accepted_tokens_total", "Guesses that were the id which was drawn."),
		acceptedAt: desc(server.prefix+":spec_decode_num_accepted_tokens_per_pos_total", "Accepted guesses, by their place in a row.", "position"),
		results:    desc("ossian_guesses_total", "Guesses, by where they came from and what became of them; unchecked: behind one that was refused.", "source", "result"),
		cost:       desc("ossian_speculation_cost_ratio", "Time of a step with so many tokens divided by that with one, as learned.", "tokens"),
	}
}

// all gives the descriptions to a registry.
func (d *guessDescs) all(ch chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{d.drafts, d.guessed, d.accepted, d.acceptedAt, d.results, d.cost} {
		ch <- desc
	}
}

// collect gives what a scrape asks for.
func (d *guessDescs) collect(ch chan<- prometheus.Metric, guesses *Guesses) {
	if guesses.Most == 0 {
		return
	}
	count := func(desc *prometheus.Desc, n uint64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, float64(n), labels...)
	}
	var guessed, accepted uint64
	for _, from := range guesses.Sources {
		count(d.results, from.Accepted, from.Source, "accepted")
		count(d.results, from.Refused, from.Source, "refused")
		count(d.results, from.Unchecked, from.Source, "unchecked")
		guessed, accepted = guessed+from.Accepted+from.Refused+from.Unchecked, accepted+from.Accepted
	}
	// Drafts, guesses and accepted ones are vLLM's counters, results are Ossian's own.
	count(d.drafts, guesses.Rows)
	count(d.guessed, guessed)
	count(d.accepted, accepted)
	for place, n := range guesses.AcceptedAt[:min(guesses.Most, len(guesses.AcceptedAt))] {
		count(d.acceptedAt, n, strconv.Itoa(place))
	}
	for tokens, cost := range guesses.StepCosts {
		ch <- prometheus.MustNewConstMetric(d.cost, prometheus.GaugeValue, cost, strconv.Itoa(tokens))
	}
}
