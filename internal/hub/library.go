package hub

import (
	"fmt"
	"slices"
	"strings"

	"ossian/internal/lazyregexp"
)

// A libraryModel is a model of Ollama's library whose family this program runs.
type libraryModel struct {
	name  string            // in the library, without a tag
	usual string            // the tag that the bare name stands for
	repos map[string]string // by tag: what the model is called where its authors publish it
}

// library are the models that people know by the names of Ollama's library (ollama.com/library).
var library = []libraryModel{
	{"gpt-oss", "20b", map[string]string{"20b": "openai/gpt-oss-20b", "120b": "openai/gpt-oss-120b"}},
	{"qwen3", "8b", map[string]string{"0.6b": "Qwen/Qwen3-0.6B", "1.7b": "Qwen/Qwen3-1.7B", "4b": "Qwen/Qwen3-4B", "8b": "Qwen/Qwen3-8B", "14b": "Qwen/Qwen3-14B",
		"32b": "Qwen/Qwen3-32B", "30b": "Qwen/Qwen3-30B-A3B", "235b": "Qwen/Qwen3-235B-A22B"}},
	{"llama3.3", "70b", map[string]string{"70b": "meta-llama/Llama-3.3-70B-Instruct"}},
	{"llama3.2", "3b", map[string]string{"1b": "meta-llama/Llama-3.2-1B-Instruct", "3b": "meta-llama/Llama-3.2-3B-Instruct"}},
	{"llama3.1", "8b", map[string]string{"8b": "meta-llama/Llama-3.1-8B-Instruct", "70b": "meta-llama/Llama-3.1-70B-Instruct", "405b": "meta-llama/Llama-3.1-405B-Instruct"}},
	{"llama3", "8b", map[string]string{"8b": "meta-llama/Meta-Llama-3-8B-Instruct", "70b": "meta-llama/Meta-Llama-3-70B-Instruct"}},
	{"smollm2", "1.7b", map[string]string{"135m": "HuggingFaceTB/SmolLM2-135M-Instruct", "360m": "HuggingFaceTB/SmolLM2-360M-Instruct", "1.7b": "HuggingFaceTB/SmolLM2-1.7B-Instruct"}},
}

// otherLibrary are names of the library of which nothing better is known than that they
// are such. Those that are words, too, count only with a number or a tag.
var (
	otherLibrary = []string{"llama", "tinyllama", "codellama", "mistral", "mixtral", "ministral", "devstral", "qwen", "qwq", "gemma", "deepseek", "smollm", "codegemma", "starcoder",
		"wizardlm", "granite", "olmo", "gpt-oss"}
	wordsToo = []string{"phi", "vicuna", "orca", "falcon", "solar", "yi", "command-r", "nemotron", "llava", "magistral", "granite"}
)

// libraryForm is a name of the library, and its tag.
var libraryForm = lazyregexp.New(`^([a-z][a-z0-9.-]*?)(?::([a-z0-9][a-z0-9._-]*))?$`)

// InLibrary reports whether a word can hardly be anything but the name of a model of
// Ollama's library: llama3, qwen3:0.6b, mistral.
func InLibrary(word string) bool {
	found := libraryForm.FindStringSubmatch(strings.ToLower(word))
	if found == nil {
		return false
	}
	name, tag := found[1], found[2]
	numbered := tag != "" || strings.ContainsAny(name, "0123456789")
	// A family is followed by its version or variant: llama3.2, deepseek-r1, phi4.
	of := func(family string) bool {
		rest, ok := strings.CutPrefix(name, family)
		return ok && (rest == "" || (numbered && strings.Trim(rest[:1], "0123456789.-") == ""))
	}
	return slices.ContainsFunc(otherLibrary, of) || slices.ContainsFunc(library, func(m libraryModel) bool { return m.name == name }) ||
		(numbered && slices.ContainsFunc(wordsToo, of))
}

// meant says what to write in place of a text that is no name of a model here but one of
// another tool, to be appended to the error; "" if it is none.
func meant(text string) string {
	bare := strings.ToLower(text)
	if InLibrary(bare) {
		name, tag, _ := strings.Cut(bare, ":")
		for _, model := range library {
			if model.name != name {
				continue
			}
			size, _, _ := strings.Cut(tag, "-") // behind it is how the weights are quantised
			repo := model.repos[model.usual]
			if model.repos[size] != "" {
				repo = model.repos[size]
			}
			return fmt.Sprintf("; %s of Ollama's library is %s here: ossian pull %s", text, repo, repo)
		}
		return "; names of Ollama's library are not known here: ossian pull ORG/NAME fetches a gpt-oss, Qwen3 or Llama model from huggingface.co, or its file ORG/NAME/FILE.gguf"
	}
	// Addresses of the hub, and a quantisation in place of a file.
	rest := text
	for _, prefix := range []string{"https://", "http://", "hf://", "hf:", "hf.co/", "huggingface.co/"} {
		rest = strings.TrimPrefix(rest, prefix)
	}
	repo, kind, tagged := strings.Cut(strings.TrimSuffix(rest, "/"), ":")
	if rest == text && !tagged {
		return ""
	}
	name, err := parseName(repo)
	switch {
	case err != nil:
		return ""
	case tagged:
		return fmt.Sprintf("; of a repository with GGUF files one is named: %s/FILE.gguf, where FILE has %s in it", name, kind)
	}
	return fmt.Sprintf("; write %s", name)
}
