package check

// Rules of llama.cpp, Ollama, TensorRT-LLM, LMDeploy, and of servers that are not known.

import (
	"strconv"
	"strings"
)

var llamaCounters = counterSet{running: "llamacpp:requests_processing", waiting: "llamacpp:requests_deferred", usage: "llamacpp:kv_cache_usage_ratio",
	queries: "llamacpp:prompt_tokens_total", hits: "llamacpp:prompt_tokens_cached_total", preempted: "llamacpp:preempted_total"}

var llamaRules = []rule{
	named(areaParallel, "layers split over devices", func(value string) (State, string, *Change) {
		if none(value) {
			return Off, "", without("split-mode")
		}
		return On, "", nil
	}, "tensor_split", "split_mode"),
	{areaParallel, "layers on the accelerator", llamaOffload},
	{areaParallel, "threads", llamaThreads},
	{areaWeights, "quantised weights", quantization},
	named(areaWeights, "vector instructions", func(value string) (State, string, *Change) {
		if strings.Contains(value, "AVX2 = 1") || strings.Contains(value, "AVX512 = 1") || strings.Contains(value, "NEON = 1") || strings.Contains(value, "CUDA") {
			return On, "", nil
		}
		return Off, "a build for this processor has them", nil
	}, "system_info"),
	named(areaAttention, "flash attention", func(value string) (State, string, *Change) {
		if yes, known := truthOf(value); known && !yes {
			return Off, "", set("flash-attn", "on")
		} else if known {
			return On, "", nil
		}
		return Unknown, "", nil // auto: what came of it is another line
	}, "flash_attn"),
	{areaPrefix, "prefix cache", llamaPrefix},
	named(areaBatch, "batch budget", chosen, "n_batch", "batch_size"),
	named(areaBatch, "tokens of one computation", chosen, "n_ubatch", "ubatch_size"),
	toggle(areaBatch, "continuous batching", false, without("cont-batching", "no-cont-batching"), "cont_batching"),
	sequences(llamaCounters, "parallel", "total_slots", "n_seq_max", "parallel"),
	eightBits(set("cache-type-k", "q8_0", "cache-type-v", "q8_0"), "type_k", "cache_type_k"),
	room(llamaCounters, nil, "n_ctx", "default_generation_settings.n_ctx", "ctx_size"),
	{areaSpeculation, "speculation", llamaSpeculation},
	always(areaGraphs, "graphs", Unknown, "whether graphs are reused is not told"),
}

// llamaOffload judges how many layers are on the accelerator.
func llamaOffload(s *seen) (verdict, bool) {
	done, known := s.number("offloaded")
	all, _ := s.number("offloadable")
	if !known {
		return verdict{}, true
	}
	out := verdict{state: On, evidence: s.evidence("offloaded")}
	if done < all {
		out.state, out.change = Off, set("n-gpu-layers", strconv.Itoa(int(all)))
	}
	return out, true
}

// llamaThreads judges the threads against those that the machine has.
func llamaThreads(s *seen) (verdict, bool) {
	used, known := s.number("n_threads")
	all, told := s.number("host_threads")
	if !known || !told {
		return verdict{}, true
	}
	out := verdict{state: On, evidence: s.evidence("n_threads")}
	if used < all/2 { // half of the hardware threads is one for each core where there are two
		out.state, out.change = Off, set("threads", strconv.Itoa(int(all)))
	}
	return out, true
}

// llamaPrefix judges the reuse of a slot's prompt, which counters of newer versions tell.
func llamaPrefix(s *seen) (verdict, bool) {
	counted := prefix(llamaCounters, false, without("no-cache-prompt"), "cache_prompt")
	out, ok := counted.judge(s)
	if size, known := s.get("cache_reuse"); known {
		out.evidence = append(out.evidence, s.evidence("cache_reuse")...)
		if out.state == Unknown && size.value != "0" {
			out.state = On
		}
	}
	return out, ok
}

