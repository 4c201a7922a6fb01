package config

import (
	"crypto/tls"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"ossian/internal/limits"
	"ossian/internal/nearest"
	"ossian/internal/wire"
)

const (
	anyCount = math.MaxInt32 // the bound of a number that needs none
	day      = 24 * 3600.0   // seconds
)

// one is a value that is one text.
func one(s string) []string { return []string{s} }

// rows is the table of settings, in the order in which they are explained.
func rows() []row {
	return slices.Concat(networkRows(), pageRows(), stepRows(), deviceRows(), replyRows(), toolRows(), vllmRows())
}

// networkRows are about clients: addresses, access, connections, logs.
func networkRows() []row {
	return []row{
		{name: "model", kind: list, single: true, takes: "[NAME=]MODEL", help: "name or path, also the first argument without a flag; of several NAME=MODEL, once for each", why: "no model was named",
			set: func(s *Settings, p parsed) (err error) { s.Model, s.Models, err = models(p.list); return err }},
		{name: "models-resident", kind: integer, def: one("1"), min: 1, max: 64, help: "of several models, how many are in memory at once, each with an equal share of it", why: "each has the whole memory",
			set: func(s *Settings, p parsed) error { s.Resident = p.n; return nil }},
		{name: "served-model-name", kind: list, help: "names that requests may use; the first is reported; of several models, those of the one without NAME=", why: "the model's own name",
			set: func(s *Settings, p parsed) (err error) { s.ServedNames, err = names(p.list, "a name"); return err }},
		{name: "chat-template", help: "Jinja file, or text in one line, in place of the model's own; not for gpt-oss, whose format is fixed", why: "the model's own",
			set: func(s *Settings, p parsed) error { s.Template = p.text; return nil }},
		{name: "host", def: one("127.0.0.1"), help: "address to listen on", why: "only this machine can connect",
			set: func(s *Settings, p parsed) error {
				if s.Host = strings.Trim(p.text, "[]"); s.Host == "" || strings.ContainsAny(s.Host, " /") {
					return errors.New("an address expected; 0.0.0.0 = all of this machine's")
				}
				return nil
			}},
		{name: "port", kind: integer, def: one("8000"), max: 65535, help: "0 = any free one", why: "as vLLM",
			set: func(s *Settings, p parsed) error { s.Port = p.n; return nil }},
		{name: "api-key", kind: list, secret: true, live: true, help: "keys that clients must send one of; better in OSSIAN_API_KEY, which other users cannot see", why: "only this machine can connect",
			set: func(s *Settings, p parsed) (err error) { s.APIKeys, err = keys(p.list); return err }},
		{name: "api-key-file", live: true, help: "file with a key on each line, read again at SIGHUP", why: "no file was named",
			set: func(s *Settings, p parsed) error { s.KeyFile = p.text; return nil }},
		{name: "insecure", kind: boolean, def: one("false"), help: "let other machines connect without a key",
			set: func(s *Settings, p parsed) error { s.Insecure = p.b; return nil }},
		{name: "allowed-hosts", kind: list, help: "further names of this server in the Host header; * = all", why: "against pages that make a browser send requests here",
			set: func(s *Settings, p parsed) (err error) { s.AllowedHosts, err = names(p.list, "a host"); return err }},
		{name: "allowed-origins", kind: list, help: "web pages that may send requests (CORS); * = all", why: "no page may",
			set: func(s *Settings, p parsed) (err error) { s.AllowedOrigins, err = origins(p.list); return err }},
		{name: "ssl-certfile", help: "file with the certificate for HTTPS (PEM), read again at SIGHUP", why: "plain HTTP",
			set: func(s *Settings, p parsed) error { s.CertFile = p.text; return nil }},
		{name: "ssl-keyfile", help: "file with its private key (PEM), read again at SIGHUP; without it the key is in ssl-certfile, too", why: "plain HTTP",
			set: func(s *Settings, p parsed) error { s.CertKeyFile = p.text; return nil }},
		{name: "ssl-ca-certs", help: "file with certificates of those who may vouch for clients (PEM), read again at SIGHUP", why: "clients need no certificate",
			set: func(s *Settings, p parsed) error { s.ClientCAFile = p.text; return nil }},
		{name: "ssl-cert-reqs", kind: integer, def: one("0"), max: 2, help: "certificates of clients: 0 = none, 1 = may be shown, 2 = must be shown", why: "as vLLM",
			set: func(s *Settings, p parsed) error {
				s.ClientCerts = []tls.ClientAuthType{tls.NoClientCert, tls.VerifyClientCertIfGiven, tls.RequireAndVerifyClientCert}[p.n]
				return nil
			}},
		{name: "max-queue", kind: integer, def: one("1024"), min: 1, max: 1 << 20, help: "requests that wait at most; beyond them 429", why: "bounded waiting",
			set: func(s *Settings, p parsed) error { s.limits()[limits.Queue] = int64(p.n); return nil }},
		{name: "store", def: one("auto"), help: "directory for stored responses; auto = one of this port's in the user's state directory, memory = none", why: "what /v1/responses promised is still there after a restart",
			set: func(s *Settings, p parsed) error {
				if s.Store = p.text; p.text == "" {
					return errors.New("a directory, auto or memory expected")
				}
				return nil
			}},
		{name: "drain-timeout", kind: duration, def: one("30s"), max: day, help: "how long requests may finish after SIGTERM", why: "Kubernetes kills 30 s after it asked, unless told otherwise",
			set: func(s *Settings, p parsed) error { s.DrainTimeout = p.d; return nil }},
		{name: "log-level", live: true, def: one("info"), values: []string{"debug", "info", "warn", "error"}, help: "what is logged", why: "no prompts, outputs or keys at any level",
			set: func(s *Settings, p parsed) error { s.LogLevel = p.text; return nil }},
		{name: "log-format", def: one("auto"), values: []string{"auto", "text", "json"}, help: "auto = text on a terminal, else json",
			set: func(s *Settings, p parsed) error { s.LogFormat = p.text; return nil }},
		{name: "config", help: "YAML file with flag names as keys", command: true},
		{name: "explain", kind: boolean, def: one("false"), help: "print every setting with origin and reason, then end", command: true,
			set: func(s *Settings, p parsed) error { s.Explain = p.b; return nil }},
	}
}

