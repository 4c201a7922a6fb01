package check

// Which engine answers. The rules go from what only one engine has to what several may: Ossian
// has vLLM's metric names, gateways have everybody's routes.

import (
	"encoding/json"
	"fmt"
	"strings"

	"ossian/internal/lab/engines"
)

// LMDeploy is an engine that check knows and no plan starts.
const LMDeploy = "lmdeploy"

// Nameless is an engine that is not known.
const Nameless = "unknown"

// owners are what engines put into owned_by of their models.
var owners = map[string]string{"ossian": engines.Ossian, "vllm": engines.VLLM, "sglang": engines.SGLang, "tensorrt_llm": engines.TensorRTLLM,
	"llamacpp": engines.LlamaCpp, "library": engines.Ollama, "lmdeploy": LMDeploy}

// programs are words of an argument vector that name an engine.
var programs = []struct{ word, engine string }{
	{"sglang", engines.SGLang}, {"trtllm-serve", engines.TensorRTLLM}, {"tensorrt_llm", engines.TensorRTLLM}, {"lmdeploy", LMDeploy},
	{"llama-server", engines.LlamaCpp}, {"llama_cpp", engines.LlamaCpp}, {"ollama", engines.Ollama}, {"vllm", engines.VLLM}, {"ossian", engines.Ossian},
}

// identify sets the engine and says by what. Answers count before the command, the command before
// the log.
func (s *seen) identify(log []string) {
	s.engine = Nameless
	known := func(engine, source, text string) {
		if s.engine == Nameless {
			s.engine = engine
		}
		if s.engine == engine {
			s.knownBy = append(s.knownBy, Evidence{source, clip(text)})
		}
	}
	s.byMetrics(known)
	s.byRoutes(known)
	for _, program := range programs {
		if len(s.argv) > 0 && mentions(s.argv, program.word) {
			known(program.engine, "flag", strings.Join(s.argv[:min(len(s.argv), 4)], " "))
			break
		}
	}
	for n, line := range log {
		for _, mark := range logMarks {
			if strings.Contains(line, mark.word) {
				known(mark.engine, fmt.Sprintf("log line %d", n+1), line)
				return
			}
		}
	}
}

// byMetrics recognises engines by names that only they have.
func (s *seen) byMetrics(known func(engine, source, text string)) {
	if labels := s.metrics.Labels("ossian_build_info"); labels != nil {
		known(engines.Ossian, "metric ossian_build_info", "version="+labels["version"])
		return
	}
	for _, mark := range []struct{ prefix, engine string }{{"vllm:", engines.VLLM}, {"sglang:", engines.SGLang}, {"sglang_", engines.SGLang},
		{"llamacpp:", engines.LlamaCpp}, {"lmdeploy:", LMDeploy}, {"trtllm_", engines.TensorRTLLM}} {
		if s.metrics.Has(mark.prefix) {
			known(mark.engine, "route /metrics", "names that begin with "+mark.prefix)
		}
	}
	var iterations []struct {
		Latency *float64 `json:"iterLatencyMS"`
	}
	if json.Unmarshal(s.body("/metrics"), &iterations) == nil && len(iterations) > 0 && iterations[0].Latency != nil {
		known(engines.TensorRTLLM, "route /metrics", "a JSON list with iterLatencyMS")
	}
}

// byRoutes recognises engines by their answers to other routes.
func (s *seen) byRoutes(known func(engine, source, text string)) {
	var list struct {
		Data []struct {
			Owner string `json:"owned_by"`
		} `json:"data"`
	}
	if json.Unmarshal(s.body("/v1/models"), &list) == nil && len(list.Data) > 0 {
		if engine, ok := owners[list.Data[0].Owner]; ok {
			known(engine, "route /v1/models", "owned_by="+list.Data[0].Owner)
		}
	}
	for _, mark := range []struct{ route, member, engine string }{{"/get_server_info", "disable_radix_cache", engines.SGLang},
		{"/props", "default_generation_settings", engines.LlamaCpp}, {"/api/ps", "models", engines.Ollama}} {
		var members map[string]json.RawMessage
		if json.Unmarshal(s.body(mark.route), &members) == nil && members[mark.member] != nil {
			known(mark.engine, "route "+mark.route, "has "+mark.member)
		}
	}
	for _, one := range s.asked {
		if one.server == "llama.cpp" {
			known(engines.LlamaCpp, "route "+one.Route, "header Server: llama.cpp")
			break
		}
	}
}

// mentions reports whether the program of an argument vector is called so: one of its first words,
// before flags that have nothing to do with it.
func mentions(argv []string, word string) bool {
	for _, one := range argv[:min(len(argv), 3)] {
		base := one[strings.LastIndexByte(one, '/')+1:]
		if base == word || strings.HasPrefix(base, word+".") || strings.HasPrefix(base, word+"_") {
			return true
		}
	}
	return false
}
