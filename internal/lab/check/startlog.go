package check

// Start logs: what engines say while they start, which is often the only place that tells a kernel.
// Each pattern is one statement of one engine; what it captures are settings under the
// engine's own names.

import (
	"fmt"
	"strconv"
	"strings"

	"ossian/internal/lab/check/exposition"
	"ossian/internal/lab/engines"
	"ossian/internal/lazyregexp"
)

// logMarks are texts that only one engine's log has.
var logMarks = []struct{ word, engine string }{
	{"vLLM API server version", engines.VLLM}, {"vLLM V1 LLM engine", engines.VLLM}, {"V1 LLM engine (v", engines.VLLM},
	{"server_args=ServerArgs(", engines.SGLang}, {"llama_context:", engines.LlamaCpp}, {"llama_model_loader:", engines.LlamaCpp},
	{"TurbomindEngineConfig(", LMDeploy}, {"PytorchEngineConfig(", LMDeploy}, {"OLLAMA_HOST:", engines.Ollama}, {"[TensorRT-LLM]", engines.TensorRTLLM}, {"[TRT-LLM]", engines.TensorRTLLM},
}

// A logPattern turns a line into settings: fixed ones, and those that groups of that name capture.
type logPattern struct {
	expression *lazyregexp.Regexp
	fixed      map[string]string
}

// line makes a pattern; fixed are names and values in turn.
func line(expression string, fixed ...string) logPattern {
	pattern := logPattern{expression: lazyregexp.New(expression), fixed: map[string]string{}}
	for i := 0; i+1 < len(fixed); i += 2 {
		pattern.fixed[fixed[i]] = fixed[i+1]
	}
	return pattern
}