// pageRows are about the page that a browser shows.
func pageRows() []row {
	return []row{
		{name: "ui", kind: boolean, def: one("true"), help: "answer / with a page to chat in and to watch the server", why: "it asks only this server, and tells nothing without a key",
			set: func(s *Settings, p parsed) error { s.Page = p.b; return nil }},
		{name: "open", kind: boolean, def: one("false"), help: "open the page in a browser once the port is", command: true,
			set: func(s *Settings, p parsed) error { s.OpenPage = p.b; return nil }},
	}
}

// stepRows are about what is computed at once: threads, lengths, memory, guesses.
func stepRows() []row {
	return []row{
		{name: "threads", kind: integer, def: one("0"), max: 4096, help: "compute with N threads; 0 = all, or fewer where large models are measured to be faster", why: "all that this process may use",
			set: func(s *Settings, p parsed) error { s.Threads = p.n; return nil }},
		{name: "preset", values: []string{"max-throughput", "min-latency", "balanced"}, help: "have max-num-seqs and max-num-batched-tokens, unless given, chosen by prediction: most tokens, least time per token of a few users, or between", why: "no aim was named",
			set: func(s *Settings, p parsed) error { s.Preset = p.text; return nil }},
		{name: "preset-users", kind: integer, def: one("8"), min: 1, max: 65536, help: "users at once that preset min-latency is for", why: "a few",
			set: func(s *Settings, p parsed) error { s.PresetUsers = p.n; return nil }},
		{name: "max-model-len", kind: integer, def: one("0"), values: []string{"auto"}, min: -1, max: anyCount, help: "tokens of context; 0 = the checkpoint's, or as many as fit", why: "the checkpoint's, or as many as fit",
			set: func(s *Settings, p parsed) error { s.MaxModelLen = max(p.n, 0); return nil }},
		{name: "max-num-seqs", kind: integer, def: one("0"), max: 65536, help: "requests that run at once; 0 = as many as fit, at most 256", why: "as many as fit, at most 256",
			set: func(s *Settings, p parsed) error { s.MaxNumSeqs = p.n; return nil }},
		{name: "max-num-batched-tokens", kind: integer, def: one("0"), max: anyCount, help: "new tokens per step; 0 = 512, on a card 2048", why: "longer steps delay others, shorter ones waste weights read",
			set: func(s *Settings, p parsed) error { s.MaxBatchTokens = p.n; return nil }},
		{name: "long-prefill-token-threshold", kind: integer, def: one("0"), max: anyCount, help: "tokens of one prompt per step at most; 0 = what the step has room for", why: "one prompt may fill a step",
			set: func(s *Settings, p parsed) error { s.ChunkLimit = p.n; return nil }},
		{name: "max-step-time", kind: duration, def: one("500ms"), max: day, help: "how long a step may take while replies are written: prompts beside them get chunks that fit; 0 = any", why: "running replies never stall for seconds",
			set: func(s *Settings, p parsed) error { s.StepTime = p.d; return nil }},
		{name: "max-crowded-step-time", kind: duration, def: one("750ms"), max: day, help: "the same while two requests or more wait for their first token, where that is longer", why: "many first tokens come earlier, replies never stall for a second",
			set: func(s *Settings, p parsed) error { s.CrowdTime = p.d; return nil }},
		{name: "num-gpu-blocks-override", kind: integer, def: one("0"), max: anyCount, help: "blocks of KV memory; 0 = from the memory plan", why: "from the memory plan",
			set: func(s *Settings, p parsed) error { s.KVBlocks = p.n; return nil }},
		{name: "kv-cache-memory-bytes", kind: integer, def: one("0"), max: 1 << 50, help: "bytes that keys and values take at most, those kept as prefix cache included; 0 = what the memory plan leaves", why: "what the memory plan leaves",
			note: "a bound within the memory plan: keys and values take no more, and less where memory is short or that many requests need less",
			set:  func(s *Settings, p parsed) error { s.KVMemory = int64(p.n); return nil }},
		{name: "kv-cache-dtype", def: one("auto"), values: []string{"auto", "bf16", "bfloat16", "f32", "float32", "fp8", "fp8_e4m3"}, help: "keys and values as auto (bf16), bf16, f32 or fp8", why: "bf16: the checkpoint's precision",
			note: "keys and values are kept in this form, sums are float32; fp8 is E4M3 and changes logits slightly",
			set: func(s *Settings, p parsed) error {
				s.KVCacheDType = map[string]string{"bfloat16": "bf16", "float32": "f32", "fp8_e4m3": "fp8"}[p.text]
				if s.KVCacheDType == "" {
					s.KVCacheDType = p.text
				}
				return nil
			}},
		{name: "gpu-memory-utilization", kind: float, def: one("0"), max: 1, help: "share of the available memory to plan with; 0 = 0.9, on a card all but 1 GiB", why: "0.9: a tenth stays for others; of a card, all but 1 GiB",
			note: "the memory plan may take this share of what is available at the start",
			set:  func(s *Settings, p parsed) error { s.MemoryShare = p.f; return nil }},
		{name: "enable-prefix-caching", kind: boolean, def: one("true"), help: "keep the KV of prompts that begin alike", why: "same tokens either way, less to compute",
			set: func(s *Settings, p parsed) error { s.PrefixCaching = p.b; return nil }},
		{name: "async-scheduling", kind: boolean, def: one("true"), help: "plan the next step while one runs, where the device can", why: "same tokens either way",
			note: "the next step is planned while one runs, where the device can; same tokens either way",
			set:  func(s *Settings, p parsed) error { s.Overlap = p.b; return nil }},
		{name: "speculative-config", kind: object, help: `check guessed tokens beside one that is due, as vLLM's {"method": "suffix", "num_speculative_tokens": 7}; answers stay the same`, why: "nothing is guessed",
			set: func(s *Settings, p parsed) (err error) { s.Speculation, _, err = speculative(p.text); return err }},
	}
}

