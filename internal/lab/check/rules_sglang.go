package check

// Rules of SGLang, whose /get_server_info tells all of its arguments as they came out.

import "strings"

var sglangCounters = counterSet{running: "sglang:num_running_reqs", waiting: "sglang:num_queue_reqs", usage: "sglang:token_usage",
	queries: "sglang:prompt_tokens_total", hits: "sglang:cached_tokens_total", preempted: "sglang:num_retracted_requests_total", rate: "sglang:cache_hit_rate"}

var sglangRules = []rule{
	several("tensor parallel", "tp-size", "tp_size"),
	several("data parallel", "dp-size", "dp_size"),
	{areaWeights, "quantised weights", quantization},
	named(areaWeights, "weight kernel", chosen, "moe_runner_backend", "fp8_gemm_runner_backend", "weight_kernel"),
	named(areaAttention, "attention backend", chosen, "attention_backend", "decode_attention_backend"),
	{areaGraphs, "CUDA graphs", sglangGraphs},
	toggle(areaGraphs, "compilation", false, set("enable-torch-compile", ""), "enable_torch_compile"),
	prefix(sglangCounters, true, without("disable-radix-cache"), "disable_radix_cache"),
	named(areaBatch, "chunked prefill", func(value string) (State, string, *Change) {
		if strings.HasPrefix(value, "-") || value == "0" {
			return Off, "", without("chunked-prefill-size")
		}
		if none(value) {
			return Unknown, "", nil
		}
		return On, "", nil
	}, "chunked_prefill_size"),
	named(areaBatch, "batch budget", chosen, "max_prefill_tokens"),
	toggle(areaBatch, "prompts and replies in one step", false, set("enable-mixed-chunk", ""), "enable_mixed_chunk"),
	sequences(sglangCounters, "max-running-requests", "effective_max_running_requests_per_dp", "max_running_requests"),
	toggle(areaAsync, "overlapped scheduling", true, without("disable-overlap-schedule"), "disable_overlap_schedule"),
	eightBits(set("kv-cache-dtype", "fp8_e4m3"), "kv_cache_dtype"),
	room(sglangCounters, set("mem-fraction-static", "0.92"), "max_total_num_tokens", "token_capacity", "mem_fraction_static"),
	named(areaSpeculation, "speculation", func(value string) (State, string, *Change) {
		if none(value) {
			return Off, "", nil
		}
		return On, "", nil
	}, "speculative_algorithm", "accept_length"),
	named(areaSampling, "sampling backend", func(value string) (State, string, *Change) {
		if value == "pytorch" {
			return Off, "acts on requests with top-p or top-k alone", set("sampling-backend", "flashinfer")
		}
		return chosen(value)
	}, "sampling_backend"),
	interval("stream-interval", "stream_interval"),
	named(areaFront, "several tokenizer processes", func(value string) (State, string, *Change) {
		if value == "1" || value == "0" {
			return Off, "", set("tokenizer-worker-num", "4")
		}
		return chosen(value)
	}, "tokenizer_worker_num"),
}

// sglangGraphs judges graphs by what was captured or used, then by the switch: the server captures where it
// is not told otherwise, and says so in its settings as they came out.
func sglangGraphs(s *seen) (verdict, bool) {
	out := verdict{state: Unknown, evidence: s.evidence("cuda_graphs", "disable_cuda_graph")}
	used, told := s.truth("cuda_graphs")
	disabled, known := s.truth("disable_cuda_graph")
	switch {
	case (known && disabled) || (told && !used):
		out.state, out.change = Off, without("disable-cuda-graph")
	case told, known:
		out.state = On
	}
	return out, true
}
