package nearest

import (
	"slices"
	"strings"
)

// A foreignFlag is a flag of another tool, which people and scripts try here.
type foreignFlag struct {
	names []string // without hyphens
	ours  string   // the flag of Ossian with the same meaning; "" = there is none
	why   string   // what to do where there is no such flag; "" = nothing better than the likeliest one
}

// Reasons that hold for many flags.
const (
	oneDevice   = "there is one device for a model, which --device names, and nothing to split: leave it out"
	noModel     = "this command puts no model on a device: ossian serve, run, perplexity, inspect and bench do, with --device"
	fromFiles   = "it is read from the checkpoint: leave it out"
	byThePlan   = "how weights lie in memory follows from the memory plan: leave it out"
	formsServed = "an answer is held to a form by the server: ossian serve, and response_format in the request"
	noDrafts    = "guesses are checked by a server: ossian serve --speculative-config; answers are the same with and without"
	noAdapters  = "adapters are not read: merge them into the weights first"
	noMedia     = "models here read text only, no pictures and no sound"
	noVectors   = "Ossian generates text; it makes no embeddings and ranks nothing"
	pullFirst   = "a model is fetched first, ossian pull ORG/NAME or ORG/NAME/FILE.gguf, and then named so"
	firstWord   = "the model is named without a flag, behind the command: ossian run MODEL, ossian serve MODEL"
)

// foreignFlags are those of llama.cpp, Ollama, vLLM, SGLang, TGI and transformers that have
// another name here, or no counterpart. Flags of vLLM that ossian serve takes are not among
// them.
var foreignFlags = []foreignFlag{
	{[]string{"m", "model", "model-path", "model-id", "model-name-or-path"}, "model", firstWord},
	{[]string{"hf", "hfr", "hf-repo", "hff", "hf-file", "mu", "model-url", "dr", "docker-repo"}, "", pullFirst},
	{[]string{"revision", "model-revision"}, "", "a revision is part of the model's name: ORG/NAME@REVISION"},
	{[]string{"download-dir", "cache-dir", "models-dir"}, "", "models lie where HF_HOME or HF_HUB_CACHE says"},
	{[]string{"hf-token", "hft"}, "", "the token is in the variable HF_TOKEN"},
	{[]string{"a", "alias", "served-model-names"}, "served-model-name", "only a server has names for its model: ossian serve --served-model-name NAME"},
	{[]string{"tokenizer", "tokenizer-path"}, "", "the model's own tokenizer is used: leave it out"},
	{[]string{"c", "ctx-size", "num-ctx", "context-size", "context-length", "max-seq-len", "max-seq-length", "max-total-tokens", "max-input-tokens", "max-input-length"}, "max-model-len", ""},
	{[]string{"n", "predict", "n-predict", "num-predict", "max-new-tokens", "max-completion-tokens", "max-length"}, "max-tokens", "each request says it, as max_tokens"},
	{[]string{"t", "n-threads", "num-threads", "num-thread", "tb", "threads-batch"}, "threads", ""},
	{[]string{"b", "batch-size", "ub", "ubatch-size", "num-batch", "chunked-prefill-size", "max-prefill-tokens"}, "max-num-batched-tokens", ""},
	{[]string{"np", "parallel", "max-running-requests", "max-batch-size", "num-parallel"}, "max-num-seqs", "one prompt is answered at a time; ossian serve --max-num-seqs N answers many"},
	{[]string{"max-concurrent-requests", "max-queued-requests"}, "max-queue", ""},
	{[]string{"ctk", "cache-type-k", "ctv", "cache-type-v"}, "kv-cache-dtype", ""},
	{[]string{"mem-fraction-static", "cuda-memory-fraction"}, "gpu-memory-utilization", ""},
	{[]string{"temp"}, "temperature", "each request says it, as temperature"},
	{[]string{"temperature", "top-p", "top-k", "min-p"}, "", "each request says it; the checkpoint's advice counts where none does (--generation-config)"},
	{[]string{"repeat-penalty"}, "repetition-penalty", "each request says it, as repetition_penalty"},
	{[]string{"random-seed", "sampling-seed"}, "seed", ""},
	{[]string{"sys", "system-prompt", "instructions"}, "system", "each request brings its system message"},
	{[]string{"think", "reasoning", "effort", "reasoning-budget"}, "reasoning-effort", "each request says it, as reasoning_effort"},
	{[]string{"hidethinking", "hide-thinking"}, "", "reasoning is shown on a terminal alone: ossian run … | cat leaves it out, and --reasoning-effort none asks for none"},
	{[]string{"p", "prompt"}, "", `the prompt is the last argument: ossian run MODEL "PROMPT"`},
	{[]string{"f", "file", "prompt-file"}, "", "a prompt can come from standard input: ossian run MODEL - < FILE"},
	{[]string{"cnv", "conversation", "i", "interactive", "interactive-first"}, "", "ossian run MODEL without a prompt is a chat"},
	{[]string{"no-cnv", "no-conversation", "st", "single-turn"}, "", "with a prompt ossian run answers it and ends"},
	{[]string{"chat-template-file"}, "chat-template", "the checkpoint's template is used; ossian serve --chat-template FILE takes another one"},
	{[]string{"jinja", "no-jinja"}, "", "chat templates are always Jinja: leave it out"},
	{[]string{"mg", "main-gpu", "dev", "device"}, "device", noModel},
	{[]string{"ngl", "gpu-layers", "n-gpu-layers", "num-gpu", "num-gpu-layers", "sm", "split-mode", "ts", "tensor-split", "gpus", "num-shard",
		"tp", "tp-size", "dp", "dp-size", "pp", "pp-size", "tensor-parallel-size", "pipeline-parallel-size", "data-parallel-size", "ep", "ep-size", "ncmoe", "n-cpu-moe", "cmoe", "cpu-moe", "ot", "override-tensor"}, "", oneDevice},
	{[]string{"fa", "flash-attn", "attention-backend", "attn-implementation"}, "", "there is one kind of attention: leave it out"},
	{[]string{"mlock", "mmap", "no-mmap", "dio", "direct-io", "low-vram", "cpu-offload-gb"}, "", byThePlan},
	{[]string{"numa", "cpu-mask", "cpu-range"}, "", "threads follow the affinity mask of the process (taskset): leave it out"},
	{[]string{"mmproj", "image", "images", "audio", "video", "limit-mm-per-prompt"}, "", noMedia},
	{[]string{"grammar", "grammar-file", "j", "json-schema", "json-schema-file", "format"}, "", formsServed},
	{[]string{"guided-decoding-backend", "grammar-backend", "structured-outputs-config"}, "", "forms of output need no backend: leave it out"},
	{[]string{"lora", "lora-modules", "enable-lora", "lora-paths", "lora-scaled"}, "", noAdapters},
	{[]string{"embedding", "embeddings", "is-embedding", "rerank", "reranking", "pooling", "task"}, "", noVectors},
	{[]string{"md", "model-draft", "draft", "draft-max", "draft-min", "speculative-config", "speculative-model", "speculative-algorithm", "num-speculative-tokens"}, "speculative-config", noDrafts},
	{[]string{"rope-scaling", "rope-scale", "rope-freq-base", "rope-freq-scale", "rope-theta", "hf-overrides", "yarn-orig-ctx", "dtype", "torch-dtype", "quantization", "load-in-8bit", "load-in-4bit"}, "", fromFiles},
	{[]string{"keepalive", "keep-alive"}, "", "a model stays loaded as long as its process runs: leave it out"},
	{[]string{"nowordwrap"}, "", "lines are wrapped by the terminal: leave it out"},
	{[]string{"v", "verbose", "log-verbose"}, "log-level", "the last line says what an answer took; -q leaves it out"},
}