// deviceRows are about what computes, and how exactly.
func deviceRows() []row {
	return []row{
		{name: "device", def: one("auto"), help: "what computes: cpu; cuda or cuda:N, a card of NVIDIA's; auto, a card if it suits the model, else cpu; sim:MACHINE plays a machine, for tests: its tokens are noise", why: "a card if there is one with room for the model and kernels for its types",
			set: func(s *Settings, p parsed) error { s.Device = p.text; return nil }},
		{name: "activation-bits", kind: integer, def: one("0"), max: 16, help: "8 or 16 bits for what meets quantised weights; 0 = 8 for weights that the checkpoint has quantised (not in narrow models), else 16; 16 also keeps float32 where BF16 weights would meet BF16", why: "8 for weights quantised in the checkpoint where rows are long, else 16",
			set: func(s *Settings, p parsed) error {
				if s.Activations = p.n; p.n != 0 && p.n != 8 && p.n != 16 {
					return errors.New("0, 8 or 16 expected")
				}
				return nil
			}},
		{name: "cpu-weights", def: one("auto"), values: []string{"auto", "bf16", "q8"}, help: "16- and 32-bit weights as they are (bf16), in 8 bits (q8, not routers), or so for attention and output projections of wide mixtures (auto)", why: "8 bits for attention and output projections of mixtures",
			set: func(s *Settings, p parsed) error { s.Weights = p.text; return nil }},
		{name: "packed-weights", def: one("auto"), values: []string{"auto", "on", "off"}, help: "keep what is repacked in a file beside the model: of large ones (auto), of all (on), of none (off)", why: "later starts map it instead of packing again",
			set: func(s *Settings, p parsed) error { s.Packed = p.text; return nil }},
		{name: "exact", kind: boolean, def: one("false"), help: "float32 activations with quantised weights: slow, for comparisons",
			set: func(s *Settings, p parsed) error { s.Exact = p.b; return nil }},
		{name: "verify", kind: boolean, def: one("true"), help: "look for damage in the files before using them", why: "damage shows as nonsense, not as an error",
			set: func(s *Settings, p parsed) error { s.Verify = p.b; return nil }},
	}
}

