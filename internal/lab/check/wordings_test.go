package check

import (
	"strings"
	"testing"

	"ossian/internal/lab/check/exposition"
	"ossian/internal/lab/engines"
)

// budgetReached is a server whose steps reached 512 tokens while requests waited.
const budgetReached = `vllm:kv_cache_usage_perc 0.6
vllm:num_requests_waiting 9
vllm:num_requests_running 9
vllm:iteration_tokens_total_bucket{le="256.0"} 5
vllm:iteration_tokens_total_bucket{le="512.0"} 9
vllm:iteration_tokens_total_bucket{le="+Inf"} 9
vllm:iteration_tokens_total_count 9`

// Wordings of other versions, of logs that go on after the start, and of several ranks.
func TestOtherWordings(t *testing.T) {
	for _, c := range []struct {
		engine, log, metrics, row string
		want                      State
	}{
		{engines.VLLM, "INFO [cuda.py:3] Using FLASH_ATTN attention backend out of potential backends: ['FLASH_ATTN', 'FLASHINFER']", "", "attention backend", On},
		{engines.VLLM, "INFO Using AttentionBackendEnum.TRITON_ATTN backend.", "", "attention backend", On},
		{engines.VLLM, "INFO Using Flash Attention backend on V1 engine.", "", "attention backend", On},
		{engines.VLLM, "INFO [mxfp4.py:1] Using Triton backend", "", "attention backend", Unknown},
		{engines.VLLM, "INFO Using MacheteLinearKernel for GPTQMarlinLinearMethod", "", "weight kernel", On},
		{engines.VLLM, "INFO Graph capturing finished in 21 secs, took 0.52 GiB", "", "CUDA graphs", On},
		{engines.VLLM, "INFO non-default args: {'enforce_eager': False}", "", "CUDA graphs", Unknown}, // not asked for is not captured
		{engines.VLLM, "INFO torch.compile takes 30.11 s in total", "", "compilation", On},
		{engines.VLLM, "INFO Asynchronous scheduling is enabled.", "", "asynchronous scheduling", On},
		{engines.VLLM, "INFO Using FlashInfer for top-p & top-k sampling.", "", "top-p and top-k in one kernel", On},
		{engines.VLLM, "INFO Engine 000: Avg prompt throughput: 10.0 tokens/s, Running: 3 reqs, Waiting: 0 reqs, GPU KV cache usage: 1.2%, Prefix cache hit rate: 43.1%", "", "prefix cache", On},
		{engines.VLLM, "INFO SpecDecoding metrics: Draft acceptance rate: 61.2%, Mean acceptance length: 2.31", "", "speculation", On},
		{engines.VLLM, "", "vllm:spec_decode_num_draft_tokens_total 30\nvllm:spec_decode_num_accepted_tokens_total 18", "speculation", On},
		{engines.VLLM, "", `vllm:num_requests_running{engine="0"} 4`, "speculation", Off},
		{engines.VLLM, "", "vllm:kv_cache_usage_perc{engine=\"0\"} 0.5\nvllm:kv_cache_usage_perc{engine=\"1\"} 0.6\nvllm:num_requests_waiting 9\nvllm:num_requests_running 9", "sequence limit", Unknown}, // or the budget
		{engines.VLLM, "INFO non-default args: {'max_num_seqs': 9}", "vllm:kv_cache_usage_perc 0.6\nvllm:num_requests_waiting 9\nvllm:num_requests_running 9", "sequence limit", Off},
		{engines.VLLM, "INFO non-default args: {'max_num_seqs': 99}\nINFO Chunked prefill is enabled with max_num_batched_tokens=512.", budgetReached, "batch budget", Off},
		{engines.VLLM, "INFO non-default args: {'max_num_seqs': 9}\nINFO Chunked prefill is enabled with max_num_batched_tokens=512.", budgetReached, "batch budget", On},
		{engines.VLLM, "", "vllm:kv_cache_usage_perc 0.97\nvllm:num_requests_waiting 9\nvllm:num_requests_running 9", "sequence limit", Unknown},
		{engines.VLLM, "", "vllm:num_preemptions_total 3", "room for what runs", Off},
		{engines.SGLang, "Prefill batch, #new-seq: 1, #new-token: 5, #cached-token: 100, token usage: 0.01", "", "prefix cache", On},
		{engines.SGLang, "Decode batch, #running-req: 5, #token: 1234, token usage: 0.03, cuda graph: False, gen throughput (token/s): 12.3", "", "CUDA graphs", Off},
		{engines.SGLang, "", "sglang:cache_hit_rate 0.4", "prefix cache", On},
		{engines.SGLang, "", "sglang:num_retracted_requests_total 4", "room for what runs", Off},
		{engines.LlamaCpp, "llama_context: flash_attn    = auto", "", "flash attention", Unknown},
		{engines.LlamaCpp, "llama_context: flash_attn    = auto\nllama_context: Flash Attention was auto, set to enabled", "", "flash attention", On},
		{engines.LlamaCpp, "srv    load_model: prompt cache is enabled, size limit: 8192 MiB", "", "prefix cache", On},
		{engines.LlamaCpp, "load_tensors: offloaded 29/29 layers to GPU", "", "layers on the accelerator", On},
		{engines.LlamaCpp, "llama_kv_cache: size = 10 MiB, K (q8_0): 5 MiB, V (q8_0): 5 MiB", "", "keys and values in 8 bits (lossy)", On},
	} {
		s := &seen{engine: c.engine, settings: map[string][]setting{}, metrics: exposition.Read([]byte(c.metrics))}
		s.readLogLines(strings.Split(c.log, "\n"), "log")
		for _, row := range s.rows(nil) {
			if row.Name == c.row && row.State != c.want {
				t.Errorf("%s %q %q: %s is %q, want %q: %+v", c.engine, c.log, c.metrics, c.row, row.State, c.want, row.Evidence)
			}
		}
	}
}

// Whether guesses pay is told by what they brought and by what steps cost; where there are none, by
// what the model is.
func TestSpeculationPays(t *testing.T) {
	const counted = "vllm:spec_decode_num_drafts_total 100\nvllm:spec_decode_num_draft_tokens_total 300\nvllm:spec_decode_num_accepted_tokens_total 200\nvllm:generation_tokens_total 1000\n"
	for _, tt := range []struct {
		metrics string
		state   State
		reason  string
	}{
		{counted + `ossian_speculation_cost_ratio{tokens="4"} 1.5`, On, "it pays here: answers came 1.18 times as fast as without guesses"},
		{counted + `ossian_speculation_cost_ratio{tokens="4"} 3.9`, On, "it does not pay here: answers came 0.92 times as fast as without guesses"},
		{counted, On, ""},
		{`ossian_config_info{experts="32"} 1`, Off, "files and records that are copied come sooner with --speculative-config, the same ids; little else does, as each token of a step brings experts of its own"},
		{`ossian_config_info{experts="0"} 1`, Off, "texts that repeat come sooner with --speculative-config, the same ids"},
	} {
		s := &seen{engine: engines.Ossian, settings: map[string][]setting{}, metrics: exposition.Read([]byte(tt.metrics))}
		s.readAnswers()
		if out, _ := ownSpeculation(s); out.state != tt.state || out.reason != tt.reason {
			t.Errorf("%s: %s (%s), want %s (%s)", tt.metrics, out.state, out.reason, tt.state, tt.reason)
		}
	}
}