// logPatterns are the statements of each engine that are understood.
var logPatterns = map[string][]logPattern{
	engines.VLLM: {
		line(`vLLM API server version (?P<version>\S+)`),
		line(`LLM engine \(v(?P<version>[^)]+)\) with config: (?P<members>.*)`),
		line(`non-default args: \{(?P<members>.*)\}`),
		line(`Chunked prefill is enabled with max_num_batched_tokens=(?P<max_num_batched_tokens>\d+)`, "enable_chunked_prefill", "True"),
		line(`Asynchronous scheduling is enabled`, "async_scheduling", "True"),
		line(`Asynchronous scheduling is disabled`, "async_scheduling", "False"),
		line(`Using (?P<attention_backend>[A-Za-z][\w.-]*(?: \w+)?) backend on V1 engine`),
		line(`Using (?P<attention_backend>[\w.-]+) attention backend`),
		line(`Using AttentionBackendEnum\.(?P<attention_backend>\w+) backend`),
		line(`\[mxfp4\.py:\d+\] Using (?P<weight_kernel>.+?) backend`),
		line(`Using (?P<sampling_backend>\S+) for top-p & top-k sampling`),
		line(`(?:Falling back to|using) the PyTorch-native implementation of top-p & top-k`, "sampling_backend", "PyTorch"),
		line(`Graph capturing finished in (?P<graph_capture_seconds>[\d.]+) sec`, "cuda_graphs", "True"),
		line(`(?:Enforce eager set, disabling torch.compile and CUDAGraphs|Cudagraph is disabled under eager mode)`, "cuda_graphs", "False", "compiled", "False"),
		line(`torch\.compile takes (?P<compile_seconds>[\d.]+) s`, "compiled", "True"),
		line(`GPU KV cache size: (?P<kv_cache_tokens>[\d,]+) tokens`),
		line(`Maximum concurrency for (?P<kv_request_tokens>[\d,]+) tokens per request: (?P<kv_concurrency>[\d.]+)x`),
		line(`Model loading took (?P<model_loading_gib>[\d.]+) Gi?B`),
		line(`Using '?(?P<weight_kernel>\S+?)'? (?:Mxfp4|NvFp4|Nvfp4|MXFP4|NVFP4|Fp8|FP8|MoE|Unquantized).*backend`),
		line(`Weight-only FP4 compression will be used leveraging the (?P<weight_kernel>\S+) kernel`),
		line(`(?:leveraging|Using|using) (?P<weight_kernel>Marlin|Machete|CutlassW\w+|AllSpark\w*) (?:backend|kernel|LinearKernel)`),
		line(`disabling prefix caching`, "enable_prefix_caching", "False"),
		line(`Automatic prefix caching is enabled`, "enable_prefix_caching", "True"),
		line(`Automatic prefix caching is disabled`, "enable_prefix_caching", "False"),
		line(`Using (?P<weight_kernel>\w+Kernel) for \w+`),
		line(`Capturing CUDA graphs?.*100%`, "cuda_graphs", "True"),
		line(`# GPU blocks: (?P<num_gpu_blocks>\d+)`),
		line(`GPU KV cache usage: (?P<kv_usage_percent>[\d.]+)%, Prefix cache hit rate: (?P<prefix_hit_percent>[\d.]+)%`),
		line(`Draft acceptance rate: (?P<draft_acceptance_percent>[\d.]+)%`),
	},
	engines.SGLang: {
		line(`server_args=ServerArgs\((?P<members>.*)\)`),
		line(`max_total_num_tokens=(?P<max_total_num_tokens>\d+), chunked_prefill_size=(?P<chunked_prefill_size>-?\d+), max_prefill_tokens=(?P<max_prefill_tokens>\d+), max_running_requests=(?P<max_running_requests>\d+)`),
		line(`Attention backend not explicitly specified\. Use (?P<attention_backend>\S+) backend`),
		line(`Capture cuda graph end`, "cuda_graphs", "True"),
		line(`Capture (?:target |draft )?\w+ CUDA graph end`, "cuda_graphs", "True"),
		line(`Cuda graph is disabled`, "cuda_graphs", "False"),
		line(`cuda graph: (?P<cuda_graphs>True|False)`),
		line(`#cached-token: (?P<prefix_hit_tokens>[1-9]\d*)`),
		line(`accept len: (?P<accept_length>[\d.]+)`),
		line(`KV Cache is allocated\. #tokens: (?P<max_total_num_tokens>\d+)`),
		line(`overlap schedul\w+ is (?:disabled|turned off)`, "disable_overlap_schedule", "True"),
	},
	engines.LlamaCpp: {
		line(`llama_context: +(?P<member>n_seq_max|n_ctx|n_batch|n_ubatch|flash_attn|kv_unified) += (?P<value>\S+)`),
		line(`offloaded (?P<offloaded>\d+)/(?P<offloadable>\d+) layers to GPU`),
		line(`K \((?P<type_k>\w+)\):.*V \((?P<type_v>\w+)\):`),
		line(`system_info: n_threads = (?P<n_threads>\d+) \(n_threads_batch = \d+\) / (?P<host_threads>\d+) \| (?P<system_info>.*)`),
		line(`print_info: file type +=\s+(?P<file_type>.+)`),
		line(`print_info: file size +=\s+(?P<file_gib>[\d.]+) GiB`),
		line(`graph splits = (?P<graph_splits>\d+)`),
		line(`flash_attn is not compatible|Flash Attention was auto, set to disabled`, "flash_attn", "disabled"),
		line(`Flash Attention was auto, set to enabled`, "flash_attn", "enabled"),
		line(`n_slots = (?P<total_slots>\d+)`),
		line(`prompt cache is enabled`, "cache_prompt", "True"),
		line(`prompt cache is disabled`, "cache_prompt", "False"),
		line(`build: (?P<build_info>\d+ \(\w+\))`),
	},
	LMDeploy: {
		line(`(?P<lmdeploy_backend>Turbomind|Pytorch)EngineConfig\((?P<members>.*)\)`),
	},
	engines.Ollama: {
		line(`server config.*env="?map\[(?P<variables>[^\]]*)\]`),
	},
	engines.TensorRTLLM: {
		line(`\[T(?:ensor)?RT-LLM\].*(?:LLM Args|LlmArgs|llm_args).*?\b(?P<members>\w+=.*)`),
		line(`TensorRT-LLM version: (?P<version>\S+)`),
	},
}