// replyRows are about what clients get, and the rest.
func replyRows() []row {
	return []row{
		{name: "stream-interval", kind: integer, def: one("1"), min: 1, max: 1 << 20, help: "tokens per chunk at most, after the first", why: "every token at once",
			set: func(s *Settings, p parsed) error { s.StreamInterval = p.n; return nil }},
		{name: "seed", kind: integer, min: -math.MaxInt64, max: math.MaxInt64, help: "seed of requests that bring none", why: "a new one for each request",
			set: func(s *Settings, p parsed) error {
				if p.text != "" {
					n := int64(p.n)
					s.Seed = &n
				}
				return nil
			}},
		{name: "generation-config", def: one("auto"), values: []string{"auto", "vllm"}, help: "sampling defaults: auto = the checkpoint's, vllm = neutral ones", why: "the checkpoint's authors know best",
			set: func(s *Settings, p parsed) error { s.CheckpointSampler = p.text == "auto"; return nil }},
		{name: "reasoning-field", def: one("reasoning"), values: []string{"reasoning", "reasoning_content", "both"}, help: "name of the reasoning in chat replies", why: "OpenAI's guidance for gpt-oss",
			set: func(s *Settings, p parsed) error { s.ReasoningField, _ = wire.ParseReasoningField(p.text); return nil }},
		{name: "strict-requests", kind: boolean, def: one("false"), help: "refuse requests with unknown fields", why: "unknown fields are named in a header and ignored",
			set: func(s *Settings, p parsed) error { s.Strict = p.b; return nil }},
		{name: "max-logprobs", live: true, kind: integer, def: one("20"), min: -1, max: 1 << 20, help: "log probabilities per token at most; -1 = the whole vocabulary", why: "as OpenAI",
			set: func(s *Settings, p parsed) error {
				s.limits()[limits.TopLogprobs] = int64(p.n)
				if p.n < 0 {
					s.limits()[limits.TopLogprobs] = limits.TopLogprobs.Info().Max
				}
				return nil
			}},
		{name: "metrics-prefix", def: one("vllm"), help: "of the metrics that other servers have too", why: "dashboards and gateways know these names",
			set: func(s *Settings, p parsed) error {
				if s.MetricsPrefix = p.text; !isName(p.text) {
					return errors.New("letters, digits and _ expected, a letter first")
				}
				return nil
			}},
		{name: "show-hidden-metrics", kind: boolean, def: one("false"), help: "also names that vLLM dropped",
			set: func(s *Settings, p parsed) error { s.HiddenMetrics = p.b; return nil }},
		{name: "kv-events-config", kind: object, help: "publish over ZeroMQ which prefixes are cached, as vLLM does, for routers", why: "nobody is told",
			set: func(s *Settings, p parsed) error { s.KVEvents = p.text; return nil }},
		{name: "metrics-without-key", kind: boolean, def: one("false"), help: "answer /metrics without a key, for gateways that send none; a network policy should say who reaches it", why: "metrics tell how a server is used",
			set: func(s *Settings, p parsed) error { s.OpenMetrics = p.b; return nil }},
		{name: "limit", kind: list, live: true, help: "NAME=VALUE: another limit; --explain lists them",
			set: func(s *Settings, p parsed) error { return s.setLimits(p.list) }},
		{name: "access-log", kind: boolean, def: one("true"), help: "log each request: route, status, times and token counts",
			set: func(s *Settings, p parsed) error { s.AccessLog = p.b; return nil }},
	}
}

