package check

// Argument vectors: from a process of this machine or from a text, read into settings, and written
// again with a change.

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"ossian/internal/bench"
	"ossian/internal/bench/sweep"
	"ossian/internal/lab/engines"
)

// shortNames are flags under other names: those of the settings they set.
var shortNames = map[string]map[string]string{
	engines.VLLM:   {"tp": "tensor_parallel_size", "pp": "pipeline_parallel_size", "dp": "data_parallel_size", "ep": "enable_expert_parallel", "q": "quantization", "o": "optimization_level", "cc": "compilation_config"},
	engines.Ossian: {"t": "threads", "c": "max_model_len", "ctx_size": "max_model_len", "m": "model"},
	engines.SGLang: {"tp": "tp_size", "tensor_parallel_size": "tp_size", "dp": "dp_size", "data_parallel_size": "dp_size", "pp": "pp_size", "pipeline_parallel_size": "pp_size", "ep": "ep_size", "expert_parallel_size": "ep_size", "model": "model_path"},
	engines.LlamaCpp: {"np": "parallel", "c": "ctx_size", "n_ctx": "ctx_size", "b": "batch_size", "n_batch": "batch_size", "ub": "ubatch_size", "n_ubatch": "ubatch_size", "fa": "flash_attn", "ctk": "cache_type_k", "ctv": "cache_type_v",
		"type_k": "cache_type_k", "type_v": "cache_type_v", "ngl": "n_gpu_layers", "gpu_layers": "n_gpu_layers", "t": "threads", "n_threads": "threads", "tb": "threads_batch", "md": "model_draft", "m": "model", "cb": "cont_batching", "nocb": "no_cont_batching", "sm": "split_mode", "ts": "tensor_split"},
	LMDeploy: {"model_path": "model"},
}

// arguments returns the argument vector that options name, and variables of the environment that are settings.
func arguments(options *Options) (argv, env []string, err error) {
	switch {
	case options.PID != 0 && options.Start != "":
		return nil, nil, errors.New("--pid and --start both tell how the server was started: one of them expected")
	case options.PID != 0:
		return process(options.PID, options.Root)
	case options.Start != "":
		if argv, err = sweep.Split(options.Start); err != nil {
			return nil, nil, fmt.Errorf("--start: %w", err)
		}
	}
	// What stands before a program sets variables: A=1 vllm serve.
	for len(argv) > 0 && strings.Contains(argv[0], "=") && !strings.ContainsAny(strings.SplitN(argv[0], "=", 2)[0], "-/.") {
		env, argv = append(env, argv[0]), argv[1:]
	}
	return hidden(argv), variables(env), nil
}

// process returns those of a process of this machine.
func process(pid int, root string) (argv, env []string, err error) {
	if runtime.GOOS != "linux" && root == "" {
		return nil, nil, errors.New("--pid reads /proc, which this system has not: --start 'COMMAND' tells the same")
	}
	dir := filepath.Join("/", root, "proc", strconv.Itoa(pid))
	text, err := os.ReadFile(filepath.Join(dir, "cmdline"))
	if err != nil {
		return nil, nil, fmt.Errorf("--pid %d: %w", pid, err)
	}
	for _, word := range bytes.Split(bytes.TrimSuffix(text, []byte{0}), []byte{0}) {
		argv = append(argv, strings.ToValidUTF8(string(word), "\uFFFD"))
	}
	if len(argv) == 0 || argv[0] == "" {
		return nil, nil, fmt.Errorf("--pid %d: the process has no arguments: the server's own expected", pid)
	}
	// Others' environments may not be read: that is no error.
	text, _ = os.ReadFile(filepath.Join(dir, "environ"))
	for _, word := range bytes.Split(text, []byte{0}) {
		env = append(env, string(word))
	}
	return hidden(argv), variables(env), nil
}

// variables are those that are settings of an engine, never a secret.
func variables(env []string) (out []string) {
	for _, one := range env {
		name, _, _ := strings.Cut(one, "=")
		known := slices.Contains([]string{"OSSIAN_ISA", "OSSIAN_THREADS", "VLLM_USE_FLASHINFER_SAMPLER", "VLLM_ATTENTION_BACKEND", "CUDA_VISIBLE_DEVICES"}, name)
		if known || (strings.HasPrefix(name, "OLLAMA_") && !secret(name)) {
			out = append(out, one)
		}
	}
	return out
}

// switches are flags that take no value.
var switches = []string{"enforce_eager", "async_scheduling", "trust_remote_code", "exact", "insecure", "strict_requests", "verify", "access_log",
	"show_hidden_metrics", "cont_batching", "metrics", "mlock", "kv_unified", "props", "slots", "jinja", "webui"}

// hidden replaces what nobody should read in a report: values of flags that are secrets.
func hidden(argv []string) []string {
	out := bench.HideSecrets(argv)
	hide := false // values that follow
	for i, word := range out {
		if !isFlag(word) {
			if hide {
				out[i] = "…"
			}
			continue
		}
		name, _, joined := strings.Cut(word, "=")
		plain := canonical(strings.TrimLeft(name, "-"))
		hide = (strings.HasSuffix(plain, "key") || strings.HasSuffix(plain, "token") || strings.HasSuffix(plain, "password")) && plain != "skip_special_token"
		if hide && joined {
			out[i], hide = name+"=…", false
		}
	}
	return out
}

// An argument is a flag of an argument vector with its value.
type argument struct {
	name, value string // canonical; True and False of flags without a value
	at, words   int    // of the vector
}

