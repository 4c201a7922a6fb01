package check

// Rules of vLLM. Its metrics tell the cache, the queue and speculation; flags and the start log tell
// the rest. Names are those of vLLM's documentation and logs, V1.

import (
	"fmt"
	"math"
	"strings"

	"ossian/internal/lab/guessed"
)

var vllmRules = []rule{
	several("tensor parallel", "tensor-parallel-size", "tensor_parallel_size"),
	several("data parallel", "data-parallel-size", "data_parallel_size"),
	{areaWeights, "quantised weights", quantization},
	named(areaWeights, "weight kernel", chosen, "weight_kernel"),
	named(areaAttention, "attention backend", chosen, "attention_backend"),
	{areaGraphs, "CUDA graphs", vllmGraphs},
	toggle(areaGraphs, "compilation", false, without("enforce-eager", "compilation-config"), "compiled"),
	prefix(ownCounters, false, without("enable-prefix-caching"), "enable_prefix_caching"),
	toggle(areaBatch, "chunked prefill", false, without("enable-chunked-prefill"), "enable_chunked_prefill", "chunked_prefill_enabled"),
	{areaBatch, "batch budget", vllmBudget},
	sequences(ownCounters, "max-num-seqs", "max_num_seqs"),
	toggle(areaAsync, "asynchronous scheduling", false, set("async-scheduling", ""), "async_scheduling"),
	defaulted(eightBits(set("kv-cache-dtype", "fp8"), "cache_dtype", "kv_cache_dtype"), "kv-cache-dtype", "auto", Off, set("kv-cache-dtype", "fp8")),
	room(ownCounters, set("gpu-memory-utilization", "0.95"), "kv_cache_size_tokens", "kv_cache_tokens", "gpu_memory_utilization"),
	{areaSpeculation, "speculation", vllmSpeculation},
	named(areaSampling, "top-p and top-k in one kernel", func(value string) (State, string, *Change) {
		if strings.EqualFold(value, "PyTorch") {
			return Off, "acts on requests with top-p or top-k alone", &Change{Shell: "pip install flashinfer-python"}
		}
		return On, "", nil
	}, "sampling_backend"),
	defaulted(interval("stream-interval", "stream_interval"), "stream-interval", "1", Off, set("stream-interval", "20")),
	defaulted(rule{areaFront, "several front-end processes", func(s *seen) (verdict, bool) {
		n, known := s.number("api_server_count")
		if !known {
			return verdict{}, true
		}
		out := verdict{state: On, evidence: s.evidence("api_server_count")}
		if n <= 1 {
			out.state, out.change = Off, set("api-server-count", "2")
		}
		return out, true
	}}, "api-server-count", "1", Off, set("api-server-count", "2")),
}

// quantization judges the type of the weights: what is named is in use, what is said to be none is not.
func quantization(s *seen) (verdict, bool) {
	for _, key := range []string{"quantization", "quantization_config", "quantization_level", "file_type"} {
		one, known := s.get(key)
		if !known {
			continue
		}
		out := verdict{state: On, evidence: s.evidence(key)}
		if plain := strings.ToLower(one.value); none(plain) || plain == "unquant" || strings.HasPrefix(plain, "f16") || strings.HasPrefix(plain, "bf16") || strings.HasPrefix(plain, "f32") {
			out.state, out.reason = Off, "another checkpoint of the model may have quantised weights"
		}
		return out, true
	}
	return verdict{}, true
}

// vllmGraphs judges whether graphs were captured. That eager mode was not asked for does not say that
// they were.
func vllmGraphs(s *seen) (verdict, bool) {
	keys := []string{"cuda_graphs", "enforce_eager"}
	out := verdict{state: Unknown, evidence: s.evidence(keys...)}
	captured, told := s.truth("cuda_graphs")
	eager, _ := s.truth("enforce_eager")
	switch {
	case eager, told && !captured:
		out.state, out.change = Off, without("enforce-eager")
	case told:
		out.state = On
	}
	return out, true
}