// toolRows are about what the server itself runs for models. The environment has the names that
// OpenAI's reference tools read, too.
func toolRows() []row {
	return []row{
		{name: "tool-server", kind: list, help: "what requests may ask for: demo (a browser and Python), servers of MCP as [NAME=]host:port[/path], URL or stdio:COMMAND", why: "nothing runs unless it is named",
			set: func(s *Settings, p parsed) (err error) { s.ToolServers, err = toolServers(p.list); return err }},
		{name: "tools-default", kind: list, help: "types of tools that requests without tools get: web_search, code_interpreter", why: "only what a request asks for",
			set: func(s *Settings, p parsed) (err error) { s.ToolsDefault, err = defaultTools(p.list); return err }},
		{name: "citations", def: one("keep"), values: []string{"keep", "link"}, help: "marks of the browser's pages in answers: keep = as the model writes them, link = a Markdown link in their place; both with annotations", why: "clients replace marks themselves, by the annotations",
			set: func(s *Settings, p parsed) error { s.CitationLinks = p.text == "link"; return nil }},
		{name: "mcp-allow", kind: list, help: "HOST[:PORT] of servers of MCP that requests may name by server_url", why: "requests cannot make the server connect anywhere",
			set: func(s *Settings, p parsed) (err error) { s.MCPAllow, err = parts(p.list, "a host"); return err }},
		{name: "browser-backend", env: "BROWSER_BACKEND", def: one("youcom"), values: []string{"youcom", "exa", "http", "corpus"}, help: "where the browser's pages come from: a service, the web itself with a search endpoint, or files", why: "as OpenAI's reference",
			set: func(s *Settings, p parsed) error { s.BrowserBackend = p.text; return nil }},
		{name: "browser-corpus", help: "directory of HTML and text files that the browser has instead of the web", why: "no directory was named",
			set: func(s *Settings, p parsed) error { s.BrowserCorpus = p.text; return nil }},
		{name: "browser-search-url", help: "search endpoint of browser-backend http, in JSON: http://localhost:8888/search?q={query}&format=json", why: "no endpoint was named",
			set: func(s *Settings, p parsed) error { s.BrowserSearch = p.text; return nil }},
		{name: "exa-api-key", env: "EXA_API_KEY", secret: true, help: "key of browser-backend exa; better in EXA_API_KEY, which other users cannot see", why: "no key was given",
			set: func(s *Settings, p parsed) (err error) { s.ExaKey, err = secret(p.text); return err }},
		{name: "youcom-api-key", env: "YDC_API_KEY", secret: true, help: "key of browser-backend youcom; better in YDC_API_KEY, which other users cannot see", why: "no key was given",
			set: func(s *Settings, p parsed) (err error) { s.YouComKey, err = secret(p.text); return err }},
		{name: "python-backend", env: "PYTHON_EXECUTION_BACKEND", values: []string{"sandbox", "wasm", "off", "docker", "dangerously_use_uv", "dangerously_use_local_jupyter"}, help: "what runs Python of models: sandbox, wasm, off, docker, dangerously_use_uv or dangerously_use_local_jupyter", why: "sandbox where its self-test passes, else wasm where python-wasm names a file",
			set: func(s *Settings, p parsed) error { s.PythonBackend = p.text; return nil }},
		{name: "python-interpreter", help: "CPython of python-backend sandbox", why: "python3 in PATH",
			set: func(s *Settings, p parsed) error { s.PythonInterpreter = p.text; return nil }},
		{name: "python-wasm", help: "file of python-backend wasm: a CPython built for WASI preview 1", why: "no file was named",
			set: func(s *Settings, p parsed) error { s.PythonWASM = p.text; return nil }},
		{name: "python-jupyter-connection", env: "PYTHON_LOCAL_JUPYTER_CONNECTION_FILE", help: "connection file of python-backend dangerously_use_local_jupyter", why: "no file was named",
			set: func(s *Settings, p parsed) error { s.PythonJupyter = p.text; return nil }},
	}
}