// llamaSpeculation judges speculation by the settings of a slot and by its counters.
func llamaSpeculation(s *seen) (verdict, bool) {
	if out := drafts(s, "llamacpp:spec_decode_"); len(out.evidence) > 0 {
		return out, true
	}
	if name, known := s.get("model_draft"); known && !none(name.value) {
		return verdict{state: On, evidence: s.evidence("model_draft")}, true
	}
	one := toggle(areaSpeculation, "speculation", false, nil, "default_generation_settings.speculative", "speculative")
	return one.judge(s)
}

var ollamaRules = []rule{
	{areaParallel, "weights on the accelerator", func(s *seen) (verdict, bool) {
		size, known := s.number("size")
		there, told := s.number("size_vram")
		if !known || !told {
			return verdict{}, true
		}
		out := verdict{state: On, evidence: s.evidence("size", "size_vram")}
		if there < size {
			out.state, out.reason = Off, "what does not fit there is computed by the processor"
		}
		return out, true
	}},
	{areaWeights, "quantised weights", func(s *seen) (verdict, bool) {
		s.alias("quantization_level", "details.quantization_level")
		return quantization(s)
	}},
	toggle(areaAttention, "flash attention", false, set("OLLAMA_FLASH_ATTENTION", "1"), "OLLAMA_FLASH_ATTENTION"),
	named(areaSequences, "sequence limit", func(value string) (State, string, *Change) {
		if value == "1" {
			return Off, "", set("OLLAMA_NUM_PARALLEL", "4")
		}
		return chosen(value)
	}, "OLLAMA_NUM_PARALLEL"),
	eightBits(set("OLLAMA_KV_CACHE_TYPE", "q8_0"), "OLLAMA_KV_CACHE_TYPE"),
}

// alias has a setting under another name, too.
func (s *seen) alias(name, of string) {
	told := s.settings[canonical(of)]
	if len(told) > 0 && len(s.settings[canonical(name)]) == 0 {
		s.settings[canonical(name)] = told
	}
}

