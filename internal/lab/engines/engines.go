// Package engines knows the servers that the lab starts: how each is started and asked, how its flags
// are written, and what its last words mean when it does not come up (lab.md 3.1, 9). It knows no
// campaign; whoever has a plan and a setting asks it for a Server.
package engines

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"ossian/internal/lab/planfile"
)

// Names of the built-in descriptions.
const (
	Ossian      = "ossian"
	VLLM        = "vllm"
	SGLang      = "sglang"
	TensorRTLLM = "tensorrt-llm"
	LlamaCpp    = "llama.cpp"
	Ollama      = "ollama"
)

// Kinds returns the built-in descriptions, by name, as a plan starts from them. Words in braces are
// replaced when a server is started: {model}, {port}, {flags}, {host}, {devices}.
func Kinds() map[string]planfile.Engine {
	words := strings.Fields
	return map[string]planfile.Engine{
		Ossian: {
			Start: words("ossian serve {model} --host {host} --port {port} {flags}"),
			Ready: "/health", Version: words("ossian --version"),
		},
		VLLM: {
			Start: words("vllm serve {model} --host {host} --port {port} {flags}"),
			Ready: "/health", Version: words("vllm --version"),
		},
		SGLang: {
			Start: words("python3 -m sglang.launch_server --model-path {model} --host {host} --port {port} {flags}"),
			Ready: "/health_generate", Version: []string{"python3", "-c", "import sglang; print(sglang.__version__)"},
		},
		TensorRTLLM: {
			Start: words("trtllm-serve serve {model} --host {host} --port {port} {flags}"),
			Ready: "/health", Version: words("trtllm-serve --version"),
		},
		LlamaCpp: {
			Start: words("llama-server -m {model} --host {host} --port {port} --metrics {flags}"),
			Ready: "/health", Version: words("llama-server --version"),
		},
		Ollama: {
			// Its settings are variables of the environment, and the model is loaded by the first request.
			Start: words("ollama serve"), FlagsInEnv: true, Env: map[string]string{"OLLAMA_HOST": "{host}:{port}"},
			Ready: "/api/version", Version: words("ollama --version"),
		},
	}
}

// words of parallelism, by dialect: the product of their values is the number of devices that a
// setting takes.
var parallel = map[string][]string{
	VLLM:        {"tensor-parallel-size", "pipeline-parallel-size", "data-parallel-size"},
	SGLang:      {"tp-size", "tp", "tensor-parallel-size", "pp-size", "dp-size", "dp"},
	TensorRTLLM: {"tp_size", "pp_size"},
}

// Devices is how many cards a setting takes: what its flags of parallelism multiply to, else what the
// plan says of the engine, else one.
func Devices(engine *planfile.Engine, flags map[string]string) int {
	product, said := 1, false
	for _, name := range parallel[engine.Dialect] {
		for flag, value := range all(engine, flags) {
			n, err := strconv.Atoi(value)
			if plain(flag) == plain(name) && err == nil && n > 0 {
				product, said = product*n, true
			}
		}
	}
	if !said && engine.Devices > 0 {
		return engine.Devices
	}
	return product
}

// plain is a flag's name as those tools see it to whom hyphens and underscores are the same.
func plain(flag string) string { return strings.ReplaceAll(flag, "_", "-") }

// all is what a setting adds to the flags that every setting of the engine has.
func all(engine *planfile.Engine, flags map[string]string) map[string]string {
	out := maps.Clone(engine.Flags)
	if out == nil {
		out = map[string]string{}
	}
	maps.Copy(out, flags)
	return out
}

// Command returns the argument vector and the variables by which a setting is started: the flags of
// every setting first, then the others, each in the order of their names.
func Command(engine *planfile.Engine, model string, port int, flags map[string]string) (argv []string, env map[string]string) {
	flags = all(engine, flags)
	var written []string
	env = map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(flags)) {
		if engine.FlagsInEnv {
			env[name] = flags[name]
			continue
		}
		written = append(written, flagWords(engine.Dialect, name, flags[name])...)
	}
	replace := strings.NewReplacer("{model}", model, "{port}", strconv.Itoa(port), "{host}", "127.0.0.1",
		"{devices}", strconv.Itoa(Devices(engine, flags)), "{flags}", strings.Join(quoted(written), " "))
	for name, value := range engine.Env {
		env[name] = replace.Replace(value)
	}
	template := engine.Start
	if engine.Container != nil {
		template = engine.Container.Args
	}
	for _, word := range template {
		if word == "{flags}" && !engine.Shell {
			argv = append(argv, written...)
			continue
		}
		argv = append(argv, replace.Replace(word))
	}
	if engine.Shell {
		return []string{"sh", "-c", strings.Join(argv, " ")}, env
	}
	return argv, env
}

// quoted is words that a shell takes as they are.
func quoted(words []string) (out []string) {
	for _, word := range words {
		if strings.ContainsFunc(word, func(letter rune) bool {
			return !strings.ContainsRune("-_./=:,+@%", letter) && (letter < '0' || letter > 'z' || (letter > '9' && letter < 'A') || (letter > 'Z' && letter < 'a'))
		}) {
			word = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
		}
		out = append(out, word)
	}
	return out
}

// flagWords writes one flag as the engine's command line has it.
func flagWords(dialect, name, value string) []string {
	dashes := "--"
	if len(name) == 1 || (dialect == LlamaCpp && len(name) <= 3) { // -c, -ngl, -fa
		dashes = "-"
	}
	switch {
	case value == "true":
		return []string{dashes + name}
	case value != "false":
		return []string{dashes + name, value}
	}
	switch dialect {
	case SGLang, TensorRTLLM: // a switch is given or not
		return nil
	}
	// To --no-x of tools that have it, to --enable-x and --disable-x of the others.
	if rest, ok := strings.CutPrefix(name, "no-"); ok {
		return []string{"--" + rest}
	}
	return []string{"--no-" + name}
}