// toolServers takes the servers apart that commas separate. A command has commas of its own.
func toolServers(items []string) (all []string, err error) {
	for _, item := range items {
		if name, address, named := strings.Cut(item, "="); strings.HasPrefix(item, "stdio:") || (named && isLabel(name) && strings.HasPrefix(address, "stdio:")) {
			all = append(all, item)
			continue
		}
		part, err := parts(one(item), "a server")
		if err != nil {
			return nil, err
		}
		all = append(all, part...)
	}
	return all, nil
}

// isLabel reports whether name can be that of a server in requests.
func isLabel(name string) bool {
	return name != "" && !strings.ContainsFunc(name, func(r rune) bool {
		return !(r == '_' || r == '-' || r == '.' || (r >= 'a' && r <= 'z') || (r >= 'A' && r <= 'Z') || (r >= '0' && r <= '9'))
	})
}

// parts takes items apart at commas and refuses empty ones.
func parts(items []string, what string) (all []string, err error) {
	for _, item := range items {
		for i, part := range strings.Split(item, ",") {
			if _, err := names(one(part), what); err != nil {
				return nil, fmt.Errorf("%.200q: part %d: %w", item, i+1, err)
			}
			all = append(all, part)
		}
	}
	return all, nil
}

// defaultTools refuses types of tools of which a request has to say more.
func defaultTools(items []string) ([]string, error) {
	all, err := parts(items, "a type of tool")
	for _, kind := range all {
		if kind == "mcp" || !wire.IsServerTool(kind) {
			return nil, fmt.Errorf("%.40q: web_search or code_interpreter expected", kind)
		}
	}
	return all, err
}

