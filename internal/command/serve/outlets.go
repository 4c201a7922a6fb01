package serve

import (
	"fmt"
	"log/slog"
	"strings"

	"ossian/internal/config"
	"ossian/internal/engine"
	"ossian/internal/kvevents"
	"ossian/internal/metrics"
	"ossian/internal/trace"
	"ossian/internal/trace/otlp"
)

// Outlets are what a server tells others without being asked: routers which prefixes are cached, a
// collector what became of requests.
type outlets struct {
	events *kvevents.Publisher // nil = nobody is told
	tracer *trace.Tracer       // likewise
}

// checkOutlets finds what openOutlets would not accept of settings and environment.
func checkOutlets(cfg *config.Config, version string, env []string) (kvevents.Config, trace.Config, error) {
	lookup := lookup(env)
	told, err := kvevents.ParseConfig(cfg.KVEvents, lookup)
	if err != nil {
		return told, trace.Config{}, err
	}
	if told.On() && len(cfg.Models) > 1 { // an event does not say of which model it is
		return told, trace.Config{}, fmt.Errorf("--kv-events-config is for one model, and there are %d: run a server for each, with an endpoint and a topic of its own", len(cfg.Models))
	}
	traced, err := trace.FromEnv(version, lookup)
	return told, traced, err
}

// lookup is os.LookupEnv for an environment as os.Environ returns it.
func lookup(env []string) func(name string) (string, bool) {
	return func(name string) (value string, found bool) {
		for _, entry := range env {
			if text, ok := strings.CutPrefix(entry, name+"="); ok {
				value, found = text, true
			}
		}
		return value, found
	}
}

// openOutlets opens those that are asked for.
func openOutlets(cfg *config.Config, version string, env []string, log *slog.Logger, counters *metrics.Server) (*outlets, error) {
	told, traced, err := checkOutlets(cfg, version, env)
	if err != nil {
		return nil, err
	}
	opened := &outlets{}
	if told.On() {
		if opened.events, err = kvevents.Open(told, log); err != nil {
			return nil, err
		}
		if !cfg.PrefixCaching {
			log.Warn("--kv-events-config: nothing is cached with --no-enable-prefix-caching, so nobody is told anything")
		}
		counters.PublishesKVEvents(func() metrics.KVEvents {
			stats := opened.events.Stats()
			return metrics.KVEvents{Published: stats.Published, Dropped: stats.Dropped, Subscribers: stats.Subscribers}
		})
	}
	if traced.On() {
		for _, note := range traced.Notes {
			log.Warn(note)
		}
		log.Info("traces are sent", "endpoint", traced.Endpoint)
		opened.tracer = otlp.New(traced, log)
		counters.Traces(func() (exported, dropped uint64) {
			stats := opened.tracer.Stats()
			return stats.Exported, stats.Dropped
		})
	}
	return opened, nil
}

// close sends what is left to be sent.
func (o *outlets) close() {
	if o.events != nil {
		o.events.Close()
	}
	if o.tracer != nil {
		o.tracer.Close()
	}
}

// observers are several that are told the same of prefixes.
type observers []engine.PrefixObserver

func (all observers) Stored(serial, parent, salt uint64, tokens []int32) {
	for _, observer := range all {
		observer.Stored(serial, parent, salt, tokens)
	}
}

func (all observers) Found(serial uint64) {
	for _, observer := range all {
		observer.Found(serial)
	}
}

func (all observers) Removed(serial uint64) {
	for _, observer := range all {
		observer.Removed(serial)
	}
}

func (all observers) Flush() {
	for _, observer := range all {
		observer.Flush()
	}
}