// Flag says what to write in place of a flag that a command does not know, to be appended to
// the error: what another tool's flag is called here, why it has no counterpart, or else the
// known flag that is least unlike it. The name comes without hyphens in front; known are the
// flags of the command, with them.
func Flag(name string, known []string) string {
	name = strings.ReplaceAll(name, "_", "-")
	for _, foreign := range foreignFlags {
		if !slices.Contains(foreign.names, name) {
			continue
		}
		if ours := "--" + foreign.ours; foreign.ours != "" && slices.Contains(known, ours) {
			return ": Ossian calls it " + ours
		}
		if foreign.why != "" {
			return ": " + foreign.why
		}
	}
	return Hint("--"+name, known)
}

// OneHyphen reports whether a flag of several letters is written with one hyphen by other
// tools, as in -ngl 99: a parser of flags would read three flags of one letter.
func OneHyphen(name string) bool {
	if len(name) < 2 || len(name) > 6 {
		return false
	}
	for _, foreign := range foreignFlags {
		if slices.Contains(foreign.names, name) && short[name] {
			return true
		}
	}
	return false
}

// short are the flags that other tools write with one hyphen.
var short = map[string]bool{"hf": true, "hfr": true, "hff": true, "mu": true, "dr": true, "hft": true, "tb": true, "ub": true, "np": true, "ctk": true, "ctv": true, "sys": true,
	"cnv": true, "no-cnv": true, "st": true, "ngl": true, "sm": true, "ts": true, "mg": true, "dev": true, "tp": true, "dp": true, "pp": true, "ep": true, "ncmoe": true, "cmoe": true,
	"ot": true, "fa": true, "dio": true, "md": true}