// secret refuses a key that no header could carry.
func secret(text string) (string, error) {
	if text != "" {
		if _, err := keys(one(text)); err != nil {
			return "", err
		}
	}
	return text, nil
}

// accept makes the row of a vLLM flag that is not needed here. def keeps the
// parser quiet; the value given is checked and otherwise has no effect.
func accept(name string, k kind, note string) row {
	made := row{name: name, kind: k, accepted: true, note: note, min: -math.MaxInt64, max: math.MaxInt64}
	if k == boolean {
		made.def = one("false")
	}
	return made
}

// only makes the row of a vLLM flag of which one value fits.
func only(name string, n float64, note string) row {
	return row{name: name, kind: integer, accepted: true, note: note, min: n, max: n}
}

// vllmRows are flags of recipes for vLLM: each says what it means here.
func vllmRows() []row {
	const oneDevice = "there is one device, and nothing to split"
	const noGraphs = "steps are not captured as graphs on this device"
	const fromFiles = "read from the checkpoint"
	rows := []row{
		only("tensor-parallel-size", 1, oneDevice), only("pipeline-parallel-size", 1, oneDevice), only("data-parallel-size", 1, oneDevice),
		only("api-server-count", 1, "one process serves all connections"),
		accept("enable-expert-parallel", boolean, oneDevice), accept("distributed-executor-backend", text, oneDevice),
		accept("max-cudagraph-capture-size", integer, noGraphs), accept("cuda-graph-sizes", list, noGraphs), accept("enforce-eager", boolean, noGraphs),
		accept("compilation-config", object, "nothing is compiled at the start: kernels are chosen by the processor's features"),
		accept("max-seq-len-to-capture", integer, noGraphs),
		accept("block-size", integer, "blocks have the size that the device prefers"),
		accept("swap-space", float, "blocks that were taken back are computed again, not swapped"),
		accept("cpu-offload-gb", float, "weights stay where the memory plan puts them"),
		accept("enable-chunked-prefill", boolean, "prompts are always computed in chunks, between the tokens of others"),
		accept("max-num-partial-prefills", integer, "every prompt that fits into the step may be computed in part"),
		accept("max-long-partial-prefills", integer, "as many as fit; --long-prefill-token-threshold leaves others room in a step"),
		accept("scheduling-policy", text, "fair between keys by tokens, then priority, then arrival"),
		accept("quantization", text, fromFiles), accept("tokenizer-mode", text, fromFiles), accept("load-format", text, fromFiles), accept("config-format", text, fromFiles),
		accept("dtype", text, "weights keep the checkpoint's types; sums are float32"),
		accept("trust-remote-code", boolean, "checkpoints are data: code in them is never run, so nothing needs trust"),
		accept("enable-auto-tool-choice", boolean, "always on when a request brings tools"),
		accept("tool-call-parser", text, "chosen by the model's family"), accept("reasoning-parser", text, "chosen by the model's family"),
		accept("disable-log-stats", boolean, "statistics are at /metrics, not in the log"), accept("disable-log-requests", boolean, "prompts are never logged"),
		accept("enable-log-requests", boolean, "prompts are never logged; one line per request without them is"),
		accept("enable-prompt-tokens-details", boolean, "always in usage"), accept("enable-server-load-tracking", boolean, "always at /load"),
		accept("enable-request-id-headers", boolean, "always sent"),
		accept("enable-ssl-refresh", boolean, "certificate and key are read again at SIGHUP"),
	}
	level := accept("uvicorn-log-level", text, "as --log-level")
	level.live = true
	level.values = []string{"trace", "debug", "info", "warning", "error", "critical"}
	level.set = func(s *Settings, p parsed) error {
		if as, ok := map[string]string{"trace": "debug", "debug": "debug", "info": "info", "warning": "warn", "error": "error", "critical": "error"}[p.text]; ok && s.LogLevel == "info" {
			s.LogLevel = as
		}
		return nil
	}
	quiet := accept("disable-uvicorn-access-log", boolean, "as --no-access-log")
	quiet.set = func(s *Settings, p parsed) error { s.AccessLog = s.AccessLog && !p.b; return nil }
	return slices.Concat(rows, groupRows(), []row{level, quiet})
}