// vllmBudget judges the tokens of a step against the steps that were: a budget that steps reach while
// requests wait is too small, unless what they wait for is a place in the batch or room for keys and values.
func vllmBudget(s *seen) (verdict, bool) {
	budget, known := s.number("max_num_batched_tokens")
	out := verdict{state: Unknown, evidence: s.evidence("max_num_batched_tokens")}
	name := s.prefix() + ":iteration_tokens_total"
	highest := s.metrics.Highest(name)
	if highest > 0 && !math.IsInf(highest, 0) {
		out.evidence = append(out.evidence, Evidence{"metric " + name, fmt.Sprintf("the largest step had at most %s tokens", formatNumber(highest))})
	}
	waiting, evidence, _ := s.metric(s.prefix() + ":num_requests_waiting")
	running, _, _ := s.metric(s.prefix() + ":num_requests_running")
	usage, _, _ := s.metric(s.prefix() + ":kv_cache_usage_perc")
	limit, limited := s.number("max_num_seqs")
	switch {
	case known && highest >= budget && waiting > 0 && limited && running < limit && usage < full:
		out.state, out.change = Off, set("max-num-batched-tokens", formatNumber(2*budget))
		out.evidence = append(out.evidence, evidence)
	case known:
		out.state = On
	}
	return out, true
}

// drafts judges speculation by counters of a prefix; no evidence = there are none.
func drafts(s *seen, prefix string) (out verdict) {
	brought := guessed.Read(s.metrics, s.prefix(), prefix)
	if brought == nil {
		return out
	}
	_, drafted, _ := s.metric(prefix + "num_draft_tokens_total")
	_, accepted, _ := s.metric(prefix + "num_accepted_tokens_total")
	out = verdict{state: On, reason: brought.Verdict(), evidence: []Evidence{drafted, accepted}}
	if brought.Guesses > 0 {
		out.evidence = append(out.evidence, Evidence{"computed: accepted / drafted", formatNumber(digits(100*brought.Accepted/brought.Guesses, 3)) + " % of the drafted tokens were accepted"})
	}
	if length := brought.Length(); length > 0 {
		out.evidence = append(out.evidence, Evidence{"computed: 1 + accepted / drafts", formatNumber(digits(length, 3)) + " tokens a step with drafts" + brought.ByPlace()})
	}
	return out
}

// vllmSpeculation judges speculation: its counters are there with it only.
func vllmSpeculation(s *seen) (verdict, bool) {
	if out := drafts(s, s.prefix()+":spec_decode_"); len(out.evidence) > 0 {
		return out, true
	}
	if rate, told := s.number("draft_acceptance_percent"); told && rate > 0 {
		return verdict{state: On, evidence: s.evidence("draft_acceptance_percent")}, true
	}
	if one, known := s.get("speculative_config", "speculative_model"); known {
		if none(one.value) {
			return verdict{state: Off, evidence: s.evidence("speculative_config", "speculative_model")}, true
		}
		return verdict{state: On, evidence: s.evidence("speculative_config", "speculative_model")}, true
	}
	if s.metrics.Has(s.prefix() + ":") {
		return verdict{state: Off, evidence: []Evidence{{"route /metrics", "no name begins with " + s.prefix() + ":spec_decode_, which is there with speculation only"}}}, true
	}
	return verdict{}, true
}

// interval judges how many tokens leave together.
func interval(flag string, keys ...string) rule {
	return rule{areaStream, "several tokens to a chunk", func(s *seen) (verdict, bool) {
		n, known := s.number(keys...)
		if !known {
			return verdict{}, true
		}
		out := verdict{state: On, evidence: s.evidence(keys...)}
		if n <= 1 {
			out.state, out.reason, out.change = Off, "tokens would come in groups: ITL becomes a time per group", set(flag, "20")
		}
		return out, true
	}}
}