// readFlags reads the flags of an argument vector: --name value, --name=value, --no-name, -n value.
func readFlags(engine string, argv []string) (out []argument) {
	for i := 1; i < len(argv); i++ {
		if !isFlag(argv[i]) {
			continue
		}
		one := argument{at: i, words: 1, value: "True"}
		name, value, joined := strings.Cut(strings.TrimLeft(argv[i], "-"), "=")
		if joined {
			one.value = value
		} else if i+1 < len(argv) && !isFlag(argv[i+1]) {
			one.value, one.words = argv[i+1], 2
		}
		one.name = canonical(name)
		if long, ok := shortNames[engine][one.name]; ok {
			one.name = long
		}
		// A switch before a positional argument would take it: those that are known to be alone do not.
		if rest, ok := strings.CutPrefix(one.name, "no_"); ok {
			one.name, one.value, one.words = rest, "False", 1
		} else if strings.HasPrefix(one.name, "enable_") || strings.HasPrefix(one.name, "disable_") || slices.Contains(switches, one.name) {
			if _, known := truthOf(one.value); !known {
				one.value, one.words = "True", 1
			}
		}
		out = append(out, one)
		i += one.words - 1
	}
	return out
}

// isFlag reports whether a word is one: not a negative number, not a lone dash.
func isFlag(word string) bool {
	if len(word) < 2 || word[0] != '-' {
		return false
	}
	_, err := strconv.ParseFloat(word, 64)
	return err != nil
}

// readArguments keeps the flags as settings.
func (s *seen) readArguments() {
	for _, one := range readFlags(s.engine, s.argv) {
		text := strings.Join(s.argv[one.at:one.at+one.words], " ")
		s.tell(one.name, one.value, byFlag, "flag", text)
	}
	for _, one := range s.env {
		name, value, _ := strings.Cut(one, "=")
		s.tell(name, value, byFlag, "variable", one)
	}
	if s.model == "" || s.root == s.model {
		if model := positional(s.engine, s.argv); model != "" {
			s.root = model
			s.tell("model", model, byFlag, "flag", model)
		}
	}
}

// positional is the model that an argument vector names without a flag: the word behind serve.
func positional(engine string, argv []string) string {
	for i, word := range argv[:max(len(argv)-1, 0)] {
		if (word == "serve" || word == "api_server") && !isFlag(argv[i+1]) && argv[i+1] != "serve" && argv[i+1] != "api_server" && engine != engines.Ollama {
			return argv[i+1]
		}
	}
	return ""
}

// starts are the commands of engines where nobody has told another.
func (s *seen) start() []string {
	model := s.root
	if model == "" {
		model = "MODEL"
	}
	switch s.engine {
	case engines.Ossian:
		if device, told := s.get("device"); told && strings.HasPrefix(device.value, simulated) {
			return []string{"ossian", "serve", model, "--device", device.value}
		}
		return []string{"ossian", "serve", model}
	case engines.VLLM:
		return []string{"vllm", "serve", model}
	case engines.SGLang:
		return []string{"python3", "-m", "sglang.launch_server", "--model-path", model}
	case engines.TensorRTLLM:
		return []string{"trtllm-serve", "serve", model}
	case engines.LlamaCpp:
		if path, ok := s.get("model_path"); ok {
			model = path.value
		}
		return []string{"llama-server", "-m", model, "--metrics"}
	case engines.Ollama:
		return []string{"ollama", "serve"}
	case LMDeploy:
		return []string{"lmdeploy", "serve", "api_server", model}
	}
	return []string{"COMMAND"}
}

// command is the command that starts the server with a change: that which started it, where that
// is known, without the flags that go and with those that come.
func (s *seen) command(change *Change) string {
	if change.Shell != "" {
		return change.Shell
	}
	argv := slices.Clone(s.argv)
	if len(argv) == 0 {
		argv = append(s.start(), s.logged...)
	}
	gone := func(name string) bool {
		if _, set := change.Set[strings.ReplaceAll(name, "_", "-")]; set {
			return true
		}
		return slices.ContainsFunc(change.Remove, func(other string) bool { return canonical(other) == name })
	}
	flags := readFlags(s.engine, argv)
	for _, one := range slices.Backward(flags) {
		if gone(one.name) {
			argv = slices.Delete(argv, one.at, one.at+one.words)
		}
	}
	var before []string
	env := slices.Clone(s.env)
	for _, name := range change.Env {
		env = slices.DeleteFunc(env, func(one string) bool { return strings.HasPrefix(one, name+"=") })
		before = append(before, "-u", name)
	}
	for _, name := range slices.Sorted(maps.Keys(change.Set)) {
		value := change.Set[name]
		switch {
		case s.engine == engines.Ollama: // its settings are variables
			env = slices.DeleteFunc(env, func(one string) bool { return strings.HasPrefix(one, name+"=") })
			env = append(env, name+"="+value)
		case value == "":
			argv = append(argv, "--"+name)
		default:
			argv = append(argv, "--"+name, value)
		}
	}
	words := append(append(slices.Clone(before), env...), argv...)
	if len(before) > 0 {
		words = append([]string{"env"}, words...)
	}
	for i, word := range words {
		words[i] = quote(word)
	}
	return strings.Join(words, " ")
}

// quote is a word that a shell takes as it is.
func quote(word string) string {
	plain := func(letter rune) bool {
		return strings.ContainsRune("-_./=:,+@%*", letter) || (letter >= '0' && letter <= '9') || (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z')
	}
	if word != "" && !strings.ContainsFunc(word, func(letter rune) bool { return !plain(letter) }) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
