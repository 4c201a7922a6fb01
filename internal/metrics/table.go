package metrics

import "github.com/prometheus/client_golang/prometheus"

const (
	gauge   = prometheus.GaugeValue
	counter = prometheus.CounterValue
)

// Usage is the share of blocks that sequences hold, of the fullest group.
func (s *Snapshot) Usage() (most float64) {
	for _, g := range s.Groups {
		if n := g.Free + g.Cached + g.Held; n > 0 {
			most = max(most, float64(g.Held)/float64(n))
		}
	}
	return most
}

// never is the value of what this server does not do; gateways expect the name.
func never(*Snapshot) float64 { return 0 }

func awake(s *Snapshot) float64 { return 1 - asleep(s) }

// asleep is 1 while the model has made room for another one, of which nothing is kept.
func asleep(s *Snapshot) float64 {
	if s.Asleep {
		return 1
	}
	return 0
}

// table is what a snapshot becomes. A name that begins with a colon gets the
// prefix; hidden ones are for old dashboards.
var table = []struct {
	name, label, is string
	kind            prometheus.ValueType
	help            string
	value           func(*Snapshot) float64
	hidden          bool
}{
	{":num_requests_running", "", "", gauge, "Requests in the running batch.", func(s *Snapshot) float64 { return float64(s.Running) }, false},
	{":num_requests_waiting", "", "", gauge, "Requests in the queue.", func(s *Snapshot) float64 { return float64(s.Waiting) }, false},
	{":num_requests_waiting_by_reason", "reason", "capacity", gauge, "num_requests_waiting, by what they wait for: room in the batch and for KV, or the model to be in memory (deferred).", func(s *Snapshot) float64 { return float64(s.Waiting - s.InLine) }, false},
	{":num_requests_waiting_by_reason", "reason", "deferred", gauge, "num_requests_waiting, by what they wait for: room in the batch and for KV, or the model to be in memory (deferred).", func(s *Snapshot) float64 { return float64(s.InLine) }, false},
	{":kv_cache_usage_perc", "", "", gauge, "Share of the KV blocks that requests hold, 0 to 1.", (*Snapshot).Usage, false},
	{":gpu_cache_usage_perc", "", "", gauge, "Old name of kv_cache_usage_perc.", (*Snapshot).Usage, true},
	{":engine_sleep_state", "sleep_state", "awake", gauge, "1 for the state the engine is in: awake, or not in memory (discard_all).", awake, false},
	{":engine_sleep_state", "sleep_state", "weights_offloaded", gauge, "1 for the state the engine is in: awake, or not in memory (discard_all).", never, false},
	{":engine_sleep_state", "sleep_state", "discard_all", gauge, "1 for the state the engine is in: awake, or not in memory (discard_all).", asleep, false},
	{":prefix_cache_queries_total", "", "", counter, "Prompt tokens looked up in the prefix cache.", func(s *Snapshot) float64 { return float64(s.PrefixQueries) }, false},
	{":prefix_cache_hits_total", "", "", counter, "Prompt tokens found in the prefix cache.", func(s *Snapshot) float64 { return float64(s.PrefixHits) }, false},
	{":gpu_prefix_cache_queries_total", "", "", counter, "Old name of prefix_cache_queries_total.", func(s *Snapshot) float64 { return float64(s.PrefixQueries) }, true},
	{":gpu_prefix_cache_hits_total", "", "", counter, "Old name of prefix_cache_hits_total.", func(s *Snapshot) float64 { return float64(s.PrefixHits) }, true},
	{":external_prefix_cache_queries_total", "", "", counter, "0: there is no external prefix cache.", never, false},
	{":external_prefix_cache_hits_total", "", "", counter, "0: there is no external prefix cache.", never, false},
	{":mm_cache_queries_total", "", "", counter, "0: there is no cache of media.", never, false},
	{":mm_cache_hits_total", "", "", counter, "0: there is no cache of media.", never, false},
	{":num_preemptions_total", "", "", counter, "Sequences whose blocks were taken back.", func(s *Snapshot) float64 { return float64(s.Preemptions) }, false},
	{":prompt_tokens_total", "", "", counter, "Prompt tokens of sequences that got a token, cached ones included.", func(s *Snapshot) float64 { return float64(s.Prompt) }, false},
	{":generation_tokens_total", "", "", counter, "Generated tokens.", func(s *Snapshot) float64 { return float64(s.Generation) }, false},
	{":prompt_tokens_by_source_total", "source", "local_compute", counter, "prompt_tokens_total, by where the KV came from.", func(s *Snapshot) float64 { return float64(s.Prompt - s.Cached) }, false},
	{":prompt_tokens_by_source_total", "source", "local_cache_hit", counter, "prompt_tokens_total, by where the KV came from.", func(s *Snapshot) float64 { return float64(s.Cached) }, false},
	{":prompt_tokens_by_source_total", "source", "external_kv_transfer", counter, "prompt_tokens_total, by where the KV came from.", never, false},
	{":prompt_tokens_cached_total", "", "", counter, "Of prompt_tokens_total, found in the prefix cache.", func(s *Snapshot) float64 { return float64(s.Cached) }, false},
	{":prompt_tokens_cached_by_source_total", "source", "device", counter, "prefix_cache_hits_total, by where the KV was: all of it where the model computes.", func(s *Snapshot) float64 { return float64(s.PrefixHits) }, false},
	{":prompt_tokens_cached_by_source_total", "source", "host", counter, "prefix_cache_hits_total, by where the KV was: all of it where the model computes.", never, false},
	{":prompt_tokens_cached_by_source_total", "source", "p2p", counter, "prefix_cache_hits_total, by where the KV was: all of it where the model computes.", never, false},
	{":prompt_tokens_cached_by_source_total", "source", "disk", counter, "prefix_cache_hits_total, by where the KV was: all of it where the model computes.", never, false},
	{":prompt_tokens_cached_by_source_total", "source", "external_unspecified", counter, "prefix_cache_hits_total, by where the KV was: all of it where the model computes.", never, false},
	{":prompt_tokens_recomputed_total", "", "", counter, "Tokens computed again after preemption.", func(s *Snapshot) float64 { return float64(s.Recomputed) }, false},
	{"ossian_queue_tokens", "", "", gauge, "Prompt tokens in the queue.", func(s *Snapshot) float64 { return float64(s.WaitingTokens) }, false},
	{"ossian_requests_accepted_total", "", "", counter, "Sequences accepted by the engine: choices of requests, and steps of those with tools.", func(s *Snapshot) float64 { return float64(s.Accepted) }, false},
	{"ossian_steps_total", "", "", counter, "Steps of the engine.", func(s *Snapshot) float64 { return float64(s.Steps) }, false},
	{"ossian_stalls_total", "", "", counter, "Times that work was there and no step finished in time.", func(s *Snapshot) float64 { return float64(s.Stalls) }, false},
	{"ossian_model_loads_total", "", "", counter, "Times that the model was brought into memory.", func(s *Snapshot) float64 { return float64(s.Loads) }, false},
	{"ossian_engine_starts_total", "", "", counter, "Starts of the engine loop; more than 1 after a panic or stall.", func(s *Snapshot) float64 { return float64(s.Starts) }, false},
}
