package serve

import (
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
	events map[string]*kvevents.Publisher // by the model's reported name; nil = nobody is told
	tracer *trace.Tracer                  // likewise
}

// checkOutlets finds what openOutlets would not accept of settings and environment, and returns how
// prefixes of each model are told of, by its reported name: empty = they are not.
func checkOutlets(cfg *config.Config, version string, env []string) (map[string]kvevents.Config, trace.Config, error) {
	lookup := lookup(env)
	told, err := kvevents.ParseConfig(cfg.KVEvents, lookup)
	if err != nil {
		return nil, trace.Config{}, err
	}
	each := map[string]kvevents.Config{}
	if models := eachModel(cfg); told.On() {
		for i, own := range models {
			name := servedNames(own)[0]
			if each[name], err = told.Of(name, i, len(models)); err != nil {
				return nil, trace.Config{}, err
			}
		}
	}
	traced, err := trace.FromEnv(version, lookup)
	return each, traced, err
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

// openOutlets opens those that are asked for, for models of which none is loaded.
func openOutlets(cfg *config.Config, version string, env []string, log *slog.Logger, counters *metrics.Server, models *fleet) (*outlets, error) {
	told, traced, err := checkOutlets(cfg, version, env)
	if err != nil {
		return nil, err
	}
	opened := &outlets{events: map[string]*kvevents.Publisher{}}
	// A publisher binds its address when it is opened: one that cannot closes those before it.
	for name, own := range told {
		if opened.events[name], err = kvevents.Open(own, log.With("model", name)); err != nil {
			delete(opened.events, name)
			opened.close()
			return nil, err
		}
	}
	if len(told) > 0 {
		if !cfg.PrefixCaching {
			log.Warn("--kv-events-config: nothing is cached with --no-enable-prefix-caching, so nobody is told anything")
		}
		counters.PublishesKVEvents(opened.published)
		models.tells(opened.events)
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

// published is what was told of prefixes, of all models.
func (o *outlets) published() (sum metrics.KVEvents) {
	for _, publisher := range o.events {
		stats := publisher.Stats()
		sum.Published, sum.Dropped, sum.Subscribers = sum.Published+stats.Published, sum.Dropped+stats.Dropped, sum.Subscribers+stats.Subscribers
	}
	return sum
}

// close sends what is left to be sent.
func (o *outlets) close() {
	for _, publisher := range o.events {
		publisher.Close()
	}
	if o.tracer != nil {
		o.tracer.Close()
	}
}

// observers are several that are told the same of prefixes.
type observers []engine.PrefixObserver

// Stored implements engine.PrefixObserver: it tells all of them.
func (all observers) Stored(serial, parent, salt uint64, tokens []int32) {
	for _, observer := range all {
		observer.Stored(serial, parent, salt, tokens)
	}
}

// Found implements engine.PrefixObserver: it tells all of them.
func (all observers) Found(serial uint64) {
	for _, observer := range all {
		observer.Found(serial)
	}
}

// Removed implements engine.PrefixObserver: it tells all of them.
func (all observers) Removed(serial uint64) {
	for _, observer := range all {
		observer.Removed(serial)
	}
}

// Flush implements engine.PrefixObserver: it tells all of them.
func (all observers) Flush() {
	for _, observer := range all {
		observer.Flush()
	}
}