var tensorRules = []rule{
	several("tensor parallel", "tp_size", "tp_size", "tensor_parallel_size"),
	{areaWeights, "quantised weights", quantization},
	named(areaAttention, "attention backend", chosen, "attn_backend", "attention_backend"),
	{areaGraphs, "CUDA graphs", func(s *seen) (verdict, bool) {
		config, known := s.get("cuda_graph_config")
		if !known {
			return verdict{}, true
		}
		if none(config.value) {
			return verdict{state: Off, evidence: s.evidence("cuda_graph_config")}, true
		}
		return verdict{state: On, evidence: s.evidence("cuda_graph_config")}, true
	}},
	{areaPrefix, "prefix cache", func(s *seen) (verdict, bool) {
		rate, known := s.number("kvcachestats.cachehitrate")
		if reuse, told := s.truth("enable_block_reuse"); told && !reuse {
			return verdict{state: Off, evidence: s.evidence("enable_block_reuse")}, true
		}
		if !known {
			return verdict{}, true
		}
		out := verdict{state: Unknown, evidence: s.evidence("kvcachestats.cachehitrate", "kvcachestats.reusedblocks")}
		if rate > 0 {
			out.state = On
		}
		return out, true
	}},
	toggle(areaBatch, "chunked prefill", false, set("enable_chunked_prefill", ""), "enable_chunked_prefill"),
	named(areaBatch, "batch budget", chosen, "maxnumtokensruntime", "max_num_tokens"),
	{areaSequences, "sequence limit", func(s *seen) (verdict, bool) {
		limit, known := s.number("maxbatchsizeruntime", "maxbatchsizestatic", "maxnumactiverequests", "max_batch_size")
		keys := []string{"maxbatchsizeruntime", "maxbatchsizestatic", "maxnumactiverequests", "max_batch_size", "numactiverequests", "numqueuedrequests"}
		out := verdict{state: Unknown, evidence: s.evidence(keys...)}
		active, _ := s.number("numactiverequests")
		queued, _ := s.number("numqueuedrequests")
		switch {
		case known && active >= limit && queued > 0:
			out.state, out.change = Off, set("max_batch_size", strconv.Itoa(int(active+queued)))
		case known:
			out.state = On
		}
		return out, true
	}},
	toggle(areaAsync, "overlapped scheduling", true, nil, "disable_overlap_scheduler"),
	eightBits(nil, "kv_cache_dtype", "kv_cache_config.dtype"),
	{areaKV, "room for what runs", func(s *seen) (verdict, bool) {
		all, known := s.number("kvcachestats.maxnumblocks")
		free, _ := s.number("kvcachestats.freenumblocks")
		paused, _ := s.number("inflightbatchingstats.numpausedrequests")
		if !known {
			return verdict{}, true
		}
		out := verdict{state: On, evidence: s.evidence("kvcachestats.maxnumblocks", "kvcachestats.freenumblocks", "inflightbatchingstats.numpausedrequests")}
		if paused > 0 || (all > 0 && free == 0) {
			out.state, out.change = Off, set("kv_cache_free_gpu_memory_fraction", "0.95")
		}
		return out, true
	}},
	{areaSpeculation, "speculation", func(s *seen) (verdict, bool) {
		if _, known := s.get("specdecodingstats.numdrafttokens"); known {
			return verdict{state: On, evidence: s.evidence("specdecodingstats.numdrafttokens", "specdecodingstats.acceptancelength")}, true
		}
		if config, known := s.get("speculative_config"); known {
			state := map[bool]State{true: Off, false: On}[none(config.value)]
			return verdict{state: state, evidence: s.evidence("speculative_config")}, true
		}
		return verdict{}, true
	}},
	interval("stream_interval", "stream_interval"),
}

var lmdeployCounters = counterSet{running: "lmdeploy:num_requests_running", waiting: "lmdeploy:num_requests_waiting", usage: "lmdeploy:gpu_cache_usage_perc",
	queries: "lmdeploy:prompt_tokens_total", hits: "lmdeploy:prefix_cache_hits_total", preempted: "lmdeploy:num_preemptions_total"}

var lmdeployRules = []rule{
	several("tensor parallel", "tp", "tp"),
	named(areaWeights, "quantised weights", func(value string) (State, string, *Change) {
		if value == "hf" || none(value) {
			return Off, "another checkpoint of the model may have quantised weights", nil
		}
		return On, "", nil
	}, "model_format"),
	named(areaAttention, "engine", chosen, "lmdeploy_backend", "backend"),
	prefix(lmdeployCounters, false, set("enable-prefix-caching", ""), "enable_prefix_caching"),
	named(areaBatch, "batch budget", chosen, "max_prefill_token_num"),
	sequences(lmdeployCounters, "max-batch-size", "max_batch_size"),
	named(areaKV, "keys and values in 8 bits (lossy)", func(value string) (State, string, *Change) {
		if value == "0" {
			return Off, "answers change slightly: quality has to be evaluated", set("quant-policy", "8")
		}
		return On, "", nil
	}, "quant_policy"),
	room(lmdeployCounters, set("cache-max-entry-count", "0.9"), "cache_max_entry_count"),
	named(areaGraphs, "CUDA graphs", func(value string) (State, string, *Change) {
		if yes, known := truthOf(value); known && yes {
			return Off, "", without("eager-mode")
		}
		return On, "", nil
	}, "eager_mode"),
}

// otherRules ask what any server may tell under vLLM's names.
var otherRules = []rule{
	prefix(ownCounters, false, nil, "enable_prefix_caching"),
	sequences(ownCounters, "max-num-seqs", "max_num_seqs"),
	room(ownCounters, nil),
}