// readLogLines keeps what the lines of a start log tell. A later line replaces an earlier one: a log
// may hold several starts.
func (s *seen) readLogLines(lines []string, file string) {
	told := map[string]setting{}
	var order []string
	keep := func(n int, name, value, text string) {
		if name == "version" && s.version == "" {
			s.version = clip(value)
		}
		name = canonical(name)
		if _, ok := told[name]; !ok {
			order = append(order, name)
		}
		told[name] = setting{value, byLog, Evidence{fmt.Sprintf("log %s line %d", file, n+1), text}}
	}
	for n, text := range lines {
		for i := range logPatterns[s.engine] {
			pattern := &logPatterns[s.engine][i]
			match := pattern.expression.FindStringSubmatch(text)
			if match == nil {
				continue
			}
			if strings.Contains(match[0], "non-default args") {
				s.logged = flagsOf(pattern.captured(match))
			}
			short := strings.TrimSpace(text[strings.Index(text, match[0]):])
			for name, value := range pattern.fixed {
				keep(n, name, value, short)
			}
			for _, one := range pattern.captured(match) {
				if one.whole {
					one.text = short
				}
				keep(n, one.name, one.value, one.text)
			}
		}
	}
	for _, name := range order {
		one := told[name]
		s.tell(name, one.value, byLog, one.Source, one.Text)
	}
	if len(lines) > 0 && len(order) == 0 {
		s.notes = append(s.notes, fmt.Sprintf("no line of %s is one that %s writes when it starts", file, s.engine))
	}
}

// flagsOf writes settings that a log calls not default as flags, the model and where to listen aside.
func flagsOf(settings []capture) (out []string) {
	for _, one := range settings {
		name := "--" + strings.ReplaceAll(one.name, "_", "-")
		yes, known := truthOf(one.value)
		switch _, isNumber := strconv.ParseFloat(one.value, 64); {
		case one.name == "model" || one.name == "model_tag" || strings.HasPrefix(one.value, "<"):
		case known && isNumber != nil && yes:
			out = append(out, name)
		case known && isNumber != nil:
			out = append(out, "--no-"+name[2:])
		case strings.HasPrefix(one.value, "["):
			words := strings.FieldsFunc(one.value, func(letter rune) bool { return strings.ContainsRune("[]',\" ", letter) })
			out = append(append(out, name), words...)
		default:
			out = append(out, name, one.value)
		}
	}
	return out
}

// A capture is a setting within a line.
type capture struct {
	name, value, text string
	whole             bool // the line as a whole is its evidence
}

// captured returns what the groups of a pattern captured.
func (p *logPattern) captured(match []string) (out []capture) {
	for i, group := range p.expression.SubexpNames() {
		switch {
		case group == "" || match[i] == "":
		case group == "members":
			for _, one := range exposition.Members(match[i]) {
				if secret(one[0]) {
					continue
				}
				out = append(out, capture{name: one[0], value: one[1], text: one[0] + "=" + one[1]})
			}
		case group == "variables":
			for word := range strings.FieldsSeq(match[i]) {
				if name, value, ok := strings.Cut(word, ":"); ok {
					out = append(out, capture{name: name, value: value, text: word})
				}
			}
		case group == "member":
			out = append(out, capture{name: match[i], value: match[p.expression.SubexpIndex("value")], whole: true})
		case group != "value":
			out = append(out, capture{name: group, value: strings.TrimRight(match[i], ".,"), whole: true})
		}
	}
	return out
}