// groupRows are those by which processes on several machines find each other, under vLLM's names
// and those of LeaderWorkerSet. Here a model runs on one machine: a group of one is taken, and a
// larger one is refused, where each member would answer as if it were alone.
func groupRows() []row {
	const oneMachine = "a model runs on one machine; for more requests run more replicas of size 1"
	size, rank, leader := only("nnodes", 1, oneMachine), only("node-rank", 0, oneMachine), accept("master-addr", text, oneMachine)
	size.env, rank.env, leader.env = groupVariables[0], groupVariables[1], groupVariables[2]
	return []row{size, rank, leader}
}

// groupVariables are what LeaderWorkerSet sets in every pod of a group, all of them.
var groupVariables = [...]string{"LWS_GROUP_SIZE", "LWS_WORKER_INDEX", "LWS_LEADER_ADDRESS"}

// aliases are vLLM's short flags, and those of llama.cpp that mean the same here.
var aliases = map[string]string{"-tp": "tensor-parallel-size", "-pp": "pipeline-parallel-size", "-dp": "data-parallel-size",
	"-cc": "compilation-config", "-sc": "speculative-config", "-q": "quantization", "-ep": "enable-expert-parallel", "-n": "nnodes",
	"-m": "model", "-c": "max-model-len", "--ctx-size": "max-model-len", "-t": "threads"}

// aliasNotes say where an alias is taken with a difference that somebody may trip over.
var aliasNotes = map[string]string{"-c": contextNote, "--ctx-size": contextNote}

const contextNote = "each request may have that many tokens; nothing is shared between them"

// limits returns the limits of s, which are the defaults at first.
func (s *Settings) limits() *limits.Set {
	if s.Limits == nil {
		s.Limits = limits.Defaults()
	}
	return s.Limits
}

// setLimits applies items of the form NAME=VALUE, all or none.
func (s *Settings) setLimits(items []string) error {
	set := *s.limits()
	for _, item := range items {
		name, text, ok := strings.Cut(item, "=")
		id, known := limits.Lookup(name)
		switch {
		case !known:
			all := []string{}
			for _, id := range limits.All() {
				all = append(all, id.String())
			}
			return fmt.Errorf("no limit is named %.40q%s", name, nearest.Hint(name, all))
		case !ok:
			return fmt.Errorf("%s=VALUE expected", name)
		}
		if err := set.Parse(id, text); err != nil && len(items) == 1 { // which is shown before the error
			return errors.New(strings.TrimPrefix(err.Error(), "limit "+id.String()+": "))
		} else if err != nil {
			return err
		}
	}
	*s.Limits = set
	return nil
}

// names refuses empty names and control characters, which logs and headers would show.
func names(items []string, what string) ([]string, error) {
	for _, item := range items {
		if item == "" || strings.ContainsFunc(item, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
			return nil, fmt.Errorf("%.40q is not %s", item, what)
		}
	}
	return items, nil
}

// keys refuses API keys that no header could carry.
func keys(items []string) ([]string, error) {
	for _, item := range items {
		if item == "" || strings.ContainsFunc(item, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
			return nil, errors.New("a key must have visible ASCII characters, and at least one")
		}
	}
	return items, nil
}

// isName reports whether s may begin the names of metrics.
func isName(s string) bool {
	for i, c := range s {
		if !(c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (i > 0 && c >= '0' && c <= '9')) {
			return false
		}
	}
	return s != ""
}
