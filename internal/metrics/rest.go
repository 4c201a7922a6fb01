package metrics

// Models that come into memory and go out of it again: what they have counted stays, so that
// rates and totals are right, what there is of them now is zero meanwhile, and how they were set
// up is not told.

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// A state is what is known of a model's engines: of those that have ended, and of the one that
// runs.
type state struct {
	mu     sync.Mutex      // guards the fields
	before Snapshot        // counters of engines that have ended
	engine func() Snapshot // nil = none runs
	line   func() int
	loads  uint64
}

// now returns the sum of all engines, and what there is of the one that runs.
func (s *state) now() Snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	total := Snapshot{Asleep: s.engine == nil}
	if s.engine != nil {
		total = s.engine()
	}
	if s.line != nil {
		total.InLine = s.line()
		total.Waiting += total.InLine
	}
	total.Loads = s.loads
	total.count(&s.before)
	return total
}

// count adds the counters of other engines.
func (s *Snapshot) count(other *Snapshot) {
	s.Guesses.count(&other.Guesses)
	for _, pair := range [...]struct {
		to   *uint64
		from uint64
	}{
		{&s.Accepted, other.Accepted}, {&s.Prompt, other.Prompt}, {&s.Generation, other.Generation}, {&s.Cached, other.Cached},
		{&s.PrefixQueries, other.PrefixQueries}, {&s.PrefixHits, other.PrefixHits}, {&s.Recomputed, other.Recomputed},
		{&s.Preemptions, other.Preemptions}, {&s.Steps, other.Steps}, {&s.Stalls, other.Stalls}, {&s.Starts, other.Starts},
	} {
		*pair.to += pair.from
	}
}

// Announce adds a model that is not in memory yet, with so many tokens of context, unless there is
// one of that name.
func (s *Server) Announce(name string, maxLen int, line func() int) {
	if s.models[name] == nil {
		s.Model(ModelConfig{Name: name, MaxLen: maxLen, Line: line}).Rest()
	}
}

// wake has a model go on that has just been loaded.
func (m *Model) wake(server *Server, cfg *ModelConfig) {
	state := m.live.state
	state.mu.Lock()
	defer state.mu.Unlock()
	state.engine, state.line = cfg.Snapshot, cfg.Line
	if state.engine == nil {
		state.engine = func() Snapshot { return Snapshot{} }
	} else {
		state.loads++
	}
	m.info.set(cacheInfo(server, *cfg, m.labels), cpuInfo(*cfg, m.labels), configInfo(*cfg, m.labels))
}

// Rest says that the model's engine has ended, and that it is out of memory until Server.Model
// is told of it again.
func (m *Model) Rest() {
	state := m.live.state
	state.mu.Lock()
	defer state.mu.Unlock()
	if state.engine == nil {
		return
	}
	last := state.engine()
	state.before.count(&last)
	state.engine = nil
	m.info.set()
}

// An info has the metrics that say how a model was set up. Which labels these have depends on
// the device, so it describes none beforehand.
type info struct {
	mu  sync.Mutex // guards all
	all []prometheus.Metric
}

// set replaces them.
func (i *info) set(all ...*prometheus.Desc) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.all = nil
	for _, desc := range all {
		i.all = append(i.all, prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, 1))
	}
}

// Describe implements prometheus.Collector.
func (i *info) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (i *info) Collect(ch chan<- prometheus.Metric) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, metric := range i.all {
		ch <- metric
	}
}
